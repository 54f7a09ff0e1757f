//! A queue for each flow, served by deficit round robin with priority for new flows (RFC 8290), and `CoDel` for each.

use super::management::{CoDel, Taken, Verdict};
use crate::packet::{Chance, DrawPurpose, Held, PacketFlow};
use crate::{LinkModel, QueueIsolation};
use pathbench_record::time::Timestamp;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Number of queues (RFC 8290, section 5.2.3). Flows with the same hash share one.
const BUCKETS: u64 = 1_024;
/// Deficits count in these parts of a byte, so that a quantum can be divided by the number of flows of a host.
const PARTS: i64 = 1_024;

#[derive(Debug)]
pub(super) struct FairQueue<P> {
    buckets: Vec<Bucket<P>>,
    waiting: usize,
    /// Buckets that became active since their queue was last empty for a round, and those that had a quantum.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    isolation: QueueIsolation,
    quantum_bytes: u32,
    chance: Chance,
    /// Buckets in `old`, by the digest of their source and of their destination.
    source_load: HashMap<u32, u32>,
    destination_load: HashMap<u32, u32>,
}

#[derive(Debug)]
struct Bucket<P> {
    waiting: VecDeque<Held<P>>,
    bytes: u64,
    /// In 1/[`PARTS`] bytes.
    deficit: i64,
    codel: CoDel,
    list: List,
    /// Of the packet that activated the bucket.
    flow: PacketFlow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Idle,
    New,
    Old,
}

/// A packet taken out, and whether `CoDel` drops it.
pub(super) struct FairTaken<P> {
    pub(super) held: Held<P>,
    pub(super) drop: bool,
}

impl<P> FairQueue<P> {
    pub(super) fn new(
        model: &LinkModel,
        codel: (Duration, Duration),
        chance: Chance,
        now: Timestamp,
    ) -> Self {
        let bucket = || Bucket {
            waiting: VecDeque::new(),
            bytes: 0,
            deficit: 0,
            codel: CoDel::new(codel, now),
            list: List::Idle,
            flow: PacketFlow::default(),
        };
        Self {
            buckets: (0..BUCKETS).map(|_| bucket()).collect(),
            waiting: 0,
            new: VecDeque::new(),
            old: VecDeque::new(),
            isolation: model.queue_isolation,
            quantum_bytes: quantum_bytes(model),
            chance,
            source_load: HashMap::new(),
            destination_load: HashMap::new(),
        }
    }

    pub(super) fn change(&mut self, model: &LinkModel, (target, interval): (Duration, Duration)) {
        self.isolation = model.queue_isolation;
        self.quantum_bytes = quantum_bytes(model);
        for bucket in &mut self.buckets {
            (bucket.codel.target, bucket.codel.interval) = (target, interval);
        }
    }

    pub(super) fn put(&mut self, held: Held<P>) {
        let flow = held.packet.flow;
        // The seed keeps a sender from choosing flows that collide.
        let index = self.chance.bits(DrawPurpose::FlowHash, u64::from(flow.flow), 0) % BUCKETS;
        let index = usize::try_from(index).unwrap_or_default();
        let quantum = self.quantum(flow);
        self.waiting += 1;
        let bucket = &mut self.buckets[index];
        bucket.bytes += held.wire_bytes;
        bucket.waiting.push_back(held);
        if bucket.list == List::Idle {
            bucket.list = List::New;
            bucket.deficit = quantum;
            bucket.flow = flow;
            self.new.push_back(index);
        }
    }

    /// The next packet in the order of service.
    pub(super) fn take(&mut self, ecn: bool, now: Timestamp) -> Option<FairTaken<P>> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &self.new } else { &self.old };
            let index = *list.front()?;
            if self.buckets[index].deficit <= 0 {
                self.leave(index);
                self.join_old(index);
                let quantum = self.quantum(self.buckets[index].flow);
                self.buckets[index].deficit += quantum;
                continue;
            }
            let Some(taken) = self.buckets[index].take(ecn, now) else {
                self.leave(index);
                // A new flow that empties its queue waits for a round before it is new again (section 4.2).
                if from_new && !self.old.is_empty() {
                    self.join_old(index);
                }
                continue;
            };
            self.waiting -= 1;
            return Some(taken);
        }
    }

    /// Drops the oldest packet of the bucket with the most bytes (section 4.1.2).
    pub(super) fn remove_from_longest(&mut self) -> Option<Held<P>> {
        let active = self.new.iter().chain(&self.old);
        let longest = active.copied().max_by_key(|index| self.buckets[*index].bytes)?;
        let bucket = &mut self.buckets[longest];
        let held = bucket.waiting.pop_front()?;
        bucket.bytes -= held.wire_bytes;
        self.waiting -= 1;
        Some(held)
    }

    pub(super) fn holds_several(&self) -> bool {
        self.waiting > 1
    }

    /// All packets in the order of their arrival.
    pub(super) fn into_waiting(self) -> VecDeque<Held<P>> {
        let mut waiting: Vec<Held<P>> = self.buckets.into_iter().flat_map(|bucket| bucket.waiting).collect();
        waiting.sort_unstable_by_key(|held| held.number);
        waiting.into()
    }

    fn leave(&mut self, index: usize) {
        let flow = self.buckets[index].flow;
        if std::mem::replace(&mut self.buckets[index].list, List::Idle) == List::New {
            self.new.pop_front();
            return;
        }
        self.old.pop_front();
        for (load, host) in
            [(&mut self.source_load, flow.source), (&mut self.destination_load, flow.destination)]
        {
            let left = load.get(&host).copied().unwrap_or_default().saturating_sub(1);
            if left == 0 {
                load.remove(&host);
            } else {
                load.insert(host, left);
            }
        }
    }

    fn join_old(&mut self, index: usize) {
        let bucket = &mut self.buckets[index];
        bucket.list = List::Old;
        self.old.push_back(index);
        *self.source_load.entry(bucket.flow.source).or_insert(0) += 1;
        *self.destination_load.entry(bucket.flow.destination).or_insert(0) += 1;
    }

    /// The quantum of a flow in 1/[`PARTS`] bytes.
    fn quantum(&self, flow: PacketFlow) -> i64 {
        let source = || self.source_load.get(&flow.source).copied().unwrap_or_default();
        let destination = || self.destination_load.get(&flow.destination).copied().unwrap_or_default();
        let load = match self.isolation {
            QueueIsolation::Flows => 1,
            QueueIsolation::DualSourceHost => source(),
            QueueIsolation::DualDestinationHost => destination(),
            QueueIsolation::TripleIsolate => source().max(destination()),
        };
        (i64::from(self.quantum_bytes) * PARTS / i64::from(load.max(1))).max(1)
    }
}

impl<P> Bucket<P> {
    fn take(&mut self, ecn: bool, now: Timestamp) -> Option<FairTaken<P>> {
        let Some(mut held) = self.waiting.pop_front() else {
            self.codel.found_empty();
            return None;
        };
        self.bytes -= held.wire_bytes;
        let taken = Taken::new(&held, self.bytes, ecn, now);
        let drop = match self.codel.judge(taken, now) {
            Verdict::Pass => false,
            Verdict::Mark => {
                held.mark = true;
                false
            }
            Verdict::Drop => true,
        };
        if !drop {
            let bytes = i64::try_from(held.wire_bytes).unwrap_or(i64::MAX / PARTS);
            self.deficit = self.deficit.saturating_sub(bytes.saturating_mul(PARTS));
        }
        Some(FairTaken { held, drop })
    }
}

/// The quantum of Linux: one packet of the link's MTU with its overhead.
fn quantum_bytes(model: &LinkModel) -> u32 {
    model.mtu_bytes.saturating_add(model.overhead_bytes)
}
