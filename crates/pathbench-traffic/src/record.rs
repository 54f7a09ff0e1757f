//! Checks of the other end's record against what its test allows. An admitted peer may still lie: readers of its record
//! can rely on the bounds that are checked here, and on nothing else.

use pathbench_record::connection::PathEventKind;
use pathbench_record::delivery::{BIN, DeliverySeries};
use pathbench_record::direction::Direction;
use pathbench_record::end::{EndRecord, MAX_RECORD_BYTES, MessageRecord, StreamRecord};
use pathbench_record::pattern::PatternParameters;
use pathbench_record::sample::{PathFigures, Side};
use pathbench_record::text::is_deceptive;
use pathbench_record::time::Timestamp;
use std::fmt::Display;
use std::time::Duration;
use thiserror::Error;

/// The other end's clock may have gone on for this much longer: `CLOCK_MONOTONIC` stands still while a host is
/// suspended, and a server outwaits its client.
const CLOCK_SLACK: Duration = Duration::from_secs(60);

/// Clocks that run free drift apart by less than this part.
const DRIFT_PART: u32 = 1000;

/// Paths that one stream can have had, and events of the paths of one connection.
const MOST_PATHS: usize = 4096;

const MOST_CHARACTERS: usize = 1000;

/// Bytes of one stream and direction: no sum over the streams of a test overflows.
const MOST_BYTES: u64 = 1 << 55;

/// JSON of a stream's record apart from samples: fixed fields, one bin of both series with a gap, one message.
const FIXED_JSON_BYTES: usize = 64 * 1024;
const BIN_JSON_BYTES: usize = 100;
const MESSAGE_JSON_BYTES: usize = 160;

/// A peer's record says what its test does not allow.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{field}` is {found}; {bound}")]
pub struct InvalidRecord {
    /// The field, by its place in the JSON.
    pub field: String,
    /// What it says; of a text, what is wrong with it.
    pub found: String,
    /// What the test allows.
    pub bound: String,
}

fn refuse(field: impl Display, found: impl Display, bound: impl Display) -> Result<(), InvalidRecord> {
    Err(InvalidRecord { field: field.to_string(), found: found.to_string(), bound: bound.to_string() })
}

fn at_most<T: PartialOrd + Display + Copy>(
    field: impl Display,
    found: T,
    most: T,
) -> Result<(), InvalidRecord> {
    if found <= most { Ok(()) } else { refuse(field, found, format_args!("at most {most} is possible")) }
}

fn same<T: PartialEq + Display + Copy>(
    field: impl Display,
    found: T,
    expected: T,
    of: &str,
) -> Result<(), InvalidRecord> {
    if found == expected { Ok(()) } else { refuse(field, found, format_args!("{of} is {expected}")) }
}

/// Longest time that the other end can have spent on the test at `now`, by its own clock.
fn longest(own: &EndRecord, now: Timestamp) -> Duration {
    let elapsed = now.since(own.started);
    elapsed.saturating_add(elapsed / DRIFT_PART).saturating_add(CLOCK_SLACK)
}

fn bins_within(time: Duration) -> usize {
    usize::try_from(time.as_nanos() / BIN.as_nanos()).unwrap_or(usize::MAX).saturating_add(1)
}

/// Most bytes that the other end's record of one stream takes at `now`, of which samples take up to `of_samples`.
pub(crate) fn most_record_bytes(own: &EndRecord, now: Timestamp, of_samples: usize) -> usize {
    let of_bins = bins_within(longest(own, now)).saturating_mul(BIN_JSON_BYTES);
    let of_messages = most_messages(&own.parameters) as usize * MESSAGE_JSON_BYTES;
    [FIXED_JSON_BYTES, of_bins, of_messages]
        .into_iter()
        .fold(of_samples, usize::saturating_add)
        .min(MAX_RECORD_BYTES)
}

fn most_messages(parameters: &PatternParameters) -> u32 {
    match parameters {
        PatternParameters::Ping(ping) => ping.count,
        PatternParameters::Interactive(interactive) => interactive.messages(),
        PatternParameters::Bulk(_) | PatternParameters::Throughput(_) => 0,
    }
}

/// Whether the other end's record of the test, of the same streams or some of them, says only what the test allows
/// at `now`: times within the test, bytes that this end has sent, lists, texts and bins within bounds.
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
    bounds.samples()?;
    bounds.path_events()?;
    at_most("errors.length", peer.errors.len(), peer.streams.len())?;
    peer.errors.iter().enumerate().try_for_each(|(index, error)| text(&format!("errors[{index}]"), error))
}

struct Bounds<'a> {
    own: &'a EndRecord,
    peer: &'a EndRecord,
    longest: Duration,
    /// On the peer's clock: nothing of the test was before, nothing after.
    earliest: Timestamp,
    latest: Timestamp,
}

impl Bounds<'_> {
    /// What both ends have agreed on.
    fn agreement(&self) -> Result<(), InvalidRecord> {
        let (own, peer) = (self.own, self.peer);
        if peer.side == own.side {
            return refuse("side", format_args!("{:?}", peer.side), "that is this end");
        }
        same("test", peer.test, own.test, "the test")?;
        same("transport", peer.transport.name(), own.transport.name(), "the transport of the test")?;
        if peer.parameters != own.parameters {
            return refuse("parameters", "something else", "the test was agreed on with other ones");
        }
        if peer.samples_thinned_by == 0 {
            return refuse("samples_thinned_by", 0, "1 says that all are here");
        }
        Ok(())
    }

    fn times(&self) -> Result<(), InvalidRecord> {
        let peer = self.peer;
        self.time("started", peer.started)?;
        if peer.started > peer.ended {
            let bound = format_args!("the record ends at {} ns", peer.ended.as_nanos());
            return refuse("started", format_args!("{} ns", peer.started.as_nanos()), bound);
        }
        for (field, span) in [("handshake", peer.handshake), ("completion", peer.completion)] {
            self.span(field, span.unwrap_or_default())?;
        }
        Ok(())
    }

    fn time(&self, field: impl Display, at: Timestamp) -> Result<(), InvalidRecord> {
        if (self.earliest..=self.latest).contains(&at) {
            return Ok(());
        }
        let (earliest, latest) = (self.earliest.as_nanos(), self.latest.as_nanos());
        refuse(
            field,
            format_args!("{} ns", at.as_nanos()),
            format_args!("the test was from {earliest} to {latest} ns"),
        )
    }

    fn span(&self, field: impl Display, span: Duration) -> Result<(), InvalidRecord> {
        at_most(field, span.as_secs_f64(), self.longest.as_secs_f64())
    }

    fn streams(&self) -> Result<(), InvalidRecord> {
        let streams = &self.peer.streams;
        if streams.is_empty() {
            return refuse("streams.length", 0, "a record is of at least one");
        }
        for (index, stream) in streams.iter().enumerate() {
            let field = format!("streams[{index}]");
            if streams.iter().take(index).any(|other| other.stream == stream.stream) {
                return refuse(format_args!("{field}.stream"), stream.stream, "that was there before");
            }
            let Some(own) = self.own.streams.iter().find(|own| own.stream == stream.stream) else {
                return refuse(format_args!("{field}.stream"), stream.stream, "this end has no such stream");
            };
            self.stream(&field, stream, own)?;
        }
        if self.peer.completed && streams.len() != self.own.parameters.streams() as usize {
            // The record of one stream is complete with it.
            same("streams.length", streams.len(), 1, "the number of streams")?;
        }
        Ok(())
    }

    fn stream(&self, field: &str, stream: &StreamRecord, own: &StreamRecord) -> Result<(), InvalidRecord> {
        let (received, sent) = (format!("{field}.received_bytes"), format!("{field}.sent_bytes"));
        let is_transfer = self.own.parameters.transfer().is_some();
        if own.completed && is_transfer {
            same(received, stream.received_bytes, own.sent_bytes, "what this end sent")?;
            same(sent, stream.sent_bytes, own.received_bytes, "what this end received")?;
        } else {
            at_most(received, stream.received_bytes, own.sent_bytes)?;
            at_most(sent, stream.sent_bytes, self.own.parameters.nominal_bytes().unwrap_or(MOST_BYTES))?;
        }
        if let Some(hung_ns) = stream.hung_ns {
            self.span(format_args!("{field}.hung_ns"), Duration::from_nanos(hung_ns))?;
        }
        let in_force = &stream.in_force;
        text(&format!("{field}.in_force.protocol"), &in_force.protocol)?;
        text(&format!("{field}.in_force.congestion"), &in_force.congestion)?;
        text(&format!("{field}.in_force.encryption"), in_force.encryption.as_deref().unwrap_or_default())?;
        text(&format!("{field}.error"), stream.error.as_deref().unwrap_or_default())?;
        at_most(format_args!("{field}.paths.length"), stream.paths.len(), MOST_PATHS)?;
        stream.paths.iter().try_for_each(|figures| times_of_path(field, figures))
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
        at_most(
            name("bytes.length"),
            series.bytes.len(),
            bins_within(self.peer.ended.since(self.peer.started)),
        )?;
        let total = series.bytes.iter().try_fold(0_u64, |sum, bytes| sum.checked_add(*bytes));
        // None of them is above 2^55.
        let of_streams = self.peer.streams.iter().map(of_stream).fold(0, u64::saturating_add);
        match total {
            Some(total) => same(name("bytes"), total, of_streams, "the sum over the streams")?,
            None => refuse(name("bytes"), "more than 2^64 bytes", "no test has so many")?,
        }
        match (series.first, series.last) {
            (None, None) if of_streams == 0 => {}
            (Some(first), Some(last)) if first <= last && of_streams > 0 => {
                self.time(name("first"), first)?;
                self.time(name("last"), last)?;
            }
            _ => refuse(name("first"), "at odds with `last` and `bytes`", "a series with bytes has both")?,
        }
        let mut after = series.first.unwrap_or_default();
        for (index, gap) in series.gaps.iter().enumerate() {
            let until = series.last.unwrap_or_default();
            if gap.from < after || gap.until <= gap.from || gap.until > until {
                return refuse(
                    name(&format!("gaps[{index}]")),
                    "out of order",
                    "gaps lie between the bytes, in order",
                );
            }
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
            same(format_args!("{field}.sequence"), message.sequence, index, "its place in the list")?;
            for at in [Some(due), sent, acknowledged, answered].into_iter().flatten() {
                self.time(&field, at)?;
            }
        }
        Ok(())
    }

    fn samples(&self) -> Result<(), InvalidRecord> {
        for (index, sample) in self.peer.samples.iter().enumerate() {
            let field = format!("samples[{index}]");
            if !self.peer.streams.iter().any(|stream| stream.stream == sample.stream) {
                return refuse(
                    format_args!("{field}.stream"),
                    sample.stream,
                    "the record has no such stream",
                );
            }
            self.time(format_args!("{field}.at"), sample.at)?;
            times_of_path(&field, &sample.figures)?;
        }
        Ok(())
    }

    fn path_events(&self) -> Result<(), InvalidRecord> {
        let events = &self.peer.path_events;
        at_most("path_events.length", events.len(), MOST_PATHS)?;
        for (index, event) in events.iter().enumerate() {
            let field = format!("path_events[{index}]");
            self.time(format_args!("{field}.at"), event.at)?;
            match &event.kind {
                PathEventKind::PathRefused { reason: words }
                | PathEventKind::PathGivenUp { reason: words }
                | PathEventKind::PathAbandoned { reason: words }
                | PathEventKind::InterfaceGone { change: words }
                | PathEventKind::InterfaceBack { change: words }
                | PathEventKind::Scheduler { reason: words, .. } => text(&field, words)?,
                PathEventKind::PathOpened
                | PathEventKind::PathEstablished
                | PathEventKind::PathClosed
                | PathEventKind::PathStatus { .. }
                | PathEventKind::PathSuspended
                | PathEventKind::PathResumed
                | PathEventKind::MtuBlackHole
                | PathEventKind::EventsOmitted { .. } => {}
            }
        }
        Ok(())
    }
}

/// Times of a path's figures: numbers, and none below zero.
fn times_of_path(field: &str, figures: &PathFigures) -> Result<(), InvalidRecord> {
    let PathFigures { srtt_ms, rttvar_ms, min_rtt_ms, rto_ms, .. } = *figures;
    for ms in [srtt_ms, rttvar_ms, min_rtt_ms.unwrap_or_default(), rto_ms] {
        if !(ms.is_finite() && ms >= 0.0) {
            return refuse(
                field,
                format_args!("{ms} ms in one of its times"),
                "a time is a number, from 0 on",
            );
        }
    }
    Ok(())
}

fn text(field: &str, words: &str) -> Result<(), InvalidRecord> {
    at_most(format_args!("{field}.length"), words.chars().count(), MOST_CHARACTERS)?;
    if words.chars().any(is_deceptive) {
        return refuse(
            field,
            "a text with control characters",
            "a text is one line of characters to be seen",
        );
    }
    Ok(())
}
