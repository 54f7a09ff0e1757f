//! Closing a path whose route is dead (a detour), and the figures of packets that take another path's route meanwhile.
//!
//! The library retransmits data in flight on a closed path only when it discards the path, three PTOs after both ends
//! abandoned it. So before the close, a PING on the dead path is sent over the route of another path. The server
//! handles it as a migration (RFC 9000 section 9) and acknowledges it. Thus all earlier packets count as lost (RFC 9002
//! section 6.1), and both ends retransmit at once.
//!
//! The library counts these packets on the dead path. The figures count them on the path whose route they took: the
//! dead path itself delivers nothing.

use super::manager::{PathContext, Paths, ping};
use super::state::{Carried, CloseReason, Detour, PathState, Stray};
use noq_proto::{Connection, PathId, PathStats};
use std::collections::BTreeMap;
use std::time::Duration;

/// Limits of a detour's duration, which is twice the retransmission timeout of the other route.
const SHORTEST_DETOUR: Duration = Duration::from_millis(100);
const LONGEST_DETOUR: Duration = Duration::from_millis(600);

impl Paths {
    /// Closes a path; after a detour, if there is another path.
    pub(super) fn close(&mut self, id: PathId, reason: CloseReason, context: &mut PathContext<'_>) {
        let Some((detour, other)) = self.detour(id, reason, context) else {
            return self.close_now(id, reason, context);
        };
        if let Some(other) = other {
            self.stray(id, other, context.inner);
        }
        if let Some(path) = self.known.get_mut(&id) {
            (path.closing, path.detour) = (Some(reason), Some(detour));
        }
        ping(id, context);
    }

    fn detour(
        &self,
        id: PathId,
        reason: CloseReason,
        context: &PathContext<'_>,
    ) -> Option<(Detour, Option<PathId>)> {
        if reason == CloseReason::OpenTimeout {
            return None;
        }
        let from = context.inner.network_path(id).ok()?.local_ip()?;
        let mut others = self.open().filter(|(other, path)| *other != id && path.detour.is_none());
        let timeout = |id: PathId| context.board.observation(id)?.retransmission_timeout();
        if self.wanted.is_empty() {
            // Only a client can take another route, so the server waits for it: if the path is dead in both directions,
            // the client detects that at most one heartbeat later.
            let lasts = others.find_map(|(id, _)| timeout(id)).unwrap_or(LONGEST_DETOUR);
            let ends_at = context.now + lasts.clamp(SHORTEST_DETOUR, LONGEST_DETOUR);
            return Some((Detour { from, by: self.first_socket.id, ends_at }, None));
        }
        let (other, by) = others.find_map(|(other, path)| Some((other, path.socket?.id)))?;
        let lasts = timeout(other).map_or(SHORTEST_DETOUR, |timeout| timeout * 2);
        let ends_at = context.now + lasts.clamp(SHORTEST_DETOUR, LONGEST_DETOUR);
        Some((Detour { from, by, ends_at }, Some(other)))
    }

    pub(super) fn end_detours(&mut self, context: &mut PathContext<'_>) {
        let now = context.now;
        let ended = |path: &mut PathState| path.detour.take_if(|detour| detour.ends_at <= now).is_some();
        let ended: Vec<_> = self
            .known
            .iter_mut()
            .filter_map(|(id, path)| Some((*id, path.closing?)).filter(|_| ended(path)))
            .collect();
        for (id, reason) in ended {
            self.close_now(id, reason, context);
        }
    }

    /// Records that packets of `id` take the route of `by` from now on.
    fn stray(&mut self, id: PathId, by: PathId, inner: &mut Connection) {
        let Some(own) = inner.path_stats(id) else { return };
        if let Some(path) = self.known.get_mut(&id) {
            path.stray.get_or_insert_with(|| Box::new(Stray { own, by }));
            self.meter.divert(id, by);
        }
    }

    /// Checks whether packets of a path arrive from another path's remote address: the peer sends them on a detour.
    pub(super) fn note_stray(&mut self, id: PathId, inner: &mut Connection) {
        let Ok(route) = inner.network_path(id) else { return };
        let now = route.remote().ip().to_canonical();
        let is_at = |path: &PathState| path.remote.ip().to_canonical() == now;
        let named = self.known.get(&id).filter(|path| path.named && path.stray.is_none());
        if named.is_none_or(is_at) {
            return;
        }
        // An address of no other path is a new address of the peer: the packets still take this path's route.
        let mut others = self.known.iter().filter(|(other, path)| **other != id && path.stray.is_none());
        if let Some(by) = others.find(|(_, path)| is_at(path)).map(|(by, _)| *by) {
            self.stray(id, by, inner);
        }
    }
}

impl Carried {
    /// Moves the traffic that took another route from the figures of `path` to `self`.
    fn take(&mut self, path: &PathState, stats: &mut PathStats) {
        let Some(stray) = &path.stray else { return };
        let own = &stray.own;
        self.sent_datagrams += stats.udp_tx.datagrams.saturating_sub(own.udp_tx.datagrams);
        self.sent_bytes += stats.udp_tx.bytes.saturating_sub(own.udp_tx.bytes);
        self.received_datagrams += stats.udp_rx.datagrams.saturating_sub(own.udp_rx.datagrams);
        self.received_bytes += stats.udp_rx.bytes.saturating_sub(own.udp_rx.bytes);
        (stats.udp_tx, stats.udp_rx) = (own.udp_tx, own.udp_rx);
    }

    fn add_to(self, stats: &mut PathStats) {
        stats.udp_tx.datagrams += self.sent_datagrams;
        stats.udp_tx.bytes += self.sent_bytes;
        stats.udp_rx.datagrams += self.received_datagrams;
        stats.udp_rx.bytes += self.received_bytes;
    }
}

/// Counts packets that took another path's route on that path, if it is still known.
pub(super) fn attribute(figures: &mut [(PathId, &PathState, PathStats)]) {
    let mut moved: Vec<(PathId, Carried)> = Vec::new();
    let known: Vec<PathId> = figures.iter().map(|(id, ..)| *id).collect();
    for (_, path, stats) in figures.iter_mut() {
        if let Some(by) = path.stray.as_ref().map(|stray| stray.by).filter(|by| known.contains(by)) {
            let mut strayed = Carried::default();
            strayed.take(path, stats);
            moved.push((by, strayed));
        }
        path.carried.add_to(stats);
    }
    for (by, carried) in moved {
        if let Some((.., stats)) = figures.iter_mut().find(|(id, ..)| *id == by) {
            carried.add_to(stats);
        }
    }
}

/// The last figures of a removed path. Its packets that took another path's route stay counted on that path.
pub(super) fn settle(paths: &mut BTreeMap<PathId, PathState>, gone: &PathState) -> PathStats {
    let mut stats = gone.last.as_deref().copied().unwrap_or_default();
    if let Some(by) = gone.stray.as_ref().and_then(|stray| paths.get_mut(&stray.by)) {
        by.carried.take(gone, &mut stats);
    }
    gone.carried.add_to(&mut stats);
    stats
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::time::Timestamp;

    fn stats(sent: u64, received: u64) -> PathStats {
        let mut stats = PathStats::default();
        (stats.udp_tx.datagrams, stats.udp_rx.datagrams) = (sent, received);
        (stats.udp_tx.bytes, stats.udp_rx.bytes) = (sent * 1000, received * 1000);
        stats
    }

    #[test]
    fn what_took_another_way_is_the_other_paths() {
        let (dead, other) = (PathId::from(0_u32), PathId::from(1_u32));
        let path =
            || PathState::new(([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 1).into(), Timestamp::default());
        let stray = Some(Box::new(Stray { own: stats(260, 213), by: other }));
        let last = Some(Box::new(stats(265, 229)));
        let (gone, kept) = (PathState { stray, last, ..path() }, path());
        let mut figures = [(dead, &gone, stats(265, 229)), (other, &kept, stats(145, 75))];
        attribute(&mut figures);
        let found =
            figures.map(|(.., stats)| (stats.udp_tx.datagrams, stats.udp_rx.datagrams, stats.udp_rx.bytes));
        assert_eq!(found, [(260, 213, 213_000), (150, 91, 91_000)], "nothing is lost, nothing counted twice");

        // The totals are the same after the dead path is removed, and after the other path is removed.
        let mut kept = BTreeMap::from([(other, path())]);
        assert_eq!(settle(&mut kept, &gone).udp_tx.datagrams, 260);
        let mut figures = [(other, &kept[&other], stats(145, 75))];
        attribute(&mut figures);
        assert_eq!((figures[0].2.udp_tx.datagrams, figures[0].2.udp_rx.datagrams), (150, 91));
        assert_eq!(settle(&mut BTreeMap::new(), &gone).udp_tx.datagrams, 265);
    }
}
