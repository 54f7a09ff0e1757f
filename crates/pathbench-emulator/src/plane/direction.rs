//! One way of a link: its pipe, and what is counted about it.

use super::granularity::passes_whole;
use super::lateness::Histogram;
use super::packet::Piece;
use super::{DirectionReport, QueueSample};
use crate::pipe::Condition;
use crate::pipe::Pipe;
use crate::segmentation::{Handover, Run};
use pathbench_link::ChangeSchedule;
use pathbench_link::{LinkChange, LinkModel};
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;

/// One way of a link.
#[derive(Debug)]
pub(super) struct Direction {
    pub(super) pipe: Pipe<Piece>,
    pub(super) lateness: Histogram,
    pub(super) refused_packets: u64,
    /// As it was set, without what a schedule of changes made of it.
    model: LinkModel,
    /// Whether a schedule of changes is or was followed.
    following: bool,
    series: Vec<QueueSample>,
    /// Length of the IP packet → wire packets put in. The largest IP packet bounds it.
    offered_sizes: BTreeMap<u32, u64>,
}

impl Direction {
    pub(super) fn new(model: LinkModel, seed: u64, now: Timestamp) -> Self {
        let mut direction = Self {
            pipe: Pipe::new(model.clone(), seed, now),
            lateness: Histogram::new(),
            refused_packets: 0,
            model,
            following: false,
            series: Vec::new(),
            offered_sizes: BTreeMap::new(),
        };
        direction.sample(now);
        direction
    }

    /// Begins anew.
    pub(super) fn restart(&mut self, seed: u64, now: Timestamp) {
        let condition = self.pipe.condition();
        *self = Self::new(self.model.clone(), seed, now);
        self.pipe.set_condition(now, condition);
    }

    pub(super) fn change(&mut self, now: Timestamp, change: &LinkChange) {
        self.pipe.change(now, change);
        change.apply(&mut self.model);
    }

    pub(super) fn follow(&mut self, now: Timestamp, schedule: ChangeSchedule) {
        self.pipe.follow(now, schedule);
        self.following = true;
    }

    pub(super) fn set_condition(&mut self, now: Timestamp, condition: Condition) {
        self.pipe.set_condition(now, condition);
    }

    /// Whether what hosts hand over passes whole. Not while a schedule may change the model at any time.
    pub(super) fn passes_whole(&self) -> bool {
        !self.following && passes_whole(&self.model)
    }

    /// Counts what a host handed over by the length of its wire packets, of which all but the last are equally long.
    pub(super) fn count(&mut self, handover: &Handover) {
        let last = handover.segments().saturating_sub(1);
        let bytes = |segment| handover.ip_bytes(Run { first: segment, count: 1 });
        if last > 0 {
            *self.offered_sizes.entry(bytes(0)).or_insert(0) += u64::from(last);
        }
        *self.offered_sizes.entry(bytes(last)).or_insert(0) += 1;
    }

    /// Takes a sample; says whether anything has changed since the one before.
    pub(super) fn sample(&mut self, now: Timestamp) -> bool {
        let statistics = self.pipe.statistics();
        let sample = QueueSample {
            at: now,
            queue_bytes: statistics.queue_bytes,
            queue_packets: statistics.queue_packets,
            offered_bytes: statistics.offered_bytes,
            delivered_bytes: statistics.delivered_bytes,
            dropped_packets: statistics.dropped_packets.values().sum(),
            rate_bps: self.pipe.rate_bps(now),
            loss: self.pipe.loss(now),
            delay: self.pipe.base_delay(now),
        };
        let changed = self.series.last().is_none_or(|last| QueueSample { at: now, ..*last } != sample);
        if changed {
            self.series.push(sample);
        }
        changed
    }

    /// What it has done. Does not know of overruns.
    pub(super) fn report(&self) -> DirectionReport {
        DirectionReport {
            statistics: self.pipe.statistics().clone(),
            lateness: self.lateness.lateness(),
            refused_packets: self.refused_packets,
            overrun_packets: 0,
            series: self.series.clone(),
            offered_sizes: self.offered_sizes.clone(),
        }
    }
}
