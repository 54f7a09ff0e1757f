//! Tables with a header: columns are chosen by their names and units. And Pensieve's tables without one.

use super::error::TraceError;
use super::limits::{MAX_SECONDS, MAX_VALUES};
use super::lines::{Line, Lines, number, shown};
use super::options::TraceOptions;
use super::samples::{Fate, Sample, Trip};
use super::steps::{LATEST_BEGIN, StepBuilder};
use super::unit::{RateUnit, TimeUnit, words};
use super::wall_clock;
use crate::{LossSchedule, RateSchedule};
use pathbench_record::direction::Direction;
use std::time::Duration;

/// Maximum number of columns.
const MAX_COLUMNS: usize = 256;
const MAX_BPS: f64 = 1e12;
const RATE_RANGE: &str = "0 to 1 Tbit/s";
const TIME_RANGE: &str = "0 to 2678400 seconds (31 days) after the first";
pub(super) const LONGEST_DELAY: Duration = Duration::from_secs(60);
pub(super) const DELAY_RANGE: &str = "0 to 60 s";
/// Pensieve's traces are of mobile networks; larger values are in another unit.
const MOST_PENSIEVE_MBPS: f64 = 10_000.0;

/// The rate, delay or loss that a column contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnKind {
    Rate,
    /// A one-way delay.
    Delay,
    RoundTrip,
    Loss,
    Other,
}

impl ColumnKind {
    fn from_name(name: &str) -> Self {
        let lower = name.to_ascii_lowercase();
        let words = words(&lower);
        let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
        if has(&["loss", "lost", "drop", "drops", "error", "errors"]) {
            if has(&["loss", "lost"]) { Self::Loss } else { Self::Other }
        } else if RateUnit::from_column(name).is_some()
            || has(&["throughput", "rate", "bandwidth", "bw", "capacity", "goodput", "bitrate", "tput"])
        {
            Self::Rate
        } else if has(&["rtt", "ping"]) {
            Self::RoundTrip
        } else if has(&["delay", "owd"]) {
            Self::Delay
        } else {
            Self::Other
        }
    }
}

fn is_time(name: &str) -> bool {
    const KNOWN: [&str; 16] = [
        "time",
        "timestamp",
        "t",
        "ts",
        "datetime",
        "date",
        "elapsed",
        "epoch",
        "second",
        "seconds",
        "sec",
        "s",
        "ms",
        "us",
        "ns",
        "unix",
    ];
    let lower = name.to_ascii_lowercase();
    ColumnKind::from_name(name) == ColumnKind::Other && words(&lower).iter().any(|word| KNOWN.contains(word))
}

/// The header of a table.
pub(super) struct Header<'a> {
    line: u64,
    separator: u8,
    columns: Vec<&'a str>,
    text: &'a [u8],
}

impl<'a> Header<'a> {
    /// `None` if the first line with content is no header.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Option<Self>, TraceError> {
        let Some(line) = Lines::with_content(bytes)?.next() else { return Ok(None) };
        let begins = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'"' | b'_');
        if !line.text.first().is_some_and(begins) {
            return Ok(None);
        }
        let separator = [b',', b';', b'\t'].into_iter().find(|byte| line.text.contains(byte));
        let (Some(separator), Ok(text)) = (separator, std::str::from_utf8(line.text)) else {
            return Ok(None);
        };
        let columns: Vec<&str> = text.split(char::from(separator)).map(bare).take(MAX_COLUMNS).collect();
        Ok(Some(Self { line: line.number, separator, columns, text: line.text }))
    }

    /// Whether these are the columns of LENS's IRTT tables, which have no units in their names.
    pub(super) fn is_lens(&self) -> bool {
        self.columns == ["timestamp", "rtt", "uplink", "downlink"]
    }

    fn found(&self) -> String {
        shown(self.text)
    }

    fn time(&self) -> Result<(usize, Option<TimeUnit>), TraceError> {
        let index =
            self.columns.iter().position(|name| is_time(name)).ok_or_else(|| TraceError::NoColumn {
                line: self.line,
                found: self.found(),
                what: "a time",
                example: "time_s or timestamp",
            })?;
        Ok((index, TimeUnit::from_column(self.columns[index])))
    }

    /// The one column of `kinds`; one with a unit in its name precedes those without.
    fn find(
        &self,
        kinds: &[ColumnKind],
        named: &[String],
        what: &'static str,
        example: &'static str,
    ) -> Result<usize, TraceError> {
        let is_named = |name: &str| named.iter().any(|one| one.eq_ignore_ascii_case(name));
        let fits = |name: &str| {
            let kind = ColumnKind::from_name(name);
            // A name of the user's may have no meaning for this program; it then names a rate.
            let unknown = kind == ColumnKind::Other && kinds.contains(&ColumnKind::Rate) && is_named(name);
            (kinds.contains(&kind) || unknown) && (named.is_empty() || is_named(name))
        };
        let all: Vec<usize> = (0..self.columns.len()).filter(|&index| fits(self.columns[index])).collect();
        let with_unit: Vec<usize> = all
            .iter()
            .copied()
            .filter(|&index| {
                let name = self.columns[index];
                RateUnit::from_column(name).is_some() || TimeUnit::from_column(name).is_some()
            })
            .collect();
        match if with_unit.is_empty() { all } else { with_unit }.as_slice() {
            [] => Err(TraceError::NoColumn { line: self.line, found: self.found(), what, example }),
            [one] => Ok(*one),
            several => {
                let columns: Vec<String> = several
                    .iter()
                    .map(|&index| format!("`{}`", shown(self.columns[index].as_bytes())))
                    .collect();
                Err(TraceError::SeveralColumns { line: self.line, found: columns.join(", "), what })
            }
        }
    }

    fn rows(bytes: &[u8]) -> Result<impl Iterator<Item = Line<'_>>, TraceError> {
        Ok(Lines::with_content(bytes)?.skip(1))
    }

    fn field<'b>(&self, line: &Line<'b>, index: usize) -> Result<&'b [u8], TraceError> {
        let field = line.text.split(|byte| *byte == self.separator).nth(index);
        field
            .map(bare_bytes)
            .ok_or_else(|| line.malformed(line.text, "a line with all columns of the header"))
    }
}

fn bare(text: &str) -> &str {
    text.trim().trim_matches('"').trim()
}

fn bare_bytes(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text).trim_ascii()
}

/// Times relative to the first one, if that is a date, a Unix time or very late; otherwise as they are.
#[derive(Default)]
struct Times {
    origin: Option<f64>,
    zone: Option<String>,
}

impl Times {
    fn parse(
        &mut self,
        line: &Line<'_>,
        text: &[u8],
        unit: Option<TimeUnit>,
    ) -> Result<Duration, TraceError> {
        let time = wall_clock::parse(line, text, unit)?;
        if let Some(zone) = time.zone {
            let before = self.zone.get_or_insert_with(|| zone.to_owned());
            if before != zone {
                let (before, found) = (before.clone(), zone.to_owned());
                return Err(TraceError::ZoneChanges { line: line.number, before, found });
            }
        }
        let is_clock = time.is_absolute || time.seconds > LATEST_BEGIN.as_secs_f64();
        let origin = *self.origin.get_or_insert(if is_clock { time.seconds } else { 0.0 });
        // f64 has about a microsecond left of a Unix time.
        let seconds = ((time.seconds - origin) * 1e6).round() / 1e6;
        if !(0.0..=MAX_SECONDS as f64).contains(&seconds) {
            let (what, found) = ("the time", shown(text));
            return Err(TraceError::OutOfRange { line: line.number, what, found, range: TIME_RANGE });
        }
        Ok(Duration::from_secs_f64(seconds))
    }
}

fn rate_value(line: &Line<'_>, text: &[u8], unit: RateUnit) -> Result<u64, TraceError> {
    let value = number(text).ok_or_else(|| line.malformed(text, "a number (0 for no service)"))?;
    let bps = value * unit.bits();
    if (0.0..=MAX_BPS).contains(&bps) {
        return Ok(bps.round() as u64);
    }
    let found = format!("{} {}", shown(text), unit.name());
    Err(TraceError::OutOfRange { line: line.number, what: "the rate", found, range: RATE_RANGE })
}

const TABLE: &str = "a table with a header, such as `time_s,throughput_mbps`";

/// Reads the rate of a table with a header, or of two columns without one if the unit is given.
pub(super) fn rate(bytes: &[u8], options: &TraceOptions) -> Result<RateSchedule, TraceError> {
    let Some(header) = Header::read(bytes)? else { return pairs(bytes, options) };
    let (time, time_unit) = header.time()?;
    let column = header.find(
        &[ColumnKind::Rate],
        &options.columns,
        "a rate",
        "with its unit, as in throughput_mbps",
    )?;
    let found = header.columns[column];
    let unit = match (RateUnit::from_column(found), options.unit) {
        (Some(own), Some(given)) if own != given => {
            let (own, given, found) = (own.name(), given.name(), shown(found.as_bytes()));
            return Err(TraceError::UnitConflict { line: header.line, found, own, given });
        }
        (own, given) => own.or(given),
    };
    let unit = unit.ok_or_else(|| TraceError::NoRateUnit {
        line: header.line,
        found: shown(found.as_bytes()),
        units: RateUnit::choices(),
    })?;
    let (mut steps, mut times) = (StepBuilder::new(), Times::default());
    for line in Header::rows(bytes)? {
        let at = times.parse(&line, header.field(&line, time)?, time_unit)?;
        steps.push(&line, at, rate_value(&line, header.field(&line, column)?, unit)?)?;
    }
    steps.finish().ok_or(TraceError::Empty { expected: TABLE })
}

/// Two columns without a header.
fn pairs(bytes: &[u8], options: &TraceOptions) -> Result<RateSchedule, TraceError> {
    let (mut steps, mut times) = (StepBuilder::new(), Times::default());
    for line in Lines::with_content(bytes)? {
        let unit = options.unit.ok_or_else(|| TraceError::NoRateUnit {
            line: line.number,
            found: shown(line.text),
            units: RateUnit::choices(),
        })?;
        let fields: Vec<&[u8]> = line
            .text
            .split(|byte| matches!(byte, b',' | b';') || byte.is_ascii_whitespace())
            .filter(|field| !field.is_empty())
            .collect();
        let [time, value] = fields.as_slice() else {
            return Err(line.malformed(line.text, "a time and a rate; tables of more columns need a header"));
        };
        let at = times.parse(&line, time, None)?;
        steps.push(&line, at, rate_value(&line, value, unit)?)?;
    }
    steps.finish().ok_or(TraceError::Empty { expected: TABLE })
}

/// Reads Pensieve's "cooked" format (Mao et al., SIGCOMM 2017): a second and Mbit/s, with blanks or a tab between them.
pub(super) fn pensieve(bytes: &[u8], options: &TraceOptions) -> Result<RateSchedule, TraceError> {
    const LINE: &str = "`second Mbit/s`, two numbers with a blank or a tab between them (pensieve)";
    let unit = options.unit.unwrap_or(RateUnit::Megabits);
    let (mut steps, mut times) = (StepBuilder::new(), Times::default());
    for line in Lines::with_content(bytes)? {
        let mut fields = line.fields();
        let (Some(time), Some(value), None) = (fields.next(), fields.next(), fields.next()) else {
            return Err(line.malformed(line.text, LINE));
        };
        if number(time).is_none() || number(value).is_none() {
            return Err(line.malformed(line.text, LINE));
        }
        let at = times.parse(&line, time, Some(TimeUnit::Seconds))?;
        let is_plausible =
            options.unit.is_some() || number(value).is_none_or(|value| value <= MOST_PENSIEVE_MBPS);
        if !is_plausible {
            let (found, units) = (shown(value), RateUnit::choices());
            return Err(TraceError::Implausible { line: line.number, found, units });
        }
        steps.push(&line, at, rate_value(&line, value, unit)?)?;
    }
    steps.finish().ok_or(TraceError::Empty { expected: LINE })
}

/// Reads the delays of a table; an empty or negative value is a lost packet.
pub(super) fn delays(bytes: &[u8], options: &TraceOptions) -> Result<(Vec<Sample>, Trip), TraceError> {
    let header = Header::read(bytes)?.ok_or(TraceError::Empty { expected: TABLE })?;
    let (time, time_unit) = header.time()?;
    let kinds = [ColumnKind::Delay, ColumnKind::RoundTrip];
    let column = header.find(
        &kinds,
        &options.columns,
        "a delay",
        "with its unit, as in delay_ms (one way) or rtt_ms",
    )?;
    let name = header.columns[column];
    let trip = if ColumnKind::from_name(name) == ColumnKind::Delay { Trip::OneWay } else { Trip::Round };
    let unit = TimeUnit::from_column(name)
        .or(options.delay_unit)
        .ok_or_else(|| TraceError::NoTimeUnit { line: header.line, found: shown(name.as_bytes()) })?;
    let mut times = Times::default();
    let mut samples: Vec<Sample> = Vec::new();
    for line in Header::rows(bytes)? {
        let at = times.parse(&line, header.field(&line, time)?, time_unit)?;
        let fate = delay_value(&line, header.field(&line, column)?, unit, trip)?;
        push(&mut samples, &line, at, fate)?;
    }
    if samples.is_empty() { Err(TraceError::Empty { expected: TABLE }) } else { Ok((samples, trip)) }
}

fn push(samples: &mut Vec<Sample>, line: &Line<'_>, at: Duration, fate: Fate) -> Result<(), TraceError> {
    if let Some(before) = samples.last()
        && at <= before.at
    {
        let (found, before) = (format!("{} s", at.as_secs_f64()), format!("{} s", before.at.as_secs_f64()));
        return Err(TraceError::Order { line: line.number, found, before, rule: "increase" });
    }
    if samples.len() == MAX_VALUES {
        return Err(TraceError::TooLong { line: line.number });
    }
    samples.push(Sample { at, fate });
    Ok(())
}

fn delay_value(line: &Line<'_>, text: &[u8], unit: TimeUnit, trip: Trip) -> Result<Fate, TraceError> {
    if text.is_empty() || text.eq_ignore_ascii_case(b"nan") {
        return Ok(Fate::LOST);
    }
    let value =
        number(text).ok_or_else(|| line.malformed(text, "a delay (empty or -1 for a lost packet)"))?;
    if value < 0.0 {
        return Ok(Fate::LOST);
    }
    let seconds = value * unit.seconds();
    let most = LONGEST_DELAY.as_secs_f64() * if trip == Trip::Round { 2.0 } else { 1.0 };
    if seconds > most {
        let found = format!("{} {}", shown(text), unit.name());
        return Err(TraceError::OutOfRange {
            line: line.number,
            what: "the delay",
            found,
            range: DELAY_RANGE,
        });
    }
    Ok(Fate::Answered(Duration::from_secs_f64(seconds)))
}

/// Reads LENS's table of IRTT's measurements: Unix time in ns, delays in ms, and −1 in the column of the direction that
/// lost the packet.
pub(super) fn lens(bytes: &[u8]) -> Result<Vec<Sample>, TraceError> {
    let header = Header::read(bytes)?.filter(Header::is_lens);
    let header =
        header.ok_or(TraceError::Empty { expected: "of the columns timestamp,rtt,uplink,downlink" })?;
    let mut times = Times::default();
    let mut samples = Vec::new();
    for line in Header::rows(bytes)? {
        let at = times.parse(&line, header.field(&line, 0)?, None)?;
        let value =
            |index| delay_value(&line, header.field(&line, index)?, TimeUnit::Milliseconds, Trip::Round);
        let fate = match (value(1)?, value(2)?, value(3)?) {
            (_, Fate::Lost(_), _) => Fate::Lost(Some(Direction::Upload)),
            (_, _, Fate::Lost(_)) => Fate::Lost(Some(Direction::Download)),
            (rtt, ..) => rtt,
        };
        push(&mut samples, &line, at, fate)?;
    }
    if samples.is_empty() { Err(TraceError::Empty { expected: TABLE }) } else { Ok(samples) }
}

/// Reads the loss of a table: probabilities from 0 to 1, or percentages if the column's name or the value says so.
pub(super) fn loss(bytes: &[u8], options: &TraceOptions) -> Result<LossSchedule, TraceError> {
    const RANGE: &str = "0 to 1 (or 0 to 100 in a column with percent in its name)";
    let header = Header::read(bytes)?.ok_or(TraceError::Empty { expected: TABLE })?;
    let (time, time_unit) = header.time()?;
    let column =
        header.find(&[ColumnKind::Loss], &options.columns, "a loss", "as in loss or loss_percent")?;
    let lower = header.columns[column].to_ascii_lowercase();
    let is_percent =
        words(&lower).iter().any(|word| word.contains('%') || matches!(*word, "percent" | "pct"));
    let (mut steps, mut times) = (StepBuilder::new(), Times::default());
    for line in Header::rows(bytes)? {
        let at = times.parse(&line, header.field(&line, time)?, time_unit)?;
        let text = header.field(&line, column)?;
        let (digits, percent) = match text.strip_suffix(b"%") {
            Some(digits) => (digits.trim_ascii_end(), true),
            None => (text, is_percent),
        };
        let value = number(digits).ok_or_else(|| line.malformed(text, "a loss"))?;
        let loss = if percent { value / 100.0 } else { value };
        if !(0.0..=1.0).contains(&loss) {
            let found = shown(text);
            return Err(TraceError::OutOfRange { line: line.number, what: "the loss", found, range: RANGE });
        }
        steps.push(&line, at, loss)?;
    }
    steps.finish().ok_or(TraceError::Empty { expected: TABLE })
}
