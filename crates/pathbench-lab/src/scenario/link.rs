//! `[[path]]` and `[[link]]`: wires and their models.

use super::address::{Given, parse_given};
use super::hop::{self, HopDraft};
use super::keys;
use super::mistake::MistakeKind;
use super::naming::{NameOf, Named};
use super::parameters;
use super::plan::{Engine, Family};
use super::preset;
use super::section::Section;
use super::tree::{Origin, Value};
use pathbench_link::{LinkModel, overlay};
use serde_json::{Map, Value as Json};

/// Smallest IPv4 MTU (RFC 791) to largest IP packet.
pub(super) const MTU_BYTES: std::ops::RangeInclusive<u64> = 68..=65_535;
/// Smallest link MTU under IPv6 (RFC 8200, section 5).
pub(super) const SMALLEST_IPV6_MTU_BYTES: u32 = 1_280;
const DEFAULT_TOLERANCE: f64 = 0.05;

#[derive(Debug, Clone)]
pub(super) struct LinkDraft<'a> {
    pub(super) named: Named<'a>,
    pub(super) ends: [EndDraft; 2],
    pub(super) forward: LinkModel,
    pub(super) reverse: LinkModel,
    pub(super) requested: [Map<String, Json>; 2],
    /// What is asked for; `None`: whatever the link needs.
    pub(super) engine: Option<Engine>,
    pub(super) tolerance: f64,
    pub(super) backup: bool,
    pub(super) weight: u32,
    pub(super) capture: bool,
    pub(super) hop: Option<HopDraft>,
    pub(super) part: Part,
    pub(super) families: Vec<Family>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Own,
    Hop,
    Far,
}

#[derive(Debug, Clone)]
pub(super) struct EndDraft {
    pub(super) node: String,
    pub(super) interface: String,
    pub(super) given: Vec<Given>,
    pub(super) origin: Origin,
    pub(super) key: String,
}

/// A `[[path]]`: a link between `client` and `server`, its interface named like itself on both.
pub(super) fn path(named: Named<'_>) -> LinkDraft<'_> {
    let section = named.section.clone();
    section.only("a path", &keys::path());
    let end = |node: &str, key: &str| EndDraft {
        node: node.to_owned(),
        interface: named.name.clone(),
        given: parse_given(&section, key),
        origin: named.name_origin.clone(),
        key: section.key("name"),
    };
    let ends = [end("client", "client_address"), end("server", "server_address")];
    let draft = draft(named, ends, ["upload", "download"]);
    LinkDraft { hop: hop::of_path(&section, draft.forward.mtu_bytes), ..draft }
}

/// A `[[link]]` between any two nodes.
pub(super) fn link(named: Named<'_>) -> LinkDraft<'_> {
    let section = named.section.clone();
    section.only("a link", &[keys::link().as_slice(), &keys::HOP].concat());
    let (problem, remedy) =
        ("a link has no routers in it", "give it to the router at its end, or use a [[path]]");
    hop::refuse(&section, &keys::RULES, problem, remedy);
    hop::refuse(
        &section,
        &["path_mtu"],
        "a link is a single hop",
        "give it as the link's mtu, or use a [[path]]",
    );
    let ends = ends(&section);
    draft(named, ends, ["forward", "reverse"])
}

fn draft<'a>(named: Named<'a>, ends: [EndDraft; 2], directions: [&str; 2]) -> LinkDraft<'a> {
    let section = &named.section;
    let preset = preset::read(section);
    let both = parameters::read(section);
    let mut requested = preset.requested;
    let [forward, reverse] = [0, 1].map(|index| {
        let table = section.section(directions[index]);
        table.only("a direction", &keys::direction());
        let own = parameters::read(&table);
        let model = preset.directions[index].with(&both.change).with(&own.change);
        parameters::check(&[&table, section], &model);
        overlay(&mut requested[index], both.json.clone());
        overlay(&mut requested[index], own.json);
        model
    });
    let engines = [("auto", None), ("kernel", Some(Engine::Kernel)), ("emulated", Some(Engine::Emulated))];
    let engine = section.choice("engine", &engines).flatten();
    let capture = section.flag("capture").unwrap_or(false);
    if engine == Some(Engine::Kernel) {
        check_kernel(section, &[&forward, &reverse], capture);
    }
    LinkDraft {
        ends,
        forward,
        reverse,
        requested,
        engine,
        tolerance: section.fraction("tolerance").unwrap_or(DEFAULT_TOLERANCE),
        backup: section.flag("backup").unwrap_or(false),
        weight: section.integer("weight", 1..=1_000).map_or(1, |weight| weight as u32),
        capture,
        hop: None,
        part: Part::Own,
        families: Vec::new(),
        named,
    }
}

/// Reports what the kernel's engine cannot do, netem or not.
fn check_kernel(section: &Section<'_>, directions: &[&LinkModel; 2], capture: bool) {
    if let Some((problem, remedy)) = directions.iter().find_map(|model| parameters::beyond_kernel(model)) {
        section.wrong(MistakeKind::Conflict, "engine", problem, remedy);
    }
    if capture {
        let remedy = "make it \"emulated\", or leave the engine out";
        section.wrong(MistakeKind::Conflict, "engine", "the kernel's engine captures no packets", remedy);
    }
}

const ENDS_EXAMPLE: &str = "[\"client:eth\", \"server:eth\"]";

/// The two ends of a `[[link]]`; an end that cannot be read has an empty node.
fn ends(section: &Section<'_>) -> [EndDraft; 2] {
    let unread = || EndDraft {
        node: String::new(),
        interface: String::new(),
        given: Vec::new(),
        origin: section.origin.clone(),
        key: section.key("ends"),
    };
    if !section.has("ends") {
        section.missing("ends", ENDS_EXAMPLE);
        return [unread(), unread()];
    }
    let Some(items) = section.items("ends") else { return [unread(), unread()] };
    let [first, second] = items else {
        let problem = format!("a link has 2 ends, not {}", items.len());
        section.wrong(MistakeKind::Value, "ends", problem, format!("give two, as in ends = {ENDS_EXAMPLE}"));
        return [unread(), unread()];
    };
    let mut read = [(0, first), (1, second)].map(|(index, item)| {
        let key = format!("{}.{index}", section.key("ends"));
        let mut end = EndDraft { origin: item.origin.clone(), key: key.clone(), ..unread() };
        match &item.value {
            Value::Text(text) => {
                let (node, interface) = text.split_once(':').unwrap_or((text, ""));
                (end.node, end.interface) = (node.to_owned(), interface.to_owned());
            }
            Value::Table(table) => {
                let own = Section {
                    ledger: section.ledger,
                    table: Some(table),
                    origin: item.origin.clone(),
                    path: key,
                };
                own.only("an end of a link", &keys::END);
                own.required_text("node", "client").unwrap_or_default().clone_into(&mut end.node);
                own.required_text("interface", "eth").unwrap_or_default().clone_into(&mut end.interface);
                end.given = parse_given(&own, "address");
                return (end, true);
            }
            other => {
                let problem = format!("{} is not an end of a link", other.noun());
                let remedy = "give \"HOST:INTERFACE\", or { node = …, interface = …, address = … }";
                section.ledger.add(MistakeKind::Type, &item.origin, key, problem, remedy);
                return (end, true);
            }
        }
        (end, false)
    });
    for (end, reported) in &mut read {
        check_end(section, end, *reported);
    }
    read.map(|(end, _)| end)
}

fn check_end(section: &Section<'_>, end: &EndDraft, reported: bool) {
    if !reported && (end.node.is_empty() || end.interface.is_empty()) {
        let problem = format!("`{}` does not name a host and its interface", end.node);
        let remedy = "write \"HOST:INTERFACE\", as in \"client:eth\"";
        section.ledger.add(MistakeKind::Value, &end.origin, &*end.key, problem, remedy);
    } else if !end.interface.is_empty() {
        NameOf::Interface.check(&end.interface, section.ledger, &end.origin, &end.key);
    }
}
