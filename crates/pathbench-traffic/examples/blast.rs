//! A load generator, with which docs/performance.md measures the cost of a test.
//!
//! ```text
//! blast serve ADDRESS [tcp|mptcp] [CONGESTION]
//! blast upload|download|both ADDRESS [tcp|mptcp] [CONGESTION] [SECONDS] [STREAMS] [BLOCK_BYTES] \
//!     [zero_copy,skip_receive_copy,client=N,server=N]
//! blast bulk ADDRESS [tcp|mptcp] [CONGESTION] [BYTES] [STREAMS]
//! blast content                              what computing and verifying content costs, without a network
//! ```
//! Prints goodput as the receiver saw it, and the process's own CPU seconds. The server serves until its standard
//! input closes.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints its measurements")]
#![allow(clippy::unwrap_used, reason = "a developer's tool may panic on bad arguments")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

use pathbench_record::direction::DataDirection;
use pathbench_record::end::TestId;
use pathbench_record::pattern::{Amount, BulkParameters, PatternParameters, ThroughputParameters};
use pathbench_record::time::{Clock, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use pathbench_traffic::client::{ClientPlan, Unobserved, run_client};
use pathbench_traffic::content::{Content, ContentKind};
use pathbench_traffic::server::{Server, ServerOptions};
use pathbench_transport::SocketOptions;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// User and system time of this process, in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

/// Computes and verifies as much as a test at 80 Gbit/s would in a second, in blocks of the size that tests use.
fn content(clock: &dyn Clock) {
    let content = Content::new(TestId([7; 16]), 0, ContentKind::Download);
    let mut block = vec![0; 131_064];
    let blocks = 10_000_000_000 / block.len() as u64;
    let begun = clock.now();
    for index in 0..blocks {
        content.fill(index * block.len() as u64, std::hint::black_box(&mut block));
    }
    let filled = clock.now();
    for _ in 0..blocks {
        let from = (blocks - 1) * block.len() as u64;
        assert_eq!(content.first_difference(from, std::hint::black_box(&block)), None);
    }
    let gigabytes = (blocks * block.len() as u64) as f64 / 1e9;
    let per_second = |from: Timestamp, until: Timestamp| gigabytes / until.duration_since(from).as_secs_f64();
    println!("computed {:.2} GB/s", per_second(begun, filled));
    println!("verified {:.2} GB/s", per_second(filled, clock.now()));
}

/// Options of throughput by name.
fn with_options(mut throughput: ThroughputParameters, options: &str) -> ThroughputParameters {
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("client", number)) => throughput.client_processor = Some(number.parse().unwrap()),
            Some(("server", number)) => throughput.server_processor = Some(number.parse().unwrap()),
            _ if option == "zero_copy" => throughput.zero_copy = true,
            _ if option == "skip_receive_copy" => throughput.skip_receive_copy = true,
            _ => panic!("unknown option {option}"),
        }
    }
    throughput
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize, default: &str| arguments.get(index).cloned().unwrap_or(default.to_owned());
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let address = argument(1, "127.0.0.1:5202").parse().unwrap();
    let transport: Transport = argument(2, "tcp").parse().unwrap();
    let socket = SocketOptions { congestion: Some(argument(3, "cubic")), ..SocketOptions::default() };
    let sample_interval = Duration::from_millis(100);
    let direction = match argument(0, "serve").as_str() {
        "upload" => DataDirection::Upload,
        "download" => DataDirection::Download,
        // Of bulk, which has no direction to choose.
        "both" | "bulk" => DataDirection::Both,
        "content" => return content(clock.as_ref()),
        _ => {
            let options =
                ServerOptions { socket, sample_interval, ..ServerOptions::new(vec![(transport, address)]) };
            let server = Server::start(options, clock).unwrap();
            eprintln!("{:?}", server.addresses());
            let _ = std::io::stdin().read(&mut [0; 1]);
            server.stop();
            println!("server_cpu_s {:.3}", cpu_seconds());
            return;
        }
    };
    let mut test = [0; 16];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut test).unwrap();
    let block = argument(6, "131072").parse().unwrap();
    let streams = argument(5, "1").parse().unwrap();
    let parameters = if argument(0, "") == "bulk" {
        PatternParameters::Bulk(BulkParameters {
            bytes: argument(4, "10000000").parse().unwrap(),
            upload_bytes: 0,
            streams,
        })
    } else {
        PatternParameters::Throughput(ThroughputParameters {
            direction,
            streams,
            amount: Amount::Duration(Duration::from_secs_f64(argument(4, "5").parse().unwrap())),
            block_bytes: block,
            ..ThroughputParameters::default()
        })
    };
    let parameters = match parameters {
        PatternParameters::Throughput(throughput) => with_options(throughput, &argument(7, "")).into(),
        other => other,
    };
    let plan = ClientPlan {
        socket,
        sample_interval,
        patience: Duration::from_secs(5),
        connect_timeout: Duration::from_secs(3),
        ..ClientPlan::new(transport, address, TestId(test), parameters)
    };
    let outcome = run_client(&plan, &clock, &Unobserved);
    let server = outcome.server.as_ref();
    let received = [Some(&outcome.client), server].into_iter().flatten().map(|end| &end.deliveries);
    for series in received.filter(|series| series.first.is_some()) {
        let seconds = series.last.unwrap().duration_since(series.first.unwrap()).as_secs_f64();
        let bytes = series.total_bytes();
        println!("bytes {bytes} goodput_gbps {:.3}", bytes as f64 * 8e-9 / seconds);
    }
    println!("client_cpu_s {:.3} completed {} {:?}", cpu_seconds(), outcome.completed, outcome.error);
}
