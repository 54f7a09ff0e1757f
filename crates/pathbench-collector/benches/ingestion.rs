//! Results a second over HTTP, durable: a collector as a process, clients with connections that stay open, each result with a
//! summary of about 4 KB and a raw part of 20 KB.
//!
//! `cargo bench -p pathbench-collector --bench ingestion -- [sqlite] [postgres URL] [--seconds N] [--clients N] [--batch N]`
//!
//! Beside it, in the same rounds, the disk alone: the bytes of as many raw parts appended to a file and synced.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and a failure ends it")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

#[path = "../tests/support/mod.rs"]
mod support;

use pathbench_api::submission::new_id;
use pathbench_program::clock::RealClock;
use pathbench_record::time::{Clock as _, WallClock as _};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::process::{Collector, line, name, random, submission};

const RAW_BYTES: usize = 20_000;
const ROUNDS: usize = 3;

struct Arguments {
    databases: Vec<Option<String>>,
    seconds: u64,
    clients: usize,
    batch: usize,
}

fn arguments() -> Arguments {
    let mut found = Arguments { databases: Vec::new(), seconds: 6, clients: 64, batch: 1 };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value follows the option");
        match word.as_str() {
            "sqlite" => found.databases.push(None),
            "postgres" => found.databases.push(Some(value())),
            "--seconds" => found.seconds = value().parse().unwrap(),
            "--clients" => found.clients = value().parse().unwrap(),
            "--batch" => found.batch = value().parse().unwrap(),
            other => panic!("unknown argument {other}"),
        }
    }
    if found.databases.is_empty() {
        found.databases.push(None);
    }
    found
}

/// A line with a summary of 4 KB; its id is at a fixed place.
struct Template {
    line: Vec<u8>,
    id_at: usize,
}

impl Template {
    fn new() -> Self {
        let mut one = submission();
        let group = one.summary.groups[0].clone();
        for label in ["tcp", "mptcp", "quic", "mpquic"] {
            for pattern in ["bulk", "throughput-upload", "throughput-download"] {
                let mut group = group.clone();
                group.label = name(label);
                group.pattern = name(pattern);
                for (index, figure) in ["fct_ms", "handshake_ms", "delay_p50_ms"].iter().enumerate() {
                    group.figures.insert(name(figure), 12.5 * (index + 1) as f64);
                }
                one.summary.groups.push(group);
            }
        }
        let mut raw = vec![0x28, 0xb5, 0x2f, 0xfd];
        while raw.len() < RAW_BYTES {
            raw.extend(random::<1000>());
        }
        let summary_bytes = serde_json::to_vec(&one.summary).unwrap().len();
        println!("summary {summary_bytes} bytes, raw part {} bytes", raw.len());
        one.raw = Some(data_encoding::BASE64.encode(&raw));
        let text = line(&one);
        let id_at = text.find(&one.id.to_string()).unwrap();
        Self { line: text.into_bytes(), id_at }
    }

    fn body(&self, batch: usize, now_ms: u64) -> Vec<u8> {
        let mut body = Vec::with_capacity((self.line.len() + 1) * batch);
        for _ in 0..batch {
            let start = body.len();
            body.extend_from_slice(&self.line);
            body.push(b'\n');
            let id = new_id(now_ms, &random()).to_string();
            body[start + self.id_at..start + self.id_at + id.len()].copy_from_slice(id.as_bytes());
        }
        body
    }
}

/// One client: posts until `stop`, and returns the times of its requests in milliseconds.
fn client(
    address: &str,
    template: &Template,
    batch: usize,
    stop: &AtomicBool,
    stored: &AtomicU64,
) -> Vec<f64> {
    let clock = RealClock;
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut times = Vec::new();
    let mut answer = vec![0; 1 << 20];
    while !stop.load(Ordering::Relaxed) {
        let body = template.body(batch, clock.unix_ms());
        let head = format!("POST /v1/results HTTP/1.1\r\nHost: b\r\nContent-Length: {}\r\n\r\n", body.len());
        let begun = clock.now();
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        let mut length = 0;
        let text = loop {
            length += stream.read(&mut answer[length..]).unwrap();
            let text = String::from_utf8_lossy(&answer[..length]);
            let Some((head, rest)) = text.split_once("\r\n\r\n") else { continue };
            let expected = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned)
            });
            if rest.len() >= expected.unwrap().parse::<usize>().unwrap() {
                break text.into_owned();
            }
        };
        let created = text.matches("\"code\":201").count();
        assert!(created == batch, "{text}");
        stored.fetch_add(created as u64, Ordering::Relaxed);
        times.push(clock.now().duration_since(begun).as_secs_f64() * 1e3);
    }
    times
}

fn round(place: &Path, database: Option<&str>, arguments: &Arguments, template: &Arc<Template>) {
    let mut options = vec!["--open", "--rate-limit", "0"];
    if let Some(url) = database {
        options.extend(["--database", url]);
    }
    let collector = Collector::start_in(place, &options);
    let (stop, stored) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let times = Arc::new(Mutex::new(Vec::new()));
    let (clock, begun) = (RealClock, RealClock.now());
    let clients: Vec<_> = (0..arguments.clients)
        .map(|_| {
            let (address, template, batch) = (collector.address(), Arc::clone(template), arguments.batch);
            let (stop, stored, times) = (Arc::clone(&stop), Arc::clone(&stored), Arc::clone(&times));
            std::thread::spawn(move || {
                let own = client(&address, &template, batch, &stop, &stored);
                times.lock().unwrap().extend(own);
            })
        })
        .collect();
    std::thread::sleep(Duration::from_secs(arguments.seconds));
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
    let (seconds, stored) = (clock.now().duration_since(begun).as_secs_f64(), stored.load(Ordering::Relaxed));
    let mut times = times.lock().unwrap().clone();
    times.sort_by(f64::total_cmp);
    let quantile = |p: f64| times[((times.len() - 1) as f64 * p) as usize];
    println!(
        "{:9} {:6.0} results/s ({stored} in {seconds:.1} s), request p50 {:.1} ms, p99 {:.1} ms",
        if database.is_some() { "postgres" } else { "sqlite" },
        stored as f64 / seconds,
        quantile(0.5),
        quantile(0.99),
    );
}

/// The disk alone: groups of raw parts appended and synced for a second.
fn disk() {
    let place = tempfile::tempdir().unwrap();
    let mut file = File::create(place.path().join("file")).unwrap();
    let group = vec![7_u8; RAW_BYTES * 32];
    let (clock, begun) = (RealClock, RealClock.now());
    let mut parts = 0_u32;
    while clock.now().duration_since(begun) < Duration::from_secs(1) {
        file.write_all(&group).unwrap();
        file.sync_data().unwrap();
        parts += 32;
    }
    println!(
        "disk      {:6.0} raw parts/s, appended and synced 32 at a time",
        f64::from(parts) / clock.now().duration_since(begun).as_secs_f64()
    );
}

fn main() {
    let arguments = arguments();
    let template = Arc::new(Template::new());
    // A database belongs to one raw store.
    let places: Vec<_> = arguments.databases.iter().map(|_| tempfile::tempdir().unwrap()).collect();
    for _ in 0..ROUNDS {
        for (database, place) in arguments.databases.iter().zip(&places) {
            round(place.path(), database.as_deref(), &arguments, &template);
        }
        disk();
    }
}
