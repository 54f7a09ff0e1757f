//! The OpenAPI 3.1 description of the API, made from the table of endpoints and from the types of the bodies.

use super::admin;
use super::monitoring::Status;
use crate::reader::live::LiveAnswer;
use crate::reader::{api, entry};
use axum::http::StatusCode;
use pathbench_api::check_in::{CheckIn, CheckInAnswer, ServerReport};
use pathbench_api::deletion::DeletionAnswer;
use pathbench_api::experiment::Experiment;
use pathbench_api::live::LiveReport;
use pathbench_api::problem::{BatchAnswer, Problem};
use pathbench_api::submission::Submission;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The credential of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    None,
    /// A token for submissions or of an agent, unless the collector is open.
    Submit,
    /// A token of the agent that the request names; at an open collector an agent may have none.
    Agent,
    /// A token by the server's key.
    Server,
    /// The deletion token of the agent.
    Deletion,
    Operator,
}

/// A parameter of the query: name, JSON Schema, description.
pub type QueryParameter = (&'static str, &'static str, &'static str);

/// One operation of the API.
#[derive(Clone, Copy)]
pub struct ApiEndpoint {
    pub method: &'static str,
    /// With `{name}` for each parameter.
    pub path: &'static str,
    pub id: &'static str,
    pub summary: &'static str,
    pub credential: Credential,
    pub request: Option<(&'static str, SchemaOf)>,
    /// Lists of parameters, one after the other.
    pub query: &'static [&'static [QueryParameter]],
    pub success: u16,
    pub answer: Option<(&'static str, Option<SchemaOf>)>,
    /// Further statuses; each has a `Problem`.
    pub errors: &'static [u16],
}

const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";
const TEXT: &str = "text/plain";

impl ApiEndpoint {
    const fn get(path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self {
            method: "get",
            path,
            id,
            summary,
            credential: Credential::None,
            request: None,
            query: &[],
            success: 200,
            answer: None,
            errors: &[400, 404, 408, 413, 422, 429, 503],
        }
    }

    const fn json(self, schema: SchemaOf) -> Self {
        Self { answer: Some((JSON, Some(schema))), ..self }
    }

    const fn media(self, media: &'static str) -> Self {
        Self { answer: Some((media, None)), ..self }
    }

    const fn method(self, method: &'static str, credential: Credential) -> Self {
        Self { method, credential, errors: &[400, 401, 404, 405, 408, 413, 415, 422, 429, 503, 507], ..self }
    }

    const fn body(self, media: &'static str, schema: SchemaOf) -> Self {
        Self { request: Some((media, schema)), ..self }
    }

    const fn empty(self) -> Self {
        Self { success: 204, answer: None, ..self }
    }

    const fn query(self, query: &'static [&'static [QueryParameter]]) -> Self {
        Self { query, ..self }
    }
}

/// A day, or a Unix time in seconds; without a value as without the parameter.
const DAY: &str =
    r#"{"anyOf":[{"type":"string","format":"date"},{"type":"string","pattern":"^([0-9]{9,10})?$"}]}"#;

/// Filters of the reading endpoints. Each without a value counts as absent.
pub const FILTERS: &[QueryParameter] = &[
    (
        "transport",
        r#"{"type":"array","items":{"type":"string","enum":["","tcp","mptcp","quic","mpquic"]}}"#,
        "Results with any of these transports",
    ),
    ("server", r#"{"type":"string","maxLength":128}"#, "Name of a test server"),
    (
        "network",
        r#"{"type":"string","enum":["ethernet","wifi","cellular","emulated","other"]}"#,
        "Kind of network",
    ),
    ("operator", r#"{"type":"string","maxLength":128}"#, "Network operator"),
    ("experiment", r#"{"type":"string","maxLength":128}"#, "Name of an experiment"),
    ("scenario", r#"{"type":"string","maxLength":128}"#, "Name of a scenario"),
    ("mode", r#"{"type":"string","enum":["stable","mobile","lab","other"]}"#, "Kind of measurement"),
    ("since", DAY, "First day (UTC), or a Unix time in seconds"),
    ("until", DAY, "Last day (UTC), or a Unix time in seconds"),
    ("q", r#"{"type":"string","maxLength":128}"#, "Text in the names of a result"),
];

const CURSOR: QueryParameter = (
    "cursor",
    r#"{"type":"integer","minimum":0}"#,
    "`next_cursor`, or the header `x-next-cursor`, of the previous page",
);

const PAGED: &[QueryParameter] =
    &[CURSOR, ("limit", r#"{"type":"integer","minimum":1}"#, "Results of a page; default 50, maximum 200")];

/// Pages of the operator's lists, by name or id.
const LISTED: &[QueryParameter] = &[
    ("cursor", r#"{"type":"string","maxLength":128}"#, "`next_cursor` of the previous page"),
    ("limit", r#"{"type":"integer","minimum":1}"#, "Entries of a page; default 50, maximum 200"),
];

const FILE: &[QueryParameter] =
    &[CURSOR, ("limit", r#"{"type":"integer","minimum":1}"#, "Results of a file; default and maximum 2000")];

use Credential::{Agent, Deletion, Operator, Server, Submit};

/// Every operation below `/v1`, and those for monitors.
pub const ENDPOINTS: &[ApiEndpoint] = &[
    ApiEndpoint::get(
        "/v1/results",
        "submit",
        "Submit results: one submission a line, of which each has its own answer",
    )
    .method("post", Submit)
    .body(NDJSON, schema_of::<Submission>)
    .json(schema_of::<BatchAnswer>),
    ApiEndpoint::get("/v1/results", "results", "Results, the newest first")
        .query(&[FILTERS, PAGED])
        .json(schema_of::<api::ResultsAnswer>),
    ApiEndpoint::get("/v1/results.csv", "results_csv", "Results as CSV")
        .query(&[FILTERS, FILE])
        .media("text/csv"),
    ApiEndpoint::get("/v1/results.parquet", "results_parquet", "Results as Parquet")
        .query(&[FILTERS, FILE])
        .media("application/vnd.apache.parquet"),
    ApiEndpoint::get("/v1/results", "delete_all", "Delete all results that have this deletion token")
        .method("delete", Deletion)
        .json(schema_of::<DeletionAnswer>),
    ApiEndpoint::get("/v1/results/{id}", "result", "One result").json(schema_of::<entry::ResultEntry>),
    ApiEndpoint::get("/v1/results/{id}/raw", "raw", "The raw part of a result, a .tar.zst file")
        .media("application/zstd"),
    ApiEndpoint::get("/v1/results/{id}", "delete", "Delete one result")
        .method("delete", Deletion)
        .json(schema_of::<DeletionAnswer>),
    ApiEndpoint::get("/v1/charts", "charts", "The names and titles of all charts")
        .json(schema_of::<api::ChartsAnswer>),
    ApiEndpoint::get("/v1/charts/{name}", "chart", "A chart: NAME.json, NAME.csv or NAME.svg")
        .query(&[FILTERS])
        .json(schema_of::<api::ChartDocument>),
    ApiEndpoint::get("/v1/live", "live", "Running measurements").json(schema_of::<LiveAnswer>),
    ApiEndpoint::get("/v1/live/{agent}", "report_live", "Report the running measurement of an agent")
        .method("put", Agent)
        .body(JSON, schema_of::<LiveReport>)
        .empty(),
    ApiEndpoint::get("/v1/check-in", "check_in", "Check in: servers, tokens for them, and experiments")
        .method("post", Agent)
        .body(JSON, schema_of::<CheckIn>)
        .json(schema_of::<CheckInAnswer>),
    ApiEndpoint::get("/v1/servers/{name}", "report_server", "Report a test server and its load")
        .method("put", Server)
        .body(JSON, schema_of::<ServerReport>)
        .empty(),
    ApiEndpoint::get("/v1/privacy", "privacy", "Privacy statement: kept data, retention, readers")
        .media(TEXT),
    ApiEndpoint::get("/v1/openapi.json", "openapi", "This description").media(JSON),
    ApiEndpoint::get("/v1/admin/experiments", "admin_experiments", "Experiments, by name")
        .method("get", Operator)
        .query(&[LISTED])
        .json(schema_of::<admin::ExperimentsAnswer>),
    ApiEndpoint::get("/v1/admin/experiments/{name}", "put_experiment", "Make or replace an experiment")
        .method("put", Operator)
        .body(JSON, schema_of::<Experiment>)
        .empty(),
    ApiEndpoint::get("/v1/admin/experiments/{name}", "remove_experiment", "Remove an experiment")
        .method("delete", Operator)
        .empty(),
    ApiEndpoint::get("/v1/admin/servers", "admin_servers", "Registered test servers, by name")
        .method("get", Operator)
        .query(&[LISTED])
        .json(schema_of::<admin::ServersAnswer>),
    ApiEndpoint::get("/v1/admin/servers/{name}", "put_server", "Register a test server")
        .method("put", Operator)
        .body(JSON, schema_of::<admin::NewServer>)
        .json(schema_of::<admin::ServerKey>),
    ApiEndpoint::get("/v1/admin/servers/{name}", "remove_server", "Remove a test server")
        .method("delete", Operator)
        .empty(),
    ApiEndpoint::get("/v1/admin/agents", "admin_agents", "Agents that checked in, by id")
        .method("get", Operator)
        .query(&[LISTED])
        .json(schema_of::<admin::AgentsAnswer>),
    ApiEndpoint::get("/v1/admin/tokens", "make_token", "Make a token for an agent or for submissions")
        .method("post", Operator)
        .body(JSON, schema_of::<admin::NewToken>)
        .json(schema_of::<admin::NewTokenAnswer>),
    ApiEndpoint::get("/v1/admin/revocations/{serial}", "revoke_token", "Revoke a token and its renewals")
        .method("put", Operator)
        .empty(),
    ApiEndpoint::get("/v1/admin/results/{id}", "admin_delete", "Delete a result")
        .method("delete", Operator)
        .json(schema_of::<DeletionAnswer>),
    ApiEndpoint::get("/health", "health", "Liveness").json(schema_of::<Status>),
    ApiEndpoint::get("/ready", "ready", "Readiness").json(schema_of::<Status>),
    ApiEndpoint::get("/metrics", "metrics", "Prometheus metrics").media(TEXT),
];

pub fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<Problem>();
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in ENDPOINTS {
        let operation = operation(endpoint, &mut generator, &problem);
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        if let Value::Object(path) = path {
            path.insert(endpoint.method.to_owned(), operation);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Pathbench collector",
            "version": "1",
            "description": "API of a collector of Pathbench results; see docs/collect.md.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": {
                "Problem": {
                    "description": "The request failed; the body has the reason and the remedy",
                    "content": { JSON: { "schema": problem } },
                },
            },
            "securitySchemes": {
                "submit": { "type": "http", "scheme": "bearer", "description": "A token for submissions, or of an agent" },
                "agent": { "type": "http", "scheme": "bearer", "description": "A token of this agent" },
                "server": { "type": "http", "scheme": "bearer", "description": "A token by the server's key" },
                "deletion": { "type": "http", "scheme": "bearer", "description": "The agent's deletion token" },
                "operator": { "type": "http", "scheme": "bearer", "description": "The operator's token" },
            },
        },
    })
}

fn operation(endpoint: &ApiEndpoint, generator: &mut SchemaGenerator, problem: &Schema) -> Value {
    let mut parameters: Vec<Value> = endpoint
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| {
            let schema = match name {
                "serial" => json!({ "type": "string", "pattern": "^[0-9a-f]{16}$" }),
                "id" | "agent" => json!({ "type": "string", "format": "uuid" }),
                "name" if endpoint.id == "chart" => {
                    json!({ "type": "string", "pattern": "^[a-z0-9-]+\\.(csv|json|svg)$" })
                }
                _ => json!({ "type": "string", "minLength": 1, "maxLength": 64 }),
            };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect();
    parameters.extend(endpoint.query.iter().copied().flatten().map(|(name, schema, description)| {
        let schema: Value =
            serde_json::from_str(schema).unwrap_or_else(|error| unreachable!("{schema}: {error}"));
        json!({ "name": name, "in": "query", "description": description, "schema": schema })
    }));
    let mut operation = json!({
        "operationId": endpoint.id,
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": responses(endpoint, generator, problem),
    });
    let scheme = match endpoint.credential {
        Credential::None => None,
        Submit => Some("submit"),
        Agent => Some("agent"),
        Server => Some("server"),
        Deletion => Some("deletion"),
        Operator => Some("operator"),
    };
    if let Some(scheme) = scheme {
        operation["security"] = json!([{ scheme: [] }]);
    }
    if let Some((media, schema)) = endpoint.request {
        operation["requestBody"] =
            json!({ "required": true, "content": { media: { "schema": schema(generator) } } });
    }
    operation
}

fn responses(endpoint: &ApiEndpoint, generator: &mut SchemaGenerator, problem: &Schema) -> Value {
    let reason = |status: u16| {
        StatusCode::from_u16(status).ok().and_then(|code| code.canonical_reason()).unwrap_or_default()
    };
    let mut success = json!({ "description": reason(endpoint.success) });
    if let Some((media, schema)) = endpoint.answer {
        let schema = schema.map_or_else(|| json!({}), |schema| schema(generator).to_value());
        success["content"] = json!({ media: { "schema": schema } });
        if endpoint.id == "chart" {
            for media in ["text/csv", "image/svg+xml"] {
                success["content"][media] = json!({ "schema": { "type": "string" } });
            }
        }
    }
    let mut responses = Map::new();
    responses.insert(endpoint.success.to_string(), success);
    if endpoint.id == "submit" {
        // The status of all lines, if they have one.
        for status in [201, 409, 410, 413, 422, 503, 507] {
            let body = if matches!(status, 413 | 422 | 503 | 507) {
                json!({ "anyOf": [generator.subschema_for::<BatchAnswer>(), problem] })
            } else {
                generator.subschema_for::<BatchAnswer>().to_value()
            };
            responses.insert(
                status.to_string(),
                json!({ "description": reason(status), "content": { JSON: { "schema": body } } }),
            );
        }
    }
    for status in endpoint.errors {
        responses
            .entry(status.to_string())
            .or_insert_with(|| json!({ "$ref": "#/components/responses/Problem" }));
    }
    Value::Object(responses)
}
