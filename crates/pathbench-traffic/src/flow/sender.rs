//! The sender of a flow of datagrams: when each is due, and which left on which path.

use crate::meter::Meter;
use crate::protocol::EndFrame;
use pathbench_record::datagram::{DatagramsParameters, LoggedDatagram};
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// A datagram that could not be sent this long after it was due is not sent: a real-time application drops it.
pub const LONGEST_LAG: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowStep {
    Send { sequence: u32, bytes: u32 },
    WaitUntil(Timestamp),
    Finished,
}

#[derive(Debug)]
pub struct FlowSender {
    parameters: DatagramsParameters,
    start: Timestamp,
    next: u32,
    /// Datagrams of the flow.
    count: u32,
    /// Paths that carry a flow of their own (udp); else 1.
    flows: u64,
    ceiling_bytes: u64,
    pub log: Vec<LoggedDatagram>,
    most_logged: usize,
    /// Datagrams that were due and are known not to have been sent.
    skipped: u64,
    handed_over: u64,
    cut_short: bool,
    pub meter: Meter,
}

impl FlowSender {
    /// The sender of one direction, before [`FlowSender::begin`]. With `flows` above 1, each datagram is
    /// sent on as many paths, on each as a flow of its own.
    pub fn new(
        parameters: DatagramsParameters,
        flows: u32,
        ceiling_bytes: Option<u64>,
        meter: Meter,
    ) -> Self {
        let count = u32::try_from(parameters.datagrams()).unwrap_or(u32::MAX);
        let most_logged = u64::from(count).saturating_mul(parameters.paths.into());
        Self {
            start: Timestamp::default(),
            next: 0,
            count,
            flows: flows.into(),
            ceiling_bytes: ceiling_bytes.unwrap_or(u64::MAX),
            log: Vec::new(),
            most_logged: usize::try_from(most_logged).unwrap_or(usize::MAX),
            skipped: 0,
            handed_over: 0,
            cut_short: false,
            meter,
            parameters,
        }
    }

    /// Sending begins: the first datagram is due.
    pub fn begin(&mut self, now: Timestamp) {
        self.start = now;
    }

    /// The next step at `now`. Each datagram is returned once; those that are too late are skipped.
    pub fn next(&mut self, now: Timestamp) -> FlowStep {
        while self.next < self.count && !self.cut_short {
            let due = self.start + self.parameters.due(self.next);
            if now < due {
                return FlowStep::WaitUntil(due);
            }
            let (sequence, bytes) = (self.next, self.parameters.size_bytes(self.next));
            if self.meter.sent_bytes.saturating_add(u64::from(bytes) * self.flows) > self.ceiling_bytes {
                self.cut_short = true;
                break;
            }
            self.next += 1;
            if now.duration_since(due) <= LONGEST_LAG {
                return FlowStep::Send { sequence, bytes };
            }
            self.skipped += self.flows;
        }
        FlowStep::Finished
    }

    /// The path did not take a datagram.
    pub fn not_sent(&mut self) {
        self.skipped += 1;
    }

    /// The connection took a datagram, and reports its departure later.
    pub fn handed_over(&mut self) {
        self.handed_over += 1;
    }

    /// A datagram, or a copy of one, left on `path`; `at` is when the application passed it on.
    pub fn sent(&mut self, now: Timestamp, sequence: u32, at: Timestamp, path: u32) {
        if sequence >= self.count || self.log.len() >= self.most_logged {
            return;
        }
        self.log.push(LoggedDatagram { sequence, at, path });
        self.meter.begin_write(at);
        self.meter.sent(now, self.parameters.size_bytes(sequence).into());
        self.meter.progressed(now);
    }

    /// Datagrams that were due and did not leave.
    pub fn unsent(&self) -> u64 {
        if self.handed_over == 0 {
            return self.skipped;
        }
        let mut left: Vec<u32> = self.log.iter().map(|logged| logged.sequence).collect();
        left.sort_unstable();
        left.dedup();
        self.skipped + self.handed_over.saturating_sub(left.len() as u64)
    }

    pub fn end(&self) -> EndFrame {
        self.meter.end(self.cut_short)
    }
}
