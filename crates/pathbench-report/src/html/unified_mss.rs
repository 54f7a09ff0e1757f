//! The rule of the out-of-tree MPTCP kernel, which knew one MSS for all subflows: the worked example of the thesis that
//! is about it, and what the rule would have made of the result's own runs.

use super::tables::path_name;
use crate::quantity::{NONE, duration, rate};
use crate::view::{GroupView, View};
use maud::{Markup, html};
use pathbench_analysis::metrics::unified_mss::{SubflowWindow, UnifiedMss, apply, from_samples};
use pathbench_record::document::RunRecord;
use pathbench_record::transport::Transport;

/// Groups whose runs are shown.
const MOST_GROUPS: usize = 6;
/// Subflows whose MSS differ by less have one path MTU: options come and go.
const SAME_BYTES: u32 = 40;

/// What the thesis prints for its two subflows of 8960 and 1460 bytes, in Mbit/s, by the MSS for both.
const PRINTED: [(u32, &str); 2] = [(8960, "56.72"), (1460, "5.43")];

/// The section of a result with runs over paths of different MSS; nothing where there are none.
pub(super) fn rule(view: &View) -> Markup {
    let found: Vec<(&GroupView, &RunRecord, UnifiedMss)> =
        view.groups.iter().filter_map(|group| outcome(view, group)).take(MOST_GROUPS).collect();
    html! {
        @if !found.is_empty() {
            section {
                h2 { "One MSS for all subflows: the old kernel's rule" }
                p { "The out-of-tree MPTCP kernel (v0.9x) gave all subflows of a connection one MSS: of theirs, the one for \
                     which " code { "mptcp_calc_rate" } " promised most (S. Manoratne, " i { "Investigating the Effect of \
                     Different Subflow MTUs on MPTCP Throughput" } ", 2025, section 10.5). A path too narrow for packets of \
                     that size was left without data, whatever it was promised; Linux' own MPTCP gives every subflow the \
                     MSS of its path." }
                (example())
                @for (group, run, outcome) in &found { (of_run(view, group, run, outcome)) }
                p.muted { "Windows, round-trip times and MSS are the run's own: medians over the samples of the sending end. \
                           Rates follow from them alone: mss² × 8 × window ÷ (RTT × ⌈mss ÷ own MSS⌉ × own MSS) for one MSS \
                           on all subflows, window × MSS ÷ RTT where each has its own. What arrives: the rates of those \
                           subflows only that take packets of that size." }
            }
        }
    }
}

/// What the rule makes of the run that stands for a group, where its subflows differ in their MSS.
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
fn example() -> Markup {
    let subflow = |path: &str, mss_bytes: u32| SubflowWindow {
        path: path.to_owned(),
        mss_bytes,
        srtt_ms: 50.0,
        window_segments: 20.0,
    };
    let outcome = apply(&[subflow("A", 8960), subflow("B", 1460)]);
    let printed = |mss: u32| PRINTED.iter().find(|(of, _)| *of == mss).map_or(NONE, |(_, text)| *text);
    let two = |mbps: f64| format!("{mbps:.2}");
    html! {
        @if let Some(outcome) = outcome {
            h3 { "The worked example of the thesis: 50 ms and 20 segments on both subflows" }
            table.narrow {
                thead { tr {
                    th { "MSS, Mbit/s" }
                    @for one in &outcome.subflows { th.n { "subflow " (one.path) " (" (one.mss_bytes) ")" } }
                    th.n { "together" } th.n { "as printed" } th.n { "what arrives" }
                } }
                tbody {
                    @for candidate in &outcome.candidates { tr {
                        th scope="row" { (candidate.mss_bytes) " on both" (chosen(&outcome, candidate.mss_bytes)) }
                        @for mbps in &candidate.subflows_mbps { td.n { (two(*mbps)) } }
                        td.n { (two(candidate.total_mbps)) }
                        td.n { (printed(candidate.mss_bytes)) }
                        td.n { (two(arriving(&outcome, candidate.mss_bytes, &candidate.subflows_mbps))) }
                    } }
                    tr {
                        th scope="row" { "each its own" }
                        @for mbps in &outcome.per_path_mbps { td.n { (two(*mbps)) } }
                        td.n { (two(outcome.per_path_total_mbps)) } td.n { (NONE) }
                        td.n { (two(outcome.per_path_total_mbps)) }
                    }
                }
            }
            p.muted { "The thesis prints 28.05 for subflow B with 8960, where its formula gives 25.14; the choice is the same." }
        }
    }
}

fn chosen(outcome: &UnifiedMss, mss_bytes: u32) -> Markup {
    html! { @if outcome.chosen_mss_bytes == mss_bytes { small { "the rule's choice" } } }
}

/// The rates of those subflows whose paths take packets of `mss_bytes`.
fn arriving(outcome: &UnifiedMss, mss_bytes: u32, mbps: &[f64]) -> f64 {
    let rates = outcome.subflows.iter().zip(mbps);
    rates.filter(|(one, _)| one.mss_bytes + SAME_BYTES > mss_bytes).map(|(_, mbps)| mbps).sum()
}

fn of_run(view: &View, group: &GroupView, run: &RunRecord, outcome: &UnifiedMss) -> Markup {
    html! {
        h3 { (group.name()) ", run " (run.id) }
        div.scroll { table.narrow {
            thead { tr {
                th { "MSS" }
                @for one in &outcome.subflows { th {
                    (path_name(view, &one.path))
                    small { "MSS " (one.mss_bytes) ", RTT " (duration(one.srtt_ms)) }
                    small { (format!("{:.0}", one.window_segments)) " segments" }
                } }
                th.n { "together" } th.n { "what arrives" }
            } }
            tbody {
                @for candidate in &outcome.candidates { tr {
                    th scope="row" { (candidate.mss_bytes) " on all" (chosen(outcome, candidate.mss_bytes)) }
                    @for mbps in &candidate.subflows_mbps { td { (rate(*mbps)) } }
                    td.n { (rate(candidate.total_mbps)) }
                    td.n { (rate(arriving(outcome, candidate.mss_bytes, &candidate.subflows_mbps))) }
                } }
                tr {
                    th scope="row" { "each its own" }
                    @for mbps in &outcome.per_path_mbps { td { (rate(*mbps)) } }
                    td.n { (rate(outcome.per_path_total_mbps)) } td.n { (rate(outcome.per_path_total_mbps)) }
                }
                tr {
                    th scope="row" { "measured goodput" }
                    @for one in &outcome.subflows { td { (measured(run, &one.path)) } }
                    @let all = run.goodput_mbps.map_or(NONE.to_owned(), rate);
                    td.n { (all) } td.n { (all) }
                }
            }
        } }
    }
}

/// A path's part of the goodput.
fn measured(run: &RunRecord, path: &str) -> String {
    let share: f64 = run.paths.iter().filter(|one| one.name == path).map(|one| one.share).sum();
    run.goodput_mbps.map_or(NONE.to_owned(), |goodput| rate(goodput * share))
}
