//! Tokens that a server's operator issues to restrict who can load the server.
//!
//! A token is a text of four parts separated by dots: `pb1.EXPIRY.NAME.MAC`. EXPIRY is in seconds since the Unix epoch,
//! in decimal digits; NAME is for the operator; MAC is HMAC-SHA256 (RFC 2104) with the server's key over everything
//! before the dot that precedes it, as 64 lower-case hexadecimal digits. The first part is the format's version. The
//! key makes tokens; no list of them is kept. This module never reads a clock, a file or a random source.

use data_encoding::HEXLOWER;
use pathbench_record::text::duration;
use ring::hmac;
use std::fmt;
use std::time::Duration;
use thiserror::Error;

const VERSION: &str = "pb1";

/// A key must not be guessable: at least 16 bytes in any encoding.
const MIN_KEY_CHARACTERS: usize = 32;

/// Longest validity of a token: anyone who reads the token can use it.
pub const MAX_VALIDITY: Duration = Duration::from_secs(90 * 24 * 3600);

const MAX_NAME_BYTES: usize = 64;

/// The key that signs tokens.
#[derive(Clone)]
pub struct TokenKey(hmac::Key);

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(secret)")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a key needs at least {MIN_KEY_CHARACTERS} random characters; this one has {found}")]
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

/// The reason why the server rejects a token, for the user at the client.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenRefusal {
    #[error("it requires a token: ask its operator for one and pass it with --token")]
    Missing,
    #[error("this is not a token of this version (pb1.…): copy all of it")]
    Malformed,
    #[error("this server did not issue this token: it is another server's, or not all of it was copied")]
    Wrong,
    #[error("this token expired {} ago: ask the operator for a new one", duration(*.since))]
    Expired { since: Duration },
}

impl TokenKey {
    /// The text of a key file, made from bytes of a cryptographic random source.
    pub fn file_text(random: [u8; 32]) -> String {
        HEXLOWER.encode(&random) + "\n"
    }

    /// A key from the text of a key file, without leading and trailing white space.
    pub fn from_text(text: &str) -> Result<Self, KeyTooShort> {
        let text = text.trim();
        if text.len() < MIN_KEY_CHARACTERS {
            return Err(KeyTooShort { found: text.len() });
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())))
    }

    /// Makes a token that is valid for `validity` from `now` (seconds since the Unix epoch).
    pub fn mint(&self, name: &str, now: u64, validity: Duration) -> Result<String, MintError> {
        if !is_name(name) {
            return Err(MintError::Name { name: name.chars().take(MAX_NAME_BYTES).collect() });
        }
        if validity < Duration::from_secs(1) || validity > MAX_VALIDITY {
            return Err(MintError::Validity);
        }
        let signed = format!("{VERSION}.{}.{name}", now.saturating_add(validity.as_secs()));
        let mac = hmac::sign(&self.0, signed.as_bytes());
        Ok(format!("{signed}.{}", HEXLOWER.encode(mac.as_ref())))
    }

    /// Checks a token at `now` (seconds since the Unix epoch) and returns its name. The comparison takes the same time
    /// for every wrong signature; the expiry is checked only if the signature is right.
    pub fn check<'a>(&self, token: &'a str, now: u64) -> Result<&'a str, TokenRefusal> {
        let (signed, mac) = token.trim().rsplit_once('.').ok_or(TokenRefusal::Malformed)?;
        let mut parts = signed.split('.');
        let (Some(VERSION), Some(expiry), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenRefusal::Malformed);
        };
        let expiry: u64 = expiry.parse().map_err(|_| TokenRefusal::Malformed)?;
        let mac: Option<[u8; 32]> = HEXLOWER.decode(mac.as_bytes()).ok().and_then(|mac| mac.try_into().ok());
        let mac = mac.ok_or(TokenRefusal::Malformed)?;
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
