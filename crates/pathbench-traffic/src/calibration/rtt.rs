//! Round-trip times of echoes.

use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// Median and minimum of the round-trip times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttFigures {
    /// Median; of an even number the mean of the middle two.
    pub median: Duration,
    /// Smallest.
    pub min: Duration,
}

impl RttFigures {
    /// `None` of nothing.
    pub fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let middle = times.len() / 2;
        let (upper, min) = (*times.get(middle)?, *times.first()?);
        let lower = if times.len().is_multiple_of(2) { times[middle - 1] } else { upper };
        Some(Self { median: (lower + upper) / 2, min })
    }
}

/// Echoes under way and come back.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    under_way: BTreeMap<u64, Timestamp>,
    times: Vec<Duration>,
}

impl Echoes {
    pub(super) fn sent(&mut self, number: u64, at: Timestamp) {
        self.under_way.insert(number, at);
    }

    /// Each echo counts once.
    pub(super) fn returned(&mut self, number: u64, at: Timestamp) {
        if let Some(sent) = self.under_way.remove(&number) {
            self.times.push(at.since(sent));
        }
    }

    pub(super) fn all_returned(&self) -> bool {
        self.under_way.is_empty()
    }

    pub(super) fn longest(&self) -> Option<Duration> {
        self.times.iter().copied().max()
    }

    pub(super) fn figures(self) -> Option<RttFigures> {
        RttFigures::of(self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_minimum() {
        let ms = |values: &[u64]| values.iter().map(|ms| Duration::from_millis(*ms)).collect();
        assert_eq!(RttFigures::of(Vec::new()), None);
        let odd = RttFigures::of(ms(&[9, 1, 5])).unwrap();
        assert_eq!((odd.median, odd.min), (Duration::from_millis(5), Duration::from_millis(1)));
        let even = RttFigures::of(ms(&[4, 2, 100, 8])).unwrap();
        assert_eq!((even.median, even.min), (Duration::from_millis(6), Duration::from_millis(2)));
    }

    #[test]
    fn duplicates_and_strangers_do_not_count() {
        let mut echoes = Echoes::default();
        let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        echoes.sent(1, at(0));
        echoes.returned(1, at(3));
        echoes.returned(1, at(9));
        echoes.returned(2, at(9));
        assert!(echoes.all_returned());
        assert_eq!(echoes.figures().unwrap().median, Duration::from_millis(3));
    }
}
