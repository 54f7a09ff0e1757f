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

    pub fn set_header(&mut self, header: [u8; HEADER_BYTES]) {
        self.bytes[..HEADER_BYTES].copy_from_slice(&header);
    }

    pub fn set_content(&mut self, content: Content, offset: u64, payload_bytes: usize) {
        if let Some(payload) = self.bytes.get_mut(HEADER_BYTES..HEADER_BYTES + payload_bytes) {
            content.fill(offset, payload);
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
