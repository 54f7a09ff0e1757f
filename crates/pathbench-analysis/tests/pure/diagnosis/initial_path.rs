//! A connection that could not begin on its initial path.

use super::*;
use pathbench_record::document::{OpeningOutcome, OpeningRecord};

const ALL: [Transport; 4] = [Transport::Tcp, Transport::Mptcp, Transport::Quic, Transport::Mpquic];

/// A run whose connection begins on `wlan`.
fn opened(transport: Transport, outcome: OpeningOutcome, after_ms: f64) -> Case {
    let mut case = Case::of(transport, Vec::new());
    case.planned.reverse();
    let opening = OpeningRecord { path: Some("wlan".to_owned()), outcome, after_ms };
    case.connection = VerdictInput {
        requested: transport.is_multipath(),
        opening: Some(opening),
        counters: [("TcpExt.TCPSynRetrans".to_owned(), 4)].into(),
        ..VerdictInput::default()
    };
    let before = event(EventSource::Scenario, -3.0, "blackhole", "wlan");
    case.with_event(before)
}

#[test]
fn every_transport_names_the_initial_path_that_it_could_not_begin_on() {
    for transport in ALL {
        for (outcome, sign) in [
            (OpeningOutcome::Timeout, "the initial path was silent"),
            (OpeningOutcome::Refused, "the initial path refused"),
            (OpeningOutcome::NoRoute, "no route"),
        ] {
            let case = opened(transport, outcome, 5000.0);
            let found = case.only();
            assert_eq!(found.kind, DiagnosisKind::InitialPath, "{transport}: {found:?}");
            for text in [sign, "5", "the scenario's `blackhole wlan` before the first byte"] {
                assert!(found.because.contains(text), "{transport}: `{text}`: {}", found.because);
            }
            let first = if transport.is_quic() { "Initial packets" } else { "the SYN and 4 retransmissions" };
            assert_eq!(
                found.because.contains(first),
                outcome == OpeningOutcome::Timeout,
                "{}",
                found.because
            );
            let begin = if transport.is_multipath() { "begin on eth" } else { "begin on another path" };
            assert!(found.remedy.starts_with(begin), "{transport}: {}", found.remedy);
            let verdict =
                multipath_verdict(&VerdictInput { diagnoses: vec![found], ..case.connection.clone() });
            let named = verdict.reason.contains(&format!("the initial path wlan ({})", outcome.name()));
            assert_eq!(
                named && verdict.reason.contains("Remedy: begin on"),
                transport.is_multipath(),
                "{}",
                verdict.reason
            );
        }
    }
}

#[test]
fn a_late_opening_is_named_and_a_prompt_one_is_not() {
    for transport in ALL {
        assert_eq!(opened(transport, OpeningOutcome::Opened, 40.0).diagnoses(), []);
        // Not the fault of the path: no MPTCP on this host, a plan that cannot be carried out.
        assert_eq!(opened(transport, OpeningOutcome::Other, 5000.0).diagnoses(), []);
        let late = opened(transport, OpeningOutcome::Opened, 3020.0).only();
        assert_eq!(late.kind, DiagnosisKind::InitialPath);
        assert!(late.because.contains("answered only after 3.02 s"), "{}", late.because);
    }
}
