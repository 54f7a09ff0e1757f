//! The data level of one direction of a connection: which subflow carried which data, first or again.

use super::mapping::Range;
use crate::coverage::Coverage;
use crate::histogram::DurationHistogram;
use crate::mptcp::options::DataSequence;
use crate::series::Windows;
use crate::tcp::nearest_position;
use std::collections::VecDeque;

/// Position of the first data of a connection whose keys are not in the capture: earlier data lie below.
const BASE_WITHOUT_KEYS: u64 = 1 << 40;
/// Most ranges whose carrier is known.
const CARRIERS: usize = 512;
/// Those of acknowledged data: a stale subflow sends its copy late.
const CARRIERS_ACKNOWLEDGED: usize = 32;
/// Most reinjections that wait for the acknowledgment of their data.
const REINJECTIONS: usize = 128;
/// Most ranges that wait for the data before them.
const OUT_OF_ORDER: usize = 64;

/// Twice the largest window, because a capture may lack packets.
pub const FARTHEST: u64 = 1 << 31;

/// Data that a subflow carried. Positions are data sequence numbers relative to the initial one: the first byte is 1.
#[derive(Debug, Clone, Copy)]
struct Carrier {
    start: u64,
    end: u64,
    /// Position on the subflow of `start`.
    on_subflow: u64,
    /// Key of the subflow within the analysis.
    subflow: u32,
}

/// One direction of the data level. The order of the fields is that of the cache lines: a segment needs the first ones.
#[derive(Debug, Clone, Default)]
#[repr(C, align(64))]
pub struct DataLevelDirection {
    /// The initial data sequence number, or a value that stands for it.
    origin: Option<u64>,
    /// Highest position that the peer has acknowledged.
    pub acknowledged: u64,
    keyed: bool,
    last_new_ns: Option<u64>,
    /// Longest time without new data.
    pub stall_ns: u64,
    pub coverage: Coverage,
    carriers: VecDeque<Carrier>,
    pub goodput: Windows,
    /// Reinjected ranges, with their earlier carrier.
    reinjections: VecDeque<Carrier>,
    /// Start, end, and arrival of data whose predecessors have not arrived.
    out_of_order: VecDeque<(u64, u64, u64)>,
    pub out_of_order_delay: DurationHistogram,
    /// Position of the `DATA_FIN`.
    pub data_fin: Option<u64>,
    pub reinjected_bytes: u64,
    pub reinjected_same_subflow_bytes: u64,
    pub reinjected_needed_bytes: u64,
    /// Start of the longest time without new data.
    pub stall_start_ns: u64,
}

/// A range's share of data that were new, or that other ranges had carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried {
    /// Position of the first byte.
    pub start: u64,
    pub new: u64,
    pub again: u64,
}

impl Carried {
    pub fn add(&mut self, part: Self) {
        if self.new + self.again == 0 {
            self.start = part.start;
        }
        self.new += part.new;
        self.again += part.again;
    }
}

impl DataLevelDirection {
    pub fn with_initial_sequence(initial: u64) -> Self {
        let mut direction = Self { origin: Some(initial), keyed: true, ..Self::default() };
        // The initial data sequence number itself: data that follow it are in order.
        direction.coverage.add(0, 1);
        direction
    }

    /// Loads a field of each line that a segment needs into the processor's cache.
    #[inline]
    pub(crate) fn touch(&self) {
        self.coverage.touch();
        std::hint::black_box((
            self.origin,
            self.acknowledged,
            self.reinjections.len(),
            self.last_new_ns,
            self.carriers.len(),
        ));
    }

    /// Loads what the fields refer to.
    #[inline]
    pub(crate) fn touch_references(&self) {
        std::hint::black_box(self.carriers.back().copied());
        self.goodput.touch();
    }

    /// The data sequence number of a position.
    pub fn sequence(&self, position: u64) -> u64 {
        self.origin.unwrap_or(0).wrapping_add(position)
    }

    /// Nothing has been seen of this direction.
    pub fn is_unused(&self) -> bool {
        self.origin.is_none()
    }

    /// Position of a data sequence number. The first fixes the origin if the keys are unknown. `None` for one that is
    /// farther from the data so far than a window can be (RFC 9293, section 3.8.1: 2³⁰ bytes).
    #[inline]
    pub fn position(&mut self, sequence: DataSequence) -> Option<u64> {
        let Some(origin) = self.origin else { return Some(self.begin(sequence)) };
        let near = self.contiguous_end();
        let position = match sequence {
            DataSequence::Full(full) => full.wrapping_sub(origin),
            DataSequence::Short(short) => nearest_position(short.wrapping_sub(origin as u32), near),
        };
        (position.abs_diff(near) <= FARTHEST).then_some(position)
    }

    #[cold]
    fn begin(&mut self, sequence: DataSequence) -> u64 {
        let value = match sequence {
            DataSequence::Full(full) => full,
            DataSequence::Short(short) => u64::from(short),
        };
        self.origin = Some(value.wrapping_sub(BASE_WITHOUT_KEYS));
        self.acknowledged = BASE_WITHOUT_KEYS;
        BASE_WITHOUT_KEYS
    }

    /// Distance of a full data sequence number from the data so far; `None` before the first.
    pub fn distance(&self, full: u64) -> Option<u64> {
        let position = full.wrapping_sub(self.origin?);
        Some(position.abs_diff(self.contiguous_end()))
    }

    /// A range of payload that is new to its subflow. `since_start_ns` counts from the start of the connection.
    pub fn carry(&mut self, subflow: u32, range: Range, time_ns: u64, start_ns: u64) -> Carried {
        let (start, end) = (range.data, range.data.saturating_add(range.end - range.start));
        let before = self.contiguous_end();
        let new = self.coverage.add(start, end);
        let carried = Carried { start, new, again: end - start - new };
        if carried.again > 0 {
            self.reinjected_bytes += carried.again;
            self.reinjected_same_subflow_bytes += self.again(subflow, start, end).min(carried.again);
        }
        if new > 0 {
            self.goodput.add(time_ns.saturating_sub(start_ns), new);
            if let Some(last) = self.last_new_ns.replace(time_ns)
                && time_ns.saturating_sub(last) > self.stall_ns
            {
                (self.stall_ns, self.stall_start_ns) = (time_ns - last, last);
            }
        }
        self.remember(Carrier { start, end, on_subflow: range.start, subflow });
        let after = self.contiguous_end();
        if after > before {
            if !self.out_of_order.is_empty() {
                self.in_order_up_to(after, time_ns);
            }
        } else if new > 0 && start > after {
            self.wait_for_order(start, end, time_ns);
        }
        carried
    }

    /// Distinct bytes of data captured.
    pub fn data_bytes(&self) -> u64 {
        self.coverage.covered(1, u64::MAX)
    }

    /// Bytes of a reinjected range that `subflow` had carried itself; keeps the others' carriers until the acknowledgment.
    fn again(&mut self, subflow: u32, start: u64, end: u64) -> u64 {
        let mut same = 0;
        for carrier in &self.carriers {
            let (from, to) = (carrier.start.max(start), carrier.end.min(end));
            if from >= to {
                continue;
            }
            if carrier.subflow == subflow {
                same += to - from;
            }
            if from >= self.acknowledged && self.reinjections.len() < REINJECTIONS {
                let on_subflow = carrier.on_subflow + (from - carrier.start);
                self.reinjections.push_back(Carrier {
                    start: from,
                    end: to,
                    on_subflow,
                    subflow: carrier.subflow,
                });
            }
        }
        same
    }

    fn remember(&mut self, carrier: Carrier) {
        if let Some(back) = self.carriers.back_mut()
            && back.subflow == carrier.subflow
            && back.end == carrier.start
            && back.on_subflow.wrapping_add(back.end - back.start) == carrier.on_subflow
        {
            back.end = carrier.end;
            return;
        }
        while self.carriers.len() >= CARRIERS_ACKNOWLEDGED
            && (self.carriers.len() >= CARRIERS
                || self.carriers.front().is_some_and(|front| front.end <= self.acknowledged))
        {
            self.carriers.pop_front();
        }
        self.carriers.push_back(carrier);
    }

    /// Acknowledged data that the capture lacks leave no gap.
    #[inline]
    fn contiguous_end(&self) -> u64 {
        self.coverage.contiguous_end().max(self.acknowledged)
    }

    fn wait_for_order(&mut self, start: u64, end: u64, time_ns: u64) {
        if self.out_of_order.len() < OUT_OF_ORDER {
            self.out_of_order.push_back((start, end, time_ns));
        }
    }

    fn in_order_up_to(&mut self, position: u64, time_ns: u64) {
        let delays = &mut self.out_of_order_delay;
        self.out_of_order.retain(|&(_, end, arrived_ns)| {
            let waits = end > position;
            if !waits {
                delays.record(time_ns.saturating_sub(arrived_ns));
            }
            waits
        });
    }

    /// The peer acknowledges data up to `position`. `acknowledged_on(subflow)` is the position that it has acknowledged on a subflow.
    #[inline]
    pub fn acknowledge(&mut self, position: u64, acknowledged_on: impl Fn(u32) -> u64) {
        if position > self.acknowledged {
            self.acknowledged = position;
            if !self.reinjections.is_empty() {
                self.settle(acknowledged_on);
            }
        }
    }

    fn settle(&mut self, acknowledged_on: impl Fn(u32) -> u64) {
        let acknowledged = self.acknowledged;
        let needed = &mut self.reinjected_needed_bytes;
        self.reinjections.retain(|reinjection| {
            let waits = reinjection.end > acknowledged;
            let bytes = reinjection.end - reinjection.start;
            if !waits && acknowledged_on(reinjection.subflow) < reinjection.on_subflow + bytes {
                *needed += bytes;
            }
            waits
        });
    }

    /// Position of the first data: 1, or where the capture began.
    fn first(&self) -> u64 {
        if self.keyed { 1 } else { BASE_WITHOUT_KEYS }
    }

    /// Data that the peer has acknowledged, without the `DATA_FIN`.
    pub fn acknowledged_bytes(&self) -> u64 {
        let fin = u64::from(self.data_fin.is_some_and(|fin| self.acknowledged > fin));
        self.acknowledged.saturating_sub(self.first()).saturating_sub(fin)
    }
}
