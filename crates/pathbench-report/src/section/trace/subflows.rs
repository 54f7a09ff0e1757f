//! The subflows of a connection, a row per direction.

use super::cell::{arrow, counted_if_any, distribution, of_both, part, positive, sum, time};
use crate::narrative::Tone;
use crate::quantity::{Unit, bytes, counted, duration, joined_facts};
use crate::section::content::{Cell, Items, Section, Value};
use pathbench_record::trace::{
    ConnectionDirection, SubflowDirection, TooBigMessage, TracedConnection, TracedSubflow,
};

/// A capture at the receiver has only the delay of that host.
const ACKNOWLEDGED: &str = "data → ACK: from data to their acknowledgment at the point of capture, which is the RTT at \
                            the sender and only the host's delay at the receiver";

struct Row<'a> {
    subflow: &'a TracedSubflow,
    direction: &'static str,
    figures: &'a SubflowDirection,
    data: &'a ConnectionDirection,
    acknowledged: Cell,
}

fn directions<'a>(connection: &'a TracedConnection, subflow: &'a TracedSubflow) -> [Row<'a>; 2] {
    let of_directions = [
        ("upload", &subflow.upload, &connection.upload, &subflow.upload_rtt_ms),
        ("download", &subflow.download, &connection.download, &subflow.download_rtt_ms),
    ];
    of_directions.map(|(direction, figures, data, acknowledged)| Row {
        subflow,
        direction,
        figures,
        data,
        acknowledged: distribution(acknowledged.as_ref()),
    })
}

pub(super) fn section(connection: &TracedConnection) -> Option<Section> {
    let rows = connection.subflows.iter().flat_map(|subflow| directions(connection, subflow));
    let title = match connection.transport.as_str() {
        "tcp" => "Flow",
        "quic" | "mpquic" => "Paths",
        _ => "Subflows",
    };
    let has_shares = connection.subflows.len() > 1
        && (connection.upload.data_bytes > 0 || connection.download.data_bytes > 0);
    let shares = has_shares.then_some("share: of the data of the connection, first carried by the subflow");
    let has_acknowledgments = connection
        .subflows
        .iter()
        .any(|subflow| subflow.upload_rtt_ms.is_some() || subflow.download_rtt_ms.is_some());
    let remark = [shares, has_acknowledgments.then_some(ACKNOWLEDGED)];
    let remark = remark.into_iter().flatten().collect::<Vec<_>>().join("; ");
    Items::new(rows)
        .words("direction", |row| Cell::text(row.direction))
        .with_hidden_title()
        .number("packets", |row| Cell::count(row.figures.packets))
        .number("payload", |row| Cell::bytes(row.figures.payload_bytes))
        .number("share", share)
        .number("retransmitted", |row| {
            let figures = row.figures;
            sent_again(figures.retransmitted_bytes, figures.payload_bytes)
        })
        .number("reinjected", |row| {
            sent_again(row.figures.reinjected_bytes.unwrap_or(0), row.figures.payload_bytes)
        })
        .number("data → ACK", |row| row.acknowledged.clone())
        .number("largest IP packet", |row| Cell::size(row.figures.largest_ip_bytes))
        .in_report_only()
        .number("out of order", |row| Cell::bytes(positive(row.figures.out_of_order_bytes)))
        .in_report_only()
        .number("not captured", |row| Cell::bytes(positive(row.figures.missing_bytes)))
        .in_report_only()
        .number("unmapped", |row| Cell::bytes(row.figures.unmapped_bytes.and_then(positive)))
        .in_report_only()
        .number("SACK blocks", |row| counted_if_any(row.figures.sack_blocks))
        .in_report_only()
        .number("duplicate ACKs", |row| counted_if_any(row.figures.duplicate_acks))
        .in_report_only()
        .number("zero windows", |row| counted_if_any(row.figures.zero_windows))
        .in_report_only()
        .number("CE", |row| counted_if_any(row.figures.congestion_experienced_packets))
        .each(|row, item| {
            row.group = heading(connection, item.subflow);
            if item.direction == "download" {
                row.notes = notes(item.subflow);
            }
        })
        .without_empty_columns()
        .section(title, remark)
}

/// Part of the connection's data that this subflow carried first.
fn share(row: &Row) -> Cell {
    if row.data.data_bytes == 0 {
        return Cell::absent();
    }
    let part = sum(&row.figures.goodput) as f64 / row.data.data_bytes as f64;
    Cell::quantity(part, Unit::Percent)
}

fn sent_again(count: u64, of: u64) -> Cell {
    match part(count, of).value {
        Value::Absent => Cell::absent(),
        percent => Cell::bytes(count).with_line(percent.shown()),
    }
}

fn heading(connection: &TracedConnection, subflow: &TracedSubflow) -> String {
    let kind = match subflow.path_id {
        Some(id) if subflow.kind == "path" => format!("path id {id}"),
        Some(id) => format!("path id {id}, {}", subflow.kind),
        // A flow of TCP is always the first.
        None if connection.transport == "tcp" => "flow".to_owned(),
        None => subflow.kind.clone(),
    };
    let backup = if subflow.backup == Some(true) { ", backup" } else { "" };
    format!("{}  {kind}{backup}  {}", subflow.id, arrow(subflow.client, subflow.server))
}

fn notes(subflow: &TracedSubflow) -> Vec<(Tone, String)> {
    let mut facts = vec![format!("{} to {}", time(subflow.start_s), time(subflow.end_s))];
    let reset = subflow.reset_reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
    facts.push(match subflow.end.as_str() {
        "fin" => "ended by FIN".to_owned(),
        "reset" if subflow.opening.as_deref() == Some("refused") => format!("refused by RST{reset}"),
        "reset" => format!("ended by RST{reset}"),
        "abandoned" => "ended by PATH_ABANDON".to_owned(),
        "open" if subflow.opening.as_deref() == Some("unanswered") => {
            format!("no answer to {}", counted(u64::from(subflow.syns.unwrap_or(1)), "SYN"))
        }
        "open" => "open at the end of the capture".to_owned(),
        other => other.to_owned(),
    });
    facts.extend(subflow.handshake_rtt_ms.map(|ms| format!("handshake RTT {}", duration(ms))));
    facts.extend(of_both("MSS", subflow.client_mss, subflow.server_mss));
    facts.extend(of_both("address ids", subflow.client_address_id, subflow.server_address_id));
    let hmac = subflow.authenticated.map(|right| if right { "HMACs verified" } else { "wrong HMAC" });
    facts.extend(hmac.map(str::to_owned));
    let mut notes = vec![(Tone::Neutral, joined_facts(&facts))];
    notes.extend(subflow.black_hole_above_bytes.map(|size| {
        (Tone::Bad, format!("IP packets above {size} bytes were never acknowledged, smaller ones were"))
    }));
    notes.extend(too_big(&subflow.too_big).map(|text| (Tone::Mixed, text)));
    for (direction, figures) in [("upload", &subflow.upload), ("download", &subflow.download)] {
        notes.extend(left_out(figures).map(|text| (Tone::Neutral, format!("{direction}: {text}"))));
        if figures.missing_bytes > 0 {
            let missing = bytes(figures.missing_bytes);
            notes.push((Tone::Mixed, format!("{direction}: {missing} were acknowledged but not captured")));
        }
    }
    notes
}

/// Packets that the figures leave out.
fn left_out(figures: &SubflowDirection) -> Option<String> {
    let counts = [
        (figures.duplicate_packets, "copies of captured packets"),
        (figures.out_of_window_packets, "outside the window"),
        (figures.keep_alives, "keep-alives or window probes"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = counts.map(|(count, words)| format!("{count} {words}")).collect();
    (!words.is_empty()).then(|| format!("not counted as data: {}", words.join(", ")))
}

fn too_big(messages: &[TooBigMessage]) -> Option<String> {
    let first = messages.first()?;
    Some(format!(
        "ICMP packet too big: {}, first at {}: {} packet of {} bytes, MTU {}",
        counted(messages.len(), "message"),
        time(first.at_s),
        first.direction,
        first.packet_bytes,
        first.mtu
    ))
}
