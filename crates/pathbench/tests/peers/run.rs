//! `pathbench run` with real programs: which of their connections use both paths of a lab, what stays on TCP, and what
//! belongs to the program: exit code, signals, descriptors.

#![allow(clippy::disallowed_methods, reason = "these tests wait by the real clock")]

use crate::support;
use crate::support::processes::{Process, signal};
use crate::support::standing::{Lab, SERVER};
use crate::support::supervised::{
    DELAYED_JOIN, FILE_BYTES, Supervised, document, in_client, nginx, supervisor, used_both_paths, words,
};
use crate::support::{Workplace, binary, captured, finish, finish_with_input, within};
use pathbench_testkit::program;
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::time::Duration;

pathbench_testkit::tests!(
    ["curl", "nginx", "python3"] => curl_and_python_fetch_from_nginx_over_both_paths;
    [] => exit_code_signals_and_streams_belong_to_the_program;
    ["iperf3"] => iperf3_uses_both_paths_without_its_option;
    ["python3"] => ten_thousand_short_connections_leak_nothing,
    a_killed_program_leaves_nothing_behind,
    an_inner_run_leaves_the_supervision_to_the_outer_one,
    a_host_that_forbids_seccomp_is_named,
    the_sockets_of_a_running_process_are_listed,
    sockets_have_the_flags_and_limits_of_the_program,
    what_stays_on_tcp_is_reported;
);

const SOON: Duration = Duration::from_secs(20);
/// Most bytes of memory of a supervisor, which has several threads with a stack each.
const MOST_MEMORY_KB: u64 = 80_000;
const MOST_DESCRIPTORS: usize = 40;

/// A step of `program.py`, as the words of a command.
fn step<'a>(step: &'a str, arguments: &[&'a str]) -> Vec<String> {
    let python = program("python3");
    let file = pathbench_testkit::checkout().join("crates/pathbench/tests/run/program.py");
    let words = [python.to_str().unwrap(), file.to_str().unwrap(), step];
    words.iter().chain(arguments).map(|word| (*word).to_owned()).collect()
}

/// `pathbench run OPTIONS -- COMMAND`.
fn run(work: &Workplace, options: &[&str], command: &[String]) -> Command {
    let mut run = work.pathbench(&["run"]);
    run.args(options).arg("--").args(command);
    run
}

fn curl_and_python_fetch_from_nginx_over_both_paths() {
    let lab = Lab::standing(&DELAYED_JOIN);
    let server = Supervised::serve(&lab, "nginx", &nginx(&lab), 8080);
    let address = format!("{SERVER}:8080");
    let url = format!("http://{address}/file");
    let curl = program("curl");
    let fetched = lab.work.path().join("fetched");
    let curl = words(&[curl.to_str().unwrap(), "-s", "-S", "-o", fetched.to_str().unwrap(), &url]);
    let python = step("fetch", &[&address, "/file"]);
    for command in [curl, python] {
        let finished = in_client(&lab, &command).expect(0);
        let found = document(&finished);
        assert_eq!(found["sockets_created"], 1, "{found:#}");
        used_both_paths(&found);
    }
    assert_eq!(std::fs::metadata(&fetched).unwrap().len(), FILE_BYTES);
    let found = server.end(Signal::TERM);
    assert_eq!(found["exit_code"], 0, "{found:#}");
    assert_eq!(found["connections_multipath"], 2, "{found:#}");
    assert!(
        found["connections"].as_array().unwrap().iter().all(|one| one["role"] == "accepted"),
        "{found:#}"
    );
    used_both_paths(&found);
    let lines = std::fs::read_to_string(lab.work.path().join("out-nginx/connections.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(Value::from(lines), found["connections"]);
}

fn iperf3_uses_both_paths_without_its_option() {
    let lab = Lab::standing(&DELAYED_JOIN);
    let iperf3 = program("iperf3");
    let iperf3 = iperf3.to_str().unwrap();
    let server = Supervised::serve(&lab, "iperf3", &words(&[iperf3, "-s", "-1"]), 5201);
    let client = in_client(&lab, &words(&[iperf3, "-c", SERVER, "-n", "4M"])).expect(0);
    // iperf3 has a control connection as well.
    let found = document(&client);
    assert_eq!(found["sockets_created"], 2, "{found:#}");
    used_both_paths(&found);
    assert!(client.stderr.contains("iperf Done"), "{client:#?}");
    let closed = |line: &&str| line.contains(&format!(" s closed to {SERVER}:5201: "));
    assert_eq!(client.stderr.lines().filter(closed).count(), 2, "{client:#?}");
    used_both_paths(&server.wait());
}

/// The peak memory and the number of descriptors of a process.
fn size(id: i32) -> (u64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
    (peak, std::fs::read_dir(format!("/proc/{id}/fd")).map_or(0, Iterator::count))
}

fn ten_thousand_short_connections_leak_nothing() {
    let work = Workplace::new();
    let child = captured(&mut run(&work, &["--json"], &step("short_connections", &[])));
    let supervisor = supervisor(&work, "short_connections").id;
    // The document is larger than a pipe.
    let ended = std::thread::spawn(move || support::ended(child));
    let (mut memory_kb, mut descriptors) = (0, 0);
    while !ended.is_finished() {
        let now = size(supervisor);
        (memory_kb, descriptors) = (memory_kb.max(now.0), descriptors.max(now.1));
        std::thread::sleep(Duration::from_millis(20));
    }
    let finished = ended.join().unwrap().expect(0);
    assert!(finished.stderr.contains("done"), "{finished:#?}");
    let found = document(&finished);
    // One listens.
    assert_eq!(found["sockets_created"], 10_001, "{found:#}");
    let groups = found["groups"].as_array().unwrap();
    let connected = groups.iter().filter(|group| group["role"] == "connected");
    let connected: u64 = connected.map(|group| group["connections"].as_u64().unwrap()).sum();
    let unseen = found["sockets_unseen"].as_u64().unwrap();
    assert_eq!(connected + unseen, 10_000, "{found:#}");
    assert!(memory_kb > 0 && memory_kb < MOST_MEMORY_KB, "{memory_kb} kB");
    assert!(descriptors > 3 && descriptors < MOST_DESCRIPTORS, "{descriptors} descriptors");
}

fn a_killed_program_leaves_nothing_behind() {
    let work = Workplace::new();
    let mut child = captured(&mut run(&work, &[], &step("tree", &[])));
    let supervisor = supervisor(&work, "tree");
    let of_tree =
        || work.processes().into_iter().filter(|one| one.arguments().get(1).is_none_or(|word| word != "run"));
    let is_up = || of_tree().filter(|one| one.arguments().iter().any(|word| word == "300")).count() == 3;
    assert!(within(SOON, is_up), "{:#?}", work.processes());
    let first = of_tree().find(|one| one.arguments().iter().any(|word| word == "tree")).unwrap();
    first.kill();
    assert!(within(SOON, || of_tree().count() == 3), "{:#?}", work.processes());
    // The others go on, and so does their supervisor, until it receives SIGTERM.
    assert!(child.try_wait().unwrap().is_none());
    signal(supervisor.id, Signal::TERM);
    let finished = support::ended(child).expect(137);
    assert!(finished.stdout.contains("ready"), "{finished:#?}");
    assert!(work.left_behind().is_empty(), "{:#?}", work.left_behind());
}

fn exit_code_signals_and_streams_belong_to_the_program() {
    let work = Workplace::new();
    let shell = |script: &str| words(&["sh", "-c", script]);
    for (script, code) in [("exit 7", 7), ("kill -TERM $$", 143), ("true", 0)] {
        finish(&mut run(&work, &["--json"], &shell(script))).expect(code);
    }
    // The process of a quiet run is the program.
    for (script, code, signal) in [("exit 7", Some(7), None), ("kill -TERM $$", None, Some(15))] {
        let status = run(&work, &["--quiet"], &shell(script)).status().unwrap();
        assert_eq!((status.code(), status.signal()), (code, signal));
    }
    let copied = finish_with_input(&mut run(&work, &["--quiet"], &words(&["cat"])), "through\n").expect(0);
    assert_eq!((copied.stdout.as_str(), copied.stderr.as_str()), ("through\n", ""));
    finish(&mut run(&work, &[], &words(&["no-such-program"])))
        .expect(2)
        .reports(&["cannot start `no-such-program`"]);
    finish(&mut run(&work, &["--transport", "quic"], &words(&["true"]))).expect(2).reports(&["mptcp"]);
    // Forwarded: the program ends as it likes.
    let trap = shell("trap 'exit 9' TERM; touch waiting; while :; do sleep 0.01; done");
    let child = captured(&mut run(&work, &[], &trap));
    assert!(within(SOON, || work.path().join("waiting").exists()));
    signal(child.id() as i32, Signal::TERM);
    support::ended(child).expect(9);
    assert!(work.left_behind().is_empty());
}

fn an_inner_run_leaves_the_supervision_to_the_outer_one() {
    let work = Workplace::new();
    let inner = binary();
    let inner = inner.to_str().unwrap();
    let nested = [words(&[inner, "run", "--"]), step("ends", &[])].concat();
    let finished = finish(&mut run(&work, &["--json"], &nested))
        .expect(0)
        .reports(&["inside another `pathbench run`", "end"]);
    // Two of `ends`, and that of the inner command's own check.
    let found = document(&finished);
    assert_eq!(found["sockets_created"], 3, "{found:#}");
    assert_eq!(found["refused_options"], Value::from(Vec::<Value>::new()), "{found:#}");
    // Without the outer one's variable the listener belongs to somebody else.
    let unknown = words(&["env", "-u", "PATHBENCH_RUN", inner, "run", "--", "true"]);
    finish(&mut run(&work, &[], &unknown)).expect(7).reports(&["EBUSY"]);
}

fn a_host_that_forbids_seccomp_is_named() {
    let work = Workplace::new();
    let pathbench = binary();
    let command = step("forbid_seccomp", &[pathbench.to_str().unwrap(), "run", "--", "true"]);
    let mut command_line = Command::new(&command[0]);
    work.prepare(command_line.args(&command[1..]));
    finish(&mut command_line).expect(7).reports(&["may not install a seccomp filter", "unconfined"]);
}

fn the_sockets_of_a_running_process_are_listed() {
    let lab = Lab::standing(&[]);
    let python = step("listen", &["5300"]);
    let mut plain = captured(&mut lab.exec("server", &python.iter().map(String::as_str).collect::<Vec<_>>()));
    let server = Supervised::serve(&lab, "5301", &step("listen", &["5301"]), 5301);
    let listed = |port: &str| {
        let is_it = |process: &Process| {
            let words = process.arguments();
            words.last().is_some_and(|word| word == port)
                && words.first().is_some_and(|word| word.contains("python"))
        };
        let found = || lab.work.processes().into_iter().find(is_it);
        assert!(within(SOON, || found().is_some()), "{:#?}", lab.work.processes());
        let id = found().unwrap().id.to_string();
        let program = binary();
        let list = || {
            finish(&mut lab.exec("server", &[program.to_str().unwrap(), "run", "--pid", &id, "--json"]))
                .expect(0)
        };
        let sockets = || document(&list())["processes"][0].clone();
        assert!(within(SOON, || !sockets()["sockets"].as_array().unwrap().is_empty()));
        sockets()
    };
    let plain_one = listed("5300");
    assert_eq!(plain_one["sockets"][0]["protocol"], "tcp", "{plain_one:#}");
    let supervised = listed("5301");
    assert_eq!(supervised["sockets"][0]["protocol"], "mptcp", "{supervised:#}");
    assert_eq!(supervised["sockets"][0]["local"], "0.0.0.0:5301", "{supervised:#}");
    let program = binary();
    let check = [program.to_str().unwrap(), "check", "--json", "--", "python3"];
    let checked = document(&finish(&mut lab.exec("server", &check)).expect(0));
    let of = |process: &Value| {
        let found = checked["processes"].as_array().unwrap().iter().find(|one| one["process"] == *process);
        found.map(|one| one["sockets"][0]["protocol"].clone())
    };
    assert_eq!(of(&plain_one["process"]), Some("tcp".into()), "{checked:#}");
    assert_eq!(of(&supervised["process"]), Some("mptcp".into()), "{checked:#}");
    assert!(!checked["ways"].as_array().unwrap().is_empty(), "{checked:#}");
    assert!(!checked["ways_to_tcp"].as_array().unwrap().is_empty(), "{checked:#}");
    let refused = checked["refused_options"].as_array().unwrap();
    assert!(refused.contains(&Value::from("TCP_MD5SIG")), "{checked:#}");
    server.end(Signal::TERM);
    plain.kill().unwrap();
    plain.wait().unwrap();
    lab.work.run(&["check", "--", "no-such-program"]).expect(2).reports(&["no program `no-such-program`"]);
    // No process has the largest number.
    lab.work.run(&["run", "--pid", "4294967295"]).expect(2).reports(&["no process has the id"]);
}

fn sockets_have_the_flags_and_limits_of_the_program() {
    let work = Workplace::new();
    let output = |name: &str| finish(&mut run(&work, &["--quiet"], &step(name, &[]))).expect(0).stdout;
    assert_eq!(output("flags"), "True\n".repeat(4));
    assert_eq!(output("descriptors"), "EMFILE\n");
    assert_eq!(output("ends"), "end\n");
}

fn what_stays_on_tcp_is_reported() {
    let work = Workplace::new();
    let supervised = |options: &[&str], command: &[String]| {
        let finished = finish(&mut run(&work, &[&["--json"], options].concat(), command)).expect(0);
        (document(&finished), finished.stderr)
    };
    let (found, printed) = supervised(&[], &step("landlock", &[]));
    assert_eq!(printed, "mptcp\ntcp\nEACCES\n");
    assert_eq!(found["left_on_tcp"][0]["reason"], "landlock", "{found:#}");
    let unshare =
        [words(&["unshare", "--user", "--map-root-user", "--net"]), step("other_namespace", &[])].concat();
    let (found, printed) = supervised(&[], &unshare);
    assert_eq!(printed, "tcp\n");
    assert_eq!(found["left_on_tcp"][0]["reason"], "other-network-namespace", "{found:#}");
    assert_eq!(found["sockets_created"], 0, "{found:#}");
    let (found, printed) = supervised(&[], &step("io_uring", &[]));
    assert_eq!(printed, "made\n");
    assert_eq!(found["io_uring"][0]["calls"], 1, "{found:#}");
    let (found, printed) = supervised(&["--no-io-uring"], &step("io_uring", &[]));
    assert_eq!((printed.as_str(), &found["io_uring"]), ("ENOSYS\n", &Value::from(Vec::<Value>::new())));
    // The option of a UDP socket does not count.
    let (found, printed) = supervised(&[], &step("options", &[]));
    assert_eq!(printed, "ENOPROTOOPT\n");
    assert_eq!(found["refused_options"], serde_json::json!([{ "option": "TCP_USER_TIMEOUT", "calls": 1 }]));
}
