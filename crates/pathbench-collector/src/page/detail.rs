//! One result: its tables, and its interactive report.

use super::element::{name, table, time};
use super::results::networks;
use super::shell::{Answer, Shell, problem, secure};
use crate::chart::{Cell, DataTable};
use crate::reader::answer::{CountedAnswer, read, typed};
use crate::reader::query::{kind_name, mode_name, parse_id};
use crate::reader::{ResultReader, report as reports};
use crate::store::StoredResult;
use crate::viewer::{View, Viewer};
use axum::extract::{Path, State};
use maud::{Markup, html};
use pathbench_api::summary::{GroupSummary, Summary};
use pathbench_record::statistics::median;
use pathbench_record::text::{duration_ms, three_digits};
use pathbench_report::html as report_page;
use pathbench_report::quantity::{percent, rate};
use std::sync::Arc;

/// Columns of figures; Pathbench has fewer, and a summary can hold thousands.
const MOST_FIGURES: usize = 48;

pub(super) async fn page(
    State(reader): State<Arc<ResultReader>>,
    view: View,
    Path(text): Path<String>,
) -> Answer {
    let id = parse_id(&text).map_err(problem(view))?;
    let made = read(&reader, move |reader| {
        let result = reader.result(view.viewer, id)?;
        Ok(reader.summary(&result, view.viewer).map_or_else(
            || html! { p.notice { "The summary of this result is damaged." } },
            |summary| content(view, &result, &summary),
        ))
    });
    let made = made.await.map_err(problem(view))?;
    let title = format!("Result {id}");
    let content = html! { h1 { "Result" } (made) };
    Ok(Shell::new(view, &title).with_path("/results").page(&content))
}

fn content(view: View, result: &StoredResult, summary: &Summary) -> Markup {
    let base = format!("{}/results/{}", view.prefix, result.id);
    let api = format!("{}/v1/results/{}", view.prefix, result.id);
    html! {
        p.lead { (mode_name(summary.mode)) ", " (summary.scenario) ", " (time(summary.started_ms)) " UTC" }
        div.actions {
            @if result.raw.is_some() {
                a.button href=(format!("{base}/report")) { "Interactive report" }
                a href=(format!("{api}/raw")) { "Result directory (.tar.zst)" }
            } @else { span.muted { "Submitted without its raw part: there is no report." } }
            a href=(api) { "JSON" }
        }
        dl {
            dt { "Id" } dd { (result.id) }
            dt { "Server" } dd { (name(summary.server.as_ref())) }
            dt { "Networks" } dd { (networks(summary)) }
            dt { "Experiment" } dd { (name(summary.experiment.as_ref())) }
            dt { "Received" } dd { (time(result.received_ms)) " UTC" }
            dt { "Linux" } dd { (summary.kernel) " " (summary.machine) }
            dt { "Pathbench" } dd { (summary.version) }
            @if view.viewer == Viewer::Operator {
                dt { "Agent" } dd { a href=(format!("{}/results?agent={}", view.prefix, result.agent)) { (result.agent) } }
                dt { "Consent" } dd { (result.consent.name()) }
            }
        }
        (section("Figures", &groups(&summary.groups)))
        (section("Networks", &network_table(summary)))
        (section("Reachability", &reachability(summary)))
        (section("Handovers", &handovers(summary)))
        (section("Maximum delays, Multipath TCP and Multipath QUIC", &delay_pairs(summary)))
        (section("Flow completion times, IPv4 and IPv6", &family_pairs(summary)))
    }
}

fn section(title: &str, rows: &DataTable) -> Markup {
    html! { @if !rows.rows.is_empty() { section { h2 { (title) } (table(rows, title)) } } }
}

fn headed<const N: usize>(headings: [&str; N]) -> DataTable {
    DataTable::new(headings.map(|heading| (heading, heading)))
}

/// A figure in its unit, which its name ends with.
fn quantity(name: &str, value: f64) -> String {
    match () {
        () if name.ends_with("_ms") => duration_ms(value),
        () if name.ends_with("_mbps") => rate(value),
        () => three_digits(value),
    }
}

fn groups(groups: &[GroupSummary]) -> DataTable {
    let mut names: Vec<&str> = Vec::new();
    for name in groups.iter().flat_map(|group| group.figures.keys()) {
        if names.len() < MOST_FIGURES && !names.contains(&name.as_str()) {
            names.push(name.as_str());
        }
    }
    let has_variants = groups.iter().any(|group| group.variant.is_some());
    let mut table = headed(["Pattern", "Transport", "Valid runs", "Several paths"]);
    if has_variants {
        table.columns.insert(2, ("variant".to_owned(), "Variant".to_owned()));
    }
    table.columns.extend(names.iter().map(|name| ((*name).to_owned(), heading(name))));
    let row = |group: &GroupSummary| {
        let mut row = vec![Cell::text(group.pattern.as_str()), Cell::text(group.label.as_str())];
        if has_variants {
            row.push(Cell::from_name(group.variant.as_ref()));
        }
        let of = |count: u32| Cell::Quantity(count.into(), format!("{count} of {}", group.runs));
        row.extend([of(group.valid), of(group.multipath_used)]);
        let figure = |name: &&str| Cell::quantity(group.figure(name), |value| quantity(name, value));
        row.extend(names.iter().map(figure));
        row
    };
    let mut sorted: Vec<&GroupSummary> = groups.iter().collect();
    sorted.sort_by(|a, b| a.pattern.cmp(&b.pattern));
    table.rows = sorted.into_iter().map(row).collect();
    table
}

/// `goodput` of `goodput_mbps`.
fn heading(name: &str) -> String {
    let name = name.strip_suffix("_ms").or(name.strip_suffix("_mbps")).unwrap_or(name);
    name.replace('_', " ")
}

fn network_table(summary: &Summary) -> DataTable {
    let mut table = headed(["Path", "Kind", "Operator", "Prefix", "Median share"]);
    for network in &summary.networks {
        let multipath = summary.groups.iter().filter(|group| group.multipath_used > 0);
        let shares: Vec<f64> =
            multipath.filter_map(|group| group.shares.get(&network.path).copied()).collect();
        table.rows.push(vec![
            Cell::text(network.path.as_str()),
            Cell::text(kind_name(network.kind)),
            Cell::from_name(network.operator.as_ref()),
            Cell::from_name(network.prefix.as_ref()),
            Cell::quantity(median(&shares), percent),
        ]);
    }
    table
}

fn reachability(summary: &Summary) -> DataTable {
    let mut table = headed(["Transport", "IP version", "Port", "Reachable", "RTT"]);
    for one in &summary.reachability {
        let outcome = match (one.reachable, one.error_kind) {
            (true, _) => "yes".to_owned(),
            (false, Some(kind)) => serde_json::to_value(kind)
                .ok()
                .and_then(|kind| kind.as_str().map(|kind| format!("no: {}", kind.replace('-', " "))))
                .unwrap_or_else(|| "no".to_owned()),
            (false, None) => "no".to_owned(),
        };
        table.rows.push(vec![
            Cell::text(one.transport.name()),
            Cell::text(one.family.name()),
            Cell::text(one.port.to_string()),
            Cell::Text(outcome),
            Cell::quantity(one.rtt_ms, duration_ms),
        ]);
    }
    table
}

fn handovers(summary: &Summary) -> DataTable {
    let mut table = headed(["Transport", "Reason", "Duration, last sent", "Duration, last received"]);
    for one in &summary.handovers {
        table.rows.push(vec![
            Cell::text(one.transport.name()),
            Cell::text(one.reason.name().replace('-', " ")),
            Cell::quantity(one.duration_sent_ms, duration_ms),
            Cell::quantity(one.duration_received_ms, duration_ms),
        ]);
    }
    table
}

fn pair(one: f64, other: f64) -> [Cell; 3] {
    let time = |ms| Cell::Quantity(ms, duration_ms(ms));
    [time(one), time(other), Cell::quantity((other > 0.0).then(|| one / other), three_digits)]
}

fn delay_pairs(summary: &Summary) -> DataTable {
    let mut table = headed(["Direction", "mptcp", "mpquic", "mptcp ÷ mpquic"]);
    table.rows.extend(summary.delay_pairs.iter().map(|one| {
        [Cell::text(one.direction.name())].into_iter().chain(pair(one.mptcp_ms, one.mpquic_ms)).collect()
    }));
    table
}

fn family_pairs(summary: &Summary) -> DataTable {
    let mut table = headed(["Transport", "IPv4", "IPv6", "IPv4 ÷ IPv6"]);
    table.rows.extend(summary.family_pairs.iter().map(|one| {
        [Cell::text(one.transport.name())].into_iter().chain(pair(one.ipv4_ms, one.ipv6_ms)).collect()
    }));
    table
}

/// The report is a page of its own, with its own scripts: their hashes are in its policy.
pub(super) async fn report(
    State(reader): State<Arc<ResultReader>>,
    view: View,
    Path(text): Path<String>,
) -> Answer {
    let id = parse_id(&text).map_err(problem(view))?;
    let page = reports::page(&reader, view.viewer, id).await.map_err(problem(view))?;
    let mut response = typed("text/html; charset=utf-8", page);
    response.extensions_mut().insert(CountedAnswer);
    secure(response.headers_mut(), &format!("{}; frame-ancestors 'none'", report_page::policy()));
    Ok(response)
}
