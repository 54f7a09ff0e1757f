//! A path is where packets left: without a rule for its source address, the second subflow of `broken-no-source-rule` leaves
//! by the first interface, for every command that judges paths. The remedy that they name makes two paths of it.

use crate::support::measured::Measured;
use crate::support::standing::{Lab, SERVER};
use crate::support::supervised;
use crate::support::{Workplace, binary, captured, finish};
use pathbench_record::document::RunRecord;
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::Child;

const SCENARIO: &str = "broken-no-source-rule";
const RULE: &str = "ip rule add from 10.83.1.1 lookup ";
const SINK: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 83, 0, 2), 8081);
const LISTENING: &str = "listening";
const QUICK: [&str; 7] =
    ["--patterns", "throughput-upload", "--repeat", "1", "--duration", "1s", "--no-report"];

fn names(run: &RunRecord) -> Vec<&str> {
    let mut names: Vec<&str> = run.paths.iter().map(|path| path.name.as_str()).collect();
    names.sort_unstable();
    names
}

#[track_caller]
fn assert_no_contradiction(run: &RunRecord) {
    assert!(!run.notes.iter().any(|note| note.contains("differ by more than 5 %")), "{:#?}", run.notes);
}

/// The commands after "as root: " in a reason.
fn commands(reason: &str) -> Vec<&str> {
    let (_, commands) = reason.split_once("as root: ").unwrap_or_else(|| panic!("no remedy: {reason}"));
    commands.split("; ").collect()
}

/// The verdicts of `test`, `run` and `check` in the lab: whether it used two paths, and the reason or remedy.
struct Verdicts {
    test: Measured,
    run: Value,
    check: Value,
}

fn examine(lab: &Lab, round: &str) -> Verdicts {
    let program = binary();
    let program = program.to_str().unwrap();
    let out = |command: &str| format!("{command}-{round}");
    let of_test = out("test");
    let test = [&[program, "test", SERVER, "--transports", "mptcp", "--out", &of_test][..], &QUICK].concat();
    let finished = finish(&mut lab.exec("client", &test));
    let test = Measured::read(&lab.work.path().join(&of_test), finished);
    let of_run = out("run");
    let itself = std::env::current_exe().unwrap();
    let run = [&[program, "run", "--out", &of_run, "--"][..], &task(&itself, "a_sender")].concat();
    finish(&mut lab.exec("client", &run)).expect(0);
    let run = largest(&supervised::result(&lab.work.path().join(&of_run)));
    let checked = finish(&mut lab.exec("client", &[program, "check", "--json", SERVER]));
    let document = supervised::document(&checked);
    let findings = document["findings"].as_array().unwrap();
    let check = findings.iter().find(|finding| finding["id"] == "multipath");
    Verdicts { test, run, check: check.unwrap_or_else(|| panic!("{checked:#?}")).clone() }
}

/// The command of an ignored test of this file.
fn task<'a>(itself: &'a Path, name: &'a str) -> [&'a str; 5] {
    let test = match name {
        "a_sender" => "measured::egress::a_sender",
        _ => "measured::egress::a_sink",
    };
    [itself.to_str().unwrap(), "--ignored", "--exact", "--nocapture", test]
}

/// A program in the host `server`; ends with the test.
struct Sink(Child);

impl Sink {
    fn start(lab: &Lab) -> Self {
        let itself = std::env::current_exe().unwrap();
        let mut child = captured(&mut lab.exec("server", &task(&itself, "a_sink")));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.into_iter().any(|line| line.contains(LISTENING)), "the sink did not start");
        Self(child)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _dead = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
#[ignore = "a server of the other tests in a lab's host"]
fn a_sink() {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
    listener.bind(&SocketAddr::from(([0, 0, 0, 0], SINK.port())).into()).unwrap();
    listener.listen(16).unwrap();
    println!("{LISTENING}");
    loop {
        let (mut connection, _) = listener.accept().unwrap();
        let mut bytes = vec![0; 128 * 1024];
        while connection.read(&mut bytes).is_ok_and(|length| length > 0) {}
    }
}

#[test]
#[ignore = "a client of the other tests in a lab's host"]
fn a_sender() {
    let mut connection = TcpStream::connect(SINK).unwrap();
    connection.write_all(&vec![7; 4_000_000]).unwrap();
    connection.shutdown(Shutdown::Write).unwrap();
    // Until the sink has read all.
    let _end = connection.read(&mut [0]);
}

fn largest(document: &Value) -> Value {
    let connections = document["connections"].as_array().unwrap().iter();
    connections.max_by_key(|one| one["bytes_sent"].as_u64()).unwrap().clone()
}

#[test]
fn test_run_and_check_see_one_path_until_their_remedy_is_carried_out() {
    let lab = Lab::of_shipped(SCENARIO, &[]);
    let _server = lab.serve(&["--open"]);
    let _sink = Sink::start(&lab);
    let Verdicts { test, run, check } = examine(&lab, "broken");
    let record = test.run("mptcp");
    assert_eq!((names(record), record.multipath.paths_used), (vec!["eth"], 1), "{record:#?}");
    assert!(!record.multipath.used && record.multipath.reason.contains(RULE), "{:#?}", record.multipath);
    assert_no_contradiction(record);
    assert_eq!(run["multipath"]["used"], false, "{run:#}");
    assert!(run["multipath"]["reason"].as_str().unwrap().contains(RULE), "{run:#}");
    assert_eq!(run["multipath"]["negotiated"], true, "{run:#}");
    assert_eq!(check["level"], "problem", "{check:#}");
    let remedy: Vec<&str> =
        check["remedy"].as_array().unwrap().iter().map(|step| step.as_str().unwrap()).collect();

    let of_test = commands(&record.multipath.reason);
    assert_eq!(of_test, remedy);
    assert_eq!(of_test, commands(run["multipath"]["reason"].as_str().unwrap()));
    for command in of_test {
        let script = format!("PATH=$PATH:/sbin:/usr/sbin; {command}");
        finish(&mut lab.exec("client", &["sh", "-c", &script])).expect(0);
    }

    let Verdicts { test, run, check } = examine(&lab, "cured");
    let record = test.run("mptcp");
    assert_eq!((names(record), record.multipath.paths_used), (vec!["eth", "wlan"], 2), "{record:#?}");
    assert_no_contradiction(record);
    assert_eq!(run["multipath"]["used"], true, "{run:#}");
    assert_eq!(check["level"], "ok", "{check:#}");
}

/// The server's own routes lead to the address of wlan over wlan: its data took two links.
#[test]
fn a_download_without_the_rule_still_arrives_over_both_links() {
    let work = Workplace::new();
    let options = ["--set", "run.throughput.direction=download", "--out", "result", "--no-calibration"];
    let finished = work.run(&[&["lab", "run", SCENARIO][..], &options].concat());
    let measured = Measured::read(&work.path().join("result"), finished);
    let run = measured.run("mptcp");
    assert_eq!((names(run), run.multipath.paths_used), (vec!["eth", "wlan"], 2), "{run:#?}");
    assert!(run.notes.iter().any(|note| note.contains(RULE)), "{:#?}", run.notes);
    assert_no_contradiction(run);
    for path in &run.paths {
        let link = run.links.iter().find(|link| link.name == path.name).unwrap();
        let carried = link.reverse_bytes.unwrap() as f64;
        let payload = path.bytes_delivered as f64;
        assert!(carried > payload && carried < payload * 1.2 + 200_000.0, "{path:#?} {link:#?}");
    }
}
