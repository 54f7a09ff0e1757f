//! `pathbench trace`: the analysis of packet captures.

mod input;
mod live;
mod second_pass;

use crate::result::{present_written, report_line, style};
use clap::Args;
use live::{Captures, LiveArguments};
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::{output, random};
use pathbench_record::directory::{create_empty, write_sequences, write_trace};
use pathbench_record::file::OpenDirectory;
use pathbench_record::time::SharedClock;
use pathbench_record::trace::TraceDocument;
use pathbench_report::export::{self, ExportFormat};
use pathbench_report::{FigureFormat, trace as report};
use pathbench_trace::analysis::{Analysis, AnalysisParameters, analyse};
use pathbench_trace::quic::Quic;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Captures in pcap or pcapng format, also compressed with gzip or zstd; `-` is standard input. Several captures of
    /// one connection, of several interfaces or at both ends, are analysed together
    #[arg(required_unless_present = "live", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    live: LiveArguments,
    /// Show the N connections with the most payload; totals count all
    #[arg(long, value_name = "N", default_value = "20")]
    most: NonZeroUsize,
    /// TLS secrets of QUIC connections, a file in the format of SSLKEYLOGFILE
    #[arg(long, value_name = "FILE")]
    keylog: Option<PathBuf>,
    /// New or empty directory for trace.json, report.html, the figures, the tables, and time-sequence graphs of the 20
    /// TCP connections with the most payload. The captures are read twice
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also write the packets of these connections to captures/connection-N.pcapng in the directory, with a comment on
    /// each packet
    #[arg(long, requires = "out", conflicts_with = "live")]
    pcapng: bool,
    /// Print the result document as JSON instead of the summary
    #[arg(long)]
    json: bool,
}

pub(crate) fn trace(args: &TraceArgs, clock: &SharedClock) -> Result<Exit, Failure> {
    let parameters = AnalysisParameters { most: args.most.get(), seed: random::seed() };
    let Some(read) = read(args, &parameters, clock)? else {
        // Each file has its message.
        return Ok(Exit::BadInput);
    };
    let document = &read.first.document;
    warn(document);
    let written = args.out.as_deref().map_or(Ok(()), |out| {
        read.write(out, &parameters, args.pcapng).inspect_err(|_| {
            // The incomplete result.
            let _stays = fs::remove_dir_all(out);
        })
    });
    let report = args.out.as_deref().filter(|_| written.is_ok()).map(report_line);
    present_written(written, || {
        if args.json {
            return output::print_json(document);
        }
        let mut text = pathbench_report::terminal::trace(document, style());
        text.extend(report);
        output::print(&text)
    })?;
    Ok(Exit::Done)
}

/// The result, and the captures for a second pass.
struct Read {
    first: Analysis<()>,
    captures: Vec<PathBuf>,
    /// An input that cannot be read twice.
    unrepeatable: Option<String>,
}

/// `None` if no file can be read.
fn read(
    args: &TraceArgs,
    parameters: &AnalysisParameters,
    clock: &SharedClock,
) -> Result<Option<Read>, Failure> {
    let create = || args.out.as_deref().map_or(Ok(()), |out| create_empty(out).map_err(Failure::bad_input));
    if !args.live.live.is_empty() {
        let captures = Captures::open(&args.live)?;
        create()?;
        let document = captures.analyse(parameters, Quic::new(None), clock);
        let first = Analysis { document, sequence: (), origin_ns: 0, interfaces: Vec::new() };
        let unrepeatable = Some("a live capture".to_owned());
        return Ok(Some(Read { first, captures: Vec::new(), unrepeatable }));
    }
    let keylog = args.keylog.as_deref().map(input::keylog).transpose()?;
    let inputs = input::open_all(&args.files)?;
    if inputs.sources.is_empty() {
        return Ok(None);
    }
    if args.pcapng
        && let Some(name) = &inputs.unrepeatable
    {
        return Err(Failure::bad_input(format!(
            "--pcapng reads the captures twice, but {name} can be read once only; write the capture to a file"
        )));
    }
    create()?;
    let first = analyse(inputs.sources, parameters, Quic::new(keylog), ());
    Ok(Some(Read { first, captures: inputs.files, unrepeatable: inputs.unrepeatable }))
}

fn cannot_create(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot create {}: {error}", path.display()))
}

/// Damage ends the analysis of one capture only.
fn warn(document: &TraceDocument) {
    for capture in &document.captures {
        if let Some(damage) = &capture.damage {
            let packets = capture.packets;
            output::note(format_args!(
                "pathbench: warning: {}: {damage}; the {packets} packets before it are analysed",
                capture.file
            ));
        }
        if let Some(dropped) = capture.dropped_packets {
            output::note(format_args!(
                "pathbench: warning: {}: {dropped} packets were dropped, because they arrived faster than they were \
                 analysed; `--snap-length 128` captures headers only",
                capture.file
            ));
        }
    }
}

impl Read {
    fn write(&self, out: &Path, parameters: &AnalysisParameters, pcapng: bool) -> Result<(), Failure> {
        let Self { first, captures, .. } = self;
        let document = &first.document;
        write_trace(out, document).map_err(Failure::failed)?;
        let directory = OpenDirectory::open(out).map_err(|error| cannot_create(out, &error))?;
        let lines = match &self.unrepeatable {
            None => second_pass::run(captures, first, parameters, pcapng.then_some(out))?,
            Some(name) => {
                output::note(format_args!(
                    "pathbench: warning: {name} cannot be read twice: {} has no time-sequence graphs; write the capture \
                     to a file for them",
                    out.display()
                ));
                Vec::new()
            }
        };
        if !lines.is_empty() {
            write_sequences(out, &lines).map_err(Failure::failed)?;
            let xplot =
                directory.subdirectory("xplot").map_err(|error| cannot_create(&out.join("xplot"), &error))?;
            export::write_xplot(document, &lines, &xplot).map_err(Failure::failed)?;
        }
        report::write(document, &lines, out, FigureFormat::Svg).map_err(Failure::failed)?;
        export::write_trace(document, ExportFormat::Csv, &directory).map_err(Failure::failed)?;
        Ok(())
    }
}
