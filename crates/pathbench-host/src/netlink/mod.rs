//! Route netlink (rtnetlink(7)): links, addresses, routes and rules; queueing disciplines are in [`crate::qdisc`].

pub(crate) mod channel;
pub(crate) mod fib_entry;
mod link;
pub mod message;
mod route;
mod rule;
mod socket;

pub use channel::NetlinkError;
pub use fib_entry::{FibEntry, NextHop};
pub use link::{InterfaceAddress, LinkStatistics, NetworkInterface, VethEnd, VethPair, valid_name};
pub use route::{CachedMtu, IPV6_DEFAULT_METRIC, Lookup, MAIN_TABLE, Route};
pub use rule::{FollowedRule, RoutingRule};
pub(crate) use socket::{GENERIC_HEADER, GenericSocket, family};
pub use socket::{GenericFamily, RouteSocket};
