//! The end of a path whose own way is dead.

use super::{Decider, PathContext, Paths};
use crate::core::SocketId;
use crate::path_manager::{CloseReason, PathInput};
use noq_proto::{PathId, PathStatus};
use pathbench_record::sample::PathState;
use pathbench_record::time::Timestamp;
use std::net::IpAddr;
use std::time::Duration;

/// How long packets of a dead path may take another way: twice the retransmission timeout there, within these.
const SHORTEST_DETOUR: Duration = Duration::from_millis(100);
const LONGEST_DETOUR: Duration = Duration::from_millis(600);

/// A path whose own way is dead, until it is closed.
///
/// The library sends again what was in flight on a closed path only when the path is forgotten, three PTOs after both
/// ends agreed to close it. So before that, a PING on the path is sent by the way of another: the server takes it for
/// a migration (RFC 9000 section 9) and acknowledges it, and with that everything before it counts as lost (RFC 9002
/// section 6.1) and is sent again at once, by both ends.
#[derive(Debug)]
pub(super) struct Detour {
    pub(super) path: PathId,
    pub(super) from: IpAddr,
    pub(super) by: SocketId,
    pub(super) reason: CloseReason,
    pub(super) ends_at: Timestamp,
}

impl Paths {
    /// Closes a path, by way of a detour where there is another path.
    pub(super) fn close(
        &mut self,
        path: PathId,
        reason: CloseReason,
        context: &mut PathContext<'_>,
    ) -> Vec<PathInput> {
        if let Some((detour, other)) = self.detour(path, reason, context) {
            self.detours.push(detour);
            if let Some(other) = other {
                self.stray(path, other, context.inner);
            }
            context.board.set_suspended(path, true);
            // Keeps the server's data off it, too. This and the PING fail only when the path is closed already.
            let _ = context.inner.set_path_status(path, PathStatus::Backup);
            context.board.allow_ping(path);
            let _ = context.inner.ping_path(path);
            return Vec::new();
        }
        self.close_now(path, reason, context)
    }

    fn detour(
        &self,
        path: PathId,
        reason: CloseReason,
        context: &PathContext<'_>,
    ) -> Option<(Detour, Option<PathId>)> {
        let own_way_is_dead = reason != CloseReason::OpenTimeout;
        let known = |id: &PathId| self.detours.iter().any(|detour| detour.path == *id);
        if !own_way_is_dead || known(&path) {
            return None;
        }
        let from = context.inner.network_path(path).ok()?.local_ip()?;
        let is_open = |id: &PathId| self.known.get(id).is_some_and(|known| known.state == PathState::Open);
        if !matches!(self.decider, Decider::Client { .. }) {
            // Only a client can take another route. It is given the time to: it notices at most a heartbeat later, where
            // the path is dead in both directions.
            let by = self.socket_from(None);
            let mut others = self.known.keys().filter(|id| **id != path && is_open(id) && !known(id));
            let rto = others.find_map(|id| context.board.observation(*id)?.retransmission_timeout());
            let lasts = rto.unwrap_or(LONGEST_DETOUR).clamp(SHORTEST_DETOUR, LONGEST_DETOUR);
            return Some((Detour { path, from, by, reason, ends_at: context.now + lasts }, None));
        }
        let (other, by) = self.sockets.iter().find(|(id, _)| *id != path && is_open(id) && !known(id))?;
        let rto = context.board.observation(*other).and_then(|seen| seen.retransmission_timeout());
        let lasts = (rto.unwrap_or(SHORTEST_DETOUR) * 2).clamp(SHORTEST_DETOUR, LONGEST_DETOUR);
        let detour = Detour { path, from, by: by.id, reason, ends_at: context.now + lasts };
        Some((detour, Some(*other)))
    }

    pub(super) fn end_detours(&mut self, context: &mut PathContext<'_>) {
        let now = context.now;
        let ended: Vec<Detour> = self.detours.extract_if(.., |detour| detour.ends_at <= now).collect();
        for detour in ended {
            for input in self.close_now(detour.path, detour.reason, context) {
                self.decide(input, context);
            }
        }
    }
}
