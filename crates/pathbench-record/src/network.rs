//! [`IpNetwork`]: an IP address together with its prefix length.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address with its prefix length: an interface's address (`10.0.1.2/24`) or a destination
/// (`10.0.1.0/24`, `0.0.0.0/0` for everything).
///
/// Host bits are kept as given; [`IpNetwork::network`] clears them. In text and in serde it is
/// `address/prefix`; an address without a prefix is that single host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IpNetwork {
    address: IpAddr,
    prefix: u8,
}

/// Why a text or a pair of values is no [`IpNetwork`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IpNetworkError {
    #[error("{text:?} is not an IP address with a prefix length such as 10.0.1.0/24 or fd00:1::/64")]
    Syntax { text: String },
    #[error("prefix length {prefix} does not fit {address}: it can be 0 to {longest}")]
    Prefix { address: IpAddr, prefix: u8, longest: u8 },
}

impl IpNetwork {
    /// Every IPv4 address, the destination of a default route.
    pub const DEFAULT_V4: Self = Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 };
    /// Every IPv6 address, the destination of a default route.
    pub const DEFAULT_V6: Self = Self { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix: 0 };

    /// `address/prefix`.
    ///
    /// # Errors
    /// [`IpNetworkError::Prefix`] when the prefix is longer than the address.
    pub fn new(address: IpAddr, prefix: u8) -> Result<Self, IpNetworkError> {
        let longest = longest_prefix(address);
        if prefix > longest {
            return Err(IpNetworkError::Prefix { address, prefix, longest });
        }
        Ok(Self { address, prefix })
    }

    /// The single address `address` (`/32` or `/128`).
    pub const fn host(address: IpAddr) -> Self {
        Self { address, prefix: longest_prefix(address) }
    }

    pub const fn default_for(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::DEFAULT_V4,
            IpAddr::V6(_) => Self::DEFAULT_V6,
        }
    }

    /// The address as given, host bits included.
    pub const fn addr(self) -> IpAddr {
        self.address
    }

    pub const fn prefix(self) -> u8 {
        self.prefix
    }

    /// Whether this is everything of its family (prefix 0).
    pub const fn is_default(self) -> bool {
        self.prefix == 0
    }

    /// The same prefix with the host bits cleared.
    pub fn network(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Self { address, prefix: self.prefix }
    }

    pub fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && Self { address, prefix: self.prefix }.network() == self.network()
    }
}

const fn longest_prefix(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

impl fmt::Display for IpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for IpNetwork {
    type Err = IpNetworkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let syntax = || IpNetworkError::Syntax { text: text.to_owned() };
        let Some((address, prefix)) = text.split_once('/') else {
            return text.parse().map(Self::host).map_err(|_| syntax());
        };
        // u8::from_str takes a leading '+', which no one writes on purpose.
        if !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(syntax());
        }
        Self::new(address.parse().map_err(|_| syntax())?, prefix.parse().map_err(|_| syntax())?)
    }
}

impl TryFrom<String> for IpNetwork {
    type Error = IpNetworkError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<IpNetwork> for String {
    fn from(network: IpNetwork) -> Self {
        network.to_string()
    }
}
