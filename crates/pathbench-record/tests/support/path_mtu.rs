//! Records of path MTUs, every field with a value.

use pathbench_record::document::{
    ConnectionMtu, DiagnosisKind, DirectionMtu, KernelPathState, MtuChange, MtuEvidence, MtuRecord, MtuStep,
    PacketSizes, PathDiagnosis, PathMtu, RouterRecord,
};
use pathbench_record::sample::Side;
use std::collections::BTreeMap;

pub(crate) fn diagnoses() -> Vec<PathDiagnosis> {
    vec![PathDiagnosis {
        path: "wlan".to_owned(),
        side: Side::Client,
        kind: DiagnosisKind::MtuBlackHole,
        from_ms: Some(99.0),
        to_ms: Some(6300.0),
        because: "the small packets of the handshake passed, and no segment of 8948 bytes ever did"
            .to_owned(),
        remedy: "`pathbench mtu SERVER --apply` finds the MTU of path wlan and sets its route's".to_owned(),
    }]
}

pub(crate) fn packet_sizes() -> PacketSizes {
    PacketSizes {
        forward: [(60, 3), (1500, 23_000)].into(),
        reverse: [(52, 11_500)].into(),
        missed_packets: 2,
    }
}

pub(crate) fn routers() -> Vec<RouterRecord> {
    vec![RouterRecord {
        name: "wlan.near".to_owned(),
        icmp: "10/s".to_owned(),
        clamp_mss: true,
        too_big_sent: 10,
        too_big_suppressed: 32,
        clamped_syns: 2,
        middlebox: BTreeMap::from([("drop-udp".to_owned(), 3)]),
    }]
}

fn direction() -> DirectionMtu {
    DirectionMtu {
        mtu_bytes: Some(1500),
        evidence: Some(MtuEvidence::Icmp),
        reported_by: Some("10.0.1.254".to_owned()),
        reported_bytes: Some(1500),
        smallest_lost_bytes: Some(1501),
        confidence: Some(0.999),
        loss: Some(0.02),
        rtt_ms: Some(21.5),
        probes: 24,
        probed_bytes: 61_000,
        duration_ms: 812.5,
        error: Some("the server stopped answering".to_owned()),
    }
}

fn kernel() -> KernelPathState {
    KernelPathState {
        interface_mtu_bytes: 9000,
        rule_priority: Some(32_765),
        table: 2,
        destination: "default".to_owned(),
        gateway: Some("10.0.1.254".to_owned()),
        route_mtu_bytes: Some(4000),
        route_mtu_locked: true,
        cached_mtu_bytes: Some(1500),
        cached_expires_s: Some(598.0),
        connections: vec![ConnectionMtu {
            transport: "mptcp".to_owned(),
            local: "10.0.1.1:40000".to_owned(),
            remote: "10.0.0.2:4433".to_owned(),
            pmtu_bytes: 9000,
            mss_bytes: 8948,
            backoff: 4,
            stuck: true,
        }],
    }
}

pub(crate) fn examination() -> MtuRecord {
    MtuRecord {
        server: "test.example:4433".to_owned(),
        paths: vec![PathMtu {
            name: "wlan".to_owned(),
            interface: "wlan0".to_owned(),
            local: "10.0.1.1".to_owned(),
            remote: "10.0.0.2:4433".to_owned(),
            upload: direction(),
            download: direction(),
            kernel: Some(kernel()),
            disagreements: vec!["the kernel sends packets of 9000 bytes, and 1500 pass".to_owned()],
            advice: vec!["set the route's MTU".to_owned()],
        }],
        steps: vec![MtuStep {
            path: "wlan".to_owned(),
            command: "ip route change default via 10.0.1.254 dev wlan0 table 2 mtu 1500".to_owned(),
            undo: "ip route change default via 10.0.1.254 dev wlan0 table 2".to_owned(),
            done: true,
        }],
        changes: vec![MtuChange {
            t_ms: 5200.0,
            path: "wlan".to_owned(),
            direction: "upload".to_owned(),
            from_bytes: Some(1500),
            to_bytes: Some(1400),
        }],
        notes: vec!["only root may ask for the live connections of others".to_owned()],
    }
}
