//! Pages, files and API for reading, over a database in memory.

use crate::support::demo::{Demo, ManualClock, NOW_MS, golden, newest, packed};
use crate::support::memory::new_result;
use crate::support::synthetic::Campaign;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use axum::{Extension, Router};
use pathbench_api::Uuid;
use pathbench_api::consent::Consent;
use pathbench_api::name::Name;
use pathbench_api::summary::GroupSummary;
use pathbench_collector::chart;
use pathbench_collector::columns::Filter;
use pathbench_collector::http::reading_routes;
use pathbench_collector::memory::MemoryBudget;
use pathbench_collector::raw::RawStore;
use pathbench_collector::store::{Database, Deletion, DocumentKind, StoredResult};
use pathbench_collector::viewer::View;
use pathbench_collector::viewer::Viewer;
use pathbench_record::network::Client;
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tower::ServiceExt as _;

struct Answer {
    status: StatusCode,
    headers: axum::http::HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

fn app(demo: &Demo) -> Router {
    let operator = reading_routes().layer(Extension(View::OPERATOR));
    let everybody = reading_routes().layer(Extension(View::EVERYBODY));
    Router::new().nest("/admin", operator).merge(everybody).with_state(demo.reader.clone())
}

async fn get(app: &Router, address: &str) -> Answer {
    let request = Request::get(address).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, 200 << 20).await.unwrap().to_vec();
    Answer { status: parts.status, headers: parts.headers, body }
}

/// All addresses of one viewer.
fn addresses(prefix: &str, ids: &[Uuid]) -> Vec<String> {
    let home = if prefix.is_empty() { "/" } else { prefix };
    let mut all = vec![home.to_owned()];
    for path in [
        "/charts",
        "/results",
        "/live",
        "/servers",
        "/about",
        "/v1/results?limit=200",
        "/v1/results.csv",
        "/v1/results.parquet",
        "/v1/charts",
        "/v1/live",
    ] {
        all.push(format!("{prefix}{path}"));
    }
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

fn ids(demo: &Demo, viewer: Viewer, most: usize) -> Vec<Uuid> {
    let results = newest(&demo.reader, &Filter::new(viewer), most);
    results.iter().filter(|one| one.raw.is_some()).map(|one| one.id).take(2).collect()
}

#[tokio::test]
async fn every_page_and_file_answers_without_inline_code() {
    let demo = Demo::new(Campaign::default(), 300);
    demo.put_live("1", "phone", Consent::Public);
    demo.put_server("europe.example", "192.0.2.7:4433", 1);
    let app = app(&demo);
    for (prefix, viewer) in [("", Viewer::Everybody), ("/admin", Viewer::Operator)] {
        for address in addresses(prefix, &ids(&demo, viewer, 40)) {
            let answer = get(&app, &address).await;
            assert_eq!(answer.status, StatusCode::OK, "{address}: {}", answer.text());
            assert_eq!(answer.header("x-content-type-options"), "nosniff", "{address}");
            if answer.header("content-type").starts_with("text/html") {
                let policy = answer.header("content-security-policy");
                assert!(policy.starts_with("default-src 'none'; script-src '"), "{address}: {policy}");
                assert!(!policy.contains("unsafe"), "{address}: {policy}");
                if !address.ends_with("/report") {
                    let text = answer.text();
                    for inline in ["<style", " style=\"", "<script>", " onload", "javascript:"] {
                        assert!(!text.contains(inline), "{inline} in {address}");
                    }
                    // Links of the operator's pages stay below the prefix, except the shared page on privacy.
                    for link in text.split(" href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
                        let is_inside =
                            link == "/v1/privacy" || link.starts_with('#') || link.starts_with(prefix);
                        assert!(is_inside, "{link} in {address}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn assets_are_kept_for_ever_and_their_links_work() {
    let app = app(&Demo::default());
    let page = get(&app, "/live").await.text();
    let assets: Vec<&str> = page.split('"').filter(|text| text.starts_with("/assets/")).collect();
    assert_eq!(assets.len(), 3);
    for asset in assets {
        let answer = get(&app, asset).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(answer.header("cache-control").contains("immutable"));
    }
    assert_eq!(get(&app, "/assets/collector-0000000000000000.css").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_median_share_of_two_groups_is_between_them() {
    let demo = Demo::default();
    let mut checked = Campaign::default().checked(1);
    let summary = &mut checked.submission.summary;
    let path = Name::new("wlan").unwrap();
    summary.networks.iter_mut().for_each(|network| network.path = Name::new("eth").unwrap());
    summary.networks[0].path = path.clone();
    let mut group = summary.groups[0].clone();
    group.multipath_used = 1;
    summary.groups = [0.2, 0.6]
        .map(|share| GroupSummary { shares: [(path.clone(), share)].into(), ..group.clone() })
        .into();
    let one = new_result(&checked, None);
    let id = one.id;
    demo.database.insert(&[one]).unwrap();
    demo.load();
    let answer = get(&app(&demo), &format!("/admin/results/{id}")).await;
    assert!(answer.text().contains("40 %"), "{}", answer.text());
}

#[tokio::test]
async fn private_results_do_not_exist_for_everybody() {
    let demo = Demo::new(Campaign { public: 0.0, ..Campaign::default() }, 40);
    let app = app(&demo);
    for id in ids(&demo, Viewer::Operator, 40) {
        for path in ["/results/ID", "/results/ID/report", "/v1/results/ID", "/v1/results/ID/raw"] {
            let path = path.replace("ID", &id.to_string());
            assert_eq!(get(&app, &path).await.status, StatusCode::NOT_FOUND, "{path}");
            assert_eq!(get(&app, &format!("/admin{path}")).await.status, StatusCode::OK, "{path}");
        }
    }
    assert_eq!(get(&app, "/v1/results").await.json()["all"], 0);
    assert_eq!(get(&app, "/v1/results.csv").await.text().lines().count(), 1);
    // The operator's filter by agent is none for everybody.
    let agent = Campaign::default().submission(1).agent;
    assert_eq!(get(&app, &format!("/v1/results?agent={agent}")).await.json()["all"], 0);
}

#[tokio::test]
async fn pages_by_cursor_are_all_results_once() {
    let demo = Demo::new(Campaign { public: 1.0, ..Campaign::default() }, 137);
    let app = app(&demo);
    let (mut found, mut address) = (Vec::new(), "/v1/results?limit=20&mode=stable".to_owned());
    loop {
        let page = get(&app, &address).await.json();
        let of = |one: &Value| one["id"].as_str().unwrap().to_owned();
        found.extend(page["results"].as_array().unwrap().iter().map(of));
        assert!(page["results"].as_array().unwrap().iter().all(|one| one["summary"]["mode"] == "stable"));
        let Some(next) = page["next_cursor"].as_u64() else {
            assert_eq!(page["all"], found.len());
            break;
        };
        address = format!("/v1/results?limit=20&mode=stable&cursor={next}");
    }
    let count = found.len();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), count);
    assert!(count > 60, "{count}");
}

#[tokio::test]
async fn the_last_page_has_no_cursor_although_it_is_full() {
    let demo = Demo::new(Campaign { public: 1.0, ..Campaign::default() }, 6);
    let app = app(&demo);
    for (results, has_next) in [(5, true), (6, false), (7, false)] {
        let page = get(&app, &format!("/v1/results?limit={results}")).await.json();
        assert_eq!(page["next_cursor"].is_u64(), has_next, "{results}");
        for file in ["csv", "parquet"] {
            let answer = get(&app, &format!("/v1/results.{file}?limit={results}")).await;
            assert_eq!(answer.headers.contains_key("x-next-cursor"), has_next, "{file} {results}");
        }
        let page = get(&app, &format!("/results?limit={results}")).await.text();
        assert_eq!(page.contains("Older"), has_next, "{results}");
    }
}

#[tokio::test]
async fn a_malformed_request_is_a_problem() {
    let app = app(&Demo::default());
    let long = format!("/charts?q={}", "x".repeat(129));
    let many = format!("/v1/results?{}", "q=1&".repeat(40));
    for (address, status) in [
        ("/v1/results?transport=sctp", 400),
        ("/charts?network=radio", 400),
        ("/results?since=yesterday", 400),
        ("/results?cursor=x", 400),
        ("/v1/results?limit=0", 400),
        (&long, 400),
        (&many, 400),
        ("/v1/results?%ff=%ff", 400),
        ("/v1/results/no-id", 404),
        ("/results/..%2f..%2fetc", 404),
        ("/v1/charts/gain.exe", 404),
        ("/v1/charts/nothing.json", 404),
        ("/charts/nothing", 404),
        ("/v1/results/00000000-0000-7000-8000-000000000000/raw", 404),
    ] {
        let answer = get(&app, address).await;
        // Bytes that are no UTF-8 become replacement characters, of a field that nothing reads.
        let is_accepted = address.contains("%ff") && answer.status == StatusCode::OK;
        assert!(answer.status.as_u16() == status || is_accepted, "{address}: {}", answer.status);
        if address.starts_with("/v1") && !is_accepted {
            assert_eq!(answer.json()["status"], status, "{address}");
        }
    }
}

const MARKUP: &str = "<img src=x onerror=alert(1)>";
const POISON: [&str; 9] = [
    MARKUP,
    "'; DROP TABLE results; --",
    "=HYPERLINK(\"http://x\")",
    "@SUM(1)",
    "\"}],\"x\":[{\"",
    "host 192.0.2.77 up",
    "2001:db8:1:2::3",
    "</script><script>a",
    "a\u{301}\u{1f480}${x}%s{{7}}",
];

/// A campaign in which every name is poisoned, in turn.
fn poisoned(consent: Consent) -> Demo {
    let demo = Demo::default();
    let raw = poisoned_raw();
    let place = demo.raw.append(&[&raw]).unwrap().remove(0);
    let mut results = Vec::new();
    for (index, poison) in POISON.into_iter().cycle().take(POISON.len() * 4).enumerate() {
        let mut checked = Campaign::default().checked(index as u64);
        let name = Name::nearest(poison);
        let summary = &mut checked.submission.summary;
        checked.submission.consent = consent;
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
            group.label = Name::nearest(&format!("tcp@{poison}"));
            group.variant = Some(name.clone());
            group.pattern = name.clone();
            group.shares = [(name.clone(), 0.5)].into();
            let value = group.figures.values().next().copied().unwrap_or(1.0);
            group.figures.insert(name.clone(), value);
        }
        results.push(new_result(&checked, Some(place.clone())));
    }
    demo.database.insert(&results).unwrap();
    demo.load();
    for (index, poison) in POISON.into_iter().enumerate() {
        demo.put_live(&index.to_string(), Name::nearest(poison).as_str(), Consent::Public);
        demo.put_server(poison, "192.0.2.99:4433", 1);
    }
    demo
}

/// A raw part whose document is changed.
fn changed_raw(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(golden("v1-messages")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, place.path().join(path.file_name().unwrap())).unwrap();
    }
    let file = place.path().join("run.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut document);
    fs::write(&file, document.to_string()).unwrap();
    packed(place.path(), "")
}

fn poisoned_raw() -> Vec<u8> {
    changed_raw(|document| {
        document["scenario"]["name"] = json!(format!("{MARKUP} 192.0.2.77"));
        document["scenario"]["description"] = json!("</script><script>a 2001:db8:1:2::3");
        document["host"]["kernel"] = json!("host 192.0.2.77 up");
    })
}

fn unpacked(raw: &[u8]) -> String {
    let mut archive = tar::Archive::new(zstd::Decoder::new(raw).unwrap());
    let read = |entry: std::io::Result<tar::Entry<'_, _>>| std::io::read_to_string(entry.unwrap()).unwrap();
    archive.entries().unwrap().map(read).collect()
}

#[tokio::test]
async fn poisoned_names_appear_nowhere_unescaped_and_no_address_is_public() {
    let demo = poisoned(Consent::Public);
    let app = app(&demo);
    for (prefix, viewer) in [("", Viewer::Everybody), ("/admin", Viewer::Operator)] {
        for address in addresses(prefix, &ids(&demo, viewer, 20)) {
            let answer = get(&app, &address).await;
            assert_eq!(answer.status, StatusCode::OK, "{address}: {}", answer.text());
            let mut text = answer.text();
            if address.ends_with("/raw") {
                text = unpacked(&answer.body);
            }
            if viewer == Viewer::Everybody {
                for part in ["192.0.2.77", "192.0.2.99", "db8:1:2::3"] {
                    assert!(!text.contains(part), "{part} in {address}");
                }
            }
            let kind = answer.header(header::CONTENT_TYPE.as_str());
            if kind.starts_with("text/html") || kind.starts_with("image/svg") {
                for markup in ["<img src=x", "<script>a", "\"}],\"x\":[{\""] {
                    assert!(!text.contains(markup), "{markup} in {address}");
                }
            }
            if kind.starts_with("application/json") {
                answer.json();
            }
            if kind.starts_with("text/csv") {
                csv_is_harmless(&text, &address);
            }
        }
    }
}

fn csv_is_harmless(text: &str, address: &str) {
    for line in text.split("\r\n") {
        let mut field = String::new();
        let mut quoted = false;
        for character in line.chars().chain([',']) {
            match character {
                '"' => quoted = !quoted,
                ',' if !quoted => {
                    let is_number = field.parse::<f64>().is_ok();
                    assert!(is_number || !field.starts_with(['=', '+', '-', '@']), "{field} in {address}");
                    field.clear();
                }
                _ => field.push(character),
            }
        }
        assert!(!quoted, "{line} in {address}");
    }
}

/// Stores a public result with this raw part and gives its id.
fn with_raw(demo: &Demo, raw: &[u8]) -> Uuid {
    let place = demo.raw.append(&[raw]).unwrap().remove(0);
    let mut checked = Campaign::default().checked(9000 + place.segment.parse::<u64>().unwrap());
    checked.submission.consent = Consent::Public;
    let one = new_result(&checked, Some(place));
    demo.database.insert(std::slice::from_ref(&one)).unwrap();
    demo.load();
    one.id
}

fn archive(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    build(&mut archive);
    zstd::encode_all(archive.into_inner().unwrap().as_slice(), 1).unwrap()
}

fn add(archive: &mut tar::Builder<Vec<u8>>, name: &str, kind: tar::EntryType, body: &[u8]) {
    let mut header = tar::Header::new_gnu();
    // The builder refuses such names; an attacker's does not.
    let bytes = name.as_bytes();
    header.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
    header.set_entry_type(kind);
    header.set_size(body.len() as u64);
    if kind == tar::EntryType::Symlink {
        header.set_link_name("/etc/passwd").unwrap();
    }
    header.set_cksum();
    archive.append(&header, body).unwrap();
}

#[tokio::test]
async fn hostile_archives_are_bounded_and_reach_nothing() {
    let demo = Demo::default();
    let app = app(&demo);
    let file = tar::EntryType::Regular;
    let marker = Path::new("/tmp/pathbench-escaped-run.json");
    let hostile = [
        ("not zstd", b"(\xb5/\xfd nothing".to_vec(), 422),
        ("empty", archive(|_| {}), 422),
        ("traversal", archive(|to| add(to, "../../../../tmp/pathbench-escaped-run.json", file, b"{}")), 422),
        ("absolute", archive(|to| add(to, "/tmp/pathbench-escaped-run.json", file, b"{}")), 422),
        ("link", archive(|to| add(to, "run.json", tar::EntryType::Symlink, b"")), 422),
        ("no result", archive(|to| add(to, "run.json", file, b"[1]")), 422),
        ("no json", archive(|to| add(to, "x/run.json", file, b"{{{")), 422),
        (
            "many files",
            archive(|to| (0..400).for_each(|index| add(to, &format!("f{index}"), file, b"x"))),
            413,
        ),
        ("deep", archive(|to| add(to, "run.json", file, "[".repeat(100_000).as_bytes())), 422),
        ("long line", archive(|to| add(to, "events.jsonl", file, &vec![b'x'; 2 << 20])), 413),
    ];
    for (what, raw, status) in hostile {
        let id = with_raw(&demo, &raw);
        for path in [format!("/results/{id}/report"), format!("/admin/results/{id}/report")] {
            let answer = get(&app, &path).await;
            let found = answer.status.as_u16();
            assert!(found == status || path.starts_with("/admin") && found == 422, "{what}: {found}");
            assert!(!answer.text().contains("/tmp/"), "{what}: {}", answer.text());
        }
    }
    assert!(!marker.exists());
}

#[tokio::test]
async fn a_compression_bomb_ends_at_the_bound() {
    let demo = Demo::default();
    let app = app(&demo);
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_path("samples.jsonl").unwrap();
    header.set_size(4 << 30);
    header.set_cksum();
    encoder.write_all(header.as_bytes()).unwrap();
    let block = vec![b'\n'; 1 << 20];
    for _ in 0..600 {
        encoder.write_all(&block).unwrap();
    }
    let raw = encoder.finish().unwrap();
    assert!(raw.len() < 200_000, "{}", raw.len());
    let id = with_raw(&demo, &raw);
    let answer = get(&app, &format!("/v1/results/{id}/raw")).await;
    assert!([413, 422].contains(&answer.status.as_u16()), "{}", answer.status);
}

#[tokio::test]
async fn the_report_of_a_deleted_result_is_gone() {
    let demo = Demo::new(Campaign { public: 1.0, ..Campaign::default() }, 3);
    let app = app(&demo);
    let id = ids(&demo, Viewer::Everybody, 3)[0];
    let address = format!("/results/{id}/report");
    let first = get(&app, &address).await;
    assert_eq!((first.status, get(&app, &address).await.body), (StatusCode::OK, first.body));
    demo.database.delete(&Deletion::One(id), 0).unwrap();
    demo.load();
    assert_eq!(get(&app, &address).await.status, StatusCode::NOT_FOUND);
    assert_eq!(get(&app, &format!("/results/{id}")).await.status, StatusCode::NOT_FOUND);
}

/// The answer, of which the client has not read the body.
async fn unread(app: &Router, address: &str) -> axum::response::Response {
    let response = app.clone().oneshot(Request::get(address).body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    response
}

#[tokio::test]
async fn all_readers_of_a_report_share_its_memory() {
    let demo = Demo::new(Campaign { public: 1.0, ..Campaign::default() }, 1);
    let app = app(&demo);
    let address = format!("/results/{}/report", ids(&demo, Viewer::Everybody, 1)[0]);
    let free = || demo.reader.answers.available_bytes();
    let all = free();
    let first = unread(&app, &address).await;
    let of_one = all - free();
    let mut others = Vec::new();
    for _ in 0..100 {
        others.push(unread(&app, &address).await);
    }
    assert_eq!(all - free(), of_one);
    drop(others);
    assert!(of_one >= to_bytes(first.into_body(), usize::MAX).await.unwrap().len());
}

/// Public results, and a reader with memory for one report that is made and a few answers.
fn with_little_memory() -> Demo {
    let mut demo = Demo::new(Campaign { public: 1.0, ..Campaign::default() }, 80);
    let mut reader = Arc::into_inner(std::mem::replace(&mut demo.reader, Demo::default().reader)).unwrap();
    reader.answers = MemoryBudget::new(ANSWER_MEMORY_BYTES);
    demo.reader = Arc::new(reader);
    demo
}

const ANSWER_MEMORY_BYTES: usize = 25 << 20;

/// `building_mib`: the memory that the first part of an answer takes while it is built.
async fn unread_answers_have_a_bound(address: &str, building_mib: usize) {
    let demo = with_little_memory();
    let report = format!("/results/{}/report", ids(&demo, Viewer::Everybody, 80)[0]);
    let app = app(&demo);
    let mut others = demo.reader.answers.share(Client::from(IpAddr::from([192, 0, 2, 1])));
    assert!(others.grow_to(ANSWER_MEMORY_BYTES - (building_mib << 20) - (512 << 10)));
    let mut kept = Vec::new();
    let refused = loop {
        let request = Request::get(address).body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        if response.status() != StatusCode::OK {
            break response;
        }
        kept.push(response);
        assert!(kept.len() < 1_000, "{address} has no bound");
    };
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{address}");
    assert!(refused.headers().contains_key("retry-after"), "{address}");
    assert_eq!(get(&app, &report).await.status, StatusCode::SERVICE_UNAVAILABLE, "{address}");
    drop((kept, others));
    assert_eq!(get(&app, &report).await.status, StatusCode::OK, "{address}");
}

/// A request waits 10 s for memory before it is refused, so the addresses are tried side by side.
#[tokio::test]
async fn answers_that_nobody_reads_have_a_bound() {
    tokio::join!(
        unread_answers_have_a_bound("/v1/results", 4),
        unread_answers_have_a_bound("/v1/results.csv", 8),
        unread_answers_have_a_bound("/v1/results.parquet", 22),
    );
}

#[tokio::test]
async fn all_readers_of_a_raw_part_share_its_bytes() {
    let demo = with_little_memory();
    let app = app(&demo);
    let raw = format!("/v1/results/{}/raw", ids(&demo, Viewer::Everybody, 80)[0]);
    let available = |demo: &Demo| demo.reader.answers.available_bytes();
    let first = get(&app, &raw).await;
    let before = available(&demo);
    let request = || Request::get(&raw).body(Body::empty()).unwrap();
    let kept = [app.clone().oneshot(request()).await.unwrap(), app.clone().oneshot(request()).await.unwrap()];
    assert_eq!((available(&demo), first.status), (before, StatusCode::OK));
    drop(kept);
}

/// An operator and a server that few people use.
const FEW: [&str; 2] = ["zwergnetz", "kellerserver"];

/// Stores a public result of an agent in a network of its own, with the names of [`FEW`] in its summary and its files.
fn with_few(demo: &Demo, agent: u64) -> Uuid {
    let raw = changed_raw(|document| {
        document["servers"][0]["name"] = json!("kellerserver");
        document["servers"][0]["address"] = json!("kellerserver:4433");
        document["reachability"][0]["server"] = json!("kellerserver");
        document["scenario"]["description"] =
            json!("over Zwergnetz to kellerserver, in KELLERSERVER/zwergnetz");
    });
    let range = demo.raw.append(&[&raw]).unwrap().remove(0);
    let mut checked = Campaign { public: 1.0, ..Campaign::default() }.checked(5000 + agent);
    checked.submission.agent = Uuid::from_u64_pair(agent, agent);
    let summary = &mut checked.submission.summary;
    summary.server = Some(Name::new("kellerserver").unwrap());
    let variant = Some(Name::new("via Zwergnetz").unwrap());
    summary.groups.iter_mut().for_each(|group| group.variant.clone_from(&variant));
    for network in &mut summary.networks {
        network.operator = Some(Name::new("Zwergnetz").unwrap());
    }
    let one = new_result(&checked, Some(range));
    demo.database.insert(std::slice::from_ref(&one)).unwrap();
    demo.load();
    one.id
}

/// The addresses at which everybody finds each name of [`FEW`].
async fn naming(app: &Router, id: Uuid) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for address in addresses("", &[id]) {
        let answer = get(app, &address).await;
        assert_eq!(answer.status, StatusCode::OK, "{address}: {}", answer.text());
        let text = if address.ends_with("/raw") { unpacked(&answer.body) } else { answer.text() };
        let text = text.to_lowercase();
        found.extend(FEW.into_iter().filter(|name| text.contains(name)).map(|name| (name, address.clone())));
    }
    found
}

#[tokio::test]
async fn names_of_few_people_are_in_no_answer_until_three_share_them() {
    let demo = Demo::default();
    let id = with_few(&demo, 1);
    demo.put_live("1", "phone", Consent::Public);
    let live = demo.database.document(DocumentKind::Live, "1").unwrap().unwrap();
    demo.put(DocumentKind::Live, "1", live.body.replace("europe.example", "kellerserver"));
    let app = app(&demo);
    let all = async |query: &str| get(&app, &format!("/v1/results?{query}")).await.json()["all"].clone();
    let queries = ["operator=Zwergnetz", "server=kellerserver", "q=ellerserve"];
    for agents in 1..=2 {
        assert_eq!(naming(&app, id).await, [], "{agents}");
        let operator = get(&app, &format!("/admin/results/{id}")).await.text().to_lowercase();
        assert!(FEW.iter().all(|name| operator.contains(name)));
        for query in queries {
            assert_eq!(all(query).await, 0, "{query}");
        }
        with_few(&demo, agents + 1);
    }
    let found = naming(&app, id).await;
    let api = format!("/v1/results/{id}");
    let single = [
        "/results",
        &format!("/results/{id}"),
        &format!("/results/{id}/report"),
        "/v1/results?limit=200",
        "/v1/results.csv",
        "/v1/results.parquet",
        &api,
        &format!("{api}/raw"),
    ];
    for name in FEW {
        let is_there = |address: &&str| found.contains(&(name, (*address).to_owned()));
        assert!(single.iter().all(is_there), "{name}: {found:?}");
    }
    assert!(found.contains(&("kellerserver", "/v1/live".to_owned())));
    // As choices of filters, and as groups.
    for address in ["/charts", "/v1/charts/usage-by-operator.csv"] {
        assert!(found.contains(&("zwergnetz", address.to_owned())), "{address}: {found:?}");
    }
    for query in queries {
        assert_eq!(all(query).await, 3, "{query}");
    }
    // A deletion takes it back, also from answers that were kept.
    let other = newest(&demo.reader, &Filter::new(Viewer::Everybody), 1)[0].id;
    assert_ne!(other, id);
    demo.database.delete(&Deletion::One(other), 0).unwrap();
    demo.load();
    assert_eq!(naming(&app, id).await, [], "after the deletion");
}

#[tokio::test]
async fn a_chart_is_kept_while_nothing_changes_and_for_five_seconds() {
    let clock = Arc::new(ManualClock::default());
    let demo = Demo::with_clock(Campaign { public: 1.0, ..Campaign::default() }, 20, Arc::clone(&clock) as _);
    let count = |demo: &Demo| demo.reader.chart(&Filter::new(Viewer::Everybody), "usage").unwrap().n;
    assert_eq!(count(&demo), 20);
    let more = new_result(&Campaign { public: 1.0, ..Campaign::default() }.checked(700), None);
    demo.database.insert(&[more]).unwrap();
    demo.load();
    clock.advance(Duration::from_millis(4_900));
    assert_eq!(count(&demo), 20);
    clock.advance(Duration::from_millis(200));
    assert_eq!(count(&demo), 21);
    clock.advance(Duration::from_secs(3600));
    let filter = Filter::new(Viewer::Everybody);
    let [one, other] = [(); 2].map(|()| demo.reader.chart(&filter, "usage").unwrap());
    assert!(Arc::ptr_eq(&one, &other));
}

#[tokio::test]
async fn live_reports_expire_and_private_agents_are_hidden() {
    let demo = Demo::default();
    demo.put_live("1", "public agent", Consent::Public);
    demo.put_live("2", "private agent", Consent::Private);
    demo.put(DocumentKind::Live, "3", "{}".to_owned());
    let old = demo.database.document(DocumentKind::Live, "1").unwrap().unwrap();
    let old =
        pathbench_collector::store::Document { key: "4".to_owned(), updated_ms: NOW_MS - 20_000, ..old };
    demo.database.put_document(DocumentKind::Live, &old).unwrap();
    let app = app(&demo);
    let names = |live: Value| -> Vec<String> {
        let running = live["running"].as_array().unwrap().clone();
        running.iter().map(|one| one["agent"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(get(&app, "/v1/live").await.json()), ["public agent"]);
    assert_eq!(names(get(&app, "/admin/v1/live").await.json()), ["public agent", "private agent"]);
    assert!(!get(&app, "/").await.text().contains("private agent"));
}

#[test]
fn partitions_hold_each_result_once() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    let demo = Demo::new(Campaign::default(), 700);
    let place = tempfile::tempdir().unwrap();
    let filter = Filter::new(Viewer::Everybody);
    let files = demo.reader.export(&filter, place.path()).unwrap();
    // Again over the same files.
    assert_eq!(demo.reader.export(&filter, place.path()).unwrap(), files);
    assert!(files > 20, "{files}");
    let mut rows = 0;
    for entry in fs::read_dir(place.path()).unwrap() {
        let directory = entry.unwrap().path();
        assert!(directory.file_name().unwrap().to_str().unwrap().starts_with("date=2026-1"));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        let reader =
            SerializedFileReader::new(fs::File::open(directory.join("part.parquet")).unwrap()).unwrap();
        rows += reader.metadata().file_metadata().num_rows();
    }
    let results = newest(&demo.reader, &filter, 1000);
    let groups = |one: &StoredResult| demo.reader.summary(one, Viewer::Everybody).unwrap().groups.len();
    assert_eq!(rows as usize, results.iter().map(groups).sum::<usize>());
}
