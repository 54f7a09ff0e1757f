//! Names from other hosts: bounded, printable text.

use crate::bounds::NAME_BYTES;
use pathbench_record::text::is_deceptive;
use schemars::JsonSchema;
use serde_with::{DeserializeFromStr, SerializeDisplay};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A name of 1 to [`NAME_BYTES`] bytes without control characters and characters that change the reading direction.
/// It can hold any markup: every output escapes it.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, SerializeDisplay, DeserializeFromStr, JsonSchema,
)]
pub struct Name(String);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a name has 1 to {NAME_BYTES} bytes and no control characters")]
pub struct NotAName;

impl Name {
    pub fn new(text: impl Into<String>) -> Result<Self, NotAName> {
        let text = text.into();
        let fits = (1..=NAME_BYTES).contains(&text.len()) && !text.chars().any(is_deceptive);
        if fits { Ok(Self(text)) } else { Err(NotAName) }
    }

    /// The name nearest to `text`: deceptive characters become spaces, the rest is cut; `-` if nothing is left.
    pub fn nearest(text: &str) -> Self {
        let mut name = String::new();
        for character in text.chars().map(|c| if is_deceptive(c) { ' ' } else { c }) {
            if name.len() + character.len_utf8() > NAME_BYTES {
                break;
            }
            name.push(character);
        }
        let name = name.trim();
        Self(if name.is_empty() { "-".to_owned() } else { name.to_owned() })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        Self::new(text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
