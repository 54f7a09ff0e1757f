//! What a client believes a server by.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// SHA-256 of a server's certificate in DER, written as hexadecimal digits (colons are accepted).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CertificateFingerprint(pub [u8; 32]);

/// `text` is no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{text}` is not a fingerprint: give the 64 hexadecimal digits that `pathbench serve` prints (SHA-256)"
)]
pub struct InvalidFingerprint {
    pub text: String,
}

/// What a client believes a server by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// This very certificate, whatever name and dates it carries.
    Fingerprint(CertificateFingerprint),
    /// A certificate for `name` by an authority in this PEM file.
    Authorities {
        file: PathBuf,
        /// The server's DNS name or address, as in its certificate.
        name: String,
    },
    /// A certificate for `name` by an authority that the public trusts (Mozilla's list).
    Public {
        /// The server's DNS name or address, as in its certificate.
        name: String,
    },
}

/// Whether a connection is encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Security {
    /// Clear text. Only tcp and mptcp have that.
    #[default]
    Clear,
    /// TLS 1.3 with a server that is known by this.
    Tls(Trust),
}

impl Security {
    /// What the server is known by, when it is to be encrypted.
    pub const fn trust(&self) -> Option<&Trust> {
        match self {
            Self::Clear => None,
            Self::Tls(trust) => Some(trust),
        }
    }
}

impl fmt::Display for CertificateFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CertificateFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CertificateFingerprint({self})")
    }
}

impl FromStr for CertificateFingerprint {
    type Err = InvalidFingerprint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidFingerprint { text: text.chars().take(100).collect() };
        let digits: Vec<u32> = text
            .chars()
            .filter(|c| *c != ':')
            .map(|c| c.to_digit(16))
            .collect::<Option<_>>()
            .ok_or_else(invalid)?;
        let (pairs, rest) = digits.as_chunks::<2>();
        let bytes: Vec<u8> = pairs.iter().map(|[high, low]| (high * 16 + low) as u8).collect();
        match (rest.is_empty(), bytes.try_into()) {
            (true, Ok(bytes)) => Ok(Self(bytes)),
            _ => Err(invalid()),
        }
    }
}

impl TryFrom<String> for CertificateFingerprint {
    type Error = InvalidFingerprint;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<CertificateFingerprint> for String {
    fn from(fingerprint: CertificateFingerprint) -> Self {
        fingerprint.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_as_they_are_written() {
        let fingerprint = CertificateFingerprint(std::array::from_fn(|index| index as u8 * 7));
        assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
        let spread: Vec<String> = fingerprint.0.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(spread.join(":").parse(), Ok(fingerprint));
        for wrong in ["", "00", "zz", &"0".repeat(63), &"0".repeat(66)] {
            assert!(wrong.parse::<CertificateFingerprint>().is_err(), "{wrong}");
        }
    }
}
