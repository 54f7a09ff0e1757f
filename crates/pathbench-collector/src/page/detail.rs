//! One result: its tables, and its interactive report.

use super::element::{table, time};
use super::results::networks;
use super::shell::{Answer, Problem, Shell, problem, secure};
use crate::chart::{Cell, DataTable};
use crate::reader::answer::{read, typed};
use crate::reader::query::{kind_name, mode_name};
use crate::reader::rows::summary;
use crate::reader::{ResultReader, report as reports};
use crate::refusal::Refusal;
use crate::store::StoredResult;
use crate::viewer::{View, Viewer};
use axum::extract::{Path, State};
use maud::{Markup, html};
use pathbench_api::Uuid;
use pathbench_api::summary::{GroupSummary, Summary};
use pathbench_record::statistics::median;
use pathbench_record::text::{duration_ms, three_digits};
use pathbench_report::html as report_page;
use pathbench_report::quantity::{percent, rate};
use std::sync::Arc;

fn id(view: View, text: &str) -> Result<Uuid, Problem> {
    Uuid::parse_str(text).map_err(|_| Problem(view, Refusal::not_found("no such result")))
}

pub(super) async fn page(
    State(reader): State<Arc<ResultReader>>,
    view: View,
    Path(text): Path<String>,
) -> Answer {
    let id = id(view, &text)?;
    let found =
        read(&reader, move |reader| Ok(reader.result(view.viewer, id)?)).await.map_err(problem(view))?;
    let missing = || Problem(view, Refusal::not_found("no such result"));
    let result = found.ok_or_else(missing)?;
    let title = format!("Result {id}");
    let content = html! {
        h1 { "Result" }
        @match summary(&result, view.viewer) {
            Some(summary) => { (content(view, &result, &summary)) }
            None => p.notice { "The summary of this result is damaged." }
        }
    };
    Ok(Shell::new(view, &title).with_path("/results").page(&content))
}

fn content(view: View, result: &StoredResult, summary: &Summary) -> Markup {
    let base = format!("{}/results/{}", view.prefix, result.id);
    let api = format!("{}/v1/results/{}", view.prefix, result.id);
    let name = |name: &Option<pathbench_api::name::Name>| {
        name.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string)
    };
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
            dt { "Server" } dd { (name(&summary.server)) }
            dt { "Networks" } dd { (networks(summary)) }
            dt { "Experiment" } dd { (name(&summary.experiment)) }
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
        if !names.contains(&name.as_str()) {
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
            row.push(group.variant.as_ref().map_or(Cell::Absent, |one| Cell::text(one.as_str())));
        }
        let of = |count: u32| Cell::Quantity(count.into(), format!("{count} of {}", group.runs));
        row.extend([of(group.valid), of(group.multipath_used)]);
        row.extend(names.iter().map(|name| {
            let found = group.figures.iter().find(|(one, _)| one.as_str() == *name);
            found.map_or(Cell::Absent, |(_, value)| Cell::Quantity(*value, quantity(name, *value)))
        }));
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
        let text = |name: &Option<pathbench_api::name::Name>| {
            name.as_ref().map_or(Cell::Absent, |name| Cell::text(name.as_str()))
        };
        let multipath = summary.groups.iter().filter(|group| group.multipath_used > 0);
        let shares: Vec<f64> =
            multipath.filter_map(|group| group.shares.get(&network.path).copied()).collect();
        let share = median(&shares).map_or(Cell::Absent, |part| Cell::Quantity(part, percent(part)));
        table.rows.push(vec![
            Cell::text(network.path.as_str()),
            Cell::text(kind_name(network.kind)),
            text(&network.operator),
            text(&network.prefix),
            share,
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
            one.rtt_ms.map_or(Cell::Absent, |rtt| Cell::Quantity(rtt, duration_ms(rtt))),
        ]);
    }
    table
}

fn handovers(summary: &Summary) -> DataTable {
    let mut table = headed(["Transport", "Reason", "Duration, last sent", "Duration, last received"]);
    let duration = |ms: Option<f64>| ms.map_or(Cell::Absent, |ms| Cell::Quantity(ms, duration_ms(ms)));
    for one in &summary.handovers {
        table.rows.push(vec![
            Cell::text(one.transport.name()),
            Cell::text(one.reason.name().replace('-', " ")),
            duration(one.duration_sent_ms),
            duration(one.duration_received_ms),
        ]);
    }
    table
}

fn pair(one: f64, other: f64) -> [Cell; 3] {
    let ratio =
        if other > 0.0 { Cell::Quantity(one / other, three_digits(one / other)) } else { Cell::Absent };
    let time = |ms| Cell::Quantity(ms, duration_ms(ms));
    [time(one), time(other), ratio]
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
    let id = id(view, &text)?;
    let page = reports::page(&reader, view.viewer, id).await.map_err(problem(view))?;
    let mut response = typed("text/html; charset=utf-8", page);
    secure(response.headers_mut(), &format!("{}; frame-ancestors 'none'", report_page::policy()));
    Ok(response)
}
