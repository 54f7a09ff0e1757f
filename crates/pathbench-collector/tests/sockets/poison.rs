//! Results whose every text is an attack, over HTTP: nothing of them appears unescaped, and no address or name of a
//! network in public.

use crate::support::demo::{golden, packed};
use crate::support::process::{Answer, Collector, line, random, report_token, submission};
use crate::support::within;
use pathbench_api::Uuid;
use pathbench_api::consent::Consent;
use pathbench_api::name::Name;
use pathbench_api::submission::Submission;
use pathbench_collector::chart;
use pathbench_collector::reader::query::encoded;
use pathbench_program::clock::RealClock;
use pathbench_record::time::WallClock as _;
use serde_json::{Value, json};
use std::time::Duration;

const POISON: [&str; 12] = [
    "<img src=x onerror=alert(1)>",
    "'; DROP TABLE result; --",
    "=cmd|' /C calc'!A0",
    "+SUM(1)",
    "\"}],\"x\":[{\"",
    "192.0.2.77dev",
    "a 2001:db8:1:2::3",
    "aa:bb:cc:dd:ee:ff",
    "</script><script>a",
    "AABB.CCDD.EEFF",
    "\"><svg/onload=a>",
    "ip-192-0-2-77",
];

/// In no public answer, in any case of letters.
const ADDRESSES: [&str; 6] =
    ["192.0.2.77", "192-0-2-77", "db8:1:2::3", "aa:bb:cc:dd:ee:ff", "aabb.ccdd.eeff", "192.0.2.99"];
const SSID: &str = "Anna's attic";
/// In no page, picture or report.
const MARKUP: [&str; 4] = ["<img src=x", "<script>a", "<svg/onload", "\u{202e}"];

fn poisoned(index: usize, consent: Consent, raw: &str) -> Submission {
    let name = Name::nearest(POISON[index % POISON.len()]);
    let mut one = submission();
    one.consent = consent;
    // A group by operator or server needs several agents.
    one.agent = Uuid::from_bytes(random());
    one.raw = Some(raw.to_owned());
    let summary = &mut one.summary;
    summary.scenario = name.clone();
    summary.version = name.clone();
    summary.kernel = name.clone();
    summary.machine = name.clone();
    summary.server = Some(name.clone());
    summary.experiment = Some(name.clone());
    for network in &mut summary.networks {
        network.path = name.clone();
        network.operator = Some(name.clone());
        network.prefix = Some(name.clone());
    }
    for group in &mut summary.groups {
        group.label = Name::nearest(&format!("{}@{name}", group.label));
        group.variant = Some(name.clone());
        group.shares = [(name.clone(), 0.5)].into();
        group.figures.insert(name.clone(), 1.5);
    }
    one
}

fn raw() -> String {
    let place = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden("v1-messages")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, place.path().join(path.file_name().unwrap())).unwrap();
    }
    let file = place.path().join("run.json");
    let mut document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let all = format!("{} {SSID} \u{202e}\u{1b}[2J\u{200b}", POISON.join(" "));
    document["scenario"]["name"] = json!(all);
    document["scenario"]["description"] = json!(all);
    document["host"]["kernel"] = json!(all);
    for run in document["runs"].as_array_mut().unwrap() {
        for path in run["paths"].as_array_mut().into_iter().flatten() {
            path["local"] = json!("192.0.2.77");
            path["remote"] = json!("2001:db8:1:2::3");
        }
    }
    std::fs::write(&file, document.to_string()).unwrap();
    let events = place.path().join("events.jsonl");
    let mut text = std::fs::read_to_string(&events).unwrap();
    let mut event: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    event["detail"] = json!({ "ssid": SSID, "text": all });
    text.push_str(&event.to_string());
    text.push('\n');
    std::fs::write(&events, text).unwrap();
    data_encoding::BASE64.encode(&packed(place.path(), ""))
}

struct Scene {
    collector: Collector,
    admin: String,
    public: Vec<Uuid>,
    private: Uuid,
    agents: Vec<(Uuid, &'static str)>,
}

fn scene() -> Scene {
    let collector = Collector::start(&["--open", "--rate-limit", "0", "--operator", POISON[0]]);
    let admin = collector.command(&["token", "--admin", "--valid", "1h"]);
    let raw = raw();
    let results: Vec<Submission> =
        (0..POISON.len() * 3).map(|index| poisoned(index, Consent::Public, &raw)).collect();
    let private = poisoned(0, Consent::Private, &raw);
    let mut lines: Vec<String> = results.iter().map(line).collect();
    lines.push(line(&private));
    let answer = collector.submit(&lines);
    assert_eq!(answer.status, 201, "{}", answer.text());
    let agents = POISON.map(|poison| (agent(&collector, poison), poison)).to_vec();
    for poison in POISON {
        server(&collector, &admin, poison);
    }
    let loaded = within(Duration::from_secs(20), || {
        let page = collector.get("/v1/results").json();
        (page["all"] == results.len()).then_some(())
    });
    assert!(loaded.is_some(), "{}", collector.get("/v1/results").text());
    let public = results.iter().take(POISON.len()).map(|one| one.id).collect();
    Scene { collector, admin, public, private: private.id, agents }
}

fn agent(collector: &Collector, poison: &str) -> Uuid {
    let id = Uuid::from_bytes(random());
    let check_in = json!({ "agent": id, "name": poison, "version": poison, "consent": "public" });
    assert_eq!(collector.request("POST", "/v1/check-in").json(&check_in).send().status, 200);
    id
}

/// A live report expires after some seconds, fewer than the test takes on a busy machine.
fn report_live(collector: &Collector, id: Uuid, poison: &str) {
    let live = json!({
        "agent": poison, "experiment": poison, "server": poison, "transport": "mptcp", "pattern": poison,
        "runs_done": 1, "runs_planned": 2, "paths": [{ "name": poison, "goodput_mbps": 1.5 }],
    });
    let path = format!("/v1/live/{id}");
    assert_eq!(collector.request("PUT", &path).json(&live).send().status, 204);
}

fn server(collector: &Collector, admin: &str, poison: &str) {
    let name = encoded(poison);
    let made = collector
        .request("PUT", &format!("/v1/admin/servers/{name}"))
        .bearer(admin)
        .json(&json!({ "address": "192.0.2.99:4433" }))
        .send();
    assert_eq!(made.status, 200, "{}", made.text());
    let token = report_token(made.json()["key"].as_str().unwrap(), poison, RealClock.unix_ms() / 1000);
    let report = json!({
        "address": "192.0.2.99:4433", "transports": ["tcp"], "tests": 0, "max_tests": 2, "draining": false,
        "version": poison,
    });
    let answer = collector.request("PUT", &format!("/v1/servers/{name}")).bearer(&token).json(&report).send();
    assert_eq!(answer.status, 204, "{}", answer.text());
}

fn addresses(prefix: &str, ids: &[Uuid]) -> Vec<String> {
    let mut all = vec![format!("{prefix}/")];
    let pages = ["/charts", "/results", "/live", "/servers", "/about", "/v1/results?limit=200"];
    let files = ["/v1/results.csv", "/v1/results.parquet", "/v1/charts", "/v1/live"];
    all.extend(pages.into_iter().chain(files).map(|path| format!("{prefix}{path}")));
    for (name, _) in chart::all() {
        all.push(format!("{prefix}/charts/{name}"));
        all.extend(["csv", "json", "svg"].map(|extension| format!("{prefix}/v1/charts/{name}.{extension}")));
    }
    for id in ids {
        all.extend(["", "/report"].map(|rest| format!("{prefix}/results/{id}{rest}")));
        all.extend(["", "/raw"].map(|rest| format!("{prefix}/v1/results/{id}{rest}")));
    }
    all
}

/// The text of an answer; of an archive and of Parquet all texts in it.
fn text(address: &str, answer: &Answer) -> String {
    if address.ends_with("/raw") {
        let mut archive = tar::Archive::new(zstd::Decoder::new(answer.body.as_slice()).unwrap());
        let read =
            |entry: std::io::Result<tar::Entry<'_, _>>| std::io::read_to_string(entry.unwrap()).unwrap();
        return archive.entries().unwrap().map(read).collect();
    }
    if address.ends_with(".parquet") {
        use parquet::file::reader::{FileReader as _, SerializedFileReader};
        let reader = SerializedFileReader::new(bytes::Bytes::from(answer.body.clone())).unwrap();
        return reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    }
    answer.text()
}

#[test]
fn poison_appears_nowhere() {
    let Scene { collector, admin, public, private, agents } = scene();
    let renew_live = || agents.iter().for_each(|(id, poison)| report_live(&collector, *id, poison));
    let mut all: Vec<(String, bool)> =
        addresses("", &public[..]).into_iter().map(|address| (address, true)).collect();
    all.extend(["/metrics", "/v1/privacy", "/health", "/ready"].map(|path| (path.to_owned(), true)));
    all.extend(addresses("/admin", &public[..1]).into_iter().map(|address| (address, false)));
    all.push((format!("/admin/results/{private}"), false));
    for (address, is_public) in &all {
        if address.ends_with("/live") {
            renew_live();
        }
        let mut request = collector.request("GET", address);
        if !is_public {
            request = request.bearer(&admin);
        }
        let answer = request.send();
        assert_eq!(answer.status, 200, "{address}: {}", answer.text());
        let text = text(address, &answer);
        let kind = answer.headers["content-type"].as_str();
        if *is_public {
            let lower = text.to_lowercase();
            let left = ADDRESSES.iter().find(|part| lower.contains(**part));
            assert!(left.is_none(), "{left:?} in {address}: {}", around(&lower, left.unwrap()));
            assert!(!text.contains(SSID) && !text.contains(&SSID.replace('\'', "&#39;")), "{address}");
            assert!(!text.contains(&private.to_string()), "{address}");
        }
        if kind.starts_with("text/html") || kind.starts_with("image/svg") {
            let found = MARKUP.iter().find(|markup| text.contains(**markup));
            assert!(found.is_none(), "{found:?} in {address}: {}", around(&text, found.unwrap()));
            assert!(!text.contains('\u{1b}'), "{address}");
        }
        if kind.starts_with("application/json") {
            answer.json();
        }
        if kind.starts_with("text/csv") {
            let formula = text.lines().flat_map(|line| line.split(',')).find(|field| {
                field.trim_start_matches('"').starts_with(['=', '+', '@']) && field.parse::<f64>().is_err()
            });
            assert_eq!(formula, None, "{address}");
        }
    }
    for path in ["/results/ID", "/results/ID/report", "/v1/results/ID", "/v1/results/ID/raw"] {
        let path = path.replace("ID", &private.to_string());
        assert_eq!(collector.get(&path).status, 404, "{path}");
        let operator = collector.request("GET", &format!("/admin{path}")).bearer(&admin).send();
        assert_eq!(operator.status, 200, "{path}");
    }
    // What is anonymous was there.
    let servers = collector.get("/servers").text();
    assert!(servers.contains("192.0.2.0/24") && servers.contains("&lt;img"), "{servers}");
    let operator = collector.request("GET", "/admin/servers").bearer(&admin).send().text();
    assert!(operator.contains("192.0.2.99:4433") && operator.contains("192.0.2.77dev"), "{operator}");
    renew_live();
    assert!(collector.get("/live").text().contains("&lt;img"));
    let metrics = collector.get("/metrics").text();
    assert!(metrics.contains("pathbench_collector_panics_total 0"), "{metrics}");
}

fn around(text: &str, part: &str) -> String {
    let at = text.find(part).unwrap_or(0);
    text[..at]
        .chars()
        .rev()
        .take(80)
        .collect::<String>()
        .chars()
        .rev()
        .chain(text[at..].chars().take(80))
        .collect()
}

#[test]
fn links_of_pages_lead_somewhere() {
    let collector = Collector::start(&["--open"]);
    for page in ["/", "/about", "/results", "/servers", "/live"] {
        for link in collector.get(page).text().split(" href=\"").skip(1) {
            let link = link.split('"').next().unwrap().replace("&amp;", "&");
            if link.starts_with('/') {
                assert_eq!(collector.get(&link).status, 200, "{link} of {page}");
            }
        }
    }
}

#[test]
fn numbers_that_are_none_and_names_that_deceive_are_rejected() {
    let collector = Collector::start(&["--open"]);
    let good = line(&submission());
    let bad = [
        good.replace(":20.0", ":NaN"),
        good.replace(":20.0", ":-Infinity"),
        good.replace(":20.0", ":1e400"),
        good.replace(":20.0", ":-0.5"),
        good.replace("\"runs\":3", "\"runs\":18446744073709551616"),
        good.replace("\"runs\":3", "\"runs\":-1"),
        good.replace("\"runs\":3", "\"runs\":3.5"),
        good.replace("Example Mobile", "a\\u0000b"),
        good.replace("Example Mobile", "a\\u202eb"),
        good.replace("Example Mobile", "a\\u200bb"),
        good.replace("Example Mobile", "\\ud800"),
        good.replace("Example Mobile", ""),
    ];
    for line in &bad {
        assert_ne!(*line, good);
    }
    let answer = collector.submit(&bad);
    assert_eq!(answer.codes(), vec![422; bad.len()], "{}", answer.text());
    let live = |path: &str, text: &str| {
        collector.request("PUT", path).header("Content-Type", "application/json").body(text).send().status
    };
    let report =
        r#"{"agent":"a","runs_done":1,"runs_planned":2,"paths":[{"name":"b","goodput_mbps":1e300}]}"#;
    let id = Uuid::from_bytes(random());
    let check_in = json!({ "agent": id, "name": "a", "version": "0.1.0", "consent": "public" });
    assert_eq!(collector.request("POST", "/v1/check-in").json(&check_in).send().status, 200);
    let path = format!("/v1/live/{id}");
    assert_eq!(live(&path, report), 422);
    assert_eq!(live(&path, &report.replace("1e300", "NaN")), 422);
    assert_eq!(live(&path, &report.replace("1e300", "1")), 204);
    let wrong = collector.request("PUT", "/v1/live/no-uuid").body(report).send();
    assert_eq!((wrong.status, wrong.json()["status"].as_u64()), (400, Some(400)));
}
