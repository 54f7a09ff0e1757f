//! The sequence of measurements of a link.

use super::end::{ANSWER_TIME, CalibrationCommand, EndReport, ProbeSeries};
use super::plan::{CalibrationPlan, DirectionCalibration, LinkCalibration, ProbedDirection};
use super::probes::probe_series;
use super::train::PacketTrain;
use pathbench_record::network::SMALLEST_IPV6_MTU_BYTES;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// Pause between echoes, so that each echo finds the link idle.
const ECHO_SPACING: Duration = Duration::from_millis(2);

/// Longest wait before the round-trip time is known, or behind a full queue: over a satellite link with bufferbloat, a
/// packet takes two seconds.
const LONG_TIME: Duration = Duration::from_secs(3);

/// Pauses between the first echoes, 3 s in total. Most echoes are sent early because each may be lost. The first echoes
/// also resolve the neighbours' addresses (ARP, NDP).
const FIRST_WAITS_MS: [u64; 7] = [100, 200, 300, 400, 500, 700, 800];

/// A train that has begun to arrive is over after this silence, plus the variation of the link's delay.
const TRAIN_SILENCE: Duration = Duration::from_millis(100);

/// Shortest pause between attempts of sizes. At low rates the pause is longer, so that attempts find the link idle.
const SIZE_SPACING: Duration = Duration::from_millis(10);

/// A size does not pass when this many small packets arrived, each sent directly after a packet of the size, and no
/// packet of the size did. At 10 % loss, this happens by chance once in a million cases.
const CONTROLS: u32 = 6;
/// Attempts in one series, one of which may lose its small packet, and the number of series.
const SIZE_ATTEMPTS: u32 = CONTROLS + 1;
const SIZE_SERIES: u32 = 6;

const PROBE_SERIES: u32 = 3;

/// A train that measures less than this fraction of the requested rate is repeated, up to `TRAINS` trains in total. The
/// highest rate counts: a busy machine can make a train too slow, but nothing makes a bottleneck faster.
const GOOD_ENOUGH: f64 = 0.99;
const TRAINS: u32 = 3;

/// Smallest IP packet that any link must carry (RFC 791, RFC 8200 section 5).
const SMALLEST_MTU_V4: u32 = 68 + 28;

#[derive(Debug, Error)]
pub enum CalibrationError<E> {
    #[error(transparent)]
    End(E),
    #[error("calibrating the link {near} – {far}: no packet arrived {doing}; the link is down")]
    NoAnswer { near: SocketAddr, far: SocketAddr, doing: &'static str },
}

pub(crate) type EndLink<'a, E> = &'a mut dyn FnMut(CalibrationCommand) -> Result<EndReport, E>;

/// Measures a link by sending commands to its two ends.
///
/// Takes about two trains, the time that the links' queues take to drain after each, 0.2 s, 0.6 s for probes, and some
/// ten round-trip times; more where packets are lost or sizes do not pass ([`CalibrationPlan::time_limit`]).
pub fn calibrate<E>(
    plan: &CalibrationPlan,
    near: EndLink<'_, E>,
    far: EndLink<'_, E>,
) -> Result<LinkCalibration, CalibrationError<E>> {
    let mut link =
        Link { plan, ends: [near, far], series: 0, answer_time: LONG_TIME, spread: Duration::ZERO };
    link.connect()?;
    let (rtt, min_rtt) = link.round_trips()?;
    let mut found = [DirectionCalibration::default(); 2];
    for (from, found) in found.iter_mut().enumerate() {
        found.mtu_bytes = link.mtu(from)?;
    }
    let mtu_bytes = plan.mtu_bytes.min(found[0].mtu_bytes).min(found[1].mtu_bytes);
    let rates = [plan.forward_bps, plan.reverse_bps];
    for (from, (found, rate_bps)) in found.iter_mut().zip(rates).enumerate() {
        found.probes = link.probes(from, rate_bps)?;
    }
    for (from, (found, rate_bps)) in found.iter_mut().zip(rates).enumerate() {
        found.rate_bps = rate_bps.map(|bps| link.rate(from, bps, mtu_bytes)).transpose()?;
    }
    let [forward, reverse] = found;
    Ok(LinkCalibration { rtt, min_rtt, forward, reverse })
}

struct Link<'a, 'b, E> {
    plan: &'a CalibrationPlan,
    ends: [EndLink<'b, E>; 2],
    series: u32,
    /// A packet on the idle link arrives within this time or is lost.
    answer_time: Duration,
    spread: Duration,
}

impl<E> Link<'_, '_, E> {
    fn command(&mut self, end: usize, command: CalibrationCommand) -> Result<EndReport, CalibrationError<E>> {
        (self.ends[end])(command).map_err(CalibrationError::End)
    }

    fn connect(&mut self) -> Result<(), CalibrationError<E>> {
        let near = self.command(0, CalibrationCommand::Open(self.plan.near))?.local.unwrap_or(self.plan.near);
        let far = self.command(1, CalibrationCommand::Open(self.plan.far))?.local.unwrap_or(self.plan.far);
        self.command(0, CalibrationCommand::Connect(far))?;
        self.command(1, CalibrationCommand::Connect(near))?;
        Ok(())
    }

    fn transfer(
        &mut self,
        from: usize,
        series: ProbeSeries,
        wait: Duration,
        silence: Option<Duration>,
    ) -> Result<(EndReport, EndReport), CalibrationError<E>> {
        self.series += 1;
        self.command(1 - from, CalibrationCommand::Expect(self.series, series.clone()))?;
        let sent = self.command(from, CalibrationCommand::Send(self.series, series))?;
        let received = self.command(1 - from, CalibrationCommand::Report { wait, silence })?;
        Ok((sent, received))
    }

    fn round_trips(&mut self) -> Result<(Duration, Duration), CalibrationError<E>> {
        let waits = FIRST_WAITS_MS.map(Duration::from_millis).to_vec();
        let first = ProbeSeries::Echoes { waits, first_only: true };
        let (sent, _) = self.transfer(0, first, Duration::ZERO, None)?;
        if sent.rtts.is_empty() {
            return Err(self.no_answer("of the first echoes"));
        }
        let mut waits = vec![ECHO_SPACING; self.plan.echoes.max(3) as usize];
        if let Some(last) = waits.last_mut() {
            *last = LONG_TIME;
        }
        let echoes = ProbeSeries::Echoes { waits, first_only: false };
        let (sent, _) = self.transfer(0, echoes, Duration::ZERO, None)?;
        let longest = sent.rtts.iter().max().copied().unwrap_or_default();
        let (median, min) = median_and_min(sent.rtts).ok_or_else(|| self.no_answer("of the echoes"))?;
        self.spread = longest.saturating_sub(min);
        self.answer_time = longest + self.spread + ANSWER_TIME;
        Ok((median, min))
    }

    /// The requested size, one byte more if that passes too, or the largest smaller size that passes.
    fn mtu(&mut self, from: usize) -> Result<u32, CalibrationError<E>> {
        let asked = self.plan.mtu_bytes;
        match self.sizes(from, &[asked, asked + 1])?[..] {
            [true, larger] => Ok(asked + u32::from(larger)),
            _ => self.largest_below(from, asked),
        }
    }

    fn largest_below(&mut self, from: usize, mut fails: u32) -> Result<u32, CalibrationError<E>> {
        let least = if self.plan.far.is_ipv4() { SMALLEST_MTU_V4 } else { SMALLEST_IPV6_MTU_BYTES };
        let mut passes = least.min(fails);
        while fails - passes > 1 {
            let size = passes + (fails - passes) / 2;
            if self.sizes(from, &[size])?.contains(&true) {
                passes = size;
            } else {
                fails = size;
            }
        }
        Ok(passes)
    }

    /// Whether each size passes, on a link that may also lose packets for other reasons.
    fn sizes(&mut self, from: usize, sizes: &[u32]) -> Result<Vec<bool>, CalibrationError<E>> {
        let mut answers: BTreeMap<u32, bool> = BTreeMap::new();
        let mut controls = 0;
        for _ in 0..SIZE_SERIES {
            let open: Vec<u32> = sizes.iter().copied().filter(|size| !answers.contains_key(size)).collect();
            let spacing = self.size_spacing(&open);
            let series = ProbeSeries::Sizes { sizes: open, attempts: SIZE_ATTEMPTS, spacing };
            let (sent, received) = self.transfer(from, series, self.answer_time, None)?;
            for (found, passes) in [(sent.refused, false), (received.sizes, true)] {
                for size in found.into_iter().filter(|size| sizes.contains(size)) {
                    answers.entry(size).or_insert(passes);
                }
            }
            controls += received.received;
            if answers.len() == sizes.len() || controls >= CONTROLS {
                break;
            }
        }
        if controls == 0 && answers.len() < sizes.len() {
            return Err(self.no_answer("when the MTU was measured"));
        }
        Ok(sizes.iter().map(|size| answers.get(size).copied().unwrap_or(false)).collect())
    }

    /// Shortest time of an attempt, so that the link is idle again: twice the transmission time of its packets.
    fn size_spacing(&self, sizes: &[u32]) -> Duration {
        let plan = self.plan;
        let slowest = [plan.forward_bps, plan.reverse_bps].into_iter().flatten().min().or(plan.probed_bps);
        let bits = sizes.iter().map(|size| u64::from(*size) * 8).sum::<u64>();
        let needed = slowest.map_or(0, |bps| 2 * bits * 1_000_000 / bps.max(1));
        SIZE_SPACING.max(Duration::from_micros(needed))
    }

    fn probes(
        &mut self,
        from: usize,
        rate_bps: Option<u64>,
    ) -> Result<Option<ProbedDirection>, CalibrationError<E>> {
        let Some((count, spacing)) = probe_series(self.plan, rate_bps) else { return Ok(None) };
        let mut probed = ProbedDirection { sent: count, ..ProbedDirection::default() };
        for _ in 0..PROBE_SERIES {
            let series = ProbeSeries::Probes { count, spacing };
            let (_, report) = self.transfer(from, series, self.answer_time, None)?;
            (probed.received, probed.delays) = (report.received.min(count), report.delays);
            if probed.received > 0 {
                break;
            }
        }
        Ok(Some(probed))
    }

    fn rate(&mut self, from: usize, asked_bps: u64, mtu_bytes: u32) -> Result<u64, CalibrationError<E>> {
        let mut best = 0;
        for _ in 0..TRAINS {
            let train = ProbeSeries::Train(PacketTrain::new(self.plan, from, asked_bps, mtu_bytes));
            let silence = Some(TRAIN_SILENCE + self.spread);
            let (_, report) = self.transfer(from, train, self.answer_time + LONG_TIME, silence)?;
            best = best.max(report.rate_bps.unwrap_or(0));
            if best as f64 > asked_bps as f64 * GOOD_ENOUGH {
                break;
            }
        }
        if best == 0 { Err(self.no_answer("when the rate was measured")) } else { Ok(best) }
    }

    fn no_answer(&self, doing: &'static str) -> CalibrationError<E> {
        CalibrationError::NoAnswer { near: self.plan.near, far: self.plan.far, doing }
    }
}

/// With an even number of times, the median is the mean of the middle two.
fn median_and_min(mut times: Vec<Duration>) -> Option<(Duration, Duration)> {
    times.sort_unstable();
    let middle = times.len() / 2;
    let (upper, min) = (*times.get(middle)?, *times.first()?);
    let lower = if times.len().is_multiple_of(2) { times[middle - 1] } else { upper };
    Some(((lower + upper) / 2, min))
}
