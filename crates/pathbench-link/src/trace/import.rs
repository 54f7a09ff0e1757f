//! All quantities of a file, and the tables that say the same in this program's own formats.

use super::detect::{Shape, detect_rate, detect_samples, shape};
use super::error::TraceError;
use super::format::TraceFormat;
use super::header::Header;
use super::options::TraceOptions;
use super::ping::PingClock;
use super::samples::Trip;
use super::{csv, json, ping, read, samples};
use crate::{DelaySchedule, LossSchedule, RateModel, RateSchedule};
use std::fmt::Write as _;
use std::time::Duration;

/// The quantities of a trace.
#[derive(Debug)]
pub struct TraceContent {
    pub format: TraceFormat,
    pub rate: Option<RateModel>,
    /// Of one direction.
    pub delay: Option<DelaySchedule>,
    /// Of one direction.
    pub loss: Option<LossSchedule>,
    /// Facts about the conversion that change the meaning of the figures.
    pub notes: Vec<String>,
}

const HALVED: &str = "the delay of one direction is half of the measured round trip";
const HALVED_LOSS: &str = "a loss p of round trips is taken as 1 − √(1 − p) in each direction";

/// Reads all quantities of a file; without a format, detects it from the content.
pub fn import(bytes: &[u8], given: &TraceOptions) -> Result<TraceContent, TraceError> {
    let format = given.format.map_or_else(|| detect(bytes, given), Ok)?;
    let options = TraceOptions { format: Some(format), ..given.clone() };
    let mut content = TraceContent { format, rate: None, delay: None, loss: None, notes: Vec::new() };
    match format {
        TraceFormat::Mahimahi | TraceFormat::CellReplay | TraceFormat::BytesPerSecond => {
            content.rate = Some(read::rate(bytes, &options)?);
        }
        // A format that the user gave allows more than one that was detected.
        TraceFormat::Pensieve => content.rate = Some(read::rate(bytes, given)?),
        TraceFormat::LeoReplayer => content.delay = Some(read::delay(bytes, &options)?),
        TraceFormat::AlphaRtc => {
            let trace = json::alphartc(bytes, options.direction)?;
            content.notes.push(format!("the trace is of the {}", trace.direction.name()));
            content.notes.extend(trace.delay.is_some().then(|| HALVED.to_owned()));
            content.notes.extend(trace.has_jitter.then(|| "its jitter is left out".to_owned()));
            content.rate = trace.rate.map(|rate| RateModel::Steps(rate.into()));
            (content.delay, content.loss) = (trace.delay, trace.loss);
        }
        TraceFormat::Csv => import_columns(bytes, &options, &mut content)?,
        TraceFormat::Irtt | TraceFormat::Ping => {
            content.delay = Some(read::delay(bytes, &options)?);
            content.loss = Some(read::loss(bytes, &options)?);
            content.notes.extend([HALVED.to_owned(), loss_note(&options)]);
            if format == TraceFormat::Ping {
                content.notes.push(clock_note(ping::ping(bytes)?.1));
            }
        }
    }
    Ok(content)
}

fn detect(bytes: &[u8], options: &TraceOptions) -> Result<TraceFormat, TraceError> {
    let (shape, first) = shape(bytes, "of one of the formats of traces")?;
    match shape {
        Shape::Json | Shape::Ping | Shape::Header => {
            detect_samples(bytes).map(|format| format.unwrap_or(TraceFormat::Csv))
        }
        Shape::SingleNumber => Err(TraceError::SingleNumbers { line: first.number }),
        _ => detect_rate(bytes, options.unit),
    }
}

fn loss_note(options: &TraceOptions) -> String {
    match options.direction {
        Some(direction) => format!(
            "the loss is that of the {}, if the file has the direction of each loss; otherwise {HALVED_LOSS}",
            direction.name()
        ),
        None => HALVED_LOSS.to_owned(),
    }
}

fn clock_note(clock: PingClock) -> String {
    match clock {
        PingClock::Printed => "the times are those of ping -D".to_owned(),
        PingClock::Statistics(interval) => format!(
            "the lines have no times (ping -D prints them): a probe each {} s, by the statistics at the end",
            interval.as_secs_f64()
        ),
        PingClock::Assumed => {
            "the lines have no times (ping -D prints them): a probe per second is assumed, ping's default"
                .to_owned()
        }
    }
}

/// Reads each quantity that has a column.
fn import_columns(
    bytes: &[u8],
    options: &TraceOptions,
    content: &mut TraceContent,
) -> Result<(), TraceError> {
    let mut missing = None;
    let mut found = |error: TraceError| match error {
        TraceError::NoColumn { .. } => {
            missing.get_or_insert(error);
            Ok(())
        }
        error => Err(error),
    };
    match csv::rate(bytes, options) {
        Ok(rate) => content.rate = Some(RateModel::Steps(rate.into())),
        Err(error) => found(error)?,
    }
    // A table without a header has a rate only.
    if Header::read(bytes)?.is_some() {
        match csv::delays(bytes, options) {
            Ok((probes, trip)) => {
                content.delay = samples::delays(&probes, trip);
                content.loss =
                    samples::losses(&probes, trip, None).filter(|loss| loss.mean_loss() != Some(0.0));
                if trip == Trip::Round {
                    content.notes.push(HALVED.to_owned());
                    content.notes.extend(content.loss.is_some().then(|| HALVED_LOSS.to_owned()));
                }
            }
            Err(error) => found(error)?,
        }
        match csv::loss(bytes, options) {
            Ok(loss) => content.loss = Some(loss),
            Err(error) => found(error)?,
        }
    }
    match missing {
        Some(error) if content.rate.is_none() && content.delay.is_none() && content.loss.is_none() => {
            Err(error)
        }
        _ => {
            content.notes.extend(csv::assumptions(bytes, options)?);
            Ok(())
        }
    }
}

/// `second,bytes_per_second` of a rate in steps.
pub fn rate_table(rate: &RateSchedule) -> String {
    table("second,bytes_per_second", rate, |bps| decimal(*bps as f64 / 8.0))
}

/// `second,delay_ms`.
pub fn delay_table(delay: &DelaySchedule) -> String {
    table("second,delay_ms", delay, |delay| decimal(delay.as_nanos() as f64 / 1e6))
}

/// `second,loss`.
pub fn loss_table(loss: &LossSchedule) -> String {
    table("second,loss", loss, |loss| decimal(*loss))
}

fn decimal(value: f64) -> String {
    let text = format!("{value:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A table that the readers of traces turn into the same schedule.
fn table<V>(header: &str, steps: &crate::Steps<V>, text: impl Fn(&V) -> String) -> String {
    let mut table = format!("{header}\n");
    let mut line = |at: Duration, value: &V| {
        let _infallible = writeln!(table, "{},{}", decimal(at.as_nanos() as f64 / 1e9), text(value));
    };
    for (at, value) in &steps.steps {
        line(*at, value);
    }
    // A reader lets the last value last as long as the one before it, so its time is divided into two where they differ.
    if let (crate::ScheduleEnd::Repeat(period), Some((last, value))) = (steps.end, steps.steps.last()) {
        let lasts = period.saturating_sub(*last);
        let before = steps.steps.len().checked_sub(2).map(|index| last.saturating_sub(steps.steps[index].0));
        if before != Some(lasts) {
            line(*last + lasts / 2, value);
        }
    }
    table
}
