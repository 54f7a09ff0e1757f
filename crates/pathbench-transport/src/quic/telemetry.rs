//! The figures of a QUIC connection's paths.

use super::configuration::headers_bytes;
use super::connection::QuicConnection;
use super::path_number::path_number;
use super::paths::KnownPath;
use super::scheduler::{Board, Observation};
use super::stream_meter::StreamBytes;
use crate::telemetry::ConnectionSnapshot;
use noq_proto::{PathId, PathStats};
use pathbench_record::connection::Negotiation;
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reads the figures of a connection's paths. The first stream of a connection reports them, the others none, so
/// that sums over streams count everything once.
#[derive(Debug)]
pub(crate) struct QuicTelemetry {
    connection: Arc<QuicConnection>,
    transport: Transport,
    reports_paths: bool,
    activity: BTreeMap<PathId, Activity>,
}

/// When the stream data of a path was last seen to grow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Activity {
    sent_bytes: u64,
    sent_at: Timestamp,
    received_bytes: u64,
    received_at: Timestamp,
}

impl QuicTelemetry {
    pub(crate) fn new(connection: Arc<QuicConnection>, transport: Transport, reports_paths: bool) -> Self {
        Self { connection, transport, reports_paths, activity: BTreeMap::new() }
    }

    /// The connection now: its paths, the last closed ones, and the sums of those before.
    pub(crate) fn snapshot(&mut self) -> ConnectionSnapshot {
        let (now, instant) = (self.connection.endpoint.now(), self.connection.endpoint.instant());
        let mut core = self.connection.lock();
        let multipath = match self.transport {
            Transport::Mpquic if core.is_multipath() => Negotiation::Negotiated,
            Transport::Mpquic => Negotiation::NotNegotiated,
            _ => Negotiation::NotAsked,
        };
        let mut subflows = Vec::new();
        if self.reports_paths {
            let paths = core.all_paths();
            let is_multipath = core.is_multipath();
            let context = FigureContext { board: &core.board, is_multipath, instant, now };
            self.activity.retain(|id, _| paths.iter().any(|(path, ..)| path == id));
            subflows.extend_from_slice(core.paths.closed_sums());
            for (path, known, stats) in paths {
                let activity = self.activity.entry(path).or_insert(Activity::at(now));
                let carried = core.paths.stream_bytes(path);
                activity.observe(&carried, now);
                subflows.push(figures((path, &known), (&stats, &carried), activity, &context));
            }
        }
        ConnectionSnapshot { subflows, mptcp: None, multipath }
    }
}

impl Activity {
    /// That of a path that is seen for the first time.
    pub(super) const fn at(now: Timestamp) -> Self {
        Self { sent_bytes: 0, sent_at: now, received_bytes: 0, received_at: now }
    }

    fn observe(&mut self, carried: &StreamBytes, now: Timestamp) {
        if carried.sent != self.sent_bytes {
            (self.sent_bytes, self.sent_at) = (carried.sent, now);
        }
        if carried.received != self.received_bytes {
            (self.received_bytes, self.received_at) = (carried.received, now);
        }
    }
}

/// What the figures of a path rest on beside its own state.
pub(super) struct FigureContext<'a> {
    pub(super) board: &'a Board,
    pub(super) is_multipath: bool,
    pub(super) instant: Instant,
    pub(super) now: Timestamp,
}

/// The figures of one path.
pub(super) fn figures(
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
