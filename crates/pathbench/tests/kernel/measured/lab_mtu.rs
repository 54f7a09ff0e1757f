//! `lab run` over paths with a smaller MTU at a hop: routers that send ICMP, send none, or clamp the MSS; an MTU that
//! changes; and the sizes of the packets on each link.
//!
//! Each test is a short transfer. Sizes are exact; rates have a wide tolerance.

use crate::support::Workplace;
use crate::support::measured::{goodput, path};
use pathbench_record::document::{PacketSizes, RouterRecord, RunLink, RunRecord};
use pathbench_record::event::EventSource;
use std::collections::BTreeMap;

/// Two paths with MTU 9000 at both ends. Keys that follow this text belong to the second path.
const JUMBO: &str = "[[path]]\nname = \"eth\"\nrate = \"20mbit\"\nmtu = 9000\n\
                     [[path]]\nname = \"wlan\"\nrate = \"20mbit\"\nmtu = 9000\n";

fn link<'a>(run: &'a RunRecord, name: &str) -> &'a RunLink {
    run.links.iter().find(|link| link.name == name).unwrap_or_else(|| panic!("no link {name}: {run:#?}"))
}

/// Packets that entered a link.
fn sizes<'a>(run: &'a RunRecord, name: &str) -> &'a PacketSizes {
    link(run, name).packet_sizes.as_ref().unwrap_or_else(|| panic!("nothing counted on {name}: {run:#?}"))
}

fn largest(sizes: &BTreeMap<u32, u64>) -> u32 {
    sizes.keys().next_back().copied().unwrap_or_default()
}

fn count(sizes: &BTreeMap<u32, u64>, bytes: u32) -> u64 {
    sizes.get(&bytes).copied().unwrap_or_default()
}

fn router<'a>(run: &'a RunRecord, name: &str) -> &'a RouterRecord {
    run.routers.iter().find(|router| router.name == name).unwrap_or_else(|| panic!("no {name}: {run:#?}"))
}

/// The value of a key of the matrix.
fn varied<'a>(run: &'a RunRecord, key: &str) -> &'a str {
    run.variant[key].as_str().unwrap()
}

#[test]
fn a_hop_is_discovered_by_icmp_and_is_a_black_hole_without() {
    let text = format!(
        "{JUMBO}path_mtu = 1500\n[host.client.sysctl]\n\"net.ipv4.tcp_mtu_probing\" = 0\n\
         [run]\ntransports = [\"mptcp\"]\nduration = \"3s\"\ncongestion = \"cubic\"\npacket_sizes = true\n\
         [matrix]\n\"path.wlan.icmp\" = [\"on\", \"off\"]\n\"run.family\" = [\"ipv4\", \"ipv6\"]\n"
    );
    let measured = Workplace::new().lab_run("hop", &text, &["--no-calibration"]);
    assert_eq!(measured.document.runs.len(), 4, "{:#?}", measured.finished);
    for run in &measured.document.runs {
        let (family, icmp) = (varied(run, "run.family"), varied(run, "path.wlan.icmp"));
        assert!(run.valid, "{:?}", run.invalid_because);
        let place = format!("{family}, icmp {icmp}: {:#?}", run.paths);
        // The IPv6 header is 20 bytes longer.
        let header = if family == "ipv6" { 20 } else { 0 };
        let (eth, wlan) = (path(run, "eth"), path(run, "wlan"));
        assert_eq!(eth.mss_bytes, 8948 - header, "{place}");
        let near = router(run, "wlan.near");
        assert_eq!(near.icmp, icmp);
        let (first, hop) = (sizes(run, "wlan"), sizes(run, "wlan.hop"));
        // The client does not know the hop's MTU at first; no larger packet passes the hop.
        assert!(largest(&first.forward) > 1500, "{place} {first:?}");
        assert!(largest(&hop.forward) <= 1500 && largest(&hop.reverse) <= 1500, "{place} {hop:?}");
        assert!(count(&sizes(run, "eth").forward, 9000) > 100, "{place}");
        if icmp == "on" {
            assert!(run.multipath.used && wlan.share > 0.2, "{place}");
            assert_eq!((wlan.mss_bytes, wlan.pmtu_bytes), (1448 - header, 1500), "{place}");
            assert!(near.too_big_sent >= 1 && near.too_big_suppressed == 0, "{near:?}");
            assert!(count(&hop.forward, 1500) > 500, "{place} {hop:?}");
        } else {
            assert!(!run.multipath.used && wlan.share < 0.01, "{place}");
            assert_eq!((wlan.mss_bytes, wlan.pmtu_bytes), (8948 - header, 9000), "{place}");
            assert!(near.too_big_sent == 0 && near.too_big_suppressed >= 1, "{near:?}");
            assert_eq!(count(&hop.forward, 1500), 0, "{place} {hop:?}");
        }
    }
}

/// The routers' first neighbour solicitations had to wait for duplicate address detection, and the first SYN was lost.
#[test]
fn the_first_ipv6_packet_passes_the_routers() {
    let text = "[[path]]\nname = \"eth\"\nrate = \"20mbit\"\npath_mtu = 1400\n\
                [run]\ntransports = [\"tcp\"]\nduration = \"1s\"\n[matrix]\n\"run.family\" = [\"ipv4\", \"ipv6\"]\n";
    let measured = Workplace::new().lab_run("six", text, &["--no-calibration"]);
    assert_eq!(measured.document.runs.len(), 2, "{:#?}", measured.finished);
    for run in &measured.document.runs {
        // A SYN is retransmitted after 1 s (TCP_TIMEOUT_INIT, include/net/tcp.h).
        assert!(run.handshake_ms.is_some_and(|ms| ms < 1000.0), "{:?}: {:?}", run.variant, run.handshake_ms);
    }
}

#[test]
fn an_mtu_that_shrinks_during_a_transfer_is_followed_and_reported() {
    let event = |at: &str, change: &str| {
        format!("[[event]]\nat = \"{at}\"\npath = \"wlan\"\naction = \"set\"\n{change}\n")
    };
    let text = [
        format!("{JUMBO}path_mtu = 9000\n"),
        event("1500ms", "path_mtu = 1400"),
        event("3s", "path_mtu = 9000\nicmp = \"off\"\nclamp_mss = true"),
        "[run]\ntransports = [\"mptcp\"]\nduration = \"4s\"\ncongestion = \"cubic\"\npacket_sizes = true\n"
            .to_owned(),
    ]
    .concat();
    let measured = Workplace::new().lab_run("shrink", &text, &[]);
    let run = measured.run("mptcp");
    assert!(run.completed && run.multipath.used, "{run:#?}");
    let wlan = path(run, "wlan");
    assert_eq!((wlan.mss_bytes, wlan.pmtu_bytes), (1348, 1400), "{wlan:?}");
    let hop = sizes(run, "wlan.hop");
    assert!(count(&hop.forward, 9000) > 20 && count(&hop.forward, 1400) > 500, "{hop:?}");
    let scenario = measured.events_of(run, EventSource::Scenario);
    let details: Vec<_> = scenario.iter().map(|event| serde_json::to_value(&event.detail).unwrap()).collect();
    assert_eq!(
        details,
        [
            serde_json::json!({ "path_mtu_bytes": 1400 }),
            serde_json::json!({ "path_mtu_bytes": 9000, "icmp": "off", "clamp_mss": true }),
        ]
    );
    assert!(scenario.iter().all(|event| event.path.as_deref() == Some("wlan")), "{scenario:#?}");
    // Calibration measures both paths and the hop, not the links behind the hop.
    let mtu = |link: &RunLink| link.measured.as_ref().unwrap().forward_mtu_bytes;
    let links: Vec<_> = run.links.iter().map(|link| (link.name.as_str(), mtu(link))).collect();
    assert_eq!(links, [("eth", 9000), ("wlan", 9000), ("wlan.hop", 9000)]);
}

/// Regression: with one queued segment at a time, MPTCP could not build a probe on a slow link, and both subflows
/// kept their base MSS.
#[test]
fn probes_of_an_mptcp_subflow_get_beyond_the_base_mss() {
    let text = format!(
        "{JUMBO}path_mtu = 1500\nicmp = \"off\"\n[host.client.sysctl]\n\"net.ipv4.tcp_mtu_probing\" = 2\n\
         [run]\ntransports = [\"mptcp\"]\nduration = \"4s\"\ncongestion = \"cubic\"\n"
    );
    let measured = Workplace::new().lab_run("probing", &text, &["--no-calibration"]);
    let run = measured.run("mptcp");
    assert!(run.multipath.used, "{run:#?}");
    let (eth, wlan) = (path(run, "eth"), path(run, "wlan"));
    // The kernel's default base is 1024.
    assert!(eth.mss_bytes > 1_500, "{eth:?}");
    assert!((1_025..=1_448).contains(&wlan.mss_bytes), "{wlan:?}");
}

#[test]
fn a_clamp_saves_tcp_from_a_black_hole() {
    let text = format!(
        "{JUMBO}path_mtu = 1500\nicmp = \"off\"\nclamp_mss = true\n\
         [run]\ntransports = [\"tcp@wlan\"]\nduration = \"2s\"\ncongestion = \"cubic\"\npacket_sizes = true\n"
    );
    let measured = Workplace::new().lab_run("clamp", &text, &["--no-calibration"]);
    let run = measured.run("tcp@wlan");
    assert!(run.completed && goodput(run) > 8.0, "{run:#?}");
    let wlan = path(run, "wlan");
    // The kernel's path MTU has not changed.
    assert_eq!((wlan.mss_bytes, wlan.pmtu_bytes), (1448, 9000), "{wlan:?}");
    let near = router(run, "wlan.near");
    assert!(near.clamp_mss && near.clamped_syns >= 2 && near.too_big_suppressed == 0, "{near:?}");
    let first = sizes(run, "wlan");
    assert!(largest(&first.forward) <= 1500 && count(&first.forward, 1500) > 500, "{first:?}");
    let bytes: u64 = first.forward.iter().map(|(bytes, packets)| u64::from(*bytes) * packets).sum();
    assert!(bytes > run.delivered_bytes, "{bytes} of {}", run.delivered_bytes);
}

#[test]
fn routers_may_send_some_of_their_messages_only() {
    let text = format!(
        "{JUMBO}path_mtu = 1500\nicmp = \"1/s\"\n\
         [run]\ntransports = [\"tcp@wlan\"]\nduration = \"3s\"\ncongestion = \"cubic\"\n"
    );
    let measured = Workplace::new().lab_run("limited", &text, &["--no-calibration"]);
    let run = measured.run("tcp@wlan");
    // The first ICMP message is enough; the other packets of the first window exceed the ICMP rate limit.
    assert!(run.completed && goodput(run) > 5.0, "{run:#?}");
    let near = router(run, "wlan.near");
    assert_eq!(near.icmp, "1/s");
    assert!(near.too_big_sent >= 1 && near.too_big_suppressed >= 1, "{near:?}");
    let uncounted = |link: &RunLink| link.measured.is_none() && link.packet_sizes.is_none();
    assert!(run.links.iter().all(uncounted), "nothing was measured or counted: {:?}", run.links);
}

#[test]
fn the_data_plane_counts_the_packets_of_an_emulated_path_one_by_one() {
    let text = "[[path]]\nname = \"lte\"\nrate = \"10mbit\"\ndelay = \"5ms\"\nmtu = 9000\npath_mtu = 1500\n\
                [run]\ntransports = [\"tcp\"]\nduration = \"3s\"\ncongestion = \"cubic\"\npacket_sizes = true\n\
                lateness_tolerance = \"10s\"\n";
    let measured = Workplace::new().lab_run("emulated", text, &["--no-calibration"]);
    let run = measured.run("tcp");
    assert!(run.completed && goodput(run) > 2.0, "{run:#?}");
    assert_eq!(path(run, "lte").mss_bytes, 1448);
    let (first, hop) = (sizes(run, "lte"), sizes(run, "lte.hop"));
    assert!(count(&first.forward, 1500) > 200 && largest(&first.forward) > 1500, "{first:?}");
    assert!(largest(&hop.forward) <= 1500, "{hop:?}");
    let direction = link(run, "lte").emulation.clone().unwrap().forward;
    // The data plane counts further packets after the sizes were read.
    let counted: u64 = first.forward.values().sum();
    assert!(
        counted <= direction.offered_packets && direction.offered_packets < counted + 20,
        "{first:?} {direction:?}"
    );
    let lost = count(&first.forward, 1500).checked_sub(count(&hop.forward, 1500)).unwrap();
    assert!(lost <= direction.dropped_packets.values().sum(), "{first:?} {hop:?} {direction:?}");
}
