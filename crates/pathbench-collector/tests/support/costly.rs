//! Requests and results that cost a collector the most.

use super::process::{Collector, name, submission};
use pathbench_api::Uuid;
use pathbench_api::submission::Submission;
use pathbench_api::summary::{Network, NetworkKind};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write as _;

/// As many groups and networks as a summary may have: each row of a table has 4 KiB.
pub(crate) fn largest(raw: Option<&[u8]>) -> Submission {
    let mut one = submission();
    one.agent = Uuid::from_u128(9);
    let summary = &mut one.summary;
    let group = summary.groups[0].clone();
    summary.groups = (0..128).map(|_| group.clone()).collect();
    summary.groups.iter_mut().for_each(|group| group.shares.clear());
    let network = |index: usize| Network {
        path: name(&format!("p{index}")),
        kind: NetworkKind::Other,
        operator: Some(name(&format!("{index:02}{}", "Q".repeat(62)))),
        prefix: None,
    };
    summary.networks = (0..64).map(network).collect();
    one.raw = raw.map(|raw| data_encoding::BASE64.encode(raw));
    one
}

/// Names with one long beginning, and texts that are that beginning everywhere.
pub(crate) fn poison() -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let names: Vec<Value> = (0..900).map(|index| json!(format!("{}{index:04}", "ga".repeat(30)))).collect();
    let document = json!({ "ssid": names, "scenario": {} });
    std::fs::write(place.path().join("run.json"), document.to_string()).unwrap();
    let event = json!({ "text": "ga".repeat(400 << 10) }).to_string();
    let mut file = File::create(place.path().join("events.jsonl")).unwrap();
    for _ in 0..40 {
        writeln!(file, "{event}").unwrap();
    }
    drop(file);
    super::demo::packed(place.path(), "")
}

/// A batch of 15 MiB of spaces.
pub(crate) fn bomb() -> Vec<u8> {
    zstd::encode_all(vec![b' '; 15 << 20].as_slice(), 3).unwrap()
}

/// All routes that everybody may read, from the description of the API, and the pages.
pub(crate) fn public_routes(collector: &Collector, id: Uuid) -> Vec<String> {
    const PAGES: [&str; 9] = [
        "/",
        "/charts",
        "/charts/usage-by-operator",
        "/results?limit=100",
        "/results/{id}",
        "/results/{id}/report",
        "/live",
        "/servers",
        "/about",
    ];
    let document = collector.get("/v1/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    let public =
        paths.iter().filter(|(path, methods)| methods.get("get").is_some() && !path.contains("admin"));
    let mut all: Vec<String> = public.map(|(path, _)| path.clone()).collect();
    assert!(all.len() > 8, "{all:?}");
    all.extend(PAGES.map(String::from));
    for path in &mut all {
        let given = path.replace("{id}", &id.to_string()).replace("{name}", "usage.csv");
        *path = if given == "/v1/results" { "/v1/results?limit=200".to_owned() } else { given };
        assert!(!path.contains('{'), "no value for {path}");
    }
    all
}
