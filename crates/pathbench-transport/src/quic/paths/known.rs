//! What is known of a connection's paths, of those that are gone, too.

use super::stray::{self, Carried};
use super::{KnownPath, Paths, Surroundings};
use crate::closed_paths::KEPT_CLOSED_PATHS;
use crate::mptcp_info::canonical;
use crate::quic::path_event::PathLog;
use crate::quic::path_number::path_number;
use crate::quic::socket::local_of;
use crate::quic::stream_meter::StreamBytes;
use crate::quic::telemetry::{Activity, FigureContext, figures};
use noq_proto::{Connection, PathId, PathStats, PathStatus};
use pathbench_record::connection::PathEventKind;
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::time::Timestamp;

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
pub(crate) const PATHS_BYTES: u64 =
    MOST_PATHS_KEPT as u64 * PATH_BYTES + MOST_PATH_IDS as u64 * PATH_ID_BYTES;
pub(crate) const FIRST_PATHS_BYTES: u64 =
    FIRST_PATHS_KEPT as u64 * PATH_BYTES + FIRST_PATH_IDS as u64 * PATH_ID_BYTES;

impl Paths {
    /// Whether the peer's status of a path is another one than before. The library hands on that of any path id that the
    /// peer names.
    pub(super) fn changes_status(&mut self, id: PathId, status: PathStatus, inner: &Connection) -> bool {
        inner.path_status(id).is_ok() && self.kept_off.change(id, status)
    }

    /// Why the connection must be closed, when the peer has opened too many paths.
    pub(crate) fn excess(&self) -> Option<&'static str> {
        self.excess
    }

    pub(super) fn check_number(&mut self, id: PathId, around: &Surroundings<'_>) {
        let (ids, kept) = if around.is_trusted {
            (MOST_PATH_IDS, MOST_PATHS_KEPT)
        } else {
            (FIRST_PATH_IDS, FIRST_PATHS_KEPT)
        };
        if path_number(id) >= ids {
            self.excess = Some("the connection has used all its path ids");
        } else if around.inner.paths().len() > kept {
            self.excess = Some("the peer opens and abandons paths too fast");
        }
    }

    /// Sums up the closed paths that are too many to be kept one by one, the earliest first.
    pub(super) fn sum_up(&mut self, around: &Surroundings<'_>) {
        let is_gone = |path: &KnownPath| path.last.is_some();
        while self.known.values().filter(|path| is_gone(path)).count() > KEPT_CLOSED_PATHS {
            let earliest = self.known.iter().find(|(_, path)| is_gone(path)).map(|(id, _)| *id);
            let Some((id, path)) = earliest.and_then(|id| Some((id, self.known.remove(&id)?))) else {
                return;
            };
            let stats = stray::settle(&mut self.known, &path);
            let context = FigureContext {
                board: around.board,
                is_multipath: around.inner.is_multipath_negotiated(),
                instant: around.instant,
                now: around.now,
            };
            let carried = self.meter.forget(id);
            self.closed.add(figures((id, &path), (&stats, &carried), &Activity::at(around.now), &context));
        }
    }

    /// The sums of closed paths that are not among [`Paths::all`] any longer.
    pub(crate) fn closed_sums(&self) -> &[PathFigures] {
        self.closed.sums()
    }

    /// The stream data on a path.
    pub(crate) fn stream_bytes(&self, path: PathId) -> StreamBytes {
        self.meter.of(path)
    }

    /// Remembers a path, its ends as the library knows them now.
    pub(super) fn note(&mut self, id: PathId, state: PathState, inner: &Connection) {
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
        let (local, remote) = (local_of(&way, socket.local_addr()), canonical(way.remote()));
        let named = state == PathState::Open && way.local_ip().is_some() && inner.is_multipath_negotiated();
        let (black_holes, carried) = (0, Carried::default());
        let known =
            KnownPath { local, remote, state, backup, named, last: None, black_holes, stray: None, carried };
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

    /// The paths with their figures, and the last closed ones with the last they had.
    pub(crate) fn all(
        &mut self,
        inner: &mut Connection,
        log: &mut PathLog,
        now: Timestamp,
    ) -> Vec<(PathId, KnownPath, PathStats)> {
        for id in inner.paths() {
            let state = self.known.get(&id).map_or(PathState::Opening, |path| path.state);
            self.note(id, state, inner);
            if let Some(stats) = inner.path_stats(id) {
                self.note_black_holes(id, &stats, log, now);
            }
        }
        self.note_strays(inner);
        let figures = self.known.iter().map(|(id, path)| {
            let stats = inner.path_stats(*id).or(path.last).unwrap_or_default();
            (*id, *path, stats)
        });
        let mut figures: Vec<(PathId, KnownPath, PathStats)> = figures.collect();
        stray::attribute(&mut figures);
        figures
    }
}
