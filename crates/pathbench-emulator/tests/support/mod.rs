//! A pipe in virtual time, which begins at zero.
#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]

use pathbench_emulator::model::{Condition, ModelChange, PipeModel};
use pathbench_emulator::packet::{Ecn, Fate, Outcome, Packet};
use pathbench_emulator::pipe::Pipe;
use pathbench_record::time::Timestamp;
use std::time::Duration;

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

pub fn at(after: Duration) -> Timestamp {
    Timestamp::default() + after
}

/// A pipe and everything that has come out of it.
pub struct Bench {
    pub pipe: Pipe<()>,
    outcomes: Vec<Outcome<()>>,
}

impl Bench {
    pub fn new(model: PipeModel, seed: u64) -> Self {
        Self { pipe: Pipe::new(model, seed, Timestamp::default()), outcomes: Vec::new() }
    }

    pub fn offer(&mut self, after: Duration, ip_bytes: u32) {
        self.offer_marked(after, ip_bytes, Ecn::NotEct);
    }

    pub fn offer_marked(&mut self, after: Duration, ip_bytes: u32, ecn: Ecn) {
        self.pipe.offer(at(after), Packet { ip_bytes, segments: 1, ecn, payload: () });
    }

    pub fn change(&mut self, after: Duration, change: &ModelChange) {
        self.pipe.change(at(after), change);
    }

    pub fn condition(&mut self, after: Duration, condition: Condition) {
        self.pipe.set_condition(at(after), condition);
    }

    /// Fetches what happened up to a time.
    pub fn poll(&mut self, after: Duration) {
        while let Some(outcome) = self.pipe.poll(at(after)) {
            self.outcomes.push(outcome);
        }
    }

    /// Goes from deadline to deadline until there is none, or for a day of virtual time.
    pub fn finish(&mut self) -> Vec<Outcome<()>> {
        while let Some(deadline) = self.pipe.next_deadline()
            && deadline < at(Duration::from_secs(86_400))
        {
            self.poll(deadline.since(Timestamp::default()));
        }
        std::mem::take(&mut self.outcomes)
    }
}

/// Number and time of what was delivered.
pub fn delivered(outcomes: &[Outcome<()>]) -> impl Iterator<Item = (u64, Duration)> + '_ {
    outcomes.iter().filter_map(|outcome| match outcome.fate {
        Fate::Delivered(delivery) => Some((outcome.number, delivery.due.since(Timestamp::default()))),
        Fate::Dropped { .. } => None,
    })
}
