//! `path_mtu`, `icmp`, `clamp_mss`, `middlebox`: a hop behind a path's first link, and what its routers do to packets.

use super::address::{GivenAddress, HopDraft, LinkDraft, MTU_BYTES, Part};
use super::mistake::choices;
use super::plan::{Hop, LinkEnd, LinkEngine, LinkPlan, Middlebox, RouterRules, RulesChange, TooBigTreatment};
use super::section::ScenarioSection;
use pathbench_link::LinkModel;
use pathbench_record::network::AddressFamily;

/// The smallest path MTU that the kernel accepts for IPv4 (`net.ipv4.route.min_pmtu` is 552), rounded up to the size
/// that every host accepts (RFC 791, section 3.1).
const SMALLEST_PATH_MTU_BYTES: u64 = 576;

/// Keys of a router's rules.
pub(super) const RULES: [&str; 3] = ["icmp", "clamp_mss", "middlebox"];

/// Keys that give a path routers.
pub(super) const KEYS: [&str; 4] = ["path_mtu", "icmp", "clamp_mss", "middlebox"];

/// The hop of the path in `section`, whose interfaces have an MTU of `mtu_bytes`; `None` for a path without a hop.
pub(super) fn of_path(section: &ScenarioSection<'_>, mtu_bytes: u32) -> Option<HopDraft> {
    let rules = rules(section);
    let path_mtu_bytes = path_mtu(section, mtu_bytes);
    let is_routed = KEYS.iter().any(|key| section.has(key));
    is_routed.then(|| HopDraft { path_mtu_bytes: path_mtu_bytes.unwrap_or(mtu_bytes), rules })
}

pub(super) fn path_mtu(section: &ScenarioSection<'_>, mtu_bytes: u32) -> Option<u32> {
    let range = SMALLEST_PATH_MTU_BYTES..=*MTU_BYTES.end();
    let path_mtu_bytes = section.bytes("path_mtu", range)? as u32;
    if path_mtu_bytes > mtu_bytes {
        let problem =
            format!("a path MTU of {path_mtu_bytes} is larger than the hosts' interfaces take: {mtu_bytes}");
        let remedy = format!("give at most {mtu_bytes}, or the path a larger mtu");
        section.wrong("path_mtu", problem, remedy);
    }
    Some(path_mtu_bytes)
}

pub(super) fn rules(section: &ScenarioSection<'_>) -> RulesChange {
    RulesChange {
        too_big: too_big(section),
        clamp_mss: section.flag("clamp_mss"),
        middlebox: middlebox(section),
    }
}

fn middlebox(section: &ScenarioSection<'_>) -> Option<Vec<Middlebox>> {
    let names = Middlebox::ALL.map(|(name, _)| name);
    let mut found = Vec::new();
    for (text, at) in section.texts("middlebox", "strip-mp-join")? {
        match Middlebox::from_name(text) {
            None => {
                section.ledger.wrong(&at, format!("there is no middlebox `{text}`"), choices(text, &names));
            }
            Some(middlebox) if found.contains(&middlebox) => {
                section.ledger.wrong(&at, format!("`{text}` is there twice"), "remove one");
            }
            Some(middlebox) => found.push(middlebox),
        }
    }
    Some(found)
}

fn too_big(section: &ScenarioSection<'_>) -> Option<TooBigTreatment> {
    let text = section.text("icmp", "off")?;
    let per_second = || text.strip_suffix("/s")?.parse::<u32>().ok().filter(|count| *count > 0);
    let read = match text {
        "on" => Some(TooBigTreatment::Sent),
        "off" => Some(TooBigTreatment::Dropped),
        _ => per_second().map(|per_second| TooBigTreatment::Limited { per_second }),
    };
    let fault = || {
        let remedy = "give \"on\", \"off\", or how many a second are sent, as in \"10/s\"";
        (format!("`{text}` is not a value of icmp"), remedy.to_owned())
    };
    section.read("icmp", read.ok_or_else(fault))
}

pub(super) struct SplitPaths<'a> {
    pub(super) links: Vec<LinkDraft<'a>>,
    pub(super) hops: Vec<Hop>,
    pub(super) routers: Vec<(String, Option<RouterRules>)>,
}

/// Splits paths with a hop into links. The link at `client` keeps the name of the path.
pub(super) fn spread<'a>(drafts: Vec<LinkDraft<'a>>, client: &str) -> SplitPaths<'a> {
    let mut spread = SplitPaths { links: Vec::new(), hops: Vec::new(), routers: Vec::new() };
    let mut inner = Vec::new();
    for draft in drafts {
        match draft.hop.clone().filter(|_| !draft.link.name.is_empty()) {
            None => spread.links.push(draft),
            Some(hop) => {
                let parts = Parts::new(&draft, client);
                inner.extend([parts.middle(&draft, hop.path_mtu_bytes), parts.far(&draft)]);
                let rules = hop.rules.is_given().then(|| hop.rules.applied_to(&RouterRules::default()));
                spread
                    .routers
                    .extend(parts.names.routers.iter().map(|router| (router.clone(), rules.clone())));
                spread.links.push(parts.near_link(&draft));
                spread.hops.push(parts.names);
            }
        }
    }
    spread.links.extend(inner);
    spread
}

type End = (LinkEnd, Vec<GivenAddress>);

struct Parts {
    names: Hop,
    /// Index (0 or 1) of the path's end at the client; the parts have the same orientation.
    near_end: usize,
    families: Vec<AddressFamily>,
}

impl Parts {
    fn new(draft: &LinkDraft<'_>, client: &str) -> Self {
        let path = &draft.link.name;
        // Names in a scenario cannot contain a dot, so these names are unique.
        let part = |name: &str| format!("{path}.{name}");
        let has = |family: &AddressFamily| {
            draft
                .given
                .iter()
                .flatten()
                .any(|given| AddressFamily::from_address(given.subnet.addr()) == *family)
        };
        Self {
            names: Hop {
                path: path.clone(),
                link: part("hop"),
                far: part("far"),
                routers: [part("near"), part("beyond")],
            },
            near_end: usize::from(draft.link.ends[1].node == client),
            families: [AddressFamily::Ipv4, AddressFamily::Ipv6]
                .into_iter()
                .filter(|family| has(family))
                .collect(),
        }
    }

    /// A part of the path between two nodes; the node nearer to the client is the first.
    fn part<'a>(&self, draft: &LinkDraft<'a>, name: &str, mut ends: [End; 2]) -> LinkDraft<'a> {
        if self.near_end == 1 {
            ends.reverse();
        }
        let [(first, first_given), (second, second_given)] = ends;
        let link = LinkPlan { name: name.to_owned(), ends: [first, second], ..draft.link.clone() };
        LinkDraft {
            link,
            given: [first_given, second_given],
            families: self.families.clone(),
            hop: None,
            ..draft.clone()
        }
    }

    fn at_router(&self, router: usize, interface: &str) -> End {
        let node = self.names.routers[router].clone();
        (LinkEnd { node, interface: interface.to_owned(), addresses: Vec::new() }, Vec::new())
    }

    fn near_link<'a>(&self, draft: &LinkDraft<'a>) -> LinkDraft<'a> {
        let ends = [end(draft, self.near_end), self.at_router(0, "near")];
        self.part(draft, &self.names.path, ends)
    }

    fn middle<'a>(&self, draft: &LinkDraft<'a>, path_mtu_bytes: u32) -> LinkDraft<'a> {
        let part = self.part(draft, &self.names.link, [self.at_router(0, "hop"), self.at_router(1, "hop")]);
        wire(part, Part::Hop, path_mtu_bytes)
    }

    fn far<'a>(&self, draft: &LinkDraft<'a>) -> LinkDraft<'a> {
        let part =
            self.part(draft, &self.names.far, [self.at_router(1, "far"), end(draft, 1 - self.near_end)]);
        wire(part, Part::Far, draft.link.mtu_bytes())
    }
}

fn end(draft: &LinkDraft<'_>, end: usize) -> End {
    (draft.link.ends[end].clone(), draft.given[end].clone())
}

fn wire(draft: LinkDraft<'_>, part: Part, mtu_bytes: u32) -> LinkDraft<'_> {
    let model = LinkModel { mtu_bytes, ..LinkModel::default() };
    let link = LinkPlan {
        forward: model.clone(),
        reverse: model,
        requested: Default::default(),
        engine: LinkEngine::Kernel,
        engine_is_given: true,
        backup: false,
        capture: false,
        ..draft.link
    };
    LinkDraft { link, part, ..draft }
}
