//! Conclusions about connections and joins that failed or were never tried, and about what the capture lacks.

use crate::finding::FindingKind as Kind;
use pathbench_record::trace::{TraceFinding, TracedConnection, TracedSignal, TracedSubflow};
use std::net::{IpAddr, SocketAddr};

/// Time after which a host would have answered, or joined.
const ENOUGH_S: f64 = 1.0;
/// A zero window below this time is no matter.
const ZERO_WINDOW_MS: f64 = 200.0;
/// Packets of one direction without any of the other from which the other was not captured.
const ONE_WAY_PACKETS: u64 = 3;

/// The fate of the SYN, zero windows, and a direction that is not in the capture.
pub(super) fn add_subflow(subflow: &TracedSubflow, end_s: f64, findings: &mut Vec<TraceFinding>) {
    findings.extend(attempt(subflow, end_s));
    let both = [
        ("download", "client", &subflow.upload, &subflow.download),
        ("upload", "server", &subflow.download, &subflow.upload),
    ];
    for (name, receiver, advertised, sent) in both {
        if let Some(zero_ms) = advertised.zero_window_ms.filter(|ms| *ms >= ZERO_WINDOW_MS) {
            let text = format!(
                "{name}: the {receiver}'s receive window was zero for {:.2} s: its program did not read, and the \
                 sender had to wait",
                zero_ms / 1e3
            );
            let filter = format!(
                "{} && tcp.window_size_value == 0 && tcp.flags.reset == 0 && tcp.flags.syn == 0",
                subflow.filter
            );
            findings.push(Kind::ZeroWindow.finding("warning", text, (filter, None)));
        }
        let is_absent = advertised.packets == 0 && sent.packets >= ONE_WAY_PACKETS;
        if is_absent && subflow.opening.is_none() && is_tcp(subflow) {
            let text = format!(
                "no packet of the {receiver} was captured: the capture has one direction, and figures of the other are \
                 unknown"
            );
            findings.push(Kind::OneDirection.finding("warning", text, (subflow.filter.clone(), None)));
        }
    }
}

fn is_tcp(subflow: &TracedSubflow) -> bool {
    subflow.kind != "path"
}

fn attempt(subflow: &TracedSubflow, end_s: f64) -> Option<TraceFinding> {
    let opening = subflow.opening.as_deref()?;
    let syns = subflow.syns.unwrap_or(1);
    let has_waited = syns > 1 || end_s - subflow.start_s >= ENOUGH_S;
    let is_join = subflow.kind == "join";
    let name = if is_join { "join" } else { "connection" };
    let kind = |connect: Kind, join: Kind| if is_join { join } else { connect };
    let times = if syns == 1 { "1 SYN".to_owned() } else { format!("{syns} SYNs") };
    let reason =
        subflow.reset_reason.as_ref().map_or(String::new(), |reason| format!(" (MP_TCPRST: {reason})"));
    let (kind, text, condition) = match opening {
        "unanswered" if has_waited => {
            let kind = kind(Kind::ConnectUnanswered, Kind::JoinUnanswered);
            (kind, format!("no answer to {times}: the {name} was not opened"), "tcp.flags.syn == 1")
        }
        "unacknowledged" if has_waited => {
            let kind = kind(Kind::ConnectUnacknowledged, Kind::JoinUnacknowledged);
            (
                kind,
                format!("the SYN/ACK was not acknowledged: the {name} was not opened"),
                "tcp.flags.syn == 1",
            )
        }
        "refused" if subflow.refused_by.as_deref() == Some("client") && subflow.download.packets > 0 => (
            kind(Kind::ConnectRefused, Kind::JoinRefused),
            format!("the client refused the SYN/ACK with an RST{reason}: the {name} was not opened"),
            "tcp.flags.reset == 1",
        ),
        "refused" => {
            let by = subflow.refused_by.as_deref().unwrap_or("server");
            let kind = kind(Kind::ConnectRefused, Kind::JoinRefused);
            (kind, format!("the {by} refused the {name} with an RST{reason}"), "tcp.flags.reset == 1")
        }
        _ => return None,
    };
    let level = if is_join { "warning" } else { "error" };
    Some(kind.finding(level, text, (format!("{} && {condition}", subflow.filter), None)))
}

/// Addresses that an end announced and that no subflow used, and announcements that were not confirmed.
pub(super) fn add_announcements(connection: &TracedConnection, findings: &mut Vec<TraceFinding>) {
    let end_s = connection.start_s + connection.duration_s;
    let announced = connection.signals.iter().filter(|signal| signal.kind == "add-addr");
    for signal in announced.filter(|signal| end_s - signal.at_s >= ENOUGH_S) {
        let later = |kind: &str| {
            connection.signals.iter().any(|other| {
                other.kind == kind
                    && other.at_s >= signal.at_s
                    && signal.address_ids.iter().any(|id| other.address_ids.contains(id))
            })
        };
        let Some(address) = &signal.address else { continue };
        let filter = format!("({}) && tcp.options.mptcp.subtype == 3", connection.filter);
        let is_confirmed = later("add-addr-echo");
        if signal.repeats > 0 && !is_confirmed {
            let times = signal.repeats + 1;
            let text =
                format!("the {} announced {address} {times} times, and no echo confirmed it", signal.sender);
            findings.push(Kind::AddAddrUnconfirmed.finding("warning", text, (filter.clone(), None)));
        }
        if !connection.subflows.iter().any(|subflow| uses(subflow, signal, address)) && !later("remove-addr")
        {
            let echo = if is_confirmed { "the peer confirmed it, and " } else { "" };
            let text = format!(
                "the {} announced {address}: {echo}no join to it is in the capture in the {:.1} s that followed",
                signal.sender,
                end_s - signal.at_s
            );
            findings.push(Kind::NeverJoined.finding("info", text, (filter, None)));
        }
    }
}

/// The subflow has the announced address at the end that announced it.
fn uses(subflow: &TracedSubflow, signal: &TracedSignal, announced: &str) -> bool {
    let end = if signal.sender == "client" { subflow.client } else { subflow.server };
    let Some(end) = end else { return false };
    match (announced.parse::<SocketAddr>(), announced.parse::<IpAddr>()) {
        (Ok(address), _) => end == address,
        (_, Ok(address)) => end.ip() == address,
        _ => true,
    }
}
