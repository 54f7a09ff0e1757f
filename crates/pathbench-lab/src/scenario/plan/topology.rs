//! Nodes, links, paths with a hop between two routers, and the rules of routers.

use super::link::LinkPlan;
pub(crate) use pathbench_host::firewall::{Middlebox, RouterRules, TooBigTreatment};
use pathbench_host::mptcp::{EndpointFlags, MptcpLimits};
use pathbench_record::network::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopologyPlan {
    /// `client` and `server` first if they exist, then file order.
    pub nodes: Vec<Node>,
    /// In file order, followed by the inner links of paths with a hop.
    pub links: Vec<LinkPlan>,
    /// The hops of paths, in file order.
    pub hops: Vec<Hop>,
}

impl TopologyPlan {
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    pub fn is_router(&self, name: &str) -> bool {
        self.node(name).is_some_and(|node| node.role == NodeRole::Router)
    }

    pub fn link(&self, name: &str) -> Option<&LinkPlan> {
        self.links.iter().find(|link| link.name == name)
    }

    /// The links of `node`, with the index (0 or 1) of its end, in file order.
    pub fn links_of<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (&'a LinkPlan, usize)> {
        self.links.iter().filter_map(move |link| Some((link, link.end_of(node)?)))
    }

    pub fn hop(&self, path: &str) -> Option<&Hop> {
        self.hops.iter().find(|hop| hop.path == path)
    }

    /// The path that contains `link`: the link itself if it is not a part of another path.
    pub fn path_of<'a>(&'a self, link: &'a str) -> &'a str {
        path_of(&self.hops, link)
    }

    /// Whether `link` is a part of a path with another name.
    pub fn is_inner(&self, link: &str) -> bool {
        self.path_of(link) != link
    }

    /// Whether results include `link`. They omit the link from a path's second router to the other host, because it has
    /// no model.
    pub fn is_reported(&self, link: &str) -> bool {
        self.hops.iter().all(|hop| hop.far != link)
    }

    /// The last link of a path that begins with `link` at `node`, and the index of its far end.
    pub fn far_end_of<'a>(&'a self, link: &'a LinkPlan, node: &str) -> Option<(&'a LinkPlan, usize)> {
        let end = 1 - link.end_of(node)?;
        match self.hop(&link.name) {
            Some(hop) => Some((self.link(&hop.far)?, end)),
            None => Some((link, end)),
        }
    }
}

/// Whether a node is an endpoint of connections or forwards packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeRole {
    Host,
    /// Forwards packets between its links.
    Router,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub name: String,
    pub role: NodeRole,
    /// Dotted name (`net.ipv4.tcp_mtu_probing`) → value to write.
    pub sysctls: BTreeMap<String, String>,
    /// MPTCP limits and endpoints; not applied to a router.
    pub mptcp: MptcpPlan,
    /// Whether the node has a rule and a table for each link, unless it accepts the connections or forwards packets.
    pub source_rules: bool,
    /// Routes in addition to the routes derived from the links.
    pub routes: Vec<RoutePlan>,
    /// A router's rules, if the scenario sets any; always `None` for a host.
    pub rules: Option<RouterRules>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutePlan {
    /// `None`: all destinations.
    pub destination: Option<IpNet>,
    /// The next hop, on one of the node's own subnets.
    pub via: IpAddr,
    /// The lowest one wins among routes to the same destination.
    pub metric: Option<u32>,
}

/// MPTCP path-manager settings of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MptcpPlan {
    pub limits: MptcpLimits,
    /// Endpoints, in the order in which they are added.
    pub endpoints: Vec<EndpointPlan>,
}

/// One MPTCP endpoint (`ip mptcp endpoint add ADDRESS dev … FLAGS`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointPlan {
    /// One of the node's own addresses, or by mistake one of another node.
    pub address: IpAddr,
    /// The link that has the address at its end.
    pub link: String,
    /// The interface to which the endpoint's subflows are bound.
    pub device: Option<String>,
    pub flags: EndpointFlags,
}

/// The routers and inner links of a `[[path]]` with an MTU behind its first link, or with router rules.
///
/// ```text
/// client ═══ path ═══ routers[0] ═══ link ═══ routers[1] ═══ far ═══ server
/// ```
///
/// The link at the run's client has the model, events and results of the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Name of the path, and of its link at the run's client.
    pub path: String,
    /// The link between the routers, with the path MTU. Its name begins with the name of the path.
    pub link: String,
    /// The link between the second router and the other host. Its name begins with the name of the path.
    pub far: String,
    /// The routers; the first one is next to the run's client. Their names begin with the name of the path.
    pub routers: [String; 2],
}

/// Rules of a router that an event or a scenario sets; `None` keeps a rule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RulesChange {
    /// The fate of the router's packet-too-big messages.
    pub too_big: Option<TooBigTreatment>,
    pub clamp_mss: Option<bool>,
    /// The treatment of the packets that it forwards.
    pub middlebox: Option<Vec<Middlebox>>,
}

impl RulesChange {
    /// Whether at least one rule is given.
    pub const fn is_given(&self) -> bool {
        self.too_big.is_some() || self.clamp_mss.is_some() || self.middlebox.is_some()
    }

    /// `rules`, with the given rules replaced.
    pub fn applied_to(&self, rules: &RouterRules) -> RouterRules {
        RouterRules {
            too_big: self.too_big.unwrap_or(rules.too_big),
            clamp_mss: self.clamp_mss.unwrap_or(rules.clamp_mss),
            middlebox: self.middlebox.as_ref().unwrap_or(&rules.middlebox).clone(),
        }
    }
}

/// As in scenarios and results: `on`, `off`, or the messages per second that pass (`10/s`).
pub fn icmp_in_words(too_big: TooBigTreatment) -> String {
    match too_big {
        TooBigTreatment::Sent => "on".to_owned(),
        TooBigTreatment::Dropped => "off".to_owned(),
        TooBigTreatment::Limited { per_second } => format!("{per_second}/s"),
    }
}

pub(crate) fn path_of<'a>(hops: &'a [Hop], link: &'a str) -> &'a str {
    let of = hops.iter().find(|hop| hop.link == link || hop.far == link);
    of.map_or(link, |hop| hop.path.as_str())
}
