//! The result of `pathbench mtu` on a host with a black hole, a path whose router sends ICMP, and a dead path.

use super::nothing;
use pathbench_record::document::{
    ConnectionMtu, DirectionMtu, KernelPathState, MtuChange, MtuEvidence, MtuRecord, MtuStep, PathMtu,
};
use pathbench_report::ResultSet;

fn found(mtu_bytes: u32, evidence: MtuEvidence) -> DirectionMtu {
    DirectionMtu {
        mtu_bytes: Some(mtu_bytes),
        evidence: Some(evidence),
        smallest_lost_bytes: (evidence != MtuEvidence::Interface).then_some(mtu_bytes + 1),
        confidence: Some(0.999_9),
        loss: Some(0.0),
        rtt_ms: Some(4.12),
        probes: 38,
        probed_bytes: 171_230,
        duration_ms: 612.0,
        ..DirectionMtu::default()
    }
}

/// The kernel's path MTU is the MTU of the interface.
fn kernel() -> KernelPathState {
    KernelPathState {
        interface_mtu_bytes: 9000,
        rule_priority: Some(32_765),
        table: 102,
        destination: "default".to_owned(),
        gateway: Some("10.0.2.254".to_owned()),
        connections: vec![ConnectionMtu {
            transport: "mptcp".to_owned(),
            local: "10.0.2.1:40112".to_owned(),
            remote: "192.0.2.7:7700".to_owned(),
            pmtu_bytes: 9000,
            mss_bytes: 8948,
            backoff: 5,
            stuck: true,
        }],
        ..KernelPathState::default()
    }
}

fn black_hole() -> PathMtu {
    PathMtu {
        name: "wlan0".to_owned(),
        interface: "wlan0".to_owned(),
        local: "10.0.2.1".to_owned(),
        remote: "192.0.2.7:7700".to_owned(),
        upload: DirectionMtu { loss: Some(0.021), confidence: Some(0.998_7), ..found(1500, MtuEvidence::DroppedSilently) },
        download: found(9000, MtuEvidence::Interface),
        kernel: Some(kernel()),
        disagreements: vec![
            "the kernel sends up to 9000 bytes on this path and nothing above 1500 passes: a black hole for TCP"
                .to_owned(),
        ],
        advice: vec!["set the route's MTU to 1500 and renew the stuck subflow: `pathbench mtu 192.0.2.7 --apply`".to_owned()],
    }
}

fn honest() -> PathMtu {
    PathMtu {
        name: "eth0".to_owned(),
        interface: "eth0".to_owned(),
        local: "2001:db8:1::10".to_owned(),
        remote: "[2001:db8:ff::7]:7700".to_owned(),
        upload: DirectionMtu {
            reported_by: Some("2001:db8:1::1".to_owned()),
            reported_bytes: Some(1492),
            ..found(1492, MtuEvidence::Icmp)
        },
        download: found(1492, MtuEvidence::DroppedSilently),
        kernel: Some(KernelPathState {
            cached_mtu_bytes: Some(1492),
            cached_expires_s: Some(587.0),
            interface_mtu_bytes: 1500,
            table: 254,
            rule_priority: None,
            gateway: Some("fe80::1".to_owned()),
            connections: Vec::new(),
            ..kernel()
        }),
        ..PathMtu::default()
    }
}

fn dead() -> PathMtu {
    PathMtu {
        name: "wwan0".to_owned(),
        interface: "wwan0".to_owned(),
        local: "100.64.0.7".to_owned(),
        remote: "192.0.2.7:7700".to_owned(),
        upload: DirectionMtu {
            error: Some("no probe was answered in 3 s, however small".to_owned()),
            ..DirectionMtu::default()
        },
        ..PathMtu::default()
    }
}

fn steps() -> Vec<MtuStep> {
    vec![
            MtuStep {
                path: "wlan0".to_owned(),
                command: "ip -4 route replace 192.0.2.7/32 via 10.0.2.254 dev wlan0 table 102 mtu 1500 proto static metric 1024".to_owned(),
                undo: "ip -4 route del 192.0.2.7/32 via 10.0.2.254 dev wlan0 table 102 mtu 1500 proto static metric 1024".to_owned(),
                done: true,
            },
            MtuStep {
                path: "wlan0".to_owned(),
                command: "ip mptcp endpoint delete id 2".to_owned(),
                undo: "ip mptcp endpoint add 10.0.2.1 id 2 dev wlan0 subflow".to_owned(),
                done: false,
            },
        ]
}

/// The complete examination.
pub(crate) fn examination() -> MtuRecord {
    MtuRecord {
        server: "test.example".to_owned(),
        paths: vec![black_hole(), honest(), dead()],
        steps: steps(),
        changes: vec![
            MtuChange {
                t_ms: 12_040.0,
                path: "wlan0".to_owned(),
                direction: "upload".to_owned(),
                from_bytes: Some(9000),
                to_bytes: Some(1500),
            },
            MtuChange {
                t_ms: 95_300.0,
                path: "wwan0".to_owned(),
                direction: "upload".to_owned(),
                from_bytes: Some(1400),
                to_bytes: None,
            },
        ],
        notes: vec!["The kernel was asked before the first probe was sent.".to_owned()],
    }
}

/// A result that contains only the examination.
pub(crate) fn examined() -> ResultSet {
    let mut set = nothing("mtu", "the MTU of each path to test.example");
    set.document.mtu = Some(examination());
    set
}
