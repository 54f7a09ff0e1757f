//! quic against the perf program of the library it is built on: the same lab, one unshaped path, in turn.
//!
//! `NOQ_PERF=/path/to/noq-perf cargo bench --bench quic [-- ROUNDS SECONDS [MTU]]`, on an otherwise idle machine.
//! docs/performance.md describes how to build noq-perf.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the benchmark prints its results")]

mod support;

use pathbench_lab::scenario::VariantPlan;
use pathbench_record::direction::DataDirection;
use pathbench_record::statistics::median;
use pathbench_record::transport::Transport;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use support::transfer::{self, Figures, addresses, build};

/// UDP and IPv4 headers.
const HEADERS_BYTES: u64 = 28;

fn main() -> ExitCode {
    support::in_lab_namespaces(|| {
        let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
        let number = |index: usize, default| numbers.get(index).copied().unwrap_or(default);
        compare(number(0, 8), number(1, 5), number(2, 1500))
    })
}

fn compare(rounds: u64, seconds: u64, mtu: u64) -> Result<(), String> {
    let perf = std::env::var("NOQ_PERF").map_err(|_| "NOQ_PERF must name the library's perf program")?;
    let plan = support::variant(&format!(
        "name = \"quic\"\ndescription = \"one unshaped path\"\n[[path]]\nname = \"eth\"\nmtu = {mtu}\n"
    ))?;
    let ours = || -> Result<(Figures, u32), String> {
        let (figures, outcome) =
            transfer::pathbench(&plan, Transport::Quic, DataDirection::Download, seconds)?;
        let paths = outcome.server.iter().flat_map(|server| &server.streams).flat_map(|stream| &stream.paths);
        Ok((figures, paths.map(|path| path.pmtu_bytes).max().unwrap_or_default()))
    };
    let (mut a, mut b) = (Vec::new(), Vec::new());
    println!("round  pathbench Gbit/s  CPU s/GB  path MTU   noq-perf Gbit/s  CPU s/GB");
    for round in 0..rounds {
        // Who goes first alternates, so that neither always meets the warmer machine.
        let ((own, pmtu), library) = if round % 2 == 0 {
            (ours()?, noq_perf(&perf, &plan, seconds, mtu)?)
        } else {
            let library = noq_perf(&perf, &plan, seconds, mtu)?;
            (ours()?, library)
        };
        println!(
            "{:5}  {:16.2}  {:8.3}  {pmtu:8}   {:15.2}  {:8.3}",
            round + 1,
            own.gbps,
            own.cpu_seconds_per_gb,
            library.gbps,
            library.cpu_seconds_per_gb
        );
        a.push(own.gbps);
        b.push(library.gbps);
    }
    let (ratio, interval) = support::paired_ratio(&b, &a).ok_or("too few rounds")?;
    println!(
        "goodput: pathbench {:.3}, noq-perf {:.3} Gbit/s (medians), ratio {:.2}{}",
        median(&a).unwrap_or_default(),
        median(&b).unwrap_or_default(),
        ratio,
        interval
    );
    Ok(())
}

/// A download for some seconds with the library's program, its UDP payload as large as the link takes.
fn noq_perf(perf: &str, plan: &VariantPlan, seconds: u64, mtu: u64) -> Result<Figures, String> {
    let environment = build(plan)?;
    let (_, remote) = addresses(plan)?;
    let words = |error: &dyn std::error::Error| format!("{perf}: {error}");
    let payload = (mtu - HEADERS_BYTES).to_string();
    let before = support::children_cpu();
    let mut server = environment
        .spawn(
            "server",
            Command::new(perf)
                .args(["server", "--congestion", "cubic", "--max-udp-payload-size", &payload])
                .args(["--listen", &format!("{remote}:4433")])
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )
        .map_err(|error| words(&error))?;
    std::thread::sleep(Duration::from_millis(300));
    let client = environment
        .spawn(
            "client",
            Command::new(perf)
                .args(["client", "--congestion", "cubic", "--max-udp-payload-size", &payload])
                .args(["--ip", &remote.to_string(), "--duration", &seconds.to_string()])
                .args(["--download-size", "1000G", "--upload-size", "0", "--json", "-", "localhost:4433"])
                .stdout(Stdio::piped())
                .stderr(Stdio::null()),
        )
        .map_err(|error| words(&error))?;
    let output = client.wait_with_output().map_err(|error| words(&error))?;
    server.kill().and_then(|()| server.wait()).map_err(|error| words(&error))?;
    let cpu = support::children_cpu().saturating_sub(before);
    let text = String::from_utf8_lossy(&output.stdout);
    let json = text.find('{').map_or("", |start| &text[start..]);
    let result: serde_json::Value = serde_json::from_str(json).map_err(|error| words(&error))?;
    let sums = || result["intervals"].as_array().into_iter().flatten().map(|interval| &interval["sum"]);
    let total = |key: &str| sums().filter_map(|sum| sum[key].as_f64()).sum::<f64>();
    Ok(Figures::of(total("bytes"), total("seconds"), cpu))
}
