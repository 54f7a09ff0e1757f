//! The pages of the dashboard: HTML from the server, readable without scripts.

mod about;
mod assets;
mod charts;
mod detail;
mod filters;
mod front;
mod live;
mod results;
mod servers;

use crate::chart::{Cell, Table};
use crate::reader::answer::typed;
use crate::reader::{Reader, View};
use crate::refusal::Refusal;
use crate::viewer::Viewer;
use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::{DOCTYPE, Markup, html};
use pathbench_record::text::is_deceptive;
use pathbench_record::time::rfc3339_from_unix;
use std::sync::Arc;

/// No page has inline scripts or styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The pages, and what they load.
pub fn routes() -> Router<Arc<Reader>> {
    Router::new()
        .route("/", get(front::page))
        .route("/charts", get(charts::index))
        .route("/charts/{name}", get(charts::one))
        .route("/results", get(results::page))
        .route("/results/{id}", get(detail::page))
        .route("/results/{id}/report", get(detail::report))
        .route("/live", get(live::page))
        .route("/servers", get(servers::page))
        .route("/about", get(about::page))
        .route("/assets/{name}", get(assets::asset))
        .route("/favicon.ico", get(assets::icon))
}

/// A problem as a page.
pub(super) struct Problem(View, Refusal);

type Answer = Result<Response, Problem>;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self(view, failure) = self;
        let title = failure.status().canonical_reason().unwrap_or("Problem");
        let content = html! {
            h1 { (title) }
            p.lead { (failure.status().as_u16()) ": " (failure.error()) "." }
            p { a href=(view.home()) { "To the front page" } }
        };
        let mut response = Shell::new(view, title).page(&content);
        *response.status_mut() = failure.status();
        failure.complete(&mut response);
        response
    }
}

/// For `map_err`.
fn problem(view: View) -> impl Fn(Refusal) -> Problem {
    move |failure| Problem(view, failure)
}

struct Shell<'a> {
    view: View,
    title: &'a str,
    /// Path of the entry of the navigation.
    place: &'static str,
    has_live: bool,
}

const NAVIGATION: [(&str, &str); 5] = [
    ("/charts", "Charts"),
    ("/results", "Results"),
    ("/live", "Live"),
    ("/servers", "Servers"),
    ("/about", "About"),
];

impl<'a> Shell<'a> {
    const fn new(view: View, title: &'a str) -> Self {
        Self { view, title, place: "", has_live: false }
    }

    const fn at(self, place: &'static str) -> Self {
        Self { place, ..self }
    }

    const fn with_live(self) -> Self {
        Self { has_live: true, ..self }
    }

    fn page(&self, content: &Markup) -> Response {
        let prefix = self.view.prefix;
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (self.title) " – Pathbench" }
                    link rel="icon" type="image/svg+xml" href=(format!("{prefix}/assets/{}", assets::ICON.name));
                    link rel="stylesheet" href=(format!("{prefix}/assets/{}", assets::STYLE.name));
                    @if self.has_live {
                        script src=(format!("{prefix}/assets/{}", assets::LIVE.name)) defer {}
                    }
                }
                body {
                    a.skip href="#content" { "Skip to the content" }
                    header.site { div {
                        a.home href=(self.view.home()) { "Pathbench" }
                        nav aria-label="Pages" {
                            @for (path, name) in NAVIGATION {
                                a href=(format!("{prefix}{path}"))
                                    aria-current=[(path == self.place).then_some("page")] { (name) }
                            }
                        }
                        @if self.view.viewer == Viewer::Operator { span.viewer { "Operator: all results" } }
                    } }
                    main #content tabindex="-1" { (content) }
                    footer { p {
                        "Measured with Pathbench. "
                        a href="/v1/privacy" { "Privacy" } " · "
                        a href=(format!("{prefix}/about")) { "What the figures mean" }
                    } }
                }
            }
        };
        answer(harmless(markup.into_string()))
    }
}

fn answer(page: String) -> Response {
    let mut response = typed("text/html; charset=utf-8", page);
    secure(response.headers_mut(), POLICY);
    response
}

fn secure(headers: &mut HeaderMap, policy: &str) {
    if let Ok(policy) = HeaderValue::from_str(policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
}

/// Without control characters and characters that change the reading direction.
fn harmless(page: String) -> String {
    let is_bad = |character: char| character != '\n' && is_deceptive(character);
    if page.contains(is_bad) { page.replace(is_bad, "\u{fffd}") } else { page }
}

/// A table in an area that the keyboard can scroll.
fn table(table: &Table, name: &str) -> Markup {
    let is_number = |index: usize| table.rows.iter().all(|row| row.get(index).is_none_or(Cell::is_number));
    html! {
        div.scroll role="group" tabindex="0" aria-label=(name) {
            table {
                caption.hidden { (name) }
                thead { tr { @for (index, (_, heading)) in table.columns.iter().enumerate() {
                    th class=[is_number(index).then_some("n")] scope="col" { (heading) }
                } } }
                tbody { @for row in &table.rows { tr { @for (index, cell) in row.iter().enumerate() {
                    @if index == 0 { th scope="row" { (cell.shown()) } }
                    @else { td class=[is_number(index).then_some("n")] { (cell.shown()) } }
                } } } }
            }
        }
    }
}

/// `2026-10-25 14:05` of a Unix time in milliseconds.
fn time(ms: u64) -> String {
    let text = rfc3339_from_unix(i64::try_from(ms / 1000).unwrap_or(i64::MAX).min(253_402_300_799));
    text.chars().take(16).map(|character| if character == 'T' { ' ' } else { character }).collect()
}
