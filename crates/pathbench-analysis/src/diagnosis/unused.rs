//! Why a path that never fell silent was not used either.

use super::{
    DiagnosisInput, PlannedPath, cause, course, first_sender, has_several_paths, is_used, remedy, silence,
};
use crate::verdict::{JoinFailure, PathDelivery, failure_words, joins, share, why_unused};
use pathbench_record::document::{DiagnosisKind, PathDiagnosis};
use pathbench_record::sample::{PathFigures, PathState};
use std::net::IpAddr;

/// `None` for a path that was used, and where one path was all there was to be.
pub(super) fn explain(input: &DiagnosisInput<'_>, path: &PlannedPath) -> Option<PathDiagnosis> {
    if !has_several_paths(input) {
        return None;
    }
    let delivered = input.connection.paths.iter().map(|path| path.delivered_bytes);
    let total = delivered.fold(0, u64::saturating_add);
    let delivery = input.connection.paths.iter().find(|delivery| delivery.name == path.name);
    if total == 0 || is_used(input, path) {
        return None;
    }
    if let Some(short) = short_silence(input, path) {
        return Some(short);
    }
    let (kind, because) = match &input.connection.quic {
        Some(quic) => why_unused(quic, &path.name)?,
        None => match delivery {
            Some(PathDelivery { last: Some(last), .. }) => opened(input, path, last, delivery?, total),
            _ => never_opened(input, path),
        },
    };
    let away = match kind {
        DiagnosisKind::Stale | DiagnosisKind::NeverEstablished => cause::away(input, path),
        _ => None,
    };
    Some(PathDiagnosis {
        path: path.name.clone(),
        side: first_sender(input),
        kind,
        from_ms: None,
        to_ms: None,
        because: match &away {
            Some((words, _)) => format!("{because}; {words} took the path away"),
            None => because,
        },
        remedy: match (kind, away) {
            (_, Some((_, true))) => remedy::ordered(),
            (_, Some((_, false))) => remedy::gone(path),
            (DiagnosisKind::Backup, None) => remedy::backup(input, path),
            (DiagnosisKind::NoRoute, None) => remedy::no_route(path),
            (DiagnosisKind::NeverEstablished, None) => remedy::never_established(input, path),
            (DiagnosisKind::NotChosen, None) => remedy::not_chosen(),
            (DiagnosisKind::Stale | DiagnosisKind::MtuBlackHole, None) => remedy::dead(path),
        },
    })
}

/// A run that was over within a second of its path's falling silent: the signs are the same.
fn short_silence(input: &DiagnosisInput<'_>, path: &PlannedPath) -> Option<PathDiagnosis> {
    let side = first_sender(input);
    let last = course::silences(input.samples, &path.name, side).pop()?;
    (last.is_from_the_start() && last.to_ms.is_none() && last.backoff > 0)
        .then(|| silence::explain(input, path, side, &last, true))
}

fn opened(
    input: &DiagnosisInput<'_>,
    path: &PlannedPath,
    last: &PathFigures,
    delivery: &PathDelivery,
    total: u64,
) -> (DiagnosisKind, String) {
    if path.backup || last.backup == Some(true) {
        let why = "it is marked backup, which is used only while no other path is alive";
        return (DiagnosisKind::Backup, why.to_owned());
    }
    let failed = failure_on(input, path);
    let failure = failed.map(|failure| format!(": {}", failure_words(failure)));
    match last.state {
        PathState::Opening => (
            DiagnosisKind::NeverEstablished,
            "its handshake was never completed: its packets, or the answers, do not get through".to_owned(),
        ),
        PathState::Closed if last.bytes_acked <= 1 => (
            failed.map_or(DiagnosisKind::NeverEstablished, kind_of),
            format!("its subflow was closed before it carried anything{}", failure.unwrap_or_default()),
        ),
        PathState::Closed => (
            DiagnosisKind::Stale,
            format!(
                "its subflow was closed when it had carried {} of the bytes{}",
                share(delivery, total),
                failure.unwrap_or_default()
            ),
        ),
        PathState::Open => (
            DiagnosisKind::NotChosen,
            format!(
                "it was open and in good health (round trip {:.1} ms, nothing unacknowledged for long), and carried {} \
                 of the bytes: the transfer was too short or too slow to need it, or the buffers too small for both \
                 paths",
                last.srtt_ms,
                share(delivery, total)
            ),
        ),
    }
}

fn never_opened(input: &DiagnosisInput<'_>, path: &PlannedPath) -> (DiagnosisKind, String) {
    let connection = input.connection;
    if let Some(failure) = failure_on(input, path) {
        return (kind_of(failure), failure_words(failure));
    }
    if let Some(setup) = &connection.setup {
        let is_of_path = |address: &IpAddr| path.addresses.contains(address);
        if setup.subflow_limit == 0 || setup.peer_subflow_limit == Some(0) {
            let where_to = if setup.subflow_limit == 0 { "this host" } else { "the peer" };
            let why = format!(
                "the limit of additional subflows is 0 on {where_to} (`ip mptcp limits set subflows 2`)"
            );
            return (DiagnosisKind::NeverEstablished, why);
        }
        if !setup.endpoints.iter().any(is_of_path) {
            let why = "none of its addresses is an MPTCP endpoint (`ip mptcp endpoint add ADDRESS dev INTERFACE subflow`)";
            return (DiagnosisKind::NeverEstablished, why.to_owned());
        }
    }
    if connection.rose("MPJoinSynTxConnectErr") {
        return (
            DiagnosisKind::NoRoute,
            "the kernel found no route from its address to the server".to_owned(),
        );
    }
    let found = joins(connection);
    if found.is_empty() {
        let why = "no join was seen on it: the transfer may have ended before one";
        return (DiagnosisKind::NeverEstablished, why.to_owned());
    }
    (DiagnosisKind::NeverEstablished, found.join("; "))
}

const fn kind_of(failure: &JoinFailure) -> DiagnosisKind {
    match failure.errno {
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => DiagnosisKind::NoRoute,
        _ => DiagnosisKind::NeverEstablished,
    }
}

/// What the path manager said of a subflow from one of the path's addresses.
fn failure_on<'a>(input: &DiagnosisInput<'a>, path: &PlannedPath) -> Option<&'a JoinFailure> {
    let of_path = |failure: &&JoinFailure| failure.local.is_some_and(|local| path.addresses.contains(&local));
    input.connection.join_failures.iter().find(of_path)
}
