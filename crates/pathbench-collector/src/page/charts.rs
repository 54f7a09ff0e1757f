//! All charts, and one chart with its filter.

use super::filters::{figure, form, suffix};
use super::shell::{Answer, Problem, Shell, problem};
use crate::chart;
use crate::reader::ResultReader;
use crate::reader::answer::read;
use crate::reader::query::Fields;
use crate::refusal::Refusal;
use crate::viewer::View;
use axum::extract::{Path, State};
use maud::html;
use std::sync::Arc;

/// Charts below one heading.
const SECTIONS: [(&str, &[&str]); 4] = [
    (
        "Gain of multipath",
        &[
            "gain-by-direction",
            "gain",
            "gain-by-network",
            "gain-by-operator",
            "gain-by-server",
            "gain-over-time",
            "goodput",
            "stall",
            "completion-time",
            "max-delay",
            "max-delay-by-network",
            "delay-under-load",
            "rpm",
            "goodput-over-time",
        ],
    ),
    ("Stable networks", &["ipv6-reachability", "ipv4-ipv6-completion", "mptcp-mpquic"]),
    (
        "Mobile runs",
        &[
            "second-path-reasons",
            "handover-duration",
            "mobile-max-delay",
            "max-delay-ratio",
            "max-delay-scatter",
        ],
    ),
    ("Usage", &["usage", "usage-per-day", "usage-by-server", "usage-by-operator", "usage-by-network"]),
];

pub(super) async fn index(
    State(reader): State<Arc<ResultReader>>,
    view: View,
    fields: Result<Fields, Refusal>,
) -> Answer {
    let fields = fields.map_err(problem(view))?;
    let filter = fields.filter(view.viewer).map_err(problem(view))?;
    let viewer = filter.viewer;
    let options = read(&reader, move |reader| Ok(reader.options(viewer))).await.map_err(problem(view))?;
    let (prefix, suffix) = (view.prefix, suffix(&filter));
    let content = html! {
        h1 { "Charts" }
        (form(view, &filter, &options, &format!("{prefix}/charts")))
        @for (heading, names) in SECTIONS {
            section {
                h2 { (heading) }
                // Each is drawn when it comes into view: all of them at once would keep the first one waiting.
                div.grid { @for (name, title) in chart::all().filter(|(name, _)| names.contains(name)) {
                    figure {
                        a href=(format!("{prefix}/charts/{name}{suffix}")) {
                            img loading="lazy" src=(format!("{prefix}/v1/charts/{name}.svg{suffix}")) alt=(title);
                        }
                    }
                } }
            }
        }
    };
    Ok(Shell::new(view, "Charts").with_path("/charts").page(&content))
}

pub(super) async fn one(
    State(reader): State<Arc<ResultReader>>,
    view: View,
    Path(name): Path<String>,
    fields: Result<Fields, Refusal>,
) -> Answer {
    let fields = fields.map_err(problem(view))?;
    let filter = fields.filter(view.viewer).map_err(problem(view))?;
    let of_work = filter.clone();
    let made = read(&reader, move |reader| {
        let chart = reader.chart(&of_work, &name);
        Ok((chart, reader.options(of_work.viewer)))
    });
    let (chart, options) = made.await.map_err(problem(view))?;
    let chart = chart.ok_or_else(|| Problem(view, Refusal::not_found("no such chart")))?;
    let action = format!("{}/charts/{}", view.prefix, chart.name);
    let all = suffix(&filter);
    let content = html! {
        h1 { (chart.title()) }
        (form(view, &filter, &options, &action))
        (figure(view, &chart, &filter, false))
        p {
            a href=(format!("{}/charts{all}", view.prefix)) { "All charts of this filter" } " · "
            a href=(format!("{}/results{all}", view.prefix)) { "The results of this filter" }
        }
    };
    Ok(Shell::new(view, chart.title()).with_path("/charts").page(&content))
}
