//! Records of emulated links and of mobile hosts, every field with a value.

use pathbench_record::document::{
    EmulatedDirection, EmulationRecord, HandoverReason, HandoverRecord, LabelHandovers, LatenessRecord,
    MobilitySummary, OneWayDelay, ProbeRecord,
};
use serde_json::json;

fn direction(packets: u64) -> EmulatedDirection {
    EmulatedDirection {
        offered_packets: packets + 13,
        offered_bytes: (packets + 13) * 1_514,
        delivered_packets: packets,
        delivered_bytes: packets * 1_514,
        dropped_packets: [("loss".to_owned(), 9), ("queue-full".to_owned(), 4)].into(),
        marked_packets: 2,
        corrupted_packets: 1,
        duplicated_packets: 3,
        reordered_packets: 5,
        arq_retransmissions: 17,
        largest_queue_bytes: 64_000,
        refused_packets: 1,
        lateness_ms: LatenessRecord { p50: 0.012, p90: 0.05, p99: 0.21, p999: 0.8, max: 1.5 },
    }
}

pub(crate) fn emulation() -> EmulationRecord {
    EmulationRecord { forward: direction(31_000), reverse: direction(15_500) }
}

pub(crate) fn one_way_delay() -> OneWayDelay {
    OneWayDelay { packets: 99, min_ms: 20.01, p50_ms: 20.75, p95_ms: 24.5, max_ms: 31.25 }
}

pub(crate) fn handover() -> HandoverRecord {
    HandoverRecord {
        from: "wlan".to_owned(),
        to: "lte".to_owned(),
        began_ms: 3231.0,
        duration_sent_ms: Some(412.5),
        duration_received_ms: Some(-230.75),
        reason: HandoverReason::UnderRto,
        srtt_ms: 21.5,
        rto_ms: 444.0,
        backoff: 1,
        remark: Some("`wlan` went down 230 ms before".to_owned()),
    }
}

pub(crate) fn probes() -> Vec<ProbeRecord> {
    vec![ProbeRecord {
        path: "wlan".to_owned(),
        sent: 100,
        answered: 62,
        p50_ms: Some(21.0),
        max_ms: Some(840.5),
        longest_silence_ms: Some(3800.0),
    }]
}

pub(crate) fn mobility() -> MobilitySummary {
    MobilitySummary {
        variant: [("path.wlan.rate".to_owned(), json!("1gbit"))].into(),
        handovers: vec![LabelHandovers {
            label: "mptcp".to_owned(),
            runs: 6,
            handovers: 5,
            reasons: [(HandoverReason::UnderRto, 4), (HandoverReason::Other, 1)].into(),
            abrupt: 2,
        }],
        max_delay_ratios: [("upload".to_owned(), vec![0.75, 1.5])].into(),
    }
}
