//! The command line that repeats a result, from its document alone.

use crate::view::value_text;
use pathbench_record::document::{DEFAULT_RETRIES, ResultDocument, StudyRecord};
use pathbench_record::text::is_deceptive;
use pathbench_record::units::Span;
use serde_json::Value;
use std::time::Duration;

/// Keys of a scenario with an option of their own.
const OPTIONS: [(&str, &str); 5] = [
    ("run.transports", "--transports"),
    ("run.repeat", "--repeat"),
    ("run.duration", "--duration"),
    ("run.seed", "--seed"),
    ("run.warm_up", "--warm-up"),
];

/// The command that repeats the result, quoted for a POSIX shell. `None` if the document does not say which command
/// made it, or if a name contains characters that a terminal does not show.
pub fn line(document: &ResultDocument) -> Option<String> {
    quote(&arguments(document)?)
}

/// Arguments quoted for a POSIX shell. `None` if one contains characters that a terminal does not show.
pub fn quote(arguments: &[String]) -> Option<String> {
    let is_visible = |one: &String| !one.contains(is_deceptive);
    let words = arguments.iter().all(is_visible).then(|| arguments.iter().map(|one| quoted(one)));
    Some(words?.collect::<Vec<_>>().join(" "))
}

/// The arguments of [`line()`], beginning with the program.
pub fn arguments(document: &ResultDocument) -> Option<Vec<String>> {
    let scenario = &document.scenario;
    let (words, subjects) = match (scenario.origin.as_str(), scenario.name.as_str()) {
        ("command line", name @ ("test" | "roam" | "mtu")) => (vec![name], servers(document)),
        ("" | "command line", _) => return None,
        ("builtin", name) => (vec!["lab", "run"], vec![name.to_owned()]),
        (file, _) => (vec!["lab", "run"], vec![file.to_owned()]),
    };
    if subjects.iter().all(String::is_empty) {
        return None;
    }
    let mut options: Vec<String> =
        scenario.overrides.iter().flat_map(|(key, value)| option(key, value)).collect();
    let has_seed = scenario.overrides.keys().any(|key| key == "run.seed" || key == "--seed");
    if !has_seed && words != ["mtu"] {
        options.extend(["--seed".to_owned(), document.seed.to_string()]);
    }
    if let Some(study) = &document.study {
        options.extend(study_options(study));
    }
    let before = std::iter::once("pathbench".to_owned()).chain(words.into_iter().map(str::to_owned));
    // A name that begins like an option follows `--`.
    let command = if subjects.iter().any(|one| one.starts_with('-')) {
        before.chain(options).chain(["--".to_owned()]).chain(subjects).collect()
    } else {
        before.chain(subjects).chain(options).collect()
    };
    Some(command)
}

/// The options of a study that neither a key of the scenario nor a recorded option holds. A joined result is repeated as a whole.
fn study_options(study: &StudyRecord) -> Vec<String> {
    let span = |ms: f64| Duration::try_from_secs_f64(ms / 1e3).ok().map(|time| Span(time).to_string());
    let values = [
        ("--until-ci", study.until_ci_percent.map(|percent| format!("{percent}%"))),
        ("--time-limit", study.time_limit_ms.and_then(span)),
        (
            "--retry-invalid",
            study
                .retry_invalid
                .filter(|retries| *retries != DEFAULT_RETRIES)
                .map(|retries| retries.to_string()),
        ),
        ("--shard", study.shard.map(|shard| shard.to_string())),
        ("--jobs", study.jobs.map(|jobs| jobs.to_string())),
    ];
    let given = values.into_iter().filter_map(|(option, value)| Some([option.to_owned(), value?]));
    given.flatten().chain(study.uncalibrated.then(|| "--no-calibration".to_owned())).collect()
}

fn servers(document: &ResultDocument) -> Vec<String> {
    if let Some(mtu) = &document.mtu {
        return vec![mtu.server.clone()];
    }
    let given: Vec<String> = document.servers.iter().map(|one| one.address.clone()).collect();
    let of_runs = document.runs.iter().find_map(|run| run.server.clone());
    if given.is_empty() { of_runs.into_iter().collect() } else { given }
}

fn option(key: &str, value: &Value) -> Vec<String> {
    let own = OPTIONS.iter().find(|(known, _)| *known == key).map(|(_, option)| *option);
    let name = own.or_else(|| key.starts_with("--").then_some(key));
    let Some(name) = name else { return vec!["--set".to_owned(), format!("{key}={}", toml(value))] };
    let name = name.to_owned();
    match value {
        Value::Bool(true) => vec![name],
        Value::Bool(false) | Value::Null => Vec::new(),
        Value::Array(values) if name == "--transports" => {
            vec![name, values.iter().map(value_text).collect::<Vec<_>>().join(",")]
        }
        Value::Array(values) => values.iter().flat_map(|value| [name.clone(), value_text(value)]).collect(),
        value => vec![name, value_text(value)],
    }
}

/// The value as TOML; a text that no TOML parser takes for another value stays as it is.
fn toml(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::String(_) => value.to_string(),
        Value::Array(values) => format!("[{}]", values.iter().map(inner).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let field =
                |(key, value): (&String, &Value)| format!("{} = {}", Value::from(key.as_str()), inner(value));
            format!("{{ {} }}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn inner(value: &Value) -> String {
    if value.is_string() { value.to_string() } else { toml(value) }
}

/// `50mbit`, `0.1%`, `cubic`: no number, no date, no word of TOML.
fn is_plain(text: &str) -> bool {
    let usual = |c: char| c.is_ascii_alphanumeric() || ".%_-@".contains(c);
    let is_unit = |c: char| c.is_ascii_alphabetic() || c == '%';
    let other_base = ["0x", "0o", "0b"].iter().any(|prefix| text.starts_with(prefix));
    let word = ["true", "false", "inf", "nan"].contains(&text.trim_start_matches('-'));
    !other_base && !word && text.chars().all(usual) && text.ends_with(is_unit)
        || !word && text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(usual)
}

fn quoted(argument: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !argument.is_empty() && argument.chars().all(is_safe) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::document::{MtuRecord, ScenarioRecord, ServerRecord, Shard};
    use serde_json::json;

    fn document(origin: &str, name: &str, overrides: &Value) -> ResultDocument {
        let overrides = overrides.as_object().cloned().unwrap_or_default();
        let (origin, name) = (origin.to_owned(), name.to_owned());
        let scenario = ScenarioRecord { origin, name, overrides, ..ScenarioRecord::default() };
        ResultDocument { scenario, seed: 7, ..ResultDocument::default() }
    }

    #[test]
    fn commands_of_a_lab() {
        for (origin, name, overrides, expected) in [
            ("builtin", "failover", json!({}), "pathbench lab run failover --seed 7"),
            ("builtin", "hello", json!({ "run.seed": 9 }), "pathbench lab run hello --seed 9"),
            ("my lab.toml", "x", json!({}), "pathbench lab run 'my lab.toml' --seed 7"),
            ("it's.toml", "x", json!({}), r"pathbench lab run 'it'\''s.toml' --seed 7"),
            ("$(reboot).toml", "x", json!({}), "pathbench lab run '$(reboot).toml' --seed 7"),
            ("-x.toml", "x", json!({}), "pathbench lab run --seed 7 -- -x.toml"),
            (
                "builtin",
                "failover",
                json!({ "run.transports": ["mptcp", "tcp@wlan"], "run.repeat": 6, "run.duration": "5s" }),
                "pathbench lab run failover --transports mptcp,tcp@wlan --repeat 6 --duration 5s --seed 7",
            ),
            (
                "builtin",
                "failover",
                json!({ "path.wlan.backup": true, "path.wlan.loss": "0.1%", "path.wlan.rate": "50mbit" }),
                "pathbench lab run failover --set path.wlan.backup=true --set path.wlan.loss=0.1% \
                 --set path.wlan.rate=50mbit --seed 7",
            ),
            (
                "builtin",
                "x",
                json!({ "description": "a; rm -rf ~", "matrix": { "a.b": [1, "on"] }, "name": "12" }),
                "pathbench lab run x --set 'description=\"a; rm -rf ~\"' --set 'matrix={ \"a.b\" = [1, \"on\"] }' \
                 --set 'name=\"12\"' --seed 7",
            ),
        ] {
            assert_eq!(line(&document(origin, name, &overrides)).as_deref(), Some(expected));
        }
    }

    #[test]
    fn commands_of_a_study() {
        let overrides = json!({ "run.repeat": 100, "run.warm_up": 2 });
        let mut study = document("builtin", "hello", &overrides);
        study.study = Some(StudyRecord {
            until_ci_percent: Some(2.5),
            time_limit_ms: Some(90_000.0),
            jobs: Some(3),
            retry_invalid: Some(0),
            uncalibrated: true,
            ..StudyRecord::default()
        });
        assert_eq!(
            line(&study).as_deref(),
            Some(
                "pathbench lab run hello --repeat 100 --warm-up 2 --seed 7 --until-ci 2.5% --time-limit 90s \
                 --retry-invalid 0 --jobs 3 --no-calibration"
            )
        );
        let shard = Some(Shard { number: 2, of: 8 });
        study.study =
            Some(StudyRecord { shard, retry_invalid: Some(DEFAULT_RETRIES), ..StudyRecord::default() });
        assert_eq!(
            line(&study).as_deref(),
            Some("pathbench lab run hello --repeat 100 --warm-up 2 --seed 7 --shard 2/8")
        );
    }

    #[test]
    fn commands_between_hosts() {
        let server = |address: &str| ServerRecord { address: address.to_owned(), ..ServerRecord::default() };
        let options = json!({ "--path": ["wlan0", "lte"], "--tls": true, "--transports": ["tcp", "mptcp"] });
        let mut test = document("command line", "test", &options);
        test.servers = vec![server("a.example"), server("[2001:db8::1]:5000")];
        assert_eq!(
            line(&test).as_deref(),
            Some(
                "pathbench test a.example '[2001:db8::1]:5000' --path wlan0 --path lte --tls --transports tcp,mptcp --seed 7"
            )
        );
        let mut study = document("command line", "test", &json!({ "--repeat": "8" }));
        study.servers = vec![server("a.example")];
        study.study = Some(StudyRecord { until_ci_percent: Some(5.0), ..StudyRecord::default() });
        assert_eq!(
            line(&study).as_deref(),
            Some("pathbench test a.example --repeat 8 --seed 7 --until-ci 5%")
        );
        let mut mtu = document("command line", "mtu", &json!({}));
        mtu.mtu = Some(MtuRecord { server: "a.example:4433".to_owned(), ..MtuRecord::default() });
        assert_eq!(line(&mtu).as_deref(), Some("pathbench mtu a.example:4433"));
    }

    #[test]
    fn no_command_without_its_parts_or_with_invisible_characters() {
        for (origin, name) in [
            ("", "x"),
            ("command line", "rm"),
            ("command line", "test"),
            ("a\u{202e}b", "x"),
            ("a\nb", "x"),
            ("builtin", ""),
        ] {
            assert_eq!(line(&document(origin, name, &json!({}))), None, "{origin:?} {name:?}");
        }
    }

    #[test]
    fn texts_that_toml_would_take_for_another_value_are_quoted() {
        for plain in ["50mbit", "0.1%", "cubic", "lowest-rtt", "5s"] {
            assert_eq!(toml(&json!(plain)), plain);
        }
        for other in ["12", "0xff", "true", "-inf", "nan", "2026-11-24", "", "a b", "[1]", "1e5"] {
            assert_eq!(toml(&json!(other)), format!("\"{other}\""));
        }
    }
}
