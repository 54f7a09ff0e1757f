//! Speed and memory of the analysis of captures (docs/performance.md).
//!
//! ```text
//! cargo bench -p pathbench-trace --bench analysis [-- ROUNDS [WORD OF A CASE'S NAME]]
//! cargo bench -p pathbench-trace --bench analysis -- memory
//! cargo bench -p pathbench-trace --bench analysis -- write CASE FILE
//! ```
//! Every round measures all cases, so that other load on the machine affects all of them alike.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints its measurements")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures against the clock")]

mod generator;

use generator::{Generator, Traffic};
use pathbench_record::trace::TraceDocument;
use pathbench_trace::analysis::{AnalysisParameters, analyse, open};
use pathbench_trace::quic::Quic;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::time::Instant;

/// Long enough for every join; the handshakes are a small part.
const fn headers(connections: u32) -> Traffic {
    Traffic { connections, subflows: 2, live: usize::MAX, payload: 1_420, snap: 96, packets: 3_000_000 }
}

const TCP: Traffic = Traffic { subflows: 0, packets: 4_000_000, ..headers(25_000) };

const CASES: [(&str, Traffic); 6] = [
    ("TCP, 25,000 connections at once", TCP),
    ("TCP, 25,000 connections in turn", Traffic { live: 200, ..TCP }),
    ("headers, 10,000 subflows", headers(5_000)),
    ("headers, 20 subflows", headers(10)),
    ("whole packets, 10,000 subflows", Traffic { snap: 65_535, packets: 1_000_000, ..headers(5_000) }),
    ("GSO packets, 20 subflows", Traffic { payload: 62_000, snap: 65_535, packets: 30_000, ..headers(10) }),
];

/// 10 GB of whole packets.
const MEMORY: Traffic = Traffic {
    connections: 10_000,
    subflows: 2,
    live: usize::MAX,
    payload: 1_420,
    snap: 65_535,
    packets: 9_300_000,
};

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds `--bench`.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["memory"] => memory(),
        ["write", case, path] => write(case, path),
        rest => {
            speed(rest.first().map_or(Ok(5), |rounds| rounds.parse())?, rest.get(1).copied().unwrap_or(""))
        }
    }
}

fn analysed(capture: impl Read) -> Result<TraceDocument, Box<dyn Error>> {
    let source = open("generated".to_owned(), capture)?;
    Ok(analyse(vec![source], &AnalysisParameters { most: 20, seed: 1 }, Quic::new(None), ()).document)
}

fn speed(rounds: usize, word: &str) -> Result<(), Box<dyn Error>> {
    let mut cases = Vec::new();
    for (name, traffic) in CASES.into_iter().filter(|(name, _)| name.contains(word)) {
        let mut bytes = Vec::new();
        Generator::new(traffic).read_to_end(&mut bytes)?;
        cases.push((name, traffic.packets, bytes, Vec::new()));
    }
    for round in 0..rounds {
        for (name, packets, bytes, seconds) in &mut cases {
            eprintln!("round {} of {rounds}: {name}", round + 1);
            let begun = Instant::now();
            let document = analysed(bytes.as_slice())?;
            seconds.push(begun.elapsed().as_secs_f64());
            assert_eq!(document.captures.iter().map(|capture| capture.packets).sum::<u64>(), *packets);
        }
    }
    println!("{:<34}{:>12}{:>12}   (least to most)", "", "M packets/s", "GB/s");
    for (name, packets, bytes, mut seconds) in cases {
        seconds.sort_by(f64::total_cmp);
        let rate = |amount: f64, rank: usize| amount / seconds[rank];
        let (last, middle) = (seconds.len() - 1, seconds.len() / 2);
        let millions = packets as f64 / 1e6;
        println!(
            "{name:<34}{:>12.2}{:>12.2}   ({:.2} to {:.2} M packets/s)",
            rate(millions, middle),
            rate(bytes.len() as f64 / 1e9, middle),
            rate(millions, last),
            rate(millions, 0)
        );
    }
    Ok(())
}

/// Peak memory of a capture that is never in memory.
fn memory() -> Result<(), Box<dyn Error>> {
    let before = peak_kb()?;
    let document = analysed(Generator::new(MEMORY))?;
    let capture = &document.captures[0];
    println!(
        "{:.1} GB, {} packets, {} connections, {} subflows: peak {:.0} MB, of which the generator {:.0} MB",
        capture.captured_bytes as f64 / 1e9,
        capture.packets,
        document.totals.mptcp_connections,
        document.totals.mptcp_subflows,
        peak_kb()? as f64 / 1e3,
        before as f64 / 1e3
    );
    Ok(())
}

fn peak_kb() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    Ok(peak.ok_or("no VmHWM in /proc/self/status")?.parse()?)
}

fn write(case: &str, path: &str) -> Result<(), Box<dyn Error>> {
    let traffic = CASES.iter().find(|(name, _)| name.contains(case)).ok_or("no such case")?.1;
    std::io::copy(&mut Generator::new(traffic), &mut File::create(path)?)?;
    Ok(())
}
