//! Clients that take as much as they can: answers that they do not read, bombs, raw parts that cost much, results and
//! agents up to their quotas, tokens of others. All limit their rate.

use super::client::{HttpClient, head};
use super::{Soak, unix_ms};
use crate::support::costly::largest;
use crate::support::process::{line, name, random as random_bytes};
use pathbench_api::Uuid;
use pathbench_api::check_in::CheckIn;
use pathbench_api::consent::Consent;
use pathbench_api::submission::new_id;
use pathbench_record::time::Clock as _;
use pathbench_testkit::MonotonicClock;
use pathbench_testkit::soak::Random;
use serde_json::{Value, json};
use socket2::Socket;
use std::io::{self, Read as _};
use std::ops::Range;
use std::time::Duration;

/// The longest time of an attack that waits.
pub(crate) const HOLD: Duration = Duration::from_secs(15);

/// Between two attacks of one client.
const PAUSE_MS: Range<u64> = 500..3000;

/// The same, where an attack takes seconds of processor time.
const LONG_PAUSE_MS: Range<u64> = 8000..16_000;

/// Connections of one client for answers.
const CONNECTIONS: usize = 16;

const BOMBS: usize = 200;

/// The rows of all results, as often as others.
const LONG_ANSWERS: [&str; 6] = [
    "/v1/results.csv",
    "/v1/results.csv",
    "/v1/results.csv",
    "/v1/results.parquet",
    "/v1/results?limit=200",
    "/results?limit=100",
];

/// The numbers of the clients that submit the largest summaries.
pub(crate) const SUBMITTING: Range<u32> = 17..19;

pub(crate) type Attack = fn(&Soak, &HttpClient, &mut Random) -> io::Result<()>;

pub(crate) fn run(soak: &Soak, number: u32, http: HttpClient) {
    // 6, 3, 4, 4, 2 and 5 of 24 clients.
    match number {
        0..6 => repeat(soak, number, http, PAUSE_MS, &READERS),
        6..9 => repeat(soak, number, http, LONG_PAUSE_MS, &BOMBERS),
        9..13 => repeat(soak, number, http, LONG_PAUSE_MS, &POISONERS),
        13..17 => repeat(soak, number, http, PAUSE_MS, &IMPOSTORS),
        17..19 => repeat(soak, number, http, PAUSE_MS, &SUBMITTERS),
        _ => repeat(soak, number, http, PAUSE_MS, &super::garbage::ATTACKS),
    }
}

/// One attack after the other until the end. Errors are expected.
fn repeat(soak: &Soak, number: u32, http: HttpClient, pause_ms: Range<u64>, attacks: &[(&str, Attack)]) {
    let mut random = Random::new(1000 + number);
    while soak.runs() {
        let (name, attack) = random.one_of(attacks);
        let _ = attack(soak, &http, &mut random);
        soak.count(&format!("attacks: {name}"));
        soak.pause(random.milliseconds(pause_ms.clone()));
    }
}

const READERS: [(&str, Attack); 3] = [
    ("16 long answers that are never read", |soak, http, random| {
        let open = ask_many(http, random.one_of(&LONG_ANSWERS), CONNECTIONS);
        soak.pause(HOLD);
        drop(open);
        Ok(())
    }),
    ("16 long answers that are read slowly", |soak, http, random| {
        let open = ask_many(http, random.one_of(&LONG_ANSWERS), CONNECTIONS);
        let until = MonotonicClock.now() + HOLD;
        let mut buffer = vec![0; 4096];
        while soak.runs() && MonotonicClock.now() < until {
            for socket in &open {
                socket.set_read_timeout(Some(Duration::from_millis(10)))?;
                let _ = (&mut &*socket).read(&mut buffer);
            }
            soak.pause(Duration::from_millis(100));
        }
        Ok(())
    }),
    ("16 long answers that are closed in the middle", |_, http, random| {
        for socket in &ask_many(http, random.one_of(&LONG_ANSWERS), CONNECTIONS) {
            let mut some = vec![0; 10_000 + random.number_below(500_000) as usize];
            let _ = (&mut &*socket).read_exact(&mut some);
        }
        Ok(())
    }),
];

const BOMBERS: [(&str, Attack); 3] = [
    ("200 bombs at once, answers read", |soak, http, _| {
        for socket in bombs(soak, http) {
            let _ = (&mut &socket).read(&mut [0; 64]);
        }
        Ok(())
    }),
    ("200 bombs at once, then gone", |soak, http, random| {
        let open = bombs(soak, http);
        soak.pause(random.milliseconds(0..2000));
        drop(open);
        Ok(())
    }),
    ("bodies that stop after 4 MiB", |soak, http, _| {
        let head = head("POST", "/v1/results", &[("Content-Length", "15000000")]);
        let body = vec![b' '; 4 << 20];
        let open: Vec<Socket> = (0..4).filter_map(|_| http.send(&head, &body).ok()).collect();
        soak.pause(HOLD);
        drop(open);
        Ok(())
    }),
];

const POISONERS: [(&str, Attack); 3] = [
    ("raw parts that cost much, answers read", |soak, http, random| {
        for socket in &ask_poison(soak, http, random, 4) {
            while (&mut &*socket).read(&mut [0; 4096])? > 0 {}
        }
        Ok(())
    }),
    ("raw parts that cost much, then gone", |soak, http, random| {
        let open = ask_poison(soak, http, random, 8);
        soak.pause(random.milliseconds(0..1500));
        drop(open);
        Ok(())
    }),
    ("raw parts that cost much, again and again", |soak, http, random| {
        for _ in 0..20 {
            drop(ask_poison(soak, http, random, 1));
            soak.pause(Duration::from_millis(50));
        }
        Ok(())
    }),
];

const IMPOSTORS: [(&str, Attack); 4] = [
    ("check-ins that invent agents", |soak, http, random| {
        for _ in 0..10 {
            let number = u128::from(random.number_below(1 << 40));
            let check_in = CheckIn {
                agent: Uuid::from_u128(0xbad << 64 | number),
                name: name(&format!("invented-{number}")),
                version: name("0.1.0"),
                consent: Consent::Public,
                outbox: u32::MAX,
                oldest_s: u32::MAX,
                patterns: None,
            };
            let body = json!(check_in).to_string();
            let answer = http.ask("POST", "/v1/check-in", &[], body.as_bytes());
            if let Ok(answer) = answer {
                soak.count(&format!("invented agents: status {}", answer.status));
            }
        }
        Ok(())
    }),
    ("live reports of agents that are not there", |_, http, random| {
        for _ in 0..10 {
            let path = format!("/v1/live/{}", Uuid::from_u128(u128::from(random.number_below(1 << 40))));
            let report = json!({ "agent": "nobody", "runs_done": 1, "runs_planned": 2, "paths": [] });
            let _ = http.ask("PUT", &path, &[], report.to_string().as_bytes());
        }
        Ok(())
    }),
    ("tokens of wrong audiences", |soak, http, random| {
        const CLOSED: [(&str, &str); 7] = [
            ("GET", "/admin/"),
            ("GET", "/v1/admin/agents"),
            ("GET", "/v1/admin/experiments"),
            ("PUT", "/v1/servers/nyc"),
            ("PUT", "/v1/admin/servers/nyc"),
            ("POST", "/v1/admin/tokens"),
            ("DELETE", "/v1/admin/results/018f0000-0000-7000-8000-000000000000"),
        ];
        let bearer =
            format!("Bearer {}", &soak.tokens[random.number_below(soak.tokens.len() as u64) as usize]);
        for (method, path) in CLOSED {
            let Ok(answer) = http.ask(method, path, &[("Authorization", &bearer)], b"{}") else { continue };
            if answer.status < 400 {
                soak.fail(format!("{method} {path} answers {} to a wrong token", answer.status));
            }
        }
        Ok(())
    }),
    ("deletions of results of others", |soak, http, random| {
        let listed = http.ask("GET", "/v1/results?limit=20", &[], &[]).map_err(io::Error::other)?;
        let listed: Value = serde_json::from_slice(&listed.body)?;
        let ids = listed["results"].as_array().into_iter().flatten().filter_map(|one| one["id"].as_str());
        let bearer = format!("Bearer {}", "0".repeat(32 + random.number_below(8) as usize));
        for path in ids.map(|id| format!("/v1/results/{id}")).chain(["/v1/results".to_owned()]) {
            let Ok(answer) = http.ask("DELETE", &path, &[("Authorization", &bearer)], &[]) else { continue };
            let deleted =
                serde_json::from_slice::<Value>(&answer.body).unwrap_or_default()["deleted"].clone();
            if deleted.as_u64().unwrap_or(0) > 0 {
                soak.fail(format!("DELETE {path} of others deletes {deleted}"));
            }
        }
        Ok(())
    }),
];

const SUBMITTERS: [(&str, Attack); 2] = [
    ("batches of the largest summaries", |soak, http, _| {
        let answer = submit_largest(http, 8)?;
        soak.count(&format!("largest summaries: status {answer}"));
        Ok(())
    }),
    ("a batch again and again", |_, http, _| {
        let mut one = largest(None);
        one.id = new_id(unix_ms(), &random_bytes());
        let body = vec![line(&one); 30].join("\n");
        for _ in 0..5 {
            let _ = http.ask("POST", "/v1/results", &[], body.as_bytes());
        }
        Ok(())
    }),
];

/// Submits results with the largest summaries; returns the status.
pub(crate) fn submit_largest(http: &HttpClient, count: usize) -> io::Result<u16> {
    let lines = (0..count).map(|_| {
        let mut one = largest(None);
        one.id = new_id(unix_ms(), &random_bytes());
        line(&one)
    });
    let body = lines.collect::<Vec<_>>().join("\n");
    let answer = http.ask("POST", "/v1/results", &[], body.as_bytes()).map_err(io::Error::other)?;
    Ok(answer.status)
}

/// As many connections as could be opened, each with a request.
fn ask_many(http: &HttpClient, path: &str, count: usize) -> Vec<Socket> {
    (0..count).filter_map(|_| http.send(&head("GET", path, &[]), &[]).ok()).collect()
}

fn bombs(soak: &Soak, http: &HttpClient) -> Vec<Socket> {
    let length = soak.bomb.len().to_string();
    let head = head("POST", "/v1/results", &[("Content-Encoding", "zstd"), ("Content-Length", &length)]);
    (0..BOMBS).filter_map(|_| http.send(&head, &soak.bomb).ok()).collect()
}

/// Requests for the raw parts or the reports of results that cost much.
fn ask_poison(soak: &Soak, http: &HttpClient, random: &mut Random, count: usize) -> Vec<Socket> {
    let one = |_| {
        let id = random.one_of(&soak.poisoned);
        let path = if random.number_below(2) == 0 {
            format!("/v1/results/{id}/raw")
        } else {
            format!("/results/{id}/report")
        };
        http.send(&head("GET", &path, &[]), &[]).ok()
    };
    (0..count).filter_map(one).collect()
}
