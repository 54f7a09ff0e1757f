//! Every mistake is found, all at once, each with its location, problem and remedy.

use pathbench_lab::scenario::{Mistake, Mistakes, Overrides, ScenarioSource, plan};

fn mistakes_with(text: &str, overrides: &Overrides) -> Mistakes {
    match plan(&ScenarioSource::from_text("mine.toml", text), overrides) {
        Ok(_) => panic!("no mistake was found in\n{text}"),
        Err(mistakes) => mistakes,
    }
}

pub(super) fn lines(text: &str) -> Vec<String> {
    crate::in_lines(&mistakes_with(text, &Overrides::default()))
}

/// A valid scenario of eleven lines, to which tests append.
pub(super) const BASE: &str = "name = \"mine\"\n[[path]]\nname = \"eth\"\nrate = \"1gbit\"\n[[path]]\nname = \"wlan\"\n\
                    rate = \"1gbit\"\n[[path]]\nname = \"lte\"\nrate = \"30mbit\"\n# line 11\n";

#[test]
fn all_mistakes_of_a_scenario_are_reported_at_once_with_their_lines() {
    let text = r#"description = "ten and more"
[[path]]
name = "eth"
rate = "50mbps"
dealy = "1ms"
[[path]]
name = "eth"
mtu = 40
client_address = "10.1.0.1/24"
server_address = "10.2.0.1/24"
[[path]]
name = "wlan0-at-the-office"
delay = 5
[[event]]
at = "12s"
path = "wlna"
action = "explode"
[run]
transports = ["tcp@wifi", "quick"]
duration = "10s"
repeat = 0
sample_interval = true
throughput.rate = 50mbit
[expect]
"mptcp.completed" = true
"#;
    let found = mistakes_with(text, &Overrides::default()).0;
    let location = |mistake: &Mistake| (mistake.line.expect("in the file"), mistake.key.clone());
    let locations: Vec<_> = found.iter().map(location).collect();
    let expected = [
        (1, "name"),
        (4, "path.eth.rate"),
        (5, "path.eth.dealy"),
        (7, "path.eth.name"),
        (8, "path.eth.mtu"),
        (9, "path.eth.client_address"),
        (12, "path.wlan0-at-the-office.name"),
        (13, "path.wlan0-at-the-office.delay"),
        (15, "event.0.at"),
        (16, "event.0.path"),
        (17, "event.0.action"),
        (19, "run.transports"),
        (19, "run.transports"),
        (21, "run.repeat"),
        (22, "run.sample_interval"),
        (23, "throughput.rate"),
        (25, "expect.\"mptcp.completed\""),
    ];
    assert_eq!(locations, expected.map(|(line, key)| (line, key.to_owned())), "{}", Mistakes(found));
    assert!(found.iter().all(|mistake| !mistake.problem.is_empty() && !mistake.remedy.is_empty()));
    let report = Mistakes(found).to_string();
    assert!(report.starts_with(
        "error: name: is missing\n --> mine.toml:1:1\n  |\n1 | description = \"ten and more\"\n  | ^\n  |\n  = help: add name"
    ), "{report}");
    assert!(report.contains(
        "error: path.eth.dealy: there is no key `dealy` here\n --> mine.toml:5:1\n  |\n5 | dealy = \"1ms\"\n  | ^^^^^\n  |\n  \
         = help: did you mean `delay`? known are name, "
    ), "{report}");
    assert!(report.contains(" --> mine.toml:13:9\n   |\n13 | delay = 5\n   |         ^\n"), "{report}");
    assert!(
        report.contains(" --> mine.toml:19:15\n   |\n19 | transports = [\"tcp@wifi\", \"quick\"]\n"),
        "{report}"
    );
    assert!(report.contains(" --> mine.toml:19:27\n"), "{report}");
}

#[test]
fn an_empty_scenario_lacks_a_name_and_a_path() {
    assert_eq!(
        lines(""),
        [
            "mine.toml:1: name: is missing; add name = \"failover\"",
            "mine.toml:1: path: the scenario has no path; add a [[path]] with a name, as in name = \"eth\"",
        ]
    );
}

#[test]
fn the_name_of_a_scenario_is_fit_for_a_directory_and_messages_for_a_terminal() {
    assert_eq!(
        lines("name = \"../x\\u001b[2J\"\ndescription = \"a\\nb\"\n[[path]]\nname = \"eth\"\n"),
        [
            "mine.toml:1: name: `../x\\u{1b}[2J` is not valid as the name of a scenario; give 1 to 64 letters, digits, `-`, \
         `_` and `.`, the first a letter or digit",
            "mine.toml:2: description: the description is more than one line of text; put the rest into comments (# …)",
        ]
    );
}

#[test]
fn text_that_is_not_toml_does_not_hide_other_mistakes() {
    assert_eq!(
        lines(&format!("{BASE}delay = 1sec\nmtu = 1\n[run\nrepeat = 0\n")),
        [
            "mine.toml:12: delay: `1sec` has no quotes; write it as \"1sec\"",
            "mine.toml:12: path.lte.delay: `1sec` has the unit `sec`, which is unknown or ambiguous; give a number with \
         us, ms, s, m (minutes), h or d, as in \"10ms\"",
            "mine.toml:13: path.lte.mtu: `1` is out of range; give 68 to 65535",
            "mine.toml:14: the heading has no closing bracket; write [run]",
            "mine.toml:15: run.repeat: `0` is out of range; give 1 to 10000",
        ]
    );
}

#[test]
fn mistakes_of_the_command_line_name_their_option() {
    let set = [
        ("path.wlan.rate", "50"),
        ("path.wlna.rate", "50mbit"),
        ("run.durration", "3s"),
        ("event.0.at", "3s"),
        ("name.x", "3s"),
        ("a..b", "3s"),
        ("host.cleint.mptcp.subflows", "1"),
    ];
    let overrides = Overrides {
        warm_up: None,
        set: set.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        transports: Some(vec!["tcp".to_owned(), "quick".to_owned()]),
        repeat: Some(0),
        seed: Some(u64::MAX),
        duration: Some("ten seconds".to_owned()),
    };
    let mut found: Vec<_> =
        mistakes_with(BASE, &overrides).0.into_iter().map(|mistake| (mistake.file, mistake.key)).collect();
    found.sort();
    assert_eq!(
        found,
        [
            ("--duration ten seconds".to_owned(), "run.duration".to_owned()),
            ("--repeat 0".to_owned(), "run.repeat".to_owned()),
            ("--set a..b=3s".to_owned(), "a..b".to_owned()),
            ("--set event.0.at=3s".to_owned(), "event.0.at".to_owned()),
            ("--set host.cleint.mptcp.subflows=1".to_owned(), "host.cleint".to_owned()),
            ("--set name.x=3s".to_owned(), "name.x".to_owned()),
            ("--set path.wlan.rate=50".to_owned(), "path.wlan.rate".to_owned()),
            ("--set path.wlna.rate=50mbit".to_owned(), "path.wlna.rate".to_owned()),
            ("--set run.durration=3s".to_owned(), "run.durration".to_owned()),
            ("--transports tcp,quick".to_owned(), "run.transports".to_owned()),
        ]
    );
}

#[test]
fn the_variants_of_a_matrix_share_one_report() {
    let text = format!("{BASE}mtu = 1\n[matrix]\n\"path.eth.mtu\" = [1400, 1500, 9000]\n");
    assert_eq!(lines(&text), ["mine.toml:12: path.lte.mtu: `1` is out of range; give 68 to 65535"]);
}

#[test]
fn a_matrix_of_too_many_combinations_is_refused() {
    let values = (0..50).map(|number| (1_400 + number).to_string()).collect::<Vec<_>>().join(", ");
    let text = format!("{BASE}[matrix]\n\"path.eth.mtu\" = [{values}]\n\"path.lte.mtu\" = [{values}]\n");
    let mistakes = mistakes_with(&text, &Overrides::default()).0;
    assert_eq!(mistakes.len(), 1);
    assert_eq!((mistakes[0].key.as_str(), mistakes[0].line), ("matrix", Some(12)));
    assert_eq!(mistakes[0].problem, "50 × 50 values make too many combinations");
}

#[test]
fn near_names_are_suggested_and_far_ones_are_not() {
    let remedy = |key: &str| {
        let text = format!("{BASE}{key} = 1\n");
        let mistakes = mistakes_with(&text, &Overrides::default()).0;
        mistakes.into_iter().find(|mistake| mistake.key.ends_with(key)).expect("it is unknown").remedy
    };
    for (key, near) in [("dealy", "delay"), ("RATE", "rate"), ("ratee", "rate"), ("mtuu", "mtu")] {
        assert!(remedy(key).starts_with(&format!("did you mean `{near}`? known are name, ")), "{key}");
    }
    for key in ["latency", "x"] {
        assert!(remedy(key).starts_with("known are name, "), "{key}");
    }
    let only = "name = \"x\"\n[[path]]\nname = \"eth\"\n[run]\ntransports = [\"tcp@wifi\"]\n";
    assert!(lines(only)[0].ends_with("; the only one is eth"), "{:?}", lines(only));
}

/// However a line is broken, the other lines are checked, and no key counts as missing.
#[test]
fn lines_that_are_not_toml_are_left_out() {
    let locations = |text: &str| {
        let mistakes = mistakes_with(text, &Overrides::default()).0;
        mistakes.into_iter().map(|mistake| (mistake.line.unwrap(), mistake.key)).collect::<Vec<_>>()
    };
    let own = |line, key: &str| (line, key.to_owned());
    assert_eq!(
        locations("name \"x\"\n[[path]]\nname = \"eth\"\nmtu = 1\n"),
        [own(1, ""), own(4, "path.eth.mtu")]
    );
    assert_eq!(
        locations("name = \"x\n[[path]]\nname = \"a/b\"\n"),
        [own(1, "name"), own(3, "path.a/b.name")]
    );
    assert_eq!(locations("name = \"x\"\n[[path]]\nname = eth\nmtu =\n"), [own(3, "name"), own(4, "mtu")]);
    // Text after an open quote is ignored.
    assert_eq!(locations("name = \"\"\"x\n[[path]]\nmtu = 1\n").len(), 1);
}

#[test]
fn copies_are_skipped_only_where_every_transport_can() {
    for (transports, tls, option, wrong) in [
        ("\"tcp\"", false, "zero_copy", None),
        ("\"tcp\", \"mptcp\"", false, "skip_receive_copy", None),
        ("\"tcp\", \"mptcp\"", false, "zero_copy", Some("zero_copy over mptcp")),
        ("\"tcp\", \"quic\"", false, "zero_copy", Some("zero_copy over quic")),
        ("\"mpquic\"", false, "skip_receive_copy", Some("skip_receive_copy over mpquic")),
        ("\"tcp\"", true, "zero_copy", Some("zero_copy over tcp: data that are encrypted")),
        (
            "\"mptcp\"",
            true,
            "skip_receive_copy",
            Some("skip_receive_copy over mptcp: data that are encrypted"),
        ),
    ] {
        let text = format!(
            "name = \"x\"\n[[path]]\nname = \"eth\"\n[[path]]\nname = \"wlan\"\n[run]\n\
             transports = [{transports}]\npattern = \"throughput\"\ntls = {tls}\nthroughput.{option} = true\n"
        );
        let planned = plan(&ScenarioSource::from_text("mine.toml", &text), &Overrides::default());
        match (planned, wrong) {
            (Ok(_), None) => {}
            (Err(mistakes), Some(words)) => {
                let found = mistakes.to_string();
                assert!(found.contains(words) && found.contains("run.transports"), "{found}");
            }
            (planned, _) => {
                panic!("{transports} {option}: {:?}", planned.map(|_| ()).map_err(|error| error.to_string()))
            }
        }
    }
}
