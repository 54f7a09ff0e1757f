//! What limited a run is named first, with a remedy that works; nothing is named where the links limit. The shipped
//! scenarios `limits-*` expect it.

use crate::support::measured::Measured;
use crate::support::standing::{Lab, SERVER, Server};
use crate::support::{Workplace, binary, finish};
use pathbench_record::document::{LimitKind, LimitRecord, RunRecord};
use pathbench_record::sample::Side;

/// A download over two paths; `paths` are their parameters.
fn scenario([eth, wlan]: [&str; 2], run: &str) -> String {
    format!(
        "[[path]]\nname = \"eth\"\n{eth}\n[[path]]\nname = \"wlan\"\n{wlan}\n[run]\n\
         pattern = \"throughput\"\nthroughput = {{ direction = \"download\" }}\nseed = 1\n{run}\n"
    )
}

const PAIR: [&str; 2] = ["rate = \"30mbit\"\ndelay = \"20ms\"", "rate = \"20mbit\"\ndelay = \"40ms\""];

/// The text of a shipped scenario.
macro_rules! shipped {
    ($name:literal) => {
        include_str!(concat!("../../../../../scenarios/limits-", $name, ".toml"))
    };
}

/// A shipped scenario without its expectations.
fn run_only(text: &str) -> &str {
    text.split("[expect]").next().unwrap()
}

/// A shipped scenario without its name, which the workplace writes.
fn unnamed(text: &str) -> String {
    text.replacen("name = \"limits-", "# \"limits-", 1)
}

fn measure(name: &str, text: &str) -> Measured {
    Workplace::new().lab_run(name, &unnamed(text), &["--retry-invalid", "2"]).expect(0)
}

/// The last attempt of a label's run.
fn run<'a>(measured: &'a Measured, label: &str) -> &'a RunRecord {
    measured.document.runs.iter().rev().find(|run| run.label == label).unwrap()
}

#[track_caller]
fn first<'a>(run: &'a RunRecord, words: &str) -> &'a LimitRecord {
    let limits = &run.limits;
    assert_eq!(run.limited_by.as_deref(), Some(words), "{}: {limits:#?} {:#?}", run.id, run.cpu);
    let first = &limits[0];
    assert!(first.named, "{limits:#?}");
    first
}

/// The setting and the value that a remedy's command sets.
fn setting(limit: &LimitRecord) -> (String, String) {
    let remedy = limit.remedy.as_deref().unwrap();
    let (key, value) = remedy.strip_prefix("sysctl -w ").unwrap().split_once('=').unwrap();
    (key.to_owned(), value.trim_matches('\'').to_owned())
}

/// The buffers of one host are the limit; with the setting of the remedy they are none of one, and the rate rises.
#[track_caller]
fn assert_remedied(name: &str, text: &str, kind: LimitKind, small: &str) {
    let limited = measure(name, text);
    let [_, (key, value)] = ["tcp", "mptcp"].map(|label| setting(first(run(&limited, label), kind.words())));
    assert!(text.contains(&key), "{key}");
    let text = run_only(text).replace(small, &value).replace("[\"tcp\", \"mptcp\"]", "[\"mptcp\"]");
    let remedied = measure(&format!("{name}-remedied"), &text);
    let (before, after) = (run(&limited, "mptcp"), run(&remedied, "mptcp"));
    assert!(!after.limits.iter().any(|one| one.kind == kind && one.named), "{:#?}", after.limits);
    assert!(after.goodput_mbps.unwrap() > 1.5 * before.goodput_mbps.unwrap(), "{name}");
}

#[test]
fn small_receive_buffers_are_named_and_the_remedy_enlarges_them() {
    let text = shipped!("receive-window");
    assert_remedied("receive", text, LimitKind::ReceiveWindow, "4096 65536 131072");
}

#[test]
fn small_send_buffers_are_named_and_the_remedy_enlarges_them() {
    assert_remedied("send", shipped!("send-buffer"), LimitKind::SendBuffer, "4096 16384 65536");
}

/// A short path and a long one, and hosts whose receive buffers hold the data of the short one only.
const LONG: &str = "description = \"small buffers beside a long path\"\n\
     [[path]]\nname = \"eth\"\nrate = \"60mbit\"\ndelay = \"5ms\"\n\
     [[path]]\nname = \"wlan\"\nrate = \"3mbit\"\ndelay = \"150ms\"\nqueue = \"1s\"\n\
     [host.client.sysctl]\n\"net.ipv4.tcp_rmem\" = \"4096 65536 262144\"\n\
     [host.server.sysctl]\n\"net.ipv4.tcp_rmem\" = \"4096 65536 262144\"\n";

/// `pathbench test` at the client of a lab; the summary without its line breaks.
fn tested(lab: &Lab, server: &Server, name: &str, patterns: &str) -> (Measured, String) {
    let program = binary();
    let begin = [program.to_str().unwrap(), "test", SERVER, "--fingerprint", &server.fingerprint];
    let options = ["--transports", "mptcp", "--repeat", "1", "--duration", "3s", "--no-report"];
    let traffic = ["--patterns", patterns, "--out", name];
    let finished = finish(&mut lab.exec("client", &[&begin[..], &options, &traffic].concat()));
    let measured = Measured::read(&lab.work.path().join(name), finished).expect(0);
    let summary = measured.finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    (measured, summary)
}

#[test]
fn a_test_names_the_host_whose_buffers_are_small_and_the_printed_remedies_work() {
    let lab = Lab::of(LONG, &[]);
    let server = lab.serve(&["--open"]);
    let (limited, summary) = tested(&lab, &server, "limited", "throughput-download,throughput-upload");
    for (pattern, side, host) in
        [("throughput-download", Side::Client, "client"), ("throughput-upload", Side::Server, "server")]
    {
        let run = limited.document.runs.iter().find(|run| run.pattern == pattern).unwrap();
        let limit = first(run, "receive window");
        assert_eq!(limit.side, Some(side), "{limit:#?}");
        let words = format!("receive window at the {host}");
        assert!(summary.contains(&words), "{words}: {summary}");
        // The commands as they are printed, line breaks of the summary aside.
        let (_, rest) = summary.split_once(&format!("Remedy, at the {host}: ")).expect(&summary);
        let command = limit.remedy.as_deref().unwrap();
        assert!(rest.starts_with(command), "{command}: {rest}");
        finish(&mut lab.exec(host, &["sh", "-c", command])).expect(0);
    }
    let (remedied, summary) = tested(&lab, &server, "remedied", "throughput-download,throughput-upload");
    for (before, after) in limited.document.runs.iter().flat_map(|before| {
        let runs = remedied.document.runs.iter();
        runs.filter(|after| after.pattern == before.pattern).map(move |after| (before, after))
    }) {
        assert_ne!(after.limited_by.as_deref(), Some("receive window"), "{:#?}", after.limits);
        assert!(after.goodput_mbps.unwrap() > 1.5 * before.goodput_mbps.unwrap(), "{}", after.pattern);
    }
    assert!(!summary.contains("receive window"), "{summary}");
}

#[test]
fn a_rate_of_the_pattern_is_named() {
    let text = shipped!("application");
    let measured = measure("application", text);
    for label in ["tcp", "mptcp", "quic"] {
        let limit = first(run(&measured, label), "application");
        assert_eq!(limit.remedy.as_deref(), Some("raise `rate` of the pattern"));
    }
    // The remedy: twice the rate is reached.
    let text =
        run_only(text).replace("8mbit", "16mbit").replace("[\"tcp\", \"mptcp\", \"quic\"]", "[\"tcp\"]");
    let raised = measure("application-raised", &text);
    let rate = |measured: &Measured| run(measured, "tcp").goodput_mbps.unwrap();
    assert!(rate(&raised) > 1.5 * rate(&measured));
}

#[test]
fn a_link_without_a_rate_shows_the_cpu() {
    let measured = Workplace::new().lab_run("cpu", &unnamed(shipped!("processor")), &[]);
    let run = run(&measured, "quic");
    if run.limits.iter().any(|limit| limit.named) {
        assert!(run.limits[0].kind.is_cpu() && run.limits[0].remedy.is_none(), "{:#?}", run.limits);
        assert_eq!(measured.finished.code, Some(0), "{:#?}", measured.finished);
    } else {
        // Other programs had the CPUs.
        assert!(run.not_examined.iter().any(|one| one.kind.is_cpu()), "{:#?} {:#?}", run.limits, run.cpu);
    }
    assert_eq!(run.cpu.len(), 2);
    assert!(
        run.cpu.values().all(|cpu| cpu.seconds > 0.0 && cpu.seconds_per_gb.unwrap() > 0.0),
        "{:#?}",
        run.cpu
    );
}

#[test]
fn paths_over_one_link_share_a_bottleneck() {
    let measured = measure("shared", shipped!("shared-bottleneck"));
    first(run(&measured, "mptcp"), "shared bottleneck");
    let gain = &measured.document.summary.headline.as_ref().unwrap().gains[0];
    assert_eq!(gain.limited_by.as_deref(), Some("shared bottleneck"));
    assert!(measured.finished.stdout.contains("limited by shared bottleneck"), "{:#?}", measured.finished);
    for label in ["tcp@eth", "tcp@wlan"] {
        assert_eq!(run(&measured, label).limited_by.as_deref(), Some("congestion window"), "{label}");
    }
}

#[test]
fn data_behind_a_long_path_is_named() {
    let text = shipped!("head-of-line");
    let measured = measure("head-of-line", text);
    let blocked = run(&measured, "mptcp");
    let limit = first(blocked, "head-of-line blocking");
    assert!(limit.because.contains("out of order"), "{limit:#?}");
    // The remedy.
    let text = run_only(text).replace("queue = \"500ms\"", "queue = \"500ms\"\nbackup = true");
    let remedied =
        Workplace::new().lab_run("head-of-line-remedied", &unnamed(&text), &["--retry-invalid", "2"]);
    let spared = run(&remedied, "mptcp");
    assert!(spared.goodput_mbps.unwrap() > 1.3 * blocked.goodput_mbps.unwrap(), "{:#?}", spared.limits);
    assert_ne!(spared.limited_by.as_deref(), Some("head-of-line blocking"));
}

#[test]
fn nothing_is_named_on_a_healthy_pair() {
    let run_table = "transports = [\"tcp\", \"mptcp\", \"quic\", \"mpquic\"]\nduration = \"4s\"";
    let measured = measure("healthy", &scenario(PAIR, run_table));
    for run in &measured.document.runs {
        let cpu = run.cpu.values().any(|cpu| cpu.busiest_ran + cpu.busiest_waited >= 0.9);
        assert!(!cpu, "no CPU for a test: {:#?}", run.cpu);
        assert!(run.limits.iter().all(|limit| !limit.named), "{}: {:#?}", run.id, run.limits);
        assert_eq!(run.limited_by.as_deref(), Some("congestion window"), "{}", run.id);
        assert_eq!(run.cpu.len(), 2, "{}", run.id);
    }
    assert!(!measured.finished.stdout.contains("What limited it"), "{:#?}", measured.finished);
}
