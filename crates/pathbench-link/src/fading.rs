//! Computes a schedule of link changes for a moving user.
//!
//! [`Walk`] models a radio: distance → path loss → signal-to-noise ratio → share of the rate, and frame errors.
//! [`Ramp`] interpolates from the current model to given values. The same model and parameters give the same schedule.

use crate::{
    ArqModel, BaseDelay, ChangeSchedule, GilbertElliott, LinkChange, LinkModel, LossModel, RateModel,
};
use pathbench_record::text::duration;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// Interval between changes.
pub const STEP: Duration = Duration::from_millis(100);

/// Longest fade. Limited because the complete schedule is computed in advance.
pub const LONGEST: Duration = Duration::from_secs(24 * 3_600);

/// ARQ of a fading link whose model has none: seven retries (`dot11ShortRetryLimit` of IEEE 802.11-2016, annex C). The
/// pause is the mean backoff of the seven retries, whose contention windows grow from 31 to 1023 slots of 9 µs
/// (sections 10.3.3 and 17.4.4), in whole milliseconds.
pub const DEFAULT_ARQ: ArqModel = ArqModel { retries: 7, pause: Duration::from_millis(2) };

/// Receiver sensitivity in dBm and rate in kbit/s of each MCS with one stream, 20 MHz, long guard interval: IEEE
/// 802.11-2016, sections 21.3.18.1 and 21.5 (VHT; MCS 9 does not exist at 20 MHz).
const MCS: [(f64, f64); 9] = [
    (-82.0, 6_500.0),
    (-79.0, 13_000.0),
    (-77.0, 19_500.0),
    (-74.0, 26_000.0),
    (-70.0, 39_000.0),
    (-66.0, 52_000.0),
    (-65.0, 58_500.0),
    (-64.0, 65_000.0),
    (-59.0, 78_000.0),
];

/// Noise assumed by the sensitivities: thermal noise of 20 MHz (-101 dBm) and a noise figure of 10 dB. In addition, the
/// sensitivities assume an implementation margin of 5 dB (IEEE 802.11-2016, section 17.3.10.2).
const STANDARD_NOISE_DBM: f64 = -91.0;
const STANDARD_MARGIN_DB: f64 = 5.0;

/// Frame error rate at the lowest MCS's sensitivity (IEEE 802.11-2016, section 21.3.18.1), and the decrease of the
/// signal that raises it to one half. The decrease is an estimate: measured curves need 1 to 2 dB.
const ERRORS_AT_SENSITIVITY: f64 = 0.1;
const DB_TO_HALF: f64 = 1.5;

/// A walk to or from an access point: log-distance path loss, ideal rate adaptation, and frame errors if even the
/// lowest rate is too high.
///
/// Rate and frame success are relative to their values at the start, which the current model describes. Frame errors
/// apply to each attempt: ARQ retransmits, so the link first becomes slow and then loses packets. A model without ARQ
/// gets [`DEFAULT_ARQ`], and its loss becomes the loss of each attempt. An unlimited rate stays unlimited. The base
/// delay does not change, because radio propagation adds almost none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Walk {
    /// Metres per second; about 1.4 for a pedestrian.
    pub speed_mps: f64,
    /// Distance at the start, in metres.
    pub from_m: f64,
    /// Distance at the end, in metres: larger (away) or smaller (back).
    pub to_m: f64,
    /// Path loss exponent: 2 in free space, about 3 within buildings (ITU-R P.1238-10, table 2), up to 6 through walls.
    pub exponent: f64,
    pub transmit_dbm: f64,
    /// Noise and interference at the receiver.
    pub noise_dbm: f64,
    pub loss_at_1m_db: f64,
}

impl Default for Walk {
    /// Out of a building at walking speed, from an access point to a distance of 100 m: 5 GHz (free-space loss of
    /// 46.8 dB at 1 m, Friis), 20 dBm, the noise of the standard.
    fn default() -> Self {
        Self {
            speed_mps: 1.4,
            from_m: 5.0,
            to_m: 100.0,
            exponent: 3.0,
            transmit_dbm: 20.0,
            noise_dbm: STANDARD_NOISE_DBM,
            loss_at_1m_db: 46.8,
        }
    }
}

/// Why a link cannot fade with these parameters.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FadingError {
    #[error("`{name}` of a fade is {value}; it must be {range}")]
    Parameter { name: &'static str, value: f64, range: &'static str },
    #[error("the fade takes {}, more than a day; raise the speed or shorten the distance", duration(*.length))]
    TooLong { length: Duration },
    #[error("the link's {what} follows a trace or a schedule, so it cannot fade; give a constant one")]
    Traced { what: &'static str },
}

/// Quality of a radio at one distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    pub snr_db: f64,
    /// Physical rate of the best MCS that the signal allows.
    pub rate_kbps: f64,
    pub frame_errors: f64,
}

impl Walk {
    pub fn duration(&self) -> Duration {
        Duration::try_from_secs_f64((self.to_m - self.from_m).abs() / self.speed_mps).unwrap_or(Duration::MAX)
    }

    /// Distance after `elapsed`.
    pub fn distance_m(&self, elapsed: Duration) -> f64 {
        let walked = self.speed_mps * elapsed.as_secs_f64();
        if self.to_m >= self.from_m {
            (self.from_m + walked).min(self.to_m)
        } else {
            (self.from_m - walked).max(self.to_m)
        }
    }

    pub fn quality(&self, distance_m: f64) -> Quality {
        let path_loss_db = self.loss_at_1m_db + 10.0 * self.exponent * distance_m.max(1.0).log10();
        let snr_db = self.transmit_dbm - path_loss_db - self.noise_dbm;
        let needed_db = |sensitivity: f64| sensitivity - STANDARD_NOISE_DBM - STANDARD_MARGIN_DB;
        let (lowest_dbm, lowest_kbps) = MCS[0];
        let rate_kbps = MCS
            .iter()
            .rev()
            .find(|(sensitivity, _)| snr_db >= needed_db(*sensitivity))
            .map_or(lowest_kbps, |(_, kbps)| *kbps);
        let steepness = (1.0 / ERRORS_AT_SENSITIVITY - 1.0).ln() / DB_TO_HALF;
        let half_db = needed_db(lowest_dbm) - DB_TO_HALF;
        let frame_errors = 1.0 / (1.0 + (steepness * (snr_db - half_db)).exp());
        Quality { snr_db, rate_kbps, frame_errors }
    }

    /// The walk as changes of `base`, the model at its start.
    pub fn changes(&self, base: &LinkModel) -> Result<ChangeSchedule, FadingError> {
        self.check()?;
        let duration = self.duration();
        if duration > LONGEST {
            return Err(FadingError::TooLong { length: duration });
        }
        let begin = self.quality(self.from_m);
        let rate_bps = constant_rate(base)?;
        fadable(&base.loss)?;
        Ok(schedule(duration, base, |elapsed| {
            let quality = self.quality(self.distance_m(elapsed));
            let rate_bps = rate_bps.map(|rate_bps| {
                ((rate_bps as f64 * (quality.rate_kbps / begin.rate_kbps)).round() as u64).max(1)
            });
            let success = (1.0 - quality.frame_errors) / (1.0 - begin.frame_errors).max(f64::MIN_POSITIVE);
            LinkChange {
                rate: rate_bps.map(RateModel::Constant),
                arq: Some(Some(base.arq.unwrap_or(DEFAULT_ARQ))),
                loss: Some(with_success(&base.loss, success)),
                ..LinkChange::default()
            }
        }))
    }

    fn check(&self) -> Result<(), FadingError> {
        let parameters = [
            ("speed", self.speed_mps, 0.001, 1_000.0, "0.001 to 1000 m/s"),
            ("from", self.from_m, 1.0, 100_000.0, "1 to 100000 m"),
            ("to", self.to_m, 1.0, 100_000.0, "1 to 100000 m"),
            ("exponent", self.exponent, 1.0, 8.0, "1 to 8"),
            ("transmit power", self.transmit_dbm, -50.0, 100.0, "-50 to 100 dBm"),
            ("noise", self.noise_dbm, -200.0, 0.0, "-200 to 0 dBm"),
            ("loss at one metre", self.loss_at_1m_db, 0.0, 200.0, "0 to 200 dB"),
        ];
        match parameters.into_iter().find(|(_, value, least, most, _)| !(least..=most).contains(&value)) {
            Some((name, value, _, _, range)) => Err(FadingError::Parameter { name, value, range }),
            None => Ok(()),
        }
    }
}

/// A linear change from the current model to other values. A Gilbert-Elliott loss becomes an independent loss that
/// starts at its mean; an unlimited rate changes to the new rate immediately.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ramp {
    pub duration: Duration,
    /// Bits per second at the end, at least 1; `None`: unchanged.
    pub rate_bps: Option<u64>,
    /// Probability of loss at the end, 0 to 1; `None`: unchanged.
    pub loss: Option<f64>,
    /// Base delay at the end; `None`: unchanged.
    pub delay: Option<Duration>,
}

impl Ramp {
    /// The ramp as changes of `base`, the model at its start.
    pub fn changes(&self, base: &LinkModel) -> Result<ChangeSchedule, FadingError> {
        if self.duration > LONGEST {
            return Err(FadingError::TooLong { length: self.duration });
        }
        let rate = match self.rate_bps {
            None => None,
            Some(to) => Some((constant_rate(base)?.unwrap_or(to) as f64, to as f64)),
        };
        let loss = match (self.loss, &base.loss) {
            (None, _) => None,
            (Some(to), _) if !(0.0..=1.0).contains(&to) => {
                return Err(FadingError::Parameter { name: "loss", value: to, range: "0 to 1" });
            }
            (Some(to), LossModel::Independent(from)) => Some((*from, to)),
            (Some(to), LossModel::GilbertElliott(channel)) => Some((channel.mean_loss(), to)),
            (Some(_), LossModel::Bursts { .. } | LossModel::Schedule(_)) => {
                return Err(FadingError::Traced { what: "loss" });
            }
        };
        let delay = match (self.delay, &base.delay) {
            (None, _) => None,
            (Some(to), BaseDelay::Constant(from)) => Some((from.as_secs_f64(), to.as_secs_f64())),
            (Some(_), BaseDelay::Schedule(_)) => return Err(FadingError::Traced { what: "delay" }),
        };
        Ok(schedule(self.duration, base, |elapsed| {
            let share = if self.duration.is_zero() {
                1.0
            } else {
                (elapsed.as_secs_f64() / self.duration.as_secs_f64()).min(1.0)
            };
            let at = |(from, to): (f64, f64)| from + (to - from) * share;
            let base_delay =
                |delay| BaseDelay::Constant(Duration::try_from_secs_f64(at(delay)).unwrap_or_default());
            LinkChange {
                rate: rate.map(|rate| RateModel::Constant((at(rate).round() as u64).max(1))),
                loss: loss.map(|loss| LossModel::Independent(at(loss).clamp(0.0, 1.0))),
                delay: delay.map(base_delay),
                ..LinkChange::default()
            }
        }))
    }
}

/// Changes every [`STEP`] and at the end, without values that equal those of the previous step.
fn schedule(
    duration: Duration,
    base: &LinkModel,
    change_at: impl Fn(Duration) -> LinkChange,
) -> ChangeSchedule {
    let steps = (duration.as_nanos() / STEP.as_nanos()) as u32;
    let times = (0..=steps).map(|step| STEP * step).chain((STEP * steps < duration).then_some(duration));
    let mut before = base.clone();
    let mut changes = Vec::new();
    for at in times {
        let mut change = change_at(at);
        change.leave_out_unchanged(&before);
        change.apply(&mut before);
        if change != LinkChange::default() {
            changes.push((at, change));
        }
    }
    ChangeSchedule { changes }
}

/// `None` if the rate is unlimited.
fn constant_rate(base: &LinkModel) -> Result<Option<u64>, FadingError> {
    match base.rate {
        RateModel::Constant(rate_bps) => Ok(Some(rate_bps)),
        RateModel::Unlimited => Ok(None),
        RateModel::Steps(_) | RateModel::Opportunities(_) | RateModel::Trains(_) => {
            Err(FadingError::Traced { what: "rate" })
        }
    }
}

fn fadable(loss: &LossModel) -> Result<(), FadingError> {
    match loss {
        LossModel::Independent(_) | LossModel::GilbertElliott(_) => Ok(()),
        LossModel::Bursts { .. } | LossModel::Schedule(_) => Err(FadingError::Traced { what: "loss" }),
    }
}

/// `loss` with its probability of success multiplied by `success`, at most 1.
fn with_success(loss: &LossModel, success: f64) -> LossModel {
    let scale = |loss: f64| (1.0 - (1.0 - loss) * success).clamp(0.0, 1.0);
    match loss {
        LossModel::Independent(loss) => LossModel::Independent(scale(*loss)),
        LossModel::GilbertElliott(channel) => LossModel::GilbertElliott(GilbertElliott {
            loss_good: scale(channel.loss_good),
            loss_bad: scale(channel.loss_bad),
            ..*channel
        }),
        other => other.clone(),
    }
}
