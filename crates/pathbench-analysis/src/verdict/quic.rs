//! Why a connection that requested Multipath QUIC used only one path.

use super::input::{PathDelivery, QuicPaths, VerdictInput, is_used, share};
use pathbench_record::connection::{PathEvent, PathEventKind, Scheduler};
use pathbench_record::document::DiagnosisKind;
use pathbench_record::network::ClientPath;

pub(super) const NOT_NEGOTIATED: &str = "the peer did not agree to Multipath QUIC (its transport parameters have no \
     initial_max_path_id): its program supports QUIC without multipath, or serves one path only";

pub(super) fn one_path_reason(input: &VerdictInput, quic: &QuicPaths, total: u64) -> String {
    if total == 0 {
        return "Multipath QUIC was negotiated, but no byte was delivered over any path".to_owned();
    }
    if quic.asked.len() < 2 {
        let names: Vec<&str> = quic.asked.iter().map(|path| path.name.as_str()).collect();
        return format!(
            "Multipath QUIC was negotiated, but this host has only one path to the server{}{}",
            if names.is_empty() { "" } else { ": " },
            names.join(", ")
        );
    }
    let delivered = |asked: &ClientPath| input.paths.iter().find(|path| path.name == asked.name);
    let unused = quic
        .asked
        .iter()
        .enumerate()
        .filter(|(_, asked)| !delivered(asked).is_some_and(|path| is_used(path, total)));
    let found: Vec<String> = unused
        .map(|(index, asked)| match delivered(asked) {
            Some(path) if path.delivered_bytes > 0 => idle(input, quic, index, asked, path, total),
            _ => never_used(quic, index, asked),
        })
        .collect();
    format!("Multipath QUIC was negotiated, but {}", found.join("; "))
}

fn idle(
    input: &VerdictInput,
    quic: &QuicPaths,
    index: usize,
    asked: &ClientPath,
    path: &PathDelivery,
    total: u64,
) -> String {
    let carried = format!("path {} carried {} of the bytes", asked.name, share(path, total));
    if let Some(diagnosis) = input.diagnosis(&asked.name) {
        return format!("{carried}: {diagnosis}");
    }
    match trouble(quic, asked) {
        Some(Trouble::Lost(why)) => format!("{carried} before it was given up: {why}"),
        Some(Trouble::Gone(change)) => {
            format!("{carried} before its interface or address was removed ({change})")
        }
        Some(Trouble::Silent) => {
            format!("{carried}: no packet arrived on it any more, so it got no new data")
        }
        Some(Trouble::Refused(why)) => format!("{carried} and could not be opened again: {why}"),
        None => match backup_reason(quic, index, asked) {
            Some(why) => format!("{carried}: {why}"),
            None => format!(
                "{carried}, less than the 1 % that counts as used: the transfer was too short or too slow to need \
                 it under the scheduler `{}`",
                quic.scheduler.name()
            ),
        },
    }
}

fn never_used(quic: &QuicPaths, index: usize, asked: &ClientPath) -> String {
    let name = &asked.name;
    let happened =
        |wanted: fn(&PathEventKind) -> bool| events_of(quic, asked).any(|event| wanted(&event.kind));
    let established = happened(|kind| matches!(kind, PathEventKind::PathEstablished));
    match trouble(quic, asked) {
        Some(Trouble::Refused(why)) => format!("path {name} could not be opened: {why}"),
        Some(Trouble::Lost(why)) if established => {
            format!("path {name} was given up before it carried data: {why}")
        }
        Some(Trouble::Lost(why)) => format!("path {name} was never validated: {why}"),
        Some(Trouble::Gone(change)) => {
            format!("the interface or address of path {name} was removed ({change})")
        }
        Some(Trouble::Silent) => format!("no packet arrived on path {name}"),
        None if established => match backup_reason(quic, index, asked) {
            Some(why) => format!("path {name} carried no data: {why}"),
            None => format!("path {name} was open, but no data arrived over it"),
        },
        None if happened(|kind| matches!(kind, PathEventKind::PathOpened)) => {
            format!("path {name} was not validated before the end: its packets, or the answers, are dropped")
        }
        None => format!("path {name} was never opened: the transfer may have ended before"),
    }
}

/// Kind and text of the reason why a path of an mpquic connection carried almost nothing; `None` for a path that was
/// not planned for the connection.
pub(crate) fn why_unused(quic: &QuicPaths, name: &str) -> Option<(DiagnosisKind, String)> {
    let (index, asked) = quic.asked.iter().enumerate().find(|(_, asked)| asked.name == name)?;
    let happened =
        |wanted: fn(&PathEventKind) -> bool| events_of(quic, asked).any(|event| wanted(&event.kind));
    let established = happened(|kind| matches!(kind, PathEventKind::PathEstablished));
    let validation = "it requires datagrams of 1200 bytes in both directions";
    Some(match trouble(quic, asked) {
        Some(Trouble::Refused(why)) => {
            (DiagnosisKind::NeverEstablished, format!("it could not be opened: {why}"))
        }
        Some(Trouble::Lost(why)) if established => (DiagnosisKind::Stale, format!("it was given up: {why}")),
        Some(Trouble::Lost(why)) => {
            (DiagnosisKind::NeverEstablished, format!("it was never validated: {why}; {validation}"))
        }
        Some(Trouble::Gone(change)) => {
            (DiagnosisKind::Stale, format!("its interface or address was removed ({change})"))
        }
        Some(Trouble::Silent) => (DiagnosisKind::Stale, "no packet arrived on it any more".to_owned()),
        None if established || index == 0 => match backup_reason(quic, index, asked) {
            Some(why) => (DiagnosisKind::Backup, why.to_owned()),
            None => (
                DiagnosisKind::NotChosen,
                format!("it was open, and the scheduler `{}` took others", quic.scheduler.name()),
            ),
        },
        None if happened(|kind| matches!(kind, PathEventKind::PathOpened)) => {
            (DiagnosisKind::NeverEstablished, format!("it was not validated before the end: {validation}"))
        }
        None => (
            DiagnosisKind::NeverEstablished,
            "it was never opened: the transfer may have ended before".to_owned(),
        ),
    })
}

/// Why a path is unusable according to its last event; `None` once the path is usable again.
enum Trouble<'a> {
    Refused(&'a str),
    Lost(&'a str),
    Gone(&'a str),
    Silent,
}

fn trouble<'a>(quic: &'a QuicPaths, asked: &'a ClientPath) -> Option<Trouble<'a>> {
    let mut found = None;
    for event in events_of(quic, asked) {
        found = match &event.kind {
            PathEventKind::PathRefused { reason } => Some(Trouble::Refused(reason)),
            // The previous event names the cause: the interface disappeared, or the path became silent.
            PathEventKind::PathAbandoned { .. } | PathEventKind::PathGivenUp { .. }
                if matches!(found, Some(Trouble::Gone(_))) =>
            {
                found
            }
            PathEventKind::PathAbandoned { .. } if matches!(found, Some(Trouble::Lost(_))) => found,
            PathEventKind::PathAbandoned { reason } | PathEventKind::PathGivenUp { reason } => {
                Some(Trouble::Lost(reason))
            }
            PathEventKind::InterfaceGone { change } => Some(Trouble::Gone(change)),
            PathEventKind::PathSuspended => Some(Trouble::Silent),
            PathEventKind::PathEstablished | PathEventKind::PathResumed => None,
            _ => found,
        };
    }
    found
}

fn backup_reason(quic: &QuicPaths, index: usize, asked: &ClientPath) -> Option<&'static str> {
    if asked.backup == Some(true) {
        Some("it is marked backup, which is used only while no other path is usable")
    } else if index > 0 && matches!(quic.scheduler, Scheduler::Backup { .. }) {
        Some("the scheduler `backup` uses it only while the preferred path is in trouble")
    } else {
        None
    }
}

fn events_of<'a>(quic: &'a QuicPaths, asked: &'a ClientPath) -> impl Iterator<Item = &'a PathEvent> {
    quic.events.iter().filter(|event| event.local.is_some_and(|local| asked.addresses.contains(&local)))
}
