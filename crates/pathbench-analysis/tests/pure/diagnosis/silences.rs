//! Paths that fell silent, on synthetic series.

use super::*;
use DiagnosisKind::{MtuBlackHole, Stale};

#[test]
fn nothing_of_full_size_ever_passed() {
    let found = Series::new().stuck(7000.0, 90_000).mptcp().only();
    check(
        &found,
        MtuBlackHole,
        &["handshake", "8948", "timeouts", "window 1 segment", "still the interface's, 9000", "no router"],
        &["`pathbench mtu lab.example --apply`", "path wlan", "dev wlan0", "tcp_mtu_probing=2", "ICMP"],
    );
    assert_eq!((found.from_ms, found.to_ms, found.side), (None, None, Side::Client));
}

#[test]
fn a_single_path_through_a_black_hole_is_diagnosed() {
    let found = Series::new().stuck(10_000.0, 90_000).tcp().only();
    check(&found, MtuBlackHole, &["no segment of 8948"], &["pathbench mtu"]);
}

#[test]
fn segments_that_pass_when_they_are_smaller_prove_it() {
    let smaller = |now: &mut PathFigures| now.mss_bytes = 1024;
    let case = Series::new().stuck(6300.0, 90_000).changed(smaller).flowing(12_000.0).mptcp();
    let found = case.only();
    check(&found, MtuBlackHole, &["1024", "proves"], &["pathbench mtu"]);
    assert_eq!((found.from_ms, found.to_ms), (Some(100.0), Some(6400.0)));
}

#[test]
fn a_path_that_loses_smaller_segments_too_is_no_mtu_black_hole() {
    let smaller = |now: &mut PathFigures| now.mss_bytes = 1024;
    let series = Series::new().stuck(3500.0, 90_000).changed(smaller).still_stuck(14_000.0);
    let found = series.clone().mptcp().only();
    check(&found, Stale, &["1024", "lost as well"], &["link of path wlan"]);
    // A dead link that comes back when the MSS has been lowered in vain is no proof either.
    let found = series.flowing(20_000.0).mptcp().only();
    check(&found, Stale, &["lost as well"], &[]);
}

#[test]
fn a_subflow_in_its_place_with_smaller_segments_proves_it() {
    let stuck = Series::new().stuck(5800.0, 90_000).closed();
    let fresh = Series::on_subflow(2, 5900.0)
        .changed(|now| (now.mss_bytes, now.pmtu_bytes) = (1448, 1500))
        .flowing(9000.0);
    let found = Case::of(Transport::Mptcp, [stuck.samples, fresh.samples].concat()).only();
    check(&found, MtuBlackHole, &["1448", "proves"], &[]);
    assert_eq!(found.to_ms, Some(5900.0));
}

#[test]
fn a_path_that_worked_and_dies_may_be_dead_or_a_black_hole() {
    let found = Series::new().flowing(5000.0).stuck(9000.0, 90_000).mptcp().only();
    check(&found, Stale, &["full-sized", "not known"], &["link of path wlan", "pathbench mtu lab.example"]);
    assert_eq!((found.from_ms, found.to_ms), (Some(5000.0), None));
}

#[test]
fn a_path_that_comes_back_with_the_same_size_was_dead() {
    let found = Series::new().flowing(5000.0).stuck(9000.0, 90_000).flowing(12_000.0).mptcp().only();
    check(&found, Stale, &["packets of the same size passed again"], &["link of path wlan"]);
    assert_eq!((found.from_ms, found.to_ms), (Some(5000.0), Some(9100.0)));
}

/// The peer's samples on the path: at these times, more of its own data has been acknowledged.
fn peer(times_ms: &[f64], until_ms: f64) -> Vec<Sample> {
    let mut series = Series::new();
    while series.t_ms < until_ms {
        if times_ms.contains(&series.t_ms) {
            (series.now.bytes_sent, series.now.bytes_acked) =
                (series.now.bytes_sent + 758, series.now.bytes_acked + 758);
        }
        series.step();
    }
    series.samples.into_iter().map(|sample| Sample { side: Side::Server, ..sample }).collect()
}

#[test]
fn acknowledged_data_of_the_peer_reveals_the_black_hole() {
    let with_peer = |series: Series, times_ms: &[f64]| {
        let until_ms = series.t_ms;
        Case::of(Transport::Mptcp, [series.samples, peer(times_ms, until_ms)].concat())
    };
    let series = Series::new().flowing(5000.0).stuck(6500.0, 90_000);
    let found = with_peer(series.clone().still_stuck(12_000.0), &[6500.0]).only();
    check(&found, MtuBlackHole, &["small packets passed meanwhile"], &[]);
    // Shortly before the timer expires and everything passes again: the link was dead, and is back.
    let found = with_peer(series.clone().still_stuck(7000.0).flowing(9000.0), &[6900.0]).only();
    check(&found, Stale, &[], &[]);
    // Packets in flight when the link died are no sign, nor are earlier ones.
    let found = with_peer(series.still_stuck(12_000.0), &[4900.0, 5000.0, 5100.0]).only();
    check(&found, Stale, &["not known"], &[]);
}

#[test]
fn a_link_dead_in_one_direction_only_is_no_black_hole() {
    let heard = |now: &mut PathFigures| now.packets_received = now.packets_received.map(|n| n + 1);
    let series = Series::new().flowing(5000.0).stuck(6500.0, 90_000).changed(heard).still_stuck(12_000.0);
    check(&series.mptcp().only(), Stale, &["not known"], &[]);
}

#[test]
fn lost_small_packets_are_not_too_large() {
    let found = Series::new().stuck(4000.0, 300).mptcp().only();
    check(&found, Stale, &["300 bytes", "every path carries"], &[]);
    let small = |now: &mut PathFigures| (now.mss_bytes, now.pmtu_bytes) = (1208, 1260);
    let found = Series::new().changed(small).stuck(4000.0, 90_000).mptcp().only();
    check(&found, Stale, &["every path carries"], &[]);
}

#[test]
fn large_messages_in_a_black_hole_are_found_beside_small_ones_that_pass() {
    let messages = Series::new().stuck(5000.0, 2007);
    let mut acknowledgements = Series::new().until(5000.0, |now| {
        now.bytes_sent += 758;
        now.bytes_acked += 758;
    });
    for sample in &mut acknowledgements.samples {
        sample.stream = 1;
    }
    let both = [messages.samples, acknowledgements.samples].concat();
    let found = Case::of(Transport::Mptcp, both).only();
    check(&found, MtuBlackHole, &["small packets passed", "2007 bytes"], &[]);
}

#[test]
fn a_stream_that_is_stuck_beside_one_that_flows_is_not_its_paths_fault() {
    let stuck = Series::new().stuck(5000.0, 90_000);
    let mut flowing = Series::new().flowing(5000.0);
    for sample in &mut flowing.samples {
        sample.stream = 1;
    }
    Case::of(Transport::Mptcp, [stuck.samples, flowing.samples].concat()).has_none();
}

#[test]
fn streams_that_are_stuck_together_are_one_silence() {
    let first = Series::new().stuck(6000.0, 90_000);
    let mut second = Series::new().idle(500.0).stuck(6000.0, 40_000);
    for sample in &mut second.samples {
        sample.stream = 1;
    }
    let found = Case::of(Transport::Tcp, [first.samples, second.samples].concat()).only();
    check(&found, MtuBlackHole, &["90.0 kB"], &[]);
}

#[test]
fn ordinary_courses_are_no_diagnosis() {
    let flowing = || Series::new().flowing(4000.0);
    let long_round_trips = Series::new().until(6000.0, |now| {
        // 1.2 s of round trip, and everything acknowledged in its time: the timer never expires.
        now.srtt_ms = 1200.0;
        now.bytes_sent += 10_000;
        now.bytes_acked = (now.bytes_sent - 245).saturating_sub(120_000).max(245);
    });
    let cases = [
        ("idle", Series::new().flowing(2000.0).idle(9000.0)),
        ("a timeout", flowing().stuck(4800.0, 90_000).flowing(9000.0)),
        ("closed with data in it", flowing().stuck(4500.0, 90_000).closed()),
        ("at the end of the run", flowing().stuck(4900.0, 90_000)),
        ("long round trips", long_round_trips.flowing(9000.0)),
    ];
    for (name, series) in cases {
        let found = series.mptcp().diagnoses();
        assert!(!found.iter().any(|one| one.path == "wlan"), "{name}: {found:#?}");
    }
}

#[test]
fn an_event_of_the_scenario_is_the_cause() {
    let series = || Series::new().flowing(3000.0).stuck(9000.0, 90_000);
    for kind in ["down", "blackhole", "outage", "remove-address", "fade"] {
        let case = series().mptcp().with_event(event(EventSource::Scenario, 2950.0, kind, "wlan"));
        let found = case.only();
        let words = format!("the scenario's `{kind} wlan` at 3.0 s");
        check(&found, Stale, &[&words, "took the path away"], &["none needed"]);
    }
    let case = series().mptcp().with_event(event(EventSource::Link, 3100.0, "carrier-down", "wlan"));
    check(&case.only(), Stale, &["`carrier-down wlan` at 3.1 s"], &["bring interface wlan0 back"]);
    // A link that belongs to no path may be shared by all paths; another path's link is not.
    let case = series().mptcp().with_event(event(EventSource::Scenario, 2950.0, "down", "backbone"));
    check(&case.only(), Stale, &["`down backbone`"], &[]);
    let case = series().mptcp().with_event(event(EventSource::Scenario, 2950.0, "down", "eth"));
    check(&case.only(), Stale, &["not known"], &[]);
}

#[test]
fn an_impairment_that_was_undone_is_no_cause() {
    let series = || Series::new().flowing(6000.0).stuck(9000.0, 90_000).flowing(12_000.0);
    let ordered = |t_ms, kind| event(EventSource::Scenario, t_ms, kind, "wlan");
    let case = series().mptcp().with_event(ordered(1000.0, "down")).with_event(ordered(2000.0, "up"));
    check(&case.only(), Stale, &["same size"], &["link of path wlan"]);
    // Restored while it is silent: it waits for the timer.
    let case =
        series().mptcp().with_event(ordered(5950.0, "blackhole")).with_event(ordered(7000.0, "restore"));
    check(
        &case.only(),
        Stale,
        &["`blackhole wlan` at 6.0 s", "`restore wlan` at 7.0 s gave it back", "timer"],
        &["net.ipv4.tcp_rto_max_ms", "path wlan"],
    );
    let case =
        series().mptcp().with_event(ordered(5950.0, "blackhole")).with_event(ordered(8500.0, "restore"));
    check(&case.only(), Stale, &["gave it back"], &["none needed"]);
}

#[test]
fn a_path_that_is_back_after_the_application_gave_up_was_not_given_back() {
    let ordered = |t_ms, kind| event(EventSource::Scenario, t_ms, kind, "wlan");
    let gave_up = Event { path: None, ..event(EventSource::Observer, 6100.0, "gave-up", "") };
    let silent = Series::new().flowing(3000.0).stuck(8000.0, 90_000);
    // The silence lasts to the end of the run, or to the close of the subflow.
    for series in [silent.clone(), silent.closed()] {
        let case = |gave_up: Option<Event>| {
            let case =
                series.clone().tcp().with_event(ordered(2950.0, "down")).with_event(ordered(7000.0, "up"));
            gave_up.into_iter().fold(case, Case::with_event).only().because
        };
        assert!(
            case(None).contains("`up wlan` at 7.0 s gave it back, but nothing was acknowledged any more")
        );
        assert!(!case(Some(gave_up.clone())).contains("gave it back"));
    }
}

/// The sender's samples end while it waits for the close of the connection; those of the receiver go on.
#[test]
fn data_that_arrives_after_the_return_of_a_path_is_no_silence_to_the_end() {
    let ordered = |t_ms, kind| event(EventSource::Scenario, t_ms, kind, "wlan");
    let mut case = Series::new().flowing(3000.0).stuck(7400.0, 90_000).tcp();
    case.samples.extend([(2900.0, 50_000), (7600.0, 90_000)].map(|(t_ms, bytes_received)| Sample {
        side: Side::Server,
        ..sample(t_ms, PathFigures { bytes_received, ..figures(1) })
    }));
    case.samples.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
    let found = case.with_event(ordered(2950.0, "down")).with_event(ordered(7000.0, "up")).only();
    check(
        &found,
        Stale,
        &["`up wlan` at 7.0 s gave it back, and data arrived over it again"],
        &["none needed"],
    );
}

#[test]
fn an_interface_that_is_back_is_not_to_be_brought_back() {
    let link = |t_ms, kind| event(EventSource::Link, t_ms, kind, "wlan");
    let down = || Series::new().flowing(3000.0).stuck(6000.0, 90_000).closed();
    let case = down().mptcp().with_event(link(2950.0, "carrier-down"));
    check(&case.only(), Stale, &["`carrier-down wlan`"], &["bring interface wlan0 back"]);
    // The subflow is closed before the interface is back.
    let case = case.with_event(link(7000.0, "carrier-up"));
    check(&case.only(), Stale, &["`carrier-down wlan`"], &["none needed: path wlan is back"]);
}

#[test]
fn a_kernel_notification_of_a_scenario_event_is_not_the_cause() {
    let series = || Series::new().flowing(3000.0).stuck(9000.0, 90_000).mptcp();
    let link_event = |kind| event(EventSource::Link, 2952.0, kind, "wlan");
    let ordered = event(EventSource::Scenario, 2950.0, "down", "wlan");
    let case =
        series().with_event(ordered).with_event(link_event("down")).with_event(link_event("carrier-down"));
    check(&case.only(), Stale, &["the scenario's `down wlan`"], &["none needed"]);
    let case = series().with_event(link_event("down")).with_event(link_event("carrier-down"));
    check(&case.only(), Stale, &["`down wlan` at 3.0 s took"], &["bring interface wlan0 back"]);
}

#[test]
fn addresses_count_only_where_they_are_the_paths() {
    let removed = |network: &str| {
        let mut event = event(EventSource::Link, 2950.0, "address-removed", "wlan");
        event.detail.insert("address".to_owned(), network.into());
        event
    };
    let series = || Series::new().flowing(3000.0).stuck(9000.0, 90_000).mptcp();
    let found = series().with_event(removed("10.0.1.1/24")).only();
    check(&found, Stale, &["`address-removed wlan` (10.0.1.1/24)"], &["bring interface"]);
    let found = series().with_event(removed("fe80::1/64")).only();
    check(&found, Stale, &["not known"], &[]);
}

#[test]
fn a_hop_with_an_mtu_lowered_by_the_scenario_is_the_black_hole() {
    let series = || Series::new().flowing(3000.0).stuck(9000.0, 90_000).mptcp();
    for (path, key) in [("wlan", "path_mtu_bytes"), ("wlan.hop", "mtu_bytes")] {
        let found = series().with_event(set(2950.0, path, key, 1500)).only();
        check(&found, MtuBlackHole, &["`set ", "(MTU 1500 bytes)", "8948"], &["mtu 1500"]);
        assert_eq!((found.from_ms, found.to_ms), (Some(3000.0), None));
    }
    let grown = Series::new().flowing(3000.0).stuck(9000.0, 90_000).flowing(12_000.0).mptcp();
    let grown = grown.with_event(set(2950.0, "wlan", "path_mtu_bytes", 1500));
    let found = grown.with_event(set(8000.0, "wlan", "path_mtu_bytes", 9000)).only();
    check(
        &found,
        MtuBlackHole,
        &["(MTU 1500 bytes)", "(MTU 9000 bytes) at 8.0 s gave it back", "timer"],
        &[],
    );
    // Larger than the packets sent, or undone before: not the reason.
    check(&series().with_event(set(2950.0, "wlan", "path_mtu_bytes", 9000)).only(), Stale, &[], &[]);
    let back = series().with_event(set(1000.0, "wlan", "path_mtu_bytes", 1500)).with_event(set(
        2000.0,
        "wlan",
        "path_mtu_bytes",
        9000,
    ));
    check(&back.only(), Stale, &["not known"], &[]);
}

#[test]
fn a_routers_icmp_message_during_the_silence_is_reported() {
    let learned = |now: &mut PathFigures| now.pmtu_bytes = 1500;
    let found = Series::new().stuck(3000.0, 90_000).changed(learned).still_stuck(5000.0).mptcp().only();
    check(&found, MtuBlackHole, &["fell from 9000 to 1500"], &[]);
    let set_lower = |now: &mut PathFigures| (now.mss_bytes, now.pmtu_bytes) = (3948, 4000);
    let found = Series::new().changed(set_lower).idle(100.0).stuck(5000.0, 90_000).tcp();
    // The first sample had the interface's MTU in force.
    check(&found.only(), MtuBlackHole, &["3948"], &[]);
}

#[test]
fn loss_of_most_packets_is_no_black_hole() {
    let case = Series::new().stuck(6000.0, 90_000).mptcp().with_event(set(0.0, "wlan", "loss", 1.0));
    check(&case.only(), Stale, &["`set wlan`"], &["none needed"]);
    let case = case.with_event(set(50.0, "wlan", "loss", 0.01));
    check(&case.only(), MtuBlackHole, &[], &[]);
}

#[test]
fn of_overlapping_silences_of_two_subflows_the_longest_is_reported() {
    let short = Series::on_subflow(1, 0.0).flowing(2000.0).stuck(3500.0, 90_000).closed();
    let long = Series::on_subflow(2, 0.0).flowing(1800.0).idle(2100.0).stuck(8100.0, 90_000);
    let found = Case::of(Transport::Mptcp, [short.samples, long.samples].concat()).only();
    assert_eq!((found.from_ms, found.to_ms), (Some(2200.0), None));
}

#[test]
fn silences_close_together_are_one_and_many_are_the_longest() {
    let mut series = Series::new().flowing(1000.0);
    for turn in 0..3 {
        series = series
            .stuck(3000.0 + 3000.0 * f64::from(turn), 90_000)
            .flowing(3500.0 + 3000.0 * f64::from(turn));
    }
    let found = series.mptcp().only();
    assert_eq!((found.from_ms, found.to_ms), (Some(1000.0), Some(9100.0)));
    let mut series = Series::new().flowing(1000.0);
    for turn in 1..=9 {
        let until_ms = series.t_ms + 1500.0 + 100.0 * f64::from(turn);
        series = series.stuck(until_ms, 90_000).flowing(until_ms + 2000.0);
    }
    let found = series.mptcp().diagnoses();
    assert_eq!(found.len(), MOST_SILENCES, "{found:#?}");
    assert!(found.windows(2).all(|two| two[0].from_ms < two[1].from_ms));
}

#[test]
fn the_remedy_for_a_sending_server_names_the_server() {
    let mut case = Series::new().stuck(7000.0, 90_000).mptcp();
    case.senders = vec![Side::Server];
    for sample in &mut case.samples {
        sample.side = Side::Server;
    }
    let found = case.only();
    assert_eq!(found.side, Side::Server);
    check(
        &found,
        MtuBlackHole,
        &["still 9000 bytes"],
        &["on the server, for path wlan", "tcp_mtu_probing=2"],
    );
}

#[test]
fn quic_paths_that_are_dead_are_silent_for_all_sizes() {
    let quic = |now: &mut PathFigures| {
        (now.path_id, now.in_flight_bytes) = (Some(1), 40_000);
        (now.black_holes, now.mss_bytes, now.pmtu_bytes) = (Some(0), 8972, 9000);
    };
    let series = Series::new().changed(quic).flowing(2000.0).stuck(5000.0, 90_000);
    let found = Case::of(Transport::Quic, series.samples.clone()).only();
    check(&found, Stale, &["probes of 1200 bytes and less"], &["link of path wlan"]);
    let holes = series.changed(|now| now.black_holes = Some(1)).still_stuck(6000.0);
    let found = Case::of(Transport::Quic, holes.samples).only();
    check(
        &found,
        MtuBlackHole,
        &["small packets passed", "not on ICMP"],
        &["QUIC found it by itself", "path wlan"],
    );
}

#[test]
fn the_verdict_says_the_same() {
    let case = Series::new().stuck(7000.0, 90_000).mptcp();
    let with = |diagnoses| VerdictInput { diagnoses, ..case.connection.clone() };
    let verdict = multipath_verdict(&with(case.diagnoses()));
    assert!(!verdict.used);
    for words in [
        "path wlan was opened but carried less than 0.1 %",
        "MTU black hole suspected: ",
        "Remedy: `pathbench mtu",
    ] {
        assert!(verdict.reason.contains(words), "{}", verdict.reason);
    }
    let mut nothing = with(case.diagnoses());
    nothing.paths.retain(|path| path.name == "wlan");
    nothing.paths[0].delivered_bytes = 0;
    let reason = multipath_verdict(&nothing).reason;
    assert!(
        reason.contains("no byte was delivered") && reason.contains("path wlan: MTU black hole"),
        "{reason}"
    );
}

#[test]
fn a_long_run_with_many_samples_is_judged_at_once() {
    // The most samples kept of a connection, at both ends; anything quadratic would take minutes.
    let series = Series::new().flowing(6_553_600.0);
    let peer = series.samples.iter().map(|sample| Sample { side: Side::Server, ..sample.clone() });
    let case = Case::of(Transport::Mptcp, series.samples.iter().cloned().chain(peer).collect());
    assert!(case.samples.len() > 131_000);
    case.has_none();
}
