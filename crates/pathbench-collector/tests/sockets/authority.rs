//! Every credential against every route of a running collector; renewal, revocation, and the end of keys.

use crate::support::process::{Answer, Collector, Request, line, random, report_token, submission};
use crate::support::within;
use pathbench_api::Uuid;
use pathbench_api::name::Name;
use pathbench_api::token::{Audience, Token, TokenKey, deletion_token};
use pathbench_collector::http::openapi::{ApiEndpoint, Credential, ENDPOINTS};
use pathbench_collector::keys::Keys;
use pathbench_program::clock::RealClock;
use pathbench_record::time::WallClock as _;
use serde_json::{Value, json};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const AGENT: Uuid = Uuid::from_u128(0x77);
/// A collector knows a revocation or a new secret within a second or two.
const PATIENCE: Duration = Duration::from_secs(20);

fn now() -> u64 {
    RealClock.unix_seconds()
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn keys(collector: &Collector) -> Keys {
    Keys::parse(&std::fs::read_to_string(collector.dir.join("secret.key")).unwrap()).unwrap()
}

fn check_in(collector: &Collector, agent: Uuid, named: &str, token: Option<&str>) -> Answer {
    let body = json!({ "agent": agent, "name": named, "version": "0.1.0", "consent": "public" });
    let request = collector.request("POST", "/v1/check-in").json(&body);
    token.into_iter().fold(request, Request::bearer).send()
}

fn server_report() -> Value {
    json!({
        "address": "203.0.113.5:5000", "transports": ["tcp"], "tests": 0, "max_tests": 8, "draining": false,
        "version": "0.1.0",
    })
}

/// A request that only its credential can spoil.
fn request(collector: &Collector, endpoint: &ApiEndpoint, token: Option<&str>) -> u16 {
    let is_report = endpoint.credential == Credential::Server;
    let named = match endpoint.id {
        "chart" => "gain.json",
        _ if is_report => "nyc",
        _ => "other",
    };
    let path = endpoint.path.replace("{name}", named).replace("{agent}", &AGENT.to_string());
    let path = path.replace("{id}", &Uuid::from_u128(5).to_string()).replace("{serial}", &"0".repeat(16));
    let request = collector.request(&endpoint.method.to_uppercase(), &path);
    let request = match endpoint.id {
        "submit" => request.body(line(&submission())),
        "check_in" => {
            let body = json!({ "agent": AGENT, "name": "a", "version": "0.1.0", "consent": "public" });
            request.json(&body)
        }
        "report_live" => {
            request.json(&json!({ "agent": "a", "runs_done": 0, "runs_planned": 1, "paths": [] }))
        }
        "report_server" => request.json(&server_report()),
        "put_experiment" => request.json(&json!({
            "name": "other", "kind": "test", "schedule": { "every_s": 60 }, "most_bytes": 1,
        })),
        "put_server" => request.json(&json!({ "address": "192.0.2.9:4433" })),
        "make_token" => request.json(&json!({ "name": "x", "valid_s": 60 })),
        _ => request,
    };
    token.into_iter().fold(request, Request::bearer).send().status
}

/// Name and text of every kind of credential, and of those that are none.
fn credentials(collector: &Collector) -> Vec<(&'static str, Option<String>)> {
    let (keys, now) = (keys(collector), now());
    let key = |server: &str| collector.command(&["server", "add", server]).trim().to_owned();
    let (nyc, lab) = (key("nyc"), key("lab"));
    let mint = |keys: &Keys, audience, subject: &str, issued| {
        keys.mint(audience, &name(subject), issued, HOUR).unwrap()
    };
    let revoked = mint(&keys, Audience::Agent, "a", now);
    assert!(collector.command(&["token", "--revoke", &revoked]).contains("is revoked"));
    let agent = collector.command(&["token", "--name", "a"]).trim().to_owned();
    assert_eq!(check_in(collector, AGENT, "a", Some(&agent)).status, 200);
    let report = report_token(&nyc, "nyc", now);
    let reported = collector.request("PUT", "/v1/servers/nyc").bearer(&report).json(&server_report()).send();
    assert_eq!(reported.status, 204, "{}", reported.text());
    let offered = check_in(collector, AGENT, "a", Some(&agent)).json();
    let offered = offered["servers"][0]["token"].as_str().unwrap().to_owned();
    let of_server = |audience| {
        let key = TokenKey::from_text(&nyc).unwrap();
        key.mint(audience, &name("nyc"), random(), now, HOUR).unwrap()
    };
    let foreign = Keys::new([9; 32]);
    let operator = collector.command(&["token", "--admin"]).trim().to_owned();
    let of_owner = deletion_token(&"5".repeat(64), &collector.url);
    let all = [
        ("agent a", agent),
        ("agent b", collector.command(&["token", "--name", "b"]).trim().to_owned()),
        ("submission", collector.command(&["token", "--submit"]).trim().to_owned()),
        ("operator", operator.clone()),
        ("server nyc", report),
        ("server lab", report_token(&lab, "lab", now)),
        ("server lab as nyc", report_token(&lab, "nyc", now)),
        ("server nyc as lab", report_token(&nyc, "lab", now)),
        ("test, from the check-in", offered),
        ("test, by the server's key", of_server(Audience::Test)),
        ("operator, by the server's key", of_server(Audience::Administration)),
        ("agent a, by the server's key", {
            TokenKey::from_text(&nyc).unwrap().mint(Audience::Agent, &name("a"), [1; 8], now, HOUR).unwrap()
        }),
        ("server nyc, by the collector's key", mint(&keys, Audience::Server, "nyc", now)),
        ("test, by the collector's key", mint(&keys, Audience::Test, "a", now)),
        ("deletion", of_owner),
        ("revoked agent a", revoked),
        ("expired agent a", mint(&keys, Audience::Agent, "a", now - 3601)),
        ("expired operator", mint(&keys, Audience::Administration, "op", now - 3601)),
        ("agent a of another collector", mint(&foreign, Audience::Agent, "a", now)),
        ("operator of another collector", mint(&foreign, Audience::Administration, "op", now)),
        ("operator with a cut signature", operator[..operator.len() - 2].to_owned()),
        ("nonsense", "pb2.admin.x".to_owned()),
    ];
    let mut all: Vec<_> = all.into_iter().map(|(name, text)| (name, Some(text))).collect();
    all.push(("none", None));
    all
}

fn is_allowed(endpoint: &ApiEndpoint, credential: &str, is_open: bool) -> bool {
    match endpoint.credential {
        Credential::None => true,
        Credential::Submit => is_open || ["agent a", "agent b", "submission"].contains(&credential),
        Credential::Agent => credential == "agent a",
        Credential::Server => credential == "server nyc",
        Credential::Deletion => credential == "deletion",
        Credential::Operator => credential == "operator",
    }
}

#[test]
fn every_credential_opens_the_routes_of_its_audience_and_no_other() {
    for is_open in [false, true] {
        let open: &[&str] = if is_open { &["--open"] } else { &[] };
        let collector = Collector::start(&[&["--rate-limit", "0"], open].concat());
        let credentials = credentials(&collector);
        let mut wrong = Vec::new();
        let is_revoked = || {
            let revoked = credentials.iter().find(|(name, _)| *name == "revoked agent a");
            let token = revoked.unwrap().1.as_deref();
            (check_in(&collector, AGENT, "a", token).status == 401).then_some(())
        };
        within(PATIENCE, is_revoked).unwrap();
        for endpoint in ENDPOINTS {
            for (credential, token) in &credentials {
                let status = request(&collector, endpoint, token.as_deref());
                let is_expected = is_allowed(endpoint, credential, is_open) == (status != 401);
                if !is_expected || status >= 500 {
                    let (method, path) = (endpoint.method, endpoint.path);
                    wrong.push(format!("{method} {path} with {credential} (open: {is_open}): {status}"));
                }
            }
        }
        // The operator's pages are those of everybody below another path.
        for path in ["/admin/", "/admin/results", "/admin/live", "/admin/v1/results", "/admin/v1/results.csv"]
        {
            for (credential, token) in &credentials {
                let request = collector.request("GET", path);
                let status = token.as_deref().into_iter().fold(request, Request::bearer).send().status;
                if (*credential == "operator") != (status == 200) {
                    wrong.push(format!("GET {path} with {credential}: {status}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

#[test]
fn an_anonymous_agent_gets_nothing_that_is_meant_for_another() {
    let collector = Collector::start(&["--open"]);
    let operator = collector.command(&["token", "--admin"]);
    let experiment = json!({
        "name": "mesh", "kind": "test", "agents": ["a"], "schedule": { "every_s": 60 }, "most_bytes": 1,
    });
    let put = collector.request("PUT", "/v1/admin/experiments/mesh").bearer(&operator).json(&experiment);
    assert_eq!(put.send().status, 204);
    let token = collector.command(&["token", "--name", "a"]);
    let other = collector.command(&["token", "--name", "b"]);
    let names = |answer: &Answer| answer.json()["experiments"].as_array().unwrap().len();
    let owned = check_in(&collector, AGENT, "a", Some(&token));
    assert_eq!((owned.status, names(&owned)), (200, 1));
    // Neither under the name nor under the id of an agent that has a token.
    let pretender = check_in(&collector, Uuid::from_u128(1), "a", None);
    assert_eq!((pretender.status, names(&pretender)), (200, 0));
    let thief = check_in(&collector, AGENT, "a", None);
    assert!(thief.status == 401 && thief.text().contains("has a token"), "{}", thief.text());
    assert_eq!(check_in(&collector, AGENT, "b", Some(&other)).status, 401);
    let wrong = check_in(&collector, AGENT, "a", Some(&other));
    assert!(wrong.status == 401 && wrong.text().contains("for the agent `b`"), "{}", wrong.text());
    let live = |named: &str, token: Option<&str>| {
        let body = json!({ "agent": named, "runs_done": 0, "runs_planned": 1, "paths": [] });
        let request = collector.request("PUT", &format!("/v1/live/{AGENT}")).json(&body);
        token.into_iter().fold(request, Request::bearer).send().status
    };
    assert_eq!((live("a", Some(&token)), live("a", None), live("a", Some(&other))), (204, 401, 401));
    assert_eq!((live("b", Some(&other)), live("b", None)), (404, 404));
    assert!(collector.command(&["agents"]).contains("without a token"));
}

#[test]
fn an_agent_renews_its_token_until_it_is_revoked() {
    let collector = Collector::start(&[]);
    let keys = keys(&collector);
    let mint = |issued| keys.mint(Audience::Agent, &name("a"), issued, HOUR).unwrap();
    let (young, old) = (mint(now()), mint(now() - 2000));
    assert!(check_in(&collector, AGENT, "a", Some(&young)).json().get("token").is_none());
    let renewed = check_in(&collector, AGENT, "a", Some(&old)).json();
    let renewed = renewed["token"].as_str().unwrap().to_owned();
    let [before, after] = [&old, &renewed].map(|text| Token::read(text).unwrap());
    assert_eq!((after.serial, after.subject), (before.serial, before.subject));
    assert!(after.expiry >= now() + 3590, "{renewed}");
    assert_eq!(check_in(&collector, AGENT, "a", Some(&renewed)).status, 200);
    // The operator reads the number that revokes all of them.
    let agents = collector.command(&["agents"]);
    let serial = before.serial.to_string();
    assert!(agents.contains(&serial), "{agents}");
    let operator = collector.command(&["token", "--admin"]);
    let revoke = collector.request("PUT", &format!("/v1/admin/revocations/{serial}")).bearer(&operator);
    assert_eq!(revoke.send().status, 204);
    for token in [&old, &renewed] {
        let refused = check_in(&collector, AGENT, "a", Some(token));
        assert!(refused.status == 401 && refused.text().contains("revoked"), "{}", refused.text());
        let submitted = collector.request("POST", "/v1/results").bearer(token).body(line(&submission()));
        assert_eq!(submitted.send().status, 401);
    }
    assert_eq!(check_in(&collector, AGENT, "a", Some(&young)).status, 200, "it has another number");
}

#[test]
fn keys_that_ended_never_return() {
    let collector = Collector::start(&[]);
    let add = |server: &str| collector.command(&["server", "add", server]).trim().to_owned();
    let report = |key: &str| {
        let token = report_token(key, "nyc", now());
        collector.request("PUT", "/v1/servers/nyc").bearer(&token).json(&server_report()).send().status
    };
    let first = add("nyc");
    assert_eq!((add("nyc"), report(&first)), (first.clone(), 204), "a second registration changes no key");
    collector.command(&["server", "remove", "nyc"]);
    assert_eq!(report(&first), 401);
    let second = add("nyc");
    assert_ne!(second, first);
    assert_eq!((report(&first), report(&second)), (401, 204));

    // A new secret: what the earlier one made is valid for the time that the operator says.
    let agent = collector.command(&["token", "--name", "a"]);
    let secrets = || std::fs::read_to_string(collector.dir.join("secret.key")).unwrap();
    assert!(collector.command(&["rotate-key", "--keep", "1h"]).contains("1 h"));
    assert_eq!(secrets().lines().count(), 2);
    let renewed = collector.command(&["token", "--name", "a"]);
    let is_known = || (check_in(&collector, AGENT, "a", Some(&renewed)).status == 200).then_some(());
    within(PATIENCE, is_known).unwrap();
    assert_eq!(check_in(&collector, AGENT, "a", Some(&agent)).status, 200);
    assert_eq!((report(&second), add("nyc")), (204, second.clone()));
    let earlier = report_token(&add("lab"), "lab", now());
    collector.command(&["rotate-key", "--keep", "1s"]);
    let is_over = || (check_in(&collector, AGENT, "a", Some(&renewed)).status == 401).then_some(());
    within(PATIENCE, is_over).unwrap();
    let report_lab = collector.request("PUT", "/v1/servers/lab").bearer(&earlier).json(&server_report());
    assert_eq!((report(&second), report_lab.send().status), (401, 401));
    let third = add("nyc");
    assert!(third != second && report(&third) == 204);
}
