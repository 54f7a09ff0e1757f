//! The local page: choose a server and a mode, start and stop, the chart of the running measurement, results, consent.
//!
//! Any page in the user's browser can send requests to a local address. So each request must name this host by an address
//! or as `localhost` (DNS rebinding), and each change needs a token that only this page knows. Beyond the loopback
//! interface every request also needs the key in the URL that the agent prints.

use super::history;
use super::state::{Choice, Order, Shared, State};
use crate::collector::Settings;
use crate::exit::Failure;
use crate::random;
use crate::responder::{Request, Responder, Response};
use data_encoding::HEXLOWER;
use pathbench_api::consent::Consent;
use pathbench_record::text::printable;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const HTML: &str = include_str!("ui/page.html");
const SCRIPT: &str = include_str!("ui/page.js");
const STYLE: &str = include_str!("ui/page.css");
/// Replaced in the page.
const CSRF_PLACE: &str = "{{csrf}}";

/// A report of many runs has megabytes.
const TIME: Duration = Duration::from_secs(15);
const REPORT_BYTES: u64 = 64 << 20;
const COOKIE: &str = "pathbench";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// A report brings its own policy; it must not reach this page.
const REPORT_POLICY: &str =
    "sandbox allow-scripts allow-popups allow-downloads; connect-src 'none'; frame-ancestors 'none'";

pub(crate) struct Page {
    pub(crate) url: String,
    _responder: Responder,
}

struct Access {
    csrf: String,
    /// Beyond the loopback interface.
    key: Option<String>,
}

struct Service {
    access: Access,
    shared: Arc<Shared>,
    results: PathBuf,
}

pub(crate) fn start(address: SocketAddr, shared: &Arc<Shared>, results: PathBuf) -> Result<Page, Failure> {
    let secret = || HEXLOWER.encode(&random::bytes::<16>());
    let key = (!address.ip().is_loopback()).then(secret);
    let access = Access { csrf: secret(), key: key.clone() };
    let service = Service { access, shared: Arc::clone(shared), results };
    let responder = Responder::start(address, "the page", TIME, move |request| service.answer(request))?;
    let address = responder.address();
    let url = match key {
        None => format!("http://{address}/"),
        Some(key) => format!("http://{address}/?key={key}"),
    };
    Ok(Page { url, _responder: responder })
}

impl Access {
    /// The refusal of a request that must not be answered.
    fn refusal(&self, request: &Request) -> Option<Response> {
        let refused = |status, error: &str| Some(Response::json(status, &json!({ "error": error })));
        if !request.field("host").is_some_and(is_own_name) {
            return refused("403 Forbidden", "open this page by its address or as localhost");
        }
        if let Some(key) = &self.key
            && !has_cookie(request, key)
        {
            if request.path == "/" && request.query == format!("key={key}") {
                let mut response = Response::new("303 See Other", "text/plain", "");
                let cookie = format!("{COOKIE}={key}; HttpOnly; SameSite=Strict; Path=/");
                response.fields = vec![("Location", "/".to_owned()), ("Set-Cookie", cookie)];
                return Some(response);
            }
            return refused("403 Forbidden", "open this page with the URL that the agent printed");
        }
        if request.is_read() {
            return None;
        }
        if request.method != "POST" {
            return Some(Response::method_not_allowed());
        }
        let own = request.field("host").map(|host| format!("http://{host}"));
        let is_foreign = request.field("origin").is_some_and(|origin| Some(origin) != own.as_deref());
        if is_foreign || request.field("x-pathbench-token") != Some(self.csrf.as_str()) {
            return refused("403 Forbidden", "reload the page");
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
                let page = HTML.replace(CSRF_PLACE, &self.access.csrf);
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
                Response::json("200 OK", &json!({}))
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
        self.shared.with(|state| document(state, settings.as_ref()))
    }

    fn report(&self, name: &str) -> Response {
        let file = history::report(&self.results, name);
        let fits = |file: &PathBuf| fs::metadata(file).is_ok_and(|metadata| metadata.len() <= REPORT_BYTES);
        match file.filter(fits).and_then(|file| fs::read(file).ok()) {
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
            return bad("not a measurement");
        };
        let given = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let address = given(address).filter(|address| address.len() <= 255);
        let server = match (given(offered), address) {
            (Some(name), _) => Choice::Offered { name },
            (None, Some(address)) => {
                Choice::Own { address, fingerprint: given(fingerprint), token: given(token) }
            }
            (None, None) => return bad("choose a server, or write its address"),
        };
        let order = Order { mobile, server };
        let is_free = self.shared.with(|state| {
            let is_free = state.measurement.is_none() && state.order.is_none();
            if is_free {
                state.order = Some(order);
                state.last = None;
            }
            is_free
        });
        if is_free {
            Response::json("200 OK", &json!({}))
        } else {
            Response::json("409 Conflict", &json!({ "error": "a measurement runs already" }))
        }
    }

    fn consent(&self, body: &[u8]) -> Response {
        #[derive(Deserialize)]
        struct Decision {
            consent: Consent,
        }
        let Ok(Decision { consent }) = serde_json::from_slice(body) else {
            return bad("none, private or public?");
        };
        match self.shared.decide(consent) {
            Ok(()) => Response::json("200 OK", &json!({})),
            Err(failure) => Response::json("500 Internal Server Error", &json!({ "error": failure.message })),
        }
    }
}

fn bad(error: &str) -> Response {
    Response::json("400 Bad Request", &json!({ "error": error }))
}

/// Whether a `Host` field is an address or `localhost`, with any port.
fn is_own_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn has_cookie(request: &Request, key: &str) -> bool {
    let cookies = request.field("cookie").unwrap_or_default().split(';').map(str::trim);
    cookies.filter_map(|cookie| cookie.split_once('=')).any(|(name, value)| name == COOKIE && value == key)
}

/// The state for the page, without tokens.
fn document(state: &State, settings: Option<&Settings>) -> Value {
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

    fn access(key: Option<&str>) -> Access {
        Access { csrf: "t".to_owned(), key: key.map(str::to_owned) }
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
        let access = access(None);
        let host = ("Host", "127.0.0.1:1");
        let refused =
            |fields: &[(&str, &str)]| access.refusal(&Request::post("/api/stop", fields, "")).is_some();
        assert!(access.refusal(&Request::get("/", &[host])).is_none());
        assert!(access.refusal(&Request::get("/", &[])).is_some());
        assert!(!refused(&[host, ("X-Pathbench-Token", "t")]));
        assert!(!refused(&[host, ("X-Pathbench-Token", "t"), ("Origin", "http://127.0.0.1:1")]));
        assert!(refused(&[host]));
        assert!(refused(&[host, ("X-Pathbench-Token", "u")]));
        assert!(refused(&[host, ("X-Pathbench-Token", "t"), ("Origin", "http://evil.test")]));
        assert!(refused(&[("Host", "evil.test"), ("X-Pathbench-Token", "t")]));
    }

    #[test]
    fn beyond_the_loopback_interface_a_key_is_needed() {
        let access = access(Some("k"));
        let host = ("Host", "192.0.2.7:1");
        let status = |target: &str, fields: &[(&str, &str)]| {
            access.refusal(&Request::get(target, fields)).map(|response| response.status)
        };
        assert_eq!(status("/", &[host]), Some("403 Forbidden"));
        assert_eq!(status("/?key=x", &[host]), Some("403 Forbidden"));
        assert_eq!(status("/api/state?key=k", &[host]), Some("403 Forbidden"));
        assert_eq!(status("/?key=k", &[host]), Some("303 See Other"));
        assert_eq!(status("/api/state", &[host, ("Cookie", "a=b; pathbench=k")]), None);
        assert_eq!(status("/api/state", &[host, ("Cookie", "pathbench=kk")]), Some("403 Forbidden"));
    }
}
