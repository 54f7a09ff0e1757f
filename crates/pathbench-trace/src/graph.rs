//! Time-sequence graphs of chosen connections: a second pass over their captures, in bounded memory.

use crate::analyzer::{SegmentKind, Sequence, TracedSegment};
use crate::capture::Frame;
use pathbench_record::trace::{SequenceLine, SequenceSegment};
use std::collections::{BTreeMap, BTreeSet};

/// Most lines.
const MOST_LINES: usize = 256;
/// Most segments, and most acknowledgments, of one line.
const MOST: usize = 2_000;

/// Connection, subflow (`None`: data level) and sender.
type Key = (u64, Option<u32>, usize);

/// Collects the segments of connections.
#[derive(Debug)]
pub struct Graphs {
    connections: BTreeSet<u64>,
    origin_ns: u64,
    lines: BTreeMap<Key, Line>,
}

#[derive(Debug, Default)]
struct Line {
    segments: Thinned<(u64, u64, u64, SegmentKind, u32)>,
    acknowledgments: Thinned<(u64, u64)>,
}

/// Every k-th value, where k doubles when there are too many.
#[derive(Debug)]
struct Thinned<T> {
    values: Vec<T>,
    common: Step,
    /// For values that are thinned last.
    special: Step,
}

#[derive(Debug)]
struct Step {
    of: u32,
    since: u32,
}

impl Step {
    fn takes(&mut self) -> bool {
        self.since += 1;
        let takes = self.since >= self.of;
        if takes {
            self.since = 0;
        }
        takes
    }

    fn double(&mut self) {
        self.of = self.of.saturating_mul(2);
    }
}

impl<T> Default for Thinned<T> {
    fn default() -> Self {
        let one = || Step { of: 1, since: 0 };
        Self { values: Vec::new(), common: one(), special: one() }
    }
}

impl<T> Thinned<T> {
    fn push(&mut self, value: T, is_special: impl Fn(&T) -> bool) {
        let step = if is_special(&value) { &mut self.special } else { &mut self.common };
        if !step.takes() {
            return;
        }
        self.values.push(value);
        if self.values.len() > MOST {
            self.common.double();
            self.halve(&is_special);
            if self.values.len() > MOST * 3 / 4 {
                self.special.double();
                self.halve(|_: &T| false);
            }
        }
    }

    fn halve(&mut self, kept: impl Fn(&T) -> bool) {
        let mut odd = false;
        self.values.retain(|value| {
            kept(value) || {
                odd = !odd;
                odd
            }
        });
    }
}

impl Graphs {
    /// For the connections with these ids. Times count from `origin_ns`, the first packet of all captures.
    pub fn new(connections: impl IntoIterator<Item = u64>, origin_ns: u64) -> Self {
        Self { connections: connections.into_iter().collect(), origin_ns, lines: BTreeMap::new() }
    }

    /// By connection, the data level first, then by subflow.
    pub fn into_lines(self) -> Vec<SequenceLine> {
        let origin_ns = self.origin_ns;
        let at_s = |time_ns: u64| time_ns.saturating_sub(origin_ns) as f64 / 1e9;
        let line = |((connection, subflow, sender), line): (Key, Line)| SequenceLine {
            connection,
            subflow,
            direction: if sender == 0 { "upload" } else { "download" }.to_owned(),
            thinned: line.segments.common.of.max(line.acknowledgments.common.of),
            segments: line
                .segments
                .values
                .into_iter()
                .map(|(time_ns, start, end, kind, carrier)| SequenceSegment {
                    at_s: at_s(time_ns),
                    start,
                    end,
                    kind: kind.name().to_owned(),
                    subflow: subflow.is_none().then_some(carrier),
                })
                .collect(),
            acknowledgments: line
                .acknowledgments
                .values
                .into_iter()
                .map(|(time, position)| (at_s(time), position))
                .collect(),
        };
        self.lines.into_iter().map(line).collect()
    }

    fn data(&mut self, key: Key, range: (u64, u64), segment: &TracedSegment) {
        let special = |value: &(u64, u64, u64, SegmentKind, u32)| {
            matches!(value.3, SegmentKind::Retransmission | SegmentKind::Reinjection)
        };
        let value = (segment.time_ns, range.0, range.1, segment.kind, segment.subflow);
        if self.lines.len() < MOST_LINES || self.lines.contains_key(&key) {
            self.lines.entry(key).or_default().segments.push(value, special);
        }
    }

    fn acknowledgment(&mut self, key: Key, position: u64, time_ns: u64) {
        // Nothing has been sent in this direction.
        let Some(line) = self.lines.get_mut(&key) else { return };
        if line.acknowledgments.values.last().is_none_or(|(_, last)| *last < position) {
            line.acknowledgments.push((time_ns, position), |_| false);
        }
    }
}

impl Sequence for Graphs {
    const ACTIVE: bool = true;

    fn segment(&mut self, _: &Frame<'_>, segment: &TracedSegment) {
        let (connection, sender) = (segment.connection, segment.sender);
        if !self.connections.contains(&connection) {
            return;
        }
        if let Some(range) = segment.range {
            self.data((connection, Some(segment.subflow), sender), range, segment);
        }
        if let Some(range) = segment.data_range {
            self.data((connection, None, sender), range, segment);
        }
        let peer = 1 - sender;
        self.acknowledgment((connection, Some(segment.subflow), peer), segment.acknowledged, segment.time_ns);
        if let Some(position) = segment.data_acknowledged {
            self.acknowledgment((connection, None, peer), position, segment.time_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_keeps_its_retransmissions_longest() {
        let mut line = Thinned::default();
        for number in 0..100_000_u32 {
            line.push(number, |number| number % 1_000 == 0);
        }
        assert!(line.values.len() <= MOST);
        assert_eq!(line.values.iter().filter(|number| **number % 1_000 == 0).count(), 100);
        assert!(line.values.windows(2).all(|pair| pair[1] - pair[0] <= 2 * line.common.of));
        let mut special = Thinned::default();
        (0..100_000_u32).for_each(|number| special.push(number, |_| true));
        assert!(special.values.len() <= MOST);
    }
}
