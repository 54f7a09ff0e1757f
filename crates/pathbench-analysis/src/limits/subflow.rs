//! The subflows of one end over the measured time, and the limits of a TCP connection.

use super::buffer;
use super::input::{LimitInput, record};
use pathbench_record::document::{LimitKind, LimitRecord};
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use pathbench_record::statistics::{median, quantile};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Part of a window that counts as full: the last segments do not fill it.
const FULL: f64 = 0.85;
/// Part of a congestion window that counts as full; that of QUIC moves while packets are acknowledged.
const FULL_CONGESTION: f64 = 0.8;
/// Fewest samples that show a share of time.
const FEWEST: usize = 5;
/// Part of a buffer's limit in payload from which it is at the limit: the rest is the kernel's overhead.
pub(super) const AT_LIMIT: f64 = 0.3;
/// Part of a send buffer that holds payload at most; small buffers hold less.
const PAYLOAD: f64 = 0.75;
/// A window of so many bandwidth-delay products holds the data of any path that delivers.
const AMPLE: f64 = 2.0;

/// Shortest round trip of a path whose rate a send buffer can limit: on a shorter one the processor decides, and the
/// figures of a full buffer look the same.
const LEAST_RTT_MS: f64 = 1.0;
/// Smoothed RTT ÷ shortest RTT from which packets wait in a queue, and the least difference in milliseconds.
const QUEUED: (f64, f64) = (1.2, 1.0);
/// Fraction of the time of a full send buffer in the kernel's count that shows it as the limit.
const COUNTED: f64 = 0.5;

/// One subflow (or QUIC path) of one stream at one end.
pub(super) struct Subflow<'a> {
    pub(super) path: &'a str,
    /// In order of time, within the measured time.
    pub(super) samples: Vec<&'a Sample>,
    pub(super) length_ms: f64,
    pub(super) bytes_sent: f64,
    pub(super) mss_bytes: f64,
}

/// The subflows with enough samples.
pub(super) fn subflows<'a>(input: &LimitInput<'a>, side: Side) -> Vec<Subflow<'a>> {
    let (from, until) = (input.window.from.ms_from(input.origin), input.window.until.ms_from(input.origin));
    let mut series: BTreeMap<(u32, u32, &str, SocketAddr), Vec<&Sample>> = BTreeMap::new();
    let within = |sample: &&Sample| {
        let figures = &sample.figures;
        let is_known = figures.closed_paths.is_none() && figures.state == PathState::Open;
        sample.side == side && is_known && (from..=until).contains(&sample.t_ms)
    };
    for sample in input.samples.iter().filter(within) {
        let figures = &sample.figures;
        let key = (sample.stream, figures.subflow, sample.path.as_str(), figures.local);
        series.entry(key).or_default().push(sample);
    }
    series.into_values().filter_map(Subflow::new).collect()
}

impl<'a> Subflow<'a> {
    fn new(samples: Vec<&'a Sample>) -> Option<Self> {
        let (first, last) = (samples.first()?, samples.last()?);
        let length_ms = last.t_ms - first.t_ms;
        if samples.len() < FEWEST || length_ms <= 0.0 {
            return None;
        }
        let sent = last.figures.bytes_sent.saturating_sub(first.figures.bytes_sent);
        Some(Self {
            path: &first.path,
            length_ms,
            bytes_sent: sent as f64,
            mss_bytes: f64::from(last.figures.mss_bytes),
            samples,
        })
    }

    /// Fraction of the time by which a counter of microseconds grew.
    pub(super) fn grown(&self, counter: fn(&PathFigures) -> Option<u64>) -> Option<f64> {
        let of = |sample: Option<&&Sample>| counter(&sample?.figures);
        let grown = of(self.samples.last())?.checked_sub(of(self.samples.first())?)?;
        Some((grown as f64 / 1e3 / self.length_ms).min(1.0))
    }

    pub(super) fn share_of(&self, holds: impl Fn(&PathFigures) -> bool) -> f64 {
        let count = self.samples.iter().filter(|sample| holds(&sample.figures)).count();
        count as f64 / self.samples.len() as f64
    }

    pub(super) fn median_of(&self, figure: impl Fn(&PathFigures) -> f64) -> f64 {
        let values: Vec<f64> = self.samples.iter().map(|sample| figure(&sample.figures)).collect();
        median(&values).unwrap_or_default()
    }

    /// Time in which the peer's window held the data of a TCP connection back: according to the kernel, or in samples
    /// whose data in flight fill the window. The kernel counts no pause between two paced packets.
    fn by_window(&self) -> f64 {
        let counted = self.grown(|figures| figures.receive_window_limited_us).unwrap_or_default();
        counted.max(self.share_of(is_window_full))
    }

    /// Time without data to send: neither the congestion window nor the peer's window is full. The kernel's time of a
    /// full send buffer counts for tcp only: of a subflow of mptcp it runs while data waits, too.
    pub(super) fn starved(&self) -> f64 {
        let idle = self.grown(|figures| figures.busy_us).map_or(0.0, |busy| 1.0 - busy);
        let is_alone = self.samples.iter().all(|sample| sample.figures.connection_unacked_bytes.is_none());
        let buffer = self.grown(|figures| figures.send_buffer_limited_us).filter(|_| is_alone);
        (idle + buffer.unwrap_or_default()).max(self.share_of(is_starved)).min(1.0)
    }

    pub(super) fn starved_samples(&self) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().copied().filter(|sample| is_starved(&sample.figures))
    }

    /// Time in which the congestion window and pacing decided.
    pub(super) fn by_links(&self) -> f64 {
        if self.samples.iter().any(|sample| sample.figures.path_id.is_some()) {
            return self.share_of(fills_congestion_window);
        }
        (1.0 - self.by_window().max(self.starved()))
            .max(self.share_of(|figures| fills_congestion_window(figures) && !is_window_full(figures)))
    }

    /// The shortest round trip, without the time in queues.
    fn least_rtt_ms(&self) -> f64 {
        self.median_of(|figures| figures.min_rtt_ms.unwrap_or(figures.srtt_ms))
    }

    /// A quantile of the smoothed round trip.
    fn srtt_ms(&self, p: f64) -> Option<f64> {
        let values: Vec<f64> = self.samples.iter().map(|sample| sample.figures.srtt_ms).collect();
        quantile(&values, p)
    }

    /// The round trip with the fullest queue, without the few longest.
    pub(super) fn longest_rtt_ms(&self) -> f64 {
        self.srtt_ms(0.9).unwrap_or_default()
    }

    /// Whether the path is long enough for a send buffer to be its limit.
    pub(super) fn is_long(&self) -> bool {
        self.least_rtt_ms() >= LEAST_RTT_MS
    }

    /// Whether packets wait in a queue of the path at least three quarters of the time: the links carry no more, whatever
    /// else is full.
    pub(super) fn has_standing_queue(&self) -> bool {
        let least = self.least_rtt_ms();
        self.srtt_ms(0.25).is_some_and(|srtt_ms| srtt_ms >= (QUEUED.0 * least).max(least + QUEUED.1))
    }

    fn is_ample(&self, bytes: f64) -> bool {
        is_ample(bytes, self.reached_bps(), self.median_of(|figures| figures.srtt_ms))
    }

    /// A rate that the path has reached: the 90th percentile of the kernel's estimates, which few of them exceed by
    /// chance.
    pub(super) fn reached_bps(&self) -> f64 {
        let rates = self.samples.iter().filter_map(|sample| sample.figures.delivery_rate_bps);
        let rates: Vec<f64> = rates.map(|bps| bps as f64).collect();
        quantile(&rates, 0.9).unwrap_or(self.bytes_sent * 8e3 / self.length_ms)
    }
}

/// Whether so many bytes hold more than the data in flight of a rate and RTT.
pub(super) fn is_ample(bytes: f64, rate_bps: f64, rtt_ms: f64) -> bool {
    bytes >= AMPLE * rate_bps / 8e3 * rtt_ms
}

fn fills_congestion_window(figures: &PathFigures) -> bool {
    figures.in_flight_bytes as f64 >= FULL_CONGESTION * figures.cwnd_bytes as f64
}

fn is_window_full(figures: &PathFigures) -> bool {
    let outstanding = figures.in_flight_bytes as f64;
    figures.send_window_bytes.is_some_and(|window| window > 0 && outstanding >= FULL * f64::from(window))
}

fn is_starved(figures: &PathFigures) -> bool {
    let next_segments = 2 * u64::from(figures.mss_bytes);
    figures.not_sent_bytes < next_segments && !fills_congestion_window(figures) && !is_window_full(figures)
}

/// The windows and buffers of a TCP connection, by path.
pub(super) fn limits(input: &LimitInput<'_>, busy: &[&Subflow<'_>]) -> Vec<LimitRecord> {
    let without_queue = busy.iter().filter(|one| !one.has_standing_queue());
    without_queue.flat_map(|one| [receive_window(input, one), send_buffer(input, one)]).flatten().collect()
}

fn receive_window(input: &LimitInput<'_>, one: &Subflow<'_>) -> Option<LimitRecord> {
    let window = one.median_of(|figures| f64::from(figures.send_window_bytes.unwrap_or_default()));
    let buffer = buffer::receive(input)?;
    // A smaller window is that of a receiver that does not read, or of a young connection.
    let rtt_ms = one.median_of(|figures| figures.srtt_ms);
    if window < AT_LIMIT * buffer.largest as f64 || one.is_ample(window) {
        return None;
    }
    let share = one.by_window();
    let because = format!(
        "the receive window of {:.0} kB was full {:.0} % of the time: at an RTT of {rtt_ms:.0} ms it is {:.3} Mbit/s; \
         {}",
        window / 1e3,
        share * 100.0,
        window * 8.0 / rtt_ms.max(0.001) / 1e3,
        buffer.words()
    );
    let found = record(input, LimitKind::ReceiveWindow, share, because);
    let remedy = buffer.remedy(buffer::product(one.reached_bps(), one.longest_rtt_ms()));
    Some(LimitRecord { path: Some(one.path.to_owned()), remedy, ..found })
}

fn send_buffer(input: &LimitInput<'_>, one: &Subflow<'_>) -> Option<LimitRecord> {
    let held = one.median_of(|figures| (figures.in_flight_bytes + figures.not_sent_bytes) as f64);
    let buffer = buffer::send(input)?;
    let is_at_limit = held >= AT_LIMIT * buffer.largest as f64;
    if input.rate_bps.is_some() || !is_at_limit || one.is_ample(held) {
        return None;
    }
    // The kernel counts it, or the largest buffer cannot hold the data of the path: else the figures do not decide it.
    let counted = one.grown(|figures| figures.send_buffer_limited_us).unwrap_or_default();
    if !one.is_long() || (counted < COUNTED && one.is_ample(PAYLOAD * buffer.largest as f64)) {
        return None;
    }
    let rtt_ms = one.median_of(|figures| figures.srtt_ms);
    let share = one.starved();
    let because = format!(
        "the send buffer was full of unacknowledged data {:.0} % of the time, {:.0} kB at an RTT of {rtt_ms:.0} ms; \
         {}",
        share * 100.0,
        held / 1e3,
        buffer.words()
    );
    let found = record(input, LimitKind::SendBuffer, share, because);
    let remedy = buffer.remedy(buffer::product(one.reached_bps(), one.longest_rtt_ms()));
    Some(LimitRecord { path: Some(one.path.to_owned()), remedy, ..found })
}

/// The normal limit: time in which the subflows' congestion windows held data back.
pub(super) fn congestion_windows(
    input: &LimitInput<'_>,
    busy: &[&Subflow<'_>],
) -> impl Iterator<Item = LimitRecord> {
    busy.iter().map(|one| {
        let share = one.by_links();
        let because = format!("the congestion window held data back {:.0} % of the time", share * 100.0);
        let found = record(input, LimitKind::CongestionWindow, share, because);
        LimitRecord { path: Some(one.path.to_owned()), ..found }
    })
}
