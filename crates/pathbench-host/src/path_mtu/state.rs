//! The kernel's path-MTU state.

use crate::connections::{LiveConnection, LiveSubflow, live_connections};
use crate::mptcp::{MptcpEndpoint, MptcpError, MptcpLimits, PathManager};
use crate::namespace::NetNamespace;
use crate::netlink::channel::{NetlinkChannel, NetlinkProtocol};
use crate::netlink::{CachedMtu, FibEntry, FollowedRule, Lookup, NetlinkError, RouteSocket};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

/// A path of this host, identified by interface, local address and server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPath {
    pub local: IpAddr,
    pub interface: String,
    pub server: IpAddr,
}

/// The kernel's path-MTU state of a path. Reading it requires no privilege.
#[derive(Debug, Clone)]
pub struct PathMtuState {
    pub path: HostPath,
    pub interface_index: u32,
    pub interface_mtu_bytes: u32,
    /// Priority of the rule that selects the table; `None` if no such rule is known.
    pub rule_priority: Option<u32>,
    /// The matching route. Its MTU is the path's MTU; a route without an MTU has the interface MTU.
    pub route: FibEntry,
    /// All routes of its table that match the server, `route` included, in the kernel's order.
    pub candidates: Vec<FibEntry>,
    /// The outgoing interface of sockets bound to the address but to no interface; `None` if they have no route, or
    /// several interfaces.
    pub unbound_interface: Option<u32>,
    /// The path MTU that the kernel cached from ICMP, if any (RFC 1191, RFC 8201).
    pub cached: Option<CachedMtu>,
    /// Live TCP connections and MPTCP subflows from the address to the server.
    pub connections: Vec<LiveConnection>,
    /// All live subflows, on any path, of every MPTCP connection with a subflow from the address.
    pub siblings: Vec<LiveConnection>,
    /// The MPTCP endpoints of the host; `None` if the kernel does not report them.
    pub endpoints: Option<Vec<MptcpEndpoint>>,
    /// The limits of MPTCP connections; `None` if the kernel does not report them.
    pub limits: Option<MptcpLimits>,
    pub interface_names: BTreeMap<u32, String>,
}

/// Why the kernel's state cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PathStateError {
    #[error(
        "this host has no route from {} to {} by {}{}: add one to the table that this address looks up",
        path.local, path.server, path.interface, explanation(*errno)
    )]
    NoRoute { path: HostPath, errno: Option<Errno> },
    #[error("{} and {} are of different families: there is no path between them", path.local, path.server)]
    TwoFamilies { path: HostPath },
    #[error(transparent)]
    Mptcp(#[from] MptcpError),
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

fn explanation(errno: Option<Errno>) -> String {
    errno.map(|errno| format!(" ({errno})")).unwrap_or_default()
}

impl PathMtuState {
    /// The initial MTU of new connections on this path: the cached one, the route's or the interface's.
    pub fn effective_mtu_bytes(&self) -> u32 {
        let route = self.route.mtu_bytes();
        let cached = self.cached.map(|cached| cached.mtu_bytes);
        cached.or(route).unwrap_or(self.interface_mtu_bytes)
    }

    pub fn table(&self) -> u32 {
        self.route.table()
    }

    /// The next router on this path; `None` when the server is on-link.
    pub fn gateway(&self) -> Option<IpAddr> {
        let hops = self.route.next_hops();
        hops.iter().find(|hop| hop.interface == self.interface_index).or(hops.first())?.gateway
    }
}

/// Sockets for queries in one network namespace.
#[derive(Debug)]
pub struct PathObserver {
    routes: RouteSocket,
    diagnosis: NetlinkChannel,
    manager: Option<PathManager>,
}

impl PathObserver {
    /// For the calling thread's network namespace.
    pub fn open() -> Result<Self, PathStateError> {
        Ok(Self {
            routes: RouteSocket::open()?,
            diagnosis: NetlinkChannel::open(NetlinkProtocol::SOCK_DIAG)?,
            manager: PathManager::open_if_known()?,
        })
    }

    pub fn open_in(namespace: &NetNamespace) -> Result<Self, PathStateError> {
        namespace.run_in(Self::open).map_err(NetlinkError::from)?
    }

    pub fn state(&mut self, path: &HostPath) -> Result<PathMtuState, PathStateError> {
        if path.local.is_ipv4() != path.server.is_ipv4() {
            return Err(PathStateError::TwoFamilies { path: path.clone() });
        }
        let links = self.routes.links()?;
        let absent = || NetlinkError::NoSuchInterface { interface: path.interface.clone() };
        let link = links.iter().find(|link| link.name == path.interface).ok_or_else(absent)?;
        let lookup = Lookup { source: path.local, destination: path.server, interface: Some(link.index) };
        let rules = self.routes.followed_rules(&lookup, &path.interface)?;
        let (route, candidates) = self.decision(path, &lookup, &rules)?;
        let prefix = route.destination().prefix_len();
        let rule = rules.iter().find(|rule| rule.leads_to(route.table(), prefix));
        let rule_priority = rule.map(|rule| rule.priority);
        let everything = live_connections(&mut self.diagnosis)?;
        let connections: Vec<_> =
            everything.iter().filter(|connection| is_on(path, connection)).cloned().collect();
        let from_here = everything.iter().filter(|connection| connection.local.ip() == path.local);
        let tokens: HashSet<_> =
            from_here.filter_map(|connection| connection.subflow).map(|own| own.token).collect();
        let is_sibling = |own: LiveSubflow| tokens.contains(&own.token);
        let siblings =
            everything.into_iter().filter(|connection| connection.subflow.is_some_and(is_sibling)).collect();
        Ok(PathMtuState {
            interface_index: link.index,
            interface_mtu_bytes: link.mtu,
            rule_priority,
            unbound_interface: self.unbound_interface(&lookup),
            cached: self.cached_mtu(&lookup)?,
            siblings,
            connections,
            endpoints: where_permitted(self.manager.as_mut().map(PathManager::endpoints))?,
            limits: where_permitted(self.manager.as_mut().map(PathManager::limits))?,
            interface_names: links.iter().map(|link| (link.index, link.name.clone())).collect(),
            path: path.clone(),
            route,
            candidates,
        })
    }

    /// The live TCP connections and MPTCP subflows of a path. Two reads some hundred milliseconds apart identify the
    /// stuck ones ([`super::is_stuck`]).
    pub fn connections(&mut self, path: &HostPath) -> Result<Vec<LiveConnection>, PathStateError> {
        let everything = live_connections(&mut self.diagnosis)?;
        Ok(everything.into_iter().filter(|connection| is_on(path, connection)).collect())
    }

    fn decision(
        &mut self,
        path: &HostPath,
        lookup: &Lookup,
        rules: &[FollowedRule],
    ) -> Result<(FibEntry, Vec<FibEntry>), PathStateError> {
        let no_route = |errno| PathStateError::NoRoute { path: path.clone(), errno };
        let matched = match self.routes.matched_entry(lookup) {
            Ok(matched) => matched.ok_or_else(|| no_route(None))?,
            Err(error) if is_no_route(&error) => return Err(no_route(error.errno())),
            Err(error) => return Err(error.into()),
        };
        let by_interface =
            |entry: &FibEntry| entry.next_hops().iter().any(|hop| Some(hop.interface) == lookup.interface);
        let candidates = self.candidates(path.server, matched.table())?;
        if by_interface(&matched) || matched.is_ipv4() {
            // The answer lacks some attributes; the table has all of them.
            let whole = candidates.iter().find(|entry| is_answer(&matched, entry)).cloned();
            return Ok((whole.unwrap_or(matched), candidates));
        }
        // In an IPv6 lookup the interface is a preference; for packets of a bound socket it is a condition
        // (`ip6_route_output_flags` of `net/ipv6/route.c`).
        for table in rules.iter().filter_map(|rule| rule.table) {
            let candidates = self.candidates(path.server, table)?;
            let best = candidates
                .iter()
                .filter(|entry| by_interface(entry))
                .max_by_key(|entry| (entry.destination().prefix_len(), std::cmp::Reverse(entry.metric())));
            let followed = |entry: &FibEntry| {
                let prefix = entry.destination().prefix_len();
                rules.iter().any(|rule| rule.table == Some(table) && rule.leads_to(table, prefix))
            };
            if let Some(best) = best.filter(|best| followed(best)).cloned() {
                return Ok((best, candidates));
            }
        }
        Err(no_route(None))
    }

    fn candidates(&mut self, server: IpAddr, table: u32) -> Result<Vec<FibEntry>, PathStateError> {
        let entries = self.routes.fib_entries(server, table)?;
        Ok(entries.into_iter().filter(|entry| entry.destination().contains(&server)).collect())
    }

    fn unbound_interface(&mut self, lookup: &Lookup) -> Option<u32> {
        let entry = self.routes.matched_entry(&Lookup { interface: None, ..*lookup }).ok()??;
        let first = entry.next_hops().first()?.interface;
        entry.leaves_only_by(first).then_some(first)
    }

    fn cached_mtu(&mut self, lookup: &Lookup) -> Result<Option<CachedMtu>, PathStateError> {
        match self.routes.cached_mtu(lookup) {
            Ok(cached) => Ok(cached),
            Err(error) if is_no_route(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_on(path: &HostPath, connection: &LiveConnection) -> bool {
    connection.local.ip() == path.local && connection.remote.ip() == path.server
}

/// `None` if the kernel requires privilege for the answer.
fn where_permitted<T>(answer: Option<Result<T, MptcpError>>) -> Result<Option<T>, MptcpError> {
    match answer {
        Some(Err(MptcpError::Netlink(error))) if error.lacks_privilege() => Ok(None),
        answer => answer.transpose(),
    }
}

fn is_no_route(error: &NetlinkError) -> bool {
    let no_route = [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::INVAL, Errno::SRCH, Errno::ACCESS];
    error.errno().is_some_and(|errno| no_route.contains(&errno))
}

/// Whether a lookup's answer is this table entry. IPv6 reports the selected next hop first.
fn is_answer(answer: &FibEntry, entry: &FibEntry) -> bool {
    let (chosen, all) = (answer.next_hops(), entry.next_hops());
    answer.shares_entry_with(entry)
        && answer.kind() == entry.kind()
        && answer.get(libc::RTA_METRICS) == entry.get(libc::RTA_METRICS)
        && chosen.len() == all.len()
        && chosen.iter().all(|hop| all.contains(hop))
}
