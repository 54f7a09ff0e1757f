//! The consent to the use of results: asked once, kept in a file, and a level in every submission.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The readers of a result.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
    strum::Display,
    strum::EnumString,
)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum Consent {
    /// Nothing leaves this host. A collector rejects such a submission.
    #[default]
    None,
    /// The operator of the collector only.
    Private,
    /// Everybody, in the anonymous form.
    Public,
}

impl Consent {
    pub const ALL: [Self; 3] = [Self::None, Self::Private, Self::Public];

    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The consequences in words, for the question and for the file.
    pub const fn words(self) -> &'static str {
        match self {
            Self::None => "results stay on this host",
            Self::Private => {
                "results go to the collector with all addresses, and only its operator can read them"
            }
            Self::Public => {
                "results go to the collector in the anonymous form, and everybody can read them: addresses cut to /24 \
                 and /48, no names of Wi-Fi networks, no position, no host names"
            }
        }
    }
}
