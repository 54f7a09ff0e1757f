//! The figures of a QUIC connection's paths.

use super::configuration::headers_bytes;
use super::connection::QuicConnection;
use super::core::Core;
use super::path_number::path_number;
use super::paths::KnownPath;
use super::scheduler::Observation;
use crate::telemetry::{ConnectionSnapshot, Negotiation};
use noq_proto::{PathId, PathStats};
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

/// When the counters of a path were last seen to change.
#[derive(Debug, Clone, Copy)]
struct Activity {
    sent_bytes: u64,
    sent_at: Timestamp,
    received_bytes: u64,
    received_at: Timestamp,
}

impl QuicTelemetry {
    pub(crate) fn new(connection: Arc<QuicConnection>, transport: Transport, reports_paths: bool) -> Self {
        Self { connection, transport, reports_paths, activity: BTreeMap::new() }
    }

    /// The connection now, and every path there ever was.
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
            for (path, known, stats) in core.all_paths() {
                let activity = self.activity.entry(path).or_insert(Activity {
                    sent_bytes: 0,
                    sent_at: now,
                    received_bytes: 0,
                    received_at: now,
                });
                activity.observe(&stats, now);
                subflows.push(figures(&core, (path, &known), &stats, activity, (now, instant)));
            }
        }
        ConnectionSnapshot { subflows, mptcp: None, multipath }
    }
}

impl Activity {
    fn observe(&mut self, stats: &PathStats, now: Timestamp) {
        if stats.udp_tx.bytes != self.sent_bytes {
            (self.sent_bytes, self.sent_at) = (stats.udp_tx.bytes, now);
        }
        if stats.udp_rx.bytes != self.received_bytes {
            (self.received_bytes, self.received_at) = (stats.udp_rx.bytes, now);
        }
    }
}

fn figures(
    core: &Core,
    (path, known): (PathId, &KnownPath),
    stats: &PathStats,
    activity: &Activity,
    (now, instant): (Timestamp, Instant),
) -> PathFigures {
    let seen = core.board.observation_at(path, instant).unwrap_or_default();
    PathFigures {
        subflow: path_number(path).saturating_add(1),
        path_id: Some(path_number(path).into()),
        state: known.state,
        backup: core.is_multipath().then_some(known.backup),
        bytes_sent: stats.udp_tx.bytes,
        packets_sent: Some(stats.udp_tx.datagrams),
        packets_received: Some(stats.udp_rx.datagrams),
        stream_frames_sent: Some(stats.frame_tx.stream),
        stream_frames_received: Some(stats.frame_rx.stream),
        bytes_acked: seen.acked_bytes,
        bytes_received: stats.udp_rx.bytes,
        retransmitted_bytes: seen.lost_bytes,
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
