//! Conclusions from the result, each with the display filter that shows its packets.

use super::attempts;
use pathbench_record::trace::{Fallback, TraceDocument, TraceFinding, TracedConnection, TracedSubflow};

/// Share of retransmitted payload from which a direction has a finding.
const RETRANSMITTED_SHARE: f64 = 0.01;
/// A subflow that carried less than this share of the data of several did not help.
const SMALL_SHARE: f64 = 0.01;
/// Data below which shares say nothing.
const ENOUGH_BYTES: u64 = 100_000;

/// All findings of a result.
pub(super) fn findings(document: &TraceDocument) -> Vec<TraceFinding> {
    let mut findings = Vec::new();
    for connection in &document.connections {
        let first = findings.len();
        add_connection(connection, &mut findings);
        attempts::add_announcements(connection, &mut findings);
        for subflow in &connection.subflows {
            let first = findings.len();
            add_subflow(subflow, &mut findings);
            attempts::add_subflow(subflow, document.duration_s, &mut findings);
            add_comparison(subflow, &mut findings);
            findings[first..].iter_mut().for_each(|finding| finding.subflow = Some(subflow.id));
        }
        findings[first..].iter_mut().for_each(|finding| finding.connection = Some(connection.id));
    }
    findings
}

pub(super) fn finding(id: &str, level: &str, text: String, filter: String) -> TraceFinding {
    TraceFinding { id: id.to_owned(), level: level.to_owned(), connection: None, subflow: None, text, filter }
}

fn add_connection(connection: &TracedConnection, findings: &mut Vec<TraceFinding>) {
    if let Some(fallback) = &connection.fallback {
        let (level, text) = fallback_text(fallback);
        findings.push(finding("fallback", level, text.to_owned(), fallback.filter.clone()));
    }
    if let Some(wrong) = connection.checksums_wrong.filter(|wrong| *wrong > 0) {
        let text = format!("{wrong} mappings have a wrong checksum: a middlebox changed the payload");
        findings.push(finding("checksum", "error", text, format!("({}) && mptcp", connection.filter)));
    }
    let one_path = connection.transport == "mptcp" && connection.subflows.len() > 1;
    for (name, direction) in [("upload", &connection.upload), ("download", &connection.download)] {
        if let Some(bytes) = direction.reinjected_bytes.filter(|bytes| *bytes > 0) {
            let same = direction.reinjected_same_subflow_bytes.unwrap_or(0);
            let needed = direction.reinjected_needed_bytes.unwrap_or(0);
            let text = format!(
                "{name}: {bytes} bytes of data were reinjected, {same} of them on the subflow that had carried them; \
                 {needed} were acknowledged before their first copy"
            );
            let filter = format!("({}) && mptcp.reinjection_of", connection.filter);
            findings.push(finding("reinjections", "info", text, filter));
        }
        if one_path && direction.data_bytes >= ENOUGH_BYTES {
            let carried = |subflow: &TracedSubflow| {
                let sent = if name == "upload" { &subflow.upload } else { &subflow.download };
                sent.goodput.bytes.iter().sum::<u64>()
            };
            let useful = |subflow: &&TracedSubflow| {
                carried(subflow) as f64 > SMALL_SHARE * direction.data_bytes as f64
            };
            let mut useful = connection.subflows.iter().filter(useful);
            if let (Some(only), None) = (useful.next(), useful.next()) {
                let text = format!("{name}: subflow {} carried more than 99 % of the data", only.id);
                findings.push(finding("one-path", "warning", text, only.filter.clone()));
            }
        }
    }
}

fn fallback_text(fallback: &Fallback) -> (&'static str, &'static str) {
    match fallback.reason.as_str() {
        "option-overwritten" => (
            "error",
            "the SYN/ACK has NOPs in place of MP_CAPABLE: a middlebox overwrote the option, and the connection is plain TCP",
        ),
        "no-dss" => (
            "error",
            "the first data came without a DSS: a middlebox removed the options of data, and the connection fell back to TCP",
        ),
        "infinite-mapping" => ("warning", "an infinite mapping ended MPTCP: the connection fell back to TCP"),
        "mp-fail" => {
            ("error", "MP_FAIL: a checksum failed on the only subflow, and the connection fell back to TCP")
        }
        _ => ("warning", "the SYN offered MPTCP, the SYN/ACK did not answer it: the connection is plain TCP"),
    }
}

fn add_subflow(subflow: &TracedSubflow, findings: &mut Vec<TraceFinding>) {
    let mut add = |id: &str, level: &str, text: String, filter: String| {
        findings.push(finding(id, level, text, filter));
    };
    for (name, sent) in [("upload", &subflow.upload), ("download", &subflow.download)] {
        let share = sent.retransmitted_bytes as f64 / sent.payload_bytes.max(1) as f64;
        if share >= RETRANSMITTED_SHARE {
            let text = format!(
                "{name}: {} of {} payload bytes were retransmitted ({:.1} %)",
                sent.retransmitted_bytes,
                sent.payload_bytes,
                100.0 * share
            );
            let filter = format!("{} && tcp.analysis.retransmission", subflow.filter);
            add("retransmissions", "info", text, filter);
        }
        if let Some(bytes) = sent.unmapped_bytes.filter(|bytes| *bytes > 0) {
            let text = format!("{name}: {bytes} bytes of payload have no mapping");
            add("unmapped", "warning", text, format!("{} && tcp.len > 0 && !mptcp", subflow.filter));
        }
        if sent.missing_bytes > 0 {
            let text =
                format!("{name}: {} bytes were acknowledged but are not in the capture", sent.missing_bytes);
            add("missing", "info", text, format!("{} && tcp.analysis.ack_lost_segment", subflow.filter));
        }
    }
    if let Some(message) = subflow.too_big.first() {
        let text = format!(
            "{}: a router reported packets of {} bytes as too big for its MTU of {} ({} messages)",
            message.direction,
            message.packet_bytes,
            message.mtu,
            subflow.too_big.len()
        );
        let field = if subflow.client.is_some_and(|client| client.is_ipv6()) {
            "icmpv6.type == 2"
        } else {
            "icmp.type == 3 && icmp.code == 4"
        };
        add("too-big", "info", text, field.to_owned());
    }
    if let Some(bytes) = subflow.black_hole_above_bytes {
        let text = format!(
            "packets above {bytes} bytes were retransmitted and never acknowledged at that size: suspected path-MTU black hole"
        );
        add("black-hole", "warning", text, format!("{} && tcp.analysis.retransmission", subflow.filter));
    }
    if subflow.authenticated == Some(false) {
        let text = "the HMAC of the join is wrong for the connection's keys".to_owned();
        add("join-hmac", "error", text, format!("{} && mptcp", subflow.filter));
    }
    if let Some(reason) = &subflow.reset_reason {
        let filter = format!("{} && tcp.flags.reset == 1", subflow.filter);
        add("reset", "info", format!("reset with MP_TCPRST: {reason}"), filter);
    }
}

/// Findings about the path between two points of capture.
fn add_comparison(subflow: &TracedSubflow, findings: &mut Vec<TraceFinding>) {
    let Some(comparison) = &subflow.comparison else { return };
    let mut add = |id: &str, level: &str, text: String, filter: String| {
        findings.push(finding(id, level, text, filter));
    };
    for name in &comparison.middlebox {
        let (id, level, text, condition) = match name.as_str() {
            "sequence-rewritten" => (
                "sequence-rewritten",
                "warning",
                "the initial sequence numbers differ between the captures: a middlebox rewrites sequence numbers",
                "tcp.flags.syn == 1",
            ),
            "payload-rewritten" => (
                "payload-rewritten",
                "error",
                "the payload of equal ranges differs between the captures: a middlebox rewrites the payload",
                "tcp.len > 0",
            ),
            "options-removed" => (
                "option-removed",
                "error",
                "TCP options of the sender are absent at the receiver: a middlebox removes options",
                "(tcp.flags.syn == 1 || tcp.len > 0)",
            ),
            "mss-clamped" => (
                "mss-clamped",
                "info",
                "the maximum segment size of a SYN is smaller at its receiver: a router clamps it",
                "tcp.flags.syn == 1",
            ),
            _ => continue,
        };
        add(id, level, text.to_owned(), format!("{} && {condition}", subflow.filter));
    }
    for (name, direction) in [("upload", &comparison.upload), ("download", &comparison.download)] {
        if direction.lost_bytes > 0 {
            let text = format!(
                "{name}: {} of {} payload bytes were lost between the captures ({:.3} %)",
                direction.lost_bytes,
                direction.sent_bytes,
                100.0 * direction.lost_bytes as f64 / direction.sent_bytes.max(1) as f64
            );
            add("loss", "info", text, format!("{} && tcp.len > 0", subflow.filter));
        }
    }
}
