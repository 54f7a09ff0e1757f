//! Names from other hosts: bounded, printable text.

use crate::bounds::NAME_BYTES;
use pathbench_record::text::is_deceptive;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// A name of 1 to [`NAME_BYTES`] bytes without control characters and characters that change the reading direction.
/// It can hold any markup: every output escapes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Name(
    #[schemars(
        length(min = 1, max = 64),
        regex(
            pattern = r"^[^\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff]*$"
        )
    )]
    String,
);

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

impl TryFrom<String> for Name {
    type Error = NotAName;

    fn try_from(text: String) -> Result<Self, NotAName> {
        Self::new(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
