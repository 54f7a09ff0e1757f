//! Route netlink (rtnetlink(7)): links, addresses, routes and rules; queueing disciplines are in [`crate::qdisc`].

mod address;
pub(crate) mod channel;
pub(crate) mod fib_entry;
pub(crate) mod generic;
mod link;
pub(crate) mod message;
mod route;
mod rule;

pub use address::InterfaceAddress;
pub use fib_entry::{FibEntry, NextHop};
pub use link::{Link, LinkStatistics, VethEnd, VethPair};
pub use route::{CachedMtu, MAIN_TABLE, Route};
pub use rule::Rule;

pub(crate) use address::parse_address;
pub(crate) use link::{parse_link, valid_name};
pub(crate) use route::Lookup;
pub(crate) use rule::FollowedRule;

use crate::namespace::NetNamespace;
use channel::{Channel, Protocol};
use message::Encoder;
use rustix::io::Errno;
use std::net::IpAddr;

/// A socket for links, addresses, routes, rules and queueing disciplines of one network namespace.
///
/// Every request waits for the kernel's acknowledgement; every refusal carries the error number, the kernel's own
/// explanation and the request. The socket belongs to the namespace it was opened in, whichever thread uses it later.
#[derive(Debug)]
pub struct RouteSocket {
    pub(crate) channel: Channel,
}

impl RouteSocket {
    /// A socket in the calling thread's network namespace.
    pub fn open() -> Result<Self, NetlinkError> {
        Channel::open(Protocol::ROUTE).map(|channel| Self { channel })
    }

    pub fn open_in(namespace: &NetNamespace) -> Result<Self, NetlinkError> {
        Channel::open_in(Protocol::ROUTE, namespace).map(|channel| Self { channel })
    }

    /// Lists a table of IPv4 and of IPv6, where the kernel has that.
    fn dump_both_families<T>(
        &mut self,
        table: &str,
        kind: u16,
        header_bytes: usize,
        parse: fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        let mut found = Vec::new();
        for (family, name) in [(libc::AF_INET, "IPv4"), (libc::AF_INET6, "IPv6")] {
            let mut header = vec![0; header_bytes];
            header[0] = family as u8;
            let message = Encoder::after(&header).message(kind);
            match self.channel.dump(&format!("list the {name} {table}"), &message, parse) {
                Ok(entries) => found.extend(entries),
                Err(error) if family == libc::AF_INET6 && error.is_no_such_family() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}

/// `AF_INET` or `AF_INET6`, as in the headers of messages.
pub(crate) const fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    #[error("cannot open a {protocol} netlink socket: {source}")]
    Open { protocol: &'static str, source: std::io::Error },
    #[error("cannot {request}: talking to the kernel failed: {source}")]
    Exchange { request: String, source: std::io::Error },
    #[error("cannot {request}: {errno}{}{}", explanation(kernel_message.as_ref()), remedy(*errno))]
    Refused { request: String, errno: Errno, kernel_message: Option<String> },
    #[error("cannot {request}: the kernel's answer makes no sense: {detail}")]
    Malformed { request: String, detail: &'static str },
    #[error("cannot {request}: it changed while it was read, {attempts} times in a row")]
    Unstable { request: String, attempts: u32 },
    #[error("there is no interface {interface} in this network namespace")]
    NoSuchInterface { interface: String },
    #[error("{name:?} cannot name an interface: a name has 1 to 15 bytes and no slash, colon or white space")]
    InvalidName { name: String },
    #[error(transparent)]
    Namespace(#[from] crate::namespace::NamespaceError),
}

impl NetlinkError {
    /// The kernel's error number when the kernel refused the request.
    pub const fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    pub fn is_already_there(&self) -> bool {
        self.errno() == Some(Errno::EXIST)
    }

    pub fn is_absent(&self) -> bool {
        matches!(self, Self::NoSuchInterface { .. })
            || matches!(self.errno(), Some(Errno::NOENT | Errno::SRCH | Errno::ADDRNOTAVAIL | Errno::NODEV))
    }

    fn is_no_such_family(&self) -> bool {
        matches!(self.errno(), Some(Errno::AFNOSUPPORT | Errno::PFNOSUPPORT | Errno::OPNOTSUPP))
    }
}

fn explanation(message: Option<&String>) -> String {
    message.map(|message| format!(", the kernel reports {message:?}")).unwrap_or_default()
}

fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::PERM | Errno::ACCESS => "; this needs CAP_NET_ADMIN in the network namespace: run as root",
        Errno::OPNOTSUPP => "; this kernel was built without it",
        _ => "",
    }
}
