//! The description of the API is the committed one, and breaks no client of the released one.

use pathbench_collector::http::openapi::document;
use serde_json::{Value, json};
use std::path::PathBuf;

fn committed() -> PathBuf {
    pathbench_testkit::checkout().join("docs/openapi.json")
}

#[test]
fn the_committed_description_is_current() {
    let text = format!("{:#}\n", document());
    if std::env::var_os("PATHBENCH_BLESS").is_some() {
        std::fs::write(committed(), &text).unwrap();
    }
    let found = std::fs::read_to_string(committed()).unwrap_or_default();
    assert!(
        found == text,
        "docs/openapi.json is old: PATHBENCH_BLESS=1 cargo test -p pathbench-collector --test pure openapi"
    );
}

/// The description with which the first agents were released. It changes only with a version of the path (`/v2`).
#[test]
fn no_change_breaks_a_released_client() {
    let released: Value = serde_json::from_str(include_str!("../golden/openapi-1.json")).unwrap();
    let breaks = breaking_changes(&released, &document());
    assert!(breaks.is_empty(), "{breaks:#?}");
}

/// What a client of `old` cannot do with `new`, or reads in vain.
fn breaking_changes(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (path, methods) in old["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let place = format!("{method} {path}");
            let now = &new["paths"][path][method];
            if now.is_null() {
                found.push(format!("{place} is gone"));
                continue;
            }
            parameters(&place, operation, now, &mut found);
            for (media, body) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
                let now = &now["requestBody"]["content"][media]["schema"];
                let mut seen = Vec::new();
                schemas(
                    &format!("{place} body"),
                    (&body["schema"], old),
                    (now, new),
                    Sent,
                    &mut seen,
                    &mut found,
                );
            }
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let (answer, now) = (resolved(answer, old), resolved(&now["responses"][status], new));
                if now.is_null() {
                    found.push(format!("{place} has no status {status}"));
                }
                for (media, body) in answer["content"].as_object().into_iter().flatten() {
                    let now = &now["content"][media]["schema"];
                    let mut seen = Vec::new();
                    let place = format!("{place} {status}");
                    schemas(&place, (&body["schema"], old), (now, new), Received, &mut seen, &mut found);
                }
            }
        }
    }
    found
}

fn parameters(place: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    let key = |parameter: &Value| (parameter["name"].clone(), parameter["in"].clone());
    let (old, new) = (old["parameters"].as_array().unwrap(), new["parameters"].as_array().unwrap());
    for parameter in old {
        match new.iter().find(|now| key(now) == key(parameter)) {
            None => found.push(format!("{place}: parameter {} is gone", parameter["name"])),
            Some(now) if now["schema"] != parameter["schema"] => {
                found.push(format!("{place}: parameter {} has another type", parameter["name"]));
            }
            Some(_) => {}
        }
    }
    for parameter in new {
        let is_new = !old.iter().any(|before| key(before) == key(parameter));
        if is_new && parameter["required"] == json!(true) {
            found.push(format!("{place}: parameter {} is new and required", parameter["name"]));
        }
    }
}

/// Values that an answer has only for clients that ask for them: an agent gets a pattern if its check-in lists it
/// (`agents_get_only_experiments_with_patterns_that_they_know`), an operator those of experiments that were put.
const ON_REQUEST: [(&str, [&str; 2]); 1] =
    [("#/components/schemas/Pattern", ["responsiveness", "datagrams"])];

#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Sent,
    Received,
}
use Flow::{Received, Sent};

fn resolved<'a>(schema: &'a Value, document: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

fn schemas<'a>(
    place: &str,
    old: (&'a Value, &'a Value),
    new: (&Value, &Value),
    flow: Flow,
    seen: &mut Vec<&'a str>,
    found: &mut Vec<String>,
) {
    if let Some(reference) = old.0["$ref"].as_str() {
        if seen.contains(&reference) {
            return;
        }
        seen.push(reference);
    }
    let (before, now) = (resolved(old.0, old.1), resolved(new.0, new.1));
    for keyword in ["type", "const", "pattern", "format", "minLength", "maxLength"] {
        // A client can send what it could when a restriction is gone.
        let is_lifted = flow == Sent && keyword != "type" && now[keyword].is_null();
        if before[keyword] != now[keyword] && !is_lifted {
            found.push(format!("{place}: {keyword} was {}, is {}", before[keyword], now[keyword]));
        }
    }
    let values = |schema: &Value| schema["enum"].as_array().cloned().unwrap_or_default();
    // A client must be able to send what it could, and need not understand a new value.
    let (more, fewer) = match flow {
        Sent => (values(before), values(now)),
        Received => (values(now), values(before)),
    };
    let is_on_request = |value: &Value| {
        let (name, values) = (old.0["$ref"].as_str(), |text: &str| json!(text) == *value);
        flow == Received
            && ON_REQUEST.iter().any(|(of, all)| name == Some(*of) && all.iter().any(|one| values(one)))
    };
    if more.iter().any(|value| !fewer.contains(value) && !is_on_request(value)) {
        found.push(format!("{place}: the values were {}, are {}", before["enum"], now["enum"]));
    }
    let required = |schema: &Value| schema["required"].as_array().cloned().unwrap_or_default();
    let (needed, given) = match flow {
        Sent => (required(now), required(before)),
        Received => (required(before), required(now)),
    };
    for name in needed.iter().filter(|name| !given.contains(name)) {
        found.push(format!("{place}: {name} is required in one of them"));
    }
    for (name, property) in before["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        match &now["properties"][name] {
            Value::Null => found.push(format!("{place} is gone")),
            now => schemas(&place, (property, old.1), (now, new.1), flow, seen, found),
        }
    }
    if before["items"].is_object() {
        schemas(&format!("{place}[]"), (&before["items"], old.1), (&now["items"], new.1), flow, seen, found);
    }
    for keyword in ["anyOf", "oneOf"] {
        for (index, choice) in before[keyword].as_array().into_iter().flatten().enumerate() {
            let now = &now[keyword][index];
            schemas(&format!("{place}/{index}"), (choice, old.1), (now, new.1), flow, seen, found);
        }
    }
}

/// The check itself finds what it is for.
#[test]
fn breaking_changes_are_found() {
    let old = document();
    let changed = |pointer: &str, value: Value| {
        let mut new = document();
        *new.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        breaking_changes(&old, &new)
    };
    assert!(breaking_changes(&old, &old).is_empty());
    for (pointer, value) in [
        ("/paths/~1v1~1check-in/post", Value::Null),
        ("/components/schemas/CheckIn/properties/agent/format", json!("uri")),
        ("/components/schemas/LineAnswer/properties/id/format", Value::Null),
        ("/components/schemas/CheckInAnswer/properties/next_s", Value::Null),
        ("/components/schemas/ServerReport/required", json!(["address", "region"])),
        ("/components/schemas/LineStatus/oneOf/0/const", json!("stored")),
        ("/components/schemas/Pattern/enum", json!(["ping", "bulk"])),
        ("/components/schemas/Pattern/enum/5", json!("unasked")),
        ("/paths/~1v1~1results/get/parameters/0/name", json!("protocol")),
    ] {
        assert!(!changed(pointer, value).is_empty(), "{pointer}");
    }
    // More than a client reads, and less than it sends, breaks nothing.
    let mut new = document();
    new["components"]["schemas"]["CheckInAnswer"]["properties"]["motd"] = json!({ "type": "string" });
    new["paths"]["/v2/check-in"] = json!({ "post": {} });
    new["components"]["schemas"]["CheckIn"]["properties"]["agent"]["format"] = Value::Null;
    assert!(breaking_changes(&old, &new).is_empty());
}
