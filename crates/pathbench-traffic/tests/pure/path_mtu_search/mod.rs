//! The search for a path MTU, its watch and a server's responder together on a simulated clock.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod simulated;

use pathbench_record::network::AddressFamily;
use pathbench_traffic::path_mtu::{
    DirectionFound, MtuBounds, MtuEvent, NoMtu, PathMtuFound, SizeEvidence, WatchPace,
};
use proptest::prelude::*;
use simulated::{Icmp, Leg, ROUTER, Simulation};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn mtu(found: &DirectionFound) -> u32 {
    found.found.as_ref().map_or(0, |found| found.mtu_bytes)
}

fn lossy(leg: Leg, loss_permille: u32) -> Leg {
    Leg { loss_permille, ..leg }
}

#[test]
fn the_mtus_of_the_table_are_found_exactly_within_five_seconds() {
    let mut slowest = Duration::ZERO;
    let mut most = (0, 0);
    for family in [AddressFamily::Ipv4, AddressFamily::Ipv6] {
        for true_mtu in [1280, 1400, 1492, 1500, 4352, 9000] {
            for icmp in [Icmp::Silent, Icmp::Honest] {
                for loss in [0, 20, 50] {
                    for rtt_ms in [1, 20, 100] {
                        let leg = lossy(Leg::plain(true_mtu, MS * rtt_ms / 2), loss);
                        let seed = u64::from(true_mtu + loss * 7 + rtt_ms);
                        let mut simulation = Simulation::new(family, leg, leg, icmp, seed);
                        let found = simulation.find(MtuBounds::default(), |_, _| {});
                        let case = format!("{family:?} {true_mtu} {icmp:?} {loss} ‰ {rtt_ms} ms: {found:#?}");
                        for direction in [&found.upload, &found.download] {
                            assert_eq!(mtu(direction), true_mtu, "{case}");
                            let result = direction.found.as_ref().unwrap();
                            assert!(result.confidence > 0.9999, "{case}");
                            assert!(direction.duration < 5000 * MS, "{case}");
                            assert!(direction.bytes_sent < 700_000, "{case}");
                            assert_ne!(result.evidence, SizeEvidence::Unsettled, "{case}");
                            slowest = slowest.max(direction.duration);
                            most = (most.0.max(direction.probes_sent), most.1.max(direction.bytes_sent));
                        }
                        let has_icmp = matches!(
                            found.upload.found.as_ref().unwrap().evidence,
                            SizeEvidence::Icmp { router: ROUTER, mtu_bytes } if mtu_bytes == true_mtu
                        );
                        let is_reported = icmp == Icmp::Honest && true_mtu < 9000;
                        assert_eq!(has_icmp, is_reported, "{case}");
                        let pmtu_bytes = if is_reported { true_mtu } else { 9000 };
                        let down = &found.download;
                        assert_eq!(down.peer_kernel_bytes, Some(pmtu_bytes), "{case}");
                        let is_known =
                            down.found.as_ref().unwrap().evidence == SizeEvidence::PeerKernel { pmtu_bytes };
                        assert_eq!(is_known, is_reported, "{case}");
                    }
                }
            }
        }
    }
    assert!(slowest < 4000 * MS && most.0 < 150, "slowest {slowest:?}, most probes and bytes {most:?}");
}

/// As during neighbour discovery with losses: the first datagrams wait in the kernel.
#[test]
fn delayed_first_datagrams_do_not_slow_down_the_search() {
    for seed in 0..20 {
        let leg = lossy(Leg::plain(1492, MS), 20);
        let mut simulation = Simulation::new(AddressFamily::Ipv6, leg, leg, Icmp::Silent, seed);
        let held = 2000 * MS;
        let found = simulation.find(MtuBounds::default(), |path, elapsed| {
            path.up.delay = held.saturating_sub(elapsed).max(MS);
        });
        for direction in [&found.upload, &found.download] {
            assert_eq!(mtu(direction), 1492, "{seed}: {found:#?}");
            assert!(direction.duration < held + 1500 * MS, "{seed}: {found:#?}");
        }
    }
}

#[test]
fn a_slow_link_with_a_short_queue_is_measured_in_time() {
    for (rate_bps, queue_bytes) in [(1_000_000, 12_500), (1_000_000, 40_000), (10_000_000, 30_000)] {
        for true_mtu in [1280, 1500, 4352] {
            for loss in [0, 20] {
                let leg = Leg { rate_bps, queue_bytes, ..Leg::plain(true_mtu, 10 * MS) };
                let leg = lossy(leg, loss);
                let mut simulation = Simulation::new(AddressFamily::Ipv4, leg, leg, Icmp::Silent, 5);
                let found = simulation.find(MtuBounds::default(), |_, _| {});
                for direction in [&found.upload, &found.download] {
                    assert_eq!(mtu(direction), true_mtu, "{rate_bps} {queue_bytes} {found:#?}");
                    assert!(direction.duration < 5000 * MS, "{rate_bps} {queue_bytes} {found:#?}");
                }
            }
        }
    }
}

#[test]
fn the_interfaces_limits_are_distinguished_and_directions_differ() {
    let interface = |mut leg: Leg, bytes| {
        leg.interface_bytes = bytes;
        leg
    };
    let wide = Leg::plain(65_535, 5 * MS);
    let mut simulation =
        Simulation::new(AddressFamily::Ipv4, interface(wide, 9000), interface(wide, 4000), Icmp::Silent, 1);
    let found = simulation.find(MtuBounds::default(), |_, _| {});
    assert_eq!((mtu(&found.upload), mtu(&found.download)), (9000, 4000), "{found:#?}");
    assert_eq!(found.upload.found.unwrap().evidence, SizeEvidence::LocalInterface);
    assert_eq!(found.download.found.unwrap().evidence, SizeEvidence::PeerInterface);
    let mut simulation =
        Simulation::new(AddressFamily::Ipv6, interface(wide, 1500), interface(wide, 9000), Icmp::Silent, 1);
    let found = simulation.find(MtuBounds::default(), |_, _| {});
    assert_eq!((mtu(&found.upload), mtu(&found.download)), (1500, 1500), "{found:#?}");
    let mut simulation = Simulation::new(
        AddressFamily::Ipv4,
        Leg::plain(1500, 5 * MS),
        Leg::plain(1337, 5 * MS),
        Icmp::Honest,
        1,
    );
    let found = simulation.find(MtuBounds::default(), |_, _| {});
    assert_eq!((mtu(&found.upload), mtu(&found.download)), (1500, 1337), "{found:#?}");
}

#[test]
fn a_wrong_icmp_report_is_recorded_and_ignored() {
    for reported in [0, 68, 300, 576, 1300, 1499, 1501, 8999, 9000, 65_535, u32::MAX] {
        let leg = Leg::plain(1500, 10 * MS);
        let mut simulation = Simulation::new(AddressFamily::Ipv4, leg, leg, Icmp::Wrong(reported), 3);
        let found = simulation.find(MtuBounds::default(), |_, _| {});
        assert_eq!(mtu(&found.upload), 1500, "{reported}: {found:#?}");
        assert_eq!(found.upload.found.unwrap().evidence, SizeEvidence::DroppedSilently);
        assert!(found.upload.icmp.iter().all(|report| !report.held && report.mtu_bytes == reported));
        assert_eq!(found.upload.icmp.len(), 1);
    }
}

#[test]
fn each_kind_of_silence_is_reported_as_such() {
    let leg = Leg::plain(1500, 10 * MS);
    let mut dead = Simulation::new(AddressFamily::Ipv4, lossy(leg, 1000), leg, Icmp::Silent, 1);
    let found = dead.find(MtuBounds::default(), |_, _| {});
    assert_eq!(found.upload.found, Err(NoMtu::Silent));
    assert!(found.upload.duration < 5000 * MS);
    let mut old = Simulation::new(AddressFamily::Ipv4, leg, leg, Icmp::Silent, 1);
    old.answers_hello_only = true;
    let found = old.find(MtuBounds::default(), |_, _| {});
    assert_eq!(found.upload.found, Err(NoMtu::Unanswered), "{found:#?}");
    let narrow = Leg::plain(1200, 10 * MS);
    let mut tunnel = Simulation::new(AddressFamily::Ipv6, narrow, leg, Icmp::Silent, 1);
    let found = tunnel.find(MtuBounds::default(), |_, _| {});
    assert_eq!(found.upload.found, Err(NoMtu::BelowFloor { floor_bytes: 1280 }));
    assert_eq!(mtu(&found.download), 1500);
}

#[test]
fn a_path_that_changes_during_a_search_is_measured_in_its_final_state() {
    for (before, after) in [(1500, 1400), (1400, 1500), (9000, 1280), (1280, 9000), (4352, 1500)] {
        for change_ms in [30, 60, 90, 120, 150, 200] {
            let leg = Leg::plain(before, 10 * MS);
            let mut simulation = Simulation::new(AddressFamily::Ipv4, leg, leg, Icmp::Silent, 1);
            let found = simulation.find(MtuBounds::default(), |simulation, at| {
                let mtu_bytes = if at < change_ms * MS { before } else { after };
                (simulation.up.mtu_bytes, simulation.down.mtu_bytes) = (mtu_bytes, mtu_bytes);
            });
            for direction in [&found.upload, &found.download] {
                let is_over_before = direction.duration < (change_ms + 40) * MS;
                let expected = [after, if is_over_before { before } else { after }];
                assert!(expected.contains(&mtu(direction)), "{before} → {after} at {change_ms}: {found:#?}");
            }
        }
    }
}

fn both(found: &PathMtuFound) -> (u32, u32) {
    (mtu(&found.upload), mtu(&found.download))
}

#[test]
fn a_watch_follows_an_mtu_down_and_up_and_reports_nothing_else() {
    for icmp in [Icmp::Silent, Icmp::Honest] {
        for loss in [0, 20] {
            let leg = lossy(Leg::plain(1500, 10 * MS), loss);
            let mut simulation = Simulation::new(AddressFamily::Ipv4, leg, leg, icmp, 4);
            let events = simulation.watch(WatchPace::default(), Duration::from_secs(60), |simulation, at| {
                let mtu_bytes = match at.as_secs() {
                    0..20 => 1500,
                    20..40 => 1400,
                    _ => 9000,
                };
                (simulation.up.mtu_bytes, simulation.down.mtu_bytes) = (mtu_bytes, mtu_bytes);
            });
            let [(first, MtuEvent::Examined(found)), rest @ ..] = &events[..] else { panic!("{events:#?}") };
            assert!(*first < 2000 * MS && both(found) == (1500, 1500), "{events:#?}");
            let changes: Vec<_> = rest
                .iter()
                .map(|(at, event)| match event {
                    MtuEvent::Changed { before, now } => (*at, both(before), both(now)),
                    other => panic!("{other:?}"),
                })
                .collect();
            // Each direction may be detected separately.
            let (_, _, last) = changes[changes.len() - 1];
            assert_eq!(last, (9000, 9000), "{changes:?}");
            let down = changes.iter().find(|(_, _, now)| *now == (1400, 1400)).expect("smaller");
            assert!(down.0 > 20_000 * MS && down.0 < 25_000 * MS, "{changes:?}");
            assert!(changes[changes.len() - 1].0 < 47_000 * MS, "{changes:?}");
            assert!(changes.len() <= 4, "{changes:?}");
        }
    }
}

/// The bounds may end a search just after the path has changed; the result was that nobody had answered.
#[test]
fn a_search_that_ends_after_a_restart_does_not_claim_silence() {
    let mut ended_so = 0;
    for most_probes in 280..320 {
        let leg = lossy(Leg::plain(1766, 10 * MS), 20);
        let mut simulation = Simulation::new(AddressFamily::Ipv4, leg, leg, Icmp::Silent, 4);
        let bounds = MtuBounds { most_probes, ..MtuBounds::default() };
        let found = simulation.find(bounds, |simulation, at| {
            let mtu_bytes = if at < 150 * MS { 1766 } else { 1349 };
            (simulation.up.mtu_bytes, simulation.down.mtu_bytes) = (mtu_bytes, mtu_bytes);
        });
        for direction in [&found.upload, &found.download] {
            assert!(direction.found != Err(NoMtu::Silent), "{most_probes} probes: {found:#?}");
            ended_so += u32::from(direction.found == Err(NoMtu::Unstable));
        }
    }
    assert!(ended_so > 0, "no search ended just after a restart");
}

#[test]
fn the_loss_and_the_return_of_a_path_are_reported() {
    let leg = Leg::plain(1500, 10 * MS);
    let mut simulation = Simulation::new(AddressFamily::Ipv6, leg, leg, Icmp::Silent, 4);
    let events = simulation.watch(WatchPace::default(), Duration::from_secs(60), |simulation, at| {
        let loss = if (10..30).contains(&at.as_secs()) { 1000 } else { 0 };
        (simulation.up.loss_permille, simulation.down.loss_permille) = (loss, loss);
        let mtu_bytes = if at.as_secs() < 20 { 1500 } else { 1280 };
        (simulation.up.mtu_bytes, simulation.down.mtu_bytes) = (mtu_bytes, mtu_bytes);
    });
    let [(_, MtuEvent::Examined(first)), (away, MtuEvent::Away { .. }), (back, MtuEvent::Examined(second))] =
        &events[..]
    else {
        panic!("{events:#?}")
    };
    assert_eq!((both(first), both(second)), ((1500, 1500), (1280, 1280)));
    assert!((10_000 * MS..16_000 * MS).contains(away), "{away:?}");
    assert!((30_000 * MS..33_000 * MS).contains(back), "{back:?}");
}

#[test]
fn an_interface_that_changes_is_noticed_by_the_watch() {
    let leg = Leg { interface_bytes: 1500, ..Leg::plain(65_535, 10 * MS) };
    let mut simulation = Simulation::new(AddressFamily::Ipv4, leg, leg, Icmp::Silent, 4);
    let events = simulation.watch(WatchPace::default(), Duration::from_secs(40), |simulation, at| {
        let interface_bytes = match at.as_secs() {
            0..10 => 1500,
            10..20 => 1400,
            _ => 9000,
        };
        (simulation.up.interface_bytes, simulation.down.interface_bytes) = (interface_bytes, interface_bytes);
    });
    let found: Vec<_> = events
        .iter()
        .map(|(_, event)| match event {
            MtuEvent::Examined(now) | MtuEvent::Changed { now, .. } => both(now),
            MtuEvent::Away { .. } => panic!("{events:#?}"),
        })
        .collect();
    assert_eq!(found, [(1500, 1500), (1400, 1400), (9000, 9000)]);
}

#[test]
fn a_watch_of_a_stable_path_sends_little() {
    let leg = Leg::plain(1400, 10 * MS);
    let mut simulation = Simulation::new(AddressFamily::Ipv4, leg, leg, Icmp::Silent, 4);
    let mut before = 0;
    let events = simulation.watch(WatchPace::default(), Duration::from_secs(100), |simulation, at| {
        before = if at.as_secs() < 10 { simulation.sent_bytes() } else { before };
    });
    assert_eq!(events.len(), 1, "{events:#?}");
    let rate_bps = (simulation.sent_bytes() - before) * 8 / 90;
    assert!(rate_bps < 40_000, "{rate_bps} bit/s, both directions");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_path_the_answer_is_exact_or_honest(
        true_mtu in 576_u32..=9000,
        down_mtu in 576_u32..=9000,
        loss in 0_u32..=100,
        jitter_ms in 0_u32..=10,
        duplicates in 0_u32..=50,
        rtt_ms in 1_u32..=100,
        wrong_bytes in prop::option::of(prop_oneof![Just(300), Just(1500), Just(9000), 576_u32..9000]),
        silent in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let leg = |mtu| Leg {
            jitter: MS * jitter_ms,
            duplicate_permille: duplicates,
            ..lossy(Leg::plain(mtu, MS * rtt_ms / 2), loss)
        };
        let icmp = wrong_bytes.map_or(if silent { Icmp::Silent } else { Icmp::Honest }, Icmp::Wrong);
        let mut simulation = Simulation::new(AddressFamily::Ipv4, leg(true_mtu), leg(down_mtu), icmp, seed);
        let found = simulation.find(MtuBounds::default(), |_, _| {});
        for (direction, true_mtu) in [(&found.upload, true_mtu), (&found.download, down_mtu)] {
            // Losses in a row may look like a smaller path; the bounds may then end the search before a new result.
            if direction.restarts > 0 && direction.found == Err(NoMtu::Unstable) {
                continue;
            }
            let result = direction.found.as_ref();
            prop_assert!(result.is_ok(), "{:?}", found);
            let result = result.unwrap();
            prop_assert!(result.mtu_bytes <= true_mtu, "never a size that does not pass: {:?}", found);
            if result.evidence == SizeEvidence::Unsettled {
                prop_assert!(result.mtu_bytes == true_mtu || result.confidence < 0.99999);
            } else {
                prop_assert_eq!(result.mtu_bytes, true_mtu, "{:?}", found);
            }
            prop_assert!(direction.duration <= 10_100 * MS);
        }
        prop_assert!(found.upload.probes_sent + found.download.probes_sent <= 401);
    }

    #[test]
    fn a_fifth_lost_is_measured_or_admitted(true_mtu in 576_u32..=9000, seed in any::<u64>()) {
        let leg = lossy(Leg::plain(true_mtu, 10 * MS), 200);
        let mut simulation = Simulation::new(AddressFamily::Ipv4, leg, leg, Icmp::Silent, seed);
        let found = simulation.find(MtuBounds::default(), |_, _| {});
        for direction in [&found.upload, &found.download] {
            if let Ok(result) = &direction.found {
                prop_assert!(result.mtu_bytes <= true_mtu);
                prop_assert!(result.mtu_bytes == true_mtu || result.evidence == SizeEvidence::Unsettled, "{:?}", found);
            }
        }
    }
}
