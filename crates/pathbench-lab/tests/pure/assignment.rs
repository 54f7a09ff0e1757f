//! The plans of client and server in a run.

use pathbench_lab::scenario::{Overrides, ScenarioPlan, ScenarioSource, plan};
use pathbench_lab::study::assignment::RunAssignment;
use pathbench_record::connection::Scheduler;
use pathbench_record::pattern::PatternParameters;
use pathbench_traffic::client::ClientPlan;
use pathbench_transport::CertificateFingerprint;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;

const SCENARIO: &str = r#"
name = "t"
[[path]]
name = "eth"
weight = 3
[[path]]
name = "wlan"
backup = true
[run]
transports = ["tcp", "tcp@wlan", "mptcp@wlan", "quic@wlan", "mpquic", "mpquic@wlan"]
pattern = ["throughput", "ping"]
congestion = "reno"
patience = "4s"
[run.throughput]
congestion = "cubic"
send_buffer = "64KiB"
patience = "2s"
[run.quic]
scheduler = "weighted"
congestion = "bbr3"
qlog = true
"#;

fn planned() -> ScenarioPlan {
    plan(&ScenarioSource::from_text("t.toml", SCENARIO), &Overrides::default()).unwrap()
}

fn assignment<'a>(plan: &'a ScenarioPlan, label: &str, pattern: usize) -> RunAssignment<'a> {
    let variant = &plan.variants[0];
    let label = variant.run.labels.iter().find(|known| known.to_string() == label).unwrap();
    RunAssignment {
        id: "01".to_owned(),
        plan: variant,
        label,
        pattern: &variant.run.patterns[pattern],
        sample_interval: plan.sample_interval,
        qlog: Some("/tmp/qlog".into()),
    }
}

fn client(assignment: &RunAssignment<'_>) -> ClientPlan {
    let server = SocketAddr::new(assignment.server_address().unwrap(), 1);
    assignment.client_plan(server, Some(CertificateFingerprint([1; 32])), None).unwrap()
}

#[test]
fn single_path_transports_are_bound_and_multipath_ones_are_not() {
    let plan = planned();
    for (label, server, local, interface) in [
        ("tcp", "10.83.0.2", "10.83.0.1", Some("eth")),
        ("tcp@wlan", "10.83.1.2", "10.83.1.1", Some("wlan")),
        ("mptcp@wlan", "10.83.1.2", "10.83.1.1", None),
        ("quic@wlan", "10.83.1.2", "10.83.1.1", Some("wlan")),
        ("mpquic", "10.83.0.2", "10.83.0.1", None),
    ] {
        let client = client(&assignment(&plan, label, 0));
        assert_eq!(client.server.ip().to_string(), server, "{label}");
        assert_eq!(client.local.unwrap().to_string(), local, "{label}");
        assert_eq!(client.interface.as_deref(), interface, "{label}");
    }
}

#[test]
fn mpquic_gets_every_link_and_starts_on_the_one_it_is_bound_to() {
    let plan = planned();
    let paths = |label| {
        let paths = client(&assignment(&plan, label, 0)).quic.paths.into_iter();
        paths.map(|path| (path.interface, path.backup, path.weight)).collect::<Vec<_>>()
    };
    let (eth, wlan) = (("eth".to_owned(), false, 3), ("wlan".to_owned(), true, 1));
    assert_eq!(paths("mpquic"), [eth.clone(), wlan.clone()]);
    assert_eq!(paths("mpquic@wlan"), [wlan, eth]);
    assert_eq!(paths("quic@wlan"), []);
    let client = client(&assignment(&plan, "mpquic", 0));
    assert_eq!(client.quic.scheduler, Scheduler::Weighted);
    assert_eq!(client.quic.qlog, Some(PathBuf::from("/tmp/qlog")));
}

#[test]
fn quic_is_always_encrypted_and_the_kernels_transports_when_asked() {
    let plan = planned();
    let encrypted = |label| client(&assignment(&plan, label, 0)).security.trust().is_some();
    assert!(encrypted("mpquic") && encrypted("quic@wlan"));
    assert!(!encrypted("tcp") && !encrypted("mptcp@wlan"));
    let overrides =
        Overrides { set: vec![("run.tls".to_owned(), "true".to_owned())], ..Overrides::default() };
    let with_tls = pathbench_lab::scenario::plan(&ScenarioSource::from_text("t.toml", SCENARIO), &overrides);
    let with_tls = with_tls.unwrap();
    let tcp = assignment(&with_tls, "tcp", 0);
    assert!(client(&tcp).security.trust().is_some());
    assert!(tcp.serve_plan([10, 83, 0, 2].into()).encrypted);
    assert_eq!(tcp.setting().asked["tls"], true);
}

#[test]
fn each_transport_and_pattern_gets_the_options_that_are_for_it() {
    let plan = planned();
    let options = |label, pattern| {
        let client = client(&assignment(&plan, label, pattern));
        (client.socket.congestion.unwrap(), client.socket.send_buffer_bytes, client.patience.as_secs())
    };
    assert_eq!(options("tcp", 0), ("cubic".to_owned(), Some(65_536), 2));
    assert_eq!(options("tcp", 1), ("reno".to_owned(), None, 4));
    assert_eq!(options("mpquic", 0), ("bbr3".to_owned(), Some(65_536), 2));
    assert_eq!(options("mpquic", 1), ("bbr3".to_owned(), None, 4));
    let ping = assignment(&plan, "mpquic", 1);
    assert!(matches!(client(&ping).parameters, PatternParameters::Ping(_)));
    let setting = ping.setting();
    assert_eq!((setting.pattern.as_str(), &setting.asked["count"]), ("ping", &Value::from(5)));
    assert_eq!(
        (&setting.asked["scheduler"], &setting.asked["congestion"]),
        (&"weighted".into(), &"bbr3".into())
    );
    assert!(!setting.asked.contains_key("heartbeat_ms"), "{:?}", setting.asked);
}
