//! The rule of the out-of-tree MPTCP kernel, which used one MSS for all subflows: the thesis' example, and the rule
//! applied to the result's own runs.

use super::content::{Block, Cell, Items, Section, Table};
use crate::narrative::Tone;
use crate::quantity::{Unit, duration};
use crate::view::{GroupView, View};
use pathbench_analysis::metrics::unified_mss::{SubflowWindow, UnifiedMss, apply, from_samples};
use pathbench_record::document::RunRecord;
use pathbench_record::transport::Transport;

const MOST_GROUPS: usize = 6;
/// Subflows whose MSS differ by less have the same path MTU: the length of options varies.
const SAME_BYTES: u32 = 40;
/// The goodput in the thesis for subflows of 8960 and 1460 bytes, in Mbit/s, by the common MSS.
const PRINTED: [(u32, &str); 2] = [(8960, "56.72"), (1460, "5.43")];

/// `None` for a result without runs over paths of different MSS.
pub(crate) fn rule(view: &View) -> Option<Section> {
    let found: Vec<(&GroupView, &RunRecord, UnifiedMss)> =
        view.groups.iter().filter_map(|group| outcome(view, group)).take(MOST_GROUPS).collect();
    found.first()?;
    let mut blocks = vec![Block::Text(
        "The out-of-tree MPTCP kernel (v0.9x) gave all subflows of a connection one MSS: of theirs, the one for which \
         `mptcp_calc_rate` promised most (S. Manoratne, “Investigating the Effect of Different Subflow MTUs on MPTCP \
         Throughput”, 2025, section 10.5). A path too narrow for packets of that size got no data, whatever rate was \
         promised for it; Linux' own MPTCP gives every subflow the MSS of its path."
            .to_owned(),
    )];
    blocks.extend(example());
    for (group, run, outcome) in &found {
        blocks.push(Block::Text(format!("{}, run {}:", group.name(), run.id)));
        blocks.push(Block::Table(of_run(run, outcome)));
    }
    let remark = "Windows, round-trip times and MSS are the run's own: medians over the samples of the sending end. Rates \
                  follow from them alone: mss² × 8 × window ÷ (RTT × ⌈mss ÷ own MSS⌉ × own MSS) for one MSS on all \
                  subflows, window × MSS ÷ RTT where each has its own. What arrives: the rates of those subflows only \
                  whose paths take packets of that size.";
    Some(Section::new("One MSS for all subflows: the old kernel's rule", remark, blocks))
}

fn outcome<'a, 'b>(
    view: &View<'a>,
    group: &'b GroupView<'a>,
) -> Option<(&'b GroupView<'a>, &'a RunRecord, UnifiedMss)> {
    let run = group.representative().filter(|run| run.transport == Transport::Mptcp)?;
    let outcome = apply(&from_samples(&view.data(run).samples, &run.id))?;
    let sizes = outcome.subflows.iter().map(|one| one.mss_bytes);
    let differ = sizes.clone().max()?.saturating_sub(sizes.min()?) >= SAME_BYTES;
    differ.then_some((group, run, outcome))
}

fn example() -> Option<Block> {
    let subflow = |path: &str, mss_bytes: u32| SubflowWindow {
        path: path.to_owned(),
        mss_bytes,
        srtt_ms: 50.0,
        window_segments: 20.0,
    };
    let outcome = apply(&[subflow("A", 8960), subflow("B", 1460)])?;
    let two = |mbps: f64| Cell::text(format!("{mbps:.2}"));
    let mut rows = Items::new(rules(&outcome))
        .words("worked example: 50 ms, 20 segments; Mbit/s", |rule| rule.name.clone());
    for (index, one) in outcome.subflows.iter().enumerate() {
        rows = rows.number(format!("{} ({})", one.path, one.mss_bytes), |rule| two(rule.mbps[index]));
    }
    let rows = rows
        .number("together", |rule| two(rule.total_mbps))
        .number("as printed", |rule| {
            let printed = PRINTED.iter().find(|(of, _)| Some(*of) == rule.mss_bytes);
            printed.map_or_else(Cell::absent, |one| Cell::text(one.1))
        })
        .number("what arrives", |rule| two(rule.arriving_mbps))
        .each(|row, rule| {
            let note = "The thesis prints 28.05 for subflow B with 8960, where its formula gives 25.14; the choice is \
                        the same.";
            row.notes.extend(rule.mss_bytes.is_none().then(|| (Tone::Neutral, note.to_owned())));
        });
    Some(Block::Table(rows.table))
}

/// A row of the tables: the rates of the subflows with one MSS for all, or with their own.
struct Rule {
    name: Cell,
    mss_bytes: Option<u32>,
    mbps: Vec<f64>,
    total_mbps: f64,
    arriving_mbps: f64,
}

fn rules(outcome: &UnifiedMss) -> Vec<Rule> {
    let candidates = outcome.candidates.iter().map(|one| {
        let rates = outcome.subflows.iter().zip(&one.subflows_mbps);
        let arriving = rates.filter(|(subflow, _)| subflow.mss_bytes + SAME_BYTES > one.mss_bytes);
        let is_chosen = outcome.chosen_mss_bytes == one.mss_bytes;
        let name = Cell::text(format!("{} on all", one.mss_bytes));
        Rule {
            name: name.with_line(if is_chosen { "the rule's choice" } else { "" }),
            mss_bytes: Some(one.mss_bytes),
            mbps: one.subflows_mbps.clone(),
            total_mbps: one.total_mbps,
            arriving_mbps: arriving.map(|(_, mbps)| mbps).sum(),
        }
    });
    let own = Rule {
        name: Cell::text("each its own"),
        mss_bytes: None,
        mbps: outcome.per_path_mbps.clone(),
        total_mbps: outcome.per_path_total_mbps,
        arriving_mbps: outcome.per_path_total_mbps,
    };
    candidates.chain([own]).collect()
}

fn of_run(run: &RunRecord, outcome: &UnifiedMss) -> Table {
    let share =
        |path: &str| run.paths.iter().filter(|one| one.name == path).map(|one| one.share).sum::<f64>();
    let goodput = run.goodput_mbps.unwrap_or(f64::NAN);
    let measured = Rule {
        name: Cell::text("measured goodput"),
        mss_bytes: None,
        mbps: outcome.subflows.iter().map(|one| goodput * share(&one.path)).collect(),
        total_mbps: goodput,
        arriving_mbps: goodput,
    };
    let rate = |mbps: f64| Cell::quantity(mbps, Unit::Rate);
    let mut rows =
        Items::new(rules(outcome).into_iter().chain([measured])).words("MSS", |rule| rule.name.clone());
    for (index, one) in outcome.subflows.iter().enumerate() {
        let (path, mss, rtt) = (&one.path, one.mss_bytes, duration(one.srtt_ms));
        let title = format!("{path}: MSS {mss}, RTT {rtt}, {:.0} segments", one.window_segments);
        rows = rows.words(title, |rule| rate(rule.mbps[index]));
    }
    let rows = rows.number("together", |rule| rate(rule.total_mbps));
    rows.number("what arrives", |rule| rate(rule.arriving_mbps)).table
}
