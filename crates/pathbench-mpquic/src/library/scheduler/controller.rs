//! The wrapper of a path's real congestion controller.

use super::arbiter::Arbiter;
use super::board::Board;
use super::rtt_sample::{Answer, SentTimes};
use super::slot::{Acked, LEAST_MTU_BYTES, SmallPings};
use crate::library::stream_meter::StreamMeter;
use noq_proto::congestion::{
    Bbr3Config, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig,
};
use noq_proto::{Connection, RttEstimator};
use std::any::Any;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CongestionControl {
    /// RFC 9438.
    #[default]
    Cubic,
    /// RFC 9002 section 7.
    NewReno,
    /// draft-ietf-ccwg-bbr.
    Bbr3,
}

impl CongestionControl {
    /// All algorithms, in the order of listings.
    pub const ALL: [Self; 3] = [Self::Cubic, Self::NewReno, Self::Bbr3];

    /// `cubic`, `newreno` or `bbr3`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "newreno",
            Self::Bbr3 => "bbr3",
        }
    }

    /// The algorithm with this [`CongestionControl::name`].
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|control| control.name() == name)
    }

    fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::Cubic => Arc::new(CubicConfig::default()),
            Self::NewReno => Arc::new(NewRenoConfig::default()),
            Self::Bbr3 => Arc::new(Bbr3Config::default()),
        }
    }
}

/// Builds the wrapped controllers of *one* connection; for `TransportConfig::congestion_controller_factory`.
///
/// A server creates a configuration for each connection that it accepts: the paths of two connections on one board
/// would hold each other back.
pub(crate) struct SchedulerFactory {
    board: Board,
    meter: StreamMeter,
    inner: Arc<dyn ControllerFactory + Send + Sync>,
}

impl SchedulerFactory {
    pub(crate) fn new(board: Board, meter: StreamMeter, control: CongestionControl) -> Self {
        Self { board, meter, inner: control.factory() }
    }
}

impl ControllerFactory for SchedulerFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::clone(&self.inner).build(now, current_mtu);
        let id = self.board.state().add_slot(current_mtu, inner.window());
        Box::new(Scheduled {
            inner,
            handle: Arc::new(SlotHandle { board: self.board.clone(), id }),
            meter: self.meter.clone(),
            batch: Batch::default(),
            sent_times: SentTimes::default(),
            mtu: current_mtu,
            srtt: None,
        })
    }
}

/// A path's slot on the board, removed with the last clone of its controller.
#[derive(Debug)]
struct SlotHandle {
    board: Board,
    id: u64,
}

impl Drop for SlotHandle {
    fn drop(&mut self) {
        self.board.state().remove(self.id);
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Batch {
    bytes: u64,
    probe_bytes: u64,
    /// When the latest acknowledged packet larger than [`LEAST_MTU_BYTES`] was sent.
    large: Option<Instant>,
    probe: Option<u64>,
    largest: Option<(u64, Instant)>,
    known: Option<u64>,
}

impl Batch {
    fn add(&mut self, pn: u64, sent: Instant, bytes: u64) {
        self.bytes += bytes;
        if bytes > LEAST_MTU_BYTES.into() {
            self.large = self.large.max(Some(sent));
        }
        if self.probe == Some(pn) {
            self.probe_bytes += bytes;
        }
        if self.largest.is_none_or(|(largest, _)| pn > largest) {
            self.largest = Some((pn, sent));
        }
    }

    /// The batch ends; `largest` is the largest acknowledged packet, with the peer's delay.
    fn finish(&mut self, now: Instant, largest: Option<(u64, Duration)>, sent_times: &SentTimes) -> Acked {
        let newest = self.largest.filter(|(pn, _)| self.known.is_none_or(|known| *pn > known));
        let sample = newest.map(|(_, sent)| Answer { now, sent, largest }.sample(sent_times));
        self.known = self.known.max(self.largest.map(|(pn, _)| pn));
        let acked = Acked {
            bytes: self.bytes,
            probe_bytes: self.probe_bytes,
            large: self.large,
            rtt: sample.map(|(rtt, _)| rtt),
            ack_delay: sample.map_or(Duration::ZERO, |(_, delay)| delay),
        };
        (self.bytes, self.probe_bytes, self.large) = (0, 0, None);
        self.largest = None;
        acked
    }
}

/// A path's congestion controller. Through it the board can hold the path back.
#[derive(Debug)]
pub(super) struct Scheduled {
    inner: Box<dyn Controller>,
    handle: Arc<SlotHandle>,
    meter: StreamMeter,
    batch: Batch,
    sent_times: SentTimes,
    mtu: u16,
    srtt: Option<Duration>,
}

/// noq's pacer allows bursts of this long at the pacing rate (its `MAX_BURST_INTERVAL`).
const BURST_INTERVAL: Duration = Duration::from_millis(10);

/// noq does not pace windows as large as this one.
const UNPACED_WINDOW_BYTES: u64 = u32::MAX as u64 + 1;

/// The pacing rate (bytes/s) for a small window; `None` where noq's own rate is large enough.
///
/// noq sends 10 ms at the window's rate in a burst. On a path with an RTT of 40 ms that is three packets of the initial
/// window: a message of ten packets takes most of another round trip, and the scheduler considers the path full. RFC
/// 9002 section 7.7 only limits a burst to the initial window, as TCP does.
fn pacing_rate(window: u64, initial_window: u64, srtt: Duration) -> Option<u64> {
    let window_rate = 1.25 * window as f64 / srtt.as_secs_f64();
    let burst_rate = initial_window as f64 / BURST_INTERVAL.as_secs_f64();
    (window_rate < burst_rate).then_some(burst_rate as u64)
}

impl Scheduled {
    pub(super) fn slot(&self) -> u64 {
        self.handle.id
    }

    fn board(&self) -> MutexGuard<'_, Arbiter> {
        self.handle.board.state()
    }

    fn is_held_back(&self) -> bool {
        self.board().slot(self.handle.id).is_some_and(|slot| slot.held_back)
    }

    fn report_window(&self) {
        if let Some(slot) = self.board().slot(self.handle.id) {
            slot.seen.cwnd_bytes = self.inner.window();
        }
    }
}

impl Board {
    /// Assigns slots to their paths. Does nothing unless a slot was added since the last call.
    pub(crate) fn bind(&self, connection: &Connection) {
        if !self.state().unbound {
            return;
        }
        for path in connection.paths() {
            // The clone must be dropped without the lock: dropping the last clone locks the board to remove the slot.
            let Some(controller) = connection.congestion_state(path) else { continue };
            let Ok(scheduled) = controller.clone_box().into_any().downcast::<Scheduled>() else { continue };
            self.state().bind(scheduled.slot(), path);
        }
        self.state().unbound = false;
    }
}

impl Controller for Scheduled {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.inner.on_sent(now, bytes, largest_pn);
        self.sent_times.note(now, largest_pn, self.srtt.unwrap_or_default());
        self.board().on_transmission(self.handle.id, now);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        if bytes > self.mtu {
            self.batch.probe = Some(pn);
        }
        self.inner.on_packet_sent(now, bytes, pn);
        self.board().on_sent(self.handle.id, now, u64::from(bytes));
    }

    fn on_cwnd_limited(&mut self) {
        if !self.is_held_back() {
            self.inner.on_cwnd_limited();
        }
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let unused = app_limited || self.is_held_back();
        self.inner.on_ack(now, sent, bytes, pn, unused, rtt);
        self.srtt = Some(rtt.get());
        self.batch.add(pn, sent, bytes);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        let unused = app_limited || self.is_held_back();
        self.inner.on_end_acks(now, in_flight, unused, largest_packet_num_acked);
        let path = self.board().path_of(self.handle.id);
        let largest = path.zip(largest_packet_num_acked);
        let largest = largest.and_then(|(path, pn)| Some((pn, self.meter.ack_delay(path, pn)?)));
        let acked = self.batch.finish(now, largest, &self.sent_times);
        self.board().on_acked(self.handle.id, now, &acked, in_flight);
        self.report_window();
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        self.inner.on_congestion_event(
            now,
            sent,
            is_persistent_congestion,
            is_ecn,
            lost_bytes,
            largest_lost_pn,
        );
        self.report_window();
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.inner.on_packet_lost(lost_bytes, pn, now);
        if let Some(slot) = self.board().slot(self.handle.id) {
            slot.on_lost(lost_bytes.into());
        }
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
        self.report_window();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
        self.mtu = new_mtu;
        if let Some(slot) = self.board().slot(self.handle.id) {
            slot.seen.mtu_bytes = new_mtu;
            slot.small_pings = SmallPings::default();
        }
        self.report_window();
    }

    fn on_ack_frequency_update(&mut self, ack_eliciting_threshold: u64, requested_max_ack_delay: Duration) {
        self.inner.on_ack_frequency_update(ack_eliciting_threshold, requested_max_ack_delay);
    }

    fn window(&self) -> u64 {
        self.board().window(self.handle.id, self.inner.window())
    }

    /// The real controller's metrics: the pacer must not read a window of 0.
    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.inner.metrics();
        if self.handle.board.sends_alone(self.handle.id) {
            (metrics.congestion_window, metrics.pacing_rate) = (UNPACED_WINDOW_BYTES, None);
        } else if let (None, Some(srtt)) = (metrics.pacing_rate, self.srtt) {
            let initial_window = self.inner.initial_window().max(2 * u64::from(self.mtu));
            metrics.pacing_rate = pacing_rate(metrics.congestion_window, initial_window, srtt);
        }
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            handle: Arc::clone(&self.handle),
            meter: self.meter.clone(),
            batch: self.batch,
            sent_times: self.sent_times.clone(),
            mtu: self.mtu,
            srtt: self.srtt,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_window_leaves_at_once_and_larger_ones_are_paced_by_the_window() {
        let rtt = Duration::from_millis(40);
        // 12 kB in 10 ms for any smaller window: a token bucket of ten packets.
        assert_eq!(pacing_rate(12_000, 12_000, rtt), Some(1_200_000));
        assert_eq!(pacing_rate(4_800, 12_000, Duration::from_millis(600)), Some(1_200_000));
        assert_eq!(pacing_rate(60_000, 12_000, rtt), None);
        assert_eq!(pacing_rate(12_000, 12_000, Duration::from_millis(10)), None);
    }
}
