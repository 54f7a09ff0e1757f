//! Search and pages of results.

use super::element::{name, time};
use super::filters::{form, suffix};
use super::shell::{Answer, Shell, problem};
use crate::chart::table::grouped;
use crate::reader::ResultReader;
use crate::reader::answer::read;
use crate::reader::query::{Fields, kind_name, mode_name, of_filter};
use crate::refusal::Refusal;
use crate::store::StoredResult;
use crate::viewer::{View, Viewer};
use axum::extract::State;
use maud::{Markup, html};
use pathbench_api::summary::{Best, Summary};
use pathbench_record::transport::Transport;
use pathbench_report::quantity::rate;
use std::collections::BTreeSet;
use std::sync::Arc;

const LENGTH: usize = 25;
const MOST: usize = 100;

/// Operators of a result in a line; a host has a few networks.
const MOST_OPERATORS: usize = 8;

pub(super) async fn page(
    State(reader): State<Arc<ResultReader>>,
    view: View,
    fields: Result<Fields, Refusal>,
) -> Answer {
    let fields = fields.map_err(problem(view))?;
    let filter = fields.filter(view.viewer).map_err(problem(view))?;
    let position = fields.cursor().and_then(|before| Ok((before, fields.limit(LENGTH, MOST)?)));
    let position = position.map_err(problem(view))?;
    let of_work = filter.clone();
    let made = read(&reader, move |reader| {
        let (all, sequences, next) = reader.newest(&of_work, position);
        let mut rows = Vec::with_capacity(sequences.len());
        reader.each(of_work.viewer, &sequences, |one| rows.push(row(reader, view, one)))?;
        Ok((all, rows, next, reader.options(of_work.viewer)))
    });
    let (all, rows, next, options) = made.await.map_err(problem(view))?;
    let action = format!("{}/results", view.prefix);
    let query = of_filter(&filter);
    let next = next.map(|next| {
        let query = if query.is_empty() { String::new() } else { format!("&{query}") };
        format!("{action}?cursor={next}{query}")
    });
    let content = html! {
        h1 { "Results" }
        form.search method="get" action=(action) role="search" {
            label { "Text in the names of servers, operators, experiments, scenarios and kernels"
                input type="search" name="q" maxlength="64" value=[filter.text.as_deref()]; }
            button type="submit" { "Search" }
        }
        (form(view, &filter, &options, &action))
        p { (grouped(all)) @if all == 1 { " result" } @else { " results" } @if position.0.is_some() { "; continued" } }
        (list(view, &rows))
        div.actions {
            @if position.0.is_some() { a.button href=(format!("{action}{}", suffix(&filter))) { "Newest" } }
            @if let Some(next) = next { a.button rel="next" href=(next) { "Older" } }
            span.muted {
                "Files (the newest 2,000 results): "
                a href=(format!("{}/v1/results.csv{}", view.prefix, suffix(&filter))) { "CSV" } " · "
                a href=(format!("{}/v1/results.parquet{}", view.prefix, suffix(&filter))) { "Parquet" } " · "
                a href=(format!("{}/v1/results{}", view.prefix, suffix(&filter))) { "JSON" }
            }
        }
    };
    Ok(Shell::new(view, "Results").with_path("/results").page(&content))
}

fn list(view: View, rows: &[Markup]) -> Markup {
    html! {
        @if !rows.is_empty() { div.scroll role="group" tabindex="0" aria-label="Results" { table {
            caption.hidden { "Results, the newest first" }
            thead { tr {
                @for heading in ["Started (UTC)", "Mode", "Scenario", "Server", "Networks"] {
                    th scope="col" { (heading) }
                }
                @for heading in ["tcp", "mptcp", "quic", "mpquic"] { th.n scope="col" { (heading) } }
                @if view.viewer == Viewer::Operator { th scope="col" { "Consent" } }
            } }
            tbody { @for one in rows { (one) } }
        } } p.muted { "Goodput of the fastest pattern, on the best path." } }
    }
}

fn row(reader: &ResultReader, view: View, result: &StoredResult) -> Markup {
    let address = format!("{}/results/{}", view.prefix, result.id);
    let Some(summary) = reader.summary(result, view.viewer) else {
        return html! { tr { th scope="row" { a href=(address) { (result.id) } } td colspan="9" { "unreadable" } } };
    };
    html! {
        tr {
            th scope="row" { a href=(address) { (time(summary.started_ms)) } }
            td { (mode_name(summary.mode)) }
            td { (summary.scenario) }
            td { (name(summary.server.as_ref())) }
            td.wrap { (networks(&summary)) }
            @for transport in Transport::ALL { td.n { (goodput(&summary, transport)) } }
            @if view.viewer == Viewer::Operator { td { (result.consent.name()) } }
        }
    }
}

pub(super) fn networks(summary: &Summary) -> String {
    let networks = || summary.networks.iter();
    let kinds: BTreeSet<&str> = networks().map(|one| kind_name(one.kind)).collect();
    let operators: BTreeSet<&str> =
        networks().filter_map(|one| Some(one.operator.as_ref()?.as_str())).take(MOST_OPERATORS).collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(" + ");
    let operators = operators.into_iter().collect::<Vec<_>>().join(", ");
    if operators.is_empty() { kinds } else { format!("{kinds} ({operators})") }
}

fn goodput(summary: &Summary, transport: Transport) -> String {
    let patterns: BTreeSet<&str> = summary.groups.iter().map(|group| group.pattern.as_str()).collect();
    let of = |pattern: &str| summary.figure(transport, pattern, "goodput_mbps", Best::Highest);
    let best = patterns.into_iter().filter_map(of).reduce(f64::max);
    best.map_or_else(|| "–".to_owned(), rate)
}
