//! The raw store in a bucket of any S3-compatible server: one object for each batch, so collectors keep no state.

use super::{IDENTITY, Randomness, RawError, RawMaintenance, RawSegment, RawStore, name_time_ms, new_name};
use crate::store::RawRange;
use pathbench_api::digest::Digest;
use pathbench_record::time::SharedClock;
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thiserror::Error;
use ureq::http::StatusCode;

/// Validity of a signature.
const SIGNED_FOR: Duration = Duration::from_secs(300);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Of one attempt, with its body.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// Pauses before the second attempt and those after it.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];
/// Of a change of an object that other collectors change at the same time.
const ERASE_ATTEMPTS: u32 = 20;
/// The largest object that a batch of raw parts makes, and the largest other answer.
const LARGEST_OBJECT: u64 = 256 << 20;
const LARGEST_ANSWER: u64 = 4 << 20;

/// A write in progress is older than this only if its database transaction is given up.
const IN_PROGRESS_MS: u64 = 2 * 3_600_000;

#[derive(Debug, Error, PartialEq, Eq)]
pub enum S3UrlError {
    #[error("`{0}` is no S3 URL: s3://BUCKET[/PREFIX][?endpoint=URL&region=REGION]")]
    Syntax(String),
    #[error("`{0}` is no endpoint: it must begin with https:// or http://")]
    Endpoint(String),
    #[error("set {0} in the environment: the credentials of the S3 server")]
    Credentials(&'static str),
}

/// Where the objects are.
#[derive(Clone)]
pub struct Location {
    bucket: Bucket,
    credentials: Credentials,
    /// Empty, or with a slash at its end.
    prefix: String,
    /// For messages.
    url: String,
}

impl Location {
    /// Parses `s3://BUCKET/PREFIX?endpoint=URL&region=REGION`; `environment` looks variables up.
    pub fn parse(url: &str, environment: impl Fn(&str) -> Option<String>) -> Result<Self, S3UrlError> {
        let syntax = || S3UrlError::Syntax(url.to_owned());
        let rest = url.strip_prefix("s3://").ok_or_else(syntax)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        let (mut endpoint, mut region) = (environment("AWS_ENDPOINT_URL"), environment("AWS_REGION"));
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').ok_or_else(syntax)? {
                ("endpoint", value) => endpoint = Some(value.to_owned()),
                ("region", value) => region = Some(value.to_owned()),
                _ => return Err(syntax()),
            }
        }
        let prefix = prefix.trim_matches('/');
        let plain = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'/'))
        };
        if bucket.is_empty() || !plain(bucket) || !plain(prefix) {
            return Err(syntax());
        }
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let wrong = || S3UrlError::Endpoint(endpoint.clone());
        let address = endpoint.parse().map_err(|_| wrong())?;
        let location =
            Bucket::new(address, UrlStyle::Path, bucket.to_owned(), region).map_err(|_| wrong())?;
        let required = |name| environment(name).ok_or(S3UrlError::Credentials(name));
        let (key, secret) = (required("AWS_ACCESS_KEY_ID")?, required("AWS_SECRET_ACCESS_KEY")?);
        let credentials = match environment("AWS_SESSION_TOKEN") {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        };
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Self { bucket: location, credentials, prefix, url: format!("s3://{path} ({endpoint})") })
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Location").field(&self.url).finish()
    }
}

#[derive(Debug)]
pub struct S3 {
    location: Location,
    clock: SharedClock,
    random: Randomness,
    agent: ureq::Agent,
    /// Unix time of the newest object of this collector.
    newest_ms: AtomicU64,
}

struct Response {
    status: StatusCode,
    etag: Option<String>,
    body: Vec<u8>,
}

/// The state of an object in which it is written (RFC 9110, section 13.1).
#[derive(Clone, Copy)]
enum Condition<'a> {
    Any,
    Absent,
    /// The object has this `ETag`.
    Unchanged(&'a str),
}

/// A request that can be sent again.
enum Request<'a> {
    Put(&'a [u8], Condition<'a>),
    /// A range, and the bytes that are accepted.
    Get(Option<String>, u64),
    Delete,
}

impl S3 {
    pub fn new(location: Location, clock: SharedClock, random: Randomness) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(ATTEMPT_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .build();
        Self { location, clock, random, agent: config.into(), newest_ms: AtomicU64::new(u64::MAX) }
    }

    fn failed(&self, problem: impl Into<String>) -> RawError {
        RawError::Failed { location: self.location(), problem: problem.into() }
    }

    fn missing(&self, segment: &str) -> RawError {
        RawError::Missing { location: self.location(), segment: segment.to_owned() }
    }

    fn key(&self, segment: &str) -> Result<String, RawError> {
        if name_time_ms(segment).is_none() {
            return Err(self.missing(segment));
        }
        Ok(format!("{}{segment}", self.location.prefix))
    }

    /// Signs and sends; a server that fails or does not answer gets the request again.
    fn send<'s, A: S3Action<'s>>(&self, action: &A, request: &Request<'_>) -> Result<Response, RawError> {
        let mut pauses = PAUSES.iter();
        loop {
            let outcome = self.attempt(action.sign(SIGNED_FOR).as_str(), request);
            let again = match &outcome {
                Ok(response) => {
                    let status = response.status;
                    status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
                        || status == StatusCode::TOO_MANY_REQUESTS
                        || status == StatusCode::CONFLICT
                }
                Err(_) => true,
            };
            match pauses.next() {
                Some(pause) if again => std::thread::sleep(*pause),
                _ => return outcome.map_err(|error| self.failed(error.to_string())),
            }
        }
    }

    fn attempt(&self, url: &str, request: &Request<'_>) -> Result<Response, ureq::Error> {
        let (mut response, limit) = match request {
            Request::Put(body, condition) => {
                let put = self.agent.put(url);
                let put = match condition {
                    Condition::Any => put,
                    Condition::Absent => put.header("If-None-Match", "*"),
                    Condition::Unchanged(etag) => put.header("If-Match", *etag),
                };
                (put.send(*body)?, LARGEST_ANSWER)
            }
            Request::Get(range, limit) => {
                let mut get = self.agent.get(url);
                if let Some(range) = range {
                    get = get.header("Range", range);
                }
                (get.call()?, *limit)
            }
            Request::Delete => (self.agent.delete(url).call()?, LARGEST_ANSWER),
        };
        // One byte more: ureq reports a body that reaches the limit as too large.
        let body = response.body_mut().with_config().limit(limit + 1).read_to_vec()?;
        let etag = response.headers().get("ETag").and_then(|etag| Some(etag.to_str().ok()?.to_owned()));
        Ok(Response { status: response.status(), etag, body })
    }

    /// Returns `false` if the object is not in the state of the condition.
    fn put(&self, key: &str, body: &[u8], condition: Condition<'_>) -> Result<bool, RawError> {
        let action = self.location.bucket.put_object(Some(&self.location.credentials), key);
        let mut response = self.send(&action, &Request::Put(body, condition))?;
        if response.status == StatusCode::NOT_IMPLEMENTED {
            // A server that knows no conditions.
            response = self.send(&action, &Request::Put(body, Condition::Any))?;
        }
        if response.status == StatusCode::PRECONDITION_FAILED {
            return Ok(false);
        }
        // Of `If-Match`, if the object is gone.
        if response.status == StatusCode::NOT_FOUND && matches!(condition, Condition::Unchanged(_)) {
            return Ok(false);
        }
        self.expect_success(&response).map(|()| true)
    }

    /// Returns `false` if another collector changed the object meanwhile: its erased parts must not come back.
    fn erase_in_object(&self, key: &str, ranges: &[&RawRange]) -> Result<bool, RawError> {
        let Some(Response { mut body, etag, .. }) = self.get(key, None, LARGEST_OBJECT)? else {
            return Ok(true);
        };
        let mut changed = false;
        for range in ranges {
            let begin = usize::try_from(range.offset).unwrap_or(usize::MAX);
            let end = begin.saturating_add(usize::try_from(range.bytes).unwrap_or(usize::MAX));
            let (begin, end) = (begin.min(body.len()), end.min(body.len()));
            changed |= body[begin..end].iter().any(|byte| *byte != 0);
            body[begin..end].fill(0);
        }
        let condition = etag.as_deref().map_or(Condition::Any, Condition::Unchanged);
        Ok(!changed || self.put(key, &body, condition)?)
    }

    /// `None`: there is no such object.
    fn get(&self, key: &str, range: Option<String>, limit: u64) -> Result<Option<Response>, RawError> {
        let action = self.location.bucket.get_object(Some(&self.location.credentials), key);
        let response = self.send(&action, &Request::Get(range, limit))?;
        if response.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        self.expect_success(&response)?;
        Ok(Some(response))
    }

    fn expect_success(&self, response: &Response) -> Result<(), RawError> {
        if response.status.is_success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&response.body);
        let code = element(&text, "Code").unwrap_or_default();
        let full = response.status == StatusCode::INSUFFICIENT_STORAGE
            || code.contains("StorageFull")
            || code.contains("QuotaExceeded");
        if full {
            return Err(RawError::Full { location: self.location() });
        }
        let code: String = code.chars().filter(char::is_ascii_graphic).take(64).collect();
        Err(self.failed(format!("the server answers {} {code}", response.status.as_u16())))
    }
}

/// The text of the first such element of an XML document.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

impl RawStore for S3 {
    fn append(&self, parts: &[&[u8]]) -> Result<Vec<RawRange>, RawError> {
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let now_ms = self.clock.unix_ms();
        let segment = new_name(now_ms, (self.random)());
        self.newest_ms.store(now_ms, Ordering::SeqCst);
        let body = parts.concat();
        // A repeated PUT writes the same object: only this batch has its name.
        self.put(&self.key(&segment)?, &body, Condition::Any)?;
        let mut offset = 0;
        let range = |part: &&[u8]| {
            let bytes = part.len() as u64;
            let range = RawRange { segment: segment.clone(), offset, bytes, digest: Digest::compute(part) };
            offset += bytes;
            range
        };
        Ok(parts.iter().map(range).collect())
    }

    fn read(&self, range: &RawRange) -> Result<Vec<u8>, RawError> {
        let key = self.key(&range.segment)?;
        if range.bytes == 0 {
            return Ok(Vec::new());
        }
        let last = range.offset.saturating_add(range.bytes - 1);
        let bytes = format!("bytes={}-{last}", range.offset);
        let part =
            self.get(&key, Some(bytes), range.bytes)?.ok_or_else(|| self.missing(&range.segment))?.body;
        if Digest::compute(&part) == range.digest {
            return Ok(part);
        }
        Err(RawError::Damaged {
            location: self.location(),
            segment: range.segment.clone(),
            offset: range.offset,
        })
    }

    /// Rewrites the object. Objects without any other result are better removed.
    fn erase(&self, ranges: &[RawRange]) -> Result<(), RawError> {
        let mut sorted: Vec<&RawRange> = ranges.iter().collect();
        sorted.sort_by_key(|range| (&range.segment, range.offset));
        for group in sorted.chunk_by(|a, b| a.segment == b.segment) {
            let key = self.key(&group[0].segment)?;
            let mut attempts = 0..ERASE_ATTEMPTS;
            while !self.erase_in_object(&key, group)? {
                attempts
                    .next()
                    .ok_or_else(|| self.failed("other collectors change an object all the time"))?;
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), RawError> {
        self.put(&format!("{}check", self.location.prefix), b"check", Condition::Any).map(drop)
    }
}

impl RawMaintenance for S3 {
    fn segments(&self) -> Result<Vec<RawSegment>, RawError> {
        let mut segments = Vec::new();
        let mut continuation: Option<String> = None;
        loop {
            let mut action = self.location.bucket.list_objects_v2(Some(&self.location.credentials));
            action.with_prefix(self.location.prefix.as_str());
            if let Some(token) = continuation {
                action.with_continuation_token(token);
            }
            let response = self.send(&action, &Request::Get(None, LARGEST_ANSWER))?;
            self.expect_success(&response)?;
            let text = String::from_utf8_lossy(&response.body);
            let page = ListObjectsV2::parse_response(&text)
                .map_err(|_| self.failed("the server's list of objects is not readable"))?;
            for object in page.contents {
                let name = object.key.strip_prefix(&self.location.prefix);
                if let Some((name, made_ms)) = name.and_then(|name| Some((name, name_time_ms(name)?))) {
                    segments.push(RawSegment { name: name.to_owned(), bytes: object.size, made_ms });
                }
            }
            continuation = page.next_continuation_token.filter(|token| !token.is_empty());
            if continuation.is_none() {
                break;
            }
        }
        segments.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(segments)
    }

    fn sealed_before_ms(&self) -> u64 {
        let before_ms = self.clock.unix_ms().saturating_sub(IN_PROGRESS_MS);
        before_ms.min(self.newest_ms.load(Ordering::SeqCst))
    }

    fn remove(&self, segment: &str) -> Result<(), RawError> {
        let key = self.key(segment)?;
        let action = self.location.bucket.delete_object(Some(&self.location.credentials), &key);
        let response = self.send(&action, &Request::Delete)?;
        if response.status == StatusCode::NOT_FOUND { Ok(()) } else { self.expect_success(&response) }
    }

    fn copy(&self, segment: &str, to: &mut dyn Write) -> Result<(), RawError> {
        let body = self.get(&self.key(segment)?, None, LARGEST_OBJECT)?;
        let body = body.ok_or_else(|| self.missing(segment))?.body;
        to.write_all(&body).map_err(|error: io::Error| self.failed(error.to_string()))
    }

    fn location(&self) -> String {
        self.location.url.clone()
    }

    fn identity(&self) -> Result<Option<String>, RawError> {
        let found = self.get(&format!("{}{IDENTITY}", self.location.prefix), None, LARGEST_ANSWER)?;
        Ok(found.map(|found| String::from_utf8_lossy(&found.body).trim().to_owned()))
    }

    fn set_identity(&self, identity: &str) -> Result<(), RawError> {
        let key = format!("{}{IDENTITY}", self.location.prefix);
        self.put(&key, identity.as_bytes(), Condition::Absent).map(drop)
    }
}
