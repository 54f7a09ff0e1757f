//! Conclusions from the result, each with the display filter that shows its packets.

use super::attempts;
use super::evidence::{Shown, Shows};
use super::kept::Aside;
use crate::finding::{Filter, FindingKind as Kind};
use pathbench_record::trace::{Fallback, TraceDocument, TraceFinding, TracedConnection, TracedSubflow};

/// Share of retransmitted payload from which a direction has a finding.
const RETRANSMITTED_SHARE: f64 = 0.01;
/// A subflow that carried less than this share of the data of several did not help.
const SMALL_SHARE: f64 = 0.01;
/// Data below which shares say nothing.
const ENOUGH_BYTES: u64 = 100_000;

/// All findings of a result; `asides` have the frames of each connection.
pub(super) fn findings(document: &TraceDocument, asides: &[Aside]) -> Vec<TraceFinding> {
    let mut findings = Vec::new();
    for (connection, Aside { shown, .. }) in document.connections.iter().zip(asides) {
        let first = findings.len();
        add_connection(connection, shown, &mut findings);
        attempts::add_announcements(connection, &mut findings);
        for (index, subflow) in connection.subflows.iter().enumerate() {
            let first = findings.len();
            add_subflow(subflow, (shown, index), &mut findings);
            attempts::add_subflow(subflow, document.duration_s, &mut findings);
            add_comparison(subflow, (shown, index), &mut findings);
            findings[first..].iter_mut().for_each(|finding| finding.subflow = Some(subflow.id));
        }
        findings[first..].iter_mut().for_each(|finding| finding.connection = Some(connection.id));
    }
    findings
}

/// The filter of the frames that were kept; `otherwise` selects more than they, if none was.
fn frames(found: Option<(String, u32)>, otherwise: String) -> Filter {
    match found {
        Some((filter, capture)) => (filter, Some(capture)),
        None => (otherwise, None),
    }
}

fn add_connection(connection: &TracedConnection, shown: &Shown, findings: &mut Vec<TraceFinding>) {
    if let Some(fallback) = &connection.fallback {
        let (level, text) = fallback_text(fallback);
        let filter = frames(shown.fallback(), fallback.filter.clone());
        findings.push(Kind::Fallback.finding(level, text.to_owned(), filter));
    }
    if let Some(wrong) = connection.checksums_wrong.filter(|wrong| *wrong > 0) {
        let text = format!("{wrong} mappings have a wrong checksum: a middlebox changed the payload");
        let filter = frames(shown.filter(None, Shows::Checksum, None, 0), connection.filter.clone());
        findings.push(Kind::Checksum.finding("error", text, filter));
    }
    let one_path = connection.transport == "mptcp" && connection.subflows.len() > 1;
    for (side, (name, direction)) in
        [("upload", &connection.upload), ("download", &connection.download)].into_iter().enumerate()
    {
        if let Some(bytes) = direction.reinjected_bytes.filter(|bytes| *bytes > 0) {
            let same = direction.reinjected_same_subflow_bytes.unwrap_or(0);
            let needed = direction.reinjected_needed_bytes.unwrap_or(0);
            let text = format!(
                "{name}: {bytes} bytes of data were reinjected, {same} of them on the subflow that had carried them; \
                 {needed} were acknowledged before their first copy"
            );
            let found = shown.filter(None, Shows::Reinjection, Some(side), 0);
            let filter = frames(found, connection.filter.clone());
            findings.push(Kind::Reinjections.finding("info", text, filter));
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
                findings.push(Kind::OnePath.finding("warning", text, (only.filter.clone(), None)));
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

fn add_subflow(subflow: &TracedSubflow, (shown, index): (&Shown, usize), findings: &mut Vec<TraceFinding>) {
    let mut add = |kind: Kind, level: &str, text: String, filter: Filter| {
        findings.push(kind.finding(level, text, filter));
    };
    let shown = |shows: Shows, side: Option<usize>, least: u32| {
        frames(shown.filter(Some(index), shows, side, least), subflow.filter.clone())
    };
    let narrowed = |condition: &str| (format!("({}) && {condition}", subflow.filter), None);
    for (side, (name, sent)) in
        [("upload", &subflow.upload), ("download", &subflow.download)].into_iter().enumerate()
    {
        let share = sent.retransmitted_bytes as f64 / sent.payload_bytes.max(1) as f64;
        if share >= RETRANSMITTED_SHARE {
            let text = format!(
                "{name}: {} of {} payload bytes were retransmitted ({:.1} %)",
                sent.retransmitted_bytes,
                sent.payload_bytes,
                100.0 * share
            );
            add(Kind::Retransmissions, "info", text, shown(Shows::Retransmission, Some(side), 0));
        }
        if let Some(bytes) = sent.unmapped_bytes.filter(|bytes| *bytes > 0) {
            let text = format!("{name}: {bytes} bytes of payload have no mapping");
            add(Kind::Unmapped, "warning", text, shown(Shows::Unmapped, Some(side), 0));
        }
        if sent.missing_bytes > 0 {
            let text =
                format!("{name}: {} bytes were acknowledged but are not in the capture", sent.missing_bytes);
            add(Kind::Missing, "info", text, shown(Shows::Missing, Some(side), 0));
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
        add(Kind::TooBig, "info", text, shown(Shows::TooBig, None, 0));
    }
    if let Some(bytes) = subflow.black_hole_above_bytes {
        let text = format!(
            "packets above {bytes} bytes were retransmitted and never acknowledged at that size: suspected path-MTU black hole"
        );
        let filter = shown(Shows::Retransmission, None, bytes.saturating_add(1));
        add(Kind::BlackHole, "warning", text, filter);
    }
    if subflow.authenticated == Some(false) {
        let text = "the HMAC of the join is wrong for the connection's keys".to_owned();
        add(Kind::JoinHmac, "error", text, narrowed("tcp.options.mptcp.subtype == 1"));
    }
    if let Some(reason) = &subflow.reset_reason {
        let text = format!("reset with MP_TCPRST: {reason}");
        add(Kind::Reset, "info", text, narrowed("tcp.flags.reset == 1"));
    }
}

/// Findings about the path between two points of capture.
fn add_comparison(
    subflow: &TracedSubflow,
    (shown, index): (&Shown, usize),
    findings: &mut Vec<TraceFinding>,
) {
    let Some(comparison) = &subflow.comparison else { return };
    let mut add = |kind: Kind, level: &str, text: String, filter: Filter| {
        findings.push(kind.finding(level, text, filter));
    };
    // Of two captures, one may be given the numbers of the other: the ends stand before them.
    let shown = |shows: Shows, side: Option<usize>| {
        let found = shown.filter(Some(index), shows, side, 0);
        let found = found.map(|(filter, capture)| (format!("({}) && {filter}", subflow.filter), capture));
        frames(found, subflow.filter.clone())
    };
    for name in &comparison.middlebox {
        let (kind, level, text, condition) = match name.as_str() {
            "sequence-rewritten" => (
                Kind::SequenceRewritten,
                "warning",
                "the initial sequence numbers differ between the captures: a middlebox rewrites sequence numbers",
                "tcp.flags.syn == 1",
            ),
            "payload-rewritten" => (
                Kind::PayloadRewritten,
                "error",
                "the payload of equal ranges differs between the captures: a middlebox rewrites the payload",
                "tcp.len > 0",
            ),
            "options-removed" => (
                Kind::OptionRemoved,
                "error",
                "TCP options of the sender are absent at the receiver: a middlebox removes options",
                "(tcp.flags.syn == 1 || tcp.len > 0)",
            ),
            "mss-clamped" => (
                Kind::MssClamped,
                "info",
                "the maximum segment size of a SYN is smaller at its receiver: a router clamps it",
                "tcp.flags.syn == 1",
            ),
            _ => continue,
        };
        let filter = if kind == Kind::PayloadRewritten {
            shown(Shows::Rewritten, None)
        } else {
            (format!("({}) && {condition}", subflow.filter), None)
        };
        add(kind, level, text.to_owned(), filter);
    }
    for (side, (name, direction)) in
        [("upload", &comparison.upload), ("download", &comparison.download)].into_iter().enumerate()
    {
        if direction.lost_bytes > 0 {
            let text = format!(
                "{name}: {} of {} payload bytes were lost between the captures ({:.3} %)",
                direction.lost_bytes,
                direction.sent_bytes,
                100.0 * direction.lost_bytes as f64 / direction.sent_bytes.max(1) as f64
            );
            add(Kind::Loss, "info", text, shown(Shows::Lost, Some(side)));
        }
    }
}
