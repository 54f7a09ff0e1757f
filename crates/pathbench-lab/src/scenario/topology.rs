//! Paths, links, hosts and routers put together: what is named must exist, and what exists must hang together.

use super::address::{self, MOST_LINKS};
use super::hop::{self, Spread};
use super::keys;
use super::link::{self, LinkDraft};
use super::mistake::MistakeKind;
use super::naming::{NameOf, Named, collection, no_name_twice};
use super::node::{self, Surroundings};
use super::plan::{
    Action, Engine, EventPlan, Family, Hop, Link, LinkEnd, MptcpPlan, Node, Role, RouterRules, Topology,
};
use super::section::Section;
use super::suggestion::choices;
use super::tree::Origin;
use pathbench_link::Engines;
use std::collections::BTreeMap;

/// Hosts that exist as soon as a link names them.
const IMPLICIT_HOSTS: [&str; 2] = ["client", "server"];

/// Reads the topology. What was wrong with it is in the ledger; what is returned then serves only to check
/// the names in the rest of the scenario.
pub(super) fn read(root: &Section<'_>, family: Family, client: &str) -> Topology {
    let paths = collection(root, "path", NameOf::Link).into_iter().map(link::path);
    let drafts: Vec<_> =
        paths.chain(collection(root, "link", NameOf::Link).into_iter().map(link::link)).collect();
    let mut drafts = drafts;
    // Addresses are assigned by position, so the order must be that of the file.
    drafts.sort_by_key(|draft| line_of(&draft.named.section.origin));
    no_name_twice(drafts.iter().map(|draft| &draft.named));
    let mut declared = Declared::read(root);
    check_ends(&drafts, &declared);
    let Spread { links: drafts, hops, routers } = hop::spread(drafts, client);
    declared.inner = routers;
    count_links(root, &drafts);
    let addresses = address::settle(&drafts, family, root.section("run").has("family"), root.ledger);
    let links: Vec<_> = drafts.iter().zip(addresses).map(|(draft, ends)| finished(draft, ends)).collect();
    let names = declared.names(&links);
    check_connected(root, &declared, &links);
    let nodes = names.iter().map(|name| declared.node(root, name, (&links, &hops), family, client)).collect();
    Topology { nodes, links, hops }
}

fn line_of(origin: &Origin) -> u32 {
    match origin {
        Origin::Line(line) => *line,
        Origin::Option(_) => u32::MAX,
    }
}

fn count_links(root: &Section<'_>, drafts: &[LinkDraft<'_>]) {
    if drafts.is_empty() && !root.has("path") && !root.has("link") {
        let remedy = "add a [[path]] with a name, as in name = \"eth\"";
        root.ledger.add(MistakeKind::Missing, &root.origin, "path", "the scenario has no path", remedy);
    }
    if drafts.len() > MOST_LINKS {
        let problem = format!("the scenario has {} links", drafts.len());
        let origin = &drafts[MOST_LINKS].named.section.origin;
        root.ledger.add(MistakeKind::Value, origin, "link", problem, format!("give at most {MOST_LINKS}"));
    }
}

struct Declared<'a> {
    hosts: Vec<Named<'a>>,
    routers: Vec<Named<'a>>,
    inner: Vec<(String, Option<RouterRules>)>,
}

impl<'a> Declared<'a> {
    fn read(root: &Section<'a>) -> Self {
        let declared = Self {
            hosts: collection(root, "host", NameOf::Node),
            routers: collection(root, "router", NameOf::Node),
            inner: Vec::new(),
        };
        for host in &declared.hosts {
            host.section.only("a host", &[keys::HOST.as_slice(), &keys::RULES].concat());
            let remedy = "give it to a [[router]], or to the [[path]]";
            hop::refuse(&host.section, &keys::RULES, "a host passes no packets on", remedy);
        }
        for router in &declared.routers {
            router.section.only("a router", &keys::ROUTER);
        }
        no_name_twice(declared.hosts.iter().chain(&declared.routers));
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
            return *rules;
        }
        let router = self.routers.iter().find(|router| router.name == name)?;
        let rules = hop::rules(&router.section);
        rules.is_given().then(|| rules.applied_to(RouterRules::default()))
    }

    /// Every node once: client and server first, if a link or a table names them, the others in file order, then the
    /// routers in the middle of paths.
    fn names(&self, links: &[Link]) -> Vec<String> {
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
        root: &Section<'a>,
        name: &str,
        (links, hops): (&[Link], &[Hop]),
        family: Family,
        client: &str,
    ) -> Node {
        let role = if self.is_router(name) { Role::Router } else { Role::Host };
        let section = self.all().find(|named| named.name == name).map_or_else(
            || Section {
                ledger: root.ledger,
                table: None,
                origin: root.origin.clone(),
                path: format!("host.{name}"),
            },
            |named| named.section.clone(),
        );
        let around = Surroundings { node: name, links, hops, family, is_client: name == client };
        let mptcp = if role == Role::Host { node::mptcp(&section, &around) } else { MptcpPlan::default() };
        Node {
            name: name.to_owned(),
            role,
            sysctls: node::sysctls(&section),
            mptcp,
            routes: node::routes(&section, &around),
            rules: self.rules(name),
        }
    }
}

/// Each end must be at a declared node, at an interface of its own there, and not at the node of the other end.
fn check_ends(drafts: &[LinkDraft<'_>], declared: &Declared<'_>) {
    let mut known = IMPLICIT_HOSTS.to_vec();
    known.extend(
        declared.all().map(|named| named.name.as_str()).filter(|name| !IMPLICIT_HOSTS.contains(name)),
    );
    let mut interfaces: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for draft in drafts {
        let ledger = draft.named.section.ledger;
        for end in draft.ends.iter().filter(|end| !end.node.is_empty() && !end.interface.is_empty()) {
            if !known.contains(&end.node.as_str()) {
                let problem = format!("there is no host or router `{}`", end.node);
                let remedy = format!(
                    "declare it with [[host]] or [[router]], or correct it: {}",
                    choices(&end.node, &known)
                );
                ledger.add(MistakeKind::Reference, &end.origin, &*end.key, problem, remedy);
            }
            let owner = interfaces.insert((&end.node, &end.interface), &draft.named.name);
            // Two paths of one name have been reported as such.
            if let Some(owner) = owner.filter(|owner| *owner != draft.named.name) {
                let problem =
                    format!("`{}` already has an interface `{}`, of `{owner}`", end.node, end.interface);
                let remedy = "name this one differently";
                ledger.add(MistakeKind::Duplicate, &end.origin, &*end.key, problem, remedy);
            }
        }
        let [first, second] = &draft.ends;
        if first.node == second.node && !first.node.is_empty() {
            let problem = format!("both ends are at `{}`", first.node);
            ledger.add(
                MistakeKind::Conflict,
                &second.origin,
                &*second.key,
                problem,
                "link two different nodes",
            );
        }
    }
}

/// A declared node without a link is most likely a slip in its name.
fn check_connected(root: &Section<'_>, declared: &Declared<'_>, links: &[Link]) {
    let linked: Vec<&str> = links.iter().flat_map(|link| &link.ends).map(|end| end.node.as_str()).collect();
    let mut known = linked.clone();
    known.retain(|name| !name.is_empty());
    known.sort_unstable();
    known.dedup();
    // A link that could not be read may be the one that is missed.
    if linked.contains(&"") || links.is_empty() {
        return;
    }
    for named in
        declared.all().filter(|named| !named.name.is_empty() && !known.contains(&named.name.as_str()))
    {
        let problem = format!("`{}` has no link", named.name);
        let remedy = format!("link it, or correct its name: {}", choices(&named.name, &known));
        root.ledger.add(
            MistakeKind::Reference,
            &named.name_origin,
            named.section.path.as_str(),
            problem,
            remedy,
        );
    }
}

fn finished(draft: &LinkDraft<'_>, addresses: [Vec<(std::net::IpAddr, u8)>; 2]) -> Link {
    let [first, second] = addresses;
    let end = |index: usize, addresses| LinkEnd {
        node: draft.ends[index].node.clone(),
        interface: draft.ends[index].interface.clone(),
        addresses,
    };
    Link {
        name: draft.named.name.clone(),
        ends: [end(0, first), end(1, second)],
        forward: draft.forward.clone(),
        reverse: draft.reverse.clone(),
        requested: draft.requested.clone(),
        engine: draft.engine.unwrap_or_else(|| suitable(draft)),
        engine_is_given: draft.engine.is_some(),
        tolerance: draft.tolerance,
        backup: draft.backup,
        weight: draft.weight,
        capture: draft.capture,
    }
}

/// The engine that does what a link asks for: the kernel's for rate, queue and MTU; for more the emulated one, also
/// where the kernel has netem, whose decisions can be neither repeated nor counted.
fn suitable(draft: &LinkDraft<'_>) -> Engine {
    let needs = draft.forward.needs().max(draft.reverse.needs());
    if needs == Engines::Kernel && !draft.capture { Engine::Kernel } else { Engine::Emulated }
}

/// Gives links that ask for no engine the emulated one where an event asks for what only that can do, and routers that
/// have no rules such as change nothing where an event changes them: whether the kernel takes rules must not be found
/// out in the middle of a run.
pub(super) fn suit_events(topology: &mut Topology, events: &[EventPlan]) {
    for event in events {
        if let Action::Set(change) = &event.action
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
            link.engine = Engine::Emulated;
        }
    }
}

/// Whether packets find a way from `from` to `to`, over routers only.
pub(super) fn reaches(topology: &Topology, from: &str, to: &str) -> bool {
    let mut reached = vec![from];
    let mut next = 0;
    while let Some(node) = reached.get(next).copied() {
        next += 1;
        if node == to {
            return true;
        }
        let forwards = node == from || topology.node(node).is_some_and(|node| node.role == Role::Router);
        if !forwards {
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
