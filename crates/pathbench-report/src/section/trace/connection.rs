//! One connection: its handshake, its data level, its signals.

use super::cell::{arrow, distribution, of_both, seconds, time, transport};
use super::quic;
use super::{comparison, subflows};
use crate::narrative::Tone;
use crate::quantity::{Unit, joined_facts};
use crate::section::content::{Block, Cell, Finding, Items, Section, Table};
use pathbench_record::text::duration_s;
use pathbench_record::trace::{
    CaptureRecord, ConnectionDirection, HandshakeEvidence, TracedConnection, TracedSignal,
};

/// Signals in the terminal and in the report.
const MOST_SIGNALS: [usize; 2] = [12, 200];

pub(super) fn sections(
    connection: &TracedConnection,
    captures: &[CaptureRecord],
    in_terminal: bool,
) -> Vec<Section> {
    let title = format!("Connection {}  {}", connection.id, transport(connection));
    let ends = arrow(connection.client, connection.server);
    // Long IPv6 addresses are wrapped in the remark of the terminal.
    let (title, remark) =
        if in_terminal { (title, ends) } else { (format!("{title}  {ends}"), String::new()) };
    let mut blocks = vec![Block::Text(joined_facts(&facts(connection)))];
    let findings = findings(connection);
    if !findings.is_empty() {
        blocks.push(Block::Findings(findings));
    }
    blocks.extend(data_level(connection).map(Block::Table));
    if !in_terminal {
        blocks.push(Block::Text(format!("Display filter: `{}`", connection.filter)));
    }
    let all = [
        Some(Section::new(title, remark, blocks)),
        subflows::section(connection),
        comparison::section(connection, captures),
        signals(connection, MOST_SIGNALS[usize::from(!in_terminal)]),
    ];
    all.into_iter().flatten().collect()
}

fn facts(connection: &TracedConnection) -> Vec<String> {
    let mut facts = vec![
        format!("start {}", time(connection.start_s)),
        format!("duration {}", duration_s(connection.duration_s)),
    ];
    facts.extend(connection.version.as_ref().map(|version| match quic::version_name(version) {
        Some(name) => format!("version {version} ({name})"),
        None => format!("version {version}"),
    }));
    facts.extend(of_both("tokens", connection.client_token.as_ref(), connection.server_token.as_ref()));
    let handshake = match connection.handshake {
        HandshakeEvidence::Captured => {
            match connection.subflows.first().and_then(|one| one.opening.as_deref()) {
                Some("unanswered") => "no answer to the SYN",
                Some("refused") => "refused",
                Some("unacknowledged") => "the SYN/ACK was not acknowledged",
                _ => "handshake captured",
            }
        }
        HandshakeEvidence::Token => "began before the capture; subflows grouped by the token of a join",
        HandshakeEvidence::Guessed => {
            "began before the capture; subflows grouped by interleaved data sequence numbers"
        }
        HandshakeEvidence::Missing => "began before the capture",
    };
    facts.push(handshake.to_owned());
    facts.extend(connection.checksums.filter(|_| connection.transport == "mptcp").map(|on| {
        let verified = connection.checksums_verified.filter(|_| on);
        let verified = verified.map_or(String::new(), |count| format!(", {count} mappings verified"));
        format!("DSS checksums {}{verified}", if on { "on" } else { "off" })
    }));
    facts.extend(connection.quic.iter().flat_map(quic::facts));
    facts
}

fn findings(connection: &TracedConnection) -> Vec<Finding> {
    let fallback = connection.fallback.as_ref().map(|fallback| {
        let reason = match fallback.reason.as_str() {
            "peer-declined" => "the server did not answer MP_CAPABLE",
            "option-removed" => "MP_CAPABLE was removed from the handshake",
            "option-overwritten" => "MP_CAPABLE was overwritten with NOPs",
            "infinite-mapping" => "infinite mapping",
            "mp-fail" => "MP_FAIL",
            "no-dss" => "data without DSS option",
            other => other,
        };
        let subject = format!("Fallback to TCP at {}:", time(fallback.at_s));
        Finding::new(Tone::Bad, subject, format!("{reason} (`{}`)", fallback.reason))
    });
    let wrong = connection.checksums_wrong.filter(|wrong| *wrong > 0).map(|wrong| {
        Finding::new(Tone::Bad, "DSS checksums:", format!("{wrong} mappings with a wrong checksum"))
    });
    let limits = connection.quic.iter().flat_map(|quic| &quic.limits);
    let limits = limits.map(|limit| Finding::new(Tone::Neutral, "Limit:", limit.clone()));
    fallback.into_iter().chain(wrong).chain(limits).collect()
}

/// The data level; none for QUIC without keys.
fn data_level(connection: &TracedConnection) -> Option<Table> {
    let both = [("upload", &connection.upload), ("download", &connection.download)];
    if both.iter().all(|(_, one)| one.data_bytes == 0) {
        return None;
    }
    let duration_s = connection.duration_s;
    let rows = Items::new(both)
        .words("data", |(name, _)| Cell::text(*name))
        .number("bytes", |(_, one)| Cell::bytes(one.data_bytes))
        .number("goodput", |(_, one)| {
            let is_measurable = one.data_bytes > 0 && duration_s > 0.0;
            let mbps = one.data_bytes as f64 * 8e-6 / duration_s;
            Cell::quantity(is_measurable.then_some(mbps), Unit::Rate)
        })
        .number("acknowledged", |(_, one)| Cell::bytes(one.acknowledged_bytes))
        .in_report_only()
        .number("reinjected", |(_, one)| reinjected(one))
        .number("out-of-order delay", |(_, one)| distribution(one.out_of_order_delay_ms.as_ref()))
        .number("stall", |(_, one)| {
            let reason = one.stall_reason.as_ref().map_or("", |_| "zero window");
            Cell::quantity(one.stall_ms, Unit::Duration).with_line(reason.to_owned())
        });
    Some(rows.without_empty_columns().table)
}

fn reinjected(direction: &ConnectionDirection) -> Cell {
    let Some(bytes) = direction.reinjected_bytes else { return Cell::absent() };
    let cell = Cell::bytes(bytes);
    if bytes == 0 {
        return cell;
    }
    let part = |bytes: Option<u64>, words: &str| {
        bytes.map_or(String::new(), |bytes| format!("{words} {}", crate::quantity::bytes(bytes)))
    };
    cell.with_line(part(direction.reinjected_same_subflow_bytes, "same"))
        .with_line(part(direction.reinjected_needed_bytes, "needed"))
}

fn signals(connection: &TracedConnection, most: usize) -> Option<Section> {
    let shown = connection.signals.iter().take(most);
    let more = connection.signals.len().saturating_sub(most);
    let remark = if more > 0 { format!("{more} further signals are in trace.json") } else { String::new() };
    Items::new(shown)
        .number("time", |one| seconds(one.at_s))
        .words("signal", |one| Cell::text(&*one.kind))
        .words("sender", |one| Cell::text(&*one.sender))
        .number("subflow", |one| Cell::count(one.subflow))
        .words("content", |one| content(one))
        .without_empty_columns()
        .section("Signals", remark)
}

fn content(signal: &TracedSignal) -> Cell {
    let ids: Vec<String> = signal.address_ids.iter().map(u8::to_string).collect();
    let ids = match ids.as_slice() {
        [] => None,
        [id] => Some(format!("address id {id}")),
        many => Some(format!("address ids {}", many.join(", "))),
    };
    let repeats = (signal.repeats > 0).then(|| format!("sent {} times", u64::from(signal.repeats) + 1));
    let parts = [ids, signal.address.clone(), signal.detail.clone(), repeats];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { Cell::absent() } else { Cell::text(parts.join(", ")) }
}
