//! `pathbench trace`: the analysis of packet captures.

mod input;
mod second_pass;

use crate::exit::{Exit, Failure};
use crate::{output, random};
use clap::Args;
use pathbench_record::directory::{create_empty, write_sequences, write_trace};
use pathbench_record::trace::TraceDocument;
use pathbench_report::export::{self, ExportFormat};
use pathbench_report::{FigureFormat, trace as report};
use pathbench_trace::analysis::{Analysis, Parameters, analyse};
use pathbench_trace::quic::Quic;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Captures in pcap or pcapng format, also compressed with gzip or zstd; `-` is standard input. Several captures of
    /// one connection, of several interfaces or at both ends, are analysed together
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
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
    #[arg(long, requires = "out")]
    pcapng: bool,
    /// Print the result document as JSON instead of the summary
    #[arg(long)]
    json: bool,
}

pub(crate) fn trace(args: &TraceArgs) -> Result<Exit, Failure> {
    let keylog = args.keylog.as_deref().map(input::keylog).transpose()?;
    let inputs = input::open_all(&args.files)?;
    if inputs.sources.is_empty() {
        // Each file has its message.
        return Ok(Exit::BadInput);
    }
    if args.pcapng {
        inputs.refuse_unrepeatable()?;
    }
    if let Some(out) = &args.out {
        create_empty(out).map_err(Failure::bad_input)?;
    }
    let parameters = Parameters { most: args.most.get(), seed: random::seed() };
    let first = analyse(inputs.sources, &parameters, Quic::new(keylog), ());
    warn(&first.document);
    if let Some(out) = &args.out {
        let files = Files { out, captures: &inputs.files, unrepeatable: inputs.unrepeatable.as_deref() };
        files.write(&first, &parameters, args.pcapng).inspect_err(|_| {
            // The incomplete result.
            let _stays = fs::remove_dir_all(out);
        })?;
    }
    let document = first.document;
    if args.json {
        output::print_json(&document)?;
    } else {
        let mut text = pathbench_report::terminal::trace(&document, output::style());
        text.extend(args.out.as_deref().map(output::report_line));
        output::print(&text)?;
    }
    Ok(Exit::Done)
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
    }
}

/// The files that the command writes, and the captures for a second pass.
struct Files<'a> {
    out: &'a Path,
    captures: &'a [PathBuf],
    /// An input that cannot be read twice.
    unrepeatable: Option<&'a str>,
}

impl Files<'_> {
    fn write(&self, first: &Analysis<()>, parameters: &Parameters, pcapng: bool) -> Result<(), Failure> {
        let (document, out) = (&first.document, self.out);
        write_trace(out, document).map_err(Failure::failed)?;
        let lines = match self.unrepeatable {
            None => second_pass::run(self.captures, first, parameters, pcapng.then_some(out))?,
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
            export::write_xplot(document, &lines, &out.join("xplot")).map_err(Failure::failed)?;
        }
        report::write(document, &lines, out, FigureFormat::Svg).map_err(Failure::failed)?;
        export::write_trace(document, ExportFormat::Csv, out).map_err(Failure::failed)?;
        Ok(())
    }
}
