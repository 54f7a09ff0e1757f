//! `/v1/admin/…`: experiments, servers, agents, tokens and deletions, for the operator.

use super::access::is_basic;
use super::app::App;
use super::body;
use super::results::delete;
use crate::assignment::{LeftOutAgent, left_out};
use crate::reader::query::Fields;
use crate::refusal::Refusal;
use crate::store::record::{
    KnownAgent, RegisteredServer, put_record, record_page, remove_server, server_report,
};
use crate::store::{Database, Deletion, Document, DocumentKind, StoreError};
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use pathbench_api::Uuid;
use pathbench_api::deletion::DeletionAnswer;
use pathbench_api::experiment::Experiment;
use pathbench_api::name::Name;
use pathbench_api::token::{Audience, Serial};
use pathbench_record::network::ServerName;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Lets only the operator pass.
pub(super) async fn only_operator(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let now = app.clock.unix_ms() / 1000;
    // Browsers send a stored password with requests that pages of others start.
    if !request.method().is_safe() && is_basic(request.headers()) {
        let how = "changes need the operator's token as `Authorization: Bearer TOKEN`; a password reads only";
        return Refusal::unauthorized(how).into_response();
    }
    match app.gate.operator(request.headers(), now) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Entries of a page, and at most.
const ENTRIES: usize = 50;
const MOST_ENTRIES: usize = 200;

/// The number of all entries of a kind, and a page of them by name or id.
async fn page<T: DeserializeOwned, E: Send + 'static>(
    app: &Arc<App>,
    fields: &Fields,
    kind: DocumentKind,
    entry: impl Fn(&dyn Database, Document, T) -> Result<E, StoreError> + Send + 'static,
) -> Result<(u64, Vec<E>, Option<String>), Refusal> {
    let after = fields.get("cursor").unwrap_or_default().to_owned();
    let limit = fields.limit(ENTRIES, MOST_ENTRIES)?;
    app.with_database(move |database| {
        let page = record_page(database, kind, (&after, limit))?;
        let entries = page.records.into_iter().map(|(document, one)| entry(database, document, one));
        let entries = entries.collect::<Result<Vec<E>, StoreError>>()?;
        Ok((database.count_documents(kind, 0)?, entries, page.next))
    })
    .await
}

/// Experiments by name.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ExperimentsAnswer {
    all: u64,
    experiments: Vec<Experiment>,
    /// Agents that do not get an experiment of this page; the first 200.
    left_out: Vec<LeftOutAgent>,
    /// `cursor` of the next page; null after the last one.
    next_cursor: Option<String>,
}

pub(super) async fn experiments(
    State(app): State<Arc<App>>,
    fields: Fields,
) -> Result<Json<ExperimentsAnswer>, Refusal> {
    let entry = |_: &dyn Database, _, experiment| Ok(experiment);
    let (all, experiments, next_cursor) =
        page::<Experiment, _>(&app, &fields, DocumentKind::Experiment, entry).await?;
    let (experiments, left_out) = app
        .with_database(move |database| {
            let left_out = left_out(database, &experiments)?;
            Ok((experiments, left_out))
        })
        .await?;
    Ok(Json(ExperimentsAnswer { all, experiments, left_out, next_cursor }))
}

pub(super) async fn put_experiment(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let experiment: Experiment = body::json(body, &app).await?;
    if experiment.name.as_str() != name {
        return Err(Refusal::invalid(format!("`name` is `{}`, and the path names another", experiment.name)));
    }
    if let Some(problem) = experiment.problem() {
        return Err(Refusal::invalid(problem));
    }
    put_one(&app, DocumentKind::Experiment, name, experiment).await
}

async fn put_one(
    app: &Arc<App>,
    kind: DocumentKind,
    key: String,
    value: impl Serialize + Send + 'static,
) -> Result<StatusCode, Refusal> {
    let now_ms = app.clock.unix_ms();
    app.with_database(move |database| Ok(put_record(database, kind, &key, &value, now_ms)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn remove_one(app: &Arc<App>, kind: DocumentKind, key: String) -> Result<StatusCode, Refusal> {
    app.with_database(move |database| {
        let removed = match kind {
            DocumentKind::Server => remove_server(database, &key)?,
            _ => database.delete_document(kind, &key)?,
        };
        if removed {
            Ok(StatusCode::NO_CONTENT)
        } else {
            Err(Refusal::not_found(format!("there is no {} `{key}`", kind.name())))
        }
    })
    .await
}

pub(super) async fn remove_experiment(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<StatusCode, Refusal> {
    remove_one(&app, DocumentKind::Experiment, name).await
}

/// A registered server and its last report.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ServerEntry {
    name: String,
    /// As registered; absent: the address of its reports.
    address: Option<String>,
    /// Unix time of the last report, in milliseconds; absent without one.
    reported_ms: Option<u64>,
    reported_address: Option<String>,
    tests: Option<u32>,
    max_tests: Option<u32>,
}

/// Registered test servers by name.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ServersAnswer {
    all: u64,
    servers: Vec<ServerEntry>,
    /// `cursor` of the next page; null after the last one.
    next_cursor: Option<String>,
}

pub(super) async fn servers(
    State(app): State<Arc<App>>,
    fields: Fields,
) -> Result<Json<ServersAnswer>, Refusal> {
    let (all, servers, next_cursor) = page(&app, &fields, DocumentKind::Server, server_entry).await?;
    Ok(Json(ServersAnswer { all, servers, next_cursor }))
}

fn server_entry(
    database: &dyn Database,
    document: Document,
    registered: RegisteredServer,
) -> Result<ServerEntry, StoreError> {
    let report = server_report(database, &document.key)?;
    Ok(ServerEntry {
        name: document.key,
        address: registered.address,
        reported_ms: report.as_ref().map(|(at, _)| *at),
        tests: report.as_ref().map(|(_, known)| known.report.tests),
        max_tests: report.as_ref().map(|(_, known)| known.report.max_tests),
        reported_address: report.map(|(_, known)| known.address),
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewServer {
    /// `HOST:PORT`; absent: the address from which its reports come.
    address: Option<String>,
}

/// The key of a registered server, for `pathbench serve --token-key`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ServerKey {
    key: String,
}

pub(super) async fn put_server(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    body: Body,
) -> Result<Json<ServerKey>, Refusal> {
    let name = Name::new(name).map_err(Refusal::bad_request)?;
    let NewServer { address } = body::json(body, &app).await?;
    if let Some(address) = &address {
        ServerName::parse(address, 4433).map_err(Refusal::invalid)?;
    }
    let now_ms = app.clock.unix_ms();
    let authority = app.gate.authority();
    let register =
        move |database: &dyn Database| Ok(authority.keys.register(database, &name, address, now_ms)?);
    let key = app.with_database(register).await?;
    Ok(Json(ServerKey { key }))
}

pub(super) async fn delete_server(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<StatusCode, Refusal> {
    remove_one(&app, DocumentKind::Server, name).await
}

/// An agent that checked in.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AgentEntry {
    id: String,
    name: Name,
    version: Name,
    /// Unix time of the last check-in, in milliseconds.
    seen_ms: u64,
    /// Serial number of its token; absent if it has none.
    token: Option<String>,
    /// Submissions that wait at the agent.
    outbox: u32,
    oldest_s: u32,
}

/// Agents by id.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AgentsAnswer {
    all: u64,
    agents: Vec<AgentEntry>,
    /// `cursor` of the next page; null after the last one.
    next_cursor: Option<String>,
}

pub(super) async fn agents(
    State(app): State<Arc<App>>,
    fields: Fields,
) -> Result<Json<AgentsAnswer>, Refusal> {
    let entry = |_: &dyn Database, document: Document, known: KnownAgent| {
        Ok(AgentEntry {
            id: document.key,
            name: known.check_in.name,
            version: known.check_in.version,
            seen_ms: document.updated_ms,
            token: known.token,
            outbox: known.check_in.outbox,
            oldest_s: known.check_in.oldest_s,
        })
    };
    let (all, agents, next_cursor) = page(&app, &fields, DocumentKind::Agent, entry).await?;
    Ok(Json(AgentsAnswer { all, agents, next_cursor }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewToken {
    /// Of the agent; a token for submissions has it for the operator.
    name: Name,
    #[serde(default)]
    audience: NewAudience,
    /// Validity in seconds, at most 90 days.
    #[schemars(range(min = 1, max = 7_776_000))]
    valid_s: u64,
}

/// The use of a new token.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum NewAudience {
    /// An agent with this name.
    #[default]
    Agent,
    /// Submissions only.
    Submit,
}

/// A new token.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct NewTokenAnswer {
    token: String,
}

pub(super) async fn token(State(app): State<Arc<App>>, body: Body) -> Result<Json<NewTokenAnswer>, Refusal> {
    let NewToken { name, audience, valid_s } = body::json(body, &app).await?;
    let audience = match audience {
        NewAudience::Agent => Audience::Agent,
        NewAudience::Submit => Audience::Submission,
    };
    let (now, validity) = (app.clock.unix_ms() / 1000, Duration::from_secs(valid_s));
    let token = app.gate.authority().keys.mint(audience, &name, now, validity);
    Ok(Json(NewTokenAnswer { token: token.map_err(Refusal::invalid)? }))
}

/// Revokes the tokens with this serial number here and now, and at other collectors of the database within seconds.
pub(super) async fn revoke(
    State(app): State<Arc<App>>,
    Path(serial): Path<String>,
) -> Result<StatusCode, Refusal> {
    let serial = Serial::from_hexadecimal(&serial)
        .ok_or_else(|| Refusal::bad_request("a serial number has 16 hexadecimal digits"))?
        .to_string();
    put_one(&app, DocumentKind::Revocation, serial.clone(), ()).await?;
    let mut authority = app.gate.authority().as_ref().clone();
    authority.revoked.insert(serial);
    app.gate.replace(authority);
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn delete_result(
    State(app): State<Arc<App>>,
    Path(id): Path<Uuid>,
) -> Result<Json<DeletionAnswer>, Refusal> {
    delete(&app, Deletion::One(id)).await
}
