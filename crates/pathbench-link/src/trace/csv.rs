//! Tables with a header: columns are chosen by their names and units. And Pensieve's tables without one.

use super::error::TraceError;
use super::header::{ColumnKind, Header, is_percent};
use super::limits::{MAX_SECONDS, MAX_VALUES};
use super::lines::{Line, Lines, number, shown};
use super::options::TraceOptions;
use super::samples::{Fate, Sample, Trip};
use super::steps::{INCREASE, StepBuilder};
use super::unit::{RateUnit, TimeUnit, words};
use super::wall_clock;
use crate::{LossSchedule, RateSchedule};
use pathbench_record::direction::Direction;
use std::time::Duration;

const MAX_BPS: f64 = 1e12;
const RATE_RANGE: &str = "0 to 1 Tbit/s";
const TIME_RANGE: &str = "0 to 2678400 seconds (31 days) after the first";
pub(super) const LONGEST_DELAY: Duration = Duration::from_secs(60);
pub(super) const DELAY_RANGE: &str = "0 to 60 s";
/// Larger values are in another unit: Pensieve's traces are of mobile networks.
const MOST_PENSIEVE_MBPS: f64 = 10_000.0;
/// Of a file that nothing but its two columns makes one of Pensieve's: one in kbit/s looks the same.
const MOST_DETECTED_MBPS: f64 = 1_000.0;

/// Times relative to the first one, so that all quantities of a table begin together.
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
        let origin = *self.origin.get_or_insert(time.seconds);
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

/// The meanings of columns without a unit in their names, which a reader of the figures should know.
pub(super) fn assumptions(bytes: &[u8], options: &TraceOptions) -> Result<Vec<String>, TraceError> {
    let (Some(header), Some(first)) = (Header::read(bytes)?, Header::rows(bytes)?.next()) else {
        return Ok(Vec::new());
    };
    let mut notes = Vec::new();
    let name = |index: usize| shown(header.columns[index].as_bytes());
    let (time, unit) = header.time()?;
    let text = header.field(&first, time)?;
    if unit.is_none() && number(text).is_some() && !wall_clock::parse(&first, text, None)?.is_absolute {
        notes.push(format!("the column `{}` has no unit; its times are taken as seconds", name(time)));
    }
    if let Ok(loss) = header.find(&[ColumnKind::Loss], &options.columns, "", "") {
        let lower = header.columns[loss].to_ascii_lowercase();
        if !is_percent(&words(&lower)) && !header.field(&first, loss)?.ends_with(b"%") {
            notes.push(format!("the column `{}` has no unit; its losses are taken as 0 to 1", name(loss)));
        }
    }
    Ok(notes)
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
        let most = if options.format.is_some() { MOST_PENSIEVE_MBPS } else { MOST_DETECTED_MBPS };
        let is_plausible = options.unit.is_some() || number(value).is_none_or(|value| value <= most);
        if !is_plausible {
            let (line, found, units) = (line.number, shown(value), RateUnit::choices());
            return Err(TraceError::Implausible { line, found, most: most as u32, units });
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
        return Err(TraceError::Order { line: line.number, found, before, rule: INCREASE });
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
    let is_percent = is_percent(&words(&lower));
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
