//! The schemas of docs/schema accept the files of results and reject damaged ones.

use crate::results::{changed, golden};
use pathbench_testkit::validate_results;
use serde_json::{Value, json};
use std::fs;

type Damage = fn(&mut Value);

#[test]
fn the_schemas_accept_results_and_name_the_place_of_damage() {
    validate_results(&golden()).unwrap();
    let damages: [(&str, Damage, &str); 8] = [
        (
            "run.json",
            |it| drop(it.as_object_mut().unwrap().remove("seed")),
            "run.json:1: $: \"seed\" is a required",
        ),
        (
            "run.json",
            |it| it["runs"][0]["repetition"] = "1".into(),
            "$.runs[0].repetition: \"1\" is not of type",
        ),
        ("run.json", |it| it["runs"][0]["transport"] = "sctp".into(), "$.runs[0].transport: \"sctp\" is not"),
        ("run.json", |it| it["runs"][0]["stall_ms"] = Value::Null, "$.runs[0].stall_ms: null is not of type"),
        (
            "run.json",
            |it| it["schema"] = "pathbench.result/9".into(),
            "$.schema: \"pathbench.result/1\" was expected",
        ),
        (
            "samples.jsonl",
            |it| it["bytes_sent"] = (-1).into(),
            "samples.jsonl:1: $.bytes_sent: -1 is less than",
        ),
        ("events.jsonl", |it| it["source"] = "rumour".into(), "events.jsonl:1: $.source: \"rumour\" is not"),
        ("delivery.jsonl", |it| it["t_ms"] = json!([]), "delivery.jsonl:1: $.t_ms: [] is not of type"),
    ];
    for (file, damage, place) in damages {
        let copy = changed("v1", file, damage);
        let text = validate_results(&[copy.path().to_owned()]).unwrap_err();
        assert!(text.contains(place), "{place}: {text}");
    }
}

#[test]
fn lines_that_are_no_json_and_directories_without_results_are_errors() {
    let empty = tempfile::tempdir().unwrap();
    assert!(validate_results(&[empty.path().to_owned()]).unwrap_err().contains("no file of a result"));
    let copy = changed("v1", "run.json", |_| {});
    let events = copy.path().join("events.jsonl");
    let text = fs::read_to_string(&events).unwrap();
    fs::write(&events, text.clone() + "{\"run\n").unwrap();
    let place = format!("events.jsonl:{}: $: ", text.lines().count() + 1);
    let text = validate_results(&[copy.path().to_owned()]).unwrap_err();
    assert!(text.contains(&place), "{place}: {text}");
}
