//! The traffic generator against iperf3: the same lab, the same options, in turn.
//!
//! `cargo bench --bench generator [-- ROUNDS SECONDS [CASE]]`, on an otherwise idle machine. `IPERF3` names the program of
//! iperf3, 3.21 or newer; CASE is a part of a case's name.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the benchmark prints its results")]

mod support;

use pathbench_lab::scenario::VariantPlan;
use pathbench_record::pattern::ThroughputParameters;
use pathbench_record::statistics::median;
use pathbench_record::transport::Transport;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use support::transfer::{self, Figures, addresses, build};

const ONE_PATH: &str =
    "name = \"generator\"\ndescription = \"one unshaped path\"\n[[path]]\nname = \"eth\"\n";
const TWO_PATHS: &str = "name = \"generator\"\ndescription = \"two paths of 10 Gbit/s\"\n\
                         [[path]]\nname = \"eth0\"\nrate = \"10gbit\"\n[[path]]\nname = \"eth1\"\nrate = \"10gbit\"\n";

/// The same work for both programs.
struct Case {
    name: &'static str,
    scenario: &'static str,
    transport: Transport,
    zero_copy: bool,
    skip_receive_copy: bool,
    /// Processors of client and server.
    affinity: Option<[u32; 2]>,
    iperf3: &'static [&'static str],
}

impl Case {
    const TCP: Self = Self {
        name: "tcp",
        scenario: ONE_PATH,
        transport: Transport::Tcp,
        zero_copy: false,
        skip_receive_copy: false,
        affinity: None,
        iperf3: &[],
    };
    const MPTCP: Self = Self {
        name: "mptcp",
        scenario: TWO_PATHS,
        transport: Transport::Mptcp,
        iperf3: &["--mptcp"],
        ..Self::TCP
    };
    const ALL: [Self; 8] = [
        Self::TCP,
        Self { name: "tcp zero copy", zero_copy: true, iperf3: &["-Z"], ..Self::TCP },
        Self {
            name: "tcp skip receive copy",
            skip_receive_copy: true,
            iperf3: &["--skip-rx-copy"],
            ..Self::TCP
        },
        Self {
            name: "tcp zero copy, skip receive copy",
            zero_copy: true,
            skip_receive_copy: true,
            iperf3: &["-Z", "--skip-rx-copy"],
            ..Self::TCP
        },
        Self { name: "tcp affinity", affinity: Some([0, 1]), iperf3: &["-A", "0,1"], ..Self::TCP },
        Self::MPTCP,
        Self {
            name: "mptcp skip receive copy",
            skip_receive_copy: true,
            iperf3: &["--mptcp", "--skip-rx-copy"],
            ..Self::MPTCP
        },
        Self {
            name: "mptcp affinity",
            affinity: Some([0, 1]),
            iperf3: &["--mptcp", "-A", "0,1"],
            ..Self::MPTCP
        },
    ];

    fn pathbench(&self, plan: &VariantPlan, seconds: u64) -> Result<Figures, String> {
        let parameters = ThroughputParameters {
            zero_copy: self.zero_copy,
            skip_receive_copy: self.skip_receive_copy,
            client_processor: self.affinity.map(|[client, _]| client),
            server_processor: self.affinity.map(|[_, server]| server),
            ..transfer::lasting(seconds)
        };
        transfer::pathbench_with(plan, self.transport, parameters).map(|(figures, _)| figures)
    }
}

fn main() -> ExitCode {
    support::in_lab_namespaces(|| {
        let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
        let number = |index: usize| arguments.get(index).and_then(|word| word.parse::<u64>().ok());
        let (rounds, seconds) = (number(0).unwrap_or(5), number(1).unwrap_or(4));
        let wanted = arguments.get(2).map_or("", String::as_str);
        Case::ALL
            .iter()
            .filter(|case| case.name.contains(wanted))
            .try_for_each(|case| compare(case, rounds, seconds))
    })
}

fn compare(case: &Case, rounds: u64, seconds: u64) -> Result<(), String> {
    let plan = support::variant(case.scenario)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // Who goes first alternates, so that neither always meets the warmer machine.
        if round % 2 == 0 {
            ours.push(case.pathbench(&plan, seconds)?);
            theirs.push(iperf3(&plan, case.iperf3, seconds)?);
        } else {
            theirs.push(iperf3(&plan, case.iperf3, seconds)?);
            ours.push(case.pathbench(&plan, seconds)?);
        }
    }
    let of =
        |figures: &[Figures], figure: fn(&Figures) -> f64| figures.iter().map(figure).collect::<Vec<f64>>();
    for (name, figure) in
        [("Gbit/s", (|f| f.gbps) as fn(&Figures) -> f64), ("CPU seconds per GB", |f| f.cpu_seconds_per_gb)]
    {
        let (a, b) = (of(&ours, figure), of(&theirs, figure));
        let (ratio, interval) = support::paired_ratio(&b, &a).ok_or("too few rounds")?;
        println!(
            "{}: {name}: pathbench {:.3}, iperf3 {:.3} (medians), ratio {ratio:.2}{interval}; {a:.3?} {b:.3?}",
            case.name,
            median(&a).unwrap_or_default(),
            median(&b).unwrap_or_default(),
        );
    }
    Ok(())
}

fn iperf3(plan: &VariantPlan, options: &[&str], seconds: u64) -> Result<Figures, String> {
    let program = std::env::var("IPERF3").unwrap_or_else(|_| "iperf3".to_owned());
    let environment = build(plan)?;
    let (_, remote) = addresses(plan)?;
    let missing = |error: pathbench_lab::environment::EnvironmentError| format!("{error}; install iperf3");
    let before = support::children_cpu();
    let mut server = environment
        .spawn("server", Command::new(&program).args(["--server", "--one-off"]).stdout(Stdio::null()))
        .map_err(missing)?;
    std::thread::sleep(Duration::from_millis(300));
    let duration = seconds.to_string();
    let address = remote.to_string();
    let client = environment
        .spawn(
            "client",
            Command::new(&program)
                .args(["--client", &address, "--time", &duration, "--congestion", "cubic", "--json"])
                .args(options)
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
