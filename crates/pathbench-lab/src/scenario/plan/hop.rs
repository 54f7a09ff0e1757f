//! Paths with a hop between two routers, and what routers do beside forwarding.

use super::{Link, Topology};
pub(crate) use pathbench_host::firewall::{RouterRules, TooBig};

/// The middle of a `[[path]]` that has an MTU behind its first link, or routers that are told what to do.
///
/// ```text
/// client ═══ path ═══ routers[0] ═══ link ═══ routers[1] ═══ far ═══ server
/// ```
///
/// The path's own link is the one at the run's client; its model, events and results are the path's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The path, and its link at the run's client.
    pub path: String,
    /// The link between the routers, whose MTU is the path's. Its name begins with the path's.
    pub link: String,
    /// The link between the second router and the other host. Its name begins with the path's.
    pub far: String,
    /// The routers, that next to the run's client first. Their names begin with the path's.
    pub routers: [String; 2],
}

/// What an event changes of a router's rules, or a scenario says of them; what is `None` is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RulesChange {
    /// What becomes of the router's messages that a packet is too big.
    pub too_big: Option<TooBig>,
    /// Whether it clamps the MSS of SYNs.
    pub clamp_mss: Option<bool>,
}

impl RulesChange {
    /// Whether anything is given.
    pub const fn is_given(&self) -> bool {
        self.too_big.is_some() || self.clamp_mss.is_some()
    }

    /// `rules` with what is given in its place.
    pub fn applied_to(&self, rules: RouterRules) -> RouterRules {
        RouterRules {
            too_big: self.too_big.unwrap_or(rules.too_big),
            clamp_mss: self.clamp_mss.unwrap_or(rules.clamp_mss),
        }
    }
}

/// As in scenarios and results: `on`, `off`, or the messages per second that pass (`10/s`).
pub fn icmp_in_words(too_big: TooBig) -> String {
    match too_big {
        TooBig::Sent => "on".to_owned(),
        TooBig::Dropped => "off".to_owned(),
        TooBig::Limited { per_second } => format!("{per_second}/s"),
    }
}

impl Topology {
    /// The middle of `path`, where it has one.
    pub fn hop(&self, path: &str) -> Option<&Hop> {
        self.hops.iter().find(|hop| hop.path == path)
    }

    /// The path that `link` belongs to, which is the link itself where it is no part of another path.
    pub fn path_of<'a>(&'a self, link: &'a str) -> &'a str {
        path_of(&self.hops, link)
    }

    /// Whether `link` is a part of a path that bears another name.
    pub fn is_inner(&self, link: &str) -> bool {
        self.path_of(link) != link
    }

    /// Whether results tell of `link`: not of one that only leads from a path's second router to the other host, and
    /// is like the path's first link without a model.
    pub fn is_told(&self, link: &str) -> bool {
        self.hops.iter().all(|hop| hop.far != link)
    }

    /// Where a path that begins with `link` at `node` ends: the far link and the index of its far end.
    pub fn far_end_of<'a>(&'a self, link: &'a Link, node: &str) -> Option<(&'a Link, usize)> {
        let end = 1 - link.end_of(node)?;
        match self.hop(&link.name) {
            Some(hop) => Some((self.link(&hop.far)?, end)),
            None => Some((link, end)),
        }
    }
}

pub(crate) fn path_of<'a>(hops: &'a [Hop], link: &'a str) -> &'a str {
    let of = hops.iter().find(|hop| hop.link == link || hop.far == link);
    of.map_or(link, |hop| hop.path.as_str())
}
