//! Filters as query strings, in both directions: a page with a filter has a permanent address.

use crate::columns::Filter;
use crate::refusal::Refusal;
use crate::viewer::Viewer;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use pathbench_api::Uuid;
use pathbench_api::summary::{Mode, NetworkKind};
use pathbench_record::time::{rfc3339_from_unix, unix_from_rfc3339};
use std::fmt::Write as _;

/// Bytes of a value.
const MOST_BYTES: usize = 128;

/// Fields; more are an error.
const MOST_FIELDS: usize = 32;

/// The fields of a query string, in order; empty ones are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fields(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Fields {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let fields = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Query(mut fields) = fields.map_err(|_| Refusal::bad_request("the query string is malformed"))?;
        fields.retain(|(_, value)| !value.is_empty());
        if fields.len() > MOST_FIELDS {
            return Err(Refusal::bad_request(format!("more than {MOST_FIELDS} fields in the query string")));
        }
        if let Some((name, _)) = fields.iter().find(|(_, value)| value.len() > MOST_BYTES) {
            let name: String = name.chars().take(40).collect();
            return Err(Refusal::bad_request(format!("`{name}` has more than {MOST_BYTES} bytes")));
        }
        Ok(Self(fields))
    }
}

impl Fields {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    fn parsed<T>(&self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Refusal> {
        self.get(name)
            .map(|value| {
                parse(value).ok_or_else(|| Refusal::bad_request(format!("`{name}` has no such value")))
            })
            .transpose()
    }

    /// The sequence number before which a page begins.
    pub fn cursor(&self) -> Result<Option<u64>, Refusal> {
        self.parsed("cursor", |value| value.parse().ok())
    }

    /// From 1 to `most`.
    pub fn limit(&self, usual: usize, most: usize) -> Result<usize, Refusal> {
        let limit = self.parsed("limit", |value| value.parse().ok().filter(|limit| *limit > 0))?;
        Ok(limit.unwrap_or(usual).min(most))
    }

    pub fn filter(&self, viewer: Viewer) -> Result<Filter, Refusal> {
        let mut transports = Vec::new();
        for (_, value) in self.0.iter().filter(|(name, _)| name == "transport") {
            transports.push(value.parse().map_err(|error| Refusal::bad_request(format!("{error}")))?);
        }
        transports.sort_unstable();
        transports.dedup();
        Ok(Filter {
            transports,
            server: self.text("server"),
            kind: self.parsed("network", |value| one_of(&crate::facts::KINDS, value, kind_name))?,
            operator: self.text("operator"),
            experiment: self.text("experiment"),
            scenario: self.text("scenario"),
            mode: self.parsed("mode", |value| one_of(&crate::facts::MODES, value, mode_name))?,
            agent: match viewer {
                Viewer::Everybody => None,
                Viewer::Operator => self.parsed("agent", |value| value.parse().ok())?,
            },
            since_s: self.parsed("since", |value| time_s(value, 0))?,
            until_s: self.parsed("until", |value| time_s(value, 86_399))?,
            text: self.text("q"),
            ..Filter::new(viewer)
        })
    }
}

/// The id in the path of a result.
pub fn parse_id(text: &str) -> Result<Uuid, Refusal> {
    Uuid::parse_str(text).map_err(|_| Refusal::not_found("no such result"))
}

pub fn kind_name(kind: NetworkKind) -> &'static str {
    kind.into()
}

pub fn mode_name(mode: Mode) -> &'static str {
    mode.into()
}

fn one_of<T: Copy>(all: &[T], name: &str, name_of: fn(T) -> &'static str) -> Option<T> {
    all.iter().copied().find(|one| name_of(*one) == name)
}

/// `2026-10-25`, `into_day` seconds after midnight UTC, until 2099; or Unix time in seconds since 1973.
fn time_s(text: &str, into_day: u32) -> Option<u32> {
    // `parse` alone accepts a sign.
    if (9..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let midnight_s = unix_from_rfc3339(&format!("{text}T00:00:00Z")).filter(|_| text < "2100")?;
    u32::try_from(midnight_s).ok()?.checked_add(into_day)
}

/// The date of a Unix time in seconds.
pub fn date(at_s: u32) -> String {
    rfc3339_from_unix(at_s.into()).chars().take(10).collect()
}

/// The names in a filter, as fields of its query string.
pub fn names_of_filter(filter: &Filter) -> impl Iterator<Item = (&'static str, String)> {
    let fields = [
        ("server", filter.server.clone()),
        ("network", filter.kind.map(|kind| kind_name(kind).to_owned())),
        ("operator", filter.operator.clone()),
        ("experiment", filter.experiment.clone()),
        ("scenario", filter.scenario.clone()),
        ("mode", filter.mode.map(|mode| mode_name(mode).to_owned())),
        ("agent", filter.agent.map(|agent| agent.to_string())),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// The query string of a filter, without `?`; the same filter has the same string.
pub fn of_filter(filter: &Filter) -> String {
    let mut fields: Vec<(&str, String)> =
        filter.transports.iter().map(|one| ("transport", one.name().to_owned())).collect();
    fields.extend(names_of_filter(filter));
    let end = |at: u32, of_day: u32| if at % 86_400 == of_day { date(at) } else { at.to_string() };
    fields.extend(filter.since_s.map(|at| ("since", end(at, 0))));
    fields.extend(filter.until_s.map(|at| ("until", end(at, 86_399))));
    fields.extend(filter.text.clone().map(|text| ("q", text)));
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    fields.join("&")
}

/// A value of a query string: all but unreserved characters (RFC 3986, section 2.3) as percent codes.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
