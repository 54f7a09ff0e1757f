//! The figures of a connection's paths.

use crate::configuration::headers_bytes;
use crate::path_event::path_number;
use crate::paths::KnownPath;
use crate::scheduler::{Board, Observation};
use crate::stream_meter::StreamBytes;
use noq_proto::{PathId, PathStats};
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::time::Timestamp;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Activity {
    sent_bytes: u64,
    sent_at: Timestamp,
    received_bytes: u64,
    received_at: Timestamp,
}

impl Activity {
    pub(crate) const fn at(now: Timestamp) -> Self {
        Self { sent_bytes: 0, sent_at: now, received_bytes: 0, received_at: now }
    }

    pub(crate) fn observe(&mut self, carried: &StreamBytes, now: Timestamp) {
        if carried.sent != self.sent_bytes {
            (self.sent_bytes, self.sent_at) = (carried.sent, now);
        }
        if carried.received != self.received_bytes {
            (self.received_bytes, self.received_at) = (carried.received, now);
        }
    }
}

pub(crate) struct FigureContext<'a> {
    pub(crate) board: &'a Board,
    pub(crate) is_multipath: bool,
    pub(crate) instant: Instant,
    pub(crate) now: Timestamp,
}

pub(crate) fn figures(
    (path, known): (PathId, &KnownPath),
    (stats, carried): (&PathStats, &StreamBytes),
    activity: &Activity,
    context: &FigureContext<'_>,
) -> PathFigures {
    let now = context.now;
    let seen = context.board.observation_at(path, context.instant).unwrap_or_default();
    PathFigures {
        subflow: path_number(path).saturating_add(1),
        path_id: Some(path_number(path).into()),
        state: known.state,
        backup: context.is_multipath.then_some(known.backup),
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
        cwnd_bytes: cwnd(&seen, stats),
        in_flight_bytes: if known.state == PathState::Closed { 0 } else { seen.in_flight_bytes },
        delivery_rate_bps: stats.bandwidth_estimate,
        mss_bytes: u32::from(stats.current_mtu),
        pmtu_bytes: u32::from(stats.current_mtu) + headers_bytes(known.remote.ip()),
        since_last_sent_ms: now.since(activity.sent_at).as_millis() as u64,
        since_last_received_ms: now.since(activity.received_at).as_millis() as u64,
        ..PathFigures::between(known.local, known.remote)
    }
}

/// The real controller's window; the library's own figure is 0 while the scheduler holds a path back.
fn cwnd(seen: &Observation, stats: &PathStats) -> u64 {
    if seen.cwnd_bytes > 0 { seen.cwnd_bytes } else { stats.cwnd }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
