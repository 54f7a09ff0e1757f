//! The limits of an MPTCP connection at the data level: its subflows share one window and one send buffer (RFC 8684,
//! sections 3.3.5 and 3.3.6). A subflow that has nothing to send waits for them.

use super::delivery::Arrivals;
use super::subflow::{AT_LIMIT, Subflow};
use super::{LimitInput, record, remedy};
use pathbench_record::document::{LimitKind, LimitRecord};
use pathbench_record::sample::PathFigures;
use pathbench_record::statistics::median;

/// Part of the outstanding data that waits out of order, from which it blocks the others.
const BLOCKING: f64 = 0.3;
/// A window of so many bandwidth-delay products holds the data of any path that delivers.
const AMPLE: f64 = 2.0;

pub(super) fn limits(
    input: &LimitInput<'_>,
    busy: &[&Subflow<'_>],
    received: &[Subflow<'_>],
) -> Vec<LimitRecord> {
    limit(input, busy, received).into_iter().collect()
}

fn limit(input: &LimitInput<'_>, busy: &[&Subflow<'_>], received: &[Subflow<'_>]) -> Option<LimitRecord> {
    // With a rate, the subflows wait for the application.
    if input.rate_bps.is_some() || input.server_rate_bps.is_some() {
        return None;
    }
    let (share, path) = busy
        .iter()
        .map(|one| (one.starved(), one.path))
        .max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    let median_of = |figure: fn(&PathFigures) -> f64| {
        let largest = busy.iter().map(|one| one.median_of(figure)).max_by(f64::total_cmp);
        largest.unwrap_or_default()
    };
    let unacked = median_of(|figures| figures.connection_unacked_bytes.unwrap_or_default() as f64);
    let window = median_of(|figures| f64::from(figures.send_window_bytes.unwrap_or_default()));
    let rtt_ms = median_of(|figures| figures.srtt_ms);
    let reached: f64 = busy.iter().map(|one| one.reached_bps()).sum();
    let product = remedy::product(reached, rtt_ms);
    let waits = format!(
        "{path} had nothing to send {:.0} % of the time, with {:.0} kB of the connection unacknowledged",
        share * 100.0,
        unacked / 1e3
    );
    let waiting = Arrivals::new(input, received).and_then(|arrivals| median(&arrivals.waiting()));
    let waiting = waiting.unwrap_or_default();
    let blocked = format!("{waits}; {:.0} kB waited out of order at the receiver", waiting / 1e3);
    let head_of_line = record(input, LimitKind::HeadOfLine, share, blocked);
    if window > 0.0 && unacked >= window * 0.9 {
        let limits = input.receiver?.tcp_buffers?;
        if window >= AMPLE * reached / 8e3 * rtt_ms {
            return Some(head_of_line);
        }
        if window < AT_LIMIT * limits.receive[2] as f64 {
            return None;
        }
        let because = format!(
            "{waits}: all subflows share a receive window of {:.0} kB, at an RTT of {rtt_ms:.0} ms {:.3} Mbit/s; \
             net.ipv4.tcp_rmem limits the buffer to {:.0} kB",
            window / 1e3,
            window * 8.0 / rtt_ms.max(0.001) / 1e3,
            limits.receive[2] as f64 / 1e3
        );
        let found = record(input, LimitKind::ReceiveWindow, share, because);
        return Some(LimitRecord { remedy: remedy::receive(limits, product), ..found });
    }
    let limits = input.sender?.tcp_buffers?;
    if unacked >= AT_LIMIT * limits.send[2] as f64 {
        let because = format!(
            "{waits}: all subflows share the send buffer; net.ipv4.tcp_wmem limits it to {:.0} kB for each",
            limits.send[2] as f64 / 1e3
        );
        let found = record(input, LimitKind::SendBuffer, share, because);
        return Some(LimitRecord { remedy: remedy::send(limits, product), ..found });
    }
    (waiting >= BLOCKING * unacked && waiting > 0.0).then_some(head_of_line)
}
