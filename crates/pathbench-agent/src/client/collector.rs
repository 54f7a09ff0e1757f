//! HTTP requests to a collector. Every request has a deadline and every answer a largest size, independent of the
//! collector; redirects are not followed, because a token would go with them.

use super::address::CollectorAddress;
use super::pinned;
use pathbench_api::problem::{BatchAnswer, Problem};
use pathbench_program::exit::{Exit, Failure};
use pathbench_record::file;
use pathbench_record::text::printable;
use pathbench_transport::CertificateFingerprint;
use rustls::crypto::ring;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use thiserror::Error;
use ureq::config::Config;
use ureq::http::{Method, Request, Response};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Body};

const CONNECT: Duration = Duration::from_secs(10);
/// Deadline of a whole request, with its answer.
const REQUEST: Duration = Duration::from_secs(30);
/// Deadline of a batch, as long as a collector waits for its body: 16 MiB at 1 Mbit/s.
const BATCH: Duration = Duration::from_secs(180);
/// Largest answer to any request.
const ANSWER_BYTES: u64 = 1 << 20;
const HEADER_BYTES: usize = 16 << 10;
/// Characters of a collector's message that a user sees.
const MESSAGE: usize = 300;

#[derive(Debug, Error)]
pub enum CollectorError {
    #[error("cannot reach the collector at {url}: {problem}")]
    Unreachable { url: String, problem: String },
    #[error("{url} is not a Pathbench collector: {problem}")]
    Answer { url: String, status: Option<u16>, problem: String },
    #[error("the collector at {url} rejects the request ({status}): {problem}")]
    Refused { url: String, status: u16, problem: String },
    #[error("the collector at {url} is busy ({status}): {problem}")]
    Busy { url: String, status: u16, problem: String, retry_after: Option<Duration> },
}

impl CollectorError {
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl From<CollectorError> for Failure {
    fn from(error: CollectorError) -> Self {
        let exit = match error {
            CollectorError::Unreachable { .. } | CollectorError::Answer { .. } => Exit::Unreachable,
            CollectorError::Refused { .. } | CollectorError::Busy { .. } => Exit::Refused,
        };
        Self { exit, message: error.to_string() }
    }
}

#[derive(Debug, Clone)]
pub struct CollectorClient {
    pub address: CollectorAddress,
    token: Arc<RwLock<Option<String>>>,
    agent: Agent,
}

impl CollectorClient {
    /// `ca` is a PEM file with the CA of the collector's certificate; without it the public CAs count.
    pub fn new(address: CollectorAddress, token: Option<String>, ca: Option<&Path>) -> Result<Self, Failure> {
        let roots = match ca {
            Some(file) => authorities(file)?,
            None => RootCerts::WebPki,
        };
        if let Some(token) = &token
            && !token.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(Failure::bad_input(
                "--collector-token: a token has no spaces and no control characters",
            ));
        }
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(roots)
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build();
        let agent = Self::configuration(tls).into();
        Ok(Self { address, token: Arc::new(RwLock::new(token)), agent })
    }

    /// The same collector, with the only certificate that it may have.
    pub fn pinned(self, fingerprint: CertificateFingerprint) -> Result<Self, Failure> {
        let wrong = |problem: &str| Failure::bad_input(format!("--collector-fingerprint: {problem}"));
        if !self.address.is_encrypted() {
            return Err(wrong("only a collector with https:// has a certificate"));
        }
        let agent = pinned::agent(Self::configuration(TlsConfig::default()), fingerprint)
            .map_err(|problem| wrong(&problem))?;
        Ok(Self { agent, ..self })
    }

    fn configuration(tls: TlsConfig) -> Config {
        Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_response_header_size(HEADER_BYTES)
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(REQUEST))
            .user_agent(concat!("pathbench/", env!("CARGO_PKG_VERSION")))
            .build()
    }

    /// Another credential for the same collector.
    pub fn with_token(&self, token: String) -> Self {
        Self { token: Arc::new(RwLock::new(Some(token))), ..self.clone() }
    }

    pub(crate) fn token(&self) -> Option<String> {
        self.token.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends this credential from now on.
    pub(crate) fn replace_token(&self, token: String) {
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = Some(token);
    }

    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CollectorError> {
        let answer = self.json(Method::POST, path, body)?;
        self.parse(path, &answer)
    }

    pub fn put(&self, path: &str, body: &impl Serialize) -> Result<(), CollectorError> {
        self.json(Method::PUT, path, body).map(drop)
    }

    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, CollectorError> {
        let answer = self.send(Method::DELETE, path, &[], &[], REQUEST)?;
        self.parse(path, &answer)
    }

    fn json(&self, method: Method, path: &str, body: &impl Serialize) -> Result<Vec<u8>, CollectorError> {
        let body = serde_json::to_vec(body).map_err(|error| self.no_answer(path, &error))?;
        let headers = [("Content-Type", "application/json")];
        self.send(method, path, &headers, &body, REQUEST)
    }

    /// Posts NDJSON, compressed. An answer about lines is one also if no line was accepted, which is then its status.
    pub(crate) fn post_lines(&self, path: &str, lines: &[u8]) -> Result<BatchAnswer, CollectorError> {
        let body = compress_to_vec(lines, CompressionLevel::Fastest);
        let headers = [("Content-Type", "application/x-ndjson"), ("Content-Encoding", "zstd")];
        let (response, answer) = self.exchange(Method::POST, path, &headers, &body, BATCH)?;
        if matches!(response.status().as_u16(), 409 | 410 | 413 | 422 | 507)
            && let Ok(batch) = serde_json::from_slice::<BatchAnswer>(&answer)
        {
            return Ok(batch);
        }
        let answer = self.check_status(path, &response, answer)?;
        self.parse(path, &answer)
    }

    fn parse<T: DeserializeOwned>(&self, path: &str, answer: &[u8]) -> Result<T, CollectorError> {
        serde_json::from_slice(answer).map_err(|error| self.no_answer(path, &error))
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        time: Duration,
    ) -> Result<Vec<u8>, CollectorError> {
        let (response, answer) = self.exchange(method, path, headers, body, time)?;
        self.check_status(path, &response, answer)
    }

    /// The answer with its bytes, of any status.
    fn exchange(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        time: Duration,
    ) -> Result<(Response<Body>, Vec<u8>), CollectorError> {
        let url = self.address.url(path);
        let unreachable = |error: &dyn std::fmt::Display| CollectorError::Unreachable {
            url: self.address.to_string(),
            problem: printable(&error.to_string(), MESSAGE),
        };
        let mut request = Request::builder().method(method).uri(url).header("Accept", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = self.token() {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let request = request.body(body).map_err(|error| unreachable(&error))?;
        let request = self.agent.configure_request(request).timeout_global(Some(time)).build();
        let mut response = self.agent.run(request).map_err(|error| unreachable(&error))?;
        let limited = response.body_mut().with_config().limit(ANSWER_BYTES);
        let answer = limited.read_to_vec().map_err(|error| self.no_answer(path, &error))?;
        tracing::info!(
            path,
            status = response.status().as_u16(),
            bytes = answer.len(),
            "answer of the collector"
        );
        Ok((response, answer))
    }

    fn check_status(
        &self,
        path: &str,
        response: &Response<Body>,
        answer: Vec<u8>,
    ) -> Result<Vec<u8>, CollectorError> {
        let status = response.status();
        if status.is_success() {
            return Ok(answer);
        }
        let url = self.address.to_string();
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let own = serde_json::from_slice::<Problem>(&answer).ok();
        let own = own.filter(|problem| problem.status == status.as_u16());
        let is_own = own.is_some();
        let problem = match own {
            Some(problem) => printable(&problem.error, MESSAGE),
            None if status.is_redirection() => {
                let location = printable(header("location").unwrap_or("another server"), MESSAGE);
                format!("it redirects to {location}; give the URL of the collector itself")
            }
            None => status.canonical_reason().unwrap_or("no reason given").to_owned(),
        };
        match status.as_u16() {
            404 | 405 => Err(self.no_answer(path, &format_args!("{status}; check the URL"))),
            // Of a proxy with a limit, or of another server.
            code @ (400 | 413 | 422) if !is_own => {
                let problem = format!(
                    "{path}: {status}; check the URL, and the limits of the proxies before the collector"
                );
                Err(CollectorError::Answer { url, status: Some(code), problem })
            }
            status @ (408 | 425 | 429 | 500..=599) => {
                let retry_after = header("retry-after").and_then(|text| text.trim().parse().ok());
                let retry_after = retry_after.map(Duration::from_secs);
                Err(CollectorError::Busy { url, status, problem, retry_after })
            }
            status => Err(CollectorError::Refused { url, status, problem }),
        }
    }

    fn no_answer(&self, path: &str, problem: &dyn std::fmt::Display) -> CollectorError {
        let problem = printable(&format!("{path}: {problem}"), MESSAGE);
        CollectorError::Answer { url: self.address.to_string(), status: None, problem }
    }
}

fn authorities(file: &Path) -> Result<RootCerts, Failure> {
    let wrong = |problem: &dyn std::fmt::Display| {
        Failure::bad_input(format!("--collector-ca {}: {problem}", file.display()))
    };
    let text = file::read_named(file, file::SMALL_FILE_BYTES).map_err(|error| wrong(&error))?;
    let mut certificates: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| wrong(&error))? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(wrong(&"it holds no certificate; give a PEM file"));
    }
    Ok(RootCerts::Specific(Arc::new(certificates)))
}
