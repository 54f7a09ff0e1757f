//! Clients that use the collector as agents and readers do: every answer must be right and complete.

use super::client::HttpClient;
use super::{Soak, unix_ms};
use crate::support::demo::{golden, packed};
use crate::support::process::{Answer, line, name, random as random_bytes};
use crate::support::synthetic::Campaign;
use pathbench_api::Uuid;
use pathbench_api::check_in::CheckIn;
use pathbench_api::consent::Consent;
use pathbench_api::digest::Digest;
use pathbench_api::submission::{Submission, new_id};
use pathbench_record::time::{Clock as _, Timestamp};
use pathbench_testkit::MonotonicClock;
use pathbench_testkit::soak::Random;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

const PAUSE_MS: Range<u64> = 300..1700;

/// Results of a client that stay; it deletes the oldest of more, so that the data set is constant.
const KEPT: usize = 24;

/// After this time a result is in the listings, which follow the database.
const LISTED_AFTER: Duration = Duration::from_secs(30);

/// Requests that wait while raw parts of others are unpacked, which takes seconds of processor time each.
const RAW_PART: &str = "raw part";
const REPORT: &str = "report";

struct Stored {
    id: Uuid,
    has_raw: bool,
    at: Timestamp,
}

struct Honest<'a> {
    soak: &'a Soak,
    http: HttpClient,
    number: u32,
    random: Random,
    agent: Uuid,
    deletion: String,
    campaign: Campaign,
    raw: Vec<u8>,
    submitted: u64,
    stored: VecDeque<Stored>,
}

type Checked = Result<(), String>;

fn ensure(is_right: bool, why: &str) -> Checked {
    if is_right { Ok(()) } else { Err(why.to_owned()) }
}

fn json_of(answer: &Answer) -> Result<Value, String> {
    serde_json::from_slice(&answer.body).map_err(|error| format!("no JSON: {error}"))
}

pub(crate) fn run(soak: &Soak, number: u32, http: HttpClient) {
    let agent = Uuid::from_u128(0x5eed_0000 + u128::from(number));
    let mut honest = Honest {
        soak,
        http,
        number,
        random: Random::new(number),
        agent,
        deletion: format!("deletion-token-of-the-honest-client-{number:04}"),
        campaign: Campaign { seed: u64::from(number), agents: 1, days: 50, public: 1.0 },
        raw: packed(&golden("v1-messages"), "result/"),
        submitted: 0,
        stored: VecDeque::new(),
    };
    honest.check_in();
    while honest.stored.len() < KEPT && soak.runs() {
        honest.submit(4);
    }
    while soak.runs() {
        honest.act();
        let pause = honest.random.milliseconds(PAUSE_MS);
        soak.pause(pause);
    }
    honest.end();
}

impl Honest<'_> {
    /// One request; counts its time, and fails the soak unless the answer is right.
    fn expect(
        &self,
        kind: &str,
        (method, path, headers, body): (&str, &str, &[(&str, &str)], &[u8]),
        status: u16,
        check: impl FnOnce(&Answer) -> Checked,
    ) -> bool {
        let begun = MonotonicClock.now();
        let asked = self.http.ask(method, path, headers, body);
        let time = MonotonicClock.now().duration_since(begun);
        self.soak.time(kind, time);
        let right = asked.and_then(|answer| {
            if answer.status != status {
                return Err(format!("status {}: {:.160}", answer.status, answer.text()));
            }
            check(&answer)
        });
        right
            .inspect_err(|why| {
                let (client, seconds) = (self.number, time.as_secs_f64());
                self.soak
                    .fail(format!("client {client}, {kind}, {method} {path:.120}, {seconds:.1} s: {why}"));
            })
            .is_ok()
    }

    fn get(&self, kind: &str, path: &str, check: impl FnOnce(&Answer) -> Checked) {
        self.expect(kind, ("GET", path, &[], &[]), 200, check);
    }

    fn act(&mut self) {
        match self.random.number_below(24) {
            0..4 => {
                let most = 1 + self.random.number_below(4);
                self.submit(most);
                while self.stored.len() > KEPT {
                    self.delete_oldest();
                }
            }
            4 | 5 => self.check_in(),
            6..9 => self.listing(),
            9 | 10 => self.own_listing(),
            11..14 => self.one(),
            14 => self.raw(),
            15 => self.report(),
            16..19 => self.chart(),
            19 | 20 => self.csv(),
            21 => self.parquet(),
            _ => self.page(),
        }
    }

    fn submission(&mut self) -> Submission {
        let now_ms = unix_ms();
        let mut one = self.campaign.submission(self.submitted);
        self.submitted += 1;
        one.id = new_id(now_ms, &random_bytes());
        one.agent = self.agent;
        one.consent = Consent::Public;
        one.deletion_sha256 = Digest::compute(self.deletion.as_bytes());
        one.summary.started_ms = now_ms - 60_000;
        one.summary.scenario = name(&self.scenario());
        if self.random.number_below(3) == 0 {
            one.raw = Some(data_encoding::BASE64.encode(&self.raw));
        }
        one
    }

    fn scenario(&self) -> String {
        format!("soak-{}", self.number)
    }

    fn submit(&mut self, count: u64) {
        let some: Vec<Submission> = (0..count).map(|_| self.submission()).collect();
        let body = some.iter().map(line).collect::<Vec<_>>().join("\n");
        let is_stored =
            self.expect("submission", ("POST", "/v1/results", &[], body.as_bytes()), 201, |answer| {
                let answered = json_of(answer)?;
                let lines = answered["results"].as_array().ok_or("no results")?;
                let is_created = |(one, line): (&Submission, &Value)| {
                    line["code"] == 201 && line["id"] == one.id.to_string()
                };
                ensure(
                    lines.len() == some.len() && some.iter().zip(lines).all(is_created),
                    &format!("{:.300}", answer.text()),
                )
            });
        if is_stored {
            let at = MonotonicClock.now();
            self.stored.extend(some.iter().map(|one| Stored { id: one.id, has_raw: one.raw.is_some(), at }));
        }
    }

    fn delete_oldest(&mut self) {
        let Some(Stored { id, .. }) = self.stored.pop_front() else { return };
        let (path, bearer) = (format!("/v1/results/{id}"), format!("Bearer {}", self.deletion));
        self.expect(
            "deletion of one result",
            ("DELETE", &path, &[("Authorization", &bearer)], &[]),
            200,
            |answer| ensure(json_of(answer)?["deleted"] == 1, &answer.text()),
        );
        self.expect("a deleted result", ("GET", &path, &[], &[]), 404, |_| Ok(()));
    }

    fn check_in(&mut self) {
        let agent_name = name(&format!("honest-{}", self.number));
        let check_in = CheckIn {
            agent: self.agent,
            name: agent_name.clone(),
            version: name("0.1.0"),
            consent: Consent::Public,
            outbox: 0,
            oldest_s: 0,
            patterns: None,
        };
        let kind = [("Content-Type", "application/json")];
        let body = json!(check_in).to_string();
        self.expect("check-in", ("POST", "/v1/check-in", &kind, body.as_bytes()), 200, |answer| {
            ensure(json_of(answer)?["next_s"].is_u64(), "no next_s")
        });
        let live = json!({ "agent": agent_name, "transport": "mptcp", "pattern": "bulk", "runs_done": 1, "runs_planned": 4,
            "paths": [{ "name": "wlan0", "goodput_mbps": 48.2 }] });
        let (path, body) = (format!("/v1/live/{}", self.agent), live.to_string());
        self.expect("live report", ("PUT", &path, &kind, body.as_bytes()), 204, |_| Ok(()));
    }

    fn listing(&mut self) {
        let limit = [1, 20, 50][self.random.number_below(3) as usize];
        self.get("listing", &format!("/v1/results?limit={limit}"), |answer| {
            let all = json_of(answer)?;
            ensure(all["results"].as_array().is_some_and(|results| results.len() == limit), "too few results")
        });
    }

    /// All stored results are in it.
    fn own_listing(&mut self) {
        let listed_by = MonotonicClock.now();
        let is_due = |one: &&Stored| listed_by.duration_since(one.at) > LISTED_AFTER;
        let due: Vec<Uuid> = self.stored.iter().filter(is_due).map(|one| one.id).collect();
        let path = format!("/v1/results?scenario={}&limit=200", self.scenario());
        self.get("listing of own results", &path, |answer| {
            let all = json_of(answer)?;
            let found: Vec<&str> = all["results"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|one| one["id"].as_str())
                .collect();
            let missing: Vec<&Uuid> =
                due.iter().filter(|id| !found.contains(&id.to_string().as_str())).collect();
            ensure(missing.is_empty(), &format!("missing: {missing:?} of {} listed", found.len()))
        });
    }

    fn any(&mut self, with_raw: bool) -> Option<Uuid> {
        let some: Vec<Uuid> =
            self.stored.iter().filter(|one| one.has_raw || !with_raw).map(|one| one.id).collect();
        (!some.is_empty()).then(|| self.random.one_of(&some))
    }

    fn find(&self, id: Uuid) {
        self.get("one result", &format!("/v1/results/{id}"), |answer| {
            ensure(json_of(answer)?["id"] == id.to_string(), "another id")
        });
    }

    fn one(&mut self) {
        if let Some(id) = self.any(false) {
            self.find(id);
        }
    }

    fn raw(&mut self) {
        let Some(id) = self.any(true) else { return };
        self.get(RAW_PART, &format!("/v1/results/{id}/raw"), |answer| {
            let unpacked = zstd::decode_all(answer.body.as_slice()).map_err(|error| error.to_string())?;
            let mut archive = tar::Archive::new(unpacked.as_slice());
            let entries = archive.entries().map_err(|error| error.to_string())?;
            ensure(entries.filter_map(Result::ok).count() == 5, "not the five files of the result")
        });
    }

    fn report(&mut self) {
        let Some(id) = self.any(true) else { return };
        self.get(REPORT, &format!("/results/{id}/report"), |answer| {
            ensure(answer.text().trim_end().ends_with("</html>"), "the report is cut off")
        });
    }

    fn chart(&mut self) {
        let chart = self.random.one_of(&["goodput", "gain", "usage-per-day", "max-delay", "stall"]);
        let day = 1 + self.random.number_below(20);
        let since = format!("?since=2026-10-{day:02}");
        let (kind, path) = match self.random.number_below(4) {
            0 => ("chart as CSV", format!("/v1/charts/{chart}.csv{since}")),
            1 => ("chart as SVG", format!("/v1/charts/{chart}.svg{since}")),
            2 => ("chart as JSON", format!("/v1/charts/{chart}.json{since}")),
            _ => ("list of charts", "/v1/charts".to_owned()),
        };
        self.get(kind, &path, |answer| match kind {
            "chart as CSV" => ensure(answer.text().ends_with("\r\n"), "no line"),
            "chart as SVG" => ensure(answer.text().trim_end().ends_with("</svg>"), "cut off"),
            "chart as JSON" => ensure(json_of(answer)?["name"] == *chart, "another chart"),
            _ => ensure(json_of(answer)?["charts"].is_array(), "no list"),
        });
    }

    fn csv(&mut self) {
        let is_own = self.random.number_below(2) == 0;
        let (kind, path) = if is_own {
            ("CSV of own results", format!("/v1/results.csv?scenario={}", self.scenario()))
        } else {
            ("CSV of all results", "/v1/results.csv?limit=20".to_owned())
        };
        self.get(kind, &path, |answer| {
            let text = answer.text();
            ensure(text.starts_with("id,") && text.ends_with("\r\n"), "cut off")?;
            ensure(text.lines().count() > 1, "no row")
        });
    }

    fn parquet(&mut self) {
        let path = format!("/v1/results.parquet?scenario={}", self.scenario());
        self.get("Parquet of own results", &path, |answer| {
            ensure(answer.body.starts_with(b"PAR1") && answer.body.ends_with(b"PAR1"), "cut off")
        });
    }

    fn page(&mut self) {
        let of_result = self.any(false).map_or_else(|| "/about".to_owned(), |id| format!("/results/{id}"));
        let paths = ["/", "/charts", "/charts/gain", "/results", of_result.as_str(), "/live", "/servers"];
        let path = self.random.one_of(&paths);
        let kind = match path {
            "/" => "front page",
            _ if path == of_result => "page of a result",
            _ => "other pages",
        };
        self.get(kind, path, |answer| ensure(answer.text().trim_end().ends_with("</html>"), "cut off"));
    }

    /// No stored result is lost, and all are deleted.
    fn end(&mut self) {
        for one in &self.stored {
            self.find(one.id);
        }
        let bearer = format!("Bearer {}", self.deletion);
        let authorization = [("Authorization", bearer.as_str())];
        self.expect(
            "deletion of all results",
            ("DELETE", "/v1/results", &authorization, &[]),
            200,
            |answer| ensure(json_of(answer)?["deleted"] == self.stored.len(), &answer.text()),
        );
    }
}
