//! The figures of a connection's paths, and the bounds on how many paths it has.

use super::detour::{attribute, settle};
use super::manager::{PathContext, Paths};
use super::state::{Activity, PathState};
use crate::closed_paths::KEPT_CLOSED_PATHS;
use crate::library::scheduler::Board;
use crate::path_event::path_number;
use noq_proto::{Connection, PathId, PathStats, PathStatus};
use pathbench_record::network::AddressFamily;
use pathbench_record::sample::{PathFigures, PathState as Stage};
use pathbench_record::time::Timestamp;
use std::time::{Duration, Instant};

/// Paths of a connection that the library may keep at a time, abandoned paths included. It keeps those for three PTOs,
/// which the peer can prolong by late acknowledgements. The peer may open a new path for each that it abandons.
const MOST_PATHS_KEPT: usize = 64;
/// Path ids that a connection may use in all: the library keeps some 300 bytes for each until the connection ends.
const MOST_PATH_IDS: u32 = 8192;
/// Both limits for a connection on which the server has not admitted a test yet.
const FIRST_PATHS_KEPT: usize = 16;
const FIRST_PATH_IDS: u32 = 256;

/// Memory that the library and this module keep for a path, and for a used path id.
const PATH_BYTES: u64 = 16 << 10;
const PATH_ID_BYTES: u64 = 512;

/// Most memory for the paths of a connection, with a test and before a test is admitted.
pub const PATHS_BYTES: u64 = MOST_PATHS_KEPT as u64 * PATH_BYTES + MOST_PATH_IDS as u64 * PATH_ID_BYTES;
pub const FIRST_PATHS_BYTES: u64 =
    FIRST_PATHS_KEPT as u64 * PATH_BYTES + FIRST_PATH_IDS as u64 * PATH_ID_BYTES;

impl Paths {
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

    /// Sums up closed paths beyond [`KEPT_CLOSED_PATHS`], the earliest first.
    pub(super) fn sum_up(&mut self, context: &PathContext<'_>) {
        let is_gone = |path: &PathState| path.last.is_some();
        while self.known.values().filter(|path| is_gone(path)).count() > KEPT_CLOSED_PATHS {
            let earliest = self.known.iter().find(|(_, path)| is_gone(path)).map(|(id, _)| *id);
            let Some((id, mut path)) = earliest.and_then(|id| Some((id, self.known.remove(&id)?))) else {
                return;
            };
            let stats = settle(&mut self.known, &path);
            path.activity = Activity::new(context.now);
            let (board, at) = (context.board, (context.now, context.instant));
            self.closed.add(self.figures_of((id, &path, stats), context.inner, board, at));
            self.meter.forget(id);
        }
    }

    /// The sums of the earlier closed paths, then the last closed paths and the present ones. `inner` is mutable
    /// because the library computes some figures on access.
    pub(crate) fn figures(
        &self,
        inner: &mut Connection,
        board: &Board,
        at: (Timestamp, Instant),
    ) -> Vec<PathFigures> {
        let stats = |(id, path): (&PathId, &'_ PathState)| {
            inner.path_stats(*id).or(path.last.as_deref().copied()).unwrap_or_default()
        };
        let stats: Vec<PathStats> = self.known.iter().map(stats).collect();
        let paths = self.known.iter().zip(stats).map(|((id, path), stats)| (*id, path, stats));
        let mut paths: Vec<(PathId, &PathState, PathStats)> = paths.collect();
        attribute(&mut paths);
        let figures = paths.into_iter().map(|path| self.figures_of(path, inner, board, at));
        self.closed.sums().iter().cloned().chain(figures).collect()
    }

    fn figures_of(
        &self,
        (id, path, stats): (PathId, &PathState, PathStats),
        inner: &Connection,
        board: &Board,
        (now, instant): (Timestamp, Instant),
    ) -> PathFigures {
        let carried = self.meter.stream_bytes(id);
        let [since_last_sent_ms, since_last_received_ms] = path.activity.update(&carried, now).since_ms(now);
        let seen = board.observation_at(id, instant).unwrap_or_default();
        let backup = inner.path_status(id) == Ok(PathStatus::Backup);
        PathFigures {
            subflow: path_number(id).saturating_add(1),
            path_id: Some(path_number(id).into()),
            state: path.stage,
            backup: inner.is_multipath_negotiated().then_some(backup),
            bytes_sent: carried.sent,
            control_bytes_sent: Some(stats.udp_tx.bytes.saturating_sub(carried.sent_in_packets)),
            control_bytes_received: Some(stats.udp_rx.bytes.saturating_sub(carried.received_in_packets)),
            packets_sent: Some(stats.udp_tx.datagrams),
            packets_received: Some(stats.udp_rx.datagrams),
            bytes_acked: seen.acked_bytes,
            bytes_received: carried.received,
            retransmitted_bytes: carried.retransmitted,
            retransmitted_segments: stats.lost_packets.saturating_sub(stats.lost_plpmtud_probes),
            lost_bytes: Some(stats.lost_bytes),
            mtu_probes: Some(stats.sent_plpmtud_probes),
            black_holes: Some(stats.black_holes_detected),
            srtt_ms: ms(seen.srtt.unwrap_or(stats.rtt)),
            rttvar_ms: ms(seen.rttvar),
            min_rtt_ms: seen.min_rtt.map(ms),
            rto_ms: ms(seen.timeout_in_force().unwrap_or_default()),
            backoff: seen.backoff,
            // The real controller's window; the library's own figure is 0 while the scheduler holds a path back.
            cwnd_bytes: if seen.cwnd_bytes > 0 { seen.cwnd_bytes } else { stats.cwnd },
            in_flight_bytes: if path.stage == Stage::Closed { 0 } else { seen.in_flight_bytes },
            delivery_rate_bps: stats.bandwidth_estimate,
            mss_bytes: u32::from(stats.current_mtu),
            pmtu_bytes: AddressFamily::from_address(path.remote.ip())
                .udp_packet_bytes(stats.current_mtu.into()),
            since_last_sent_ms,
            since_last_received_ms,
            ..PathFigures::new(path.local, path.remote)
        }
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
