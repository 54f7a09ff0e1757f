//! Segments without payload at both points: delays of the direction that carries no data.

use super::envelope::Sample;
use std::collections::VecDeque;

/// Most acknowledgments that wait for their counterparts, per point.
const WAITING: usize = 4_096;
/// Acknowledgments before a matched one that may still come, reordered.
const REORDERED: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Acknowledgment {
    key: (u64, Option<u32>),
    time_ns: u64,
    /// The one before it at this point has the same key.
    repeated: bool,
}

/// The acknowledgments of one sender.
#[derive(Debug, Default)]
pub(super) struct Acknowledgments {
    waiting: [VecDeque<Acknowledgment>; 2],
    last: [Option<(u64, Option<u32>)>; 2],
}

impl Acknowledgments {
    /// An acknowledgment of `position` at a point. Returns its times if the other point
    /// has exactly one like it.
    pub(super) fn observe(
        &mut self,
        point: usize,
        position: u64,
        stamp: Option<u32>,
        time_ns: u64,
    ) -> Option<Sample> {
        let key = (position, stamp);
        let repeated = self.last[point].replace(key) == Some(key);
        let other = &mut self.waiting[1 - point];
        let Some(index) = other.iter().position(|found| found.key == key) else {
            let own = &mut self.waiting[point];
            if own.len() >= WAITING {
                own.pop_front();
            }
            own.push_back(Acknowledgment { key, time_ns, repeated });
            return None;
        };
        let found = other.remove(index)?;
        let ambiguous = other.get(index).is_some_and(|next| next.key == key);
        other.drain(..index.saturating_sub(REORDERED));
        if ambiguous || repeated || found.repeated {
            return None;
        }
        Some(Sample::new(point, time_ns, found.time_ns))
    }
}
