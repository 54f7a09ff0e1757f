//! Handovers whose outcome can be worked out by hand. The examples of docs/metrics.md are here with the same numbers.

use pathbench_analysis::metrics::{PathHistory, handover};
use pathbench_record::document::{HandoverReason, HandoverRecord};
use pathbench_record::event::{Event, EventSource};
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use serde_json::json;

/// A path's activity: moments in milliseconds.
#[derive(Debug, Clone, Default)]
struct Activity {
    name: &'static str,
    /// Connection and subflow.
    subflow: (u32, u32),
    /// Data sent.
    data: Vec<f64>,
    /// Acknowledgements and heartbeats sent.
    other: Vec<f64>,
    /// Anything received.
    received: Vec<f64>,
    /// From when on: smoothed RTT, retransmission timeout, back-off.
    state: Vec<(f64, f64, f64, u32)>,
    backup: Option<bool>,
    quic: bool,
}

/// Every `step` from `from` until `until` (excluded).
fn every(step: f64, from: f64, until: f64) -> Vec<f64> {
    let count = ((until - from) / step).ceil().max(0.0) as u32;
    (0..count).map(|index| from + f64::from(index) * step).collect()
}

fn until(moments: &[f64], now: f64) -> u64 {
    moments.iter().filter(|&&at| at <= now).count() as u64
}

fn since(moments: &[f64], now: f64) -> u64 {
    moments
        .iter()
        .copied()
        .filter(|at| *at <= now)
        .reduce(f64::max)
        .map_or(now as u64, |at| (now - at) as u64)
}

impl Activity {
    fn sample(&self, now: f64) -> Sample {
        let address = |port| ([10, 0, 0, 1], port).into();
        let &(_, srtt_ms, rto_ms, backoff) =
            self.state.iter().rev().find(|state| state.0 <= now).unwrap_or(&(0.0, 20.0, 220.0, 0));
        let data = until(&self.data, now);
        Sample {
            run: "r".to_owned(),
            t_ms: now,
            host: "client".to_owned(),
            side: Side::Client,
            stream: self.subflow.0,
            path: self.name.to_owned(),
            figures: PathFigures {
                subflow: self.subflow.1,
                path_id: self.quic.then_some(u64::from(self.subflow.1) - 1),
                state: PathState::Open,
                backup: self.backup,
                bytes_sent: data * 2048,
                packets_sent: Some(1 + data + until(&self.other, now)),
                packets_received: Some(1 + until(&self.received, now)),
                srtt_ms,
                rto_ms,
                backoff,
                since_last_sent_ms: if self.quic { 0 } else { since(&self.data, now) },
                since_last_received_ms: if self.quic { 0 } else { since(&self.received, now) },
                ..PathFigures::new(address(1), address(2))
            },
        }
    }
}

/// Samples every 100 ms of a run of ten seconds, the first at 0.
fn sampled(paths: &[Activity]) -> Vec<Sample> {
    every(100.0, 0.0, 10_001.0)
        .into_iter()
        .flat_map(|now| paths.iter().map(move |path| path.sample(now)))
        .collect()
}

fn event(t_ms: f64, source: EventSource, kind: &str, reason: Option<&str>) -> Event {
    Event {
        run: "r".to_owned(),
        t_ms,
        source,
        host: "client".to_owned(),
        kind: kind.into(),
        path: Some("wlan".to_owned()),
        due_ms: None,
        detail: reason.map(|reason| ("reason".to_owned(), json!(reason))).into_iter().collect(),
    }
}

fn found(paths: &[Activity], events: &[Event]) -> Option<HandoverRecord> {
    let backups = ["lte".to_owned()];
    handover(&PathHistory { samples: &sampled(paths), events, side: Side::Client, backups: &backups })
}

/// `wlan` sends data every 100 ms, 30 ms after each sample, and receives 20 ms later, both until given moments; `lte`
/// takes over from `onset` on.
fn leaving_wifi(sent_until: f64, received_until: f64, onset: f64) -> Vec<Activity> {
    let wlan = Activity {
        name: "wlan",
        subflow: (0, 1),
        data: every(100.0, 30.0, sent_until),
        received: every(100.0, 50.0, received_until),
        ..Activity::default()
    };
    let lte = Activity {
        name: "lte",
        subflow: (0, 2),
        data: every(100.0, onset, 10_000.0),
        received: every(100.0, onset + 40.0, 10_000.0),
        ..Activity::default()
    };
    vec![wlan, lte]
}

#[track_caller]
fn close(found: Option<f64>, expected: f64, tolerance: f64) {
    let near = found.is_some_and(|found| (found - expected).abs() <= tolerance);
    assert!(near, "found {found:?}, expected {expected} ± {tolerance}");
}

#[test]
fn the_example_of_the_metrics_page() {
    // Data on lte from 4030 ms on; wlan sends its last packet at 6930 ms and receives its last packet at 3750 ms.
    let paths = leaving_wifi(6950.0, 3800.0, 4030.0);
    let record = found(&paths, &[event(3770.0, EventSource::Scenario, "blackhole", None)]).unwrap();
    assert_eq!((record.from.as_str(), record.to.as_str()), ("wlan", "lte"));
    close(Some(record.began_ms), 4030.0, 1e-9);
    assert_eq!(record.duration_sent_ms, Some(2900.0));
    assert_eq!(record.duration_received_ms, Some(-280.0));
    assert_eq!(record.reason, HandoverReason::Other);
    assert_eq!(record.remark.as_deref(), Some("`wlan` became a black hole 260 ms before"));
}

#[test]
fn durations_are_as_exact_as_the_samples() {
    for (sent_until, received_until, onset, sent, received) in [
        // Both at once for long, by both curves.
        (9000.0, 8000.0, 3030.0, 5900.0, 4920.0),
        // Abrupt: wlan was silent before.
        (2000.0, 2000.0, 3030.0, -1100.0, -1080.0),
        // The first path sends one packet after the second began.
        (3100.0, 3100.0, 3010.0, 20.0, 40.0),
    ] {
        let record = found(&leaving_wifi(sent_until, received_until, onset), &[]).unwrap();
        close(Some(record.began_ms), onset, 1.0);
        close(record.duration_sent_ms, sent, 1.0);
        close(record.duration_received_ms, received, 1.0);
    }
    // Acknowledgements alone count as activity; they are known to the sample.
    let mut paths = leaving_wifi(4000.0, 4000.0, 3030.0);
    paths[0].other = vec![7210.0];
    let record = found(&paths, &[]).unwrap();
    close(record.duration_sent_ms, 7300.0 - 3030.0, 1.0);
}

#[test]
fn the_reason_is_the_first_that_holds_in_the_papers_order() {
    use HandoverReason::{Other, RtoThreshold, RttThreshold, UnderRto};
    for (from_ms, srtt, rto, backoff, expected) in [
        (2000.0, 601.0, 1600.0, 3, RttThreshold),
        (2000.0, 600.0, 1600.0, 3, UnderRto),
        (2000.0, 600.0, 1600.0, 0, RtoThreshold),
        (2000.0, 600.0, 1500.0, 0, Other),
        // Only the sample after the moment has it: the timeout expired between the two.
        (3100.0, 21.0, 444.0, 1, UnderRto),
        // A later event is not the reason.
        (3200.0, 21.0, 444.0, 1, Other),
    ] {
        let mut paths = leaving_wifi(9000.0, 2000.0, 3030.0);
        paths[0].state = vec![(0.0, 20.0, 220.0, 0), (from_ms, srtt, rto, backoff)];
        let record = found(&paths, &[]).unwrap();
        assert_eq!(record.reason, expected, "from {from_ms}: {srtt} {rto} {backoff}");
        if expected != Other {
            assert_eq!((record.srtt_ms, record.rto_ms, record.backoff), (srtt, rto, backoff));
        }
    }
}

#[test]
fn heartbeats_and_validation_on_a_quic_path_are_no_data() {
    let mut paths = leaving_wifi(4000.0, 4000.0, 3030.0);
    for path in &mut paths {
        path.quic = true;
        path.other = every(60.0, 5.0, 10_000.0);
        path.received.extend(every(60.0, 25.0, 10_000.0));
        path.received.sort_by(f64::total_cmp);
    }
    paths[1].backup = Some(true);
    let scheduled = event(3028.5, EventSource::Quic, "scheduler", Some("nothing acknowledged for 250 ms"));
    let record = found(&paths, std::slice::from_ref(&scheduled)).unwrap();
    // The scheduler's reported time, not the sample's.
    close(Some(record.began_ms), 3028.5, 1e-9);
    assert_eq!(
        record.remark.as_deref(),
        Some("the scheduler left `wlan` (nothing acknowledged for 250 ms) 0 ms before")
    );
    // wlan stayed usable, and received to the end.
    close(record.duration_received_ms, 10_000.0 - 3028.5, 61.0);
    // Without the scheduler's report, the sample's time.
    close(found(&paths, &[]).map(|record| record.began_ms), 3100.0, 1e-9);
    // At another end or long before, it is another decision.
    let elsewhere = Event { host: "server".to_owned(), ..scheduled.clone() };
    let before = Event { t_ms: 1000.0, ..scheduled };
    close(found(&paths, &[elsewhere, before]).map(|record| record.began_ms), 3100.0, 1e-9);
}

#[test]
fn the_schedulers_reported_reason_takes_precedence_over_samples() {
    // A timeout that came and went between two samples: by them alone, `other`.
    let mut paths = leaving_wifi(9000.0, 9000.0, 3030.0);
    for path in &mut paths {
        path.quic = true;
    }
    let mut left = event(3028.5, EventSource::Quic, "scheduler", Some("nothing acknowledged for 56 ms"));
    left.detail.insert("condition".to_owned(), json!("under-rto"));
    assert_eq!(found(&paths, &[]).map(|record| record.reason), Some(HandoverReason::Other));
    let record = found(&paths, std::slice::from_ref(&left)).unwrap();
    assert_eq!(record.reason, HandoverReason::UnderRto);
    // Decided earlier and still in force, it is the reason, and the data itself says when.
    let earlier = Event { t_ms: 2850.0, ..left.clone() };
    let record = found(&paths, std::slice::from_ref(&earlier)).unwrap();
    assert_eq!(record.reason, HandoverReason::UnderRto);
    close(Some(record.began_ms), 3100.0, 1e-9);
    // A withdrawn decision is no reason.
    let back = event(2900.0, EventSource::Quic, "scheduler", Some("the preferred path is used again"));
    assert_eq!(found(&paths, &[earlier, back]).map(|record| record.reason), Some(HandoverReason::Other));
}

#[test]
fn only_use_of_a_backup_path_or_a_takeover_is_a_handover() {
    let both_from_the_start = |lte_onset: f64, wlan_until: f64| {
        let mut paths = leaving_wifi(wlan_until, wlan_until, lte_onset);
        paths[1].name = "eth";
        paths
    };
    for (paths, expected) in [
        // Two equal paths share the transfer.
        (both_from_the_start(60.0, 10_000.0), false),
        // One of them dies: that is a failover, not the start of a second path.
        (both_from_the_start(60.0, 5000.0), false),
        // The second comes later, and both go on.
        (both_from_the_start(4030.0, 10_000.0), false),
        // The second comes later and takes over.
        (both_from_the_start(4030.0, 6000.0), true),
        (both_from_the_start(4030.0, 3000.0), true),
        // A backup path takes over at any time of the run.
        (leaving_wifi(10_000.0, 10_000.0, 60.0), true),
        // A backup path that is never used is no handover.
        (leaving_wifi(10_000.0, 10_000.0, 20_000.0), false),
        // The only path there is.
        (leaving_wifi(10_000.0, 10_000.0, 60.0)[..1].to_vec(), false),
        (Vec::new(), false),
    ] {
        assert_eq!(found(&paths, &[]).is_some(), expected, "{paths:?}");
    }
    // Without a plan, the transport's own flag marks a backup path.
    let mut paths = both_from_the_start(4030.0, 10_000.0);
    paths[1].backup = Some(true);
    assert!(found(&paths, &[]).is_some());
}

#[test]
fn all_connections_of_a_run_count() {
    // Two connections: the second moves first, and its view of wlan gives the reason; wlan ends with the first.
    let mut paths = leaving_wifi(8000.0, 8000.0, 5030.0);
    let mut others = leaving_wifi(3000.0, 3000.0, 3530.0);
    for path in &mut others {
        path.subflow.0 = 1;
    }
    others[0].state = vec![(0.0, 20.0, 220.0, 0), (3300.0, 20.0, 440.0, 1)];
    paths.extend(others);
    let record = found(&paths, &[]).unwrap();
    assert_eq!((record.began_ms, record.reason, record.backoff), (3530.0, HandoverReason::UnderRto, 1));
    close(record.duration_sent_ms, 7930.0 - 3530.0, 1.0);
}

#[test]
fn a_subflow_that_replaces_another_counts_with_it() {
    let mut paths = leaving_wifi(3000.0, 3000.0, 3530.0);
    paths.push(Activity {
        name: "wlan",
        subflow: (0, 3),
        data: vec![7030.0],
        received: vec![7070.0],
        ..Activity::default()
    });
    let record = found(&paths, &[]).unwrap();
    close(record.duration_sent_ms, 3500.0, 1.0);
    close(record.duration_received_ms, 3540.0, 1.0);
}

#[test]
fn the_remark_names_the_event_and_the_transports_report() {
    let down = event(2018.0, EventSource::Scenario, "down", None);
    let up = event(2500.0, EventSource::Scenario, "up", None);
    let seen = event(2019.0, EventSource::Link, "down", None);
    let suspended = event(2330.0, EventSource::Quic, "path-suspended", None);
    let resumed = event(2600.0, EventSource::Quic, "path-resumed", None);
    let closed = event(3040.0, EventSource::Mptcp, "SUB_CLOSED", None);
    let left = Event { path: None, ..event(3000.0, EventSource::Quic, "scheduler", Some("slow")) };
    let back = event(3010.0, EventSource::Quic, "scheduler", Some("the preferred path is used again"));
    let elsewhere = Event { host: "server".to_owned(), ..suspended.clone() };
    let later = event(7000.0, EventSource::Scenario, "blackhole", None);
    for (events, expected) in [
        (vec![down.clone(), seen.clone()], Some("`wlan` went down 1012 ms before")),
        (vec![seen.clone()], Some("`wlan` went down 1011 ms before")),
        (vec![down.clone(), up.clone()], None),
        (
            vec![suspended.clone(), down.clone()],
            Some(
                "`wlan` went down 1012 ms before; no packet had arrived on `wlan` for too long 700 ms before",
            ),
        ),
        (vec![suspended, resumed, down, up], None),
        (vec![closed], Some("the kernel closed the subflow on `wlan` 10 ms after")),
        (vec![left.clone()], Some("the scheduler left `wlan` (slow) 30 ms before")),
        (vec![left, back], None),
        (vec![elsewhere], None),
        (vec![later], None),
        (Vec::new(), None),
    ] {
        let record = found(&leaving_wifi(2000.0, 2000.0, 3030.0), &events).unwrap();
        assert_eq!(record.remark.as_deref(), expected, "{events:?}");
    }
}

#[test]
fn samples_of_another_machine_that_make_no_sense_do_no_harm() {
    let mut samples = sampled(&leaving_wifi(4000.0, 4000.0, 3030.0));
    samples.reverse();
    for (index, sample) in samples.iter_mut().enumerate() {
        if index % 3 == 0 {
            (sample.t_ms, sample.figures.since_last_sent_ms) = (f64::NAN, u64::MAX);
        }
        if index % 5 == 0 {
            sample.figures.srtt_ms = f64::INFINITY;
        }
    }
    let history = PathHistory { samples: &samples, events: &[], side: Side::Client, backups: &[] };
    if let Some(record) = handover(&history) {
        assert!(record.began_ms.is_finite());
    }
}
