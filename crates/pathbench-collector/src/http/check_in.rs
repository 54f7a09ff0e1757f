//! `POST /v1/check-in`, `PUT /v1/servers/{name}` and `PUT /v1/live/{agent}`.

use super::app::App;
use super::blocking::blocking;
use super::body;
use super::server::Peer;
use crate::assignment::experiments_for;
use crate::keys::Keys;
use crate::reader::live::MOST_AGENTS;
use crate::refusal::Refusal;
use crate::store::record::{
    KnownAgent, KnownServer, RegisteredServer, RunningAgent, put_agent, put_record, record, records,
};
use crate::store::{Database, Document, DocumentKind};
use crate::task;
use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode};
use pathbench_api::Uuid;
use pathbench_api::check_in::{
    CheckIn, CheckInAnswer, MOST_SERVERS, OfferedServer, SERVER_EXPIRY_MS, ServerReport,
};
use pathbench_api::experiment::Experiment;
use pathbench_api::live::{EXPIRY_MS, LiveReport};
use pathbench_api::name::Name;
use pathbench_api::token::{Audience, Token};
use pathbench_program::random;
use pathbench_record::network::ServerName;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Validity of a token for a test server. Agents check in every [`NEXT_S`] seconds, and a test of all transports takes up
/// to 20 min.
const TOKEN_VALIDITY: Duration = Duration::from_secs(1800);

/// When an agent checks in again.
const NEXT_S: u32 = 60;

/// The longest list of ports in a report.
const MOST_PORTS: usize = 8;

pub(super) async fn check_in(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<CheckInAnswer>, Refusal> {
    let now_ms = app.clock.unix_ms();
    app.gate.submitter(&headers, now_ms / 1000)?;
    let check_in: CheckIn = body::json(body, &app).await?;
    let token = app.gate.agent(&check_in.name, &headers, now_ms / 1000)?;
    if let Some(problem) = check_in.problem() {
        return Err(Refusal::invalid(problem));
    }
    let shared = Arc::clone(&app);
    let answer = blocking(move || answer(&shared, check_in, token.as_ref(), now_ms)).await?;
    Ok(Json(answer))
}

fn answer(
    app: &App,
    check_in: CheckIn,
    token: Option<&Token>,
    now_ms: u64,
) -> Result<CheckInAnswer, Refusal> {
    let database = app.database.as_ref();
    let authority = app.gate.authority();
    if let Some(known) = record(database, DocumentKind::Agent, &check_in.agent.to_string())? {
        permit(&known, token)?;
    }
    let subject = Name::nearest(&check_in.agent.simple().to_string());
    let known = KnownAgent { check_in, token: token.map(|token| token.serial.to_string()) };
    let experiments = experiments_for(database, &known)?;
    let may_add = || Ok(app.quotas.take_agent(task::client(), app.clock.now())?);
    put_agent::<Refusal>(database, &known, now_ms, may_add)?;
    let servers = offered(database, &authority.keys, &subject, &experiments, now_ms)?;
    let renewed = token.filter(|token| token.is_old(now_ms / 1000));
    for server in &servers {
        app.metrics.count_token(server.name.as_str());
    }
    Ok(CheckInAnswer {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now_ms,
        servers,
        experiments,
        next_s: NEXT_S,
        privacy: "/v1/privacy".to_owned(),
        token: renewed.map(|token| authority.keys.renew(token, now_ms / 1000)),
    })
}

/// Refuses the id of an agent with a token to every other one.
fn permit(known: &KnownAgent, token: Option<&Token>) -> Result<(), Refusal> {
    let name = &known.check_in.name;
    if known.token.is_none() || token.is_some_and(|token| token.subject == *name) {
        return Ok(());
    }
    Err(Refusal::unauthorized(format!(
        "this id is that of the agent `{name}`, which has a token: pass that one"
    )))
}

/// The running servers that accept tests, each with a token: those of the experiments first, of these and the others the
/// least loaded first.
fn offered(
    database: &dyn Database,
    keys: &Keys,
    subject: &Name,
    experiments: &[Experiment],
    now_ms: u64,
) -> Result<Vec<OfferedServer>, Refusal> {
    let registered: Vec<(Document, RegisteredServer)> = records(database, DocumentKind::Server)?;
    let reports: Vec<(Document, KnownServer)> = records(database, DocumentKind::ServerReport)?;
    let running = reports.into_iter().filter(|(document, known)| {
        now_ms.saturating_sub(document.updated_ms) < SERVER_EXPIRY_MS && !known.report.draining
    });
    let mut servers: Vec<OfferedServer> = running
        .filter_map(|(document, known)| {
            let (_, server) = registered.iter().find(|(registered, _)| registered.key == document.key)?;
            let name = Name::new(document.key).ok()?;
            let (_, key) = keys.server(&name, server, now_ms / 1000)?;
            let serial = random::bytes();
            let token = key.mint(Audience::Test, subject, serial, now_ms / 1000, TOKEN_VALIDITY).ok()?;
            let KnownServer { address, report } = known;
            Some(OfferedServer {
                name,
                address,
                quic_ports: report.quic_ports,
                fingerprint: report.fingerprint,
                token: Some(token),
                load: f64::from(report.tests) / f64::from(report.max_tests.max(1)),
            })
        })
        .filter(|server| server.load < 1.0)
        .collect();
    let is_other = |server: &OfferedServer| {
        !experiments.iter().any(|experiment| experiment.servers.contains(&server.name))
    };
    servers.sort_by(|a, b| {
        let by_experiment = is_other(a).cmp(&is_other(b));
        by_experiment.then(a.load.total_cmp(&b.load)).then_with(|| a.name.cmp(&b.name))
    });
    servers.truncate(MOST_SERVERS);
    Ok(servers)
}

pub(super) async fn report(
    State(app): State<Arc<App>>,
    Extension(Peer(peer)): Extension<Peer>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let now_ms = app.clock.unix_ms();
    let name = Name::new(name).map_err(Refusal::bad_request)?;
    let key = name.to_string();
    let registered: Option<RegisteredServer> =
        app.with_database(move |database| Ok(record(database, DocumentKind::Server, &key)?)).await?;
    app.gate.server(&name, registered.as_ref(), &headers, now_ms / 1000)?;
    let report: ServerReport = body::json(body, &app).await?;
    let is_fingerprint =
        |text: &String| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if report.quic_ports.len() > MOST_PORTS || !report.fingerprint.iter().all(is_fingerprint) {
        return Err(Refusal::invalid(
            "`quic_ports` has at most 8 entries, and `fingerprint` 64 hexadecimal digits",
        ));
    }
    app.with_database(move |database| {
        let address = address(registered.as_ref(), &report, peer)?;
        put_record(
            database,
            DocumentKind::ServerReport,
            name.as_str(),
            &KnownServer { address, report },
            now_ms,
        )?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// A report cannot direct agents to the address of somebody else.
fn address(
    registered: Option<&RegisteredServer>,
    report: &ServerReport,
    peer: IpAddr,
) -> Result<String, Refusal> {
    if let Some(address) = registered.and_then(|server| server.address.clone()) {
        return Ok(address);
    }
    let reported = ServerName::parse(&report.address, 4433).map_err(Refusal::invalid)?;
    Ok(std::net::SocketAddr::new(peer.to_canonical(), reported.port).to_string())
}

pub(super) async fn live(
    State(app): State<Arc<App>>,
    Path(agent): Path<Uuid>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let now_ms = app.clock.unix_ms();
    app.gate.submitter(&headers, now_ms / 1000)?;
    let report: LiveReport = body::json(body, &app).await?;
    let token = app.gate.agent(&report.agent, &headers, now_ms / 1000)?;
    if let Some(problem) = report.problem() {
        return Err(Refusal::invalid(problem));
    }
    app.with_database(move |database| {
        let key = agent.to_string();
        let known: Option<KnownAgent> = record(database, DocumentKind::Agent, &key)?;
        let known = known.filter(|known| known.check_in.name == report.agent);
        let Some(known) = known else {
            let problem =
                format!("agent {agent} is not known by the name `{}`: check in first", report.agent);
            return Err(Refusal::not_found(problem));
        };
        permit(&known, token.as_ref())?;
        let since_ms = now_ms.saturating_sub(EXPIRY_MS);
        let previous = database.document(DocumentKind::Live, &key)?;
        let is_running = previous.is_some_and(|document| document.updated_ms >= since_ms);
        if !is_running && database.count_documents(DocumentKind::Live, since_ms)? >= MOST_AGENTS as u64 {
            let wait = Duration::from_millis(EXPIRY_MS);
            return Err(Refusal::busy("too many agents report running measurements", wait));
        }
        let running = RunningAgent { consent: known.check_in.consent, report };
        put_record(database, DocumentKind::Live, &key, &running, now_ms)?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}
