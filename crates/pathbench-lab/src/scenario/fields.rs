//! The fields of a run's record that an expectation may name.

use super::mistake::{Fault, choices, nearest};
use pathbench_record::response::LoadPhase;
use std::sync::LazyLock;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldKind {
    Flag,
    Number,
    Text,
    /// A number that the record omits if it is zero.
    Counter,
}

/// Fields by their path in [`pathbench_record::document::RunRecord`]. `PATH` is the name of a path or link, `N` a
/// number from 0, `PHASE` a phase of `responsiveness`, `NAME` any text; braces are alternatives, as in a shell.
const FIELDS: &[(FieldKind, &str)] = &[
    (FieldKind::Flag, "{completed,encrypted}"),
    (FieldKind::Text, "{error,encryption}"),
    (FieldKind::Number, "{goodput_mbps,delivered_bytes,duration_ms,hung_ms,stall_ms,recovery_ms,dip}"),
    (FieldKind::Number, "{failback_ms,handshake_ms,connect_ms,fct_ms}"),
    (FieldKind::Text, "opening.{path,outcome}"),
    (FieldKind::Number, "opening.after_ms"),
    (FieldKind::Number, "ping.{sent,lost,median_ms,min_ms,max_ms}"),
    (FieldKind::Number, "delay_ms.{messages,unacknowledged,p50,p95,p99,max}"),
    (FieldKind::Flag, "multipath.{requested,negotiated,used}"),
    (FieldKind::Text, "multipath.reason"),
    (FieldKind::Number, "multipath.{paths_used,subflows_total}"),
    (FieldKind::Text, "handover.{from,to,reason}"),
    (FieldKind::Number, "handover.{began_ms,duration_sent_ms,duration_received_ms,srtt_ms,rto_ms,backoff}"),
    (FieldKind::Text, "paths.PATH.{local,remote,state}"),
    (FieldKind::Number, "paths.PATH.{bytes_sent,bytes_delivered,share,retransmitted_bytes,lost_bytes}"),
    (FieldKind::Number, "paths.PATH.{control_bytes,mss_bytes,pmtu_bytes,rtt_ms,subflows}"),
    (FieldKind::Flag, "paths.PATH.backup"),
    (FieldKind::Number, "directions.{upload,download}.{goodput_mbps,delivered_bytes,stall_ms}"),
    (FieldKind::Number, "directions.{upload,download}.delay_ms.{messages,unacknowledged,p50,p95,p99,max}"),
    (FieldKind::Number, "impacts.N.{before_mbps,settled_mbps,dip,recovery_ms,stall_ms}"),
    (FieldKind::Text, "failbacks.N.{path,reason}"),
    (FieldKind::Number, "failbacks.N.{at_ms,share_before,failback_ms}"),
    (FieldKind::Number, "phases.N.{from_ms,to_ms,goodput_mbps,shares.PATH}"),
    (FieldKind::Number, "links.PATH.{forward,reverse}_bytes"),
    (FieldKind::Number, "links.PATH.measured.{rtt_ms,min_rtt_ms}"),
    (FieldKind::Number, "links.PATH.measured.{forward,reverse}_{bps,mtu_bytes,loss}"),
    (FieldKind::Number, "links.PATH.measured.{forward,reverse}_delay.{min_ms,p50_ms,p95_ms,max_ms}"),
    (FieldKind::Number, "links.PATH.emulation.{forward,reverse}.{offered,delivered}_{packets,bytes}"),
    (FieldKind::Counter, "links.PATH.emulation.{forward,reverse}.dropped_packets.NAME"),
    (FieldKind::Number, "links.PATH.emulation.{forward,reverse}.{marked,corrupted,duplicated}_packets"),
    (FieldKind::Number, "links.PATH.emulation.{forward,reverse}.{reordered,refused}_packets"),
    (FieldKind::Number, "links.PATH.emulation.{forward,reverse}.{arq_retransmissions,largest_queue_bytes}"),
    (FieldKind::Number, "links.PATH.emulation.{forward,reverse}.lateness_ms.{p50,p90,p99,p999,max}"),
    (FieldKind::Number, "responsiveness.{self,foreign}.PHASE.{sent,lost,p50_ms,p95_ms,p99_ms}"),
    (FieldKind::Number, "responsiveness.{self,foreign}.PHASE.{increase_p50_ms,increase_p95_ms}"),
    (FieldKind::Number, "responsiveness.path.PATH.PHASE.{sent,lost,p50_ms,p95_ms,p99_ms}"),
    (FieldKind::Number, "responsiveness.path.PATH.PHASE.{increase_p50_ms,increase_p95_ms}"),
    (FieldKind::Number, "responsiveness.phases.PHASE.{foreign_setup_ms,rpm,upload_mbps,download_mbps}"),
    (FieldKind::Counter, "counters.{client,server}.NAME"),
    (FieldKind::Text, "limited_by"),
    (FieldKind::Text, "limits.N.{direction,kind,side,path,because,remedy}"),
    (FieldKind::Number, "limits.N.share"),
    (FieldKind::Text, "not_examined.N.{direction,kind,side,because}"),
    (
        FieldKind::Number,
        "cpu.{client,server}.{seconds,seconds_per_gb,busiest_ran,busiest_waited,stolen_percent}",
    ),
    (FieldKind::Number, "datagrams.{upload,download}.{sent,lost,loss,duplicates,reordered,reordered_share}"),
    (
        FieldKind::Number,
        "datagrams.{upload,download}.{jitter_ms,max_jitter_ms,late,late_share,longest_gap_ms}",
    ),
    (FieldKind::Number, "datagrams.{upload,download}.{unsent,omitted}"),
    (FieldKind::Number, "datagrams.{upload,download}.{sent,delivered,redundant}_bytes"),
    (FieldKind::Number, "datagrams.{upload,download}.delay.{packets,min_ms,p50_ms,p95_ms,max_ms}"),
    (
        FieldKind::Number,
        "datagrams.{upload,download}.frames.{sent,incomplete,incomplete_share,late,late_share}",
    ),
    (FieldKind::Number, "datagrams.{upload,download}.paths.PATH.{sent,lost,loss,duplicates,reordered}"),
    (FieldKind::Number, "datagrams.{upload,download}.paths.PATH.{reordered_share,jitter_ms,max_jitter_ms}"),
    (FieldKind::Number, "datagrams.{upload,download}.paths.PATH.{late,late_share,longest_gap_ms}"),
    (FieldKind::Number, "datagrams.{upload,download}.paths.PATH.delay.{packets,min_ms,p50_ms,p95_ms,max_ms}"),
];

fn spread(pattern: &str) -> Vec<String> {
    let Some((begin, (names, rest))) =
        pattern.split_once('{').and_then(|(begin, rest)| Some((begin, rest.split_once('}')?)))
    else {
        return vec![pattern.to_owned()];
    };
    let rest = spread(rest);
    names.split(',').flat_map(|name| rest.iter().map(move |rest| format!("{begin}{name}{rest}"))).collect()
}

static SPREAD: LazyLock<Vec<(FieldKind, String)>> = LazyLock::new(|| {
    let each =
        |&(kind, pattern): &(FieldKind, &str)| spread(pattern).into_iter().map(move |field| (kind, field));
    FIELDS.iter().flat_map(each).collect()
});

/// The names of the traffic patterns in runs and expectations.
pub(super) const PATTERNS: [&str; 8] = [
    "ping",
    "bulk",
    "throughput",
    "throughput-upload",
    "throughput-download",
    "interactive",
    "responsiveness",
    "datagrams",
];

/// Prefixes of fields that only some patterns have, and these patterns.
const OF_PATTERNS: [(&str, &[&str]); 18] = [
    ("ping", &["ping"]),
    ("fct_ms", &["bulk"]),
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
    ("limited_by", &TRANSFERS),
    ("limits", &TRANSFERS),
    ("not_examined", &TRANSFERS),
    ("responsiveness", &["responsiveness"]),
    ("datagrams", &["datagrams"]),
];
const TRANSFERS: [&str; 4] = ["bulk", "throughput", "throughput-upload", "throughput-download"];

pub(super) fn is_field_of(field: &str, pattern: &str) -> bool {
    let begins =
        |start: &str| field.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    OF_PATTERNS.iter().find(|(start, _)| begins(start)).is_none_or(|(_, have)| have.contains(&pattern))
}

pub(super) fn kind_of(field: &str, links: &[&str]) -> Result<FieldKind, Fault> {
    // Field patterns of the same form differ only in their literal names.
    if let Some((kind, pattern)) = SPREAD.iter().find(|(_, pattern)| fits(pattern, field)) {
        let name = pattern.split('.').zip(field.split('.')).find(|(slot, _)| *slot == "PATH");
        return match name {
            Some((_, name)) if !links.contains(&name) => {
                Err((format!("there is no path or link `{name}`"), choices(name, links)))
            }
            _ => Ok(*kind),
        };
    }
    let problem = format!("a run has no field `{field}`");
    // Insert the name of the path, so that the suggested field resembles the given one.
    let written =
        field.split('.').nth(1).filter(|_| field.starts_with("paths.") || field.starts_with("links."));
    let known =
        known_fields().map(|known| written.map_or(known.to_owned(), |name| known.replace("PATH", name)));
    let known: Vec<String> = known.collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let remedy = match nearest(field, &known).first() {
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
            // Names of counters contain dots.
            (Some("NAME"), Some(segment)) => return !segment.is_empty(),
            (Some("PHASE"), Some(segment)) if LoadPhase::ALL.iter().any(|phase| phase.name() == segment) => {}
            (Some("PATH"), Some(segment)) if !segment.is_empty() => {}
            (Some("N"), Some(segment)) if segment.parse::<u16>().is_ok() => {}
            (Some(slot), Some(segment)) if slot == segment => {}
            _ => return false,
        }
    }
}

pub fn known_fields() -> impl Iterator<Item = &'static str> {
    SPREAD.iter().map(|(_, field)| field.as_str())
}
