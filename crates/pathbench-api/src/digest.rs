//! SHA-256 digests: of the lines of a batch, of raw parts, and of deletion tokens.

use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_with::{DeserializeFromStr, SerializeDisplay};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A SHA-256 digest; in text 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, SerializeDisplay, DeserializeFromStr)]
pub struct Digest(pub [u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a SHA-256 digest has 64 lower-case hexadecimal digits")]
pub struct NotADigest;

impl Digest {
    pub fn compute(bytes: &[u8]) -> Self {
        let mut value = [0; 32];
        value.copy_from_slice(digest(&SHA256, bytes).as_ref());
        Self(value)
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| NotADigest)?;
        bytes.try_into().map(Self).map_err(|_| NotADigest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl JsonSchema for Digest {
    fn schema_name() -> Cow<'static, str> {
        "Digest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$", "description": "SHA-256" })
    }
}
