//! Probes over loopback, answered by a server on its QUIC port, on the real kernel.

use crate::common::{Everything, clock, server_with_token};
use pathbench_record::direction::DataDirection;
use pathbench_record::pattern::{Amount, ThroughputParameters};
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{Unobserved, run_client};
use pathbench_traffic::datagram::{
    DatagramError, DatagramKind, DatagramMessage, HEADER_BYTES, MAGIC, UdpPath,
};
use pathbench_traffic::probe::{ProbeCounts, ProbeOutcome, ProbePlan, ProbeSample, run_probes};
use pathbench_traffic::server::ServerLimits;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn bound_path(interface: &str) -> UdpPath {
    UdpPath { interface: Some(interface.to_owned()), local: None }
}

fn plan(server: SocketAddr, paths: Vec<UdpPath>) -> ProbePlan {
    ProbePlan { server, token: None, paths, interval: 20 * MS }
}

/// Runs `plan` for `time`.
fn probe(plan: &ProbePlan, time: Duration) -> (Vec<ProbeSample>, Vec<ProbeCounts>) {
    let samples = Mutex::new(Vec::new());
    let stop = AtomicBool::new(false);
    let counts = thread::scope(|scope| {
        let probing = scope.spawn(|| {
            run_probes(plan, &clock(), &stop, &|sample| samples.lock().unwrap().push(sample)).unwrap()
        });
        clock().sleep_until(clock().now() + time);
        stop.store(true, Ordering::Release);
        probing.join().unwrap()
    });
    (samples.into_inner().unwrap(), counts)
}

fn of_path(samples: &[ProbeSample], path: usize) -> Vec<&ProbeSample> {
    samples.iter().filter(|sample| sample.path == path).collect()
}

fn is_answered(sample: &ProbeSample) -> bool {
    matches!(sample.outcome, ProbeOutcome::Answered { .. })
}

#[test]
fn a_server_answers_probes_beside_quic_and_a_missing_interface_is_reported() {
    let everything = Everything::start(ServerLimits::default());
    let plan = plan(everything.quic_address(), vec![bound_path("lo"), bound_path("nosuch0")]);
    let (samples, counts) = thread::scope(|scope| {
        let probing = scope.spawn(|| probe(&plan, 1500 * MS));
        // A test over the same port during the probes: neither may receive the other's datagrams.
        let throughput = ThroughputParameters {
            direction: DataDirection::Both,
            amount: Amount::Bytes(20_000_000),
            ..ThroughputParameters::default()
        };
        let index = everything.addresses.iter().position(|(transport, _)| *transport == Transport::Mpquic);
        let outcome = run_client(&everything.plan(index.unwrap(), throughput), &clock(), &Unobserved);
        assert!(outcome.completed, "{:?}", outcome.error);
        probing.join().unwrap()
    });
    assert_eq!(counts, [ProbeCounts::default(); 2]);
    let answered = of_path(&samples, 0);
    // On a busy host, some probes are not sent in time, but none is lost on the path.
    assert!(answered.iter().filter(|sample| is_answered(sample)).count() >= 20, "{answered:?}");
    assert!(answered.iter().all(|sample| sample.outcome != ProbeOutcome::Lost), "{answered:?}");
    for sample in &answered {
        if let ProbeOutcome::Answered { rtt } = sample.outcome {
            assert!(rtt > Duration::ZERO && rtt < 3000 * MS);
        }
    }
    let missing = of_path(&samples, 1);
    assert!(!missing.is_empty());
    for sample in missing {
        let ProbeOutcome::Refused { error } = &sample.outcome else { panic!("{sample:?}") };
        assert!(error.contains("nosuch0") || error.contains("in time"), "{error}");
    }
    for path in [0, 1] {
        let mut numbers: Vec<u32> = of_path(&samples, path).iter().map(|sample| sample.sequence).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..numbers.len() as u32).collect::<Vec<_>>(), "path {path}");
    }
    everything.server.stop();
}

#[test]
fn a_server_that_requires_a_token_answers_only_with_it_and_reports_that() {
    let (server, address, token) = server_with_token();
    let without = plan(address, vec![bound_path("lo")]);
    let (samples, _) = probe(&without, 200 * MS);
    assert!(!samples.is_empty());
    for sample in samples {
        let ProbeOutcome::Refused { error } = &sample.outcome else { panic!("{sample:?}") };
        assert!(error.contains("--token") || error.contains("in time"), "{error}");
    }
    let with = ProbePlan { token: Some(token), ..without };
    assert!((0..20).any(|_| probe(&with, 200 * MS).0.iter().any(is_answered)), "no probe is answered");
    // Clients with a cookie continue, and new ones are refused.
    server.drain();
    let (samples, _) = probe(&with, 200 * MS);
    assert!(!samples.iter().any(is_answered), "{samples:?}");
    server.stop();
}

#[test]
fn a_closed_port_is_reported_and_silence_is_loss() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (samples, _) = probe(&plan(silent.local_addr().unwrap(), vec![bound_path("lo")]), 300 * MS);
    assert!(samples.iter().any(|sample| sample.outcome == ProbeOutcome::Lost), "{samples:?}");
    let address = silent.local_addr().unwrap();
    drop(silent);
    let (samples, _) = probe(&plan(address, vec![bound_path("lo")]), 300 * MS);
    let refused = |sample: &ProbeSample| matches!(&sample.outcome, ProbeOutcome::Refused { error } if error.contains("refused"));
    assert!(samples.iter().any(refused), "{samples:?}");
    assert!(!samples.iter().any(is_answered));
}

#[test]
fn a_too_short_interval_is_refused() {
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let hasty = ProbePlan { interval: 19 * MS, ..plan(address, vec![bound_path("lo")]) };
    let error = run_probes(&hasty, &clock(), &AtomicBool::new(true), &|_| {}).unwrap_err();
    assert!(matches!(error, DatagramError::Interval { .. }), "{error}");
    let long = ProbePlan { token: Some("t".repeat(513)), ..plan(address, vec![bound_path("lo")]) };
    let error = run_probes(&long, &clock(), &AtomicBool::new(true), &|_| {}).unwrap_err();
    assert!(matches!(error, DatagramError::Token { .. }), "{error}");
}

#[test]
fn an_unknown_address_gets_no_more_than_it_sent_and_nothing_without_a_cookie() {
    let everything = Everything::start(ServerLimits::default());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(everything.quic_address()).unwrap();
    socket.set_read_timeout(Some(200 * MS)).unwrap();
    let mut buffer = [0; 2000];
    let message = |kind| DatagramMessage { value: 7, ..DatagramMessage::new(kind, 1, 3) };
    socket.send(&message(DatagramKind::Probe).encode(1000)).unwrap();
    socket.send(&MAGIC).unwrap();
    socket.send(&[&MAGIC[..], &[0xff; 900]].concat()).unwrap();
    assert!(socket.recv(&mut buffer).is_err(), "an answer without a cookie");
    socket.send(&message(DatagramKind::Hello).encode(0)).unwrap();
    assert_eq!(socket.recv(&mut buffer).unwrap(), HEADER_BYTES);
    everything.server.stop();
}
