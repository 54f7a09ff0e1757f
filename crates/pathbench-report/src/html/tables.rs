//! The tables over all runs: figures per label, paths, expectations, links.

use super::emulation::one_way as one_way_delays;
use super::mark;
use crate::palette::Colour;
use crate::pattern::{Figure, Kind, Pattern};
use crate::quantity::{NONE, bit_rate, bounds, bytes, duration, each_direction, percent, plain, spread};
use crate::view::{GroupView, View, variant_text};
use maud::{Markup, html};
use pathbench_record::document::{
    Distribution, LinkFigures, LinkMeasurement, LinkRecord, PathRecord, RunRecord,
};

/// Medians per variant × label, a table per pattern.
pub(super) fn results(view: &View) -> Markup {
    let patterns = view.patterns();
    html! {
        @for pattern in &patterns {
            section {
                h2 { "Results" @if patterns.len() > 1 { ", " (pattern.name) } }
                div.scroll { (of_pattern(view, *pattern)) }
            }
        }
        @if !patterns.is_empty() {
            p.muted { "Median over the valid runs; below it its 95 % CI, or the range of fewer than six." }
        }
    }
}

/// The figures of a pattern that its runs have; goodput and what comes of it are always there for iperf.
fn of_pattern<'a>(view: &View<'a>, pattern: Pattern<'a>) -> Markup {
    let used = |figure: &&Figure| {
        pattern.kind == Kind::Iperf
            || view.of_pattern(pattern).any(|group| group.figure(figure.name).is_some())
    };
    let figures: Vec<&Figure> = pattern.figures().iter().filter(used).collect();
    let mut last = None;
    let rows = view.of_pattern(pattern).map(|group| {
        let is_new = last != Some(group.variant) && !group.variant.is_empty();
        last = Some(group.variant);
        html! {
            @if is_new { tr.variant { td colspan=(figures.len() + 4) { (variant_text(group.variant)) } } }
            (result_row(group, &figures))
        }
    });
    let rows: Vec<Markup> = rows.collect();
    html! {
        table {
            thead { tr {
                th { "transport" } th.n { "completed" } th.n { "multipath" }
                @for figure in &figures { th { (figure.title) } }
                th { (lost_title(pattern)) }
            } }
            tbody { @for row in rows { (row) } }
        }
    }
}

/// What the last column counts: what did not get through.
const fn lost_title(pattern: Pattern) -> &'static str {
    match pattern.kind {
        Kind::Ping => "lost",
        Kind::Interactive => "never acknowledged",
        Kind::Iperf | Kind::Bulk => "gave up after",
    }
}

fn result_row(group: &GroupView, figures: &[&Figure]) -> Markup {
    let (valid, completed) = (group.valid(), group.completed());
    let invalid = group.runs.len() as u32 - valid;
    let used = group.valid_runs().filter(|run| run.multipath.used).count() as u32;
    html! {
        tr {
            th scope="row" { (group.label) }
            td.n {
                span.bad[completed < valid || valid == 0] { (completed) " of " (valid) }
                @if invalid > 0 { small { (invalid) " not valid" } }
            }
            td.n {
                @if group.is_multipath() {
                    span.bad[used < valid && !group.pattern.is_of_messages()] { (used) " of " (valid) }
                } @else { (NONE) }
            }
            @for one in figures { (figure(group.figure(one.name), one.words, group.bound_mark(one.name))) }
            td { @match lost(group) { Some(text) => { span.bad { (text) } } None => { (NONE) } } }
        }
    }
}

/// What of a group's traffic did not get through, in words.
fn lost(group: &GroupView) -> Option<String> {
    let sum = |of: &dyn Fn(&RunRecord) -> Option<(u32, u32)>| {
        let sums = group.valid_runs().filter_map(of);
        let (lost, all) =
            sums.fold((0_u32, 0_u32), |(lost, all), (l, a)| (lost.saturating_add(l), all.saturating_add(a)));
        (lost > 0).then(|| format!("{lost} of {all}"))
    };
    match group.pattern.kind {
        Kind::Ping => sum(&|run| run.ping.as_ref().map(|ping| (ping.lost, ping.sent))),
        Kind::Interactive => sum(&|run| run.delay_ms.as_ref().map(|delay| (delay.late, delay.messages))),
        Kind::Iperf | Kind::Bulk => {
            let hung: Vec<f64> =
                group.valid_runs().filter(|run| !run.completed).filter_map(|run| run.hung_ms).collect();
            spread(&hung, duration)
        }
    }
}

/// A median with what stands beside it under it; `mark` stands before it.
pub(super) fn figure(found: Option<&Distribution>, show: fn(f64) -> String, mark: &str) -> Markup {
    html! {
        td {
            @if let Some(found) = found {
                (mark) (show(found.median))
                @let bounds = bounds(found, show);
                @if !bounds.is_empty() { small { (bounds) } }
            } @else { (NONE) }
        }
    }
}

fn css(Colour(r, g, b): Colour) -> String {
    format!("background:#{r:02x}{g:02x}{b:02x}")
}

/// The path's name behind its colour.
pub(super) fn path_name(view: &View, name: &str) -> Markup {
    html! { span.path title=(name) { span.swatch style=(css(view.paths.colour(name))) {} (name) } }
}

/// A bar of the path's colour, and the share in numbers.
pub(super) fn share_bar(view: &View, name: &str, share: f64) -> Markup {
    let part = if share.is_finite() { share.clamp(0.0, 1.0) * 100.0 } else { 0.0 };
    let style = format!("width:{part:.1}%;{}", css(view.paths.colour(name)));
    html! { span.bar { i style=(style) {} } (percent(share)) }
}

/// Who carried the bytes: a line per label and path.
pub(super) fn paths(view: &View) -> Markup {
    let any = view.set.document.runs.iter().any(|run| !run.paths.is_empty());
    html! {
        @if any {
            section {
                h2 { "Paths" }
                div.scroll { table {
                    thead { (path_titles(true)) }
                    tbody { @for group in &view.groups { (group_paths(view, group)) } }
                } }
                p.muted { "Share: median over the valid runs. The other columns are those of the run shown in the \
                           timeline." }
            }
        }
    }
}

/// The head of a table of paths.
pub(super) fn path_titles(with_label: bool) -> Markup {
    html! { tr {
        @if with_label { th { "transport" } }
        th { "path" } th { "share" } th.n { "arrived" } th.n { "sent" } th.n { "resent" } th.n { "control" } th.n { "RTT" } th.n { "MSS" }
        th.n { "path MTU" } th { "addresses" } th { "at the end" }
    } }
}

fn group_paths(view: &View, group: &GroupView) -> Markup {
    let paths = group.representative().map_or(&[][..], |run| run.paths.as_slice());
    html! {
        @for (index, path) in paths.iter().enumerate() {
            @let share = group.summary.and_then(|one| one.shares.get(&path.name)).copied().unwrap_or(path.share);
            tr {
                th scope="row" { @if index == 0 { (group.name()) } }
                (path_cells(view, path, share))
            }
        }
    }
}

/// The cells of one path.
pub(super) fn path_cells(view: &View, path: &PathRecord, share: f64) -> Markup {
    let or_none = |value: u32| if value == 0 { NONE.to_owned() } else { value.to_string() };
    html! {
        td { (path_name(view, &path.name)) }
        td style="white-space:nowrap" { (share_bar(view, &path.name, share)) }
        td.n { (bytes(path.bytes_delivered)) }
        td.n { (bytes(path.bytes_sent)) }
        td.n {
            (bytes(path.retransmitted_bytes))
            @if let Some(lost) = path.lost_bytes { small { (bytes(lost)) " lost" } }
        }
        td.n { (path.control_bytes.map_or(NONE.to_owned(), bytes)) }
        td.n { @if path.rtt_ms > 0.0 { (duration(path.rtt_ms)) } @else { (NONE) } }
        td.n { (or_none(path.mss_bytes)) }
        td.n { (or_none(path.pmtu_bytes)) }
        td { (path.local) " →" br; (path.remote) }
        td {
            (path.state)
            @if path.subflows > 1 { ", " (path.subflows) " subflows" }
            @if path.backup == Some(true) { ", backup" }
        }
    }
}

/// Expectations of the scenario.
pub(super) fn expectations(view: &View) -> Markup {
    let all = &view.set.document.summary.expectations;
    html! {
        @if !all.is_empty() {
            section {
                h2 { "Expectations" }
                table {
                    thead { tr { th { "held" } th { "expected" } th { "found" } } }
                    tbody { @for one in all { tr {
                        td { (mark(one.held)) } td { code { (one.key) " " (one.expected) } } td { (one.found) }
                    } } }
                }
            }
        }
    }
}

/// Links: requested against measured.
pub(super) fn links(view: &View) -> Markup {
    let links = &view.set.document.links;
    let one_way = links.iter().filter_map(|link| link.measured.as_ref()).any(|found| {
        found.forward_delay.is_some() || found.reverse_delay.is_some() || found.forward_loss.is_some()
    });
    html! {
        @if !links.is_empty() {
            section {
                h2 { "Links, as asked and as measured" }
                div.scroll { table {
                    thead { tr {
                        th { "link" } th { "between" } th { "engine" } th { "rate → / ←" } th { "RTT, idle" }
                        @if one_way { th { "delay one way, idle" } th { "loss, idle" } }
                        th { "MTU → / ←" } th { "queue, loss asked" } th { "within tolerance" }
                    } }
                    tbody { @for link in links { (link_row(view, link, one_way)) } }
                } }
                p.muted { "Rates count Ethernet frames without preamble and checksum; goodput is lower by the headers. \
                           Measured values are medians over the runs." @if one_way { " Loss is a mean." } }
            }
        }
    }
}

/// Loss each way.
fn measured_losses(measured: &LinkMeasurement) -> Option<String> {
    let of = |loss: Option<f64>| loss.map_or(NONE.to_owned(), percent);
    let (forward, reverse) = (measured.forward_loss, measured.reverse_loss);
    (forward.is_some() || reverse.is_some()).then(|| format!("→ {}, ← {}", of(forward), of(reverse)))
}

/// A link's row; `one_way` says whether there are columns for what only emulated links measure.
fn link_row(view: &View, link: &LinkRecord, one_way: bool) -> Markup {
    let of_link = || {
        let runs = view.set.document.runs.iter();
        runs.flat_map(|run| &run.links).filter(|one| one.name == link.name)
    };
    let (all, off) = (of_link().count(), of_link().filter(|one| !one.within_tolerance).count());
    let asked = &link.requested;
    let (forward, reverse) = (&asked.forward, &asked.reverse);
    html! {
        tr {
            th scope="row" {
                (path_name(view, &link.name))
                @if !link.variant.is_empty() { small { (variant_text(&link.variant)) } }
            }
            td { (link.ends[0]) " –" br; (link.ends[1]) }
            td { (link.engine) }
            (measured_cell(
                link.measured.as_ref().map(measured_rates).as_deref(),
                each_direction(forward.rate_bps, reverse.rate_bps, |rate| plain(&bit_rate(rate))).as_deref(),
            ))
            (measured_cell(
                link.measured.as_ref().map(|found| duration(found.rtt_ms)).as_deref(),
                asked.rtt_ms().map(|rtt| plain(&duration(rtt))).as_deref(),
            ))
            @if one_way { (measured_cell(
                link.measured
                    .as_ref()
                    .and_then(|found| one_way_delays(found.forward_delay.as_ref(), found.reverse_delay.as_ref()))
                    .as_deref(),
                each_direction(forward.delay_ms, reverse.delay_ms, |delay| plain(&duration(delay))).as_deref(),
            )) }
            (measured_cell(
                link.measured.as_ref().map(|found| format!("{} / {}", found.forward_mtu_bytes, found.reverse_mtu_bytes)).as_deref(),
                Some(&asked.mtu_bytes.to_string()),
            ))
            @if one_way { (measured_cell(
                link.measured.as_ref().and_then(measured_losses).as_deref(),
                each_direction(forward.loss, reverse.loss, percent).as_deref(),
            )) }
            td { (queue_and_loss(asked)) }
            td {
                @if all == 0 { "not measured" }
                @else if off == 0 { (mark(true)) " ± " (percent(link.tolerance)) }
                @else { (mark(false)) " off in " (off) " of " (all) " runs (± " (percent(link.tolerance)) ")" }
            }
        }
    }
}

/// What was measured, and under it what was asked.
fn measured_cell(measured: Option<&str>, asked: Option<&str>) -> Markup {
    html! {
        td {
            (measured.unwrap_or(NONE))
            small { "asked " (asked.unwrap_or("nothing")) }
        }
    }
}

fn measured_rates(measured: &LinkMeasurement) -> String {
    let one = |found: Option<u64>| found.map_or(NONE.to_owned(), bit_rate);
    format!("{} / {}", one(measured.forward_bps), one(measured.reverse_bps))
}

fn queue_and_loss(asked: &LinkFigures) -> String {
    let (forward, reverse) = (&asked.forward, &asked.reverse);
    let queue = each_direction(forward.queue_bytes, reverse.queue_bytes, bytes);
    let loss = each_direction(forward.loss, reverse.loss, percent).map(|loss| format!("loss {loss}"));
    let parts: Vec<String> = [queue, loss].into_iter().flatten().collect();
    if parts.is_empty() { NONE.to_owned() } else { parts.join(", ") }
}
