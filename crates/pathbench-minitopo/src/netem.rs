//! Arguments of netem in `netemAt_…`.
//!
//! Source: tc-netem(8). A change replaces all parameters: absent ones return to their defaults.

use super::quantity::{rounded_percent, tc_percent, tc_rate, tc_time};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct NetemArguments {
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
    pub(super) distribution: Option<&'static str>,
    pub(super) loss: NetemLoss,
    pub(super) duplicate: f64,
    pub(super) corrupt: f64,
    pub(super) rate_bps: Option<u64>,
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
                "rate" => netem.rate_bps = Some(words.value(word, tc_rate, "a rate, as in 10mbit")?),
                // The limit of netem's queue, which includes packets in flight; the emulator does not limit them.
                "limit" => drop(words.value(word, |word| word.parse::<u32>().ok(), "a number of packets")?),
                other => {
                    let remedy =
                        "leave it out; known are delay, distribution, loss, duplicate, corrupt, rate, limit";
                    return Err(wrong(&format!("netem's `{other}` cannot be imported"), remedy));
                }
            }
            words.no_correlation()?;
        }
        netem.check()
    }

    fn delay(&mut self, words: &mut Words<'_>) -> Result<(), (String, String)> {
        let example = "a time, as in 20ms (tc takes a number without unit for microseconds)";
        self.delay = words.value("delay", tc_time, example)?;
        self.jitter = words.optional(tc_time).unwrap_or_default();
        Ok(())
    }

    fn distribution(&mut self, words: &mut Words<'_>) -> Result<(), (String, String)> {
        let known = |word: &str| match word {
            "uniform" => Some("uniform"),
            "normal" => Some("normal"),
            "pareto" => Some("pareto"),
            _ => None,
        };
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
            }
        }
        Ok(())
    }

    fn check(self) -> Result<Self, (String, String)> {
        if self.delay > LONGEST_DELAY || self.jitter > LONGEST_DELAY {
            return Err(wrong("the delay is longer than a minute", "give at most 60s"));
        }
        if self.jitter > self.delay && self.distribution != Some("pareto") {
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

    fn no_correlation(&self) -> Result<(), (String, String)> {
        match self.peek() {
            Some(word) if word.starts_with(|c: char| c.is_ascii_digit()) => {
                let problem = format!("netem's correlation (`{word}`) cannot be imported");
                Err(wrong(&problem, "leave it out; for losses that come together there is loss gemodel"))
            }
            _ => Ok(()),
        }
    }
}
