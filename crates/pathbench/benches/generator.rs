//! The traffic generator against iperf3: the same lab, one unshaped path, in turn.
//!
//! `cargo bench --bench generator [-- ROUNDS SECONDS]`, on an otherwise idle machine. Needs iperf3.

mod support;

use pathbench_lab::agent::{Notice, Request, ServePlan};
use pathbench_lab::environment::Environment;
use pathbench_lab::scenario::{Family, VariantPlan};
use pathbench_record::statistics::{Pairing, median, median_ratio};
use pathbench_record::transport::Transport;
use pathbench_traffic::client::ClientPlan;
use pathbench_traffic::iperf::{Amount, IperfParameters};
use pathbench_traffic::protocol::TestId;
use pathbench_transport::SocketOptions;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

const SCENARIO: &str =
    "name = \"generator\"\ndescription = \"one unshaped path\"\n[[path]]\nname = \"eth\"\n";

/// Goodput and cost of one transfer.
struct Figures {
    gbps: f64,
    cpu_seconds_per_gb: f64,
}

fn main() -> ExitCode {
    support::in_lab_namespaces(|| {
        let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
        let (rounds, seconds) = (numbers.first().copied().unwrap_or(8), numbers.get(1).copied().unwrap_or(5));
        compare(rounds, seconds)
    })
}

fn compare(rounds: u64, seconds: u64) -> Result<(), String> {
    let plan = support::variant(SCENARIO)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    println!("round  pathbench Gbit/s  CPU s/GB   iperf3 Gbit/s  CPU s/GB");
    for round in 0..rounds {
        // Who goes first alternates, so that neither always meets the warmer machine.
        let (a, b) = if round % 2 == 0 {
            let ours = pathbench(&plan, seconds)?;
            (ours, iperf3(&plan, seconds)?)
        } else {
            let theirs = iperf3(&plan, seconds)?;
            (pathbench(&plan, seconds)?, theirs)
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
        let ratio = median_ratio(&a, &b, Pairing::Paired, 1).ok_or("too few rounds")?;
        let interval = ratio.ci95.map(|[low, high]| format!(", 95 % interval {low:.2} to {high:.2}"));
        println!(
            "{name}: pathbench {:.3}, iperf3 {:.3} (medians), ratio {:.2}{}",
            median(&a).unwrap_or_default(),
            median(&b).unwrap_or_default(),
            ratio.ratio,
            interval.unwrap_or_default()
        );
    }
    Ok(())
}

fn addresses(plan: &VariantPlan) -> Result<(IpAddr, IpAddr), String> {
    let link = plan.topology.links.first().ok_or("no link")?;
    let of_end = |end: usize| link.ends[end].address(Family::Ipv4).ok_or("no address");
    Ok((of_end(0)?, of_end(1)?))
}

fn build(plan: &VariantPlan) -> Result<Environment, String> {
    Environment::build(&plan.topology, &plan.run.server, &support::launcher())
        .map_err(|error| error.to_string())
}

fn pathbench(plan: &VariantPlan, seconds: u64) -> Result<Figures, String> {
    let environment = build(plan)?;
    let (local, remote) = addresses(plan)?;
    let socket = SocketOptions { congestion: Some("cubic".to_owned()), ..SocketOptions::default() };
    let sample_interval = Duration::from_millis(100);
    let before = support::children_cpu();
    let server = environment.node("server").map_err(|error| error.to_string())?.agent();
    let serve = ServePlan {
        socket: socket.clone(),
        sample_interval,
        ..ServePlan::new(Transport::Tcp, SocketAddr::new(remote, 0))
    };
    let address = server
        .ask(&Request::Serve(serve), Duration::from_secs(5), |notice| match notice {
            Notice::Serving { addresses, .. } => addresses.first().copied(),
            _ => None,
        })
        .map_err(|error| error.to_string())?;
    let client = environment.node("client").map_err(|error| error.to_string())?.agent();
    let parameters = IperfParameters {
        amount: Amount::Duration(Duration::from_secs(seconds)),
        ..IperfParameters::default()
    };
    let transfer = ClientPlan {
        local: Some(local),
        socket,
        sample_interval,
        patience: Duration::from_secs(10),
        ..ClientPlan::new(Transport::Tcp, address, TestId([7; 16]), parameters.into())
    };
    client.send(&Request::Transfer(Box::new(transfer))).map_err(|error| error.to_string())?;
    let outcome = loop {
        match client.next(Duration::from_secs(seconds + 20)).map_err(|error| error.to_string())? {
            Some(Notice::Finished(outcome)) => break outcome,
            Some(Notice::Failed(message)) => return Err(message),
            Some(_) => {}
            None => return Err("the transfer did not end".to_owned()),
        }
    };
    let received = outcome.server.ok_or("no record of the server")?.deliveries;
    // The agents are children: their time counts once they have been waited for.
    drop(environment);
    let (first, last) = received.first.zip(received.last).ok_or("nothing was received")?;
    Ok(figures(
        received.total_bytes() as f64,
        last.since(first).as_secs_f64(),
        support::children_cpu().saturating_sub(before),
    ))
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
    Ok(figures(bytes, received["seconds"].as_f64().unwrap_or(seconds as f64), cpu))
}

fn figures(bytes: f64, seconds: f64, cpu: Duration) -> Figures {
    Figures { gbps: bytes * 8.0 / seconds / 1e9, cpu_seconds_per_gb: cpu.as_secs_f64() / (bytes / 1e9) }
}
