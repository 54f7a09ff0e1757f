//! Tokens: what a server's operator hands out so that not everybody can load the server.
//!
//! A token is text of four parts with points between: `pb1.EXPIRY.NAME.MAC`. EXPIRY is in seconds since the Unix
//! epoch, in decimal digits; NAME is for the operator's eyes; MAC is HMAC-SHA256 (RFC 2104) over everything before
//! its point, with the server's key, as 64 lower-case hexadecimal digits. The first part is the format's version.
//! The key makes tokens; no list of them is kept.

use ring::hmac;
use std::fmt;
use std::time::Duration;
use thiserror::Error;

const VERSION: &str = "pb1";

/// A key must not be guessed: 16 bytes at least, however they are written.
const MIN_KEY_CHARACTERS: usize = 32;

/// Longest a token may be valid: anybody who has seen it can use it.
pub const MAX_VALIDITY: Duration = Duration::from_secs(90 * 24 * 3600);

const MAX_NAME_BYTES: usize = 64;

/// What tokens are signed with.
#[derive(Clone)]
pub struct TokenKey(hmac::Key);

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(secret)")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a key takes at least {MIN_KEY_CHARACTERS} characters that nobody can guess; this has {found}")]
pub struct KeyTooShort {
    pub found: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MintError {
    #[error(
        "`{name}` cannot be the name in a token: use 1 to {MAX_NAME_BYTES} letters, digits, hyphens, underscores"
    )]
    Name { name: String },
    #[error("a token is valid for 1 s to {} days", MAX_VALIDITY.as_secs() / 86_400)]
    Validity,
}

/// Why a token is not accepted. The words reach the person at the client.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenRefusal {
    #[error("it takes a token: ask its operator for one and give it with --token")]
    Missing,
    #[error("this is not a token of this version (pb1.…): copy it whole")]
    Malformed,
    #[error("this token is not one of this server's: it was made for another one, or is not copied whole")]
    Wrong,
    #[error("this token expired {} ago: ask the operator for a new one", words(*.since))]
    Expired { since: Duration },
}

fn words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

impl TokenKey {
    /// The text of a key file, out of bytes from a cryptographic random source.
    pub fn file_text(random: [u8; 32]) -> String {
        hexadecimal(&random) + "\n"
    }

    /// A key out of the text of a key file; white space around it does not count.
    pub fn from_text(text: &str) -> Result<Self, KeyTooShort> {
        let text = text.trim();
        if text.len() < MIN_KEY_CHARACTERS {
            return Err(KeyTooShort { found: text.len() });
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())))
    }

    /// Makes a token that is valid for `validity` from `now` on (seconds since the Unix epoch).
    pub fn mint(&self, name: &str, now: u64, validity: Duration) -> Result<String, MintError> {
        if !is_name(name) {
            return Err(MintError::Name { name: name.chars().take(MAX_NAME_BYTES).collect() });
        }
        if validity < Duration::from_secs(1) || validity > MAX_VALIDITY {
            return Err(MintError::Validity);
        }
        let signed = format!("{VERSION}.{}.{name}", now.saturating_add(validity.as_secs()));
        let mac = hmac::sign(&self.0, signed.as_bytes());
        Ok(format!("{signed}.{}", hexadecimal(mac.as_ref())))
    }

    /// Checks a token at `now` (seconds since the Unix epoch) and returns the name in it. The comparison takes the
    /// same time whatever is wrong with the signature, and an expiry is believed only once the signature is right.
    pub fn check<'a>(&self, token: &'a str, now: u64) -> Result<&'a str, TokenRefusal> {
        let (signed, mac) = token.trim().rsplit_once('.').ok_or(TokenRefusal::Malformed)?;
        let mut parts = signed.split('.');
        let (Some(VERSION), Some(expiry), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenRefusal::Malformed);
        };
        let expiry: u64 = expiry.parse().map_err(|_| TokenRefusal::Malformed)?;
        let mac = from_hexadecimal(mac).ok_or(TokenRefusal::Malformed)?;
        hmac::verify(&self.0, signed.as_bytes(), &mac).map_err(|_| TokenRefusal::Wrong)?;
        match now.checked_sub(expiry) {
            None => Ok(name),
            Some(since) => Err(TokenRefusal::Expired { since: Duration::from_secs(since) }),
        }
    }
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

fn from_hexadecimal(text: &str) -> Option<[u8; 32]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let bytes: Vec<u8> =
        pairs.iter().map(|&[high, low]| Some(digit(high)? * 16 + digit(low)?)).collect::<Option<_>>()?;
    if rest.is_empty() { bytes.try_into().ok() } else { None }
}
