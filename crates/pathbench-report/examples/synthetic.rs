//! Writes the reports of the synthetic results to a directory for inspection; with a second argument only those whose
//! name begins with it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints its measurements")]

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use pathbench_report::terminal::{Style, summary};
use pathbench_report::{FigureFormat, ResultSet, write};
use std::path::PathBuf;

fn main() -> Result<(), pathbench_report::ReportWriteError> {
    let out = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "/tmp/pathbench-synthetic".to_owned()));
    let only = std::env::args().nth(2).unwrap_or_default();
    let gallery: Vec<(&str, ResultSet)> = vec![
        ("mtu-probing", synthetic::probing()),
        ("mtu-shrink", synthetic::shrink()),
        ("mtu", synthetic::examined()),
        ("suite", synthetic::suite()),
        ("handover", synthetic::handover()),
        ("walk", synthetic::walk()),
        ("silence", synthetic::silence()),
        ("failover", synthetic::failover()),
        ("aggregate", synthetic::aggregate(6, false)),
        ("both-directions", synthetic::aggregate(1, true)),
        ("study", synthetic::study()),
        ("forty", synthetic::forty_labels()),
        ("invalid", synthetic::all_invalid()),
        ("nothing", synthetic::nothing("nothing", "no run")),
        ("hostile", synthetic::hostile()),
    ];
    for (name, mut set) in gallery.into_iter().filter(|(name, _)| name.starts_with(&only)) {
        let directory = out.join(name);
        write(std::slice::from_ref(&set), &directory, FigureFormat::SvgAndPng)?;
        set.directory = Some(directory);
        for width in [80, 120] {
            println!("──── {name} at {width}\n{}", summary(&set, Style { colour: width == 120, width }));
        }
    }
    write(
        &[synthetic::aggregate(6, false), synthetic::aggregate(3, true)],
        &out.join("several"),
        FigureFormat::SvgAndPng,
    )?;
    Ok(())
}
