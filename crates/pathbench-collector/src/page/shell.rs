//! The frame of every page: head, navigation, footer and security headers.

use super::assets;
use crate::reader::answer::typed;
use crate::refusal::Refusal;
use crate::viewer::{View, Viewer};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use pathbench_record::text::is_deceptive;

/// No page has inline scripts or styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// A problem as a page.
pub(super) struct Problem(pub(super) View, pub(super) Refusal);

pub(super) type Answer = Result<Response, Problem>;

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
pub(super) fn problem(view: View) -> impl Fn(Refusal) -> Problem {
    move |failure| Problem(view, failure)
}

pub(super) struct Shell<'a> {
    view: View,
    title: &'a str,
    /// Path of the entry of the navigation.
    path: &'static str,
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
    pub(super) const fn new(view: View, title: &'a str) -> Self {
        Self { view, title, path: "", has_live: false }
    }

    pub(super) const fn with_path(self, path: &'static str) -> Self {
        Self { path, ..self }
    }

    pub(super) const fn with_live(self) -> Self {
        Self { has_live: true, ..self }
    }

    pub(super) fn page(&self, content: &Markup) -> Response {
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
                                    aria-current=[(path == self.path).then_some("page")] { (name) }
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

pub(super) fn secure(headers: &mut HeaderMap, policy: &str) {
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
