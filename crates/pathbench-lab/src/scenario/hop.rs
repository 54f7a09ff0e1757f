//! `path_mtu`, `icmp`, `clamp_mss`: what becomes of packets that are too large for a hop behind a path's first link.

use super::link::{EndDraft, LinkDraft, MTU_BYTES, Part};
use super::mistake::MistakeKind;
use super::naming::Named;
use super::plan::{Engine, Family, Hop, RouterRules, RulesChange, TooBig};
use super::section::Section;
use pathbench_link::LinkModel;

/// The smallest path MTU that a kernel goes down to for IPv4 (`net.ipv4.route.min_pmtu` is 552), in round figures:
/// what every host takes (RFC 791, section 3.1).
const SMALLEST_PATH_MTU_BYTES: u64 = 576;

#[derive(Debug, Clone, Copy)]
pub(super) struct HopDraft {
    pub(super) path_mtu_bytes: u32,
    pub(super) rules: RulesChange,
}

/// The middle of the path that `section` describes, whose interfaces take `mtu_bytes`; `None` for a plain wire.
pub(super) fn of_path(section: &Section<'_>, mtu_bytes: u32) -> Option<HopDraft> {
    let rules = rules(section);
    let path_mtu_bytes = path_mtu(section, mtu_bytes);
    let is_wire = !section.has("path_mtu") && !section.has("icmp") && !section.has("clamp_mss");
    (!is_wire).then(|| HopDraft { path_mtu_bytes: path_mtu_bytes.unwrap_or(mtu_bytes), rules })
}

pub(super) fn path_mtu(section: &Section<'_>, mtu_bytes: u32) -> Option<u32> {
    let range = SMALLEST_PATH_MTU_BYTES..=*MTU_BYTES.end();
    let path_mtu_bytes = section.bytes("path_mtu", range)? as u32;
    if path_mtu_bytes > mtu_bytes {
        let problem =
            format!("a path MTU of {path_mtu_bytes} is larger than the hosts' interfaces take: {mtu_bytes}");
        let remedy = format!("give at most {mtu_bytes}, or the path a larger mtu");
        section.wrong(MistakeKind::Conflict, "path_mtu", problem, remedy);
    }
    Some(path_mtu_bytes)
}

pub(super) fn rules(section: &Section<'_>) -> RulesChange {
    RulesChange { too_big: too_big(section), clamp_mss: section.flag("clamp_mss") }
}

fn too_big(section: &Section<'_>) -> Option<TooBig> {
    let text = section.text("icmp", "off")?;
    let per_second = || text.strip_suffix("/s")?.parse::<u32>().ok().filter(|count| *count > 0);
    let read = match text {
        "on" => Some(TooBig::Sent),
        "off" => Some(TooBig::Dropped),
        _ => per_second().map(|per_second| TooBig::Limited { per_second }),
    };
    if read.is_none() {
        let problem = format!("`{text}` is not what becomes of a router's messages");
        let remedy = "give \"on\", \"off\", or how many a second are sent, as in \"10/s\"";
        section.wrong(MistakeKind::Value, "icmp", problem, remedy);
    }
    read
}

/// Reports keys of routers in a table of something else, to which `remedy` leads the way.
pub(super) fn refuse(section: &Section<'_>, keys: &[&str], problem: &str, remedy: &str) {
    for key in keys.iter().filter(|key| section.has(key)) {
        section.wrong(MistakeKind::Conflict, key, problem, remedy);
    }
}

pub(super) struct Spread<'a> {
    pub(super) links: Vec<LinkDraft<'a>>,
    pub(super) hops: Vec<Hop>,
    pub(super) routers: Vec<(String, Option<RouterRules>)>,
}

/// Takes paths with a hop apart. The one link of each that keeps its name is that at `client`.
pub(super) fn spread<'a>(drafts: Vec<LinkDraft<'a>>, client: &str) -> Spread<'a> {
    let mut spread = Spread { links: Vec::new(), hops: Vec::new(), routers: Vec::new() };
    let mut inner = Vec::new();
    for draft in drafts {
        match draft.hop.filter(|_| !draft.named.name.is_empty()) {
            None => spread.links.push(draft),
            Some(hop) => {
                let parts = Parts::of(&draft, client);
                inner.extend([parts.middle(&draft, hop), parts.far(&draft)]);
                let rules = hop.rules.is_given().then(|| hop.rules.applied_to(RouterRules::default()));
                spread.routers.extend(parts.names.routers.iter().map(|router| (router.clone(), rules)));
                spread.links.push(parts.near(&draft));
                spread.hops.push(parts.names);
            }
        }
    }
    spread.links.extend(inner);
    spread
}

struct Parts {
    names: Hop,
    /// The end of the path at the client, 0 or 1; the parts have the same orientation.
    near_end: usize,
    families: Vec<Family>,
}

impl Parts {
    fn of(draft: &LinkDraft<'_>, client: &str) -> Self {
        let path = &draft.named.name;
        // A dot is in no name of the file's: these are never taken.
        let part = |name: &str| format!("{path}.{name}");
        let given = draft.ends.iter().flat_map(|end| &end.given);
        let has = |family: &Family| given.clone().any(|given| family.holds(given.subnet.address));
        Self {
            names: Hop {
                path: path.clone(),
                link: part("hop"),
                far: part("far"),
                routers: [part("near"), part("beyond")],
            },
            near_end: usize::from(draft.ends[1].node == client),
            families: [Family::Ipv4, Family::Ipv6].into_iter().filter(|family| has(family)).collect(),
        }
    }

    fn part<'a>(&self, draft: &LinkDraft<'a>, name: &str, [near, far]: [EndDraft; 2]) -> LinkDraft<'a> {
        LinkDraft {
            named: Named { name: name.to_owned(), ..draft.named.clone() },
            ends: if self.near_end == 0 { [near, far] } else { [far, near] },
            families: self.families.clone(),
            hop: None,
            ..draft.clone()
        }
    }

    fn at_router(&self, draft: &LinkDraft<'_>, router: usize, interface: &str) -> EndDraft {
        EndDraft {
            node: self.names.routers[router].clone(),
            interface: interface.to_owned(),
            given: Vec::new(),
            ..draft.ends[0].clone()
        }
    }

    fn near<'a>(&self, draft: &LinkDraft<'a>) -> LinkDraft<'a> {
        let ends = [draft.ends[self.near_end].clone(), self.at_router(draft, 0, "near")];
        self.part(draft, &self.names.path, ends)
    }

    fn middle<'a>(&self, draft: &LinkDraft<'a>, hop: HopDraft) -> LinkDraft<'a> {
        let ends = [self.at_router(draft, 0, "hop"), self.at_router(draft, 1, "hop")];
        let part = self.part(draft, &self.names.link, ends);
        LinkDraft { part: Part::Hop, ..wire(part, hop.path_mtu_bytes) }
    }

    fn far<'a>(&self, draft: &LinkDraft<'a>) -> LinkDraft<'a> {
        let ends = [self.at_router(draft, 1, "far"), draft.ends[1 - self.near_end].clone()];
        let part = self.part(draft, &self.names.far, ends);
        LinkDraft { part: Part::Far, ..wire(part, draft.forward.mtu_bytes) }
    }
}

fn wire(draft: LinkDraft<'_>, mtu_bytes: u32) -> LinkDraft<'_> {
    let model = LinkModel { mtu_bytes, ..LinkModel::default() };
    LinkDraft {
        forward: model.clone(),
        reverse: model,
        requested: Default::default(),
        engine: Some(Engine::Kernel),
        backup: false,
        capture: false,
        ..draft
    }
}
