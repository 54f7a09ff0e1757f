//! The front page: the gain of multipath, running measurements, and the main charts.

use super::element;
use super::filters::figure;
use super::live;
use super::shell::{Answer, Shell, problem};
use crate::chart::table::grouped;
use crate::chart::{Cell, Chart, FRONT};
use crate::columns::Filter;
use crate::reader::ResultReader;
use crate::reader::answer::read;
use crate::reader::live::LiveAnswer;
use crate::viewer::{View, Viewer};
use axum::extract::State;
use maud::{Markup, html};
use std::sync::Arc;

struct Front {
    charts: Vec<Arc<Chart>>,
    usage: Option<Arc<Chart>>,
    live: LiveAnswer,
}

pub(super) async fn page(State(reader): State<Arc<ResultReader>>, view: View) -> Answer {
    let filter = Filter::new(view.viewer);
    let of_work = filter.clone();
    let front = read(&reader, move |reader| {
        let names: Vec<&str> = FRONT.into_iter().chain(["usage"]).collect();
        let mut charts = reader.charts(&of_work, &names);
        let usage = charts.pop();
        Ok(Front { charts, usage, live: reader.live(view.viewer)? })
    });
    let front = front.await.map_err(problem(view))?;
    let gain = front.charts.first();
    let content = html! {
        h1 { "Gain of a second path" }
        (verdict(gain.map(AsRef::as_ref)))
        (tiles(view, &front))
        (running(view, &front.live))
        div.grid { @for chart in &front.charts { (figure(view, chart, &filter, true)) } }
        p { a.button href=(format!("{}/charts", view.prefix)) { "All charts" } }
    };
    Ok(Shell::new(view, "Gain of a second path").page(&content))
}

/// The gains in a sentence and a table; the first chart's table has them.
fn verdict(gain: Option<&Chart>) -> Markup {
    let rows = gain.map_or(&[][..], |chart| chart.table.rows.as_slice());
    html! {
        @if rows.is_empty() {
            p.verdict { "No result has compared a multipath transport with its single-path one yet." }
        }
        @if let Some(chart) = gain.filter(|_| !rows.is_empty()) {
            p.verdict { "Goodput over several paths ÷ goodput over the best single path" }
            (element::table(&chart.table, "gains"))
            p.muted {
                "Medians of one vote per agent, with 95 % intervals from 6 agents on. Only results count in which each path was \
                 measured alone and all runs used the second path; the others are left out."
            }
        }
    }
}

fn tiles(view: View, front: &Front) -> Markup {
    let rows = front.usage.as_ref().map_or(&[][..], |chart| chart.table.rows.as_slice());
    let shown = |row: &[Cell]| row.get(1).map_or_else(String::new, Cell::shown);
    html! {
        ul.tiles {
            @for row in rows.iter().take(5) {
                li { b { (shown(row)) } span { (row.first().map_or_else(String::new, Cell::shown)) } }
            }
            li { b { (grouped(front.live.running.len() as u64)) } span { a href=(format!("{}/live", view.prefix)) { "running now" } } }
        }
        @if view.viewer == Viewer::Everybody {
            p.muted { "Public results only, in the anonymous form." }
        }
    }
}

fn running(view: View, live: &LiveAnswer) -> Markup {
    html! {
        @if !live.running.is_empty() {
            section {
                h2 { "Running now" }
                (live::table(&live.running[..live.running.len().min(5)], None))
                @if live.running.len() > 5 { p { a href=(format!("{}/live", view.prefix)) { "All running measurements" } } }
            }
        }
    }
}
