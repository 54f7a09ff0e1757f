//! The API of a running collector: submissions, check-in, servers, the operator, deletion.

use crate::support::process::{Collector, DELETION_TOKEN, line, name, random, report_token, submission};
use crate::support::within;
use pathbench_api::Uuid;
use pathbench_api::submission::Submission;
use pathbench_api::token::{Audience, TokenKey};
use pathbench_collector::store::sqlite::Sqlite;
use pathbench_collector::store::{Database as _, Document, DocumentKind};
use pathbench_program::clock::RealClock;
use pathbench_record::time::WallClock as _;
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn a_submission_is_stored_once_and_stays_deleted() {
    let collector = Collector::start(&["--open"]);
    let first = submission();
    let answer = collector.submit(&[line(&first)]);
    assert_eq!((answer.status, answer.codes()), (201, vec![201]), "{}", answer.text());
    assert_eq!(collector.submit(&[line(&first)]).status, 200);
    let mut other = first.clone();
    other.summary.scenario = name("another");
    assert_eq!(collector.submit(&[line(&other)]).status, 409);
    // Twice in one batch.
    let second = submission();
    let answer = collector.submit(&[line(&second), line(&second), line(&first)]);
    assert_eq!((answer.status, answer.codes()), (200, vec![201, 200, 200]));

    let path = format!("/v1/results/{}", first.id);
    assert_eq!(collector.request("DELETE", &path).send().status, 401);
    let wrong = collector.request("DELETE", &path).bearer(&"0".repeat(32)).send();
    assert_eq!(wrong.json()["deleted"], 0);
    let deleted = collector.request("DELETE", &path).bearer(DELETION_TOKEN).send();
    assert_eq!(deleted.json()["deleted"], 1);
    // Nothing brings it back.
    assert_eq!(collector.submit(&[line(&first)]).status, 410);
    let rest = collector.request("DELETE", "/v1/results").bearer(DELETION_TOKEN).send();
    assert_eq!(rest.json()["deleted"], 1);
    assert_eq!(collector.submit(&[line(&second)]).status, 410);
}

#[test]
fn a_bad_line_affects_no_other() {
    let collector = Collector::start(&["--open"]);
    let good = line(&submission());
    let with = |change: &dyn Fn(&mut Value)| {
        let mut value = serde_json::to_value(submission()).unwrap();
        change(&mut value);
        value.to_string()
    };
    let old_id = "0190a1b2-0000-4000-8000-000000000000";
    let bad = [
        "{".to_owned(),
        "null".to_owned(),
        "[".repeat(100_000),
        with(&|value| value["schema"] = "pathbench.submission/9".into()),
        with(&|value| value["id"] = old_id.into()),
        with(&|value| value["consent"] = "none".into()),
        with(&|value| value["raw"] = "AAAA".into()),
        with(&|value| value["raw"] = "%".into()),
        with(&|value| value["extra"] = 1.into()),
        with(&|value| value["summary"]["groups"][0]["figures"]["goodput_mbps"] = (-1).into()),
        with(&|value| value["summary"]["groups"][0]["figures"]["goodput_mbps"] = 1e13.into()),
        with(&|value| value["summary"]["groups"][0]["label"] = "sctp".into()),
        with(&|value| value["summary"]["scenario"] = "a\u{202e}b".into()),
        with(&|value| value["summary"]["scenario"] = "x".repeat(65).into()),
        with(&|value| value["summary"]["started_ms"] = u64::MAX.into()),
        line(&submission()).replace(":3,", ":18446744073709551616,"),
        line(&submission()).replace(":20.0", ":NaN"),
        line(&submission()).replace(":20.0", ":1e999"),
    ];
    let mut lines = vec![good.clone()];
    lines.extend(bad.iter().cloned());
    lines.push(line(&submission()));
    let answer = collector.submit(&lines);
    let codes = answer.codes();
    assert_eq!(answer.status, 200);
    assert_eq!(codes.first(), Some(&201));
    assert_eq!(codes.last(), Some(&201));
    for (code, line) in codes[1..codes.len() - 1].iter().zip(&bad) {
        let short: String = line.chars().take(300).collect();
        assert_eq!(*code, 422, "{short}");
    }
    let answers = answer.json();
    assert_eq!(answers["results"][5]["id"], old_id);
    assert!(answers["results"][6]["error"].as_str().unwrap().contains("stays with its owner"));
}

/// A zstd frame with a window of 8 MiB and blocks of 128 KiB that repeat one byte (RFC 8878 section 3.1.1).
fn gibibyte_of_newlines() -> Vec<u8> {
    const RLE: u32 = 1;
    let [low, middle, high, _] = (((128_u32 << 10) << 3) | (RLE << 1)).to_le_bytes();
    let last = [1, 0, 0];
    [b"\x28\xb5\x2f\xfd\x00\x68".as_slice(), &[low, middle, high, b'\n'].repeat(8 << 10), &last].concat()
}

#[test]
fn bodies_are_bounded_before_and_after_decompression() {
    let collector = Collector::start(&["--open"]);
    let post = || collector.request("POST", "/v1/results");
    let text = line(&submission());
    let compressed = zstd::encode_all(text.as_bytes(), 3).unwrap();
    assert_eq!(post().header("Content-Encoding", "zstd").body(compressed).send().status, 201);
    let answer = post().header("Content-Encoding", "zstd").body(gibibyte_of_newlines()).send();
    assert_eq!(answer.status, 413, "{}", answer.text());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..64 {
        std::io::Write::write_all(&mut gzip, &vec![b' '; 1 << 20]).unwrap();
    }
    let bomb = gzip.finish().unwrap();
    assert_eq!(post().header("Content-Encoding", "gzip").body(bomb).send().status, 413);
    assert_eq!(post().header("Content-Encoding", "zstd").body("no zstd").send().status, 400);
    assert_eq!(post().header("Content-Encoding", "br").body("x").send().status, 415);
    assert_eq!(post().body("").send().status, 400);
    assert_eq!(post().body("x\n".repeat(1_001)).send().status, 413);
    let error = post().body("").send().json();
    assert!(error["error"].as_str().unwrap().contains("NDJSON") && error["retryable"] == false);
}

#[test]
fn without_open_agents_need_a_token_and_the_operator_another() {
    let collector = Collector::start(&[]);
    let submit = || collector.request("POST", "/v1/results").body(line(&submission()));
    let refused = submit().send();
    assert_eq!(refused.status, 401);
    assert!(refused.headers.contains_key("www-authenticate") && refused.text().contains("--collector-token"));
    let agents = collector.command(&["token", "--name", "lab-1"]);
    let admin = collector.command(&["token", "--admin", "--valid", "1h"]);
    assert_eq!(submit().bearer(&agents).send().status, 201);
    assert_eq!(submit().bearer(&admin).send().status, 401);
    let servers = |token: &str| collector.request("GET", "/v1/admin/servers").bearer(token).send().status;
    assert_eq!((servers(&admin), servers(&agents), servers("pb1.9.x.00")), (200, 401, 401));
    let basic = data_encoding::BASE64.encode(format!("me:{}", admin.trim()).as_bytes());
    let request =
        collector.request("GET", "/v1/admin/agents").header("Authorization", &format!("Basic {basic}"));
    assert_eq!(request.send().status, 200);
    // A browser's stored password changes nothing: pages of others could start such a request.
    let foreign = collector.request("POST", "/v1/admin/tokens");
    let foreign = foreign.header("Authorization", &format!("Basic {basic}"));
    assert_eq!(foreign.json(&json!({ "name": "lab-2", "valid_s": 60 })).send().status, 401);
    let made = collector.request("POST", "/v1/admin/tokens").bearer(&admin);
    let made = made.json(&json!({ "name": "lab-2", "valid_s": 60 })).send().json();
    assert_eq!(submit().bearer(made["token"].as_str().unwrap()).send().status, 201);
}

fn check_in(agent: &str) -> Value {
    json!({
        "agent": Uuid::from_bytes(random()), "name": agent, "version": "0.1.0", "consent": "public",
        "outbox": 2, "oldest_s": 5,
    })
}

#[test]
fn agents_get_their_experiments_and_servers_with_tokens() {
    let collector = Collector::start(&["--open"]);
    let admin = collector.command(&["token", "--admin", "--valid", "1h"]);
    let experiment = json!({
        "name": "mesh", "kind": "test", "agents": ["a", "b"], "schedule": { "every_s": 60, "jitter_s": 10 },
        "most_bytes": 100_000_000,
    });
    let put = |path: &str, body: &Value| collector.request("PUT", path).bearer(&admin).json(body).send();
    assert_eq!(put("/v1/admin/experiments/mesh", &experiment).status, 204);
    assert_eq!(put("/v1/admin/experiments/other", &experiment).status, 422);
    let mut absurd = experiment.clone();
    absurd["schedule"]["every_s"] = 1.into();
    assert_eq!(put("/v1/admin/experiments/mesh", &absurd).status, 422);

    // Two servers: one with an address, one that is where its reports come from.
    let key = put("/v1/admin/servers/nyc", &json!({ "address": "192.0.2.9:4433" })).json();
    let nyc = key["key"].as_str().unwrap();
    let near = collector.command(&["server", "add", "near"]);
    let report = |server: &str, key: &str, tests: u32| {
        let token = report_token(key, server, unix_seconds());
        let body = json!({
            "address": "203.0.113.5:5000", "transports": ["tcp"], "tests": tests, "max_tests": 8,
            "draining": false, "version": "0.1.0",
        });
        collector.request("PUT", &format!("/v1/servers/{server}")).bearer(&token).json(&body).send().status
    };
    assert_eq!((report("nyc", nyc, 4), report("near", &near, 1)), (204, 204));
    assert_eq!((report("nyc", &near, 0), report("unknown", nyc, 0)), (401, 401));

    let tokens = ["a", "c"].map(|agent| (agent, collector.command(&["token", "--name", agent])));
    let ask = |agent: &str| {
        let (_, token) = tokens.iter().find(|(name, _)| *name == agent).unwrap();
        collector.request("POST", "/v1/check-in").bearer(token).json(&check_in(agent)).send().json()
    };
    let answer = ask("a");
    assert_eq!(answer["experiments"][0]["name"], "mesh");
    assert_eq!(answer["experiments"][0]["agents"], json!([]));
    let servers = answer["servers"].as_array().unwrap();
    let places: Vec<_> = servers.iter().map(|server| server["address"].as_str().unwrap()).collect();
    // The least loaded first; a report cannot name another host.
    assert_eq!(places, ["127.0.0.1:5000", "192.0.2.9:4433"]);
    let token = servers[1]["token"].as_str().unwrap();
    let [nyc_key, near_key] = [nyc, &near].map(|text| TokenKey::from_text(text).unwrap());
    assert!(nyc_key.check(Audience::Test, token, unix_seconds()).is_ok());
    assert!(near_key.check(Audience::Test, token, unix_seconds()).is_err());
    assert_eq!(ask("c")["experiments"], json!([]));
    let agents = collector.command(&["agents"]);
    assert!(agents.lines().count() == 2 && agents.contains("2 waiting"), "{agents}");

    // The servers of the agent's experiments come first: a mesh has more servers than an agent is offered.
    let mut named = experiment.clone();
    named["servers"] = json!(["nyc"]);
    assert_eq!(put("/v1/admin/experiments/mesh", &named).status, 204);
    assert_eq!(ask("a")["servers"][0]["address"], "192.0.2.9:4433");

    // A full server is not offered, nor one that was removed.
    assert_eq!(report("near", &near, 8), 204);
    collector.command(&["server", "remove", "nyc"]);
    assert_eq!(ask("a")["servers"], json!([]));
    assert_eq!(report("nyc", nyc, 0), 401);
    let shown = || collector.get("/servers").text().contains("near");
    assert!(shown());
    let remove = || collector.request("DELETE", "/v1/admin/servers/near").bearer(&admin).send().status;
    assert_eq!((remove(), remove()), (204, 404));
    assert!(!shown());
}

#[test]
fn agents_get_only_experiments_with_patterns_that_they_know() {
    let collector = Collector::start(&["--open"]);
    let admin = collector.command(&["token", "--admin", "--valid", "1h"]);
    let put = |name: &str, patterns: &Value| {
        let experiment = json!({
            "name": name, "kind": "test", "schedule": { "every_s": 60 }, "most_bytes": 1, "patterns": patterns,
        });
        let path = format!("/v1/admin/experiments/{name}");
        collector.request("PUT", &path).bearer(&admin).json(&experiment).send().status
    };
    assert_eq!(put("all", &json!([])), 204);
    assert_eq!(put("loaded", &json!(["ping", "responsiveness"])), 204);
    assert_eq!(put("video", &json!(["datagrams"])), 204);
    assert_eq!(put("unknown", &json!(["telepathy"])), 422);
    let ask = |agent: &str, patterns: &Value| {
        let mut check_in = check_in(agent);
        if !patterns.is_null() {
            check_in["patterns"] = patterns.clone();
        }
        collector.request("POST", "/v1/check-in").json(&check_in).send()
    };
    let offered = |agent: &str, patterns: &Value| -> Vec<String> {
        let answer = ask(agent, patterns).json();
        let names = answer["experiments"].as_array().unwrap().iter();
        names.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    // A released agent lists none; a later one also patterns of which the collector does not know.
    assert_eq!(offered("released", &Value::Null), ["all"]);
    assert_eq!(offered("bare", &json!(["responsiveness"])), ["all"]);
    assert_eq!(
        offered("next", &json!(["ping", "responsiveness", "datagrams", "telepathy"])),
        ["all", "loaded", "video"]
    );
    assert_eq!(ask("absurd", &json!(vec!["ping"; 65])).status, 422);

    let page = collector.request("GET", "/v1/admin/experiments").bearer(&admin).send().json();
    let left_out: Vec<(&str, &str)> = page["left_out"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["experiment"].as_str().unwrap(), one["agent"].as_str().unwrap()))
        .collect();
    let of = |experiment: &str| {
        let mut agents: Vec<&str> =
            left_out.iter().filter(|(name, _)| *name == experiment).map(|(_, agent)| *agent).collect();
        agents.sort_unstable();
        agents
    };
    assert_eq!(
        (of("all"), of("loaded"), of("video")),
        (vec![], vec!["bare", "released"], vec!["bare", "released"])
    );
    let reason = "its version does not know responsiveness: update the agent";
    assert!(
        page["left_out"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["reason"] == reason && one["version"] == "0.1.0")
    );
    let list = collector.command(&["experiment", "list"]);
    assert!(list.contains(&format!("  left out: released (0.1.0): {reason}")), "{list}");
    assert!(!list.contains("left out: next"), "{list}");
}

#[test]
fn live_reports_are_bounded_and_old_ones_are_deleted() {
    let place = tempfile::tempdir().unwrap();
    let collector = Collector::start_in(place.path(), &["--open"]);
    let report = json!({ "agent": "a", "runs_done": 1, "runs_planned": 2, "paths": [] });
    let put = |agent: u128| {
        let path = format!("/v1/live/{}", Uuid::from_u128(agent));
        collector.request("PUT", &path).json(&report).send()
    };
    assert_eq!(put(1).status, 404);
    for agent in [1, 2] {
        let check_in =
            json!({ "agent": Uuid::from_u128(agent), "name": "a", "version": "0.1.0", "consent": "public" });
        assert_eq!(collector.request("POST", "/v1/check-in").json(&check_in).send().status, 200);
    }
    assert_eq!(put(1).status, 204);
    let database = rusqlite::Connection::open(place.path().join("results.sqlite")).unwrap();
    database.busy_timeout(Duration::from_secs(20)).unwrap();
    let fill = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 999)
                INSERT INTO documents SELECT ?1, 'filled ' || n, '{}', ?2 FROM numbers";
    let now_ms = i64::try_from(unix_seconds() * 1000).unwrap();
    database.execute(fill, ("live", now_ms)).unwrap();
    // None expires during the test.
    database
        .execute("UPDATE documents SET updated_ms = ?1 WHERE kind = 'live'", [now_ms + 3_600_000])
        .unwrap();
    let refused = put(2);
    assert_eq!(refused.status, 503);
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(put(1).status, 204);
    // Expired reports do not count, although they are still there.
    let expire = "UPDATE documents SET updated_ms = ?1 WHERE key LIKE 'filled %'";
    database.execute(expire, [now_ms - 20_000]).unwrap();
    assert_eq!(put(2).status, 204);

    database.execute(fill, ("agent", now_ms)).unwrap();
    let age = "UPDATE documents SET updated_ms = updated_ms - ?1 WHERE kind = ?2 AND key LIKE 'filled %'";
    database.execute(age, (120_000, "live")).unwrap();
    database.execute(age, (91 * 86_400_000_i64, "agent")).unwrap();
    assert_eq!(collector.stop(), Some(0));
    let collector = Collector::start_in(place.path(), &["--open"]);
    let filled = "SELECT count(*) FROM documents WHERE key LIKE 'filled %'";
    let left = || database.query_row(filled, [], |row| row.get::<_, i64>(0));
    let deleted = within(Duration::from_secs(30), || (left().unwrap() == 0).then_some(()));
    assert!(deleted.is_some(), "{} documents are left", left().unwrap());
    assert_eq!(collector.stop(), Some(0));
}

fn unix_seconds() -> u64 {
    RealClock.unix_ms() / 1000
}

#[test]
fn results_outlive_the_collector() {
    let place = tempfile::tempdir().unwrap();
    let collector = Collector::start_in(place.path(), &["--open"]);
    let submissions: Vec<Submission> = (0..20).map(|_| submission()).collect();
    let lines: Vec<String> = submissions.iter().map(line).collect();
    assert_eq!(collector.submit(&lines).status, 201);
    assert_eq!(collector.stop(), Some(0));
    let collector = Collector::start_in(place.path(), &["--open"]);
    assert_eq!(collector.submit(&lines).status, 200);
}

#[test]
fn answers_have_headers_against_misuse_and_unknown_paths_a_remedy() {
    let collector = Collector::start(&["--open"]);
    let answer = collector.get("/v1/nothing");
    assert_eq!(answer.status, 404);
    assert!(answer.text().contains("openapi.json"));
    assert!(answer.headers["content-security-policy"].contains("default-src 'none'"));
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    assert_eq!(collector.request("PATCH", "/v1/results").send().status, 405);
    let privacy = collector.get("/v1/privacy").text();
    assert!(privacy.contains("/24") && privacy.contains("until the operator"), "{privacy}");
    assert!(privacy.contains("entry is deleted 90 days after its last check-in"), "{privacy}");
    assert_eq!(collector.get("/health").status, 200);
}

#[test]
fn the_retention_is_given_in_its_unit() {
    let of_hours = Collector::start(&["--open", "--retention", "12h"]).get("/v1/privacy").text();
    assert!(of_hours.contains("Results are deleted 12 h after their arrival."), "{of_hours}");
}

#[test]
fn a_flood_is_answered_with_429_and_a_time() {
    let collector = Collector::start(&["--open", "--rate-limit", "2"]);
    let statuses: Vec<_> = (0..30).map(|_| collector.get("/health")).collect();
    let refused = statuses.iter().find(|answer| answer.status == 429).unwrap();
    assert!(refused.headers["retry-after"].parse::<u64>().unwrap() >= 1);
    assert_eq!(refused.json()["retryable"], true);
}

/// The number of all entries, and those of all pages.
fn walk(collector: &Collector, admin: &str, list: &str, limit: usize) -> (u64, Vec<Value>) {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/admin/{list}?limit={limit}&cursor={cursor}");
        let page = collector.request("GET", &path).bearer(admin).send().json();
        let entries = page[list].as_array().unwrap_or_else(|| panic!("{path}: {page}")).clone();
        assert!(entries.len() <= limit.min(200), "{path}");
        found.extend(entries);
        assert!(found.len() < 1_000, "{list} has no end");
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => return (page["all"].as_u64().unwrap(), found),
        }
    }
}

#[test]
fn lists_of_the_operator_go_from_page_to_page() {
    const AGENTS: usize = 203;
    let collector = Collector::start(&["--open", "--rate-limit", "0"]);
    let admin = collector.command(&["token", "--admin", "--valid", "1h"]);
    let database = Sqlite::open(&collector.dir.join("results.sqlite")).unwrap();
    let put = |kind, key: &str, body: &Value| {
        let document = Document { key: key.to_owned(), body: body.to_string(), updated_ms: 1_000 };
        database.put_document(kind, &document).unwrap();
    };
    for index in 0..AGENTS {
        let id = Uuid::from_bytes(random());
        let mut check_in = check_in(&format!("agent-{index}"));
        check_in["agent"] = json!(id);
        put(DocumentKind::Agent, &id.to_string(), &json!({ "check_in": check_in }));
    }
    // Of another version: a page has fewer entries then, and is not the last one.
    put(DocumentKind::Agent, "00000000-0000-4000-8000-000000000000", &json!({ "later": true }));
    for index in 0..7 {
        let name = format!("n{index}");
        let experiment = json!({
            "name": name, "kind": "test", "schedule": { "every_s": 60 }, "most_bytes": 1,
        });
        put(DocumentKind::Experiment, &name, &experiment);
        put(DocumentKind::Server, &name, &json!({ "address": "192.0.2.9:4433" }));
    }
    for (list, entries, all, name) in
        [("agents", AGENTS, AGENTS + 1, "id"), ("experiments", 7, 7, "name"), ("servers", 7, 7, "name")]
    {
        for limit in [3, 7, 200, 9_000] {
            let (count, found) = walk(&collector, &admin, list, limit);
            assert_eq!((count, found.len()), (all as u64, entries), "{list}, {limit}");
            let names: Vec<&str> = found.iter().map(|one| one[name].as_str().unwrap()).collect();
            assert!(names.is_sorted_by(|one, other| one < other), "{list}, {limit}: {names:?}");
        }
    }
    let first = collector.request("GET", "/v1/admin/agents").bearer(&admin).send().json();
    assert_eq!(first["agents"].as_array().unwrap().len(), 49);
    let wrong = collector.request("GET", "/v1/admin/agents?limit=0").bearer(&admin).send();
    assert_eq!(wrong.status, 400);
    assert_eq!(collector.command(&["agents"]).lines().count(), AGENTS);
    assert_eq!(collector.command(&["server", "list"]).lines().count(), 7);
    assert_eq!(collector.command(&["experiment", "list"]).lines().count(), 7);
}
