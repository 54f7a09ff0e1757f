//! Pages and charts over HTTP at a million results: generated summaries in a database, a collector as a process, requests
//! with filters that differ, so that most answers are computed and not remembered.
//!
//! `cargo bench -p pathbench-collector --bench dashboard -- [sqlite] [postgres URL] [--results N]`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and a failure ends it")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

#[path = "../tests/support/mod.rs"]
mod support;

use pathbench_collector::facts::{Source, encode};
use pathbench_collector::maintenance::DATABASE_FILE;
use pathbench_collector::store::postgres::{Postgres, PostgresOptions};
use pathbench_collector::store::sqlite::Sqlite;
use pathbench_collector::store::{Database, NewResult};
use pathbench_program::clock::RealClock;
use pathbench_record::time::Clock as _;
use std::time::Duration;
use support::process::Collector;
use support::synthetic::{Campaign, FIRST_MS};

/// Results of one transaction.
const BATCH: u64 = 2_000;
const ROUNDS: usize = 40;

fn main() {
    let (mut databases, mut results) = (Vec::new(), 1_000_000);
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        match word.as_str() {
            "sqlite" => databases.push(None),
            "postgres" => databases.push(Some(words.next().unwrap())),
            "--results" => results = words.next().unwrap().parse().unwrap(),
            other => panic!("unknown argument {other}"),
        }
    }
    if databases.is_empty() {
        databases.push(None);
    }
    for database in databases {
        measure(database.as_deref(), results);
    }
}

fn measure(url: Option<&str>, results: u64) {
    let engine = if url.is_some() { "postgres" } else { "sqlite" };
    let place = tempfile::tempdir().unwrap();
    let (clock, inserting) = (RealClock, RealClock.now());
    match url {
        Some(url) => fill(&Postgres::connect(url, PostgresOptions::default()).unwrap(), results),
        None => fill(&Sqlite::open(&place.path().join(DATABASE_FILE)).unwrap(), results),
    }
    println!(
        "{engine}: {results} results inserted in {:.0} s",
        clock.now().duration_since(inserting).as_secs_f64()
    );
    let mut options = vec!["--open", "--rate-limit", "0"];
    if let Some(url) = url {
        options.extend(["--database", url]);
    }
    let started = clock.now();
    let collector = Collector::start_in(place.path(), &options);
    while collector.get("/ready").status != 200 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", collector.pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim().to_owned();
    let ready = clock.now().duration_since(started);
    println!("{engine}: ready after {:.1} s, {resident} resident", ready.as_secs_f64());
    requests(&collector, engine);
}

fn fill(database: &dyn Database, results: u64) {
    let campaign = Campaign { agents: 5_000, days: 365, public: 1.0, ..Campaign::default() };
    let mut summary_bytes = 0;
    for first in (0..results).step_by(BATCH as usize) {
        let new = |index: u64| {
            let checked = campaign.checked(index);
            NewResult {
                id: checked.submission.id,
                digest: checked.digest,
                agent: checked.submission.agent,
                consent: checked.submission.consent,
                deletion: checked.submission.deletion_sha256,
                received_ms: checked.submission.summary.started_ms,
                summary: serde_json::to_vec(&checked.submission.summary).unwrap(),
                facts: encode(&checked, Source(checked.submission.agent.as_u64_pair().0)),
                raw: None,
            }
        };
        let batch: Vec<NewResult> = (first..(first + BATCH).min(results)).map(new).collect();
        summary_bytes += batch.iter().map(|one| one.summary.len() as u64).sum::<u64>();
        database.insert(&batch).unwrap();
    }
    println!("summaries of {} bytes in the mean", summary_bytes / results.max(1));
}

/// The path of a request in a round.
type Path<'a> = &'a dyn Fn(u64) -> String;

/// Requests of each kind with other filters each time.
fn requests(collector: &Collector, engine: &str) {
    let day = |number: u64| {
        let seconds = FIRST_MS / 1000 + number * 86_400;
        pathbench_record::time::rfc3339_from_unix(seconds as i64)[..10].to_owned()
    };
    let kinds: [(&str, Path<'_>); 7] = [
        ("front page", &|_| "/".to_owned()),
        ("list of charts", &|round| format!("/charts?since={}", day(round))),
        ("chart of a server", &|round| format!("/charts/gain?server=asia.example&since={}", day(round))),
        ("chart as JSON", &|round| format!("/v1/charts/goodput.json?since={}", day(round))),
        ("chart as SVG, 30 days", &|round| {
            format!("/v1/charts/max-delay.svg?since={}&until={}", day(round), day(round + 30))
        }),
        ("page of results", &|round| format!("/results?operator=Telia+Lab&since={}", day(round))),
        ("search", &|round| format!("/results?search=o%27hara&since={}", day(round))),
    ];
    let clock = RealClock;
    let mut all = Vec::new();
    let mut by_kind: Vec<Vec<f64>> = vec![Vec::new(); kinds.len()];
    for round in 0..ROUNDS {
        for ((_, path), times) in kinds.iter().zip(&mut by_kind) {
            let started = clock.now();
            let answer = collector.get(&path(round as u64));
            let ms = clock.now().duration_since(started).as_secs_f64() * 1e3;
            assert_eq!(answer.status, 200, "{}", answer.text());
            times.push(ms);
            all.push(ms);
        }
    }
    let quantile = |times: &mut Vec<f64>, p: f64| {
        times.sort_by(f64::total_cmp);
        times[((times.len() - 1) as f64 * p) as usize]
    };
    for ((name, _), times) in kinds.iter().zip(&mut by_kind) {
        let (p50, p95) = (quantile(times, 0.5), quantile(times, 0.95));
        println!("{engine}: {name}: p50 {p50:.1} ms, p95 {p95:.1} ms");
    }
    println!(
        "{engine}: all requests: p50 {:.1} ms, p95 {:.1} ms",
        quantile(&mut all, 0.5),
        quantile(&mut all, 0.95)
    );
}
