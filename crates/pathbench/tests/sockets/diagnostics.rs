//! Diagnostics: off by default, by `-v` on standard error, by the environment in a file.

use crate::support::Workplace;
use std::process::Command;

const TEST: &[&str] =
    &["test", "127.0.0.1:1", "--transports", "quic", "--patterns", "ping", "--no-report", "--quiet"];

/// A command without the diagnostics of the test itself.
fn plain(work: &Workplace, options: &[&str]) -> Command {
    let mut command = work.pathbench(&[TEST, options].concat());
    command.env_remove("PATHBENCH_LOG").env_remove("PATHBENCH_LOG_FILE");
    command
}

fn stderr(command: &mut Command) -> String {
    let finished = crate::support::finish(command);
    assert_eq!(finished.code, Some(3), "{finished:#?}");
    finished.stderr
}

#[test]
fn diagnostics_are_off_by_default_and_have_levels() {
    let work = Workplace::new();
    let [off, events, details] =
        [&[][..], &["-v"], &["-vv"]].map(|options| stderr(&mut plain(&work, options)));
    let spans = "connection{transport=quic remote=127.0.0.1:1}";
    assert!(!off.contains(spans) && !off.contains("INFO"), "{off}");
    assert!(events.contains(spans) && events.contains("INFO") && !events.contains("DEBUG"), "{events}");
    // The library's own events are among the details.
    assert!(details.contains(spans) && details.contains("noq_proto"), "{details}");
    // The command's own messages are the same.
    assert!(events.ends_with(&off), "{off}\n{events}");
}

#[test]
fn the_environment_names_levels_by_module_and_a_file() {
    let work = Workplace::new();
    let file = work.path().join("log");
    for _ in 0..2 {
        let mut command = plain(&work, &["-v"]);
        command.env("PATHBENCH_LOG", "off,noq_proto=debug").env("PATHBENCH_LOG_FILE", &file);
        assert!(!stderr(&mut command).contains("noq_proto"));
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("DEBUG") && !text.contains("INFO pathbench"), "{text}");
    assert!(text.lines().all(|line| line.contains("noq_proto")), "{text}");
    let wrong = crate::support::finish(plain(&work, &[]).env("PATHBENCH_LOG", "pathbench=loud"));
    wrong.expect(2).reports(&["PATHBENCH_LOG: ", "debug,noq_proto=trace"]);
    let absent = work.path().join("absent/log");
    let mut command = plain(&work, &["-v"]);
    let wrong = crate::support::finish(command.env("PATHBENCH_LOG_FILE", &absent));
    wrong.expect(2).reports(&["PATHBENCH_LOG_FILE: ", "absent/log"]);
}
