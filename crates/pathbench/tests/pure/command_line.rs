//! Command lines that are refused: by the parser, or by the plan of their command.

use pathbench::plan_command_line;
use pathbench_program::exit::Exit;
use pathbench_record::units::Span;
use std::time::Duration;

/// Plans a command line that is refused; the message has all of `texts`.
#[track_caller]
fn assert_refused(arguments: &[&str], texts: &[&str]) {
    let failure = plan_command_line(&[&["pathbench"], arguments].concat()).unwrap_err();
    assert_eq!(failure.exit, Exit::BadInput, "{arguments:?}");
    for text in texts {
        assert!(failure.message.contains(text), "{arguments:?}: {}", failure.message);
    }
}

#[test]
fn wrong_usage_names_the_mistake() {
    let cases: [(&[&str], &str); 14] = [
        (&[], "Usage"),
        (&["lab"], "Usage"),
        (&["lap", "run"], "unrecognized subcommand 'lap'"),
        (&["lab", "run"], "SCENARIO"),
        (&["lab", "run", "hello", "--colour"], "--colour"),
        (&["lab", "run", "hello", "--repeat", "many"], "many"),
        (&["lab", "run", "hello", "--set", "path.eth.rate"], "KEY=VALUE"),
        (&["lab", "down", "a", "--all"], "--all"),
        (&["test"], "required"),
        (&["test", "localhost", "--patterns", "pong"], "pong"),
        (&["test", "localhost", "--scheduler", "best"], "best"),
        (&["test", "localhost", "--patterns", "pong"], "possible values"),
        (&["test", "localhost", "--scheduler", "best"], "possible values"),
        (&["test", "localhost", "--fingerprint", "abc"], "abc"),
    ];
    for (arguments, text) in cases {
        assert_refused(arguments, &[text]);
    }
}

#[test]
fn all_mistakes_of_a_test_are_reported_at_once() {
    let wrong = ["test", "a b", "[::1", "--ca", "no-such-file", "--path", "eth0", "--path", "eth0"];
    assert_refused(&wrong, &["`a b` names no server", "`[::1`", "no-such-file", "eth0 is given twice"]);
    assert_refused(
        &["roam", "a b", "--backup", "eth0", "--backup", "eth0"],
        &["`a b`", "eth0 is given twice"],
    );
    let wrong = ["--backup", "lte", "--backup", "lte", "--duration", "120m", "--patience", "100ms"];
    assert_refused(
        &[&["roam", "server"], &wrong[..]].concat(),
        &["lte is given twice", "--duration: 72000 messages", "at least 1s"],
    );
}

#[test]
fn an_interface_that_is_given_twice_is_a_mistake() {
    let plan = |paths: &[&str]| plan_command_line(&[&["pathbench", "test", "server"], paths].concat());
    let twice = plan(&["--path", "eth0", "--path", "wlan0", "--path", "eth0"]).unwrap_err();
    assert_eq!(twice.message, "--path eth0 is given twice");
    plan(&["--path", "eth0", "--path", "wlan0"]).unwrap();
    let many = ["a", "b", "c", "d", "e"].map(|name| ["--path", name]).concat();
    let five = plan(&many).unwrap_err();
    assert!(five.message.contains("5 paths are named, and at most 4"), "{}", five.message);
    plan(&many[..8]).unwrap();
}

#[test]
fn wrong_values_of_a_test_are_rejected() {
    let empty = plan_command_line(&["pathbench", "test", "server", "--bulk-bytes", "0"]).unwrap_err();
    assert!(empty.message.starts_with("bulk: "), "{}", empty.message);
    for (option, value, known) in [
        ("--patterns", "pong", "interactive"),
        ("--scheduler", "best", "round-robin"),
        ("--transports", "sctp", "mpquic"),
    ] {
        assert_refused(&["test", "server", option, value], &[value, known]);
    }
}

#[test]
fn a_study_needs_repetitions_and_its_shards_one_seed() {
    for (options, remedy) in [
        (&["--until-ci", "5%", "--repeat", "5"][..], "raise --repeat"),
        (&["--shard", "2/4", "--seed", "1"], "make fewer shards"),
        (&["--shard", "2/3"], "the same --seed"),
    ] {
        let words = [&["pathbench", "test", "server"], options].concat();
        let mistake = plan_command_line(&words).unwrap_err().message;
        assert!(mistake.lines().count() == 1 && mistake.contains(remedy), "{mistake}");
    }
}

#[test]
fn an_unknown_scenario_is_refused_with_the_nearest_name() {
    for command in ["run", "show", "up"] {
        assert_refused(
            &["lab", command, "failver"],
            &["`failver`", "did you mean `failover`?", "./failver.toml"],
        );
    }
    assert_refused(&["lab", "run", "./failver.toml"], &["./failver.toml", "No such file"]);
}

#[test]
fn mistakes_on_the_command_line_are_mistakes_of_their_option() {
    let cases: [(&[&str], &[&str]); 4] = [
        (&["--set", "path.wlna.rate=50mbit"], &["--set path.wlna.rate=50mbit", "path.wlna"]),
        (&["--set", "path.wlan.rate=50"], &["--set path.wlan.rate=50", "unit", "mbit"]),
        (&["--transports", "mptpc"], &["mptpc"]),
        (&["--duration", "soon"], &["soon"]),
    ];
    for (options, texts) in cases {
        assert_refused(&[&["lab", "run", "hello"], options].concat(), texts);
    }
    assert_refused(&["lab", "run", "hello", "stable", "--json"], &["--json", "one"]);
}

#[test]
fn a_test_of_a_server_lasts_a_second_to_a_day() {
    let serve = |text: &str| plan_command_line(&["pathbench", "serve", "--open", "--max-duration", text]);
    for (text, seconds) in [("1s", 1), ("90s", 90), ("1h", 3600), ("1d", 86_400)] {
        serve(text).unwrap();
        assert_eq!(text.parse(), Ok(Span(Duration::from_secs(seconds))));
    }
    for wrong in ["", "7", "h", "-1h", "0s", "25h", "99999999999999999999d", "1w", "1ü"] {
        assert_refused(&["serve", "--open", &format!("--max-duration={wrong}")], &["--max-duration"]);
    }
}

#[test]
fn listening_addresses_may_have_the_brackets_of_urls() {
    for address in ["[::1]", "::1"] {
        plan_command_line(&["pathbench", "serve", "--open", "--listen", address]).unwrap();
    }
    for wrong in ["localhost", "[::1"] {
        assert_refused(&["serve", "--open", "--listen", wrong], &[wrong, "is not an IP address"]);
    }
}

#[test]
fn good_command_lines_have_a_plan() {
    let cases: [&[&str]; 3] = [
        &["lab", "up", "stable"],
        &["lab", "show", "hello"],
        &["lab", "run", "hello", "--transports", "tcp"],
    ];
    for arguments in cases {
        plan_command_line(&[&["pathbench"], arguments].concat()).unwrap();
    }
}
