//! `pathbench test` against `pathbench serve`: in a lab of two hosts with two links, and on this host only.

use crate::support;
use crate::support::measured::{Measured, goodput, path};
use crate::support::processes::{Process, signal};
use crate::support::standing::{Lab, SERVER, Server};
use crate::support::{TWO_PATHS, Workplace, binary, captured, finish, within};
use pathbench_record::document::{ResultDocument, RunRecord};
use pathbench_record::event::EventSource;
use pathbench_record::transport::Transport;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Options for runs of about one second each.
const QUICK: [&str; 6] = ["--repeat", "1", "--duration", "1s", "--bulk-bytes", "500kB"];

/// Commands in a lab.
trait Suite {
    /// `pathbench test` in the host `client`, with its result in the directory `out`.
    fn test(&self, out: &str, options: &[&str]) -> Command;
    /// Runs `test` to its end, and reads its result.
    fn measure(&self, out: &str, options: &[&str]) -> Measured;
}

impl Suite for Lab {
    fn test(&self, out: &str, options: &[&str]) -> Command {
        let program = binary();
        self.exec("client", &[&[program.to_str().unwrap(), "test", "--out", out], options].concat())
    }

    fn measure(&self, out: &str, options: &[&str]) -> Measured {
        let finished = finish(&mut self.test(out, options));
        Measured::read(&self.work.path().join(out), finished)
    }
}

fn runs<'a>(measured: &'a Measured, transport: Transport, pattern: &str) -> Vec<&'a RunRecord> {
    let runs = measured.document.runs.iter();
    runs.filter(|run| run.transport == transport && run.pattern == pattern).collect()
}

fn unused_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn the_suite_runs_on_all_four_transports_from_one_lab_host_to_another() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&["--open", "--quic-port", "6121"]);
    let options = [
        "--fingerprint",
        &server.fingerprint,
        "--quic-port",
        "6121",
        "--patterns",
        "ping,bulk,throughput-upload",
        "--json",
    ];
    let measured = lab.measure("all", &[&[SERVER][..], &options, &QUICK].concat()).expect(0);
    let document = &measured.document;

    let printed: ResultDocument = serde_json::from_str(&measured.finished.stdout).unwrap();
    assert_eq!(printed.runs.len(), document.runs.len());
    assert_eq!(document.scenario.name, "test");
    let ids: BTreeSet<&str> = document.runs.iter().map(|run| run.id.as_str()).collect();
    // tcp and quic over each path alone, mptcp and mpquic over both.
    assert_eq!(ids.len(), 6 * 3, "{ids:?}");
    for transport in [Transport::Tcp, Transport::Mptcp, Transport::Quic, Transport::Mpquic] {
        for pattern in ["ping", "bulk", "throughput-upload"] {
            let of_kind = runs(&measured, transport, pattern);
            assert_eq!(of_kind.len(), if transport.is_multipath() { 1 } else { 2 }, "{transport} {pattern}");
            for run in of_kind {
                assert!(
                    run.completed && run.valid,
                    "{transport} {pattern}: {:?} {:?}",
                    run.error,
                    run.invalid_because
                );
                assert_eq!(run.server.as_deref(), Some(SERVER));
                assert_eq!(run.encrypted, transport.is_quic(), "{transport} {pattern}");
                if let Some((_, own)) = run.label.split_once('@') {
                    let carried = run.paths.iter().filter(|path| path.bytes_delivered > 0);
                    let names: Vec<&str> = carried.map(|path| path.name.as_str()).collect();
                    assert_eq!(names, [own], "{}: {:?}", run.label, run.paths);
                }
            }
        }
        let ping = runs(&measured, transport, "ping")[0].ping.as_ref().unwrap();
        assert_eq!((ping.sent, ping.lost), (10, 0), "{transport}");
        let bulk = runs(&measured, transport, "bulk")[0];
        // 500 kB at 20 or 40 Mbit/s: not faster than the links.
        assert!(bulk.fct_ms.is_some_and(|ms| ms > 80.0), "{transport}: {:?}", bulk.fct_ms);
    }
    for transport in [Transport::Mptcp, Transport::Mpquic] {
        let upload = runs(&measured, transport, "throughput-upload")[0];
        assert!(upload.multipath.used, "{transport}: {}", upload.multipath.reason);
        for name in ["eth", "wlan"] {
            assert!(path(upload, name).share > 0.1, "{transport}: {:?}", upload.paths);
        }
    }
    assert_gains(document);

    // Both UDP ports answer.
    let reached = |transport, port| {
        document
            .reachability
            .iter()
            .any(|one| one.transport == transport && one.port == port && one.reachable)
    };
    assert!(reached(Transport::Tcp, 4433) && reached(Transport::Mptcp, 4433));
    assert!(
        reached(Transport::Quic, 4433) && reached(Transport::Quic, 6121) && reached(Transport::Mpquic, 6121)
    );
    // The server was given as an address, so no other address family is tried.
    assert_eq!(document.reachability.len(), 2 + 2 * 2);
    assert_eq!((document.servers.len(), document.servers[0].chosen), (1, true));
    assert!(document.servers[0].ping_ms.is_some_and(|ms| ms > 0.0));
    assert!(lab.work.path().join("all/report.html").exists());
}

/// Both multipath transports have a gain over the better of two equal paths, from one pair.
fn assert_gains(document: &ResultDocument) {
    let gains = &document.summary.headline.as_ref().unwrap().gains;
    let labels: Vec<&str> = gains.iter().map(|gain| gain.label.as_str()).collect();
    assert_eq!(labels, ["mptcp", "mpquic"]);
    for gain in gains {
        assert_eq!((gain.pairs, gain.not_alone.len(), gain.ci95), (1, 0, None), "{gain:?}");
        assert!(gain.best_single.as_ref().is_some_and(|best| best.contains('@')), "{gain:?}");
        // Twice the path, and a second is short.
        assert!(gain.ratio.is_some_and(|ratio| (1.2..2.4).contains(&ratio)), "{gain:?}");
    }
}

#[test]
fn of_several_servers_the_one_that_answers_is_tested_and_the_others_are_listed() {
    let lab = Lab::standing(&[]);
    let _server = lab.serve(&["--open", "--port", "5000"]);
    let servers = ["no-such-host.invalid", "10.83.0.2:5001", "10.83.0.2:5000", "10.83.1.2:5000"];
    let options = ["--transports", "tcp", "--patterns", "ping", "--no-report"];
    let measured = lab.measure("several", &[&servers[..], &options, &QUICK].concat()).expect(0);
    let of_server = |address: &str| {
        let mut servers = measured.document.servers.iter();
        servers.find(|server| server.address == address).unwrap_or_else(|| panic!("{address} is not listed"))
    };
    assert!(of_server(servers[0]).error.as_ref().unwrap().contains("cannot be resolved"));
    assert!(of_server(servers[1]).error.as_ref().unwrap().contains("refused the connection"));
    let chosen: Vec<_> = measured.document.servers.iter().filter(|server| server.chosen).collect();
    assert_eq!(chosen.len(), 1);
    assert!(servers[2..].contains(&chosen[0].address.as_str()));
    let nearest = of_server(servers[2]).ping_ms.unwrap().min(of_server(servers[3]).ping_ms.unwrap());
    assert_eq!(chosen[0].ping_ms, Some(nearest));
    let finished = measured.finished.reports(&["the nearest", "cannot be resolved"]);
    assert!(!lab.work.path().join("several/report.html").exists());
    drop(finished);
}

#[test]
fn unreachable_and_refusing_servers_have_their_own_exit_codes() {
    let lab = Lab::standing(&[]);
    let unreachable = finish(&mut lab.test("unreachable", &[&[SERVER][..], &QUICK].concat())).expect(3);
    drop(unreachable.reports(&["refused the connection"]));
    assert!(!lab.work.path().join("unreachable").exists(), "a result without runs was left");

    std::fs::write(lab.work.path().join("key"), "0123456789abcdef0123456789abcdef\n").unwrap();
    let key = lab.work.path().join("key");
    let server = lab.serve(&["--token-key", key.to_str().unwrap()]);
    for token in [&[][..], &["--token", "made-up"]] {
        let access = [SERVER, "--transports", "tcp", "--fingerprint", &server.fingerprint];
        let options = [&access[..], &QUICK, token].concat();
        let refused = finish(&mut lab.test("refused", &options)).expect(4);
        drop(refused.reports(&["the server refused", "token"]));
    }
}

#[test]
fn a_named_multipath_transport_with_one_path_ends_with_six() {
    let lab = Lab::standing(&["--set", "host.client.mptcp.subflows=0"]);
    let _server = lab.serve(&["--open"]);
    let upload = |out: &str, options: &[&str]| {
        lab.measure(
            out,
            &[&[SERVER, "--patterns", "throughput-upload", "--no-report"][..], options, &QUICK].concat(),
        )
    };
    let asked = upload("asked", &["--transports", "mptcp"]).expect(6);
    drop(asked.finished.reports(&["limit of additional subflows is 0"]));
    // Only one path, and the user named none: no failure.
    let one_path = upload("one", &["--transports", "mptcp", "--path", "wlan"]).expect(0);
    let run = runs(&one_path, Transport::Mptcp, "throughput-upload")[0];
    assert_eq!((run.multipath.used, run.paths.len()), (false, 1));
    assert!(path(run, "wlan").share > 0.99, "{:?}", run.paths);
    drop(one_path.finished.reports(&["one path to the server (wlan)"]));
    // An interface without a route to the server.
    let wrong = lab.test("wrong", &[&[SERVER, "--path", "eth9", "--transports", "tcp"][..], &QUICK].concat());
    drop(finish(&mut { wrong }).expect(2).reports(&["no interface `eth9`", "eth", "wlan"]));
}

#[test]
fn a_change_of_the_network_marks_the_run_it_falls_into() {
    // An additional IPv6 address on the path that the IPv4 traffic does not use.
    let scenario = format!(
        "{TWO_PATHS}client_address = [\"10.83.1.1/24\", \"fd83::1/64\"]\n\
         server_address = [\"10.83.1.2/24\", \"fd83::2/64\"]\n"
    );
    let lab = Lab::of(&scenario, &[]);
    let _server = lab.serve(&["--open"]);
    let options =
        ["--transports", "tcp", "--patterns", "interactive", "--no-report", "--repeat", "2", "--duration"];
    let mut test = captured(&mut lab.test("changed", &[&[SERVER][..], &options, &["2s"]].concat()));
    // The suite prints this line before its first run.
    let mut progress = BufReader::new(test.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(progress.any(|line| line.starts_with("4 runs:")), "it never began");
    std::thread::sleep(Duration::from_millis(800));
    let less = "echo 1 > /proc/sys/net/ipv6/conf/wlan/disable_ipv6";
    finish(&mut lab.exec("client", &["sh", "-c", less])).expect(0);
    let lines: Vec<String> = progress.collect();
    let finished = support::ended(test);
    let measured = Measured::read(&lab.work.path().join("changed"), finished).expect(0);
    assert!(lines.iter().any(|line| line.contains("the network changed: wlan address")), "{lines:#?}");
    let [first, others @ ..] = &measured.document.runs[..] else { panic!("no run") };
    // The first run is repeated at the end of its repetition.
    let again: Vec<&RunRecord> = others.iter().filter(|run| run.retry_of.is_some()).collect();
    let [again] = again[..] else { panic!("{others:#?}") };
    assert_eq!((again.retry_of.as_ref(), again.attempt, again.valid), (Some(&first.id), Some(2), true));
    assert_eq!(others.len(), 4);
    assert!(!first.valid && first.touched_by.iter().any(|words| words.contains("wlan")), "{first:#?}");
    assert!(others.iter().all(|run| run.valid && run.touched_by.is_empty()), "{others:#?}");
    assert!(!measured.events_of(first, EventSource::Link).is_empty());
    let group = measured.document.summary.groups.iter().find(|group| group.label == first.label).unwrap();
    assert_eq!((group.runs, group.valid), (3, 2), "a touched run counts in no statistic");
}

#[test]
fn a_lost_server_ends_the_suite_and_keeps_the_finished_runs() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&["--open"]);
    let options = ["--transports", "tcp", "--patterns", "ping", "--repeat", "20", "--no-report"];
    let mut test = captured(&mut lab.test("lost", &[&[SERVER][..], &options].concat()));
    let mut progress = BufReader::new(test.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(progress.any(|line| line.starts_with("run 1 of 40")), "it never began");
    let of_server = |process: &Process| process.arguments().get(1).is_some_and(|word| word == "serve");
    for process in lab.work.processes().into_iter().filter(of_server) {
        process.kill();
    }
    let lines: Vec<String> = progress.collect();
    let finished = support::ended(test);
    let measured = Measured::read(&lab.work.path().join("lost"), finished).expect(3);
    let runs = &measured.document.runs;
    assert!(runs[0].completed && runs.len() < 40 && !runs[runs.len() - 1].completed, "{runs:#?}");
    assert!(
        lines.iter().any(|line| line.contains("tcp@wlan became unusable and was given up")),
        "{lines:#?}"
    );
    drop(server);
}

#[test]
fn times_of_a_server_with_another_clock_are_converted_to_the_clients() {
    if !Path::new("/proc/self/ns/time").exists() {
        eprintln!("this kernel knows one monotonic clock only (CONFIG_TIME_NS): nothing to test");
        return;
    }
    let lab = Lab::standing(&[]);
    let program = binary();
    let ahead = ["unshare", "--time", "--monotonic", "86400", program.to_str().unwrap(), "serve", "--open"];
    let _server = Server::started(&mut lab.exec("server", &ahead));
    let options = ["--transports", "tcp", "--patterns", "throughput-upload,interactive", "--no-report"];
    let measured = lab.measure("clocks", &[&[SERVER][..], &options, &QUICK].concat()).expect(0);
    for run in &measured.document.runs {
        assert!(run.notes.iter().any(|note| note.contains("its own clock")), "{}: {:?}", run.id, run.notes);
    }
    // The times of both ends' records are within the same few seconds.
    let times = measured
        .events
        .iter()
        .map(|event| event.t_ms)
        .chain(measured.samples.iter().map(|sample| sample.t_ms));
    let (earliest, latest) =
        times.fold((0.0_f64, 0.0_f64), |(low, high), t_ms| (low.min(t_ms), high.max(t_ms)));
    assert!(earliest > -30_000.0 && latest < 60_000.0, "{earliest} to {latest} ms");
    let upload = runs(&measured, Transport::Tcp, "throughput-upload")[0];
    assert!(goodput(upload) > 5.0 && goodput(upload) < 20.0, "{upload:#?}");
    let first_byte = measured.events_of(upload, EventSource::Observer)[0];
    assert!((-50.0..5_000.0).contains(&first_byte.t_ms), "{first_byte:?}");
}

#[test]
fn a_dead_first_path_is_left_for_the_other_and_no_gain_is_computed() {
    let lab = Lab::standing(&[]);
    let _server = lab.serve(&["--open"]);
    // The server's answers to the first path are dropped silently; the carrier stays up.
    let dead = ["ip", "route", "add", "blackhole", "10.83.0.1/32"];
    finish(&mut lab.exec("server", &dead)).expect(0);
    let options = ["--transports", "tcp,mptcp", "--patterns", "throughput-download", "--no-report"];
    let measured = lab.measure("dead", &[&[SERVER][..], &options, &QUICK].concat());
    let document = &measured.document;
    let note = document.summary.notes.iter().find(|note| note.contains("initial path")).unwrap();
    assert!(note.contains("begin on wlan"), "{note}");
    let completed = |label: &str| {
        document.runs.iter().find(|run| run.label == label).is_some_and(|run| run.completed && run.valid)
    };
    assert_eq!(
        ["tcp@eth", "tcp@wlan", "mptcp"].map(completed),
        [false, true, true],
        "{:#?}",
        measured.finished
    );
    let [gain] = document.summary.headline.as_ref().unwrap().gains.as_slice() else {
        panic!("one direction")
    };
    assert_eq!((gain.ratio, gain.not_alone.as_slice()), (None, &["eth".to_owned()][..]), "{gain:?}");
    // A named multipath transport used one path of two.
    drop(measured.finished.expect(6).reports(&["initial path"]));
}

#[test]
fn an_interrupt_keeps_the_finished_runs() {
    let lab = Lab::standing(&[]);
    let _server = lab.serve(&["--open"]);
    let options = ["--transports", "tcp", "--patterns", "ping", "--repeat", "50"];
    let mut test = captured(&mut lab.test("stopped", &[&[SERVER][..], &options].concat()));
    let mut progress = BufReader::new(test.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(progress.any(|line| line.starts_with("run 2 of 100")), "it never began");
    let mut lines = Vec::new();
    // The process of the program itself; `lab exec` waits for it.
    let of_test = |process: &Process| process.arguments().get(1).is_some_and(|word| word == "test");
    let process = lab.work.processes().into_iter().find(of_test).unwrap();
    signal(process.id, Signal::INT);
    lines.extend(progress);
    let finished = support::ended(test);
    let measured = Measured::read(&lab.work.path().join("stopped"), finished).expect(1);
    let made = measured.document.runs.len();
    assert!((2..100).contains(&made), "{made}: {lines:#?}");
    assert!(measured.document.summary.notes.iter().any(|note| note.contains("stopped by the user")));
    assert!(measured.finished.stdout.contains("ping"), "{:#?}", measured.finished);
    assert!(within(Duration::from_secs(3), || !lab.work.processes().iter().any(of_test)));
}

#[test]
fn a_server_on_this_host_is_tested_over_loopback() {
    let work = Workplace::new();
    let port = unused_port().to_string();
    let serve = ["serve", "--open", "--listen", "127.0.0.1", "--port", &port];
    let server = Server::started(&mut work.pathbench(&serve));
    let options = [
        "--port",
        &port,
        "--fingerprint",
        &server.fingerprint,
        "--tls",
        "--patterns",
        "ping,bulk,interactive",
    ];
    let finished = work.run(&[&["test", "localhost", "-4", "--out", "here"][..], &options, &QUICK].concat());
    let measured = Measured::read(&work.path().join("here"), finished).expect(0);
    assert!(measured.document.runs.len() >= 3 * 3, "{:?}", measured.document.reachability);
    // The certificate is not signed by a CA.
    let strange = ["test", "127.0.0.1", "--port", &port, "--tls", "--patterns", "ping"];
    drop(work.run(&strange).expect(3).reports(&["not the expected server", "--fingerprint"]));
    for run in &measured.document.runs {
        assert!(
            run.encrypted && run.encryption.as_ref().is_some_and(|suite| suite.starts_with("TLS 1.3")),
            "{run:#?}"
        );
        assert!(run.completed && run.valid, "{}: {:?}", run.id, run.error);
        assert!(run.paths.iter().all(|path| path.name == "lo"), "{}: {:?}", run.id, run.paths);
        // Both ends use the clock of one machine.
        assert!(run.notes.iter().all(|note| !note.contains("clock")), "{}: {:?}", run.id, run.notes);
        if run.pattern == "interactive" {
            let delay = run.delay_ms.as_ref().unwrap();
            assert_eq!((delay.messages, delay.unacknowledged), (20, 0), "{}", run.id);
            assert_eq!(run.directions.len(), 2, "{}", run.id);
        }
    }
}

/// Regression: a run with udp among `--transports` ended with the exit code of an unreachable server.
#[test]
fn datagrams_over_udp_end_with_0_and_a_rate_beyond_the_servers_limit_is_refused() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&["--open", "--max-rate", "1mbit"]);
    let options =
        [SERVER, "--fingerprint", &server.fingerprint, "--patterns", "datagrams", "--transports", "udp"];
    let measured = lab.measure("voice", &[&options[..], &QUICK].concat()).expect(0);
    for record in runs(&measured, Transport::Udp, "datagrams")[0].datagrams.values() {
        assert!(record.paths.len() == 2 && record.all.sent > 20, "{record:#?}");
        assert!(record.all.delay.is_none(), "the clocks of two hosts are not comparable: {record:#?}");
    }
    let heavy =
        lab.measure("heavy", &[&options[..], &QUICK, &["--datagrams", "2mbitx1200"]].concat()).expect(4);
    let refusal = "datagrams at 3.994 Mbit/s were requested; this server allows a client 1.000 Mbit/s in each direction";
    assert!(heavy.finished.stderr.contains(refusal), "{:#?}", heavy.finished);
}
