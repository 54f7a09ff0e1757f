//! Diagnostics: off by default, by `-v` on standard error, by the environment in a file.

use crate::serve::Serving;
use crate::support::{Finished, Workplace, finish};
use std::process::Command;

/// A short test over Multipath QUIC, without the diagnostics of this test program.
fn test(work: &Workplace, server: &Serving, options: &[&str]) -> Command {
    let address = format!("127.0.0.1:{}", server.port());
    let fixed = ["test", &address, "--fingerprint", server.fingerprint(), "--quiet", "--json", "--no-report"];
    let short = ["--patterns", "ping", "--transports", "mpquic", "--repeat", "1"];
    let mut command = work.pathbench(&[&fixed[..], &short, options].concat());
    command.env_remove("PATHBENCH_LOG").env_remove("PATHBENCH_LOG_FILE");
    command
}

fn stderr(command: &mut Command) -> String {
    let Finished { code, stderr, .. } = finish(command);
    assert!(matches!(code, Some(0 | 6)), "{code:?}: {stderr}");
    stderr
}

#[test]
fn diagnostics_are_off_by_default_and_have_levels() {
    let work = Workplace::new();
    let server = Serving::start(&work, &["--open", "--listen", "127.0.0.1"]);
    let [off, events, details] =
        [&[][..], &["-v"], &["-vv"]].map(|options| stderr(&mut test(&work, &server, options)));
    assert!(!off.contains("INFO") && !off.contains("DEBUG"), "{off}");
    for spans in
        ["test{id=", "transport=mpquic server=127.0.0.1:", "}:connection{transport=mpquic", "path{id="]
    {
        assert!(events.contains(spans) && details.contains(spans), "{spans}: {events}");
    }
    assert!(events.contains("INFO") && !events.contains("DEBUG"), "{events}");
    assert!(details.contains("DEBUG") && details.contains("settings in force"), "{details}");
    let secret = stderr(&mut test(&work, &server, &["-vv", "--token", "a-secret-token"]));
    assert!(secret.contains("test started") && !secret.contains("a-secret-token"), "{secret}");
    server.stop().expect(0);
}

#[test]
fn the_environment_names_levels_by_module_and_a_file() {
    let work = Workplace::new();
    let server = Serving::start(&work, &["--open", "--listen", "127.0.0.1"]);
    let file = work.path().join("log");
    for _ in 0..2 {
        let mut command = test(&work, &server, &["-v"]);
        command
            .env("PATHBENCH_LOG", "off,noq_proto=trace,pathbench_transport=info")
            .env("PATHBENCH_LOG_FILE", &file);
        assert!(!stderr(&mut command).contains("noq_proto"));
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("TRACE") && text.contains("connection{peer=127.0.0.1:"), "{text}");
    assert!(!text.contains("pathbench_traffic"), "{text}");
    let wrong = finish(test(&work, &server, &[]).env("PATHBENCH_LOG", "pathbench=loud"));
    wrong.expect(2).reports(&["PATHBENCH_LOG: ", "debug,noq_proto=trace"]);
    let mut command = test(&work, &server, &["-v"]);
    let wrong = finish(command.env("PATHBENCH_LOG_FILE", work.path().join("absent/log")));
    wrong.expect(2).reports(&["PATHBENCH_LOG_FILE: ", "absent/log"]);
    server.stop().expect(0);
}
