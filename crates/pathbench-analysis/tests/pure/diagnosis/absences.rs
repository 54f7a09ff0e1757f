//! Paths without an open subflow for a time.

use super::*;
use DiagnosisKind::{MtuBlackHole, NeverEstablished, Stale};

/// An event of the client's QUIC on `wlan`.
fn quic_event(t_ms: f64, kind: &str) -> Event {
    let mut event = event(EventSource::Quic, t_ms, kind, "wlan");
    event.detail.insert("local".to_owned(), WLAN.to_string().into());
    event.detail.insert("reason".to_owned(), "no answer".into());
    event
}

fn ordered(t_ms: f64, kind: &str) -> Event {
    event(EventSource::Scenario, t_ms, kind, "wlan")
}

/// A path that worked until 3 s, was closed then, and was opened again at that time.
fn reopened(at_ms: f64) -> Vec<Sample> {
    let before = Series::new().flowing(2900.0).closed();
    let after = Series::on_subflow(2, at_ms).flowing(at_ms + 3000.0);
    [before.samples, after.samples].concat()
}

#[test]
fn a_closed_subflow_is_missed_until_there_is_another() {
    let found = Case::of(Transport::Mptcp, reopened(6000.0)).only();
    check(&found, Stale, &["its subflow was closed"], &["link of path wlan"]);
    assert_eq!((found.from_ms, found.to_ms), (Some(3000.0), Some(6000.0)));
    Case::of(Transport::Mptcp, reopened(3800.0)).has_none();
}

#[test]
fn a_closed_subflow_without_another_lasts_to_the_end() {
    // A closed subflow has no sample after that of its end.
    let closed = || {
        let mut other = Series::on_subflow(2, 0.0).flowing(8000.0).samples;
        for sample in &mut other {
            sample.path = "eth".to_owned();
        }
        let mut samples = [Series::new().flowing(2900.0).closed().samples, other].concat();
        samples.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
        Case::of(Transport::Mptcp, samples)
    };
    let found = closed().only();
    check(&found, Stale, &["no other was opened"], &[]);
    assert_eq!((found.from_ms, found.to_ms), (Some(3000.0), None));
    let found = closed()
        .with_event(ordered(2950.0, "remove-address"))
        .with_event(ordered(5000.0, "add-address"))
        .only();
    check(
        &found,
        Stale,
        &[
            "`remove-address wlan` at 3.0 s took the path away",
            "`add-address wlan` at 5.0 s gave it back",
            "no other",
        ],
        &["none needed"],
    );
    let mut reset = closed();
    reset.connection.join_failures =
        vec![MptcpEvent { local: Some((WLAN, 0).into()), reset_reason: Some(4), ..MptcpEvent::default() }];
    check(&reset.only(), Stale, &["too much outstanding data"], &[]);
}

#[test]
fn the_end_of_a_run_is_no_absence() {
    Series::new().flowing(5000.0).closed().until(5800.0, |_| {}).mptcp().has_none();
    Series::new().flowing(5000.0).closed().until(9000.0, |_| {}).tcp().has_none();
}

#[test]
fn a_silence_that_ends_in_an_absence_is_one() {
    let series = Series::new().flowing(3000.0).stuck(5000.0, 90_000).closed().until(9000.0, |_| {});
    let found = series.mptcp().only();
    check(&found, Stale, &["full-sized"], &[]);
    assert_eq!((found.from_ms, found.to_ms), (Some(3000.0), None));
    let series = Series::new().stuck(5000.0, 90_000).closed().until(9000.0, |_| {});
    let found = series.mptcp().only();
    assert_eq!((found.kind, found.from_ms, found.to_ms), (MtuBlackHole, Some(100.0), None));
}

#[test]
fn a_subflow_closed_before_it_carried_anything_was_never_established() {
    let series = Series::new().changed(|now| (now.bytes_sent, now.bytes_acked) = (0, 1)).closed();
    let case = series.until(9000.0, |_| {}).mptcp();
    assert_eq!(case.only().kind, NeverEstablished);
}

fn mpquic(samples: Vec<Sample>) -> Case {
    let mut case = Case::of(Transport::Mpquic, samples);
    case.connection.quic = Some(pathbench_analysis::verdict::QuicPaths::default());
    case
}

#[test]
fn a_quic_path_that_was_given_up_says_why() {
    let case = mpquic(reopened(6000.0)).with_event(quic_event(2200.0, "path-suspended"));
    let found = case.with_event(quic_event(2990.0, "path-given-up")).only();
    check(&found, Stale, &["no packet arrived on it"], &[]);
    assert_eq!((found.from_ms, found.to_ms), (Some(2200.0), Some(6000.0)));
    let found = mpquic(reopened(6000.0)).with_event(quic_event(2990.0, "path-given-up")).only();
    check(&found, Stale, &["it was given up: no answer"], &[]);
    let case = mpquic(reopened(6000.0)).with_event(ordered(2900.0, "down")).with_event(ordered(5900.0, "up"));
    let found = case.with_event(quic_event(2990.0, "path-given-up")).only();
    check(
        &found,
        Stale,
        &["`down wlan` at 2.9 s", "`up wlan` at 5.9 s", "it was given up"],
        &["none needed"],
    );
}

#[test]
fn a_suspension_counts_from_a_second_on() {
    let flowing =
        || mpquic(Series::new().flowing(9000.0).samples).with_event(quic_event(3000.0, "path-suspended"));
    flowing().with_event(quic_event(3900.0, "path-resumed")).has_none();
    let found = flowing().with_event(quic_event(4500.0, "path-resumed")).only();
    check(&found, Stale, &["no packet arrived on it"], &[]);
    assert_eq!((found.from_ms, found.to_ms), (Some(3000.0), Some(4500.0)));
    // A suspension at the other end concerns that end only.
    let mut of_server = quic_event(3000.0, "path-suspended");
    of_server.detail.insert("local".to_owned(), SERVER.to_string().into());
    mpquic(Series::new().flowing(9000.0).samples).with_event(of_server).has_none();
}

/// The absences at 0.1 and 1.0 s are one; the silence that follows must not end before it begins.
#[test]
fn a_silence_after_an_absence_is_merged_with_it() {
    let reopen = |series: Series| series.closed().changed(|now| now.state = PathState::Open);
    let flowing = reopen(Series::new()).flowing(900.0);
    let found = reopen(flowing).stuck(2000.0, 1).flowing(2100.0).mptcp().only();
    assert_eq!((found.from_ms, found.to_ms), (Some(100.0), Some(2100.0)), "{found:?}");
}

/// An absence between two silences makes one period of the three.
#[test]
fn silences_around_an_absence_are_merged_with_it() {
    let dead = Series::new().flowing(1000.0).stuck(3000.0, 20_000).closed();
    // Data is outstanding in the first sample of the successor.
    let reopened = Series::on_subflow(2, 5900.0).stuck(8000.0, 20_000).flowing(9000.0);
    let found = Case::of(Transport::Mptcp, [&dead.samples, &reopened.samples[1..]].concat()).only();
    assert_eq!((found.from_ms, found.to_ms), (Some(1000.0), Some(8100.0)), "{found:?}");
}
