//! One clock for both ends of a test whose hosts have a clock each.
//!
//! Hosts of a lab share a clock; those of a real network do not, and `CLOCK_MONOTONIC` counts from a moment of each
//! host's own. What must have happened before something else at the other end bounds how far the clocks are apart.

use pathbench_record::delivery::DeliverySeries;
use pathbench_record::end::EndRecord;
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// Clocks that run free drift apart by up to this part (crystals are good to 50 ppm each).
const DRIFT_PPM: i128 = 100;

/// How far the server's begin of a test may seem to lie outside the client's time of it.
const TOLERANCE: Duration = Duration::from_secs(1);

/// What is known of server's clock − client's clock: it lies between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    lowest_ns: i128,
    highest_ns: i128,
    /// When on the client's clock.
    at: Timestamp,
}

impl ClockOffset {
    /// What the records of both ends of one test of bulk data say by cause and effect; `None` of another test (their
    /// few messages leave too much room) and where the records contradict each other.
    ///
    /// - The server begins the test after the client has opened the connection.
    /// - The first byte is received after it was handed to the other end's socket.
    /// - An upload is complete at the client after the server has received the last of it.
    pub fn of_records(client: &EndRecord, server: &EndRecord) -> Option<Self> {
        client.parameters.transfer()?;
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

    /// A makeshift where nothing else is known: as if the server had begun the test in the moment in which the client
    /// had its connection.
    pub fn of_starts(client: &EndRecord, server: &EndRecord) -> Self {
        let connected = client.started + client.handshake.unwrap_or_default();
        let offset_ns = difference(server.started, connected);
        Self { lowest_ns: offset_ns, highest_ns: offset_ns, at: client.ended }
    }

    /// What both say together; the later one alone where they exclude each other (one host was restarted).
    pub fn and(self, later: Self) -> Self {
        let elapsed_ns = i128::from(later.at.since(self.at).as_nanos() as u64);
        let drift_ns = elapsed_ns * DRIFT_PPM / 1_000_000;
        let both = Self {
            lowest_ns: later.lowest_ns.max(self.lowest_ns - drift_ns),
            highest_ns: later.highest_ns.min(self.highest_ns + drift_ns),
            at: later.at,
        };
        if both.lowest_ns <= both.highest_ns { both } else { later }
    }

    /// Whether both ends may well read the same clock, as those on one machine do.
    pub const fn may_be_none(self) -> bool {
        self.lowest_ns <= 0 && self.highest_ns >= 0
    }

    /// How far a time of the server may be off once it is put on the client's clock.
    pub fn uncertainty(self) -> Duration {
        if self.may_be_none() {
            return Duration::ZERO;
        }
        Duration::from_nanos(u64::try_from((self.highest_ns - self.lowest_ns) / 2).unwrap_or(u64::MAX))
    }

    /// A time of the server on the client's clock. Clocks that may be one are taken for one: two hosts are not
    /// started within a round trip of each other.
    pub fn on_clients_clock(self, at: Timestamp) -> Timestamp {
        let nanos = (i128::from(at.as_nanos()) - self.offset_ns()).max(0);
        Timestamp::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    const fn offset_ns(self) -> i128 {
        if self.may_be_none() { 0 } else { i128::midpoint(self.lowest_ns, self.highest_ns) }
    }

    /// Whether it puts the server's begin of the test into the client's time of it. It does not where a host was
    /// suspended or restarted since, or the server lies.
    pub fn suits(self, client: &EndRecord, server: &EndRecord) -> bool {
        // Not as timestamps, which end at 0: a time before that is outside the test, too.
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

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::pattern::ThroughputParameters;
    use pathbench_record::sample::Side;
    use pathbench_record::test_id::TestId;
    use pathbench_record::transport::Transport;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    fn series(first: u64, last: u64) -> DeliverySeries {
        let mut series = DeliverySeries::starting_at(at(first));
        series.record(at(first), 10);
        series.record(at(last), 10);
        series
    }

    fn record(side: Side, started: u64, ended: u64) -> EndRecord {
        EndRecord {
            side,
            test: TestId([0; 16]),
            transport: Transport::Tcp,
            parameters: ThroughputParameters::default().into(),
            started: at(started),
            ended: at(ended),
            deliveries: DeliverySeries::starting_at(at(started)),
            offered: DeliverySeries::starting_at(at(started)),
            messages: Vec::new(),
            handshake: Some(Duration::from_millis(20)),
            completion: None,
            rate_limit_bps: None,
            streams: Vec::new(),
            path_events: Vec::new(),
            samples: Vec::new(),
            samples_thinned_by: 1,
            completed: true,
            errors: Vec::new(),
        }
    }

    /// A download over 10 ms each way; the server's clock is ahead by `offset`.
    fn download(offset: u64) -> (EndRecord, EndRecord) {
        let client = EndRecord { deliveries: series(1_050, 2_010), ..record(Side::Client, 1_000, 2_020) };
        let server = EndRecord {
            offered: series(offset + 1_040, offset + 2_000),
            ..record(Side::Server, offset + 1_040, offset + 2_030)
        };
        (client, server)
    }

    #[test]
    fn the_offset_is_found_within_half_a_round_trip() {
        let (client, server) = download(5_000_000);
        let offset = ClockOffset::of_records(&client, &server).unwrap();
        assert!(offset.uncertainty() <= Duration::from_millis(15), "{:?}", offset.uncertainty());
        let moved = offset.apply(server);
        let error_ms = moved.offered.first.unwrap().ms_from(at(1_040));
        assert!(error_ms.abs() <= 15.0, "{error_ms}");
        let apart = moved.offered.last.unwrap().since(moved.offered.first.unwrap());
        assert_eq!(apart, Duration::from_millis(960), "moving changes no distance");
    }

    #[test]
    fn ends_on_one_machine_keep_their_times() {
        let (client, server) = download(0);
        let offset = ClockOffset::of_records(&client, &server).unwrap();
        assert!(offset.may_be_none());
        assert_eq!(offset.apply(server.clone()), server);
    }

    #[test]
    fn later_words_narrow_it_and_a_restart_replaces_it() {
        let offset =
            |lowest, highest, when| ClockOffset { lowest_ns: lowest, highest_ns: highest, at: at(when) };
        let both = offset(1_000, 9_000, 1).and(offset(4_000, 20_000, 1));
        assert_eq!((both.lowest_ns, both.highest_ns), (4_000, 9_000));
        // A minute later the first has lost 6 ms of its sharpness.
        let late = offset(1_000, 9_000, 0).and(offset(-90_000_000, 90_000_000, 60_000));
        assert_eq!((late.lowest_ns, late.highest_ns), (1_000 - 6_000_000, 9_000 + 6_000_000));
        let restarted = offset(1_000, 9_000, 1).and(offset(-500, -400, 2));
        assert_eq!((restarted.lowest_ns, restarted.highest_ns), (-500, -400));
    }

    #[test]
    fn an_offset_that_puts_the_test_elsewhere_does_not_suit() {
        let (client, server) = download(5_000_000);
        let offset = ClockOffset::of_records(&client, &server).unwrap();
        assert!(offset.suits(&client, &server));
        // The server's host was restarted, or its record lies: nothing in it says when the test was.
        for started in [at(0), at(1_040), Timestamp::from_nanos(u64::MAX)] {
            assert!(!offset.suits(&client, &EndRecord { started, ..server.clone() }), "{started:?}");
        }
    }

    #[test]
    fn contradictions_say_nothing() {
        let (client, mut server) = download(0);
        server.offered = series(9_000, 9_500);
        assert_eq!(ClockOffset::of_records(&client, &server), None);
    }
}
