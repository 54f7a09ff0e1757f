//! `pathbench report`: the report of finished results, their comparison, their figures and their export.

mod arguments;
mod compare;
mod export;
mod join;
mod trace;

use crate::result::{ReportDirectory, open, present_written, summary, write};
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_record::document::ResultDocument;
use pathbench_record::schema::FileSchema;
use pathbench_record::time::SharedClock;
use std::fs;

pub(crate) use arguments::ReportArgs;

pub(crate) fn report(args: &ReportArgs, clock: &SharedClock) -> Result<Exit, Failure> {
    if let Some(file) = args.schema.as_deref().and_then(FileSchema::named) {
        output::print_json(&file.schema())?;
        return Ok(Exit::Done);
    }
    if let Some(done) = trace::report(args)? {
        return Ok(done);
    }
    let paths = args.compare.baseline().into_iter().chain(&args.runs);
    let mut sets = paths.map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let mut out = args.out.as_deref();
    if !args.compare.is_requested() && sets.iter().any(join::is_shard) && (sets.len() > 1 || args.partial) {
        // The joined result is in --out, and so is its report.
        sets = vec![join::join_captures(sets, out.take(), args.partial)?];
    }
    if !args.export.is_empty() {
        export::export(&sets, &args.export, out, &clock.rfc3339())?;
        return Ok(Exit::Done);
    }
    // Before anything is written.
    let compared = args.compare.compare(&sets)?;
    let target = match (out, args.json) {
        (Some(out), _) => Some(ReportDirectory::from_option(out, &sets)?),
        (None, true) => None,
        (None, false) => Some(ReportDirectory::beside_results(&sets, &clock.rfc3339())?),
    };
    let written = target.as_ref().map_or(Ok(()), |target| {
        write(&sets, &target.path, args.figure_format()).inspect_err(|_| {
            if target.is_new {
                // The incomplete report.
                let _stays = fs::remove_dir_all(&target.path);
            }
        })
    });
    let target = target.filter(|_| written.is_ok());
    present_written(written, || match &compared {
        Some(compared) => {
            args.compare.print(compared, &sets, args.json)?;
            if let Some(target) = target.filter(|_| !args.json) {
                output::note(format_args!("{}", target.path.join("report.html").display()));
            }
            Ok(())
        }
        None if args.json => {
            let documents: Vec<&ResultDocument> = sets.iter().map(|set| &set.document).collect();
            output::print_json(&documents)
        }
        None => {
            let mut parts =
                sets.iter().map(|set| summary(set, args.brief)).collect::<Result<Vec<String>, Failure>>()?;
            // The summary names a result's own report.
            if let Some(target) = target.filter(|target| out.is_some() || target.is_new) {
                parts.push(format!("{}\n", target.path.join("report.html").display()));
            }
            output::print(&parts.concat())
        }
    })?;
    Ok(if compared.is_some_and(|compared| compared.is_failed()) { Exit::ConditionHolds } else { Exit::Done })
}
