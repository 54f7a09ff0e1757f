//! Checks the other end's record against the bounds of its test. An admitted peer may send false values: readers of its
//! record can rely only on the bounds that are checked here.

use pathbench_record::connection::PathEventKind;
use pathbench_record::datagram::{DatagramLog, DatagramsParameters};
use pathbench_record::delivery::{BIN, DeliverySeries};
use pathbench_record::direction::Direction;
use pathbench_record::end::{EndRecord, MAX_RECORD_BYTES, MPTCP_COUNTERS, MessageRecord, StreamRecord};
use pathbench_record::pattern::PatternParameters;
use pathbench_record::resource::ThreadUse;
use pathbench_record::sample::{PathFigures, Side};
use pathbench_record::text::is_deceptive;
use pathbench_record::time::Timestamp;
use std::fmt::Display;
use std::time::Duration;
use thiserror::Error;

/// The other end's clock may be ahead by this much: `CLOCK_MONOTONIC` stops while a host is suspended, and a server
/// waits longer than its client.
const CLOCK_SLACK: Duration = Duration::from_secs(60);

/// Free-running clocks drift apart by less than this fraction.
const DRIFT_PART: u32 = 1000;

/// Limit of the paths of one stream, and of the path events of one connection.
const MOST_PATHS: usize = 4096;

const MOST_CHARACTERS: usize = 1000;

/// Limit of the bytes of one stream and direction, so that no sum over the streams of a test overflows.
const MOST_BYTES: u64 = 1 << 55;

/// Limit of a counter's rise: more events than any server sees during a test.
const MOST_EVENTS: u64 = 1 << 40;

/// JSON of a stream's record without samples: fixed fields, one bin of both series with a gap, one message.
const FIXED_JSON_BYTES: usize = 64 * 1024;
const BIN_JSON_BYTES: usize = 100;
const MESSAGE_JSON_BYTES: usize = 160;
const DATAGRAM_JSON_BYTES: usize = 48;

/// A value in the peer's record that its test does not allow.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{field}` is {found}; {bound}")]
pub struct InvalidRecord {
    /// Location of the field in the JSON.
    pub field: String,
    /// The field's value, or the fault of a text.
    pub found: String,
    /// The values that the test allows.
    pub bound: String,
}

fn require(
    holds: bool,
    field: impl Display,
    found: impl Display,
    bound: impl Display,
) -> Result<(), InvalidRecord> {
    if holds {
        return Ok(());
    }
    Err(InvalidRecord { field: field.to_string(), found: found.to_string(), bound: bound.to_string() })
}

fn at_most<T: PartialOrd + Display + Copy>(
    field: impl Display,
    found: T,
    most: T,
) -> Result<(), InvalidRecord> {
    require(found <= most, field, found, format_args!("at most {most} is possible"))
}

fn same<T: PartialEq + Display + Copy>(
    field: impl Display,
    found: T,
    expected: T,
    of: &str,
) -> Result<(), InvalidRecord> {
    require(found == expected, field, found, format_args!("{of} is {expected}"))
}

/// Longest time that the other end can have spent on the test at `now`, on its own clock.
fn longest(own: &EndRecord, now: Timestamp) -> Duration {
    let elapsed = now.duration_since(own.started);
    elapsed.saturating_add(elapsed / DRIFT_PART).saturating_add(CLOCK_SLACK)
}

fn bins_within(time: Duration) -> usize {
    usize::try_from(time.as_nanos() / BIN.as_nanos()).unwrap_or(usize::MAX).saturating_add(1)
}

/// Largest size of the other end's record of one stream at `now`, with up to `of_samples` bytes of samples.
pub(crate) fn most_record_bytes(own: &EndRecord, now: Timestamp, of_samples: usize) -> usize {
    let of_bins = bins_within(longest(own, now)).saturating_mul(BIN_JSON_BYTES);
    let of_messages = most_messages(&own.parameters) as usize * MESSAGE_JSON_BYTES;
    let of_datagrams = match &own.parameters {
        PatternParameters::Datagrams(datagrams) => most_logged(datagrams).saturating_mul(DATAGRAM_JSON_BYTES),
        _ => 0,
    };
    [FIXED_JSON_BYTES, of_bins, of_messages, of_datagrams]
        .into_iter()
        .fold(of_samples, usize::saturating_add)
        .min(MAX_RECORD_BYTES)
}

/// Largest number of datagrams that one end logs in one direction: duplicates included.
fn most_logged(datagrams: &DatagramsParameters) -> usize {
    let expected = datagrams.datagrams().saturating_mul(datagrams.paths.into());
    usize::try_from(expected + expected / 8).unwrap_or(usize::MAX).saturating_add(64)
}

fn most_messages(parameters: &PatternParameters) -> u32 {
    match parameters {
        PatternParameters::Ping(ping) => ping.count,
        PatternParameters::Interactive(interactive) => interactive.messages(),
        PatternParameters::Bulk(_)
        | PatternParameters::Throughput(_)
        | PatternParameters::Responsiveness(_)
        | PatternParameters::Datagrams(_) => 0,
    }
}

/// Checks that the other end's record of some or all streams of the test has only values that the test allows at `now`:
/// times within the test, bytes that this end has sent, and lists, texts and bins within bounds.
///
/// # Errors
/// [`InvalidRecord`] names the first field that is out of bounds.
pub fn check_peer(own: &EndRecord, peer: &EndRecord, now: Timestamp) -> Result<(), InvalidRecord> {
    let longest = longest(own, now);
    let bounds =
        Bounds { own, peer, longest, earliest: peer.ended - longest, latest: peer.ended + CLOCK_SLACK };
    bounds.agreement()?;
    bounds.times()?;
    bounds.streams()?;
    bounds.series("deliveries", &peer.deliveries, |stream| stream.received_bytes)?;
    bounds.series("offered", &peer.offered, |stream| stream.sent_bytes)?;
    bounds.messages()?;
    bounds.datagrams()?;
    bounds.samples()?;
    bounds.path_events()?;
    bounds.mptcp_counters()?;
    bounds.resources()?;
    at_most("errors.length", peer.errors.len(), peer.streams.len())?;
    peer.errors.iter().enumerate().try_for_each(|(index, error)| text(format_args!("errors[{index}]"), error))
}

struct Bounds<'a> {
    own: &'a EndRecord,
    peer: &'a EndRecord,
    longest: Duration,
    /// First and last possible time of the test on the peer's clock.
    earliest: Timestamp,
    latest: Timestamp,
}

impl Bounds<'_> {
    /// The parameters on which both ends have agreed.
    fn agreement(&self) -> Result<(), InvalidRecord> {
        let (own, peer) = (self.own, self.peer);
        require(peer.side != own.side, "side", format_args!("{:?}", peer.side), "so is this end's")?;
        same("test", peer.test, own.test, "the test")?;
        same("transport", peer.transport.name(), own.transport.name(), "the transport of the test")?;
        let agreed = "both ends agreed on other parameters";
        require(peer.parameters == own.parameters, "parameters", "something else", agreed)?;
        let of_client = "only a client has probes";
        require(peer.side == Side::Client || peer.response.is_none(), "response", "present", of_client)?;
        require(peer.samples_thinned_by > 0, "samples_thinned_by", 0, "1 stands for all samples")
    }

    fn times(&self) -> Result<(), InvalidRecord> {
        let peer = self.peer;
        self.time("started", peer.started)?;
        let (started, ended) = (peer.started.as_nanos(), peer.ended.as_nanos());
        let bound = format_args!("the record ends at {ended} ns");
        require(started <= ended, "started", format_args!("{started} ns"), bound)?;
        self.span("handshake", peer.handshake.unwrap_or_default())?;
        self.span("fct", peer.fct.unwrap_or_default())
    }

    fn time(&self, field: impl Display, at: Timestamp) -> Result<(), InvalidRecord> {
        let (earliest, latest) = (self.earliest.as_nanos(), self.latest.as_nanos());
        let bound = format_args!("the test was from {earliest} to {latest} ns");
        let at = at.as_nanos();
        require((earliest..=latest).contains(&at), field, format_args!("{at} ns"), bound)
    }

    fn span(&self, field: impl Display, span: Duration) -> Result<(), InvalidRecord> {
        at_most(field, span.as_secs_f64(), self.longest.as_secs_f64())
    }

    fn streams(&self) -> Result<(), InvalidRecord> {
        let streams = &self.peer.streams;
        require(!streams.is_empty(), "streams.length", 0, "a record has at least one stream")?;
        for (index, stream) in streams.iter().enumerate() {
            let (field, number) = (format!("streams[{index}]"), stream.stream);
            let is_new = !streams.iter().take(index).any(|other| other.stream == number);
            require(is_new, format_args!("{field}.stream"), number, "each stream is there once")?;
            let own = self.own.streams.iter().find(|own| own.stream == number);
            require(own.is_some(), format_args!("{field}.stream"), number, "this end has no such stream")?;
            own.map_or(Ok(()), |own| self.stream(&field, stream, own))?;
        }
        if self.peer.completed && streams.len() != self.own.parameters.streams() as usize {
            // The record of one completed stream is complete.
            same("streams.length", streams.len(), 1, "the number of streams")?;
        }
        Ok(())
    }

    fn stream(&self, field: &str, stream: &StreamRecord, own: &StreamRecord) -> Result<(), InvalidRecord> {
        let name = |part: &str| format!("{field}.{part}");
        if own.completed && self.own.parameters.sends_bulk_data() {
            same(name("received_bytes"), stream.received_bytes, own.sent_bytes, "what this end sent")?;
            same(name("sent_bytes"), stream.sent_bytes, own.received_bytes, "what this end received")?;
        } else {
            at_most(name("received_bytes"), stream.received_bytes, own.sent_bytes)?;
            let most = self.own.parameters.nominal_bytes().unwrap_or(MOST_BYTES);
            at_most(name("sent_bytes"), stream.sent_bytes, most)?;
        }
        self.span(name("hung_ns"), Duration::from_nanos(stream.hung_ns.unwrap_or_default()))?;
        let in_force = &stream.in_force;
        text(name("in_force.protocol"), &in_force.protocol)?;
        text(name("in_force.congestion"), &in_force.congestion)?;
        text(name("in_force.encryption"), in_force.encryption.as_deref().unwrap_or_default())?;
        text(name("error"), stream.error.as_deref().unwrap_or_default())?;
        at_most(name("paths.length"), stream.paths.len(), MOST_PATHS)?;
        stream.paths.iter().try_for_each(|figures| check_figures(field, figures))
    }

    fn series(
        &self,
        field: &str,
        series: &DeliverySeries,
        of_stream: fn(&StreamRecord) -> u64,
    ) -> Result<(), InvalidRecord> {
        let name = |part: &str| format!("{field}.{part}");
        let nanos = Timestamp::as_nanos;
        same(name("origin"), nanos(series.origin), nanos(self.peer.started), "the record's begin in ns")?;
        let bins = bins_within(self.peer.ended.duration_since(self.peer.started));
        at_most(name("bytes.length"), series.bytes.len(), bins)?;
        let total = series.bytes.iter().try_fold(0_u64, |sum, bytes| sum.checked_add(*bytes));
        // No summand is above 2^55.
        let of_streams = self.peer.streams.iter().map(of_stream).fold(0, u64::saturating_add);
        require(total.is_some(), name("bytes"), "more than 2^64 bytes", "no test has so many")?;
        same(name("bytes"), total.unwrap_or_default(), of_streams, "the sum over the streams")?;
        let (first, last) = (series.first.unwrap_or_default(), series.last.unwrap_or_default());
        let has_bytes = (of_streams > 0, of_streams > 0) == (series.first.is_some(), series.last.is_some());
        let both = "a series with bytes has both";
        require(has_bytes && first <= last, name("first"), "at odds with `last` and `bytes`", both)?;
        if of_streams > 0 {
            self.time(name("first"), first)?;
            self.time(name("last"), last)?;
        }
        let mut after = first;
        for (index, gap) in series.gaps.iter().enumerate() {
            let is_ordered = gap.from >= after && gap.until > gap.from && gap.until <= last;
            let field = format_args!("{field}.gaps[{index}]");
            require(is_ordered, field, "out of order", "gaps lie between the bytes, in order")?;
            after = gap.until;
        }
        Ok(())
    }

    fn messages(&self) -> Result<(), InvalidRecord> {
        let messages = &self.peer.messages;
        let asks = match (&self.own.parameters, self.peer.side) {
            (PatternParameters::Ping(_), Side::Server) => 0,
            (parameters, _) => most_messages(parameters),
        };
        at_most("messages.length", messages.len(), asks as usize)?;
        let flow = match self.peer.side {
            Side::Client => Direction::Upload,
            Side::Server => Direction::Download,
        };
        for (message, index) in messages.iter().zip(0_u32..) {
            let &MessageRecord { due, sent, acknowledged, answered, .. } = message;
            let field = format!("messages[{index}]");
            same(format_args!("{field}.flow"), message.flow.name(), flow.name(), "the flow of that end")?;
            same(format_args!("{field}.sequence"), message.sequence, index, "its index in the list")?;
            let mut times = [Some(due), sent, acknowledged, answered].into_iter().flatten();
            times.try_for_each(|at| self.time(&field, at))?;
        }
        Ok(())
    }

    /// The peer logs only datagrams of this test, no more arrivals than the network can have made, and no first arrival
    /// of a datagram that this end has not sent.
    fn datagrams(&self) -> Result<(), InvalidRecord> {
        let empty = DatagramLog::default();
        let PatternParameters::Datagrams(parameters) = &self.own.parameters else {
            let has = self.peer.datagrams.is_some();
            return require(!has, "datagrams", "a log", "only the pattern `datagrams` has one");
        };
        let log = self.peer.datagrams.as_ref().unwrap_or(&empty);
        let (sends, receives) = match self.peer.side {
            Side::Client => (Direction::Upload, Direction::Download),
            Side::Server => (Direction::Download, Direction::Upload),
        };
        at_most("datagrams.paths.length", log.paths.len(), parameters.paths as usize)?;
        let per_direction = parameters.datagrams().saturating_mul(parameters.paths.into());
        at_most("datagrams.unsent", log.unsent, per_direction)?;
        let mut own_sent: Vec<u32> =
            self.own.datagrams.iter().flat_map(|log| &log.sent).map(|sent| sent.sequence).collect();
        own_sent.sort_unstable();
        for (name, entries, direction) in [("sent", &log.sent, sends), ("received", &log.received, receives)]
        {
            let goes = parameters.sends(direction);
            let most = if goes { most_logged(parameters) } else { 0 };
            at_most(format_args!("datagrams.{name}.length"), entries.len(), most)?;
            for (index, entry) in entries.iter().enumerate() {
                let field = format_args!("datagrams.{name}[{index}]");
                let is_known = u64::from(entry.sequence) < parameters.datagrams();
                require(is_known, field, entry.sequence, "the test has no such datagram")?;
                self.time(field, entry.at)?;
                if name == "received" {
                    let was_sent = own_sent.binary_search(&entry.sequence).is_ok();
                    require(was_sent, field, entry.sequence, "this end did not send it")?;
                }
            }
        }
        Ok(())
    }

    fn samples(&self) -> Result<(), InvalidRecord> {
        for (index, sample) in self.peer.samples.iter().enumerate() {
            let field = format!("samples[{index}]");
            let is_known = self.peer.streams.iter().any(|stream| stream.stream == sample.stream);
            let name = format_args!("{field}.stream");
            require(is_known, name, sample.stream, "the record has no such stream")?;
            self.time(format_args!("{field}.at"), sample.at)?;
            check_figures(&field, &sample.figures)?;
        }
        Ok(())
    }

    fn mptcp_counters(&self) -> Result<(), InvalidRecord> {
        let reported = self.peer.mptcp_counters.iter().flatten();
        for (name, rise) in reported {
            let known = MPTCP_COUNTERS.contains(&name.as_str());
            let bound = "a server reports only the counters of its protocol version";
            require(known, "mptcp_counters", "an unknown counter", bound)?;
            at_most(format_args!("mptcp_counters.{name}"), *rise, MOST_EVENTS)?;
        }
        Ok(())
    }

    fn resources(&self) -> Result<(), InvalidRecord> {
        if let Some(cpu) = &self.peer.cpu {
            let ThreadUse { ran_us, waited_us, measured_us } = cpu.busiest;
            [cpu.ran_us, ran_us, waited_us, measured_us]
                .into_iter()
                .try_for_each(|us| at_most("cpu", us, MOST_BYTES))?;
            at_most("cpu.stolen_percent", cpu.stolen_percent.unwrap_or_default(), 100_u32)?;
        }
        let limits =
            self.peer.tcp_buffers.iter().flat_map(|limits| limits.receive.into_iter().chain(limits.send));
        limits.into_iter().try_for_each(|bytes| at_most("tcp_buffers", bytes, MOST_BYTES))
    }

    fn path_events(&self) -> Result<(), InvalidRecord> {
        let events = &self.peer.path_events;
        at_most("path_events.length", events.len(), MOST_PATHS)?;
        for (index, event) in events.iter().enumerate() {
            self.time(format_args!("path_events[{index}].at"), event.at)?;
            let words = match &event.kind {
                PathEventKind::PathRefused { reason: words }
                | PathEventKind::PathGivenUp { reason: words }
                | PathEventKind::PathAbandoned { reason: words }
                | PathEventKind::InterfaceGone { change: words }
                | PathEventKind::InterfaceBack { change: words }
                | PathEventKind::Scheduler { reason: words, .. } => words,
                PathEventKind::PathOpened
                | PathEventKind::PathEstablished
                | PathEventKind::PathClosed
                | PathEventKind::PathStatus { .. }
                | PathEventKind::PathSuspended
                | PathEventKind::PathResumed
                | PathEventKind::MtuBlackHole
                | PathEventKind::EventsOmitted { .. } => continue,
            };
            text(format_args!("path_events[{index}]"), words)?;
        }
        Ok(())
    }
}

/// Checks that the times of a path's figures are finite and not negative, and the name of its interface.
fn check_figures(field: &str, figures: &PathFigures) -> Result<(), InvalidRecord> {
    text(field, figures.interface.as_deref().unwrap_or_default())?;
    let counters = [
        figures.busy_us,
        figures.receive_window_limited_us,
        figures.send_buffer_limited_us,
        figures.connection_received_bytes,
    ];
    counters.into_iter().flatten().try_for_each(|value| at_most(field, value, MOST_BYTES))?;
    let PathFigures { srtt_ms, rttvar_ms, min_rtt_ms, rto_ms, .. } = *figures;
    [srtt_ms, rttvar_ms, min_rtt_ms.unwrap_or_default(), rto_ms].into_iter().try_for_each(|ms| {
        let found = format_args!("{ms} ms in one of its times");
        require(ms.is_finite() && ms >= 0.0, field, found, "a time is a number, from 0 on")
    })
}

fn text(field: impl Display, words: &str) -> Result<(), InvalidRecord> {
    at_most(format_args!("{field}.length"), words.chars().count(), MOST_CHARACTERS)?;
    let found = "a text with control characters";
    require(!words.chars().any(is_deceptive), field, found, "a text is one line of printable characters")
}
