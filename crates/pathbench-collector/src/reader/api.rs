//! The read-only API.

use super::answer::{CountedAnswer, Job, read, typed, unpack};
use super::entry::{ResultEntry, entry};
use super::listing::{CsvSource, JsonSource, ParquetSource, Selected};
use super::parts;
use super::query::{Fields, parse_id};
use super::report;
use super::results::ResultReader;
use crate::chart;
use crate::refusal::Refusal;
use crate::viewer::{View, Viewer};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION};
use axum::response::Response;
use pathbench_api::bounds::RAW_BYTES;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

type Answer = Result<Response, Refusal>;

const RESULTS: usize = 50;
const MOST_RESULTS: usize = 200;

/// Results of a file; the header `x-next-cursor` continues it.
const MOST_ROWS: usize = 2_000;

fn json(value: &impl Serialize) -> Vec<u8> {
    // Neither maps with other keys than texts nor failing writers.
    serde_json::to_vec(value).unwrap_or_default()
}

fn json_answer(body: impl Into<Body>) -> Response {
    let mut response = typed("application/json", body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Results from the newest.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "the schema of what `JsonSource` makes")]
pub(crate) struct ResultsAnswer {
    /// Results that pass the filter.
    all: u64,
    results: Vec<ResultEntry>,
    /// `cursor` of the next page; null after the last one.
    next_cursor: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChartEntry {
    name: &'static str,
    title: &'static str,
    /// Path of its page.
    page: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChartsAnswer {
    charts: Vec<ChartEntry>,
}

/// A chart as data.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "the schema of what `Chart::json` makes")]
pub(crate) struct ChartDocument {
    name: String,
    title: String,
    caption: String,
    /// Values that the chart is drawn from.
    n: u64,
    table: ChartTable,
    series: Vec<ChartSeries>,
}

/// Rows with one cell for each column: text, number or null.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "the schema of what `DataTable::json` makes")]
pub(crate) struct ChartTable {
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
}

/// A curve, or points.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "the schema of what `Chart::json` makes")]
pub(crate) struct ChartSeries {
    name: String,
    points: Vec<(f64, f64)>,
}

pub(super) async fn results(State(reader): State<Arc<ResultReader>>, view: View, fields: Fields) -> Answer {
    let (all, selected, next_cursor) = selected(&reader, view, &fields, (RESULTS, MOST_RESULTS)).await?;
    let source = JsonSource { selected, all, next_cursor, written: 0, is_begun: false };
    Ok(json_answer(parts::body(&reader, source).await?))
}

/// The number of results that pass the filter, a page of them, and the next cursor.
async fn selected(
    reader: &Arc<ResultReader>,
    view: View,
    fields: &Fields,
    (usual, most): (usize, usize),
) -> Result<(u64, Selected, Option<u64>), Refusal> {
    let filter = fields.filter(view.viewer)?;
    let position = (fields.cursor()?, fields.limit(usual, most)?);
    let found = read(reader, move |reader| Ok(reader.newest(&filter, position))).await?;
    let (all, sequences, next) = found;
    Ok((all, Selected::new(view, sequences), next))
}

pub(super) async fn result(
    State(reader): State<Arc<ResultReader>>,
    view: View,
    Path(text): Path<String>,
) -> Answer {
    let id = parse_id(&text)?;
    let found = read(&reader, move |reader| {
        let result = reader.result(view.viewer, id)?;
        Ok(json(&entry(reader, &result, view)))
    });
    Ok(json_answer(found.await?))
}

fn file(kind: &'static str, name: &str, body: impl Into<Body>, next: Option<u64>) -> Response {
    let mut response = typed(kind, body);
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(CONTENT_DISPOSITION, value);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(next) = next {
        headers.insert("x-next-cursor", HeaderValue::from(next));
    }
    response
}

pub(super) async fn results_csv(
    State(reader): State<Arc<ResultReader>>,
    view: View,
    fields: Fields,
) -> Answer {
    let (_, selected, next) = selected(&reader, view, &fields, (MOST_ROWS, MOST_ROWS)).await?;
    let body = parts::body(&reader, CsvSource { selected, is_begun: false }).await?;
    Ok(file("text/csv; charset=utf-8", "results.csv", body, next))
}

pub(super) async fn results_parquet(
    State(reader): State<Arc<ResultReader>>,
    view: View,
    fields: Fields,
) -> Answer {
    let (_, selected, next) = selected(&reader, view, &fields, (MOST_ROWS, MOST_ROWS)).await?;
    let body = parts::body(&reader, ParquetSource::new(selected)?).await?;
    Ok(file("application/vnd.apache.parquet", "results.parquet", body, next))
}

/// For the operator as it was submitted; for everybody its known files in the anonymous form.
pub(super) async fn raw(
    State(reader): State<Arc<ResultReader>>,
    view: View,
    Path(text): Path<String>,
) -> Answer {
    let id = parse_id(&text)?;
    let body = match view.viewer {
        Viewer::Everybody => report::anonymous(&reader, id).await?,
        Viewer::Operator => {
            unpack(&reader, move |job, _| {
                let share = job.memory(RAW_BYTES)?;
                Ok(Job::built(job.raw_part(&job.result(view.viewer, id)?)?, share)?)
            })
            .await?
        }
    };
    let mut response = file("application/zstd", &format!("{id}.tar.zst"), body, None);
    response.extensions_mut().insert(CountedAnswer);
    Ok(response)
}

pub(super) async fn charts(view: View) -> Response {
    let one = |(name, title)| ChartEntry { name, title, page: format!("{}/charts/{name}", view.prefix) };
    json_answer(json(&ChartsAnswer { charts: chart::all().map(one).collect() }))
}

/// `NAME.json`, `NAME.csv` or `NAME.svg`.
pub(super) async fn chart(
    State(reader): State<Arc<ResultReader>>,
    view: View,
    Path(name): Path<String>,
    fields: Fields,
) -> Answer {
    let filter = fields.filter(view.viewer)?;
    let missing = || Refusal::not_found("no such chart");
    let (stem, extension) = name.rsplit_once('.').ok_or_else(missing)?;
    let (stem, extension) = (stem.to_owned(), extension.to_owned());
    read(&reader, move |reader| {
        if !["json", "csv", "svg"].contains(&extension.as_str()) {
            return Err(missing());
        }
        let chart = reader.chart(&filter, &stem).ok_or_else(missing)?;
        Ok(match extension.as_str() {
            "json" => json_answer(json(&chart.json())),
            "csv" => file("text/csv; charset=utf-8", &name, chart.csv().into_bytes(), None),
            _ => {
                let mut response = typed("image/svg+xml", chart.svg().to_string());
                let policy = HeaderValue::from_static("default-src 'none'");
                response.headers_mut().insert("content-security-policy", policy);
                response
            }
        })
    })
    .await
}

pub(super) async fn live(State(reader): State<Arc<ResultReader>>, view: View) -> Answer {
    let live = read(&reader, move |reader| Ok(reader.live(view.viewer)?)).await?;
    Ok(json_answer(json(&live)))
}
