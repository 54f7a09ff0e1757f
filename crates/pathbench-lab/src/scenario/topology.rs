//! Combines paths, links, hosts and routers: every name must exist, and every node must have a link.

use super::address::{self, LinkDraft, MOST_LINKS};
use super::hop::{self, SplitPaths};
use super::link;
use super::mistake::{At, MistakeLog, choices};
use super::naming::{NameOf, Named, collection, no_name_twice};
use super::node::{self, NodeContext};
use super::plan::{
    EventAction, EventPlan, Hop, LinkEngine, LinkPlan, MptcpPlan, Node, NodeRole, RouterRules, TopologyPlan,
};
use super::section::ScenarioSection;
use pathbench_record::network::AddressFamily;
use std::collections::BTreeMap;

/// Hosts that need no declaration if a link names them.
const IMPLICIT_HOSTS: [&str; 2] = ["client", "server"];

/// Reads the topology and adds mistakes to the ledger. After a mistake, the topology is used only to check the names in
/// the rest of the scenario.
pub(super) fn read(root: &ScenarioSection<'_>, family: AddressFamily, client: &str) -> TopologyPlan {
    let paths = collection(root, "path", NameOf::Link).into_iter().map(link::path);
    let links = collection(root, "link", NameOf::Link).into_iter().map(link::link);
    let mut drafts: Vec<_> = paths.chain(links).collect();
    // Addresses are assigned by position, so the links must be in file order.
    drafts.sort_by_key(|draft| draft.section.at.location);
    no_name_twice(root.ledger, drafts.iter().map(|draft| (draft.link.name.as_str(), &draft.name_at)));
    let mut declared = Declared::read(root);
    check_ends(&drafts, &declared, root.ledger);
    let SplitPaths { links: mut drafts, hops, routers } = hop::spread(drafts, client);
    declared.inner = routers;
    if drafts.is_empty() && !root.has("path") && !root.has("link") {
        let at = At::new(root.at.location, "path");
        let remedy = "add a [[path]] with a name, as in name = \"eth\"";
        root.ledger.wrong(&at, "the scenario has no path", remedy);
    }
    if let Some(draft) = drafts.get(MOST_LINKS) {
        let at = At::new(draft.section.at.location, "link");
        let problem = format!("the scenario has {} links", drafts.len());
        root.ledger.wrong(&at, problem, format!("give at most {MOST_LINKS}"));
    }
    address::settle(&mut drafts, family, root.section("run").has("family"), root.ledger);
    let links: Vec<_> = drafts.into_iter().map(|draft| draft.link).collect();
    let names = declared.names(&links);
    check_connected(&declared, &links, root.ledger);
    let nodes = names.iter().map(|name| declared.node(root, name, (&links, &hops), family, client)).collect();
    TopologyPlan { nodes, links, hops }
}

struct Declared<'a> {
    hosts: Vec<Named<'a>>,
    routers: Vec<Named<'a>>,
    inner: Vec<(String, Option<RouterRules>)>,
}

impl<'a> Declared<'a> {
    fn read(root: &ScenarioSection<'a>) -> Self {
        let declared = Self {
            hosts: collection(root, "host", NameOf::Node),
            routers: collection(root, "router", NameOf::Node),
            inner: Vec::new(),
        };
        for host in &declared.hosts {
            let remedy = "give it to a [[router]], or to the [[path]]";
            host.section.refuse(&hop::RULES, "a host does not forward packets", remedy);
        }
        no_name_twice(root.ledger, declared.all().map(|named| (named.name.as_str(), &named.name_at)));
        declared
    }

    fn all(&self) -> impl Iterator<Item = &Named<'a>> {
        self.hosts.iter().chain(&self.routers)
    }

    fn is_router(&self, name: &str) -> bool {
        self.routers.iter().any(|router| router.name == name)
            || self.inner.iter().any(|(router, _)| router == name)
    }

    fn rules(&self, name: &str) -> Option<RouterRules> {
        if let Some((_, rules)) = self.inner.iter().find(|(router, _)| router == name) {
            return rules.clone();
        }
        let router = self.routers.iter().find(|router| router.name == name)?;
        let rules = hop::rules(&router.section);
        rules.is_given().then(|| rules.applied_to(&RouterRules::default()))
    }

    /// Every node once: client and server if a link or a table names them, then the others in file order, then the
    /// routers inside paths.
    fn names(&self, links: &[LinkPlan]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let linked = |name: &str| links.iter().any(|link| link.end_of(name).is_some());
        let implicit = IMPLICIT_HOSTS.into_iter().filter(|name| linked(name));
        let declared = self.all().map(|named| named.name.as_str());
        for name in implicit.chain(declared).chain(self.inner.iter().map(|(name, _)| name.as_str())) {
            if !name.is_empty() && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        names
    }

    fn node(
        &self,
        root: &ScenarioSection<'a>,
        name: &str,
        (links, hops): (&[LinkPlan], &[Hop]),
        family: AddressFamily,
        client: &str,
    ) -> Node {
        let role = if self.is_router(name) { NodeRole::Router } else { NodeRole::Host };
        let section = self.all().find(|named| named.name == name).map_or_else(
            || ScenarioSection {
                table: None,
                at: At::new(root.at.location, format!("host.{name}")),
                ..root.clone()
            },
            |named| named.section.clone(),
        );
        let around = NodeContext { node: name, links, hops, family, is_client: name == client };
        let mptcp =
            if role == NodeRole::Host { node::mptcp(&section, &around) } else { MptcpPlan::default() };
        Node {
            name: name.to_owned(),
            role,
            sysctls: node::sysctls(&section),
            mptcp,
            source_rules: role == NodeRole::Host && section.flag("source_rules").unwrap_or(true),
            routes: node::routes(&section, &around),
            rules: self.rules(name),
        }
    }
}

/// Each end must be at a declared node with a separate interface, and not at the node of the other end.
fn check_ends(drafts: &[LinkDraft<'_>], declared: &Declared<'_>, ledger: &MistakeLog) {
    let mut known = IMPLICIT_HOSTS.to_vec();
    known.extend(
        declared.all().map(|named| named.name.as_str()).filter(|name| !IMPLICIT_HOSTS.contains(name)),
    );
    let mut interfaces: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for LinkDraft { link, ends_at, .. } in drafts {
        for (end, at) in link.ends.iter().zip(ends_at) {
            if end.node.is_empty() || end.interface.is_empty() {
                continue;
            }
            if !known.contains(&end.node.as_str()) {
                let problem = format!("there is no host or router `{}`", end.node);
                let choices = choices(&end.node, &known);
                let remedy = format!("declare it with [[host]] or [[router]], or correct it: {choices}");
                ledger.wrong(at, problem, remedy);
            }
            let owner = interfaces.insert((&end.node, &end.interface), &link.name);
            // Two paths with the same name have already been reported.
            if let Some(owner) = owner.filter(|owner| *owner != link.name) {
                let problem =
                    format!("`{}` already has an interface `{}`, of `{owner}`", end.node, end.interface);
                ledger.wrong(at, problem, "name this one differently");
            }
        }
        let node = &link.ends[0].node;
        if *node == link.ends[1].node && !node.is_empty() {
            ledger.wrong(&ends_at[1], format!("both ends are at `{node}`"), "link two different nodes");
        }
    }
}

/// Reports a declared node without a link, which is most likely a mistake in its name.
fn check_connected(declared: &Declared<'_>, links: &[LinkPlan], ledger: &MistakeLog) {
    let mut known: Vec<&str> =
        links.iter().flat_map(|link| &link.ends).map(|end| end.node.as_str()).collect();
    known.sort_unstable();
    known.dedup();
    // The missing link may be an invalid one, which has been reported.
    if known.contains(&"") || links.is_empty() {
        return;
    }
    for named in declared.all().filter(|named| !named.name.is_empty()) {
        if !known.contains(&named.name.as_str()) {
            let at = At::new(named.name_at.location, &named.section.at.key);
            let remedy = format!("link it, or correct its name: {}", choices(&named.name, &known));
            ledger.wrong(&at, format!("`{}` has no link", named.name), remedy);
        }
    }
}

/// If an event needs it, sets the engine of a link without a given engine to the emulated one. If an event changes the
/// rules of a router without rules, sets the default rules, so that a kernel that lacks them fails before the run.
pub(super) fn adapt_to_events(topology: &mut TopologyPlan, events: &[EventPlan]) {
    for event in events {
        if let EventAction::Set(change) = &event.action
            && change.rules.is_given()
            && let Some(hop) = topology.hop(&event.link).cloned()
        {
            for node in topology.nodes.iter_mut().filter(|node| hop.routers.contains(&node.name)) {
                node.rules.get_or_insert_default();
            }
        }
    }
    for event in events.iter().filter(|event| !event.action.is_plain()) {
        if let Some(link) =
            topology.links.iter_mut().find(|link| link.name == event.link && !link.engine_is_given)
        {
            link.engine = LinkEngine::Emulated;
        }
    }
}

/// Whether `from` reaches `to` over routers only.
pub(super) fn reaches(topology: &TopologyPlan, from: &str, to: &str) -> bool {
    let mut reached = vec![from];
    let mut next = 0;
    while let Some(node) = reached.get(next).copied() {
        next += 1;
        if node == to {
            return true;
        }
        if node != from && !topology.is_router(node) {
            continue;
        }
        for (link, end) in topology.links_of(node) {
            let peer = link.ends[1 - end].node.as_str();
            if !reached.contains(&peer) {
                reached.push(peer);
            }
        }
    }
    false
}
