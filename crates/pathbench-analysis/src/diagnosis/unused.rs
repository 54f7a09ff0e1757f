//! Why a path without silences was not used.

use super::input::{DiagnosisInput, first_sender, has_several_paths, is_used};
use super::{cause, course, remedy, silence};
use crate::mptcp_setup::PEER_LIMIT;
use crate::verdict::{PathDelivery, failure_words, joins, share, why_unused};
use pathbench_record::document::{DiagnosisKind, PathDiagnosis};
use pathbench_record::kernel_event::MptcpEvent;
use pathbench_record::mptcp::remedy::is_suitable;
use pathbench_record::network::ClientPath;
use pathbench_record::sample::{PathFigures, PathState, Side};
use pathbench_record::text::duration_ms;
use std::net::IpAddr;

/// `None` for a path that was used, and for a connection over one path.
pub(super) fn explain(input: &DiagnosisInput<'_>, path: &ClientPath) -> Option<PathDiagnosis> {
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
    if let Some(stray) = input.connection.strays.iter().find(|stray| stray.path == path.name) {
        return Some(PathDiagnosis {
            path: path.name.clone(),
            side: Side::Client,
            kind: DiagnosisKind::NoRoute,
            from_ms: None,
            to_ms: None,
            because: stray.words(),
            remedy: stray.remedy_words(),
        });
    }
    let (kind, because) = match &input.connection.quic {
        Some(quic) => why_unused(quic, &path.name)?,
        None => match delivery {
            Some(PathDelivery { last: Some(last), .. }) => opened(input, path, last, delivery?, total),
            _ => never_opened(input, path),
        },
    };
    let away = match kind {
        DiagnosisKind::Stale | DiagnosisKind::NeverEstablished => cause::final_interruption(input, path),
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
            (_, Some((_, true))) => remedy::ordered_by_scenario(),
            (_, Some((_, false))) => remedy::gone(path),
            (DiagnosisKind::Backup, None) => remedy::backup(input, path),
            (DiagnosisKind::NoRoute, None) => remedy::no_route(path),
            (DiagnosisKind::NeverEstablished, None) => remedy::never_established(input, path),
            (DiagnosisKind::NotChosen | DiagnosisKind::InitialPath, None) => remedy::not_chosen(),
            (DiagnosisKind::Stale | DiagnosisKind::MtuBlackHole, None) => remedy::dead(path),
        },
    })
}

/// For a run that ended within a second after its path became silent: the signs are those of a longer silence.
fn short_silence(input: &DiagnosisInput<'_>, path: &ClientPath) -> Option<PathDiagnosis> {
    let side = first_sender(input);
    let last = course::silences(input.samples, &path.name, side).pop()?;
    (last.is_from_the_start() && last.to_ms.is_none() && last.backoff > 0)
        .then(|| silence::explain(input, path, side, &last, true))
}

fn opened(
    input: &DiagnosisInput<'_>,
    path: &ClientPath,
    last: &PathFigures,
    delivery: &PathDelivery,
    total: u64,
) -> (DiagnosisKind, String) {
    if path.backup == Some(true) || last.backup == Some(true) {
        let why = "it is marked backup, which is used only while no other path is alive";
        return (DiagnosisKind::Backup, why.to_owned());
    }
    let failed = failure_on(input, path);
    let failure = failed.map(|failure| format!(": {}", failure_words(failure)));
    match last.state {
        PathState::Opening => (
            DiagnosisKind::NeverEstablished,
            "its handshake was never completed: its packets, or the answers, are dropped".to_owned(),
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
                "it was open and healthy (round trip {}, nothing unacknowledged for long), and carried {} \
                 of the bytes: the transfer was too short or too slow to need it, or the buffers too small for both \
                 paths",
                duration_ms(last.srtt_ms),
                share(delivery, total)
            ),
        ),
    }
}

fn never_opened(input: &DiagnosisInput<'_>, path: &ClientPath) -> (DiagnosisKind, String) {
    let connection = input.connection;
    if let Some(failure) = failure_on(input, path) {
        return (kind_of(failure), failure_words(failure));
    }
    if let Some(setup) = &connection.setup {
        let is_of_path = |address: &IpAddr| path.addresses.contains(address);
        if setup.subflow_limit == 0 || setup.peer_subflow_limit == Some(0) {
            let (host, remedy) = match setup.subflow_limit {
                0 => ("this host", setup.subflow_limit_remedy()),
                _ => ("the peer", PEER_LIMIT.to_owned()),
            };
            let why = format!("the limit of additional subflows is 0 on {host} (`{remedy}`)");
            return (DiagnosisKind::NeverEstablished, why);
        }
        if !setup.endpoints.iter().any(is_of_path) {
            let usable = path.addresses.iter().copied().find(|address| is_suitable(*address));
            let remedy = usable.map(|address| setup.endpoint_remedy(address, Some(&path.interface)));
            let remedy = remedy.map(|remedy| format!(" (`{remedy}`)")).unwrap_or_default();
            let why = format!("none of its addresses is an MPTCP endpoint{remedy}");
            return (DiagnosisKind::NeverEstablished, why);
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

fn kind_of(failure: &MptcpEvent) -> DiagnosisKind {
    match failure.error.map(i32::from) {
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => DiagnosisKind::NoRoute,
        _ => DiagnosisKind::NeverEstablished,
    }
}

/// The path manager's report of a failed subflow from one of the path's addresses.
fn failure_on<'a>(input: &DiagnosisInput<'a>, path: &ClientPath) -> Option<&'a MptcpEvent> {
    let of_path =
        |failure: &&MptcpEvent| failure.local.is_some_and(|local| path.addresses.contains(&local.ip()));
    input.connection.join_failures.iter().find(of_path)
}
