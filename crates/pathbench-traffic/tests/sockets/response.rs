//! The pattern `responsiveness` between a client and a server over loopback, with its probes beside the load.

use crate::common::{Everything, clock, plan, server};
use pathbench_record::direction::DataDirection;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::response::{LoadPhase, ProbeKind, ResponsivenessParameters};
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{ClientPlan, PathProbes, PathToProbe, Unobserved, run_client};
use pathbench_traffic::server::ServerLimits;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn short() -> PatternParameters {
    PatternParameters::Responsiveness(ResponsivenessParameters {
        idle: 300 * MS,
        load: 400 * MS,
        settle: 100 * MS,
        pause: 50 * MS,
        interval: 20 * MS,
        phases: vec![DataDirection::Download, DataDirection::Upload],
        ..ResponsivenessParameters::default()
    })
}

#[test]
fn all_three_kinds_of_probes_run_beside_the_load_of_every_transport() {
    let everything = Everything::start(ServerLimits { max_tests: 64, ..ServerLimits::default() });
    let udp = everything.addresses.iter().find(|(transport, _)| *transport == Transport::Quic).unwrap().1;
    for plan in everything.plans(&short()) {
        let path = PathToProbe { name: "lo".to_owned(), interface: None, local: None };
        let plan = ClientPlan { path_probes: Some(PathProbes { server: udp, paths: vec![path] }), ..plan };
        let outcome = run_client(&plan, &clock(), &Unobserved);
        assert!(outcome.completed, "{}: {:?}", plan.transport, outcome.error);
        let server = outcome.server.unwrap();
        let client = outcome.client;
        assert_eq!(server.response, None);
        // Both ends had their phase.
        assert!(client.offered.total_bytes() > 100_000 && server.offered.total_bytes() > 100_000);
        assert_eq!(client.offered.total_bytes(), server.deliveries.total_bytes());
        let response = client.response.unwrap();
        assert_eq!(response.absent, [], "{}", plan.transport);
        for kind in ProbeKind::ALL {
            let of_kind: Vec<_> = response.probes.iter().filter(|probe| probe.kind == kind).collect();
            let answered = of_kind.iter().filter(|probe| probe.answered.is_some()).count();
            assert!(answered >= 10, "{}: {kind:?}: {answered} of {}", plan.transport, of_kind.len());
            assert!(of_kind.iter().all(|probe| probe.due >= response.begun));
        }
        let phases: Vec<LoadPhase> = response.openings.iter().map(|opening| opening.phase).collect();
        assert_eq!(phases, [LoadPhase::Idle, LoadPhase::Download, LoadPhase::Upload]);
        assert!(
            response.openings.iter().all(|one| one.took.is_some() && one.error.is_none()),
            "{response:?}"
        );
    }
    everything.server.stop();
}

#[test]
fn what_cannot_be_probed_is_absent_with_its_reason() {
    // The companion test of the foreign probes would be the second one of this client.
    let limits = ServerLimits { max_tests_per_client: 1, ..ServerLimits::default() };
    let (server, address) = server(Transport::Tcp, limits);
    let outcome = run_client(&plan(Transport::Tcp, address, short()), &clock(), &Unobserved);
    assert!(outcome.completed, "{:?}", outcome.error);
    let response = outcome.client.response.unwrap();
    let reason = |kind: ProbeKind| {
        let absent = response.absent.iter().find(|absent| absent.probe == kind);
        absent.unwrap_or_else(|| panic!("{kind:?} was examined")).reason.clone()
    };
    assert!(reason(ProbeKind::Foreign).contains("limit per client"), "{}", reason(ProbeKind::Foreign));
    assert!(reason(ProbeKind::Path).contains("no UDP address"), "{}", reason(ProbeKind::Path));
    assert!(response.probes.iter().all(|probe| probe.kind == ProbeKind::Own));
    server.stop();
}

#[test]
fn a_server_that_never_answers_ends_the_test_within_its_patience() {
    use crate::common::{next_frame, send};
    use pathbench_traffic::protocol::ControlFrame;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let silent = std::thread::spawn(move || {
        let mut held = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            if matches!(next_frame(&mut stream), Some(ControlFrame::Hello(_))) {
                send(&mut stream, &ControlFrame::Accept);
            }
            if next_frame(&mut stream) == Some(ControlFrame::Start) {
                send(&mut stream, &ControlFrame::Start);
            }
            held.push(stream);
        }
        held
    });
    let plan = ClientPlan { patience: 300 * MS, ..plan(Transport::Tcp, address, short()) };
    let begun = std::time::Instant::now();
    let outcome = run_client(&plan, &clock(), &Unobserved);
    assert!(!outcome.completed);
    assert!(outcome.error.unwrap().to_string().contains("hung"));
    // The foreign test gives up after its own deadlines, too.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let response = outcome.client.response.unwrap();
    assert!(response.probes.iter().all(|probe| probe.answered.is_none()));
    drop(silent);
}
