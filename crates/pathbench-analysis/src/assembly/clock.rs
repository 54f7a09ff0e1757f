//! Converts times of the server to the client's clock.
//!
//! Hosts of a lab share a clock. On real hosts, `CLOCK_MONOTONIC` starts at a different moment on each host. Events
//! at both ends that follow each other causally bound the offset between the clocks.

use pathbench_record::delivery::DeliverySeries;
use pathbench_record::end::EndRecord;
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// Maximum relative drift of two free-running clocks, in ppm (a crystal is accurate to 50 ppm).
const DRIFT_PPM: i128 = 100;

/// Tolerated distance between the server's start of a test and the client's period of the test.
const TOLERANCE: Duration = Duration::from_secs(1);

/// Bounds of (server's clock − client's clock).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    pub lowest_ns: i128,
    pub highest_ns: i128,
    /// Time of the bounds on the client's clock.
    pub at: Timestamp,
}

impl ClockOffset {
    /// Bounds from causally ordered events in the records of both ends of one bulk-data test. `None` for other tests
    /// (their few messages give wide bounds) and where the records contradict each other.
    ///
    /// - The server begins the test after the client has opened the connection.
    /// - One end receives the first byte after the other end has written it to its socket.
    /// - An upload is complete at the client after the server has received the last byte.
    pub fn of_records(client: &EndRecord, server: &EndRecord) -> Option<Self> {
        if !client.parameters.sends_bulk_data() {
            return None;
        }
        let connected = client.started + client.handshake.unwrap_or_default();
        let earlier_here =
            [(Some(connected), Some(server.started)), (client.offered.first, server.deliveries.first)];
        let later_here = [
            (client.deliveries.first, server.offered.first),
            (Some(client.ended).filter(|_| client.completed), server.deliveries.last),
        ];
        let apart = |(ours, theirs): (Option<Timestamp>, Option<Timestamp>)| Some(difference(theirs?, ours?));
        let highest_ns = earlier_here.into_iter().filter_map(apart).min()?;
        let lowest_ns = later_here.into_iter().filter_map(apart).max()?;
        (lowest_ns <= highest_ns).then_some(Self { lowest_ns, highest_ns, at: client.ended })
    }

    /// Fallback without other bounds: assumes that the server began the test when the client's handshake completed.
    pub fn of_starts(client: &EndRecord, server: &EndRecord) -> Self {
        let connected = client.started + client.handshake.unwrap_or_default();
        let offset_ns = difference(server.started, connected);
        Self { lowest_ns: offset_ns, highest_ns: offset_ns, at: client.ended }
    }

    /// The intersection of both bounds; `later` alone where the intersection is empty (one host was restarted).
    pub fn and(self, later: Self) -> Self {
        let elapsed_ns = i128::from(later.at.duration_since(self.at).as_nanos() as u64);
        let drift_ns = elapsed_ns * DRIFT_PPM / 1_000_000;
        let both = Self {
            lowest_ns: later.lowest_ns.max(self.lowest_ns - drift_ns),
            highest_ns: later.highest_ns.min(self.highest_ns + drift_ns),
            at: later.at,
        };
        if both.lowest_ns <= both.highest_ns { both } else { later }
    }

    /// Whether both ends may use the same clock, as two ends on one machine do.
    pub const fn may_be_none(self) -> bool {
        self.lowest_ns <= 0 && self.highest_ns >= 0
    }

    /// Maximum error of a server time on the client's clock.
    pub fn uncertainty(self) -> Duration {
        if self.may_be_none() {
            return Duration::ZERO;
        }
        Duration::from_nanos(u64::try_from((self.highest_ns - self.lowest_ns) / 2).unwrap_or(u64::MAX))
    }

    /// Converts a server time to the client's clock. If the bounds include 0, the clocks count as the same clock: two
    /// hosts do not boot within one round trip of each other.
    pub fn on_clients_clock(self, at: Timestamp) -> Timestamp {
        let nanos = (i128::from(at.as_nanos()) - self.offset_ns()).max(0);
        Timestamp::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    const fn offset_ns(self) -> i128 {
        if self.may_be_none() { 0 } else { i128::midpoint(self.lowest_ns, self.highest_ns) }
    }

    /// Whether the server's start of the test, on the client's clock, falls into the client's period of the test. It
    /// does not if a host was suspended or restarted in between, or if the server's times are wrong.
    pub fn suits(self, client: &EndRecord, server: &EndRecord) -> bool {
        // Signed integers, not timestamps: an earlier time would be clamped to 0.
        let nanos = |at: Timestamp| i128::from(at.as_nanos());
        let begun = nanos(server.started) - self.offset_ns();
        let tolerance = (self.uncertainty() + TOLERANCE).as_nanos() as i128;
        (nanos(client.started) - tolerance..=nanos(client.ended) + tolerance).contains(&begun)
    }

    /// The server's record with all its times on the client's clock.
    pub fn apply(self, mut server: EndRecord) -> EndRecord {
        let moved = |at: &mut Timestamp| *at = self.on_clients_clock(*at);
        let moved_if = |at: &mut Option<Timestamp>| at.iter_mut().for_each(moved);
        let moved_series = |series: &mut DeliverySeries| {
            moved(&mut series.origin);
            moved_if(&mut series.first);
            moved_if(&mut series.last);
            for gap in &mut series.gaps {
                moved(&mut gap.from);
                moved(&mut gap.until);
            }
        };
        moved(&mut server.started);
        moved(&mut server.ended);
        moved_series(&mut server.deliveries);
        moved_series(&mut server.offered);
        for message in &mut server.messages {
            moved(&mut message.due);
            moved_if(&mut message.sent);
            moved_if(&mut message.acknowledged);
            moved_if(&mut message.answered);
        }
        if let Some(log) = &mut server.datagrams {
            log.sent.iter_mut().chain(&mut log.received).for_each(|logged| moved(&mut logged.at));
        }
        for sample in &mut server.samples {
            moved(&mut sample.at);
        }
        for event in &mut server.path_events {
            moved(&mut event.at);
        }
        server
    }
}

fn difference(later: Timestamp, earlier: Timestamp) -> i128 {
    i128::from(later.as_nanos()) - i128::from(earlier.as_nanos())
}
