//! Keys of a connection and values derived from them (RFC 8684, sections 3.1 and 3.2; version 0: RFC 6824).

use ring::{digest, hmac};

/// A key of `MP_CAPABLE`, in network byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub u64);

fn hash(version: u8, key: Key) -> digest::Digest {
    let algorithm = if version == 0 { &digest::SHA1_FOR_LEGACY_USE_ONLY } else { &digest::SHA256 };
    digest::digest(algorithm, &key.0.to_be_bytes())
}

fn sign(version: u8, first: Key, second: Key, message: &[u8]) -> hmac::Tag {
    let algorithm = if version == 0 { hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY } else { hmac::HMAC_SHA256 };
    let secret = u128::from(first.0) << 64 | u128::from(second.0);
    hmac::sign(&hmac::Key::new(algorithm, &secret.to_be_bytes()), message)
}

/// The first `N` bytes; hashes of both versions have at least 20.
fn left<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

fn right(bytes: &[u8]) -> u64 {
    bytes.last_chunk().map_or(0, |last| u64::from_be_bytes(*last))
}

fn nonces(first: u32, second: u32) -> [u8; 8] {
    (u64::from(first) << 32 | u64::from(second)).to_be_bytes()
}

/// The token of a connection at the host that has `key`: the first 32 bits of the hash (section 3.2).
pub fn token(version: u8, key: Key) -> u32 {
    u32::from_be_bytes(left(hash(version, key).as_ref()))
}

/// The initial data sequence number of the host that has `key`: the last 64 bits of the hash (section 3.1).
pub fn initial_data_sequence(version: u8, key: Key) -> u64 {
    right(hash(version, key).as_ref())
}

/// The HMAC of a SYN/ACK with `MP_JOIN` (section 3.2). The initiator is the host that sends the SYN.
pub fn join_syn_ack_hmac(
    version: u8,
    (initiator_key, initiator_nonce): (Key, u32),
    (responder_key, responder_nonce): (Key, u32),
) -> u64 {
    let message = nonces(responder_nonce, initiator_nonce);
    u64::from_be_bytes(left(sign(version, responder_key, initiator_key, &message).as_ref()))
}

/// The HMAC of the third segment with `MP_JOIN` (section 3.2).
pub fn join_ack_hmac(
    version: u8,
    (initiator_key, initiator_nonce): (Key, u32),
    (responder_key, responder_nonce): (Key, u32),
) -> [u8; 20] {
    let message = nonces(initiator_nonce, responder_nonce);
    left(sign(version, initiator_key, responder_key, &message).as_ref())
}
