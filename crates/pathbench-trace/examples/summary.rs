//! Prints the analysis of captures as JSON: `cargo run --release -p pathbench-trace --example summary FILE…`

#![allow(clippy::print_stdout, reason = "it prints its result")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

use pathbench_trace::analysis::{AnalysisParameters, analyse, open};
use pathbench_trace::quic::Quic;

fn main() {
    let sources = std::env::args().skip(1).filter_map(|name| {
        let file = std::fs::File::open(&name).ok()?;
        open(name, file).ok()
    });
    let parameters = AnalysisParameters { most: 5, seed: 1 };
    let document = analyse(sources.collect(), &parameters, Quic::new(None), ()).document;
    println!("{}", serde_json::to_string_pretty(&document).unwrap_or_default());
}
