//! The transports, and the label under which a run of one appears in tables and expectations.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A transport protocol that carries a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Plain TCP, one connection on one path.
    #[default]
    Tcp,
    /// Multipath TCP (RFC 8684) of this kernel.
    Mptcp,
    /// QUIC (RFC 9000) on one path.
    Quic,
    /// QUIC with the multipath extension.
    Mpquic,
}

impl Transport {
    /// The name used in scenario files, on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Mptcp => "mptcp",
            Self::Quic => "quic",
            Self::Mpquic => "mpquic",
        }
    }

    /// Whether the transport is meant to use more than one path.
    pub const fn is_multipath(self) -> bool {
        matches!(self, Self::Mptcp | Self::Mpquic)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a transport; known are tcp, mptcp, quic and mpquic")]
pub struct UnknownTransport {
    pub text: String,
}

impl FromStr for Transport {
    type Err = UnknownTransport;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Tcp, Self::Mptcp, Self::Quic, Self::Mpquic]
            .into_iter()
            .find(|transport| transport.name() == text)
            .ok_or_else(|| UnknownTransport { text: text.to_owned() })
    }
}

/// A transport, and the path it is bound to when it is: `mptcp`, `tcp`, `tcp@wlan`.
///
/// On the wire of a multipath transport, the path named is the one the connection starts on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransportLabel {
    pub transport: Transport,
    /// The path that the connection is bound to (single-path) or starts on (multipath); the first when `None`.
    pub path: Option<String>,
}

impl fmt::Display for TransportLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            None => f.pad(self.transport.name()),
            Some(path) => f.pad(&format!("{}@{path}", self.transport)),
        }
    }
}

impl FromStr for TransportLabel {
    type Err = UnknownTransport;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (transport, path) = match text.split_once('@') {
            None => (text, None),
            Some((transport, path)) => (transport, Some(path.to_owned())),
        };
        Ok(Self { transport: transport.parse()?, path })
    }
}
