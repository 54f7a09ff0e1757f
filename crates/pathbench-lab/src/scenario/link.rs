//! `[[path]]` and `[[link]]`: wires and their models, and the presets of models.

use super::address::{GivenAddress, LinkDraft, Part, parse_given};
use super::hop;
use super::mistake::{At, MistakeLog};
use super::naming::{NameOf, Named};
use super::parameters::{self, Directions};
use super::plan::{LinkEnd, LinkEngine, LinkPlan};
use super::section::ScenarioSection;
use super::tree::{self, TomlValue};
use pathbench_link::{Engines, LinkModel};

const DEFAULT_TOLERANCE: f64 = 0.05;

/// Presets: name and text of models of common networks, as defaults of a path or link. Sources: docs/presets.md.
const PRESETS: [(&str, &str); 7] = [
    ("wifi-good", include_str!("presets/wifi-good.toml")),
    ("wifi-cafe", include_str!("presets/wifi-cafe.toml")),
    ("lte", include_str!("presets/lte.toml")),
    ("5g-walk", include_str!("presets/5g-walk.toml")),
    ("leo-satellite", include_str!("presets/leo-satellite.toml")),
    ("adsl", include_str!("presets/adsl.toml")),
    ("datacenter", include_str!("presets/datacenter.toml")),
];

/// A `[[path]]`: a link between `client` and `server`; its interfaces on both hosts have the name of the path.
pub(super) fn path(named: Named<'_>) -> LinkDraft<'_> {
    let end = |node: &str, key: &str| End {
        node: node.to_owned(),
        interface: named.name.clone(),
        given: parse_given(&named.section, key),
        at: named.name_at.clone(),
    };
    let ends = [end("client", "client_address"), end("server", "server_address")];
    let draft = draft(named, ends, ["upload", "download"]);
    LinkDraft { hop: hop::of_path(&draft.section, draft.link.mtu_bytes()), ..draft }
}

/// A `[[link]]` between any two nodes.
pub(super) fn link(named: Named<'_>) -> LinkDraft<'_> {
    let section = &named.section;
    let remedy = "give it to the router at its end, or use a [[path]]";
    section.refuse(&hop::RULES, "a link has no routers in it", remedy);
    let remedy = "give it as the link's mtu, or use a [[path]]";
    section.refuse(&["path_mtu"], "a link is a single hop", remedy);
    let ends = ends(section);
    draft(named, ends, ["forward", "reverse"])
}

fn draft<'a>(named: Named<'a>, ends: [End; 2], directions: [&str; 2]) -> LinkDraft<'a> {
    let section = named.section;
    let Directions { models: [forward, reverse], requested } =
        parameters::directions(&section, directions, preset);
    let engines =
        [("auto", None), ("kernel", Some(LinkEngine::Kernel)), ("emulated", Some(LinkEngine::Emulated))];
    let engine = section.choice("engine", &engines).flatten();
    let capture = section.flag("capture").unwrap_or(false);
    let shares_subnet = section.flag("shared_subnet").unwrap_or(false);
    // The kernel's engine for rate, queue and MTU only; otherwise the emulated engine, even if the kernel has netem,
    // because netem's decisions are neither repeatable nor countable.
    let is_plain = forward.needs().max(reverse.needs()) == Engines::Kernel && !capture;
    if engine == Some(LinkEngine::Kernel) {
        check_kernel(&section, &[&forward, &reverse], capture);
    }
    let [first, second] = ends;
    LinkDraft {
        link: LinkPlan {
            name: named.name,
            ends: [&first, &second].map(|end| LinkEnd {
                node: end.node.clone(),
                interface: end.interface.clone(),
                addresses: Vec::new(),
            }),
            forward,
            reverse,
            requested,
            engine: engine.unwrap_or(if is_plain { LinkEngine::Kernel } else { LinkEngine::Emulated }),
            engine_is_given: engine.is_some(),
            tolerance: section.fraction("tolerance").unwrap_or(DEFAULT_TOLERANCE),
            backup: section.flag("backup").unwrap_or(false),
            weight: section.count("weight", 1..=1_000).unwrap_or(1),
            capture,
        },
        name_at: named.name_at,
        ends_at: [first.at, second.at],
        given: [first.given, second.given],
        hop: None,
        part: Part::Own,
        shares_subnet,
        families: Vec::new(),
        section,
    }
}

/// The preset named in `section`, or the defaults. A mistake in a preset is a bug, which a test finds.
fn preset(section: &ScenarioSection<'_>) -> Directions {
    let Some(text) = section.choice("preset", &PRESETS) else { return Directions::default() };
    let ledger = MistakeLog::new("preset", text);
    let table = tree::document(text, &ledger).unwrap_or_default();
    let root = ScenarioSection::whole(&table, &ledger);
    let preset = parameters::directions(&root, ["upload", "download"], |_| Directions::default());
    root.refuse_unknown_keys();
    if !ledger.is_empty() {
        section.wrong("preset", ledger.into_mistakes().to_string(), "please report it");
    }
    preset
}

/// Reports parameters that the kernel's engine does not support, with or without netem.
fn check_kernel(section: &ScenarioSection<'_>, directions: &[&LinkModel; 2], capture: bool) {
    if let Some((problem, remedy)) = directions.iter().find_map(|model| parameters::beyond_kernel(model)) {
        section.wrong("engine", problem, remedy);
    }
    if capture {
        let remedy = "make it \"emulated\", or leave the engine out";
        section.wrong("engine", "the kernel's engine captures no packets", remedy);
    }
}

const ENDS_EXAMPLE: &str = "[\"client:eth\", \"server:eth\"]";

struct End {
    node: String,
    interface: String,
    given: Vec<GivenAddress>,
    at: At,
}

/// The two ends of a `[[link]]`; an invalid end has an empty node.
fn ends(section: &ScenarioSection<'_>) -> [End; 2] {
    let unread = |at| End { node: String::new(), interface: String::new(), given: Vec::new(), at };
    section.require("ends", ENDS_EXAMPLE);
    let Some(items) = section.items("ends") else { return [(); 2].map(|()| unread(section.locate("ends"))) };
    let [first, second] = items else {
        let problem = format!("a link has 2 ends, not {}", items.len());
        section.wrong("ends", problem, format!("give two, as in ends = {ENDS_EXAMPLE}"));
        return [(); 2].map(|()| unread(section.locate("ends")));
    };
    [(0, first), (1, second)].map(|(index, item)| {
        let at = At::new(item.location, format!("{}.{index}", section.locate("ends").key));
        let end = match &item.value {
            TomlValue::Text(text) => {
                let (node, interface) = text.split_once(':').unwrap_or((text, ""));
                if node.is_empty() || interface.is_empty() {
                    let problem = format!("`{node}` does not name a host and its interface");
                    section.ledger.wrong(&at, problem, "write \"HOST:INTERFACE\", as in \"client:eth\"");
                }
                End { node: node.to_owned(), interface: interface.to_owned(), ..unread(at) }
            }
            TomlValue::Table(table) => {
                let own = ScenarioSection { table: Some(table), at: at.clone(), ..section.clone() };
                let node = own.required_text("node", "client").unwrap_or_default().to_owned();
                let interface = own.required_text("interface", "eth").unwrap_or_default().to_owned();
                End { node, interface, given: parse_given(&own, "address"), at }
            }
            other => {
                let problem = format!("{} is not an end of a link", other.noun());
                let remedy = "give \"HOST:INTERFACE\", or { node = …, interface = …, address = … }";
                section.ledger.wrong(&at, problem, remedy);
                return unread(at);
            }
        };
        if !end.interface.is_empty() {
            NameOf::Interface.check(&end.interface, section.ledger, &end.at);
        }
        end
    })
}
