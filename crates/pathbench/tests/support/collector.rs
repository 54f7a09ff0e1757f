//! A small collector for tests, honest or hostile, which keeps what it gets.

use super::within;
use pathbench_api::problem::{BatchAnswer, LineAnswer, LineStatus};
use pathbench_api::submission::Submission;
use pathbench_api::{Uuid, digest::Digest};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use ruzstd::decoding::StreamingDecoder;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How it behaves to `POST /v1/results`, and with `Huge`, `Closing`, `Silent` and `Garbage` to every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Manner {
    Honest,
    /// 503 with this `Retry-After`.
    Busy(u64),
    /// 507 for each line.
    Full,
    /// This status for each line.
    Answers(LineStatus),
    /// Acknowledges ids that were not sent.
    OtherIds,
    /// An empty list of answers.
    NoAnswers,
    Unauthorised,
    Redirecting,
    /// A proxy that answers bodies of more bytes itself, with this status.
    Proxy(&'static str, usize),
    /// An answer without end.
    Huge,
    /// A header without end.
    HugeHeader,
    /// Closes each connection after the request.
    Closing,
    /// Of a version before check-ins listed patterns.
    Earlier,
    /// Never answers.
    Silent,
    Garbage,
}

#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) token: Option<String>,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug)]
struct State {
    manner: Manner,
    requests: Vec<Received>,
    stored: BTreeMap<Uuid, Vec<u8>>,
    check_in: Value,
}

#[derive(Debug, Clone)]
pub(crate) struct FakeCollector {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl FakeCollector {
    pub(crate) fn start(manner: Manner) -> Self {
        Self::listen(manner, None)
    }

    /// Over TLS.
    pub(crate) fn start_encrypted(manner: Manner, tls: ServerConfig) -> Self {
        Self::listen(manner, Some(Arc::new(tls)))
    }

    fn listen(manner: Manner, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let check_in = json!({
            "version": "0", "now_ms": 0, "servers": [], "experiments": [], "next_s": 60, "privacy": "/v1/privacy"
        });
        let state = State { manner, requests: Vec::new(), stored: BTreeMap::new(), check_in };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (shared, tls) = (Arc::clone(&shared), tls.clone());
                std::thread::spawn(move || {
                    let stream = stream.unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                    match tls {
                        None => serve(stream, &shared),
                        Some(tls) => {
                            let connection = ServerConnection::new(tls).unwrap();
                            serve(StreamOwned::new(connection, stream), &shared)
                        }
                    }
                });
            }
        });
        Self { url, state }
    }

    pub(crate) fn set(&self, manner: Manner) {
        self.state.lock().unwrap().manner = manner;
    }

    /// The answer to a check-in.
    pub(crate) fn offer(&self, servers: &Value, experiments: &Value) {
        let mut state = self.state.lock().unwrap();
        state.check_in["servers"] = servers.clone();
        state.check_in["experiments"] = experiments.clone();
    }

    pub(crate) fn check_in_again_in(&self, seconds: u32) {
        self.state.lock().unwrap().check_in["next_s"] = seconds.into();
    }

    pub(crate) fn requests(&self, path: &str) -> Vec<Received> {
        let state = self.state.lock().unwrap();
        state.requests.iter().filter(|one| one.path.starts_with(path)).cloned().collect()
    }

    /// The stored lines.
    pub(crate) fn lines(&self) -> Vec<Vec<u8>> {
        self.state.lock().unwrap().stored.values().cloned().collect()
    }

    pub(crate) fn stored(&self) -> Vec<Submission> {
        self.lines().iter().map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, results: usize) {
        assert!(within(Duration::from_secs(60), || self.lines().len() >= results), "{:?}", self.requests(""));
    }
}

fn serve(mut stream: impl Read + Write, shared: &Mutex<State>) -> Option<()> {
    let request = read(&mut stream)?;
    let (manner, check_in) = {
        let mut state = shared.lock().unwrap();
        state.requests.push(request.clone());
        (state.manner.clone(), state.check_in.clone())
    };
    let answer = match manner {
        Manner::Closing => return None,
        Manner::Silent => {
            std::thread::sleep(Duration::from_secs(120));
            return None;
        }
        Manner::Huge => return flood(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"),
        Manner::HugeHeader => return flood(&mut stream, b"HTTP/1.1 200 OK\r\nX: "),
        Manner::Garbage => "\u{1b}[31mnonsense\r\n\r\n".to_owned(),
        Manner::Unauthorised => problem("401 Unauthorized", "", "no such token"),
        Manner::Redirecting => {
            "HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                .to_owned()
        }
        Manner::Proxy(status, most) if request.body.len() > most => {
            format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\nConnection: close\r\n\r\n<p>\n")
        }
        manner => match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/v1/results") => results(&manner, &request.body, shared),
            ("POST", "/v1/check-in") if manner == Manner::Earlier && lists_patterns(&request.body) => {
                problem("422 Unprocessable Entity", "", "the body: unknown field `patterns`")
            }
            ("POST", "/v1/check-in") => good(&check_in),
            ("DELETE", "/v1/results") => delete(&request.token.unwrap_or_default(), shared),
            ("PUT", path) if path.starts_with("/v1/live/") || path.starts_with("/v1/servers/") => good(&json!({})),
            _ => problem("404 Not Found", "", "not here"),
        },
    };
    stream.write_all(answer.as_bytes()).and_then(|()| stream.flush()).ok()
}

fn lists_patterns(check_in: &[u8]) -> bool {
    serde_json::from_slice::<Value>(check_in).unwrap().get("patterns").is_some()
}

fn flood(stream: &mut impl Write, head: &[u8]) -> Option<()> {
    stream.write_all(head).ok()?;
    let spaces = vec![b' '; 65_536];
    // Until the client has had enough.
    for _ in 0..100_000 {
        stream.write_all(&spaces).ok()?;
    }
    None
}

fn good(document: &Value) -> String {
    response(200, document)
}

fn response(code: u16, document: &Value) -> String {
    let body = document.to_string();
    format!(
        "HTTP/1.1 {code} Status\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn problem(status: &str, fields: &str, error: &str) -> String {
    let code: u16 = status[..3].parse().unwrap();
    let body = json!({ "status": code, "error": error, "retryable": code == 503 }).to_string();
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

fn results(manner: &Manner, body: &[u8], shared: &Mutex<State>) -> String {
    if let Manner::Busy(seconds) = manner {
        return problem("503 Service Unavailable", &format!("Retry-After: {seconds}\r\n"), "full queue");
    }
    let mut text = Vec::new();
    StreamingDecoder::new(body).unwrap().read_to_end(&mut text).unwrap();
    let mut answer = BatchAnswer::default();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for (line, number) in lines.zip(1_u32..) {
        let checked = Submission::check(line, u64::MAX / 4).unwrap();
        let id = checked.submission.id;
        let mut state = shared.lock().unwrap();
        let status = match (manner, state.stored.get(&id)) {
            (Manner::Answers(status), _) => *status,
            (Manner::OtherIds | Manner::NoAnswers, _) | (_, None) => LineStatus::Created,
            (_, Some(known)) if Digest::compute(known) == checked.digest => LineStatus::Known,
            (_, Some(_)) => LineStatus::Conflict,
        };
        let shown = if *manner == Manner::OtherIds { Uuid::from_bytes([7; 16]) } else { id };
        if *manner == Manner::Full {
            answer.results.push(LineAnswer::without_space(number, Some(id), "no space".to_owned()));
        } else if *manner != Manner::NoAnswers {
            answer.results.push(LineAnswer::new(number, Some(shown), status, None));
        }
        if matches!(manner, Manner::Honest | Manner::Proxy(..)) && status == LineStatus::Created {
            state.stored.insert(id, line.to_vec());
        }
    }
    // As the real one: the status is that of all lines if they have one.
    let first = answer.results.first().map_or(200, |one| one.code);
    let code = if answer.results.iter().all(|one| one.code == first) { first } else { 200 };
    response(code, &serde_json::to_value(&answer).unwrap())
}

fn delete(token: &str, shared: &Mutex<State>) -> String {
    let digest = Digest::compute(token.as_bytes()).to_string();
    let mut state = shared.lock().unwrap();
    let before = state.stored.len();
    state.stored.retain(|_, line| {
        let line: Value = serde_json::from_slice(line).unwrap();
        line["deletion_sha256"] != digest.as_str()
    });
    good(&json!({ "deleted": before - state.stored.len() }))
}

fn read(stream: &mut impl Read) -> Option<Received> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 65_536];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        match stream.read(&mut buffer).ok()? {
            0 => return None,
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let field = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    let length: usize = field("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        match stream.read(&mut buffer).ok()? {
            0 => return None,
            count => body.extend_from_slice(&buffer[..count]),
        }
    }
    let mut words = head.split(' ');
    Some(Received {
        method: words.next()?.to_owned(),
        path: words.next()?.to_owned(),
        token: field("authorization").map(|text| text.trim_start_matches("Bearer ").to_owned()),
        body,
    })
}
