//! Arguments of netem in `netemAt_…`.
//!
//! Source: tc-netem(8). A change replaces all parameters: absent ones return to their defaults.

use super::quantity::{rounded_percent, tc_percent, tc_rate, tc_time};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct NetemArguments {
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
    /// Correlation of the jitter in percent.
    pub(super) jitter_correlation: f64,
    pub(super) distribution: Option<&'static str>,
    pub(super) loss: NetemLoss,
    pub(super) loss_correlation: f64,
    pub(super) duplicate: f64,
    pub(super) corrupt: f64,
    pub(super) reorder: Option<NetemReorder>,
    /// Of the reordering.
    gap: Option<u32>,
    pub(super) rate_bps: Option<u64>,
    /// Most packets that netem holds.
    pub(super) limit: Option<u32>,
}

/// Packets that netem sends at once, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NetemReorder {
    pub(super) share: f64,
    pub(super) correlation: f64,
    pub(super) gap: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NetemLoss {
    Independent(f64),
    Chain { to_bad: f64, to_good: f64, loss_bad: f64, loss_good: f64 },
}

impl Default for NetemLoss {
    fn default() -> Self {
        Self::Independent(0.0)
    }
}

const LONGEST_DELAY: Duration = Duration::from_secs(60);
const MOST_PACKETS: u32 = 1_000_000_000;
/// netem's limit if none is given (`netem_parse_opt` of iproute2).
const DEFAULT_LIMIT: u32 = 1_000;
/// The smallest and the largest Ethernet frame of a link with the usual MTU, without FCS.
const SMALLEST_FRAME_BYTES: u64 = 60;
const LARGEST_FRAME_BYTES: u64 = 1_514;

/// The effect of netem's limit, which counts the packets in the delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LimitEffect {
    /// So many packets of the largest size do not pass in each delay at the rate.
    Caps { packets: u32, bps: u64, given: bool },
    /// A given limit that no packets of any size reach at the rate.
    NeverReached { packets: u32 },
    /// The default limit, which is not reached.
    None,
}

impl NetemArguments {
    /// Most packets in the delay and, if netem has a rate, waiting for it.
    pub(super) fn limit_packets(&self) -> u32 {
        self.limit.unwrap_or(DEFAULT_LIMIT)
    }

    pub(super) fn limit_effect(&self, rate_bps: u64) -> LimitEffect {
        let packets = self.limit_packets();
        let delay_ns = (self.delay + self.jitter).as_nanos();
        let bps = |frame_bytes: u64| {
            let bits = u128::from(packets) * u128::from(frame_bytes) * 8 * 1_000_000_000;
            bits.checked_div(delay_ns).map_or(u64::MAX, |bps| u64::try_from(bps).unwrap_or(u64::MAX))
        };
        let (least, most) = (bps(SMALLEST_FRAME_BYTES), bps(LARGEST_FRAME_BYTES));
        match self.limit {
            Some(_) if least >= rate_bps => LimitEffect::NeverReached { packets },
            Some(_) => LimitEffect::Caps { packets, bps: most, given: true },
            None if most < rate_bps => LimitEffect::Caps { packets, bps: most, given: false },
            None => LimitEffect::None,
        }
    }

    /// The correlation of the jitter in percent, if it has an effect: the kernel takes the remainder of a correlated
    /// number of 32 bits, by twice the jitter in nanoseconds or by the length of a table (`tabledist` of
    /// `net/sched/sch_netem.c`), and remainders of numbers that differ by many times the divisor are independent.
    pub(super) fn effective_jitter_correlation(&self) -> f64 {
        let spread = (1.0 - self.jitter_correlation / 100.0) * 4_294_967_296.0;
        let divisor = 2.0 * self.jitter.as_nanos() as f64;
        let by_remainder = self.distribution.is_none_or(|name| name == "uniform");
        if by_remainder && spread < 10.0 * divisor { self.jitter_correlation } else { 0.0 }
    }
}

impl NetemArguments {
    pub(super) fn read(text: &str) -> Result<Self, (String, String)> {
        let mut netem = Self::default();
        let mut words = Words { words: text.split_ascii_whitespace().collect(), next: 0 };
        if words.words.is_empty() {
            return Err(wrong(
                "netem is given no argument",
                "write what changes, as in 5,delay 20ms loss 1%",
            ));
        }
        while let Some(word) = words.take() {
            match word {
                "delay" | "latency" => netem.delay(&mut words)?,
                "distribution" => netem.distribution(&mut words)?,
                "loss" | "drop" => netem.loss(&mut words)?,
                "duplicate" => netem.duplicate = words.value(word, tc_percent, PERCENT)?,
                "corrupt" => netem.corrupt = words.value(word, tc_percent, PERCENT)?,
                "reorder" => netem.reorder(&mut words)?,
                "gap" => netem.gap = Some(words.value(word, packets, "a number of packets")?),
                "rate" => netem.rate_bps = Some(words.value(word, tc_rate, "a rate, as in 10mbit")?),
                "limit" => netem.limit = Some(words.value(word, packets, "a number of packets")?),
                other => {
                    let remedy = "leave it out; known are delay, distribution, loss, duplicate, corrupt, reorder, gap, rate, \
                                  limit";
                    return Err(wrong(&format!("netem's `{other}` cannot be imported"), remedy));
                }
            }
            words.no_correlation(word)?;
        }
        netem.check()
    }

    fn delay(&mut self, words: &mut Words<'_>) -> Result<(), (String, String)> {
        let example = "a time, as in 20ms (tc takes a number without unit for microseconds)";
        self.delay = words.value("delay", tc_time, example)?;
        self.jitter = words.optional(tc_time).unwrap_or_default();
        if !self.jitter.is_zero() {
            self.jitter_correlation = words.optional(tc_percent).unwrap_or_default();
        }
        Ok(())
    }

    fn reorder(&mut self, words: &mut Words<'_>) -> Result<(), (String, String)> {
        let share = words.value("reorder", tc_percent, PERCENT)?;
        let correlation = words.optional(tc_percent).unwrap_or_default();
        self.reorder = (share > 0.0).then_some(NetemReorder { share, correlation, gap: 1 });
        Ok(())
    }

    fn distribution(&mut self, words: &mut Words<'_>) -> Result<(), (String, String)> {
        let known = |word: &str| match word {
            "uniform" => Some("uniform"),
            "normal" => Some("normal"),
            "pareto" => Some("netem-pareto"),
            _ => None,
        };
        if words.peek() == Some("paretonormal") {
            let problem =
                "netem's `paretonormal` cannot be imported: it is a table of a mixture of two distributions";
            return Err(wrong(problem, "give normal or pareto"));
        }
        self.distribution = Some(words.value("distribution", known, "uniform, normal or pareto")?);
        Ok(())
    }

    fn loss(&mut self, words: &mut Words<'_>) -> Result<(), (String, String)> {
        match words.peek() {
            Some("gemodel") => {
                words.take();
                let to_bad = words.value("loss gemodel", tc_percent, PERCENT)?;
                let to_good = words.optional(tc_percent).unwrap_or_else(|| rounded_percent(100.0 - to_bad));
                let loss_bad = words.optional(tc_percent).unwrap_or(100.0);
                let loss_good = words.optional(tc_percent).unwrap_or(0.0);
                self.loss = NetemLoss::Chain { to_bad, to_good, loss_bad, loss_good };
                if to_good == 0.0 && to_bad > 0.0 {
                    return Err(wrong(
                        "the burst of loss would never end",
                        "give gemodel a second number above 0%",
                    ));
                }
            }
            Some("state") => {
                let remedy = "use loss gemodel p r, or loss with one percentage";
                return Err(wrong("netem's `loss state` cannot be imported", remedy));
            }
            other => {
                if other == Some("random") {
                    words.take();
                }
                self.loss = NetemLoss::Independent(words.value("loss", tc_percent, PERCENT)?);
                self.loss_correlation = words.optional(tc_percent).unwrap_or_default();
            }
        }
        Ok(())
    }

    fn check(mut self) -> Result<Self, (String, String)> {
        match (&mut self.reorder, self.gap) {
            // tc(8) refuses it, too.
            (None, Some(1..)) => {
                return Err(wrong(
                    "gap without reorder means nothing",
                    "give reorder as well, or leave it out",
                ));
            }
            (Some(reorder), Some(gap)) => reorder.gap = gap.max(1),
            _ => {}
        }
        if self.reorder.is_some_and(|reorder| reorder.share >= 100.0 && reorder.gap == 1) {
            return Err(wrong(
                "netem would delay no packet",
                "give reorder less than 100%, or a gap of 2 or more",
            ));
        }
        if self.limit == Some(0) {
            return Err(wrong(
                "netem drops every packet with a limit of 0",
                "give limit 1 or more, or loss 100%",
            ));
        }
        if self.delay > LONGEST_DELAY || self.jitter > LONGEST_DELAY {
            return Err(wrong("the delay is longer than a minute", "give at most 60s"));
        }
        if self.reorder.is_some() && self.delay.is_zero() {
            return Err(wrong(
                "without a delay netem cannot reorder",
                "give delay as well, as in delay 20ms reorder 25%",
            ));
        }
        if self.jitter > self.delay && self.distribution != Some("netem-pareto") {
            return Err(wrong("the jitter is larger than the delay", "give a delay at least as large"));
        }
        if self.distribution.is_some() && self.jitter.is_zero() {
            return Err(wrong(
                "a distribution without jitter means nothing",
                "give delay a second time, as in delay 20ms 5ms",
            ));
        }
        if self.rate_bps.is_some_and(|bps| !(8_000..=100_000_000_000).contains(&bps)) {
            return Err(wrong("the rate is out of range", "give 8kbit to 100gbit"));
        }
        Ok(self)
    }
}

const PERCENT: &str = "a percentage from 0 to 100";

fn wrong(problem: &str, remedy: &str) -> (String, String) {
    (problem.to_owned(), remedy.to_owned())
}

struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self) -> Option<&'a str> {
        let word = self.peek();
        self.next += 1;
        word
    }

    fn value<T>(
        &mut self,
        of: &str,
        read: impl Fn(&str) -> Option<T>,
        expected: &str,
    ) -> Result<T, (String, String)> {
        let word = self.take().unwrap_or_default();
        read(word)
            .ok_or_else(|| wrong(&format!("`{word}` after netem's `{of}` is not {expected}"), "correct it"))
    }

    fn optional<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let value = read(self.peek()?)?;
        self.next += 1;
        Some(value)
    }

    /// Reports a number after the values of `argument`: a correlation that the link model lacks, or one too many.
    fn no_correlation(&self, argument: &str) -> Result<(), (String, String)> {
        match self.peek() {
            Some(word) if word.starts_with(|c: char| c.is_ascii_digit()) => {
                let problem = format!("`{word}` after netem's `{argument}` cannot be imported");
                Err(wrong(&problem, "leave it out; delay, loss and reorder can have a correlation"))
            }
            _ => Ok(()),
        }
    }
}

fn packets(word: &str) -> Option<u32> {
    word.parse().ok().filter(|packets| *packets <= MOST_PACKETS)
}
