//! What is known of a connection's paths, of those that are gone, too.

use super::stray::{self, Carried};
use super::{KnownPath, PathContext, Paths};
use crate::closed_paths::KEPT_CLOSED_PATHS;
use crate::figures::{Activity, FigureContext, figures};
use crate::path_event::{PathLog, path_number};
use crate::scheduler::Board;
use noq_proto::{Connection, PathId, PathStats, PathStatus};
use pathbench_record::address::canonical;
use pathbench_record::connection::PathEventKind;
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::time::Timestamp;
use std::net::SocketAddr;
use std::time::Instant;

/// Paths of a connection that the library may keep at a time, those included whose end it waits for (three PTOs, which
/// the peer can make long by acknowledging late). The peer may open a path for each that it abandons.
pub(super) const MOST_PATHS_KEPT: usize = 64;
/// Path ids of a connection in all: the library keeps some 300 bytes for each until the connection ends.
pub(super) const MOST_PATH_IDS: u32 = 8192;
/// The same of a connection on which a server has not admitted a test yet.
pub(super) const FIRST_PATHS_KEPT: usize = 16;
pub(super) const FIRST_PATH_IDS: u32 = 256;

/// What the library and this module keep of a path, and of a path id that is used up.
const PATH_BYTES: u64 = 16 << 10;
const PATH_ID_BYTES: u64 = 512;

/// What the paths of a connection take at most, the latter before a test is admitted on it.
pub const PATHS_BYTES: u64 = MOST_PATHS_KEPT as u64 * PATH_BYTES + MOST_PATH_IDS as u64 * PATH_ID_BYTES;
pub const FIRST_PATHS_BYTES: u64 =
    FIRST_PATHS_KEPT as u64 * PATH_BYTES + FIRST_PATH_IDS as u64 * PATH_ID_BYTES;

impl Paths {
    /// Whether the peer's status of a path is another one than before. The library hands on that of any path id that the
    /// peer names.
    pub(crate) fn changes_status(&mut self, id: PathId, status: PathStatus, inner: &Connection) -> bool {
        inner.path_status(id).is_ok() && self.kept_off.change(id, status)
    }

    pub(crate) fn kept_state(&self) -> [usize; 3] {
        [self.known.len(), self.closed.sums().len(), self.kept_off.len()]
    }

    /// Why the connection must be closed, when the peer has opened too many paths.
    pub(crate) fn excess(&self) -> Option<&'static str> {
        self.excess
    }

    pub(super) fn check_number(&mut self, id: PathId, context: &PathContext<'_>) {
        let (ids, kept) = if context.is_trusted {
            (MOST_PATH_IDS, MOST_PATHS_KEPT)
        } else {
            (FIRST_PATH_IDS, FIRST_PATHS_KEPT)
        };
        if path_number(id) >= ids {
            self.excess = Some("the connection has used all its path ids");
        } else if context.inner.paths().len() > kept {
            self.excess = Some("the peer opens and abandons paths too fast");
        }
    }

    /// Sums up the closed paths that are too many to be kept one by one, the earliest first.
    pub(super) fn sum_up(&mut self, context: &PathContext<'_>) {
        let is_gone = |path: &KnownPath| path.last.is_some();
        while self.known.values().filter(|path| is_gone(path)).count() > KEPT_CLOSED_PATHS {
            let earliest = self.known.iter().find(|(_, path)| is_gone(path)).map(|(id, _)| *id);
            let Some((id, path)) = earliest.and_then(|id| Some((id, self.known.remove(&id)?))) else {
                return;
            };
            let stats = stray::settle(&mut self.known, &path);
            let context = FigureContext {
                board: context.board,
                is_multipath: context.inner.is_multipath_negotiated(),
                instant: context.instant,
                now: context.now,
            };
            let carried = self.meter.forget(id);
            self.closed.add(figures((id, &path), (&stats, &carried), &Activity::at(context.now), &context));
        }
    }

    pub(super) fn note(&mut self, id: PathId, state: PathState, inner: &Connection, now: Timestamp) {
        let backup = inner.path_status(id) == Ok(PathStatus::Backup);
        if let Some(known) = self.known.get_mut(&id) {
            (known.state, known.backup) = (state, backup);
        }
        // A path keeps the name it had when it was opened: before it is closed its packets may take another's way.
        if self.known.get(&id).is_some_and(|known| known.named) {
            return;
        }
        let Ok(way) = inner.network_path(id) else { return };
        let own = self.sockets.iter().find(|(path, _)| *path == id).or(self.sockets.first());
        let Some((_, socket)) = own else { return };
        let local = SocketAddr::new(way.local_ip().unwrap_or(socket.address.ip()), socket.address.port());
        let (local, remote) = (canonical(local), canonical(way.remote()));
        let named = state == PathState::Open && way.local_ip().is_some() && inner.is_multipath_negotiated();
        let (black_holes, carried) = (0, Carried::default());
        let known = KnownPath {
            local,
            remote,
            state,
            backup,
            named,
            last: None,
            black_holes,
            stray: None,
            carried,
            activity: Activity::at(now),
        };
        let entry = self.known.entry(id).or_insert(known);
        *entry = KnownPath { local, remote, state, backup, named, ..*entry };
    }

    pub(super) fn note_black_holes(
        &mut self,
        id: PathId,
        stats: &PathStats,
        log: &mut PathLog,
        now: Timestamp,
    ) {
        let Some(known) = self.known.get_mut(&id) else { return };
        if stats.black_holes_detected > known.black_holes {
            known.black_holes = stats.black_holes_detected;
            log.record(now, Some((id, known.local.ip(), known.remote)), None, PathEventKind::MtuBlackHole);
        }
    }

    /// The sums of paths that were closed long ago, then the last closed paths and those there are.
    pub(crate) fn figures(
        &mut self,
        inner: &mut Connection,
        board: &Board,
        log: &mut PathLog,
        (now, instant): (Timestamp, Instant),
    ) -> Vec<PathFigures> {
        for id in inner.paths() {
            let state = self.known.get(&id).map_or(PathState::Opening, |path| path.state);
            self.note(id, state, inner, now);
            if let Some(stats) = inner.path_stats(id) {
                self.note_black_holes(id, &stats, log, now);
            }
        }
        self.note_strays(inner);
        for (id, path) in &mut self.known {
            path.activity.observe(&self.meter.of(*id), now);
        }
        let paths = self.known.iter().map(|(id, path)| {
            let stats = inner.path_stats(*id).or(path.last).unwrap_or_default();
            (*id, *path, stats)
        });
        let mut paths: Vec<(PathId, KnownPath, PathStats)> = paths.collect();
        stray::attribute(&mut paths);
        let context = FigureContext { board, is_multipath: inner.is_multipath_negotiated(), instant, now };
        let figures = paths.iter().map(|(id, path, stats)| {
            figures((*id, path), (stats, &self.meter.of(*id)), &path.activity, &context)
        });
        self.closed.sums().iter().cloned().chain(figures).collect()
    }
}
