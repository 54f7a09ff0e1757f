//! Figures of one path (4-tuple) of a connection.

use crate::packet::FlowEndpoint;
use pathbench_record::trace::{Series, SizeCount, TracedDistribution};
use std::collections::{BTreeMap, VecDeque};

/// Windows of a series.
const MAX_WINDOWS: usize = 128;
/// Samples of a distribution.
const MAX_SAMPLES: usize = 4096;
/// Different sizes of packets before they are rounded.
const MAX_SIZES: usize = 256;
/// Sizes in the result.
const SHOWN_SIZES: usize = 16;
/// Packets whose acknowledgment is awaited.
const MAX_SENT: usize = 4096;
/// Packet numbers among which duplicates are recognised.
const WINDOW: usize = 1024;

/// Bytes per window; the windows double when the series has more than 128 of them.
#[derive(Debug, Clone)]
pub(super) struct Windows {
    window_ns: u64,
    bytes: Vec<u64>,
}

impl Default for Windows {
    fn default() -> Self {
        Self { window_ns: 1_000_000, bytes: Vec::new() }
    }
}

impl Windows {
    pub(super) fn add(&mut self, since_start_ns: u64, bytes: u64) {
        while since_start_ns / self.window_ns >= MAX_WINDOWS as u64 {
            self.window_ns *= 2;
            self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let window = (since_start_ns / self.window_ns) as usize;
        if self.bytes.len() <= window {
            self.bytes.resize(window + 1, 0);
        }
        if let Some(sum) = self.bytes.get_mut(window) {
            *sum += bytes;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (window, &bytes) in other.bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
            self.add(window as u64 * other.window_ns, bytes);
        }
    }

    pub(super) fn series(&self) -> Series {
        Series { window_s: self.window_ns as f64 / 1e9, bytes: self.bytes.clone() }
    }
}

/// Samples, evenly thinned out.
#[derive(Debug, Clone)]
pub(super) struct Samples {
    count: u64,
    step: u64,
    min: f64,
    max: f64,
    kept: Vec<f64>,
}

impl Default for Samples {
    fn default() -> Self {
        Self { count: 0, step: 1, min: f64::INFINITY, max: 0.0, kept: Vec::new() }
    }
}

impl Samples {
    fn add(&mut self, sample: f64) {
        if self.count.is_multiple_of(self.step) {
            self.kept.push(sample);
        }
        self.count += 1;
        self.min = self.min.min(sample);
        self.max = self.max.max(sample);
        if self.kept.len() > MAX_SAMPLES {
            self.step *= 2;
            self.kept = self.kept.iter().copied().step_by(2).collect();
        }
    }

    pub(super) fn distribution(&self) -> Option<TracedDistribution> {
        let mut sorted = self.kept.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| sorted.get(((sorted.len() - 1) as f64 * part).round() as usize).copied();
        (self.count > 0).then(|| TracedDistribution {
            count: self.count,
            min: self.min,
            median: at(0.5).unwrap_or_default(),
            p95: at(0.95).unwrap_or_default(),
            max: self.max,
        })
    }
}

/// Packets per size.
#[derive(Debug, Clone, Default)]
pub(super) struct Sizes(BTreeMap<u32, u64>);

impl Sizes {
    fn add(&mut self, bytes: u32) {
        let full = self.0.len() >= MAX_SIZES && !self.0.contains_key(&bytes);
        *self.0.entry(if full { bytes & !0xff } else { bytes }).or_default() += 1;
    }

    /// The most frequent ones, largest first.
    pub(super) fn counts(&self) -> Vec<SizeCount> {
        let mut counts: Vec<_> =
            self.0.iter().map(|(&bytes, &packets)| SizeCount { bytes, packets }).collect();
        counts.sort_by_key(|count| std::cmp::Reverse((count.packets, count.bytes)));
        counts.truncate(SHOWN_SIZES);
        counts.sort_by_key(|count| std::cmp::Reverse(count.bytes));
        counts
    }
}

/// Packets of one end on one path.
#[derive(Debug, Clone, Default)]
pub(super) struct Direction {
    pub(super) packets: u64,
    pub(super) ip_bytes: u64,
    pub(super) payload_bytes: u64,
    pub(super) congestion_experienced: u64,
    pub(super) largest_ip_bytes: u32,
    pub(super) sizes: Sizes,
    pub(super) throughput: Windows,
    /// New bytes of streams and DATAGRAM frames.
    pub(super) goodput: Windows,
    pub(super) data_bytes: u64,
    pub(super) stream_bytes: u64,
    pub(super) retransmitted_bytes: u64,
    pub(super) retransmitted_packets: u64,
    pub(super) reinjected_bytes: u64,
    pub(super) gap_bytes: u64,
    pub(super) rtt: Samples,
}

impl Direction {
    pub(super) fn add(
        &mut self,
        since_start_ns: u64,
        ip_length: u32,
        payload: u32,
        congestion_experienced: bool,
    ) {
        self.packets += 1;
        self.ip_bytes += u64::from(ip_length);
        self.payload_bytes += u64::from(payload);
        self.congestion_experienced += u64::from(congestion_experienced);
        self.largest_ip_bytes = self.largest_ip_bytes.max(ip_length);
        self.sizes.add(payload);
        self.throughput.add(since_start_ns, u64::from(payload));
    }

    pub(super) fn rtt_sample(&mut self, nanoseconds: u64) {
        self.rtt.add(nanoseconds as f64 / 1e6);
    }
}

/// One 4-tuple of a connection.
#[derive(Debug, Clone)]
pub(super) struct Path {
    pub(super) client: FlowEndpoint,
    pub(super) server: FlowEndpoint,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// The last path id that a packet on this 4-tuple had.
    pub(super) id: Option<u32>,
    pub(super) backup: Option<bool>,
    pub(super) abandoned: bool,
    /// Upload, download.
    pub(super) directions: [Direction; 2],
}

/// Packet numbers of one end and one path id in the 1-RTT space.
#[derive(Debug, Clone, Default)]
pub(super) struct NumberSpace {
    /// One above the largest packet number.
    pub(super) expected: u64,
    /// One bit per number below `expected`.
    seen: [u64; WINDOW / 64],
    /// Packet number, time, index of the 4-tuple; ascending.
    sent: VecDeque<(u64, u64, usize)>,
}

impl NumberSpace {
    /// Whether the packet was captured before: at another point, or duplicated by the network.
    pub(super) fn is_duplicate(&mut self, number: u64) -> bool {
        let word_and_bit = |number: u64| ((number / 64) as usize % (WINDOW / 64), 1_u64 << (number % 64));
        if number >= self.expected {
            // The words that the window leaves behind.
            let first = (self.expected / 64).max((number / 64).saturating_sub(WINDOW as u64 / 64 - 1));
            for word in first..=number / 64 {
                let begun = word == self.expected / 64 && !self.expected.is_multiple_of(64);
                if let Some(seen) = self.seen.get_mut(word_and_bit(word * 64).0).filter(|_| !begun) {
                    *seen = 0;
                }
            }
        } else if self.expected - number > WINDOW as u64 - 64 {
            return false;
        }
        let (word, bit) = word_and_bit(number);
        let Some(seen) = self.seen.get_mut(word) else { return false };
        let duplicate = *seen & bit != 0;
        *seen |= bit;
        duplicate
    }

    /// Only packets that elicit an acknowledgment give round trips (RFC 9002, section 5.1).
    pub(super) fn sent(&mut self, number: u64, time_ns: u64, path: usize, eliciting: bool) {
        if number < self.expected {
            return;
        }
        self.expected = number + 1;
        if eliciting {
            if self.sent.len() >= MAX_SENT {
                self.sent.pop_front();
            }
            self.sent.push_back((number, time_ns, path));
        }
    }

    /// Time and 4-tuple of the acknowledged packet, once; forgets it and the earlier ones.
    pub(super) fn acknowledged(&mut self, number: u64) -> Option<(u64, usize)> {
        let at = self.sent.partition_point(|sent| sent.0 < number);
        let found = self.sent.get(at).filter(|sent| sent.0 == number).map(|sent| (sent.1, sent.2));
        self.sent.drain(..at + usize::from(found.is_some()));
        found
    }
}
