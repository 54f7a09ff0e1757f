//! `GET /health` and `GET /metrics` of the agent.

use crate::state::AgentContext;
use pathbench_program::exit::Failure;
use pathbench_program::responder::{Request, Responder, Response};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const TIME: Duration = Duration::from_millis(500);

pub(crate) fn start(address: SocketAddr, shared: &Arc<AgentContext>) -> Result<Responder, Failure> {
    let shared = Arc::clone(shared);
    Responder::start(address, "GET /metrics", TIME, move |request| response(request, &shared))
}

fn response(request: &Request, shared: &AgentContext) -> Response {
    match (request.is_read(), request.path.as_str()) {
        (true, "/metrics") => Response::metrics(shared.metrics(shared.now_s())),
        (true, "/health") => {
            let document = shared.access(|state| {
                json!({
                    "status": if shared.is_stopping() { "stopping" } else { "ok" },
                    "collector": state.error,
                    "checked_in_s": state.checked_in_s,
                    "running": state.measurement.is_some(),
                    "outbox": state.outbox.0,
                })
            });
            Response::json(if shared.is_stopping() { "503 Service Unavailable" } else { "200 OK" }, &document)
        }
        (true, _) => Response::not_found("/health and /metrics exist"),
        _ => Response::method_not_allowed(),
    }
}
