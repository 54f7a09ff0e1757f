//! `lab import-trace`: shows the quantities of a trace with their units, and writes them as tables that scenarios read.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use pathbench_link::RateModel;
use pathbench_link::trace::{
    self, MAX_BYTES, RateUnit, TimeUnit, TraceContent, TraceFormat, TraceOptions, TraceSummary,
};
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_record::direction::Direction;
use pathbench_record::file;
use pathbench_record::text::{duration, duration_s, plain, printable, scaled};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const READABLE: u32 = 0o666;
const BIT_RATES: [(f64, &str); 4] = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TraceDirection {
    Upload,
    Download,
}

#[derive(Debug, Args)]
pub(crate) struct ImportTraceArgs {
    /// Trace of a real link: Mahimahi, `CellReplay`, Pensieve, CSV, `AlphaRTC`'s JSON, `LeoReplayer`'s delays, output of IRTT
    /// or ping
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Format of the file [default: as the file looks]
    #[arg(long, value_name = "NAME", value_parser = named(&TraceFormat::ALL, TraceFormat::name))]
    format: Option<TraceFormat>,
    /// Unit of the rates, required where neither the format nor the column's name has one
    #[arg(long, value_name = "UNIT", value_parser = named(&RateUnit::ALL, RateUnit::name))]
    unit: Option<RateUnit>,
    /// Unit of the delays, required where the column's name has none
    #[arg(long, value_name = "UNIT", value_parser = named(&TimeUnit::ALL, TimeUnit::name))]
    delay_unit: Option<TimeUnit>,
    /// Read this column of a CSV file (repeatable) [default: the columns whose names fit]
    #[arg(long = "column", value_name = "NAME")]
    columns: Vec<String>,
    /// Direction, of a file that has both
    #[arg(long, value_enum)]
    direction: Option<TraceDirection>,
    /// Write NAME-rate.csv, NAME-delay.csv and NAME-loss.csv, which must not exist [default: write nothing]
    #[arg(long, value_name = "NAME")]
    out: Option<PathBuf>,
}

fn named<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let names: Vec<&'static str> = all.iter().map(|one| name(*one)).collect();
    PossibleValuesParser::new(names).map(move |given| {
        let known = all.iter().copied().find(|one| name(*one) == given);
        known.unwrap_or(all[0])
    })
}

pub(crate) fn import_trace(args: &ImportTraceArgs) -> Result<Exit, Failure> {
    let shown = printable(&args.file.display().to_string(), 200);
    let bytes = file::read_named(&args.file, MAX_BYTES as u64)
        .map_err(|error| Failure::bad_input(format!("cannot read {shown}: {error}")))?;
    let options = TraceOptions {
        format: args.format,
        unit: args.unit,
        delay_unit: args.delay_unit,
        columns: args.columns.clone(),
        direction: args.direction.map(|direction| match direction {
            TraceDirection::Upload => Direction::Upload,
            TraceDirection::Download => Direction::Download,
        }),
    };
    let content =
        trace::import(&bytes, &options).map_err(|error| Failure::bad_input(format!("{shown}: {error}")))?;
    let mut text = format!("{shown}: {}\n", content.format.name());
    text.push_str(&figures(&content));
    for note in &content.notes {
        let _infallible = writeln!(text, "  {note}");
    }
    match &args.out {
        Some(out) => {
            let files = write(out, &content)?;
            text.push_str("in a [[path]] or in its table of a direction:\n");
            for (key, file) in files {
                let _infallible = writeln!(text, "{key} = {}", quoted(&file));
            }
        }
        None => text.push_str(&direct_use(args, &content)),
    }
    output::print(&text)?;
    Ok(Exit::Done)
}

/// A line of each quantity.
fn figures(content: &TraceContent) -> String {
    let mut text = String::new();
    let mut line = |name: &str, summary: Option<TraceSummary>, show: &dyn Fn(f64) -> String| {
        let Some(summary) = summary else { return };
        let time = summary.duration.map_or_else(|| "one value".to_owned(), duration);
        let [mean, least, most] = [summary.mean, summary.least, summary.most].map(show);
        let _infallible = writeln!(text, "  {name:<6} {time}, mean {mean}, min {least}, max {most}");
    };
    let rate = content.rate.as_ref().and_then(TraceSummary::from_rate);
    line("rate", rate, &|bps| plain(&scaled(bps, &BIT_RATES)));
    let delay = content.delay.as_ref().and_then(TraceSummary::from_delay);
    line("delay", delay, &duration_s);
    let loss = content.loss.as_ref().and_then(TraceSummary::from_loss);
    line("loss", loss, &|loss| format!("{:.2} %", loss * 100.0));
    text
}

/// Writes a table for each quantity; returns the scenario's keys with their files. Formats whose values are no steps stay
/// in their own file.
fn write(out: &Path, content: &TraceContent) -> Result<Vec<(&'static str, PathBuf)>, Failure> {
    let rate = match &content.rate {
        Some(RateModel::Steps(steps)) => Some(trace::rate_table(steps)),
        Some(_) => {
            return Err(Failure::bad_input(format!(
                "--out: a scenario reads {} as it is (rate_trace = \"FILE\"); leave --out out",
                content.format.name()
            )));
        }
        None => None,
    };
    let tables = [
        ("rate_trace", "rate", rate),
        ("delay_trace", "delay", content.delay.as_ref().map(trace::delay_table)),
        ("loss_trace", "loss", content.loss.as_ref().map(trace::loss_table)),
    ];
    let mut files = Vec::new();
    for (key, name, table) in tables {
        let Some(table) = table else { continue };
        let mut file = out.as_os_str().to_owned();
        file.push(format!("-{name}.csv"));
        let file = PathBuf::from(file);
        output::create_file(&file, READABLE, &table)?;
        files.push((key, file));
    }
    Ok(files)
}

/// The scenario's lines that read the file itself.
fn direct_use(args: &ImportTraceArgs, content: &TraceContent) -> String {
    if args.delay_unit.is_some() || !args.columns.is_empty() || args.direction.is_some() {
        return "nothing is written; --out NAME writes tables that a scenario reads\n".to_owned();
    }
    let (file, format) = (quoted(&args.file), content.format.name());
    let mut text =
        "in a [[path]] or in its table of a direction (--out NAME writes plain tables):\n".to_owned();
    let mut use_of = |key: &str| {
        let _infallible = writeln!(text, "{key} = {file}\n{key}_format = \"{format}\"");
    };
    for (key, is_there) in [("rate_trace", content.rate.is_some()), ("delay_trace", content.delay.is_some())]
    {
        if is_there {
            use_of(key);
        }
    }
    if content.loss.is_some() {
        use_of("loss_trace");
    }
    if let (Some(unit), true) = (args.unit, content.rate.is_some()) {
        let _infallible = writeln!(text, "rate_trace_unit = \"{}\"", unit.name());
    }
    text
}

fn quoted(path: &Path) -> String {
    serde_json::Value::from(path.display().to_string().replace(char::is_control, " ")).to_string()
}
