//! The local page: choose a server and a mode, start and stop, the chart of the running measurement, results, consent.
//!
//! Any page in the user's browser can send requests to a local address. So each request must name this host by an address
//! or as `localhost` (DNS rebinding), and each change needs a token that only this page knows. Every request also needs the
//! key in the URL that the agent prints: other users of this host reach the loopback interface, too.

use crate::client::Settings;
use crate::history;
use crate::state::{AgentContext, AgentState, Choice, MeasurementOrder};
use data_encoding::HEXLOWER;
use pathbench_api::consent::Consent;
use pathbench_program::exit::Failure;
use pathbench_program::random;
use pathbench_program::responder::{Request, Responder, Response};
use pathbench_record::file;
use pathbench_record::text::printable;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const HTML: &str = include_str!("ui/page.html");
const SCRIPT: &str = include_str!("ui/page.js");
const STYLE: &str = include_str!("ui/page.css");
const BAD: &str = "400 Bad Request";
/// Replaced in the page.
const CSRF_MARK: &str = "{{csrf}}";

/// A report of many runs has megabytes.
const TIME: Duration = Duration::from_secs(15);
const REPORT_BYTES: u64 = 64 << 20;
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// A report brings its own policy; it must not reach this page.
const REPORT_POLICY: &str =
    "sandbox allow-scripts allow-popups allow-downloads; connect-src 'none'; frame-ancestors 'none'";

pub(crate) struct AgentPage {
    pub(crate) url: String,
    _responder: Responder,
}

struct Access {
    csrf: String,
    key: String,
}

struct Service {
    access: Access,
    shared: Arc<AgentContext>,
    results: PathBuf,
}

pub(crate) fn start(
    address: SocketAddr,
    shared: &Arc<AgentContext>,
    results: PathBuf,
) -> Result<AgentPage, Failure> {
    let secret = || HEXLOWER.encode(&random::bytes::<16>());
    let key = secret();
    let access = Access { csrf: secret(), key: key.clone() };
    let service = Service { access, shared: Arc::clone(shared), results };
    let responder = Responder::start(address, "the page", TIME, move |request| service.answer(request))?;
    Ok(AgentPage { url: format!("http://{}/?key={key}", responder.address()), _responder: responder })
}

impl Access {
    /// The refusal of a request that must not be answered.
    fn refusal(&self, request: &Request) -> Option<Response> {
        let refused = |error: &str| Some(Response::error("403 Forbidden", error));
        let Some(host) = request.field("host").filter(|host| is_own_name(host)) else {
            return refused("open this page by its address or as localhost");
        };
        let (cookie, key) = (cookie_name(host), &self.key);
        if !has_cookie(request, &cookie, key) {
            if request.path == "/" && request.query == format!("key={key}") {
                let mut response = Response::new("303 See Other", "text/plain", "");
                let cookie = format!("{cookie}={key}; HttpOnly; SameSite=Strict; Path=/");
                response.fields = vec![("Location", "/".to_owned()), ("Set-Cookie", cookie)];
                return Some(response);
            }
            return refused("open this page with the URL that the agent printed");
        }
        if request.is_read() {
            return None;
        }
        if request.method != "POST" {
            return Some(Response::method_not_allowed());
        }
        let own = format!("http://{host}");
        let is_foreign = request.field("origin").is_some_and(|origin| origin != own);
        if is_foreign || request.field("x-pathbench-token") != Some(self.csrf.as_str()) {
            return refused("reload the page");
        }
        None
    }
}

impl Service {
    fn answer(&self, request: &Request) -> Response {
        if let Some(refusal) = self.access.refusal(request) {
            return refusal;
        }
        let mut response = match (request.is_read(), request.path.as_str()) {
            (true, "/") => {
                let page = HTML.replace(CSRF_MARK, &self.access.csrf);
                Response::new("200 OK", "text/html; charset=utf-8", page)
            }
            (true, "/page.js") => Response::new("200 OK", "text/javascript; charset=utf-8", SCRIPT),
            (true, "/page.css") => Response::new("200 OK", "text/css; charset=utf-8", STYLE),
            (true, "/api/state") => Response::json("200 OK", &self.state()),
            (true, "/api/results") => Response::json("200 OK", &history::latest(&self.results)),
            (true, path) => {
                match path.strip_prefix("/results/").and_then(|rest| rest.strip_suffix("/report.html")) {
                    Some(name) => return self.report(name),
                    None => Response::not_found("the page is here"),
                }
            }
            (false, "/api/start") => self.start(&request.body),
            (false, "/api/stop") => {
                self.shared.cancel();
                done()
            }
            (false, "/api/consent") => self.consent(&request.body),
            (false, _) => Response::not_found("the page is here"),
        };
        response.fields.push(("Content-Security-Policy", POLICY.to_owned()));
        response.fields.push(("Referrer-Policy", "no-referrer".to_owned()));
        response
    }

    fn state(&self) -> Value {
        let settings = self.shared.settings();
        self.shared.access(|state| document(state, settings.as_ref()))
    }

    fn report(&self, name: &str) -> Response {
        let file = history::report(&self.results, name);
        match file.and_then(|file| file::read(&file, REPORT_BYTES).ok()) {
            Some(text) => {
                let mut response = Response::new("200 OK", "text/html; charset=utf-8", text);
                response.fields.push(("Content-Security-Policy", REPORT_POLICY.to_owned()));
                response
            }
            None => Response::not_found("finished results have a report"),
        }
    }

    fn start(&self, body: &[u8]) -> Response {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Start {
            mobile: bool,
            /// The name of an offered server; without one `address`.
            #[serde(default)]
            offered: String,
            #[serde(default)]
            address: String,
            #[serde(default)]
            fingerprint: String,
            #[serde(default)]
            token: String,
        }
        let Ok(Start { mobile, offered, address, fingerprint, token }) = serde_json::from_slice(body) else {
            return Response::error(BAD, "not a measurement");
        };
        let given = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let address = given(address).filter(|address| address.len() <= 255);
        let server = match (given(offered), address) {
            (Some(name), _) => Choice::Offered { name },
            (None, Some(address)) => {
                Choice::Own { address, fingerprint: given(fingerprint), token: given(token) }
            }
            (None, None) => return Response::error(BAD, "choose a server, or write its address"),
        };
        let order = MeasurementOrder { mobile, server };
        let is_free = self.shared.access(|state| {
            let is_free = state.measurement.is_none() && state.order.is_none();
            if is_free {
                state.order = Some(order);
                state.last = None;
            }
            is_free
        });
        if is_free { done() } else { Response::error("409 Conflict", "a measurement runs already") }
    }

    fn consent(&self, body: &[u8]) -> Response {
        #[derive(Deserialize)]
        struct Decision {
            consent: Consent,
        }
        let Ok(Decision { consent }) = serde_json::from_slice(body) else {
            return Response::error(BAD, "none, private or public?");
        };
        match self.shared.decide(consent) {
            Ok(()) => done(),
            Err(failure) => Response::error("500 Internal Server Error", &failure.message),
        }
    }
}

fn done() -> Response {
    Response::json("200 OK", &json!({}))
}

/// Whether a `Host` field is an address or `localhost`, with any port.
fn is_own_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// With the port: all ports of a host share their cookies (RFC 6265, section 8.5).
fn cookie_name(host: &str) -> String {
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()).unwrap_or(80);
    format!("pathbench-{port}")
}

fn has_cookie(request: &Request, cookie: &str, key: &str) -> bool {
    let cookies = request.field("cookie").unwrap_or_default().split(';').map(str::trim);
    cookies.filter_map(|one| one.split_once('=')).any(|(name, value)| name == cookie && value == key)
}

/// The state for the page, without tokens.
fn document(state: &AgentState, settings: Option<&Settings>) -> Value {
    let servers: Vec<Value> = state.answer.iter().flat_map(|answer| &answer.servers).map(|server| {
        json!({ "name": server.name, "address": printable(&server.address, 100), "load": server.load })
    }).collect();
    let levels: Vec<Value> =
        Consent::ALL.iter().map(|level| json!({ "level": level, "words": level.words() })).collect();
    json!({
        "agent": settings.map(|settings| settings.name.as_str()),
        "consent": settings.map(|settings| settings.consent),
        "levels": levels,
        "servers": servers,
        "experiments": state.answer.as_ref().map_or(0, |answer| answer.experiments.len()),
        "checked_in_s": state.checked_in_s,
        "error": state.error,
        "outbox": state.outbox.0,
        "measurement": state.measurement,
        "is_ordered": state.order.is_some(),
        "last": state.last.as_deref().map(|text| printable(text, 300)),
        "budget": state.budget,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(target: &str, fields: &[(&str, &str)]) -> Request {
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        Request::parse(&format!("GET {target} HTTP/1.1\r\n{}", fields.concat())).unwrap().0
    }

    fn post(target: &str, fields: &[(&str, &str)], body: &str) -> Request {
        let mut request = get(target, fields);
        request.method = "POST".to_owned();
        request.body = body.as_bytes().to_vec();
        request
    }

    fn access() -> Access {
        Access { csrf: "t".to_owned(), key: "k".to_owned() }
    }

    #[test]
    fn names_of_other_hosts_are_refused() {
        for own in ["127.0.0.1:8384", "localhost:8384", "LOCALHOST", "[::1]:8384", "[::1]", "192.0.2.7"] {
            assert!(is_own_name(own), "{own}");
        }
        for other in ["", "evil.test", "evil.test:8384", "127.0.0.1.evil.test:8384", "localhost.evil.test"] {
            assert!(!is_own_name(other), "{other}");
        }
    }

    #[test]
    fn changes_need_the_token_and_no_foreign_origin() {
        let access = access();
        let (host, cookie) = (("Host", "127.0.0.1:1"), ("Cookie", "pathbench-1=k"));
        let refused = |fields: &[(&str, &str)]| {
            let fields = [fields, &[cookie]].concat();
            access.refusal(&post("/api/stop", &fields, "")).is_some()
        };
        assert!(access.refusal(&get("/", &[host, cookie])).is_none());
        assert!(access.refusal(&get("/", &[cookie])).is_some());
        assert!(!refused(&[host, ("X-Pathbench-Token", "t")]));
        assert!(!refused(&[host, ("X-Pathbench-Token", "t"), ("Origin", "http://127.0.0.1:1")]));
        assert!(refused(&[host]));
        assert!(refused(&[host, ("X-Pathbench-Token", "u")]));
        assert!(refused(&[host, ("X-Pathbench-Token", "t"), ("Origin", "http://evil.test")]));
        assert!(refused(&[("Host", "evil.test"), ("X-Pathbench-Token", "t")]));
    }

    #[test]
    fn every_request_needs_the_key() {
        let access = access();
        let host = ("Host", "127.0.0.1:1");
        let status = |target: &str, fields: &[(&str, &str)]| {
            access.refusal(&get(target, fields)).map(|response| response.status)
        };
        assert_eq!(status("/", &[host]), Some("403 Forbidden"));
        assert_eq!(status("/?key=x", &[host]), Some("403 Forbidden"));
        assert_eq!(status("/api/state?key=k", &[host]), Some("403 Forbidden"));
        assert_eq!(status("/?key=k", &[host]), Some("303 See Other"));
        assert_eq!(status("/api/state", &[host, ("Cookie", "a=b; pathbench-1=k")]), None);
        assert_eq!(status("/api/state", &[host, ("Cookie", "pathbench-1=kk")]), Some("403 Forbidden"));
        // Of an agent at another port.
        assert_eq!(status("/api/state", &[host, ("Cookie", "pathbench-2=k")]), Some("403 Forbidden"));
    }
}
