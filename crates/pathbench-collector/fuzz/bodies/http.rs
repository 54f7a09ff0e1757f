//! Any request to the collector: no panic, no status 500, an end in bounded time, and a described problem.

use super::input::{Input, changed};
use super::memory::{MemoryDatabase, MemoryRawStore};
use super::{NOW_MS, SUBMISSION};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use pathbench_api::name::Name;
use pathbench_api::problem::Problem;
use pathbench_api::token::{Audience, TokenKey};
use pathbench_collector::columns::Columns;
use pathbench_collector::http::access::{Gate, SubmitAccess};
use pathbench_collector::http::limits::{Quotas, RateLimit};
use pathbench_collector::http::ready::Readiness;
use pathbench_collector::http::{App, Metrics, Peer, router};
use pathbench_collector::ingest::{Writer, WriterOptions};
use pathbench_collector::keys::Keys;
use pathbench_collector::log::Log;
use pathbench_collector::memory::MemoryBudget;
use pathbench_collector::raw::RawStore;
use pathbench_collector::reader::{ResultReader, load};
use pathbench_collector::store::Database;
use pathbench_collector::turn::Turns;
use pathbench_record::time::SharedClock;
use pathbench_testkit::FixedClock;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

const ID: &str = "019a2115-3000-7000-8000-000000000001";
const PATHS: [&str; 30] = [
    "/",
    "/charts",
    "/charts/gain",
    "/results",
    "/results/019a2115-3000-7000-8000-000000000001",
    "/results/019a2115-3000-7000-8000-000000000001/report",
    "/live",
    "/servers",
    "/about",
    "/assets/live.js",
    "/v1/results",
    "/v1/results.csv",
    "/v1/results.parquet",
    "/v1/results/019a2115-3000-7000-8000-000000000001",
    "/v1/results/019a2115-3000-7000-8000-000000000001/raw",
    "/v1/charts",
    "/v1/charts/usage-by-operator.svg",
    "/v1/charts/max-delay.json",
    "/v1/live",
    "/v1/live/00000000-0000-4000-8000-000000000007",
    "/v1/check-in",
    "/v1/servers/nyc",
    "/v1/privacy",
    "/v1/openapi.json",
    "/v1/admin/experiments/hourly",
    "/v1/admin/servers/nyc",
    "/v1/admin/tokens",
    "/v1/admin/results/019a2115-3000-7000-8000-000000000001",
    "/metrics",
    "/ready",
];
const METHODS: [&str; 8] = ["GET", "GET", "GET", "PUT", "POST", "DELETE", "HEAD", "PATCH"];
const QUERY: [&str; 16] = [
    "transport=tcp",
    "transport=quic&transport=mptcp",
    "limit=1",
    "limit=0",
    "cursor=1",
    "cursor=18446744073709551615",
    "since=2026-11-01",
    "until=9999-12-31",
    "since=-1",
    "q=test",
    "q=%ff%00",
    "operator=Example",
    "mode=lab",
    "network=wifi",
    "agent=00000000-0000-4000-8000-000000000007",
    "since=4294967295",
];

struct Collector {
    app: Arc<App>,
    router: Router,
    runtime: Runtime,
    admin: String,
    server: String,
    requests: usize,
}

/// A new collector takes the place of one with many results.
const MOST_REQUESTS: usize = 3_000;
static COLLECTOR: Mutex<Option<Collector>> = Mutex::new(None);
static PANICS: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn run(bytes: &[u8]) {
    let mut held = COLLECTOR.lock().unwrap_or_else(PoisonError::into_inner);
    if held.as_ref().is_none_or(|collector| collector.requests >= MOST_REQUESTS) {
        *held = Some(Collector::new());
    }
    let collector = held.as_mut().expect("a collector");
    let mut input = Input::new(bytes);
    for _ in 0..=input.below(3) {
        collector.requests += 1;
        collector.request(&mut input);
    }
}

impl Collector {
    fn new() -> Self {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            before(panic);
        }));
        let (database, raw): (Arc<dyn Database>, Arc<dyn RawStore>) =
            (Arc::new(MemoryDatabase::default()), Arc::new(MemoryRawStore::default()));
        let clock: SharedClock = Arc::new(FixedClock::from_unix(NOW_MS / 1_000));
        let reader = ResultReader::new(
            Arc::clone(&database),
            Arc::clone(&raw),
            Arc::new(RwLock::new(Columns::default())),
            Arc::clone(&clock),
        );
        let keys = Keys::new([7; 32]);
        let name = Name::new("nyc").expect("a name");
        let (now, hour) = (NOW_MS / 1000, Duration::from_secs(3600));
        let key = keys.register(database.as_ref(), &name, None, NOW_MS).expect("a key");
        let key = TokenKey::from_text(&key).expect("a key");
        let server = key.mint(Audience::Server, &name, [7; 8], now, hour).expect("a token");
        let admin = keys.mint(Audience::Administration, &name, now, hour).expect("a token");
        let bodies = Turns::new(4, 2, Arc::clone(&clock));
        let app = Arc::new(App {
            writer: Writer::start(Arc::clone(&database), Arc::clone(&raw), WriterOptions::default())
                .expect("a thread"),
            database,
            raw,
            reader: Arc::new(reader),
            log: Log::new(Arc::clone(&clock), std::io::sink()),
            metrics: Arc::new(Metrics::new(clock.as_ref())),
            clock,
            gate: Gate::new(keys, SubmitAccess::Open),
            rate: RateLimit::new(0),
            quotas: Quotas::new(0, 0, 0),
            reserve: None,
            most_results: u64::MAX,
            memory: MemoryBudget::new(64 << 20),
            bodies,
            operator: Some("<b>\u{202e}".to_owned()),
            retention: None,
            is_loaded: AtomicBool::new(true),
            readiness: Readiness::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(4)
            .build()
            .expect("a runtime");
        Self { router: router(Arc::clone(&app)), app, runtime, admin, server, requests: 0 }
    }

    fn request(&self, input: &mut Input<'_>) {
        let Some(request) = self.any_request(input) else { return };
        let place = format!("{} {}", request.method(), request.uri());
        #[allow(clippy::disallowed_methods, reason = "the target measures time")]
        let begin = Instant::now();
        let is_api = request.uri().path().starts_with("/v1") && request.method() != "HEAD";
        let panics = PANICS.load(Ordering::SeqCst);
        let (parts, body) = self.runtime.block_on(async {
            let response = self.router.clone().oneshot(request).await.expect("an answer");
            let (parts, body) = response.into_parts();
            (parts, to_bytes(body, 64 << 20).await.expect("a body"))
        });
        load(self.app.database.as_ref(), &self.app.reader.columns).expect("memory");
        assert!(begin.elapsed() < Duration::from_secs(20), "{place}: {:?}", begin.elapsed());
        assert_eq!(PANICS.load(Ordering::SeqCst), panics, "{place}");
        let status = parts.status.as_u16();
        assert!(status != 500 && status != 503, "{place}: {}", String::from_utf8_lossy(&body));
        assert!(parts.headers.contains_key("content-security-policy"), "{place}");
        if is_api && status >= 400 {
            let answer: Value =
                serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{place}: {error}: {body:?}"));
            if answer.get("results").is_none() {
                let problem: Problem = serde_json::from_value(answer).expect("a problem");
                assert_eq!(problem.status, status, "{place}");
            }
        }
    }

    fn any_request(&self, input: &mut Input<'_>) -> Option<Request<Body>> {
        let mut path = PATHS[input.below(PATHS.len())].to_owned();
        if input.byte().is_multiple_of(4) {
            path = format!("/admin{path}");
        }
        match input.byte() % 8 {
            0 => {
                let length = input.below(12);
                let escaped =
                    input.bytes(length).iter().fold(String::new(), |text, byte| format!("{text}%{byte:02x}"));
                let cut = path.rfind('/').unwrap_or(0);
                path.replace_range(cut + 1.., &escaped);
            }
            1 => path = path.replace(ID, "019a2115-3000-7000-8000-000000000002"),
            _ => {}
        }
        let fields: Vec<&str> = (0..input.below(4)).map(|_| QUERY[input.below(QUERY.len())]).collect();
        if !fields.is_empty() {
            path = format!("{path}?{}", fields.join("&"));
        }
        let (body, encoding) = body(input);
        let mut request = Request::builder().method(METHODS[input.below(METHODS.len())]).uri(path);
        match input.byte() % 6 {
            0 => {}
            1 => request = request.header(header::AUTHORIZATION, format!("Bearer {}", self.server)),
            2 => {
                let length = input.below(40);
                request = request.header(header::AUTHORIZATION, [b"Basic ", input.bytes(length)].concat());
            }
            _ => request = request.header(header::AUTHORIZATION, format!("Bearer {}", self.admin)),
        }
        if !encoding.is_empty() {
            request = request.header(header::CONTENT_ENCODING, encoding);
        }
        let mut request = request.body(Body::from(body)).ok()?;
        request.extensions_mut().insert(Peer(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        Some(request)
    }
}

fn body(input: &mut Input<'_>) -> (Vec<u8>, &'static str) {
    let document = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let body = match input.byte() % 10 {
        0 => Vec::new(),
        1 => input.bytes(60).to_vec(),
        2 => changed(input, json!({ "agent": ID, "name": "a", "version": "1", "consent": "public", "outbox": 1 })).to_string().into_bytes(),
        3 => changed(input, json!({ "agent": "a", "transport": "mptcp", "runs_done": 1, "runs_planned": 2, "paths": [{ "name": "w", "goodput_mbps": 1.5 }] })).to_string().into_bytes(),
        4 => changed(input, json!({ "name": "hourly", "kind": "test", "schedule": { "every_s": 60 }, "most_bytes": 1000, "families": ["ipv4"] })).to_string().into_bytes(),
        5 => changed(input, json!({ "address": "192.0.2.1:4433", "transports": ["tcp"], "tests": 1, "max_tests": 2, "draining": false, "version": "1" })).to_string().into_bytes(),
        6 => changed(input, json!({ "address": "192.0.2.1:4433", "name": "a", "valid_s": 60 })).to_string().into_bytes(),
        _ => {
            let lines: Vec<String> = (0..=input.below(3))
                .map(|index| {
                    let mut line = changed(input, document(SUBMISSION));
                    if index > 0 && line.is_object() {
                        line["id"] = json!(format!("019a2115-3000-7000-8000-0000000000{:02x}", input.byte()));
                    }
                    line.to_string()
                })
                .collect();
            lines.join("\n").into_bytes()
        }
    };
    match input.byte() % 8 {
        0 => (zstd::encode_all(body.as_slice(), 1).expect("memory"), "zstd"),
        1 => (body, "gzip"),
        2 => (body, "zstd"),
        _ => (body, ""),
    }
}
