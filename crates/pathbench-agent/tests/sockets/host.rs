//! A host with an agent: its networks, its clock and the program that measures are the test's.

use crate::clock::LockstepClock;
use crate::collector::{FakeCollector, Manner};
use crate::within;
use clap::Parser;
use ipnet::IpNet;
use pathbench_agent::host::AgentHost;
use pathbench_agent::networks::HostNetworks;
use pathbench_agent::service::{AgentArgs, run};
use pathbench_api::summary::NetworkKind;
use pathbench_program::exit::{Exit, Failure};
use pathbench_record::document::{Reachability, ResultDocument};
use pathbench_record::network::AddressFamily;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// Real time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// 2023-11-30T20:00:00Z, before the present: the files on the disk have the host's own times.
const EPOCH: u64 = 1_701_374_400;
/// Bytes on eth0 of each execution.
pub(crate) const EXECUTION_BYTES: u64 = 300_000;

/// Writes a result; with the file `hold` beside it only when the file is gone, with `fail` none.
const PROGRAM: &str = r#"#!/bin/sh
here=${0%/*}
for word; do [ "$last" = --out ] && out=$word; last=$word; done
finish() { mkdir "$out"; sed "s/\"seed\":0/\"seed\":$$/" "$here/template.json" > "$out/run.json"; }
trap 'finish; exit 5' TERM
echo "$*" >> "$here/calls"
echo '{"type":"start","name":"test","runs":1,"seed":1,"started":"","interval_ms":1000}'
while [ -e "$here/hold" ]; do sleep 0.02; done
[ -e "$here/fail" ] && { echo 'no route to host' >&2; exit 3; }
finish
"#;

#[derive(Debug)]
pub(crate) struct FakeNetworks {
    calls: PathBuf,
    pub(crate) metered: Mutex<Vec<String>>,
}

impl HostNetworks for FakeNetworks {
    fn kinds(&self) -> BTreeMap<String, NetworkKind> {
        BTreeMap::from([("eth0".to_owned(), NetworkKind::Ethernet)])
    }

    fn metered(&self) -> Vec<String> {
        self.metered.lock().unwrap().clone()
    }

    fn is_roaming(&self) -> bool {
        false
    }

    fn own_networks(&self) -> Result<Vec<IpNet>, String> {
        Ok(Vec::new())
    }

    fn interfaces_to(&self, _server: IpAddr) -> Result<Vec<String>, String> {
        Ok(vec!["eth0".to_owned()])
    }

    fn interfaces_used(&self, _addresses: &[IpAddr]) -> Vec<String> {
        vec!["eth0".to_owned()]
    }

    fn has_mptcp_endpoint(&self, _interfaces: &[String]) -> bool {
        false
    }

    fn byte_counters(&self, interfaces: &[String]) -> Option<BTreeMap<String, u64>> {
        let calls = fs::read_to_string(&self.calls).unwrap_or_default().lines().count() as u64;
        Some(interfaces.iter().map(|name| (name.clone(), calls * EXECUTION_BYTES)).collect())
    }
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    agent: AgentArgs,
}

/// An entry of the agent's log and its virtual time.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) time: Timestamp,
    pub(crate) fields: Value,
}

pub(crate) struct Host {
    directory: TempDir,
    pub(crate) clock: LockstepClock,
    pub(crate) networks: Arc<FakeNetworks>,
    pub(crate) collector: FakeCollector,
    log: Arc<Mutex<Vec<Entry>>>,
}

impl Host {
    /// With consent, and these limits beside those of all tests. The collector offers the server that an experiment needs.
    pub(crate) fn new(limits: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let config = format!(
            "consent = \"private\"\nagent = \"2b0b8c9e-8a3d-4a58-9c4e-0d1d7a3a0b11\"\nname = \"tester\"\n\
             deletion_token = \"{}\"\n[limits]\nservers = [\"192.0.2.0/24\"]\nlongest = \"10h\"\n\
             executions_per_day = 10000\n{limits}",
            "ab".repeat(32)
        );
        fs::write(path.join("collector.toml"), config).unwrap();
        let mut document = ResultDocument::default();
        "2023-11-30T20:00:00Z".clone_into(&mut document.host.started);
        document.reachability.push(Reachability {
            server: "192.0.2.7".to_owned(),
            transport: Transport::Tcp,
            family: AddressFamily::Ipv4,
            port: 4433,
            reachable: true,
            rtt_ms: None,
            error: None,
            error_kind: None,
        });
        let template = serde_json::to_string(&document).unwrap();
        assert!(template.contains("\"seed\":0"), "{template}");
        fs::write(path.join("template.json"), template).unwrap();
        fs::write(path.join("program"), PROGRAM).unwrap();
        fs::set_permissions(path.join("program"), fs::Permissions::from_mode(0o755)).unwrap();
        let networks = FakeNetworks { calls: path.join("calls"), metered: Mutex::default() };
        Self {
            clock: LockstepClock::from_unix(EPOCH),
            networks: Arc::new(networks),
            collector: FakeCollector::start(Manner::Honest),
            log: Arc::default(),
            directory,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn offer(&self, experiments: &[Value]) {
        let server = json!([{ "name": "near", "address": "192.0.2.7:4433", "quic_ports": [], "load": 0.0 }]);
        self.collector.offer(&server, &json!(experiments));
    }

    fn run(&self, options: &[&str], stop: Arc<AtomicBool>) -> JoinHandle<Result<Exit, Failure>> {
        let config = self.path().join("collector.toml").display().to_string();
        let arguments = [&["agent", &self.collector.url, "--config", &config], options].concat();
        let arguments = Command::try_parse_from(arguments).unwrap().agent;
        let (clock, log) = (self.clock.clone(), Arc::clone(&self.log));
        let host = AgentHost {
            clock: Arc::new(clock.clone()),
            networks: Arc::clone(&self.networks) as _,
            program: self.path().join("program"),
            state_directory: self.path().join("state"),
            log: Box::new(move |line| {
                let fields: Value = serde_json::from_str(line).unwrap();
                // The program takes real time.
                match fields["event"].as_str().unwrap() {
                    "begins" => clock.set_pause(Duration::from_millis(2)),
                    "ended" => clock.set_pause(Duration::ZERO),
                    _ => {}
                }
                log.lock().unwrap().push(Entry { time: Timestamp::default() + clock.elapsed(), fields });
            }),
            stop,
            reload: Arc::default(),
        };
        std::thread::spawn(move || run(&arguments, host))
    }

    pub(crate) fn start(&self) -> Agent<'_> {
        self.start_with(&[])
    }

    pub(crate) fn start_with(&self, options: &[&str]) -> Agent<'_> {
        let stop = Arc::new(AtomicBool::new(false));
        Agent { host: self, thread: Some(self.run(options, Arc::clone(&stop))), stop }
    }

    /// Runs `--once`; returns the exit code and the message of a failure.
    pub(crate) fn once(&self) -> (u8, String) {
        match self.run(&["--once"], Arc::default()).join().unwrap() {
            Ok(exit) => (exit.code(), String::new()),
            Err(failure) => (failure.exit.code(), failure.message),
        }
    }

    /// Replaces a part of the configuration.
    pub(crate) fn configure(&self, from: &str, to: &str) {
        let file = self.path().join("collector.toml");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        // In one step: the agent never reads half of it.
        let new = self.path().join("collector.new");
        fs::write(&new, text.replacen(from, to, 1)).unwrap();
        fs::rename(new, file).unwrap();
    }

    /// Executions do not end while it exists.
    pub(crate) fn hold(&self) {
        fs::write(self.path().join("hold"), "").unwrap();
    }

    pub(crate) fn release(&self) {
        fs::remove_file(self.path().join("hold")).unwrap();
    }

    pub(crate) fn entries(&self, event: &str) -> Vec<Entry> {
        self.log.lock().unwrap().iter().filter(|entry| entry.fields["event"] == event).cloned().collect()
    }

    /// The texts in a field of the log's entries for an event.
    pub(crate) fn texts(&self, event: &str, field: &str) -> Vec<String> {
        let text = |entry: &Entry| entry.fields[field].as_str().map(str::to_owned);
        self.entries(event).iter().filter_map(text).collect()
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, event: &str, count: usize) {
        let is_logged = || self.entries(event).len() >= count;
        assert!(within(PATIENCE, is_logged), "{event}: {:#?}", self.log.lock().unwrap());
    }

    pub(crate) fn requests(&self, path: &str) -> usize {
        self.collector.requests(path).len()
    }

    pub(crate) fn budget(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path().join("state/budget.json")).unwrap()).unwrap()
    }
}

/// A running agent; it ends with the test.
pub(crate) struct Agent<'a> {
    host: &'a Host,
    thread: Option<JoinHandle<Result<Exit, Failure>>>,
    stop: Arc<AtomicBool>,
}

impl Agent<'_> {
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let thread = self.thread.take().unwrap();
        assert!(within(PATIENCE, || thread.is_finished()), "it does not end");
        assert_eq!(thread.join().unwrap().unwrap(), Exit::Done);
        assert_eq!(self.host.entries("stopped").len(), 1);
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// One every `every_s`, of at most 1 MB.
pub(crate) fn experiment(name: &str, every_s: u32) -> Value {
    json!({ "name": name, "kind": "test", "schedule": { "every_s": every_s }, "transports": ["tcp"],
            "patterns": ["ping"], "most_bytes": 1_000_000 })
}

/// The times between successive entries, in seconds.
pub(crate) fn intervals(entries: &[Entry]) -> Vec<f64> {
    entries.windows(2).map(|pair| pair[1].time.duration_since(pair[0].time).as_secs_f64()).collect()
}
