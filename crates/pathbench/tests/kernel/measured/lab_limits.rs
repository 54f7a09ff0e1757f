//! What limited a run is named first, with a remedy that works; nothing is named where the links limit.

use crate::support::Workplace;
use crate::support::measured::Measured;
use pathbench_record::document::{LimitRecord, RunRecord};

/// A download over two paths; `paths` are their parameters.
fn scenario([eth, wlan]: [&str; 2], hosts: &str, run: &str) -> String {
    format!(
        "[[path]]\nname = \"eth\"\n{eth}\n[[path]]\nname = \"wlan\"\n{wlan}\n{hosts}\n[run]\n\
         pattern = \"throughput\"\nthroughput = {{ direction = \"download\" }}\nseed = 1\n{run}\n"
    )
}

const PAIR: [&str; 2] = ["rate = \"30mbit\"\ndelay = \"20ms\"", "rate = \"20mbit\"\ndelay = \"40ms\""];

fn measure(name: &str, text: &str) -> Measured {
    Workplace::new().lab_run(name, text, &["--retry-invalid", "2"]).expect(0)
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

/// The buffers of one host are the limit; with the setting of the remedy they are less of one, and the rate rises. The
/// first measurement knows neither the full rate nor the RTT with full queues, so that they may remain a limit.
#[track_caller]
fn assert_remedied(name: &str, words: &str, host: &str, key: &str, small: &str) {
    let text = |value: &str| {
        let hosts = format!("[host.{host}.sysctl]\n\"{key}\" = \"{value}\"");
        scenario(PAIR, &hosts, "transports = [\"tcp\", \"mptcp\"]\nduration = \"4s\"")
    };
    let limited = measure(name, &text(small));
    for label in ["tcp", "mptcp"] {
        let limit = first(run(&limited, label), words);
        let (of, value) = setting(limit);
        assert_eq!(of, key);
        if label == "mptcp" {
            let remedied = measure(&format!("{name}-remedied"), &text(&value));
            let (before, after) = (run(&limited, label), run(&remedied, label));
            let remaining =
                after.limits.iter().find(|one| one.kind == limit.kind).map_or(0.0, |one| one.share);
            assert!(remaining < 0.7 * limit.share, "{limit:#?}, then {:#?}", after.limits);
            assert!(after.goodput_mbps.unwrap() > 1.5 * before.goodput_mbps.unwrap(), "{words}");
        }
    }
}

#[test]
fn small_receive_buffers_are_named_and_the_remedy_enlarges_them() {
    let key = "net.ipv4.tcp_rmem";
    assert_remedied("receive", "receive window", "client", key, "4096 65536 131072");
}

#[test]
fn small_send_buffers_are_named_and_the_remedy_enlarges_them() {
    let key = "net.ipv4.tcp_wmem";
    assert_remedied("send", "send buffer", "server", key, "4096 16384 65536");
}

#[test]
fn a_long_path_beside_small_buffers_costs_mptcp_most_of_its_rate() {
    let paths = ["rate = \"60mbit\"\ndelay = \"5ms\"", "rate = \"3mbit\"\ndelay = \"150ms\"\nqueue = \"1s\""];
    let hosts = "[host.client.sysctl]\n\"net.ipv4.tcp_rmem\" = \"4096 65536 262144\"";
    let run_table = "transports = [\"tcp\", \"mptcp\"]\nduration = \"4s\"\n[expect]\n\"mptcp.limited_by\" = \"receive window\"";
    let measured = measure("long", &scenario(paths, hosts, run_table));
    let limit = first(run(&measured, "mptcp"), "receive window");
    let (_, value) = setting(limit);
    let largest: u64 = value.rsplit(' ').next().unwrap().parse().unwrap();
    // The fast path's 60 Mbit/s at the long path's 300 ms.
    assert!((2 * 2_250_000..64 << 20).contains(&largest), "{value}");
    let slower = run(&measured, "mptcp").goodput_mbps.unwrap() / run(&measured, "tcp").goodput_mbps.unwrap();
    assert!(slower < 0.6, "{slower}");
    // The summary breaks lines.
    let summary = measured.finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(summary.contains("Remedy, at the client: sysctl -w net.ipv4.tcp_rmem="), "{summary}");
}

#[test]
fn a_rate_of_the_pattern_is_named() {
    let text = scenario(PAIR, "", "transports = [\"tcp\", \"mptcp\", \"quic\"]\nduration = \"3s\"");
    let text = text.replace("direction = \"download\"", "direction = \"download\", rate = \"8mbit\"");
    let measured = measure("application", &text);
    for label in ["tcp", "mptcp", "quic"] {
        let limit = first(run(&measured, label), "application");
        assert_eq!(limit.remedy.as_deref(), Some("raise `rate` of the pattern"));
    }
    // The remedy: twice the rate is reached.
    let raised = measure("application-raised", &text.replace("8mbit", "16mbit"));
    let rate = |measured: &Measured| run(measured, "tcp").goodput_mbps.unwrap();
    assert!(rate(&raised) > 1.5 * rate(&measured));
}

#[test]
fn a_link_without_a_rate_shows_the_cpu() {
    let paths = ["engine = \"kernel\"", "engine = \"kernel\""];
    let measured = measure("cpu", &scenario(paths, "", "transports = [\"quic\"]\nduration = \"4s\""));
    let run = run(&measured, "quic");
    let words = run.limited_by.as_deref().unwrap_or_default();
    assert!(["sender's CPU", "receiver's CPU"].contains(&words), "{:#?} {:#?}", run.limits, run.cpu);
    assert!(run.limits[0].named && run.limits[0].remedy.is_none(), "{:#?}", run.limits);
    assert_eq!(run.cpu.len(), 2);
    assert!(
        run.cpu.values().all(|cpu| cpu.seconds > 0.0 && cpu.seconds_per_gb.unwrap() > 0.0),
        "{:#?}",
        run.cpu
    );
}

#[test]
fn paths_over_one_link_share_a_bottleneck() {
    let text = r#"
        [[router]]
        name = "isp"
        [[link]]
        name = "eth"
        ends = ["client:eth", "isp:a"]
        rate = "60mbit"
        [[link]]
        name = "wlan"
        ends = ["client:wlan", "isp:b"]
        rate = "60mbit"
        [[link]]
        name = "backbone"
        ends = ["isp:c", "server:eth"]
        rate = "20mbit"
        delay = "10ms"
        [run]
        transports = ["tcp@eth", "tcp@wlan", "mptcp"]
        pattern = "throughput"
        throughput = { direction = "upload" }
        duration = "4s"
        congestion = "cubic"
        seed = 1
    "#;
    let measured = measure("shared", text);
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
    let paths =
        ["rate = \"40mbit\"\ndelay = \"5ms\"", "rate = \"10mbit\"\ndelay = \"400ms\"\nqueue = \"500ms\""];
    let hosts = "[host.client.sysctl]\n\"net.ipv4.tcp_rmem\" = \"4096 131072 67108864\"\n\
                 [host.server.sysctl]\n\"net.ipv4.tcp_wmem\" = \"4096 16384 67108864\"";
    let run_table = "transports = [\"mptcp\"]\nduration = \"6s\"\ncongestion = \"cubic\"";
    let measured = measure("head-of-line", &scenario(paths, hosts, run_table));
    let blocked = run(&measured, "mptcp");
    let limit = first(blocked, "head-of-line blocking");
    assert!(limit.because.contains("out of order"), "{limit:#?}");
    // The remedy.
    let spare = [paths[0], &format!("{}\nbackup = true", paths[1])];
    let text = scenario(spare, hosts, run_table);
    let remedied = Workplace::new().lab_run("head-of-line-remedied", &text, &["--retry-invalid", "2"]);
    let spared = run(&remedied, "mptcp");
    assert!(spared.goodput_mbps.unwrap() > 1.3 * blocked.goodput_mbps.unwrap(), "{:#?}", spared.limits);
    assert_ne!(spared.limited_by.as_deref(), Some("head-of-line blocking"));
}

#[test]
fn nothing_is_named_on_a_healthy_pair() {
    let run_table = "transports = [\"tcp\", \"mptcp\", \"quic\", \"mpquic\"]\nduration = \"4s\"";
    let measured = measure("healthy", &scenario(PAIR, "", run_table));
    for run in &measured.document.runs {
        let cpu = run.cpu.values().any(|cpu| cpu.busiest_ran + cpu.busiest_waited >= 0.9);
        assert!(!cpu, "no CPU for a test: {:#?}", run.cpu);
        assert!(run.limits.iter().all(|limit| !limit.named), "{}: {:#?}", run.id, run.limits);
        assert_eq!(run.limited_by.as_deref(), Some("congestion window"), "{}", run.id);
        assert_eq!(run.cpu.len(), 2, "{}", run.id);
    }
    assert!(!measured.finished.stdout.contains("What limited it"), "{:#?}", measured.finished);
}
