//! The scenario language: TOML text → typed [`ScenarioPlan`], or every [`Mistake`] in it at once.
//!
//! The parser converts the text into a tree with the location of each value, inserts the command line's overrides by key
//! path, expands the matrix, and validates each variant in full. This module makes all checks except those of this
//! machine's capabilities, which the engines make.

mod address;
mod catalogue;
mod datagrams;
mod effect;
mod expect;
mod fade;
mod fields;
mod hop;
mod keypath;
mod link;
mod matrix;
mod mistake;
mod naming;
mod node;
mod parameters;
mod plan;
mod recorded;
mod section;
mod timeline;
mod topology;
mod traffic;
mod tree;
mod verdict;

pub use catalogue::{Builtin, LoadError, ScenarioSource, builtin, load};
pub use expect::{ComparisonOperator, ExpectationPlan, ExpectationTarget, ExpectedFigure, Subject};
pub use fields::known_fields;
pub use keypath::Overrides;
pub use mistake::{At, Mistake, MistakeLog, Mistakes, SourceLocation};
pub use plan::{
    EndpointPlan, EventAction, EventPlan, EventTime, FadePlan, Hop, LinkEnd, LinkEngine, LinkPlan, MptcpPlan,
    Node, NodeRole, PathChange, PatternPlan, QuicPlan, RoutePlan, RulesChange, RunPlan, ScenarioPlan,
    SocketPlan, ThroughputPlan, TopologyPlan, VariantPlan, icmp_in_words,
};
pub use recorded::{RecordedLine, RecordedLines, RecordedTraffic, recorded_scenario};

use expect::Vocabulary;
use matrix::MatrixCell;
use naming::NameOf;
use section::ScenarioSection;
use std::collections::BTreeSet;
use std::time::Duration;
use tree::{Item, TomlTable};

/// A larger lateness would exceed the differences measured over the link.
const DEFAULT_LATENESS_TOLERANCE: Duration = Duration::from_millis(10);
const DEFAULT_SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
const DEFAULT_SEED: u64 = 1;

/// Reads a scenario with the overrides of the command line.
pub fn plan(source: &ScenarioSource, overrides: &Overrides) -> Result<ScenarioPlan, Mistakes> {
    let ledger = MistakeLog::new(&source.file, &source.text);
    let plan = tree::document(&source.text, &ledger).map(|tree| read(source, overrides, tree, &ledger));
    match plan {
        Some(plan) if ledger.is_empty() => Ok(plan),
        _ => Err(ledger.into_mistakes()),
    }
}

/// Reads the complete scenario. The plan is valid only if the ledger is empty afterwards.
fn read(
    source: &ScenarioSource,
    overrides: &Overrides,
    mut tree: TomlTable,
    ledger: &MistakeLog,
) -> ScenarioPlan {
    keypath::gather(&mut tree, ledger);
    let transports = tree.get("run").and_then(|run| run.value.table()?.get("transports")).cloned();
    let record = overrides.apply(&mut tree, ledger);
    let root = ScenarioSection::whole(&tree, ledger);
    let name = root.required_text("name", "failover");
    if let Some(name) = name {
        NameOf::Scenario.check(name, ledger, &root.locate("name"));
    }
    let description = root.text("description", "what it shows").unwrap_or_default();
    if description.contains(char::is_control) {
        let problem = "the description is more than one line of text";
        root.wrong("description", problem, "put the rest into comments (# …)");
    }
    let cells = matrix::expand(&root, &tree);
    let mut labels_removed = Vec::new();
    let mut variants = Vec::new();
    for cell in &cells {
        let variant = variant(&ScenarioSection::whole(&cell.table, ledger), cell);
        labels_removed.extend(transports.iter().flat_map(|item| labels_of(item, ledger, &variant)));
        variants.push(variant);
    }
    let run = root.section("run");
    let seed = run.integer("seed", 0..=u64::MAX);
    let repeat = run.count("repeat", 1..=10_000);
    let warm_up = run.count("warm_up", 0..=1_000);
    let longest = Duration::from_secs(10);
    let sample_interval = run.duration("sample_interval", Duration::from_millis(10)..=longest);
    let lateness_tolerance = run.duration("lateness_tolerance", Duration::ZERO..=longest);
    let words = vocabulary(&variants, labels_removed, !record.is_empty());
    let (expectations, left_out) = expect::read(&root, &words);
    for cell in &cells {
        ScenarioSection::whole(&cell.table, ledger).refuse_unknown_keys();
    }
    ScenarioPlan {
        name: name.unwrap_or_default().to_owned(),
        description: description.to_owned(),
        origin: source.origin.clone(),
        text: source.text.clone(),
        overrides: record,
        seed: seed.unwrap_or(DEFAULT_SEED),
        repeat: repeat.unwrap_or(1),
        warm_up: warm_up.unwrap_or(0),
        variants,
        expectations,
        left_out,
        sample_interval: sample_interval.unwrap_or(DEFAULT_SAMPLE_INTERVAL),
        lateness_tolerance: lateness_tolerance.unwrap_or(DEFAULT_LATENESS_TOLERANCE),
    }
}

fn variant(root: &ScenarioSection<'_>, cell: &MatrixCell) -> VariantPlan {
    let run = root.section("run");
    let ends = traffic::ends(&run);
    let mut topology = topology::read(root, ends.family, &ends.client);
    let run = traffic::read(&run, ends, &topology);
    let mut events = timeline::read(root, &topology, &run);
    effect::assign(&mut events, &topology);
    topology::adapt_to_events(&mut topology, &events);
    VariantPlan { variant: cell.variant.clone(), topology, events, run }
}

/// The transport labels in `item` for a variant. Ignores mistakes in `item`.
fn labels_of(item: &Item, ledger: &MistakeLog, variant: &VariantPlan) -> Vec<String> {
    let mut table = TomlTable::default();
    table.put("transports", item.clone());
    let run = ScenarioSection { at: At::new(item.location, "run"), ..ScenarioSection::whole(&table, ledger) };
    ledger.muted.set(true);
    let labels = traffic::labels(&run, &variant.run.client, variant.run.family, &variant.topology);
    ledger.muted.set(false);
    labels.iter().map(ToString::to_string).collect()
}

fn vocabulary(variants: &[VariantPlan], labels_removed: Vec<String>, overridden: bool) -> Vocabulary {
    let distinct = |names: &mut dyn Iterator<Item = String>| {
        let mut known: Vec<String> = Vec::new();
        for name in names.filter(|name| !name.is_empty()) {
            if !known.contains(&name) {
                known.push(name);
            }
        }
        known
    };
    let labels = variants.iter().flat_map(|variant| &variant.run.labels);
    let labels = distinct(&mut labels.map(ToString::to_string));
    let own_links = |variant: &VariantPlan| {
        let names = variant.topology.links.iter().map(|link| link.name.clone());
        names.filter(|name| !variant.topology.is_inner(name)).collect::<Vec<_>>()
    };
    let patterns: BTreeSet<_> =
        variants.iter().flat_map(|variant| &variant.run.patterns).map(PatternPlan::name).collect();
    Vocabulary {
        labels_removed: distinct(&mut labels_removed.into_iter().filter(|label| !labels.contains(label))),
        labels,
        patterns: patterns.into_iter().collect(),
        links: distinct(&mut variants.iter().flat_map(own_links)),
        variants: variants.iter().map(|variant| variant.variant.clone()).collect(),
        variants_changed: overridden,
    }
}
