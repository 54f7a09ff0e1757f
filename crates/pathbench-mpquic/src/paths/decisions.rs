//! Decisions: which paths are opened, closed and held back.

use super::manager::{PathContext, Paths};
use super::pulse::Verdict;
use super::state::{CloseReason, PathState};
use super::wanted::Wanted;
use crate::driver::{LocalSocket, Turn};
use crate::library::scheduler::Role;
use noq_proto::{ClosePathError, FourTuple, PathError, PathId, PathStatus, VarInt};
use pathbench_record::connection::PathEventKind;
use pathbench_record::network::canonical;
use pathbench_record::sample::PathState as Stage;
use pathbench_record::time::Timestamp;
use std::net::IpAddr;

impl Paths {
    /// Closes and opens paths and sets their roles, according to their present state.
    pub(super) fn decide(&mut self, context: &mut PathContext<'_>) {
        self.decided_at = context.now;
        if self.managed {
            for id in self.ids() {
                if let Some(reason) = self.closable(id, context.now) {
                    self.close(id, reason, context);
                }
            }
            if context.turn == Turn::Whole {
                self.open_wanted(context);
            }
        }
        self.give_roles(context);
    }

    fn reason_to_close(&self, path: &PathState, now: Timestamp) -> Option<CloseReason> {
        let wanted = path.wanted.and_then(|index| self.wanted.get(index));
        let reason = wanted.and_then(|wanted| wanted.reason_to_close(path, self.remote.is_ipv6(), now));
        let heartbeats = match path.pulse.verdict {
            Verdict::Dead => Some(CloseReason::Silent),
            _ => path.unheard.then_some(CloseReason::Unheard),
        };
        path.closing.or(reason).or(heartbeats.filter(|_| path.is_open()))
    }

    fn is_healthy(&self, path: &PathState, now: Timestamp) -> bool {
        path.is_open() && !path.is_silent() && self.reason_to_close(path, now).is_none()
    }

    /// Why a path must be closed now. The last path is never closed.
    fn closable(&self, id: PathId, now: Timestamp) -> Option<CloseReason> {
        let path = self.known.get(&id).filter(|path| path.closing.is_none() && !path.refused)?;
        let reason = self.reason_to_close(path, now)?;
        let mut others = self.open().filter(|(other, _)| *other != id).map(|(_, other)| other);
        let allowed = match path.stage {
            // noq counts paths that are being opened, too: an established path remains in any case.
            Stage::Opening => others.any(|other| other.closing.is_none()),
            Stage::Open => others.any(|other| self.is_healthy(other, now)),
            Stage::Closed => false,
        };
        allowed.then_some(reason)
    }

    fn give_roles(&mut self, context: &mut PathContext<'_>) {
        let now = context.now;
        let is_backup = |path: &PathState, wanted: &[Wanted]| {
            path.wanted.and_then(|index| wanted.get(index)).map_or(path.peer_backup, |wanted| wanted.backup)
        };
        let preferred =
            self.open().any(|(_, path)| self.is_healthy(path, now) && !is_backup(path, &self.wanted));
        for id in self.ids() {
            let Some(path) = self.known.get(&id) else { continue };
            if !self.managed || !path.is_open() {
                context.board.set_role(id, Role { stage: path.stage, ..Role::default() });
                continue;
            }
            let wanted = path.wanted.and_then(|index| self.wanted.get(index));
            let role_backup = is_backup(path, &self.wanted);
            let suspended = path.is_silent() || self.reason_to_close(path, now).is_some();
            let backup = suspended || (role_backup && preferred && !self.troubled);
            let weight = wanted.map_or(1, |wanted| wanted.path.weight);
            self.set_status(id, backup, context);
            let Some(path) = self.known.get_mut(&id) else { continue };
            // The server repeats the client's status; a different status is the server's own choice.
            let avoided = path.wanted.is_some() && path.peer_asks && !backup;
            path.avoided_since = path.avoided_since.or(Some(now)).filter(|_| avoided);
            path.unheard &= avoided;
            let role = Role { stage: path.stage, backup: role_backup, avoided, suspended, weight };
            context.board.set_role(id, role);
        }
    }

    /// Sets the status of a path; noq signals only a *change* to the peer.
    fn set_status(&mut self, id: PathId, backup: bool, context: &mut PathContext<'_>) {
        let status = if backup { PathStatus::Backup } else { PathStatus::Available };
        if context.inner.path_status(id) == Ok(status) || context.inner.set_path_status(id, status).is_err() {
            return;
        }
        let Some(path) = self.known.get_mut(&id) else { return };
        // The peer's status referred to the former status of this end.
        path.peer_asks = false;
        if path.closing.is_none() {
            self.record(id, PathEventKind::PathStatus { backup, by_peer: false }, context);
        }
    }

    fn open_wanted(&mut self, context: &mut PathContext<'_>) {
        for index in 0..self.wanted.len() {
            let Some(wanted) = self.wanted.get(index).filter(|_| self.is_idle(index)) else { continue };
            let source = wanted.source(self.remote.is_ipv6()).filter(|_| context.now >= wanted.retry_at);
            let Some(address) = source else { continue };
            match self.open_path(&wanted.path.interface, address, context) {
                Ok((id, socket)) => {
                    let (local, remote) = (canonical(socket.address), canonical(self.remote));
                    let path = PathState::new(local, remote, context.now);
                    let path = PathState { socket: Some(socket), wanted: Some(index), ..path };
                    self.known.insert(id, path);
                    self.record(id, PathEventKind::PathOpened, context);
                }
                Err(reason) => {
                    if let Some(reason) = reason {
                        let kind = PathEventKind::PathRefused { reason };
                        context.log.record(context.now, None, Some(address), kind);
                    }
                    if let Some(wanted) = self.wanted.get_mut(index) {
                        wanted.put_off(None, context.now);
                    }
                }
            }
        }
    }

    /// Opens a path and its socket; the error is the reason to log, if any. The path's initial status is "available"
    /// with any role: noq signals only a change of the status.
    fn open_path(
        &self,
        interface: &str,
        address: IpAddr,
        context: &mut PathContext<'_>,
    ) -> Result<(PathId, LocalSocket), Option<String>> {
        let socket = context.driver.open_socket(interface, address, self.remote).map_err(Some)?;
        let route = FourTuple::new(self.remote, Some(address));
        match context.inner.open_path(route, PathStatus::Available, context.instant) {
            Ok(path) => Ok((path, socket)),
            Err(error) => {
                context.driver.close_socket(socket.id);
                // The peer's connection ids have not arrived yet.
                Err((error != PathError::RemoteCidsExhausted).then(|| error.to_string()))
            }
        }
    }

    pub(super) fn close_now(&mut self, id: PathId, reason: CloseReason, context: &mut PathContext<'_>) {
        let closed = context.inner.close_path(context.instant, id, VarInt::from_u32(0));
        let Some(path) = self.known.get_mut(&id) else { return };
        match closed {
            Ok(()) => {
                path.closing = Some(reason);
                let reason = reason.describe().to_owned();
                self.record(id, PathEventKind::PathGivenUp { reason }, context);
            }
            // The event `Abandoned` follows.
            Err(ClosePathError::ClosedPath) => path.closing = Some(reason),
            Err(_) => (path.closing, path.refused) = (None, true),
        }
    }
}
