//! The rule of the out-of-tree MPTCP kernel, which had one MSS for all subflows: the worked example of the thesis that is
//! about it, and the rule applied to the result's own runs.

use super::{Block, Cell, Row, Section, Table, number, words};
use crate::quantity::{NONE, Unit, duration};
use crate::view::{GroupView, View};
use pathbench_analysis::metrics::unified_mss::{SubflowWindow, UnifiedMss, apply, from_samples};
use pathbench_record::document::RunRecord;
use pathbench_record::transport::Transport;

/// Groups whose runs are shown.
const MOST_GROUPS: usize = 6;
/// Subflows whose MSS differ by less have one path MTU: options come and go.
const SAME_BYTES: u32 = 40;
/// What the thesis prints for its two subflows of 8960 and 1460 bytes, in Mbit/s, by the MSS for both.
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

/// The rule applied to a group's representative run, where its subflows differ in their MSS.
fn outcome<'a, 'b>(
    view: &View<'a>,
    group: &'b GroupView<'a>,
) -> Option<(&'b GroupView<'a>, &'a RunRecord, UnifiedMss)> {
    let run = group.representative().filter(|run| run.transport == Transport::Mptcp)?;
    let outcome = apply(&from_samples(&view.set.samples, &run.id))?;
    let sizes = outcome.subflows.iter().map(|one| one.mss_bytes);
    let differ = sizes.clone().max()?.saturating_sub(sizes.min()?) >= SAME_BYTES;
    differ.then_some((group, run, outcome))
}

/// The thesis' example, as it is printed and as its formula gives it.
fn example() -> Option<Block> {
    let subflow = |path: &str, mss_bytes: u32| SubflowWindow {
        path: path.to_owned(),
        mss_bytes,
        srtt_ms: 50.0,
        window_segments: 20.0,
    };
    let outcome = apply(&[subflow("A", 8960), subflow("B", 1460)])?;
    let two = |mbps: &f64| Cell::text(format!("{mbps:.2}"));
    let mut columns = vec![words("worked example: 50 ms, 20 segments; Mbit/s")];
    columns.extend(outcome.subflows.iter().map(|one| number(format!("{} ({})", one.path, one.mss_bytes))));
    columns.extend([number("together"), number("as printed"), number("what arrives")]);
    let mut rows: Vec<Row> = Vec::new();
    for candidate in &outcome.candidates {
        let printed = PRINTED.iter().find(|(of, _)| *of == candidate.mss_bytes).map_or(NONE, |one| one.1);
        let arriving = arriving(&outcome, candidate.mss_bytes, &candidate.subflows_mbps);
        let mut cells = vec![chosen(&outcome, candidate.mss_bytes)];
        cells.extend(candidate.subflows_mbps.iter().map(two));
        cells.extend([two(&candidate.total_mbps), Cell::text(printed), two(&arriving)]);
        rows.push(Row::new(cells));
    }
    let total = &outcome.per_path_total_mbps;
    let mut cells = vec![Cell::text("each its own")];
    cells.extend(outcome.per_path_mbps.iter().map(two));
    cells.extend([two(total), Cell::absent(), two(total)]);
    let note = "The thesis prints 28.05 for subflow B with 8960, where its formula gives 25.14; the choice is the same.";
    let notes = vec![(crate::narrative::Tone::Neutral, note.to_owned())];
    rows.push(Row { notes, ..Row::new(cells) });
    Some(Block::Table(Table { columns, rows }))
}

fn chosen(outcome: &UnifiedMss, mss_bytes: u32) -> Cell {
    let is_chosen = outcome.chosen_mss_bytes == mss_bytes;
    Cell::text(format!("{mss_bytes} on all")).below(if is_chosen { "the rule's choice" } else { "" })
}

fn arriving(outcome: &UnifiedMss, mss_bytes: u32, mbps: &[f64]) -> f64 {
    let rates = outcome.subflows.iter().zip(mbps);
    rates.filter(|(one, _)| one.mss_bytes + SAME_BYTES > mss_bytes).map(|(_, mbps)| mbps).sum()
}

fn of_run(run: &RunRecord, outcome: &UnifiedMss) -> Table {
    let rate = |mbps: f64| Cell::quantity(mbps, Unit::Rate);
    let mut columns = vec![words("MSS")];
    columns.extend(outcome.subflows.iter().map(|one| {
        let rtt = duration(one.srtt_ms);
        words(format!("{}: MSS {}, RTT {rtt}, {:.0} segments", one.path, one.mss_bytes, one.window_segments))
    }));
    columns.extend([number("together"), number("what arrives")]);
    let mut rows: Vec<Row> = Vec::new();
    for candidate in &outcome.candidates {
        let arriving = arriving(outcome, candidate.mss_bytes, &candidate.subflows_mbps);
        let mut cells = vec![chosen(outcome, candidate.mss_bytes)];
        cells.extend(candidate.subflows_mbps.iter().map(|mbps| rate(*mbps)));
        cells.extend([rate(candidate.total_mbps), rate(arriving)]);
        rows.push(Row::new(cells));
    }
    let total = outcome.per_path_total_mbps;
    let mut cells = vec![Cell::text("each its own")];
    cells.extend(outcome.per_path_mbps.iter().map(|mbps| rate(*mbps)));
    cells.extend([rate(total), rate(total)]);
    rows.push(Row::new(cells));
    let all = Cell::quantity(run.goodput_mbps, Unit::Rate);
    let mut cells = vec![Cell::text("measured goodput")];
    cells.extend(outcome.subflows.iter().map(|one| {
        let share: f64 = run.paths.iter().filter(|path| path.name == one.path).map(|path| path.share).sum();
        Cell::quantity(run.goodput_mbps.map(|goodput| goodput * share), Unit::Rate)
    }));
    cells.extend([all.clone(), all]);
    rows.push(Row::new(cells));
    Table { columns, rows }
}
