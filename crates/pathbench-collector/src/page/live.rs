//! Running measurements. A script updates them every two seconds.

use super::element::{name, time};
use super::shell::{Answer, Shell, problem};
use crate::reader::ResultReader;
use crate::reader::answer::read;
use crate::viewer::View;
use axum::extract::State;
use maud::{Markup, html};
use pathbench_api::live::LiveReport;
use pathbench_report::quantity::rate;
use std::sync::Arc;

pub(super) async fn page(State(reader): State<Arc<ResultReader>>, view: View) -> Answer {
    let live = read(&reader, move |reader| Ok(reader.live(view.viewer)?)).await.map_err(problem(view))?;
    let content = html! {
        h1 { "Running now" }
        p.muted #live-note role="status" { "As of " (time(live.now_ms)) " UTC; reload to update." }
        (table(&live.running, Some(&format!("{}/v1/live", view.prefix))))
    };
    Ok(Shell::new(view, "Running now").with_path("/live").with_live().page(&content))
}

/// With an address, the script updates the rows.
pub(super) fn table(running: &[LiveReport], address: Option<&str>) -> Markup {
    html! {
        div.scroll role="group" tabindex="0" aria-label="Running measurements" {
            table {
                caption.hidden { "Running measurements" }
                thead { tr {
                    @for heading in ["Agent", "Experiment", "Server", "Run"] { th scope="col" { (heading) } }
                    th.n scope="col" { "Runs" }
                    th scope="col" { "Goodput of paths" }
                } }
                tbody id=[address.map(|_| "live-rows")] data-address=[address] {
                    @if running.is_empty() { tr { td colspan="6" { "No measurement is running." } } }
                    @for one in running { (row(one)) }
                }
            }
        }
    }
}

fn row(one: &LiveReport) -> Markup {
    html! {
        tr {
            th scope="row" { (one.agent) }
            td { (name(one.experiment.as_ref())) }
            td { (name(one.server.as_ref())) }
            td {
                (one.transport.map_or("–", |transport| transport.name()))
                @if let Some(pattern) = &one.pattern { ", " (pattern) }
            }
            td.n { (one.runs_done) " of " (one.runs_planned) }
            td { ul.live-paths { @for path in &one.paths { li { (path.name) ": " (rate(path.goodput_mbps)) } } } }
        }
    }
}
