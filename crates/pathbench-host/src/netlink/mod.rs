//! Route netlink (rtnetlink(7)): links, addresses, routes and rules; queueing disciplines are in
//! [`crate::qdisc`].

mod address;
pub(crate) mod attribute;
pub(crate) mod batch;
pub(crate) mod channel;
mod error;
pub(crate) mod generic;
mod link;
pub(crate) mod notification;
pub(crate) mod raw;
mod route;
mod rule;

pub use address::InterfaceAddress;
pub use error::NetlinkError;
pub use link::{Link, LinkStatistics, VethEnd, VethPair};
pub use route::{MAIN_TABLE, Route};
pub use rule::Rule;

pub(crate) use address::parse_address;
pub(crate) use link::parse_link;

use crate::namespace::NetNamespace;
use channel::{Channel, Protocol};

/// A socket for links, addresses, routes, rules and queueing disciplines of one network namespace.
///
/// Every request waits for the kernel's acknowledgement; every refusal carries the error number, the
/// kernel's own explanation and what was asked. The socket belongs to the namespace it was opened in,
/// whichever thread uses it later.
#[derive(Debug)]
pub struct RouteSocket {
    pub(crate) channel: Channel,
}

impl RouteSocket {
    /// A socket in the calling thread's network namespace.
    pub fn open() -> Result<Self, NetlinkError> {
        Channel::open(Protocol::Route).map(|channel| Self { channel })
    }

    /// A socket in `namespace`.
    ///
    /// # Errors
    /// [`NetlinkError::Open`], or [`NetlinkError::Namespace`] when the namespace cannot be entered.
    pub fn open_in(namespace: &NetNamespace) -> Result<Self, NetlinkError> {
        Channel::open_in(Protocol::Route, namespace).map(|channel| Self { channel })
    }
}
