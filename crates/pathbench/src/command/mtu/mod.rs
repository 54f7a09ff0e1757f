//! `mtu`: the MTU of each path to a server, the kernel's path-MTU state, and its correction.
//!
//! The command reads the kernel's state first, because ICMP answers to probes change it. Then it probes all paths in
//! parallel, one thread each, and compares both. `pathbench-host` plans the changes and keeps the journal.

mod examination;
mod monitor;
mod remedy;

use crate::arguments::MtuArgs;
use crate::session::MeasurementSession;
use crate::{journal, result};
use monitor::Monitor;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_record::directory::ResultWriter;
use pathbench_record::document::MtuRecord;
use pathbench_record::network::ServerName;
use pathbench_record::time::SharedClock;
use pathbench_report::FigureFormat;
use remedy::RemedyApplication;
use serde_json::Map;
use std::time::Duration;

/// Shorter intervals would load the network.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn mtu(args: &MtuArgs, clock: &SharedClock) -> Result<Exit, Failure> {
    let open = || RemedyApplication::open(&journal::create_file("mtu", args.journal.as_deref())?);
    let Some(given) = &args.server else {
        let undone = open()?.undo(args.force);
        let printed = output::print(&undone.restored);
        return undone.ending.and(printed).map(|()| Exit::Done);
    };
    let server = ServerName::parse(given, args.connection.port).map_err(Failure::bad_input)?;
    if args.interval.0 < SHORTEST_INTERVAL {
        return Err(Failure::bad_input(format!("--interval {}: at least 100ms", args.interval)));
    }
    if args.output.json_stream && !args.watch {
        return Err(Failure::bad_input(
            "--json-stream: only with --watch; --json prints a single examination",
        ));
    }
    let application = if args.apply { Some(open()?) } else { None };
    let mut session = MeasurementSession::begin("mtu", &args.output, false, Some(0), Map::new(), clock);
    session.document.scenario.description = format!("The MTU of each path to {server}");
    let wants_result = session.wants_result();
    let writer = if wants_result { Some(session.create_result()?) } else { None };
    let findings = Monitor::new(args, server, application, &session).and_then(Monitor::run);
    let ending = findings.and_then(|(record, failure)| write(record, failure, args, writer, &mut session));
    session.finish(ending)
}

/// Writes the result and prints the document.
fn write(
    record: MtuRecord,
    failure: Option<Failure>,
    args: &MtuArgs,
    writer: Option<ResultWriter>,
    session: &mut MeasurementSession,
) -> Result<Exit, Failure> {
    session.document.mtu = Some(record);
    if let Some(writer) = writer {
        let directory = writer.path.clone();
        writer.finish(&session.document).map_err(Failure::failed)?;
        if !args.output.no_report {
            result::write(&[result::open(&directory)?], &directory, FigureFormat::Svg)?;
            session.progress.line(directory.join("report.html").display());
        }
    }
    if args.output.json {
        output::print_json(&session.document)?;
    }
    failure.map_or(Ok(Exit::Done), Err)
}
