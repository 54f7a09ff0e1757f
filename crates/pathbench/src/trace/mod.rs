//! `pathbench trace`: the analysis of packet captures.

mod input;

use crate::exit::{Exit, Failure};
use crate::{output, random};
use clap::Args;
use pathbench_record::directory::{create_empty, write_trace};
use pathbench_record::trace::TraceDocument;
use pathbench_report::export::{self, ExportFormat};
use pathbench_report::{FigureFormat, trace as report};
use pathbench_trace::analysis::{Parameters, analyse};
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
    /// New or empty directory for trace.json, report.html, the figures, connections.csv and subflows.csv
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the result document as JSON instead of the summary
    #[arg(long)]
    json: bool,
}

pub(crate) fn trace(args: &TraceArgs) -> Result<Exit, Failure> {
    let keylog = args.keylog.as_deref().map(input::keylog).transpose()?;
    let inputs = input::open_all(&args.files)?;
    if inputs.is_empty() {
        // Each file has its message.
        return Ok(Exit::BadInput);
    }
    if let Some(out) = &args.out {
        create_empty(out).map_err(Failure::bad_input)?;
    }
    let parameters = Parameters { most: args.most.get(), seed: random::seed() };
    let (document, ()) = analyse(inputs, &parameters, Quic::new(keylog), ());
    warn(&document);
    if let Some(out) = &args.out {
        write(&document, out)?;
    }
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

fn write(document: &TraceDocument, out: &Path) -> Result<(), Failure> {
    let written = write_trace(out, document).map_err(Failure::failed);
    let written = written.and_then(|_| {
        report::write(document, out, FigureFormat::Svg).map_err(Failure::failed)?;
        export::write_trace(document, ExportFormat::Csv, out).map_err(Failure::failed)
    });
    written.map(drop).inspect_err(|_| {
        // The incomplete result.
        let _stays = fs::remove_dir_all(out);
    })
}
