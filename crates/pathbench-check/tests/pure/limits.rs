//! Findings about limits of this host: buffers beside measured paths, shapers, the scheduler.

use crate::host::facts::{ETH0, healthy, set};
use crate::server::{path, sound};
use pathbench_check::finding::{Finding, FindingId, Level};
use pathbench_check::server::facts::{PathRates, ServerFacts};
use pathbench_check::{host, server};
use pathbench_host::shaping::Shaping;
use pathbench_record::resource::BufferLimits;

const KIB: u64 = 1024;

fn of(id: FindingId, findings: Vec<Finding>) -> Finding {
    findings.into_iter().find(|finding| finding.id == id).unwrap()
}

/// A fast path with a short RTT beside a slow one with a long RTT, and buffers of this size.
fn measured(largest_receive: u64, largest_send: u64) -> ServerFacts {
    let rates = |min_rtt_ms, bps| Some(PathRates { min_rtt_ms, upload_bps: bps, download_bps: bps });
    let (mut fast, mut slow) = (path(0, "eth"), path(1, "wlan"));
    (fast.rates, slow.rates) = (rates(10.0, 40_000_000), rates(300.0, 3_000_000));
    let limits =
        BufferLimits { receive: [4096, 65_536, largest_receive], send: [4096, 16_384, largest_send] };
    ServerFacts { paths: vec![fast, slow], buffers: Some(limits), ..sound() }
}

#[test]
fn buffers_below_the_product_of_a_long_path_are_a_problem() {
    let found = of(FindingId::TcpBuffers, server::findings(&measured(256 * KIB, 4096 * KIB)));
    assert_eq!(found.level, Level::Problem);
    // 128 KiB in 300 ms.
    assert!(
        found.found.contains("3.5 Mbit/s") && found.found.contains("eth alone reached 40 Mbit/s"),
        "{found:?}"
    );
    assert_eq!(found.remedy, ["sysctl -w net.ipv4.tcp_rmem='4096 65536 7340032'"]);
    // The send buffer limits uploads.
    let found = of(FindingId::TcpBuffers, server::findings(&measured(8192 * KIB, 256 * KIB)));
    assert_eq!(found.level, Level::Problem);
    assert_eq!(found.remedy, ["sysctl -w net.ipv4.tcp_wmem='4096 16384 7340032'"]);
}

#[test]
fn buffers_between_one_path_and_both_are_advice() {
    // 40 Mbit/s × 300 ms = 1.5 MB; 43 Mbit/s: 1.61 MB.
    let found = of(FindingId::TcpBuffers, server::findings(&measured(3_100_000, 8192 * KIB)));
    assert_eq!(found.level, Level::Advice, "{found:?}");
    let found = of(FindingId::TcpBuffers, server::findings(&measured(3_300_000, 1_620_000)));
    assert_eq!(found.level, Level::Ok, "{found:?}");
}

/// The finding disappears with the buffers that its remedy sets.
#[test]
fn the_remedy_is_enough() {
    for rates in
        [(10.0, 1_000_000, 250.0, 90_000_000), (600.0, 20_000_000, 5.0, 900_000_000), (1.0, 1, 2.0, 1)]
    {
        let mut facts = measured(64 * KIB, 64 * KIB);
        for (path, (rtt, bps)) in facts.paths.iter_mut().zip([(rates.0, rates.1), (rates.2, rates.3)]) {
            path.rates = Some(PathRates { min_rtt_ms: rtt, upload_bps: bps, download_bps: bps });
        }
        for step in of(FindingId::TcpBuffers, server::findings(&facts)).remedy {
            let value = step.split('\'').nth(1).unwrap();
            let largest: u64 = value.rsplit(' ').next().unwrap().parse().unwrap();
            let limits = facts.buffers.as_mut().unwrap();
            let of_key = if step.contains("rmem") { &mut limits.receive } else { &mut limits.send };
            assert!(largest > of_key[2], "{step}");
            of_key[2] = largest;
        }
        assert_eq!(of(FindingId::TcpBuffers, server::findings(&facts)).level, Level::Ok, "{rates:?}");
    }
}

#[test]
fn nothing_is_said_about_buffers_of_paths_that_were_not_measured() {
    let mut facts = measured(64 * KIB, 64 * KIB);
    facts.paths[1].rates = None;
    assert!(server::findings(&facts).iter().all(|finding| finding.id != FindingId::TcpBuffers));
}

#[test]
fn a_shaper_of_a_path_is_advice() {
    let mut facts = healthy();
    let shaping = |interface, kind: &str, rate_bps| Shaping { interface, kind: kind.to_owned(), rate_bps };
    facts.shaping = Ok(vec![shaping(ETH0, "tbf", Some(20_000_000)), shaping(99, "htb", None)]);
    let found = of(FindingId::TrafficShaping, host::findings(&facts));
    assert_eq!((found.level, found.subject.as_deref()), (Level::Advice, Some("eth0")));
    assert!(found.found.contains("eth0 sends at most 20 Mbit/s"), "{found:?}");
    facts.shaping = Err("netlink".to_owned());
    assert_eq!(of(FindingId::TrafficShaping, host::findings(&facts)).level, Level::NotExamined);
}

#[test]
fn a_scheduler_that_is_not_loaded_is_advice() {
    let mut facts = healthy();
    assert_eq!(
        of(FindingId::MptcpScheduler, host::findings(&facts)).found,
        "default; default is the only one here"
    );
    set(&mut facts, "net.mptcp.available_schedulers", "default bpf_burst");
    set(&mut facts, "net.mptcp.scheduler", "bpf_rr");
    let found = of(FindingId::MptcpScheduler, host::findings(&facts));
    assert_eq!((found.level, found.remedy.len()), (Level::Advice, 1));
}
