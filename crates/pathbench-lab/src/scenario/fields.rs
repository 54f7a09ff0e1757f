//! The fields of a run's record that an expectation may name.

use super::suggestion::nearest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldKind {
    Flag,
    Number,
    Text,
    /// A number that is left out of the record when it is zero.
    Counter,
}

/// Fields by their path in [`pathbench_record::document::RunRecord`]; `PATH` stands for the name of a path or
/// link, `N` for a number from 0, `NAME` for anything.
const FIELDS: [(&str, FieldKind); 134] = [
    ("completed", FieldKind::Flag),
    ("error", FieldKind::Text),
    ("goodput_mbps", FieldKind::Number),
    ("delivered_bytes", FieldKind::Number),
    ("duration_ms", FieldKind::Number),
    ("hung_ms", FieldKind::Number),
    ("stall_ms", FieldKind::Number),
    ("recovery_ms", FieldKind::Number),
    ("dip", FieldKind::Number),
    ("encrypted", FieldKind::Flag),
    ("encryption", FieldKind::Text),
    ("handshake_ms", FieldKind::Number),
    ("completion_ms", FieldKind::Number),
    ("ping.sent", FieldKind::Number),
    ("ping.lost", FieldKind::Number),
    ("ping.median_ms", FieldKind::Number),
    ("ping.min_ms", FieldKind::Number),
    ("ping.max_ms", FieldKind::Number),
    ("delay_ms.messages", FieldKind::Number),
    ("delay_ms.late", FieldKind::Number),
    ("delay_ms.p50", FieldKind::Number),
    ("delay_ms.p95", FieldKind::Number),
    ("delay_ms.p99", FieldKind::Number),
    ("delay_ms.max", FieldKind::Number),
    ("multipath.requested", FieldKind::Flag),
    ("multipath.negotiated", FieldKind::Flag),
    ("multipath.used", FieldKind::Flag),
    ("multipath.reason", FieldKind::Text),
    ("multipath.paths_used", FieldKind::Number),
    ("multipath.subflows_total", FieldKind::Number),
    ("handover.from", FieldKind::Text),
    ("handover.to", FieldKind::Text),
    ("handover.began_ms", FieldKind::Number),
    ("handover.duration_sent_ms", FieldKind::Number),
    ("handover.duration_received_ms", FieldKind::Number),
    ("handover.reason", FieldKind::Text),
    ("handover.srtt_ms", FieldKind::Number),
    ("handover.rto_ms", FieldKind::Number),
    ("handover.backoff", FieldKind::Number),
    ("paths.PATH.local", FieldKind::Text),
    ("paths.PATH.remote", FieldKind::Text),
    ("paths.PATH.bytes_sent", FieldKind::Number),
    ("paths.PATH.bytes_delivered", FieldKind::Number),
    ("paths.PATH.share", FieldKind::Number),
    ("paths.PATH.retransmitted_bytes", FieldKind::Number),
    ("paths.PATH.lost_bytes", FieldKind::Number),
    ("paths.PATH.control_bytes", FieldKind::Number),
    ("paths.PATH.mss_bytes", FieldKind::Number),
    ("paths.PATH.pmtu_bytes", FieldKind::Number),
    ("paths.PATH.rtt_ms", FieldKind::Number),
    ("paths.PATH.state", FieldKind::Text),
    ("paths.PATH.backup", FieldKind::Flag),
    ("paths.PATH.subflows", FieldKind::Number),
    ("directions.upload.goodput_mbps", FieldKind::Number),
    ("directions.upload.delivered_bytes", FieldKind::Number),
    ("directions.upload.stall_ms", FieldKind::Number),
    ("directions.upload.delay_ms.messages", FieldKind::Number),
    ("directions.upload.delay_ms.late", FieldKind::Number),
    ("directions.upload.delay_ms.p50", FieldKind::Number),
    ("directions.upload.delay_ms.p95", FieldKind::Number),
    ("directions.upload.delay_ms.p99", FieldKind::Number),
    ("directions.upload.delay_ms.max", FieldKind::Number),
    ("directions.download.goodput_mbps", FieldKind::Number),
    ("directions.download.delivered_bytes", FieldKind::Number),
    ("directions.download.stall_ms", FieldKind::Number),
    ("directions.download.delay_ms.messages", FieldKind::Number),
    ("directions.download.delay_ms.late", FieldKind::Number),
    ("directions.download.delay_ms.p50", FieldKind::Number),
    ("directions.download.delay_ms.p95", FieldKind::Number),
    ("directions.download.delay_ms.p99", FieldKind::Number),
    ("directions.download.delay_ms.max", FieldKind::Number),
    ("impacts.N.before_mbps", FieldKind::Number),
    ("impacts.N.settled_mbps", FieldKind::Number),
    ("impacts.N.dip", FieldKind::Number),
    ("impacts.N.recovery_ms", FieldKind::Number),
    ("impacts.N.stall_ms", FieldKind::Number),
    ("phases.N.from_ms", FieldKind::Number),
    ("phases.N.to_ms", FieldKind::Number),
    ("phases.N.goodput_mbps", FieldKind::Number),
    ("phases.N.shares.PATH", FieldKind::Number),
    ("links.PATH.forward_bytes", FieldKind::Number),
    ("links.PATH.reverse_bytes", FieldKind::Number),
    ("links.PATH.measured.forward_bps", FieldKind::Number),
    ("links.PATH.measured.reverse_bps", FieldKind::Number),
    ("links.PATH.measured.rtt_ms", FieldKind::Number),
    ("links.PATH.measured.min_rtt_ms", FieldKind::Number),
    ("links.PATH.measured.forward_mtu_bytes", FieldKind::Number),
    ("links.PATH.measured.reverse_mtu_bytes", FieldKind::Number),
    ("links.PATH.measured.forward_delay.min_ms", FieldKind::Number),
    ("links.PATH.measured.forward_delay.p50_ms", FieldKind::Number),
    ("links.PATH.measured.forward_delay.p95_ms", FieldKind::Number),
    ("links.PATH.measured.forward_delay.max_ms", FieldKind::Number),
    ("links.PATH.measured.forward_loss", FieldKind::Number),
    ("links.PATH.measured.reverse_delay.min_ms", FieldKind::Number),
    ("links.PATH.measured.reverse_delay.p50_ms", FieldKind::Number),
    ("links.PATH.measured.reverse_delay.p95_ms", FieldKind::Number),
    ("links.PATH.measured.reverse_delay.max_ms", FieldKind::Number),
    ("links.PATH.measured.reverse_loss", FieldKind::Number),
    ("links.PATH.emulation.forward.offered_packets", FieldKind::Number),
    ("links.PATH.emulation.forward.offered_bytes", FieldKind::Number),
    ("links.PATH.emulation.forward.delivered_packets", FieldKind::Number),
    ("links.PATH.emulation.forward.delivered_bytes", FieldKind::Number),
    ("links.PATH.emulation.forward.dropped_packets.NAME", FieldKind::Counter),
    ("links.PATH.emulation.forward.marked_packets", FieldKind::Number),
    ("links.PATH.emulation.forward.corrupted_packets", FieldKind::Number),
    ("links.PATH.emulation.forward.duplicated_packets", FieldKind::Number),
    ("links.PATH.emulation.forward.reordered_packets", FieldKind::Number),
    ("links.PATH.emulation.forward.arq_retransmissions", FieldKind::Number),
    ("links.PATH.emulation.forward.largest_queue_bytes", FieldKind::Number),
    ("links.PATH.emulation.forward.refused_packets", FieldKind::Number),
    ("links.PATH.emulation.forward.lateness_ms.p50", FieldKind::Number),
    ("links.PATH.emulation.forward.lateness_ms.p90", FieldKind::Number),
    ("links.PATH.emulation.forward.lateness_ms.p99", FieldKind::Number),
    ("links.PATH.emulation.forward.lateness_ms.p999", FieldKind::Number),
    ("links.PATH.emulation.forward.lateness_ms.max", FieldKind::Number),
    ("links.PATH.emulation.reverse.offered_packets", FieldKind::Number),
    ("links.PATH.emulation.reverse.offered_bytes", FieldKind::Number),
    ("links.PATH.emulation.reverse.delivered_packets", FieldKind::Number),
    ("links.PATH.emulation.reverse.delivered_bytes", FieldKind::Number),
    ("links.PATH.emulation.reverse.dropped_packets.NAME", FieldKind::Counter),
    ("links.PATH.emulation.reverse.marked_packets", FieldKind::Number),
    ("links.PATH.emulation.reverse.corrupted_packets", FieldKind::Number),
    ("links.PATH.emulation.reverse.duplicated_packets", FieldKind::Number),
    ("links.PATH.emulation.reverse.reordered_packets", FieldKind::Number),
    ("links.PATH.emulation.reverse.arq_retransmissions", FieldKind::Number),
    ("links.PATH.emulation.reverse.largest_queue_bytes", FieldKind::Number),
    ("links.PATH.emulation.reverse.refused_packets", FieldKind::Number),
    ("links.PATH.emulation.reverse.lateness_ms.p50", FieldKind::Number),
    ("links.PATH.emulation.reverse.lateness_ms.p90", FieldKind::Number),
    ("links.PATH.emulation.reverse.lateness_ms.p99", FieldKind::Number),
    ("links.PATH.emulation.reverse.lateness_ms.p999", FieldKind::Number),
    ("links.PATH.emulation.reverse.lateness_ms.max", FieldKind::Number),
    ("counters.client.NAME", FieldKind::Counter),
    ("counters.server.NAME", FieldKind::Counter),
];

/// The patterns, as runs and expectations name them.
pub(super) const PATTERNS: [&str; 6] =
    ["ping", "bulk", "iperf", "iperf-upload", "iperf-download", "interactive"];

/// Fields that only runs of some patterns have, by their beginning.
const OF_PATTERNS: [(&str, &[&str]); 13] = [
    ("ping", &["ping"]),
    ("completion_ms", &["bulk"]),
    ("delay_ms", &["interactive"]),
    ("directions.upload.delay_ms", &["interactive"]),
    ("directions.download.delay_ms", &["interactive"]),
    ("goodput_mbps", &TRANSFERS),
    ("stall_ms", &TRANSFERS),
    ("recovery_ms", &TRANSFERS),
    ("dip", &TRANSFERS),
    ("duration_ms", &TRANSFERS),
    ("hung_ms", &TRANSFERS),
    ("impacts", &TRANSFERS),
    ("phases", &TRANSFERS),
];
const TRANSFERS: [&str; 4] = ["bulk", "iperf", "iperf-upload", "iperf-download"];

pub(super) fn is_field_of(field: &str, pattern: &str) -> bool {
    let begins =
        |start: &str| field.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    OF_PATTERNS.iter().find(|(start, _)| begins(start)).is_none_or(|(_, have)| have.contains(&pattern))
}

pub(super) fn kind_of(field: &str, links: &[&str]) -> Result<FieldKind, (String, String)> {
    // Paths of the same shape differ only in the names that stand for themselves.
    if let Some((pattern, kind)) = FIELDS.iter().find(|(pattern, _)| fits(pattern, field)) {
        let name = pattern.split('.').zip(field.split('.')).find(|(slot, _)| *slot == "PATH");
        return match name {
            Some((_, name)) if !links.contains(&name) => {
                Err((format!("there is no path or link `{name}`"), super::suggestion::choices(name, links)))
            }
            _ => Ok(*kind),
        };
    }
    let problem = format!("a run has no field `{field}`");
    // With the name of the path put back, the nearest field reads like what was written.
    let written =
        field.split('.').nth(1).filter(|_| field.starts_with("paths.") || field.starts_with("links."));
    let known: Vec<String> = FIELDS
        .iter()
        .map(|(pattern, _)| {
            written.map_or_else(|| (*pattern).to_owned(), |name| pattern.replace("PATH", name))
        })
        .collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let remedy = match nearest(field, &known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "name one of completed, goodput_mbps, stall_ms, recovery_ms, dip, multipath.used, \
                 paths.PATH.share, …; all are in docs/scenarios.md"
            .to_owned(),
    };
    Err((problem, remedy))
}

fn fits(pattern: &str, field: &str) -> bool {
    let mut slots = pattern.split('.');
    let mut segments = field.split('.');
    loop {
        match (slots.next(), segments.next()) {
            (None, None) => return true,
            // Names of counters have dots of their own.
            (Some("NAME"), Some(segment)) => return !segment.is_empty(),
            (Some("PATH"), Some(segment)) if !segment.is_empty() => {}
            (Some("N"), Some(segment)) if segment.parse::<u16>().is_ok() => {}
            (Some(slot), Some(segment)) if slot == segment => {}
            _ => return false,
        }
    }
}

pub fn known_fields() -> Vec<&'static str> {
    FIELDS.iter().map(|(pattern, _)| *pattern).collect()
}
