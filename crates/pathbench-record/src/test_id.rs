//! The identity of a test.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Sixteen random bytes that name a test. Whoever knows them may join the test, fetch its record and end
/// it, so they come from a cryptographic random source. Written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TestId(pub [u8; 16]);

impl fmt::Display for TestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestId({self})")
    }
}

/// `text` is not the name of a test.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a test id; one is 32 hexadecimal digits")]
pub struct InvalidTestId {
    /// What was given.
    pub text: String,
}

impl FromStr for TestId {
    type Err = InvalidTestId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidTestId { text: text.chars().take(80).collect() };
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let value = u128::from_str_radix(text, 16).map_err(|_| invalid())?;
        Ok(Self(value.to_be_bytes()))
    }
}

impl Serialize for TestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips() {
        let id = TestId(*b"\x00\x01\x02\x03\xff\xfe\xfd\xfc\x10\x20\x30\x40\x50\x60\x70\x80");
        assert_eq!(id.to_string(), "00010203fffefdfc1020304050607080");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("+0010203fffefdfc1020304050607080".parse::<TestId>().is_err());
        assert!("00".parse::<TestId>().is_err());
    }
}
