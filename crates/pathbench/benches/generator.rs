//! The traffic generator against iperf3: the same lab, one unshaped path, in turn.
//!
//! `cargo bench --bench generator [-- ROUNDS SECONDS]`, on an otherwise idle machine. Needs iperf3.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the benchmark prints its results")]

mod support;

use pathbench_lab::scenario::VariantPlan;
use pathbench_record::direction::DataDirection;
use pathbench_record::statistics::median;
use pathbench_record::transport::Transport;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use support::transfer::{self, Figures, addresses, build};

const SCENARIO: &str =
    "name = \"generator\"\ndescription = \"one unshaped path\"\n[[path]]\nname = \"eth\"\n";

fn main() -> ExitCode {
    support::in_lab_namespaces(|| {
        let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
        let (rounds, seconds) = (numbers.first().copied().unwrap_or(8), numbers.get(1).copied().unwrap_or(5));
        compare(rounds, seconds)
    })
}

fn compare(rounds: u64, seconds: u64) -> Result<(), String> {
    let plan = support::variant(SCENARIO)?;
    let pathbench = || {
        transfer::pathbench(&plan, Transport::Tcp, DataDirection::Upload, seconds).map(|(figures, _)| figures)
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    println!("round  pathbench Gbit/s  CPU s/GB   iperf3 Gbit/s  CPU s/GB");
    for round in 0..rounds {
        // Who goes first alternates, so that neither always meets the warmer machine.
        let (a, b) = if round % 2 == 0 {
            let ours = pathbench()?;
            (ours, iperf3(&plan, seconds)?)
        } else {
            let theirs = iperf3(&plan, seconds)?;
            (pathbench()?, theirs)
        };
        println!(
            "{:5}  {:16.2}  {:8.3}   {:13.2}  {:8.3}",
            round + 1,
            a.gbps,
            a.cpu_seconds_per_gb,
            b.gbps,
            b.cpu_seconds_per_gb
        );
        ours.push(a);
        theirs.push(b);
    }
    let of =
        |figures: &[Figures], figure: fn(&Figures) -> f64| figures.iter().map(figure).collect::<Vec<f64>>();
    for (name, figure) in
        [("goodput", (|f| f.gbps) as fn(&Figures) -> f64), ("CPU seconds per GB", |f| f.cpu_seconds_per_gb)]
    {
        let (a, b) = (of(&ours, figure), of(&theirs, figure));
        let (ratio, interval) = support::paired_ratio(&b, &a).ok_or("too few rounds")?;
        println!(
            "{name}: pathbench {:.3}, iperf3 {:.3} (medians), ratio {:.2}{}",
            median(&a).unwrap_or_default(),
            median(&b).unwrap_or_default(),
            ratio,
            interval
        );
    }
    Ok(())
}

fn iperf3(plan: &VariantPlan, seconds: u64) -> Result<Figures, String> {
    let environment = build(plan)?;
    let (_, remote) = addresses(plan)?;
    let missing = |error: pathbench_lab::environment::EnvironmentError| format!("{error}; install iperf3");
    let before = support::children_cpu();
    let mut server = environment
        .spawn("server", Command::new("iperf3").args(["--server", "--one-off"]).stdout(Stdio::null()))
        .map_err(missing)?;
    std::thread::sleep(Duration::from_millis(300));
    let duration = seconds.to_string();
    let address = remote.to_string();
    let client = environment
        .spawn(
            "client",
            Command::new("iperf3")
                .args(["--client", &address, "--time", &duration, "--congestion", "cubic", "--json"])
                .stdout(Stdio::piped()),
        )
        .map_err(missing)?;
    let output = client.wait_with_output().map_err(|error| error.to_string())?;
    server.wait().map_err(|error| error.to_string())?;
    let cpu = support::children_cpu().saturating_sub(before);
    let result: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let received = &result["end"]["sum_received"];
    let bytes = received["bytes"].as_f64().ok_or_else(|| format!("iperf3 failed: {}", result["error"]))?;
    Ok(Figures::of(bytes, received["seconds"].as_f64().unwrap_or(seconds as f64), cpu))
}
