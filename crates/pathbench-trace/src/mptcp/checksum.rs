//! Verification of DSS checksums (RFC 8684, section 3.3.1).

use super::options::{DataSequence, widen};
use crate::coverage::Coverage;
use std::collections::VecDeque;

const MAX_OPEN: usize = 64;

/// The checksums of one direction of a subflow.
#[derive(Debug, Clone, Default)]
pub struct Checksums {
    pub verified: u64,
    pub wrong: u64,
    /// Mappings whose payload the capture does not have.
    pub unverifiable: u64,
    open: VecDeque<Open>,
    /// Subflow sequence numbers of all mappings: senders repeat a mapping on several segments.
    mapped: Coverage,
    highest: u64,
    data_fin: Option<u64>,
}

#[derive(Debug, Clone)]
struct Open {
    start: u64,
    length: u32,
    sum: u64,
    summed: Coverage,
    missing: u32,
}

impl Checksums {
    /// Adds a mapping with a checksum. It comes before the payload of its segment. `length` is the field of the
    /// option; with `data_fin`, its last byte is not in the payload.
    pub fn mapping(&mut self, data_sequence: u64, subflow: u32, length: u16, checksum: u16, data_fin: bool) {
        let payload = u32::from(length).saturating_sub(u32::from(data_fin));
        if length == 0 {
            return;
        }
        let sum = words(&data_sequence.to_be_bytes())
            + words(&subflow.to_be_bytes())
            + u64::from(length)
            + u64::from(checksum);
        let start = self.position(subflow);
        let mapping = Open { start, length: payload, sum, summed: Coverage::default(), missing: payload };
        if payload == 0 {
            // A `DATA_FIN` without data has subflow sequence number 0; hosts repeat it until it is acknowledged.
            if self.data_fin.replace(data_sequence) != Some(data_sequence) {
                self.finish(&mapping);
            }
            return;
        }
        if self.mapped.add(start, start + u64::from(payload)) == 0 {
            return;
        }
        self.highest = self.highest.max(start);
        self.open.push_back(mapping);
        if self.open.len() > MAX_OPEN {
            self.open.pop_front();
            self.unverifiable += 1;
        }
    }

    /// Adds captured payload that starts at a subflow sequence number. Payload that precedes its mapping is not kept.
    pub fn payload(&mut self, subflow: u32, captured: &[u8]) {
        let start = self.position(subflow);
        let mut at = 0;
        while let Some(mapping) = self.open.get_mut(at) {
            mapping.add(start, captured);
            if mapping.missing > 0 {
                at += 1;
            } else if let Some(mapping) = self.open.remove(at) {
                self.finish(&mapping);
            }
        }
    }

    /// Counts the mappings that are still open at the end of the subflow as unverifiable.
    pub fn close(&mut self) {
        self.unverifiable += self.open.drain(..).len() as u64;
    }

    /// Subflow sequence numbers wrap after 4 GB. The offset keeps numbers before the first one positive.
    fn position(&self, subflow: u32) -> u64 {
        let last = if self.highest == 0 { 1 << 32 } else { self.highest };
        widen(DataSequence::Short(subflow), last)
    }

    fn finish(&mut self, mapping: &Open) {
        if fold(mapping.sum) == 0xffff {
            self.verified += 1;
        } else {
            self.wrong += 1;
        }
    }
}

impl Open {
    /// Sums the bytes of a piece that the mapping has and that were not summed before.
    fn add(&mut self, start: u64, captured: &[u8]) {
        let end = (start + captured.len() as u64).min(self.start + u64::from(self.length));
        let mut at = start.max(self.start);
        while at < end {
            let next = if self.summed.covered(at, end) == 0 { end } else { at + 1 };
            if self.summed.add(at, next) > 0 {
                let piece = captured.get((at - start) as usize..(next - start) as usize).unwrap_or_default();
                let sum = u64::from(fold(words(piece)));
                let odd = (at - self.start) % 2 == 1;
                self.sum += if odd { u64::from((sum as u16).swap_bytes()) } else { sum };
                self.missing = self.missing.saturating_sub(piece.len() as u32);
            }
            at = next;
        }
    }
}

/// The sum of 16-bit words; an odd last byte is the high half of a word (RFC 1071).
fn words(bytes: &[u8]) -> u64 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let sum: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
    sum + rest.first().map_or(0, |byte| u64::from(*byte) << 8)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
