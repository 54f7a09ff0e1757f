//! Which bytes of the streams of one direction were on the wire before, and on which path.

use std::collections::{BTreeMap, HashMap};

/// Streams with ranges in memory; the least recently opened one is discarded first.
const MAX_STREAMS: usize = 256;
/// Ranges per stream; the lowest ones become the floor.
const MAX_RANGES: usize = 4096;

/// Bytes of one STREAM frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Carried {
    pub(super) new: u64,
    /// Carried before by the same path, or by a path that is not known any more.
    pub(super) same_path: u64,
    /// Carried before by another path only.
    pub(super) other_path: u64,
    /// The part of `new` below the highest offset.
    pub(super) gap: u64,
}

#[derive(Debug, Default)]
struct Ranges {
    /// Bytes below count as carried.
    floor: u64,
    end: u64,
    /// Start to end and index of the path that carried the range last.
    map: BTreeMap<u64, (u64, u16)>,
}

impl Ranges {
    fn carry(&mut self, start: u64, end: u64, path: u16) -> Carried {
        let mut carried = Carried::default();
        let below = start.max(self.floor.min(end));
        carried.same_path += below - start;
        let start = below;
        if start >= end {
            return carried;
        }
        let from = self.map.range(..=start).next_back().map_or(start, |(&from, _)| from);
        let touched: Vec<_> =
            self.map.range(from..end).map(|(&from, &(to, path))| (from, to, path)).collect();
        let mut known = 0;
        for (from, to, earlier) in touched {
            let (low, high) = (from.max(start), to.min(end));
            if low >= high {
                continue;
            }
            known += high - low;
            if earlier == path {
                carried.same_path += high - low;
            } else {
                carried.other_path += high - low;
            }
            self.map.remove(&from);
            if from < low {
                self.map.insert(from, (low, earlier));
            }
            if to > high {
                self.map.insert(high, (to, earlier));
            }
        }
        carried.new = end - start - known;
        carried.gap = carried.new.min(self.end.min(end).saturating_sub(start).saturating_sub(known));
        self.end = self.end.max(end);
        self.insert(start, end, path);
        carried
    }

    /// Merges with neighbours of the same path.
    fn insert(&mut self, mut start: u64, mut end: u64, path: u16) {
        if let Some((&from, &(to, earlier))) = self.map.range(..start).next_back()
            && to == start
            && earlier == path
        {
            start = from;
        }
        if let Some(&(to, later)) = self.map.get(&end)
            && later == path
        {
            self.map.remove(&end);
            end = to;
        }
        self.map.insert(start, (end, path));
        while self.map.len() > MAX_RANGES {
            if let Some((_, (to, _))) = self.map.pop_first() {
                self.floor = self.floor.max(to);
            }
        }
    }
}

/// The streams that one end sends.
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: HashMap<u64, (u64, Ranges)>,
    opened: u64,
}

impl Streams {
    pub(super) fn carry(&mut self, id: u64, offset: u64, length: u64, path: u16) -> Carried {
        if self.streams.len() >= MAX_STREAMS && !self.streams.contains_key(&id) {
            let oldest = self.streams.iter().min_by_key(|(_, (opened, _))| *opened).map(|(&id, _)| id);
            if let Some(oldest) = oldest {
                self.streams.remove(&oldest);
            }
        }
        let (_, ranges) = self.streams.entry(id).or_insert_with(|| {
            self.opened += 1;
            (self.opened, Ranges::default())
        });
        ranges.carry(offset, offset.saturating_add(length), path)
    }
}
