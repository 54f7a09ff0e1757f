//! Tokens: who may do what at a test server or a collector, and until when.
//!
//! A token is a text of seven parts separated by dots: `pb2.AUDIENCE.SUBJECT.SERIAL.ISSUED.EXPIRY.MAC`. AUDIENCE is an
//! [`Audience`]; SUBJECT is whose it is, with bytes other than letters, digits, `-` and `_` as `~` and two hexadecimal digits; SERIAL, 16 hexadecimal digits, names the token and its renewals, so that they can
//! be revoked; ISSUED and EXPIRY are in seconds since the Unix epoch, in decimal digits. MAC is HMAC-SHA256 (RFC 2104)
//! over everything before the dot that precedes it, as 64 lower-case hexadecimal digits; its key is the HMAC-SHA256 of
//! `pb2 AUDIENCE` with the issuer's key. So a token is worth nothing where another audience is asked for. The key makes
//! tokens; no list of them is kept. This module never reads a clock, a file or a random source.

use crate::name::Name;
use data_encoding::HEXLOWER;
use pathbench_record::text::duration;
use ring::hmac;
use std::fmt;
use std::time::Duration;
use thiserror::Error;

const VERSION: &str = "pb2";

/// A key must not be guessable: at least 16 bytes in any encoding.
const MIN_KEY_CHARACTERS: usize = 32;

/// Longest validity of a token: anyone who reads the token can use it.
pub const MAX_VALIDITY: Duration = Duration::from_secs(90 * 24 * 3600);

/// The use that a token permits.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum Audience {
    /// Tests on a server.
    Test,
    /// The reports of a test server to its collector; the subject is the server's name.
    Server,
    /// Check-ins, live reports and submissions of an agent; the subject is the agent's name.
    Agent,
    /// Submissions.
    #[strum(serialize = "submit")]
    Submission,
    /// Deletions of the results that were submitted with its digest. Their owner makes it: [`deletion_token`].
    #[strum(serialize = "delete")]
    Deletion,
    /// All that the operator of a collector can do.
    #[strum(serialize = "admin")]
    Administration,
}

impl Audience {
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The words after "a token".
    const fn words(self) -> &'static str {
        match self {
            Self::Test => "for tests on a server",
            Self::Server => "for the reports of a test server",
            Self::Agent => "of an agent",
            Self::Submission => "for submissions",
            Self::Deletion => "for deletions",
            Self::Administration => "of the operator",
        }
    }
}

/// The number of a token and of its renewals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(pub [u8; 8]);

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HEXLOWER.encode_display(&self.0).fmt(f)
    }
}

impl Serial {
    /// From a token, whose signature is not checked, or from 16 hexadecimal digits.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::from_hexadecimal(text).or_else(|| Token::read(text).ok().map(|token| token.serial))
    }

    /// From 16 hexadecimal digits.
    pub fn from_hexadecimal(text: &str) -> Option<Self> {
        HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok().map(Self)
    }
}

/// The statements of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub audience: Audience,
    pub subject: Name,
    pub serial: Serial,
    /// Unix time in seconds.
    pub issued: u64,
    /// Unix time in seconds.
    pub expiry: u64,
}

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a token is valid for 1 s to {} days", MAX_VALIDITY.as_secs() / 86_400)]
pub struct NotAValidity;

/// The reason why a token is rejected, for the user at the client.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenRefusal {
    #[error("it requires a token: ask its operator for one and pass it with --token")]
    Missing,
    #[error(
        "this is not a token of this version ({VERSION}.…): copy all of it, or ask the operator for a new one"
    )]
    Malformed,
    #[error("this is a token {}, and one {} is needed", .found.words(), .needed.words())]
    Audience { found: Audience, needed: Audience },
    #[error("this is a token for `{found}`, and one for `{needed}` is needed")]
    Subject { found: Name, needed: Name },
    #[error("this server did not issue this token: it is another server's, or not all of it was copied")]
    Wrong,
    #[error("this token expired {} ago: ask the operator for a new one", duration(*.since))]
    Expired { since: Duration },
    #[error("this token was revoked: ask the operator for a new one")]
    Revoked,
}

impl Token {
    /// Reads a token without a check of its signature: its statements are not proven.
    pub fn read(text: &str) -> Result<Self, TokenRefusal> {
        split(text).map(|(token, _, _)| token)
    }

    /// Whether less than half of its validity is left at `now`.
    pub const fn is_old(&self, now: u64) -> bool {
        now.saturating_sub(self.issued) > self.validity().as_secs() / 2
    }

    const fn validity(&self) -> Duration {
        Duration::from_secs(self.expiry.saturating_sub(self.issued))
    }

    fn signed_text(&self) -> String {
        let Self { audience, subject, serial, issued, expiry } = self;
        let audience: &str = audience.into();
        let subject = encode(subject);
        format!("{VERSION}.{audience}.{subject}.{serial}.{issued}.{expiry}")
    }
}

/// The token, the text that is signed, and the signature.
fn split(text: &str) -> Result<(Token, &str, [u8; 32]), TokenRefusal> {
    let parsed = || {
        let (signed, mac) = text.trim().rsplit_once('.')?;
        let mut parts = signed.split('.');
        let (VERSION, audience) = (parts.next()?, parts.next()?) else { return None };
        let token = Token {
            audience: audience.parse().ok()?,
            subject: decode(parts.next()?)?,
            serial: Serial::from_hexadecimal(parts.next()?)?,
            issued: parts.next()?.parse().ok()?,
            expiry: parts.next()?.parse().ok()?,
        };
        let mac = HEXLOWER.decode(mac.as_bytes()).ok()?.try_into().ok()?;
        parts.next().is_none().then_some((token, signed, mac))
    };
    parsed().ok_or(TokenRefusal::Malformed)
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

    fn derive(&self, audience: Audience) -> hmac::Key {
        let audience: &str = audience.into();
        let derived = hmac::sign(&self.0, format!("{VERSION} {audience}").as_bytes());
        hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
    }

    fn sign(&self, token: &Token) -> String {
        let signed = token.signed_text();
        let mac = hmac::sign(&self.derive(token.audience), signed.as_bytes());
        format!("{signed}.{}", HEXLOWER.encode(mac.as_ref()))
    }

    /// Makes a token that is valid for `validity` from `now` (seconds since the Unix epoch); `serial` is random.
    pub fn mint(
        &self,
        audience: Audience,
        subject: &Name,
        serial: [u8; 8],
        now: u64,
        validity: Duration,
    ) -> Result<String, NotAValidity> {
        if validity < Duration::from_secs(1) || validity > MAX_VALIDITY {
            return Err(NotAValidity);
        }
        let expiry = now.saturating_add(validity.as_secs());
        let (subject, serial) = (subject.clone(), Serial(serial));
        Ok(self.sign(&Token { audience, subject, serial, issued: now, expiry }))
    }

    /// The token again, with its serial, for its whole validity from `now`.
    pub fn renew(&self, token: &Token, now: u64) -> String {
        let expiry = now.saturating_add(token.validity().min(MAX_VALIDITY).as_secs());
        self.sign(&Token { issued: now, expiry, ..token.clone() })
    }

    /// Checks a token at `now` (seconds since the Unix epoch). The comparison takes the same time for every wrong
    /// signature; the expiry is checked only if the signature is right.
    pub fn check(&self, audience: Audience, text: &str, now: u64) -> Result<Token, TokenRefusal> {
        let (token, signed, mac) = split(text)?;
        if token.audience != audience {
            return Err(TokenRefusal::Audience { found: token.audience, needed: audience });
        }
        hmac::verify(&self.derive(audience), signed.as_bytes(), &mac).map_err(|_| TokenRefusal::Wrong)?;
        match now.checked_sub(token.expiry) {
            None => Ok(token),
            Some(since) => Err(TokenRefusal::Expired { since: Duration::from_secs(since) }),
        }
    }
}

fn encode(subject: &Name) -> String {
    let mut encoded = String::new();
    for &byte in subject.as_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            encoded.push(char::from(byte));
        } else {
            encoded.push('~');
            encoded.push_str(&HEXLOWER.encode(&[byte]));
        }
    }
    encoded
}

/// Only what [`encode`] writes, so that a subject has one form.
fn decode(encoded: &str) -> Option<Name> {
    let mut pieces = encoded.split('~');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        bytes.extend(HEXLOWER.decode(digits.as_bytes()).ok()?);
        bytes.extend(rest.as_bytes());
    }
    let subject = Name::new(String::from_utf8(bytes).ok()?).ok()?;
    (encode(&subject) == encoded).then_some(subject)
}

/// The beginning of the tokens of [`deletion_token`].
const DELETION: &str = "pb2.delete.";

/// The token that deletes, at the collector with this address, the results of the owner of `secret`. One collector
/// learns nothing from it about the token for another, nor about `secret`.
pub fn deletion_token(secret: &str, collector: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let derived = hmac::sign(&key, format!("{DELETION}{collector}").as_bytes());
    format!("{DELETION}{}", HEXLOWER.encode(derived.as_ref()))
}

/// Whether `text` may be a deletion token: one of [`deletion_token`], or another secret of at least 32 characters without
/// a dot. A token for something else never is, nor a part of one.
pub fn is_deletion_token(text: &str) -> bool {
    text.starts_with(DELETION) || (text.len() >= MIN_KEY_CHARACTERS && !text.contains('.'))
}
