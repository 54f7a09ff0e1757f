//! `pathbench trace` on recorded captures, and on interfaces.

use crate::support;
use crate::support::processes::signal;
use crate::support::{Finished, Workplace, binary, captured, finish, within};
use pathbench_host::netlink::RouteSocket;
use pathbench_record::trace::{SequenceLine, TraceDocument};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn recorded(name: &str) -> String {
    let file: PathBuf =
        pathbench_testkit::checkout().join("crates/pathbench-trace/tests/recorded").join(name);
    file.to_str().unwrap().to_owned()
}

fn files(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn document(text: &str) -> TraceDocument {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_summary_has_connections_subflows_and_the_data_level() {
    let work = Workplace::new();
    let shown = work.run(&["trace", &recorded("checksums.pcap")]).expect(0);
    assert_eq!(shown.stderr, "");
    for text in [
        "Captures  from ",
        "checksums.pcap",
        "1 MPTCP connection with 1 subflow",
        "Connection 0  MPTCP  127.0.0.1:50230 → 127.0.0.1:5000",
        "DSS checksums on",
        "upload",
        "initial",
    ] {
        assert!(shown.stdout.contains(text), "`{text}` is missing: {}", shown.stdout);
    }
    assert!(!shown.stdout.contains('\u{1b}'), "colours without a terminal");
}

#[test]
fn json_is_the_document_and_valid() {
    let work = Workplace::new();
    let capture = recorded("checksums.pcap");
    let printed = work.run(&["trace", &capture, "--json"]).expect(0);
    let found = document(&printed.stdout);
    assert_eq!(found.schema, "pathbench.trace/1");
    assert_eq!((found.totals.mptcp_connections, found.connections.len()), (1, 1));
    assert_eq!(found.captures[0].file, capture);
    fs::create_dir(work.path().join("document")).unwrap();
    fs::write(work.path().join("document/trace.json"), &printed.stdout).unwrap();
    // The schema accepts it: `Workplace` checks at its end.
}

#[test]
fn keys_show_the_paths_of_multipath_quic() {
    let work = Workplace::new();
    let (capture, keys) = (recorded("mpquic.pcap"), recorded("mpquic.keys"));
    let without = document(&work.run(&["trace", &capture, "--json"]).expect(0).stdout);
    let with = document(&work.run(&["trace", &capture, "--keylog", &keys, "--json"]).expect(0).stdout);
    assert_eq!(without.connections[0].subflows.len(), 1);
    assert_eq!((with.connections[0].transport.as_str(), with.connections[0].subflows.len()), ("mpquic", 2));
    assert!(with.connections[0].download.data_bytes > 0);
    let summary = work.run(&["trace", &capture, "--keylog", &keys]).expect(0).stdout;
    assert!(summary.contains("path id 1"), "{summary}");
    work.run(&["trace", &capture, "--keylog", &capture]).expect(0).reports(&[
        "warning",
        "mpquic.pcap",
        "no TLS 1.3 secret",
    ]);
    work.run(&["trace", &capture, "--keylog", "nowhere"]).expect(2).reports(&["cannot open nowhere"]);
}

#[test]
fn standard_input_is_a_capture() {
    let work = Workplace::new();
    let capture = recorded("checksums.pcap");
    let mut command = work.pathbench(&["trace", "-", "--json"]);
    let read = support::ended(captured(command.stdin(File::open(&capture).unwrap()))).expect(0);
    let (read, named) = (document(&read.stdout), document(&work.run(&["trace", &capture, "--json"]).stdout));
    assert_eq!(read.captures[0].file, "standard input");
    assert_eq!(read.connections, named.connections);
    work.run(&["trace", "-", "-"]).expect(2).reports(&["standard input can be read once only"]);
    work.run(&["trace", "-"]).expect(2).reports(&["standard input: the file is empty"]);
}

/// As Ctrl-C in a terminal with `tcpdump -w - | pathbench trace -`, whose pipe may stay open.
#[test]
fn a_signal_ends_standard_input_and_the_result_is_printed() {
    let work = Workplace::new();
    let mut command = work.pathbench(&["trace", "-", "--json"]);
    let mut child = captured(command.stdin(Stdio::piped()));
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&fs::read(recorded("checksums.pcap")).unwrap()).unwrap();
    let pid = Pid::from_child(&child);
    // The program handles the signal from when it opens standard input.
    let handled = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 2 != 0
    };
    assert!(within(Duration::from_secs(20), handled));
    kill_process(pid, Signal::INT).unwrap();
    let ended = support::ended(child).expect(0);
    assert_eq!(document(&ended.stdout).totals.mptcp_connections, 1);
    drop(pipe);
}

#[test]
fn packets_before_the_damage_are_analysed() {
    let work = Workplace::new();
    let whole = fs::read(recorded("checksums.pcap")).unwrap();
    fs::write(work.path().join("half.pcap"), &whole[..whole.len() / 2]).unwrap();
    let shown = work.run(&["trace", "half.pcap"]).expect(0);
    let shown = shown.reports(&["warning: half.pcap: the file ends within", "are analysed"]);
    assert!(shown.stdout.contains("1 MPTCP connection"), "{}", shown.stdout);
    assert!(shown.stdout.contains("damaged: the file ends within"), "{}", shown.stdout);
}

#[test]
fn unreadable_files_are_named_and_the_others_are_analysed() {
    let work = Workplace::new();
    fs::write(work.path().join("letter.txt"), "dear reader of this letter\n").unwrap();
    fs::write(work.path().join("empty.pcap"), "").unwrap();
    fs::create_dir(work.path().join("directory")).unwrap();
    let wrong = ["trace", "letter.txt", "nowhere.pcap", "empty.pcap", "directory"];
    let texts = [
        "letter.txt: not a capture file: requires pcap or pcapng",
        "tcpdump -w",
        "cannot open nowhere.pcap: No such file",
        "empty.pcap: the file is empty",
        "directory is a directory",
    ];
    let refused = work.run(&[&wrong[..], &["--out", "out"]].concat()).expect(2).reports(&texts);
    assert_eq!(refused.stdout, "");
    assert!(!work.path().join("out").exists());
    let capture = recorded("checksums.pcap");
    let mixed = work.run(&[&wrong[..], &[&capture, "--json"]].concat()).expect(0).reports(&texts);
    assert_eq!(document(&mixed.stdout).captures.len(), 1);
}

#[test]
fn several_captures_are_one_analysis() {
    let work = Workplace::new();
    let captures = [recorded("checksums.pcap"), recorded("mpquic.pcap")];
    let both = document(&work.run(&["trace", &captures[0], &captures[1], "--json"]).expect(0).stdout);
    assert_eq!((both.captures.len(), both.connections.len()), (2, 2));
    assert_eq!((both.totals.mptcp_connections, both.totals.quic_connections), (1, 1));
    let one = work.run(&["trace", &captures[0], &captures[1], "--most", "1"]).expect(0).stdout;
    assert!(one.contains("Shown are 1 of 2 connections"), "{one}");
    assert!(!one.contains("Connections  "), "one connection needs no list: {one}");
}

#[test]
fn a_directory_has_the_document_the_report_and_the_tables_and_is_reported_again() {
    let work = Workplace::new();
    let capture = recorded("checksums.pcap");
    let command = ["trace", &capture, "--out", "out"];
    let shown = work.run(&command).expect(0).stdout;
    assert!(shown.ends_with("Report   out/report.html\n"), "{shown}");
    let out = work.path().join("out");
    assert_eq!(
        files(&out),
        [
            "connection-0-segment-sizes.svg",
            "connection-0-sequence-upload.svg",
            "connection-0-throughput.svg",
            "connections.csv",
            "report.html",
            "sequence.jsonl",
            "subflows.csv",
            "trace.json",
            "xplot"
        ]
    );
    assert_eq!(
        files(&out.join("xplot")),
        [
            "connection-0-data-download.xpl",
            "connection-0-data-upload.xpl",
            "connection-0-subflow-0-download.xpl",
            "connection-0-subflow-0-upload.xpl"
        ]
    );
    let csv = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    assert!(csv("connections.csv").starts_with(r#""id","transport","client","server","start_s","#));
    assert_eq!(csv("subflows.csv").lines().count(), 2);
    // Nothing is overwritten.
    work.run(&command).expect(2).reports(&["out already holds a Pathbench result"]);
    work.run(&["report", "out", "out"]).expect(2).reports(&["cannot be compared"]);

    let page = csv("report.html");
    fs::remove_file(out.join("report.html")).unwrap();
    let again = work.run(&["report", "out"]).expect(0).stdout;
    assert_eq!((again, csv("report.html")), (shown, page));
    let printed = work.run(&["report", "out/trace.json", "--json"]).expect(0).stdout;
    assert_eq!(document(&printed), document(&csv("trace.json")));
    let tables = work.run(&["report", "out", "--export", "parquet"]).expect(0).stdout;
    assert_eq!(tables, "out/export/connections.parquet\nout/export/subflows.parquet\n");
    work.run(&["report", "out", "--export", "flent"]).expect(2).reports(&["--export csv"]);
}

#[test]
fn the_graphs_have_every_segment_and_the_data_acknowledged() {
    let work = Workplace::new();
    let capture = recorded("checksums.pcap");
    work.run(&["trace", &capture, "--out", "out"]).expect(0);
    let read = |name: &str| fs::read_to_string(work.path().join("out").join(name)).unwrap();
    let found = document(&read("trace.json"));
    let lines: Vec<SequenceLine> =
        read("sequence.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line.subflow).collect::<Vec<_>>(), [None, None, Some(0), Some(0)]);
    let connection = &found.connections[0];
    for line in &lines {
        let sent = if line.direction == "upload" { &connection.upload } else { &connection.download };
        let bytes: u64 = line.segments.iter().map(|one| one.end - one.start).sum();
        assert_eq!((bytes, line.thinned), (sent.payload_bytes, 1));
        // The FIN or DATA_FIN counts as one.
        let acknowledged = line.acknowledgments.last().unwrap().1;
        assert_eq!(acknowledged, 2 + sent.acknowledged_bytes.unwrap());
        assert_eq!(line.segments[0].start, 1);
        let mut times = line.segments.iter().map(|one| one.at_s);
        assert!(times.clone().is_sorted() && times.next_back().unwrap() <= found.duration_s);
    }
    // A damaged line has a message.
    fs::write(work.path().join("out/sequence.jsonl"), "{}\nbroken\n").unwrap();
    work.run(&["report", "out"]).expect(2).reports(&["sequence.jsonl", "2"]);
    fs::remove_file(work.path().join("out/sequence.jsonl")).unwrap();
    work.run(&["report", "out"]).expect(0);
}

#[test]
fn the_capture_of_one_connection_has_its_bytes_and_comments() {
    let work = Workplace::new();
    let captures = [recorded("mpquic.pcap"), recorded("checksums.pcap")];
    work.run(&["trace", &captures[0], &captures[1], "--out", "out", "--pcapng"]).expect(0);
    let out = work.path().join("out");
    let found = document(&fs::read_to_string(out.join("trace.json")).unwrap());
    let tcp = found.connections.iter().find(|one| one.transport == "mptcp").unwrap();
    let own = format!("connection-{}.pcapng", tcp.id);
    assert_eq!(files(&out.join("captures")), [own.as_str()]);
    let own = out.join("captures").join(own);
    let again = document(&work.run(&["trace", own.to_str().unwrap(), "--json"]).expect(0).stdout);
    assert_eq!((again.connections.len(), again.totals.quic_connections), (1, 0));
    assert_eq!(again.connections[0].subflows.len(), tcp.subflows.len());
    for (new, old) in again.connections[0].subflows.iter().zip(&tcp.subflows) {
        assert_eq!((&new.upload, &new.download), (&old.upload, &old.download));
    }
    let bytes = fs::read(own).unwrap();
    let comment = "subflow 0, upload: data of subflow bytes 1–".as_bytes();
    assert!(bytes.windows(comment.len()).any(|part| part == comment));
}

#[test]
fn standard_input_has_no_graphs() {
    let work = Workplace::new();
    let capture = recorded("checksums.pcap");
    let run = |arguments: &[&str]| {
        let mut command = work.pathbench(arguments);
        support::ended(captured(command.stdin(File::open(&capture).unwrap())))
    };
    run(&["trace", "-", "--out", "refused", "--pcapng"])
        .expect(2)
        .reports(&["--pcapng reads the captures twice, but standard input can be read once only"]);
    assert!(!work.path().join("refused").exists());
    run(&["trace", "-", "--out", "out"])
        .expect(0)
        .reports(&["warning: standard input cannot be read twice: out has no time-sequence graphs"]);
    assert!(!work.path().join("out/sequence.jsonl").exists() && work.path().join("out/report.html").exists());
    run(&["trace", "-", "--pcapng"]).expect(2).reports(&["--out"]);
}

/// Set in the copy of this program that runs in a network namespace of its own.
const INSIDE: &str = "PATHBENCH_TEST_TRACE_INSIDE";

/// A network namespace of a user namespace, in which this program runs the test of this name again. `true` in that
/// process.
fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        RouteSocket::open().unwrap().set_loopback_up().unwrap();
        return true;
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--"]).arg(std::env::current_exe().unwrap());
    let finished =
        finish(command.args(["--exact", &format!("trace::{test}"), "--nocapture"]).env(INSIDE, "1"))
            .expect(0);
    assert!(finished.stdout.contains("1 passed"), "{finished:#?}");
    false
}

/// A live capture on loopback that has begun.
fn begun(work: &Workplace, options: &[&str]) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut capture =
        captured(&mut work.pathbench(&[&["trace", "--live", "lo", "--json"], options].concat()));
    let mut errors = BufReader::new(capture.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("capturing on lo"), "{line}");
    (capture, errors)
}

/// Sends `bytes` bytes over a TCP connection on loopback, and 70 000 back.
fn transfer(bytes: usize) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut server = listener.accept().unwrap().0;
    std::thread::scope(|scope| {
        scope.spawn(|| client.write_all(&vec![7; bytes]).unwrap());
        server.read_exact(&mut vec![0; bytes]).unwrap();
        server.write_all(&vec![8; 70_000]).unwrap();
    });
    client.read_exact(&mut vec![0; 70_000]).unwrap();
}

fn ended(capture: Child, mut errors: BufReader<std::process::ChildStderr>) -> Finished {
    let mut finished = support::ended(capture);
    errors.read_to_string(&mut finished.stderr).unwrap();
    finished.expect(0)
}

#[test]
fn a_live_capture_counts_the_bytes_of_a_connection() {
    const BYTES: usize = 5_000_000;
    if !is_inside("a_live_capture_counts_the_bytes_of_a_connection") {
        return;
    }
    let work = Workplace::new();
    let (capture, errors) = begun(&work, &["--duration", "2s"]);
    transfer(BYTES);
    let finished = ended(capture, errors);
    assert_eq!(finished.stderr, "");
    let found = document(&finished.stdout);
    let [connection] = found.connections.as_slice() else { panic!("{found:#?}") };
    assert_eq!((connection.upload.data_bytes, connection.download.data_bytes), (BYTES as u64, 70_000));
    // Each packet is captured once. On a busy machine the kernel retransmits some.
    let upload = &connection.subflows[0].upload;
    let (payload, again) = (upload.payload_bytes, upload.retransmitted_bytes);
    assert!(payload - again == BYTES as u64 && again < payload / 4, "{upload:#?}");
    let [capture] = found.captures.as_slice() else { panic!("{found:#?}") };
    assert_eq!((capture.file.as_str(), capture.format.as_str()), ("lo", "live"));
    assert_eq!((capture.dropped_packets, capture.truncated_packets), (None, 0));
    fs::create_dir(work.path().join("document")).unwrap();
    fs::write(work.path().join("document/trace.json"), &finished.stdout).unwrap();
}

#[test]
fn a_signal_ends_a_live_capture_and_the_result_is_written() {
    if !is_inside("a_signal_ends_a_live_capture_and_the_result_is_written") {
        return;
    }
    let work = Workplace::new();
    for (end, out) in [(Signal::INT, "int"), (Signal::TERM, "term")] {
        let (capture, errors) = begun(&work, &["--snap-length", "100", "--out", out]);
        transfer(300_000);
        signal(capture.id().try_into().unwrap(), end);
        let found = document(&ended(capture, errors).stdout);
        assert_eq!(found.connections[0].upload.data_bytes, 300_000);
        assert!(found.captures[0].truncated_packets > 0 && found.captures[0].captured_bytes < 100_000);
        assert_eq!(document(&fs::read_to_string(work.path().join(out).join("trace.json")).unwrap()), found);
    }
}

#[test]
fn live_captures_that_cannot_begin_name_the_reason() {
    let work = Workplace::new();
    let capture = recorded("checksums.pcap");
    work.run(&["trace", "--live", "pbt-none"]).expect(2).reports(&["no interface pbt-none", "ip link"]);
    work.run(&["trace", "--live", "lo", "--live", "lo"]).expect(2).reports(&["--live lo is given twice"]);
    work.run(&["trace", "--live", "lo", &capture]).expect(2).reports(&["cannot be used with"]);
    work.run(&["trace", &capture, "--duration", "1s"]).expect(2).reports(&["cannot be used with"]);
    work.run(&["trace", "--duration", "1s"]).expect(2).reports(&["required", "--live"]);
    // Without a mapped user, the program has no capability in the namespaces.
    let mut command = Command::new("unshare");
    work.prepare(command.args(["--user", "--net", "--"]).arg(binary()));
    let refused = finish(command.args(["trace", "--live", "lo", "--out", "out"])).expect(7);
    refused.reports(&["cannot capture on lo", "CAP_NET_RAW", "setcap"]);
    assert!(!work.path().join("out").exists());
}
