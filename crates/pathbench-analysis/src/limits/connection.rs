//! The limits of an MPTCP connection at the data level: its subflows share one window and one send buffer (RFC 8684,
//! sections 3.3.5 and 3.3.6). A subflow that has nothing to send waits for them.

use super::buffer;
use super::delivery::Arrivals;
use super::input::{LimitInput, record};
use super::subflow::{AT_LIMIT, Subflow, is_ample};
use pathbench_record::document::{LimitKind, LimitRecord};
use pathbench_record::sample::PathFigures;
use pathbench_record::statistics::median;

/// Part of the outstanding data that waits out of order, from which it blocks the others.
const BLOCKING: f64 = 0.3;

/// The figures of the connection at the sender.
struct Outstanding<'a> {
    /// The subflow that had nothing to send most of the time, and the fraction of that time.
    starved: &'a Subflow<'a>,
    share: f64,
    /// Bytes that the application wrote and the peer has not acknowledged.
    unacked: f64,
    window: f64,
    /// Of the slowest path.
    rtt_ms: f64,
    longest_rtt_ms: f64,
    /// Of all paths together.
    reached_bps: f64,
}

impl<'a> Outstanding<'a> {
    fn new(busy: &[&'a Subflow<'a>], sent: &[Subflow<'_>]) -> Option<Self> {
        let starved = busy.iter().max_by(|a, b| a.starved().total_cmp(&b.starved()))?;
        let median_of = |figure: fn(&PathFigures) -> f64| {
            busy.iter().map(|one| one.median_of(figure)).fold(0.0, f64::max)
        };
        Some(Self {
            starved,
            share: starved.starved(),
            unacked: median_of(|figures| figures.connection_unacked_bytes.unwrap_or_default() as f64),
            window: median_of(|figures| f64::from(figures.send_window_bytes.unwrap_or_default())),
            rtt_ms: sent.iter().map(|one| one.median_of(|figures| figures.srtt_ms)).fold(0.0, f64::max),
            longest_rtt_ms: sent.iter().map(Subflow::longest_rtt_ms).fold(0.0, f64::max),
            reached_bps: busy.iter().map(|one| one.reached_bps()).sum(),
        })
    }

    fn product(&self) -> u64 {
        buffer::product(self.reached_bps, self.longest_rtt_ms)
    }

    /// Whether so many bytes hold the data of all paths.
    fn is_ample(&self, bytes: f64) -> bool {
        is_ample(bytes, self.reached_bps, self.rtt_ms)
    }

    fn words(&self) -> String {
        format!(
            "{} had nothing to send {:.0} % of the time, with {:.0} kB of the connection unacknowledged or unsent",
            self.starved.path,
            self.share * 100.0,
            self.unacked / 1e3
        )
    }
}

pub(super) fn limit(
    input: &LimitInput<'_>,
    busy: &[&Subflow<'_>],
    sent: &[Subflow<'_>],
    received: &[Subflow<'_>],
) -> Option<LimitRecord> {
    // With a rate, the subflows wait for the application.
    if input.rate_bps.is_some() || input.server_rate_bps.is_some() {
        return None;
    }
    let outstanding = Outstanding::new(busy, sent)?;
    receive_window(input, &outstanding)
        .or_else(|| send_buffer(input, &outstanding, sent))
        .or_else(|| head_of_line(input, &outstanding, sent, received))
}

fn receive_window(input: &LimitInput<'_>, outstanding: &Outstanding<'_>) -> Option<LimitRecord> {
    let buffer = buffer::receive(input)?;
    let Outstanding { window, rtt_ms, .. } = *outstanding;
    let is_full = outstanding.unacked >= window * 0.9;
    if !is_full || window < AT_LIMIT * buffer.largest as f64 || outstanding.is_ample(window) {
        return None;
    }
    let because = format!(
        "{}: all subflows share a receive window of {:.0} kB, at an RTT of {rtt_ms:.0} ms {:.3} Mbit/s; \
         {}",
        outstanding.words(),
        window / 1e3,
        window * 8.0 / rtt_ms.max(0.001) / 1e3,
        buffer.words()
    );
    let found = record(input, LimitKind::ReceiveWindow, outstanding.share, because);
    Some(LimitRecord { remedy: buffer.remedy(outstanding.product()), ..found })
}

fn send_buffer(
    input: &LimitInput<'_>,
    outstanding: &Outstanding<'_>,
    sent: &[Subflow<'_>],
) -> Option<LimitRecord> {
    let buffer = buffer::send(input)?;
    let unacked = outstanding.unacked;
    // The kernel's count of full send buffers does not decide it for a subflow: the largest buffer must be too small.
    if !sent.iter().any(Subflow::is_long) || outstanding.is_ample(buffer.largest as f64) {
        return None;
    }
    if unacked < AT_LIMIT * buffer.largest as f64 || outstanding.is_ample(unacked) {
        return None;
    }
    let because =
        format!("{}: all subflows share the send buffer; for each, {}", outstanding.words(), buffer.words());
    let found = record(input, LimitKind::SendBuffer, outstanding.share, because);
    Some(LimitRecord { remedy: buffer.remedy(outstanding.product()), ..found })
}

/// Time in which a subflow had nothing to send and the receiver kept a large part of the outstanding data out of order.
fn head_of_line(
    input: &LimitInput<'_>,
    outstanding: &Outstanding<'_>,
    sent: &[Subflow<'_>],
    received: &[Subflow<'_>],
) -> Option<LimitRecord> {
    let arrivals = Arrivals::new(input, received)?;
    let starved = outstanding.starved;
    let waits: Vec<(f64, f64)> = starved
        .starved_samples()
        .filter_map(|sample| {
            let unacked = sample.figures.connection_unacked_bytes? as f64;
            Some((arrivals.waiting_before(sample.t_ms, outstanding.rtt_ms)?, unacked))
        })
        .collect();
    let blocking = waits.iter().filter(|(waiting, unacked)| *waiting > 0.0 && *waiting >= BLOCKING * unacked);
    let part = blocking.count() as f64 / waits.len().max(1) as f64;
    let waiting: Vec<f64> = waits.iter().map(|(waiting, _)| *waiting).collect();
    let because = format!(
        "{}; meanwhile {:.0} kB waited out of order at the receiver for data of another path",
        outstanding.words(),
        median(&waiting).unwrap_or_default() / 1e3
    );
    let rtt_ms = |one: &Subflow<'_>| one.median_of(|figures| figures.srtt_ms);
    let others = sent.iter().filter(|one| one.path != starved.path);
    let slow = others.max_by(|a, b| rtt_ms(a).total_cmp(&rtt_ms(b)));
    let remedy = slow.map(|slow| format!("make {} a backup path", slow.path));
    let found = record(input, LimitKind::HeadOfLine, outstanding.share * part, because);
    Some(LimitRecord { remedy, ..found })
}
