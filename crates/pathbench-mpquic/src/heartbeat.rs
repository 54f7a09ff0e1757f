//! Which paths are heard, and when to say something on them. Pure: counters and time in, verdicts out.
//!
//! Acknowledgements for all paths travel on one of them, so a path can work and yet carry nothing towards this
//! end. Therefore both ends send something on every path each interval, and a path is silent when nothing came
//! while *another* path was heard: if all are silent, the peer is busy or everything is down, and no path is
//! better than another. Without heartbeats from the peer every path but one would seem silent.

use noq_proto::PathId;
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// Silence is never waited for longer than this, however much the RTT varies.
const MAX_SUSPEND_AFTER: Duration = Duration::from_secs(1);

/// A tail loss probe of the library is waited for this much longer, for it is never early.
const PROBE_MARGIN: Duration = Duration::from_millis(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeartbeatOptions {
    /// A PING on each path on which nothing else was sent this long.
    pub(crate) interval: Duration,
    /// A path not heard this long gets no new data. More where the RTT varies: two intervals and four times its
    /// variation, up to a second.
    pub(crate) suspend_after: Duration,
    /// A path suspended this long is given up. Only then is what was lost on it sent again elsewhere.
    pub(crate) give_up_after: Duration,
}

impl Default for HeartbeatOptions {
    /// 60, 300 and 150 ms: a black hole is given up within half a second, which leaves the other half to noq, which
    /// takes a round trip and three PTOs of the path before it sends again what was lost.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(60),
            suspend_after: Duration::from_millis(300),
            give_up_after: Duration::from_millis(150),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beat {
    /// Send a PING: `Board::allow_ping`, then `Connection::ping_path`.
    Ping(PathId),
    Silent(PathId),
    Heard(PathId),
    /// Silent for so long that it should be closed. Said once per silence.
    Dead(PathId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Heard,
    Silent,
    Dead,
}

#[derive(Debug)]
struct Pulse {
    received: u64,
    heard_at: Timestamp,
    sent: u64,
    sent_at: Timestamp,
    pinged: bool,
    rttvar: Duration,
    /// How long after the last packet the library sends a probe of its own.
    probe_after: Option<Duration>,
    verdict: Verdict,
}

impl Pulse {
    /// When to send a PING, if nothing else is sent before. A probe of the library is waited for where it comes well
    /// before the peer, whose options are taken to be the same, would find the path silent.
    fn ping_at(&self, options: &HeartbeatOptions) -> Timestamp {
        let probe = self.probe_after.map(|after| after + PROBE_MARGIN);
        let probe = probe.filter(|after| *after <= options.suspend_after * 2 / 3);
        self.sent_at + probe.unwrap_or_default().max(options.interval)
    }
}

#[derive(Debug)]
pub(crate) struct Heartbeats {
    options: HeartbeatOptions,
    pulses: BTreeMap<PathId, Pulse>,
    ticked_at: Option<Timestamp>,
}

impl Heartbeats {
    pub(crate) fn new(options: HeartbeatOptions) -> Self {
        Self { options, pulses: BTreeMap::new(), ticked_at: None }
    }

    pub(crate) fn add(&mut self, path: PathId, now: Timestamp) {
        self.pulses.entry(path).or_insert(Pulse {
            received: 0,
            heard_at: now,
            sent: 0,
            sent_at: now,
            pinged: false,
            rttvar: Duration::ZERO,
            probe_after: None,
            verdict: Verdict::Heard,
        });
    }

    pub(crate) fn remove(&mut self, path: PathId) {
        self.pulses.remove(&path);
    }

    /// Takes in how much was received on a path, and how much that is acknowledged was sent: acknowledgements alone, which
    /// the peer's heartbeats draw, must not take the place of a PING, or its RTT would never be measured again.
    ///
    /// To be called for all paths before [`Heartbeats::tick`], after everything that has arrived was read.
    pub(crate) fn observe(
        &mut self,
        path: PathId,
        received: u64,
        sent: u64,
        rttvar: Duration,
        now: Timestamp,
    ) {
        let Some(pulse) = self.pulses.get_mut(&path) else { return };
        if received != pulse.received {
            pulse.received = received;
            pulse.heard_at = pulse.heard_at.max(now);
        }
        if sent != pulse.sent {
            pulse.sent = sent;
            if !std::mem::take(&mut pulse.pinged) {
                pulse.sent_at = pulse.sent_at.max(now);
            }
        }
        pulse.rttvar = rttvar;
    }

    /// Leaves it to the library to say something on a path whose window is full: that sends a probe of 1200 bytes this
    /// long after the last packet. A PING would take as much data along as the path MTU allows, put that probe off, and
    /// not be heard where the path MTU is no longer what it was.
    pub(crate) fn expect_probe(&mut self, path: PathId, after: Option<Duration>) {
        if let Some(pulse) = self.pulses.get_mut(&path) {
            pulse.probe_after = after;
        }
    }

    /// What is to be done `now`. To be called at [`Heartbeats::next_timeout`] at the latest.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Vec<Beat> {
        self.excuse_own_absence(now);
        let mut beats = Vec::new();
        let paths: Vec<PathId> = self.pulses.keys().copied().collect();
        for path in paths {
            let silence = self.silence(path);
            let Some(pulse) = self.pulses.get_mut(&path) else { continue };
            let suspend_after = suspend_after(&self.options, pulse.rttvar);
            let verdict = if silence < suspend_after {
                // Silence that others do not contradict any more is no proof that the path is back.
                if pulse.verdict != Verdict::Heard && now.since(pulse.heard_at) >= suspend_after {
                    pulse.verdict
                } else {
                    Verdict::Heard
                }
            } else if silence < suspend_after + self.options.give_up_after && pulse.verdict != Verdict::Dead {
                Verdict::Silent
            } else {
                Verdict::Dead
            };
            match (pulse.verdict, verdict) {
                (Verdict::Heard, Verdict::Silent) => beats.push(Beat::Silent(path)),
                (Verdict::Heard, Verdict::Dead) => beats.extend([Beat::Silent(path), Beat::Dead(path)]),
                (Verdict::Silent, Verdict::Dead) => beats.push(Beat::Dead(path)),
                (Verdict::Silent | Verdict::Dead, Verdict::Heard) => beats.push(Beat::Heard(path)),
                _ => {}
            }
            pulse.verdict = verdict;
            if now >= pulse.ping_at(&self.options) {
                (pulse.sent_at, pulse.pinged) = (now, true);
                beats.push(Beat::Ping(path));
            }
        }
        beats
    }

    /// When [`Heartbeats::tick`] is due; `None` without paths.
    pub(crate) fn next_timeout(&self) -> Option<Timestamp> {
        self.pulses.values().map(|pulse| pulse.ping_at(&self.options)).min()
    }

    fn silence(&self, path: PathId) -> Duration {
        let heard_at = |of: PathId| self.pulses.get(&of).map(|pulse| pulse.heard_at);
        let elsewhere =
            self.pulses.keys().filter(|other| **other != path).filter_map(|other| heard_at(*other)).max();
        match (elsewhere, heard_at(path)) {
            (Some(elsewhere), Some(here)) => elsewhere.since(here),
            _ => Duration::ZERO,
        }
    }

    /// Time in which this end was not running is nobody's silence: what came then may not have been read yet.
    fn excuse_own_absence(&mut self, now: Timestamp) {
        if let Some(ticked_at) = self.ticked_at {
            let late = now.since(ticked_at).saturating_sub(self.options.interval * 2);
            if !late.is_zero() {
                for pulse in self.pulses.values_mut() {
                    pulse.heard_at = now.min(pulse.heard_at + late);
                }
            }
        }
        self.ticked_at = Some(now);
    }
}

fn suspend_after(options: &HeartbeatOptions, rttvar: Duration) -> Duration {
    let varying = (options.interval * 2 + rttvar * 4).min(MAX_SUSPEND_AFTER);
    options.suspend_after.max(varying)
}

#[cfg(test)]
mod tests;
