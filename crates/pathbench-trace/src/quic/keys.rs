//! Packet protection (RFC 9001, sections 5 and 6; RFC 9369, section 3.3).

use super::header::{ConnectionId, VERSION_2, draft};
use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey, quic};
use ring::hkdf;

/// AEAD of a cipher suite of TLS 1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
}

impl Suite {
    /// From the code of RFC 8446, appendix B.4.
    pub fn from_code(code: u16) -> Option<Self> {
        match code {
            0x1301 => Some(Self::Aes128Gcm),
            0x1302 => Some(Self::Aes256Gcm),
            0x1303 => Some(Self::ChaCha20Poly1305),
            _ => None,
        }
    }

    fn aead(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128Gcm => &aead::AES_128_GCM,
            Self::Aes256Gcm => &aead::AES_256_GCM,
            Self::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }

    fn header_protection(self) -> &'static quic::Algorithm {
        match self {
            Self::Aes128Gcm => &quic::AES_128,
            Self::Aes256Gcm => &quic::AES_256,
            Self::ChaCha20Poly1305 => &quic::CHACHA20,
        }
    }

    fn hash(self) -> (hkdf::Algorithm, usize) {
        match self {
            Self::Aes256Gcm => (hkdf::HKDF_SHA384, 48),
            Self::Aes128Gcm | Self::ChaCha20Poly1305 => (hkdf::HKDF_SHA256, 32),
        }
    }
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label with an empty context (RFC 8446, section 7.1).
fn expand(prk: &hkdf::Prk, label: &str, out: &mut [u8]) -> Option<()> {
    let length = (out.len() as u16).to_be_bytes();
    let label_length = [(label.len() + 6) as u8];
    let info: [&[u8]; 5] = [&length, &label_length, b"tls13 ", label.as_bytes(), &[0]];
    prk.expand(&info, Length(out.len())).ok()?.fill(out).ok()
}

/// Header protection and AEAD of one end in one packet number space.
pub struct PacketKeys {
    aead: LessSafeKey,
    iv: [u8; 12],
    header: quic::HeaderProtectionKey,
}

impl std::fmt::Debug for PacketKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PacketKeys")
    }
}

/// A packet number as sent, after removal of header protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unprotected {
    pub first: u8,
    pub number: u32,
    /// Bytes of the packet number.
    pub number_length: usize,
}

impl PacketKeys {
    /// `None` if the length of the secret does not fit the suite.
    pub fn new(secret: &[u8], suite: Suite, version: u32) -> Option<Self> {
        let (hash, length) = suite.hash();
        if secret.len() != length {
            return None;
        }
        let prefix = if version == VERSION_2 { "quicv2 " } else { "quic " };
        let prk = hkdf::Prk::new_less_safe(hash, secret);
        let (mut key, mut header, mut iv) = ([0; 32], [0; 32], [0; 12]);
        let key = key.get_mut(..suite.aead().key_len())?;
        let header = header.get_mut(..suite.header_protection().key_len())?;
        expand(&prk, &format!("{prefix}key"), key)?;
        expand(&prk, &format!("{prefix}iv"), &mut iv)?;
        expand(&prk, &format!("{prefix}hp"), header)?;
        Some(Self {
            aead: LessSafeKey::new(UnboundKey::new(suite.aead(), key).ok()?),
            iv,
            header: quic::HeaderProtectionKey::new(suite.header_protection(), header).ok()?,
        })
    }

    /// Removes header protection in place (RFC 9001, section 5.4).
    pub fn unprotect(&self, packet: &mut [u8], number_offset: usize) -> Option<Unprotected> {
        let sample = packet.get(number_offset.checked_add(4)?..)?.get(..16)?;
        let mask = self.header.new_mask(sample).ok()?;
        let first = packet.first_mut()?;
        *first ^= mask[0] & if *first & 0x80 == 0 { 0x1f } else { 0x0f };
        let first = *first;
        let number_length = usize::from(first & 3) + 1;
        let mut number = 0;
        for (byte, mask) in packet.get_mut(number_offset..)?.iter_mut().take(number_length).zip(&mask[1..]) {
            *byte ^= mask;
            number = number << 8 | u32::from(*byte);
        }
        Some(Unprotected { first, number, number_length })
    }

    /// Decrypts in place what follows the packet number (RFC 9001, section 5.3), and returns the frames.
    ///
    /// `path` is the path id (draft-ietf-quic-multipath, section 2.4), 0 without the extension.
    pub fn open<'a>(
        &self,
        packet: &'a mut [u8],
        header_length: usize,
        path: u32,
        number: u64,
    ) -> Option<&'a [u8]> {
        let mut nonce = self.iv;
        let number = number.to_be_bytes();
        for (byte, with) in nonce.iter_mut().zip(path.to_be_bytes().iter().chain(&number)) {
            *byte ^= with;
        }
        let (header, payload) = packet.split_at_mut_checked(header_length)?;
        let plain =
            self.aead.open_within(Nonce::assume_unique_for_key(nonce), Aad::from(&*header), payload, 0..);
        plain.ok().map(|plain| &*plain)
    }
}

/// The packet number that is nearest to `expected` (RFC 9000, appendix A.3).
pub fn decode_number(expected: u64, truncated: u32, length: usize) -> u64 {
    let window = 1_u64 << (8 * length.clamp(1, 4));
    let candidate = (expected & !(window - 1)) | u64::from(truncated);
    if candidate + window / 2 <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

const SALT_1: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc,
    0xbb, 0x7f, 0x0a,
];
const SALT_2: [u8; 20] = [
    0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb, 0xf9,
    0xbd, 0x2e, 0xd9,
];

/// Drafts 23 to 28.
const SALT_DRAFT_23: [u8; 20] = [
    0xc3, 0xee, 0xf7, 0x12, 0xc7, 0x2e, 0xbb, 0x5a, 0x11, 0xa7, 0xd2, 0x43, 0x2b, 0xb4, 0x63, 0x65, 0xbe,
    0xf9, 0xf5, 0x02,
];
/// Drafts 29 to 32.
const SALT_DRAFT_29: [u8; 20] = [
    0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97, 0x86, 0xf1, 0x9c, 0x61, 0x11, 0xe0, 0x43,
    0x90, 0xa8, 0x99,
];

/// Salt of the Initial secrets (section 5.2 of RFC 9001 and of its drafts).
fn salt(version: u32) -> [u8; 20] {
    match (version, draft(version)) {
        (VERSION_2, _) => SALT_2,
        (_, Some(23..=28)) => SALT_DRAFT_23,
        (_, Some(29..=32)) => SALT_DRAFT_29,
        _ => SALT_1,
    }
}

/// Key and nonce of the Retry integrity tag (section 5.8 of RFC 9001 and of its drafts); before draft 25 there is none.
fn retry_key(version: u32) -> Option<(u128, [u8; 12])> {
    Some(match (version, draft(version)) {
        (VERSION_2, _) => (
            0x8fb4_b01b_56ac_48e2_60fb_cbce_ad7c_cc92,
            [0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a],
        ),
        (_, Some(23 | 24)) => return None,
        (_, Some(25..=28)) => (
            0x4d32_ecdb_2a21_33c8_41e4_043d_f27d_4430,
            [0x4d, 0x16, 0x11, 0xd0, 0x55, 0x13, 0xa5, 0x52, 0xc5, 0x87, 0xd5, 0x75],
        ),
        (_, Some(29..=32)) => (
            0xccce_187e_d09a_09d0_5728_155a_6cb9_6be1,
            [0xe5, 0x49, 0x30, 0xf9, 0x7f, 0x21, 0x36, 0xf0, 0x53, 0x0a, 0x8c, 0x1c],
        ),
        _ => (
            0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e,
            [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb],
        ),
    })
}

/// Keys of the Initial packets of client and server, from the destination connection id of the client's first packet
/// (RFC 9001, section 5.2; RFC 9369, section 3.3.1).
pub fn initial(version: u32, destination: &ConnectionId) -> Option<[PacketKeys; 2]> {
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt(version)).extract(destination.as_slice());
    let keys = |label| {
        let mut secret = [0; 32];
        expand(&prk, label, &mut secret)?;
        PacketKeys::new(&secret, Suite::Aes128Gcm, version)
    };
    Some([keys("client in")?, keys("server in")?])
}

/// Secret of the next key phase (RFC 9001, section 6.1).
pub fn next_secret(secret: &[u8], suite: Suite, version: u32) -> Option<Vec<u8>> {
    let label = if version == VERSION_2 { "quicv2 ku" } else { "quic ku" };
    let mut next = vec![0; suite.hash().1];
    expand(&hkdf::Prk::new_less_safe(suite.hash().0, secret), label, &mut next)?;
    Some(next)
}

/// Whether the Retry packet answers an Initial packet to `original` (RFC 9001, section 5.8; RFC 9369, section 3.3.3).
pub fn is_retry_valid(version: u32, original: &ConnectionId, packet: &[u8]) -> bool {
    // Before draft 25 a Retry packet names the connection id that it answers.
    let Some((key, nonce)) = retry_key(version) else { return true };
    let key = key.to_be_bytes();
    let Some((packet, tag)) = packet.len().checked_sub(16).and_then(|at| packet.split_at_checked(at)) else {
        return false;
    };
    let Ok(key) = UnboundKey::new(&aead::AES_128_GCM, &key) else { return false };
    let pseudo = [&[original.len() as u8], original.as_slice(), packet].concat();
    let mut tag = tag.to_vec();
    LessSafeKey::new(key)
        .open_within(Nonce::assume_unique_for_key(nonce), Aad::from(pseudo), &mut tag, 0..)
        .is_ok()
}
