//! Reads the rate, the delay or the loss of a trace in any format.

use super::detect::{Shape, detect_rate, detect_samples, shape};
use super::error::TraceError;
use super::format::TraceFormat;
use super::leoreplayer::leoreplayer;
use super::opportunities::{cellreplay, mahimahi};
use super::options::TraceOptions;
use super::samples::{Sample, Trip};
use super::table::bytes_per_second;
use super::{csv, json, ping, samples, table};
use crate::{DelaySchedule, LossSchedule, RateModel};
use std::sync::Arc;

/// Reads a rate trace; without a format, detects it from the content.
///
/// ```rust
/// use pathbench_link::trace::{TraceOptions, rate};
///
/// // Two opportunities of 1500 bytes within 2 ms.
/// let model = rate(b"1\n2\n", &TraceOptions::default())?;
/// assert_eq!(model.mean_rate_bps(), Some(12_000_000));
/// assert!(rate(b"2\n1\n", &TraceOptions::default()).unwrap_err().to_string().starts_with("line 2"));
/// # Ok::<(), pathbench_link::trace::TraceError>(())
/// ```
pub fn rate(bytes: &[u8], options: &TraceOptions) -> Result<RateModel, TraceError> {
    let format = options.format.map_or_else(|| detect_rate(bytes, options.unit), Ok)?;
    let steps = match format {
        TraceFormat::Mahimahi => return Ok(RateModel::Opportunities(Arc::new(mahimahi(bytes)?))),
        TraceFormat::CellReplay => return Ok(RateModel::Trains(Arc::new(cellreplay(bytes)?))),
        TraceFormat::BytesPerSecond => bytes_per_second(bytes)?,
        TraceFormat::Pensieve => csv::pensieve(bytes, options)?,
        TraceFormat::Csv => csv::rate(bytes, options)?,
        TraceFormat::AlphaRtc => {
            json::alphartc(bytes, options.direction)?.rate.ok_or_else(|| format.lacks("capacity"))?
        }
        TraceFormat::LeoReplayer | TraceFormat::Irtt | TraceFormat::Ping => return Err(format.lacks("rate")),
    };
    Ok(RateModel::Steps(Arc::new(steps)))
}

/// Reads a trace of the delays of one direction; round trips become their half.
pub fn delay(bytes: &[u8], options: &TraceOptions) -> Result<DelaySchedule, TraceError> {
    let Some(format) = options.format.map_or_else(|| detect_samples(bytes), |format| Ok(Some(format)))?
    else {
        return table::delay(bytes);
    };
    if format == TraceFormat::AlphaRtc {
        return json::alphartc(bytes, options.direction)?.delay.ok_or_else(|| format.lacks("rtt"));
    }
    if format == TraceFormat::LeoReplayer {
        return leoreplayer(bytes);
    }
    let (samples, trip) = samples_of(bytes, format, options, "delay")?;
    samples::delays(&samples, trip).ok_or_else(|| format.lacks("answered probe"))
}

/// Reads a trace of the loss of one direction.
pub fn loss(bytes: &[u8], options: &TraceOptions) -> Result<LossSchedule, TraceError> {
    let Some(format) = options.format.map_or_else(|| detect_samples(bytes), |format| Ok(Some(format)))?
    else {
        return table::loss(bytes);
    };
    match format {
        TraceFormat::AlphaRtc => {
            json::alphartc(bytes, options.direction)?.loss.ok_or_else(|| format.lacks("loss"))
        }
        TraceFormat::Csv => csv::loss(bytes, options),
        _ => {
            let (samples, trip) = samples_of(bytes, format, options, "loss")?;
            samples::losses(&samples, trip, options.direction).ok_or_else(|| format.lacks("probe"))
        }
    }
}

fn samples_of(
    bytes: &[u8],
    format: TraceFormat,
    options: &TraceOptions,
    what: &'static str,
) -> Result<(Vec<Sample>, Trip), TraceError> {
    match format {
        TraceFormat::Csv => csv::delays(bytes, options),
        TraceFormat::Irtt if matches!(shape(bytes, "")?.0, Shape::Json) => {
            Ok((json::irtt(bytes)?, Trip::Round))
        }
        TraceFormat::Irtt => Ok((csv::lens(bytes)?, Trip::Round)),
        TraceFormat::Ping => Ok((ping::ping(bytes)?.0, Trip::Round)),
        _ => Err(format.lacks(what)),
    }
}
