//! From source and overrides to a plan, or to all mistakes.

use super::catalogue::Source;
use super::expect::{self, Vocabulary};
use super::gathering;
use super::keys;
use super::matrix::{self, Cell};
use super::mistake::{Ledger, MistakeKind, Mistakes};
use super::naming::NameOf;
use super::overrides::{self, Overrides};
use super::plan::{PatternPlan, Plan, Topology, VariantPlan};
use super::section::Section;
use super::syntax;
use super::timeline;
use super::topology;
use super::traffic;
use super::tree::{Item, Origin, Table, Value};
use std::collections::BTreeSet;

/// Reads a scenario with the overrides of the command line put in.
pub fn plan(source: &Source, overrides: &Overrides) -> Result<Plan, Mistakes> {
    let ledger = Ledger::new(&source.file);
    let plan = syntax::document(&source.text, &ledger).map(|tree| read(source, overrides, tree, &ledger));
    match plan {
        Some(plan) if ledger.is_empty() => Ok(plan),
        _ => Err(ledger.into_mistakes()),
    }
}

fn whole<'a>(table: &'a Table, ledger: &'a Ledger) -> Section<'a> {
    Section { ledger, table: Some(table), origin: Origin::Line(1), path: String::new() }
}

/// Reads everything; the plan means something only if the ledger is empty afterwards.
fn read(source: &Source, overrides: &Overrides, mut tree: Table, ledger: &Ledger) -> Plan {
    gathering::gather(&mut tree, ledger);
    let labels_item = transports(&tree).cloned();
    let record = overrides::apply(&mut tree, overrides, ledger);
    let root = whole(&tree, ledger);
    let mut known = keys::SCENARIO.to_vec();
    known.push(keys::MATRIX);
    root.only("a scenario", &known);
    let name = root.required_text("name", "failover");
    if let Some(name) = name {
        NameOf::Scenario.check(name, ledger, &root.origin_of("name"), "name");
    }
    let description = root.text("description", "what it shows").unwrap_or_default();
    if description.contains(char::is_control) {
        let problem = "the description is more than one line of text";
        root.wrong(MistakeKind::Value, "description", problem, "put the rest into comments (# …)");
    }
    let cells = matrix::expand(&root, &tree);
    let mut labels_gone = Vec::new();
    let mut variants = Vec::new();
    for cell in &cells {
        let root = whole(&cell.table, ledger);
        variants.push(variant(&root, cell));
        if let (Some(variant), Some(item)) = (variants.last(), &labels_item) {
            labels_gone.extend(labels_of(item, ledger, variant));
        }
    }
    let run = root.section("run");
    let course = traffic::course(&run);
    let words = vocabulary(&variants, labels_gone, !record.is_empty());
    let (expectations, left_out) = expect::read(&root, &words);
    Plan {
        name: name.unwrap_or_default().to_owned(),
        description: description.to_owned(),
        origin: source.origin.clone(),
        text: source.text.clone(),
        overrides: record,
        seed: course.seed,
        repeat: course.repeat,
        variants,
        expectations,
        left_out,
        sample_interval: course.sample_interval,
        lateness_tolerance: course.lateness_tolerance,
    }
}

fn variant(root: &Section<'_>, cell: &Cell) -> VariantPlan {
    let run = root.section("run");
    let ends = traffic::ends(&run);
    let mut topology = topology::read(root, ends.family, &ends.client);
    let run = traffic::read(&run, ends, &topology);
    let events = timeline::read(root, &topology, &run);
    topology::suit_events(&mut topology, &events);
    VariantPlan { variant: cell.variant.clone(), topology, events, run }
}

fn transports(tree: &Table) -> Option<&Item> {
    match &tree.get("run")?.value {
        Value::Table(run) => run.get("transports"),
        _ => None,
    }
}

/// The labels that `item` stands for in a variant, mistakes in it aside.
fn labels_of(item: &Item, ledger: &Ledger, variant: &VariantPlan) -> Vec<String> {
    let unheard = Ledger::new(ledger.file());
    let mut table = Table::default();
    table.put("transports", item.clone());
    let run = Section {
        ledger: &unheard,
        table: Some(&table),
        origin: item.origin.clone(),
        path: "run".to_owned(),
    };
    traffic::labels(&run, &variant.run.client, variant.run.family, &variant.topology)
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn own_links(topology: &Topology) -> Vec<String> {
    let names = topology.links.iter().map(|link| &link.name);
    names.filter(|name| !topology.is_inner(name)).cloned().collect()
}

fn vocabulary(variants: &[VariantPlan], labels_gone: Vec<String>, overridden: bool) -> Vocabulary {
    let mut labels: Vec<String> = Vec::new();
    let mut links: Vec<String> = Vec::new();
    let extend = |known: &mut Vec<String>, more: Vec<String>| {
        for name in more {
            if !name.is_empty() && !known.contains(&name) {
                known.push(name);
            }
        }
    };
    for variant in variants {
        extend(&mut labels, variant.run.labels.iter().map(ToString::to_string).collect());
        extend(&mut links, own_links(&variant.topology));
    }
    let mut gone = Vec::new();
    extend(&mut gone, labels_gone);
    gone.retain(|label| !labels.contains(label));
    let patterns: BTreeSet<_> =
        variants.iter().flat_map(|variant| &variant.run.patterns).map(PatternPlan::name).collect();
    Vocabulary {
        labels,
        labels_gone: gone,
        patterns: patterns.into_iter().collect(),
        links,
        variants: variants.iter().map(|variant| variant.variant.clone()).collect(),
        variants_changed: overridden,
    }
}
