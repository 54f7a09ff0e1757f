//! Command lines that are refused: by the parser, or by the plan of their command.

use pathbench::plan_command_line;
use pathbench_program::exit::Exit;

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
