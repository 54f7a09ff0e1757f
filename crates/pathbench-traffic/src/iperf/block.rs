//! The buffer that is written over and over: one DATA header and a payload that is built once.

use crate::content::Content;
use crate::protocol::HEADER_BYTES;
use std::time::Duration;

/// At a limited rate, a block is not more than this much time of the rate.
const MAX_BLOCK_TIME: Duration = Duration::from_millis(10);

/// Blocks are not made smaller than this, however low the rate.
const MIN_PAYLOAD_BYTES: usize = 256;

/// Payload of a full block: `block_bytes` less the header, and at a limited rate at most 10 ms of it.
pub fn payload_bytes_per_block(block_bytes: u32, rate_bps: Option<u64>) -> usize {
    let most = (block_bytes as usize).saturating_sub(HEADER_BYTES).max(1);
    match rate_bps {
        None => most,
        Some(rate) => {
            let within_time = u128::from(rate) * MAX_BLOCK_TIME.as_nanos() / 8_000_000_000;
            most.min(usize::try_from(within_time).unwrap_or(usize::MAX).max(MIN_PAYLOAD_BYTES))
        }
    }
}

/// A DATA frame ready to be written: room for the header, then pseudo-random payload without a zero byte,
/// so that neither a compressing link nor a zero-page trick makes the test easier than real data.
#[derive(Debug, Clone)]
pub struct Block {
    bytes: Vec<u8>,
}

impl Block {
    /// A block with room for `payload_bytes`.
    pub fn new(payload_bytes: usize) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.reserve_exact(payload_bytes);
        // xorshift64 (Marsaglia 2003), fixed seed: both ends of a comparison send the same bytes.
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        while bytes.len() < HEADER_BYTES + payload_bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push(((state >> 32) as u8).max(1));
        }
        Self { bytes }
    }

    /// Puts `header` at the front.
    pub fn set_header(&mut self, header: [u8; HEADER_BYTES]) {
        self.bytes[..HEADER_BYTES].copy_from_slice(&header);
    }

    /// Makes the first `payload_bytes` of the payload the content from `offset` on.
    pub fn set_content(&mut self, content: Content, offset: u64, payload_bytes: usize) {
        if let Some(payload) = self.bytes.get_mut(HEADER_BYTES..HEADER_BYTES + payload_bytes) {
            content.fill(offset, payload);
        }
    }

    /// Header and payload.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_shrink_with_the_rate() {
        assert_eq!(payload_bytes_per_block(131_072, None), 131_064);
        assert_eq!(payload_bytes_per_block(131_072, Some(10_000_000_000)), 131_064);
        assert_eq!(payload_bytes_per_block(131_072, Some(8_000_000)), 10_000);
        assert_eq!(payload_bytes_per_block(131_072, Some(8_000)), 256);
        assert_eq!(payload_bytes_per_block(64, Some(8_000)), 56);
    }

    #[test]
    fn payload_has_no_zero_and_does_not_compress_to_a_byte() {
        let block = Block::new(10_000);
        let payload = &block.bytes()[HEADER_BYTES..];
        assert_eq!(payload.len(), 10_000);
        assert!(!payload.contains(&0));
        let distinct: std::collections::BTreeSet<u8> = payload.iter().copied().collect();
        assert_eq!(distinct.len(), 255);
    }
}
