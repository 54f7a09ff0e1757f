//! Paths that carried nothing, and why; what routers did about packets that were too large.

use super::prose;
use super::tables::path_name;
use crate::narrative::diagnosis;
use crate::quantity::NONE;
use crate::view::{GroupView, View};
use maud::{Markup, html};
use pathbench_record::document::{PathDiagnosis, RunRecord};
use pathbench_record::sample::Side;

/// The findings of all groups: a row per label, path and kind.
pub(super) fn overview(view: &View) -> Markup {
    let findings = diagnosis::of_view(view);
    html! {
        @if !findings.is_empty() {
            section {
                h2 { "Paths that carried nothing, and why" }
                div.scroll { table {
                    thead { tr {
                        th { "transport" } th { "path" } th { "what" } th { "in" } th { "known by" } th { "remedy" }
                    } }
                    tbody { @for (group, one) in &findings { tr {
                        th scope="row" { (group.name()) }
                        td { (path_name(view, one.path)) }
                        td {
                            span.bad[one.is_trouble()] { (diagnosis::title(one.kind)) }
                            @let period = one.period();
                            @if !period.is_empty() { small { (period.trim()) } }
                        }
                        td {
                            (one.of_runs())
                            @if let Some(which) = one.repetitions() { small { (which) } }
                        }
                        td { (prose(one.because())) }
                        td { (prose(one.remedy())) }
                    } } }
                } }
                p.muted { "For all of a run, or for a second or more of it. The words are those of the first run that \
                           has the finding; times are the range over the runs." }
            }
        }
    }
}

/// The kinds that were found in a group, path by path, in few words.
pub(super) fn in_short(group: &GroupView) -> Markup {
    html! {
        @for one in diagnosis::findings(group) {
            div {
                (one.path) ": "
                span.bad[one.is_trouble()] { (diagnosis::title(one.kind)) } (one.period())
                @if one.repetitions().is_some() { ", " (one.of_runs()) }
            }
        }
    }
}

/// The findings of one run.
pub(super) fn of_run(run: &RunRecord) -> Markup {
    html! {
        @for one in &run.diagnoses {
            p.bad[diagnosis::is_trouble(one)] {
                b { (diagnosis::finding(one)) } (side(one)) @if !one.because.is_empty() { ": " (prose(&one.because)) }
                @if !one.remedy.is_empty() { br; "Remedy: " (prose(&one.remedy)) }
            }
        }
    }
}

/// The end that sent, where it is not the client.
fn side(one: &PathDiagnosis) -> &'static str {
    match one.side {
        Side::Client => "",
        Side::Server => " (server's data)",
    }
}

/// The lab's routers: what they said about packets that were too large.
pub(super) fn routers(run: &RunRecord) -> Markup {
    html! {
        @if !run.routers.is_empty() {
            h3 { "Routers, and packets that were too large for their next hop" }
            table.narrow {
                thead { tr {
                    th { "router" } th { "too big messages" } th.n { "sent" } th.n { "suppressed" }
                    th { "MSS of SYNs" } th.n { "SYNs looked at" }
                } }
                tbody { @for router in &run.routers { tr {
                    th scope="row" { (router.name) }
                    td { (router.icmp) }
                    td.n { (router.too_big_sent) }
                    td.n { span.bad[router.too_big_suppressed > 0] { (router.too_big_suppressed) } }
                    td { @if router.clamp_mss { "clamped" } @else { "left alone" } }
                    td.n { @if router.clamp_mss { (router.clamped_syns) } @else { (NONE) } }
                } } }
            }
        }
    }
}
