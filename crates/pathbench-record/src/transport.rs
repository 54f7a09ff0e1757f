//! The transports, and the labels of their runs in tables and expectations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A transport protocol that carries a test.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    JsonSchema,
    Deserialize,
    Default,
    strum::IntoStaticStr,
    strum::Display,
)]
#[strum(serialize_all = "lowercase")]
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
    /// UDP, a flow on each path; only for the pattern `datagrams`.
    Udp,
}

impl Transport {
    /// The transports of byte streams. Each single-path transport precedes the multipath transport of the same protocol.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Mptcp, Self::Quic, Self::Mpquic];

    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the transport can use more than one path.
    pub const fn is_multipath(self) -> bool {
        matches!(self, Self::Mptcp | Self::Mpquic)
    }

    /// Whether the transport carries datagrams: udp, and DATAGRAM frames (RFC 9221) of quic and mpquic.
    pub const fn carries_datagrams(self) -> bool {
        matches!(self, Self::Udp | Self::Quic | Self::Mpquic)
    }

    pub const fn is_quic(self) -> bool {
        matches!(self, Self::Quic | Self::Mpquic)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a transport; known are tcp, mptcp, quic, mpquic and udp")]
pub struct UnknownTransport {
    pub text: String,
}

impl FromStr for Transport {
    type Err = UnknownTransport;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .chain([Self::Udp])
            .find(|transport| transport.name() == text)
            .ok_or_else(|| UnknownTransport { text: text.to_owned() })
    }
}

/// A transport, and the path to which it is bound, if any: `mptcp`, `tcp`, `tcp@wlan`.
///
/// For a multipath transport, the named path is the initial path of the connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransportLabel {
    pub transport: Transport,
    /// The path to which the connection is bound (single-path) or its initial path (multipath); `None`: the first.
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
