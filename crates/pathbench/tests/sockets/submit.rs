//! Submissions to a collector: consent, the anonymous form, the outbox, and hostile collectors.

use crate::support;
use crate::support::collector::{FakeCollector, Manner};
use crate::support::standing::Server;
use crate::support::{Dice, Finished, QUICK, Workplace, finish, processes};
use data_encoding::BASE64;
use pathbench_api::consent::Consent;
use pathbench_api::problem::LineStatus;
use pathbench_api::submission::Submission;
use pathbench_api::summary::{Mode, NetworkKind};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use ruzstd::decoding::StreamingDecoder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A host with its own configuration and state.
struct Host(Workplace);

impl Host {
    fn new() -> Self {
        Self(Workplace::new())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.0.pathbench(arguments);
        command
            .env("XDG_CONFIG_HOME", self.0.path().join("config"))
            .env("XDG_STATE_HOME", self.0.path().join("state"))
            .env_remove("PATHBENCH_COLLECTOR")
            .env_remove("PATHBENCH_COLLECTOR_TOKEN");
        command
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        finish(&mut self.command(arguments))
    }

    fn submit(&self, collector: &FakeCollector, options: &[&str]) -> Finished {
        self.run(&[&["submit", "--collector", &collector.url], options].concat())
    }

    /// A result of the lab in this directory.
    fn result(&self, out: &str) -> PathBuf {
        let file = self.0.scenario("quick", QUICK);
        self.run(&["lab", "run", "--no-calibration", "--quiet", "--out", out, &file]).expect(0);
        self.0.path().join(out)
    }

    fn outbox(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.path().join("state/pathbench/outbox"));
        let files = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|ending| ending == "submission")).collect()
    }

    fn rejected(&self) -> usize {
        fs::read_dir(self.0.path().join("state/pathbench/outbox/rejected")).unwrap().count() / 2
    }
}

/// The files in the raw part.
fn raw(submission: &Submission) -> BTreeMap<String, String> {
    let raw = BASE64.decode(submission.raw.as_ref().unwrap().as_bytes()).unwrap();
    let mut files = BTreeMap::new();
    let mut archive = tar::Archive::new(StreamingDecoder::new(raw.as_slice()).unwrap());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(name, text);
    }
    files
}

#[test]
fn nothing_leaves_the_host_without_consent() {
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Honest);
    host.result("one");
    host.submit(&collector, &["one"]).expect(2).reports(&["consent", "--consent"]);
    host.submit(&collector, &["one", "--consent", "none"]).expect(2).reports(&["stay on this host"]);
    host.submit(&collector, &["one"]).expect(2).reports(&["consent is `none`"]);
    let file = host.0.scenario("quick", QUICK);
    let run =
        ["lab", "run", "--no-calibration", "--quiet", &file, "--submit", &collector.url, "--out", "two"];
    host.run(&run).expect(2);
    assert!(!host.0.path().join("two").exists(), "the question comes before the measurement");
    assert!(collector.requests("").is_empty() && host.outbox().is_empty());
    let text = fs::read_to_string(host.0.path().join("config/pathbench/collector.toml")).unwrap();
    assert!(text.contains("consent = \"none\"") && text.contains(Consent::Public.words()), "{text}");
}

#[test]
fn a_result_of_the_lab_is_submitted_when_it_is_written() {
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Honest);
    let file = host.0.scenario("quick", QUICK);
    let run = ["lab", "run", "--no-calibration", &file, "--submit", &collector.url, "--out", "one"];
    let options = ["--consent", "private", "--collector-token", "secret"];
    let finished = host.run(&[&run[..], &options].concat()).expect(0).reports(&["submitted to", "(private)"]);
    assert!(finished.stdout.contains("quick"), "the summary is printed as ever: {finished:#?}");
    let stored = collector.stored();
    assert_eq!(stored.len(), 1);
    let one = &stored[0];
    assert_eq!((one.consent, one.summary.mode), (Consent::Private, Mode::Lab));
    assert!(one.summary.networks.iter().all(|network| network.kind == NetworkKind::Emulated));
    let files = raw(one);
    let document: Value = serde_json::from_str(&files["run.json"]).unwrap();
    assert_eq!(document["scenario"]["name"], "quick");
    assert!(files.contains_key("samples.jsonl") && !files.contains_key("report.html"), "{:?}", files.keys());
    assert_eq!(collector.requests("/v1/results")[0].token.as_deref(), Some("secret"));
    assert!(host.outbox().is_empty());
    assert!(!files["run.json"].contains("secret"), "the token is not in the result");
    // The same result again is the same submission.
    host.submit(&collector, &["one"]).expect(0);
    assert_eq!(collector.stored().len(), 1);
    let deleted = host.submit(&collector, &["--delete"]).expect(0).stdout;
    assert!(deleted == "deleted: 1\n" && collector.stored().is_empty(), "{deleted}");
}

#[test]
fn a_failed_submission_leaves_the_exit_code_of_the_measurement_and_the_result_in_the_outbox() {
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Closing);
    let file = host.0.scenario("quick", QUICK);
    let run = ["lab", "run", "--no-calibration", &file, "--submit", &collector.url, "--consent", "public"];
    host.run(&[&run[..], &["--out", "one"]].concat()).expect(0).reports(&["not submitted yet", "outbox"]);
    let kept = host.outbox();
    assert_eq!(kept.len(), 1);
    let first = fs::read(&kept[0]).unwrap();
    let listed = host.run(&["submit", "--list"]).expect(0).stdout;
    assert!(listed.contains("waits") && listed.contains(&collector.url), "{listed}");
    // Again: the same file, and the same bytes.
    host.submit(&collector, &["one"]).expect(3);
    assert_eq!(fs::read(&host.outbox()[0]).unwrap(), first);
    collector.set(Manner::Honest);
    host.submit(&collector, &[]).expect(0);
    assert!(host.outbox().is_empty());
    let lines = collector.lines();
    assert!(lines.len() == 1 && first.windows(lines[0].len()).any(|part| part == lines[0]));
    let listed = host.run(&["submit", "--list"]).expect(0).stdout;
    assert!(listed.contains("empty"), "{listed}");
}

#[test]
fn a_public_result_holds_no_address_and_no_name() {
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Honest);
    let server = Server::on_loopback(&host.0);
    let place = format!("127.0.0.1:{}", server.port());
    let test = ["test", &place, "--fingerprint", &server.fingerprint, "--patterns", "ping", "--repeat", "1"];
    let options =
        ["--transports", "tcp", "--quiet", "--submit", &collector.url, "--consent", "public", "--out", "one"];
    host.run(&[&test[..], &options].concat()).expect(0);
    // A copy beyond the tests' check of results against the schemas.
    let elsewhere = tempfile::tempdir().unwrap();
    let result = elsewhere.path();
    for entry in fs::read_dir(host.0.path().join("one")).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_file() {
            fs::copy(&entry, result.join(entry.file_name().unwrap())).unwrap();
        }
    }
    fs::write(result.join("capture.pcapng"), b"secret packets").unwrap();
    // Personal data that a later version, or an event, could hold.
    let events = result.join("events.jsonl");
    let event = r#"{"run":"x","t_ms":1.0,"ssid":"Anna's home","detail":"joined Anna's home at 192.0.2.77, fe80::1:2"}"#;
    fs::write(&events, format!("{}{event}\n", fs::read_to_string(&events).unwrap())).unwrap();
    let private = fs::read_to_string(result.join("run.json")).unwrap();
    assert!(private.contains("127.0.0.1"), "the result itself is as it was: {private}");
    let other = Host::new();
    let path = result.display().to_string();
    other.submit(&collector, &[&path, "--consent", "public"]).expect(0);
    assert_eq!(collector.stored().len(), 2);
    for submission in collector.stored() {
        assert_eq!(submission.summary.server.as_ref().unwrap().as_str(), "other");
        let files = raw(&submission);
        assert!(files.keys().all(|name| name.contains(".json")), "{:?}", files.keys());
        let mut all = files.into_values().collect::<String>();
        all.push_str(&serde_json::to_string(&submission.summary).unwrap());
        for secret in ["127.0.0.1", "Anna", "192.0.2.77", "fe80::1:2", "secret packets"] {
            assert!(!all.contains(secret), "{secret}: {all}");
        }
        assert!(all.contains("127.0.0.0/24"), "{all}");
    }
}

#[test]
fn a_public_result_holds_no_link_layer_address_in_a_name_and_no_host_name_with_a_digit() {
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Honest);
    let result = host.result("one");
    let elsewhere = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(result.join("run.json")).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let names = ["wwx0a1b2c3d4e5f", "wwx0a1b2c3d4e60"];
    for run in document["runs"].as_array_mut().unwrap() {
        let mut path = run["paths"][0].clone();
        run["label"] = format!("tcp@{}", names[0]).into();
        run["paths"][0]["name"] = names[0].into();
        path["name"] = names[1].into();
        run["paths"].as_array_mut().unwrap().push(path);
    }
    for group in document["summary"]["groups"].as_array_mut().unwrap() {
        group["label"] = format!("tcp@{}", names[0]).into();
    }
    document["servers"] =
        serde_json::json!([{ "address": "4home.example.net:4433", "lost": 0, "chosen": true }]);
    document["notes"] = serde_json::json!(["no route to 4home.example.net from wlx0a1b2c3d4e61"]);
    fs::write(elsewhere.path().join("run.json"), document.to_string()).unwrap();
    host.submit(&collector, &[&elsewhere.path().display().to_string(), "--consent", "public"]).expect(0);
    let submission = collector.stored().remove(0);
    let mut all = raw(&submission).into_values().collect::<String>();
    all.push_str(&serde_json::to_string(&submission.summary).unwrap());
    for secret in ["0a1b2c3d4e", "4home"] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    let paths: Vec<&str> = submission.summary.networks.iter().map(|network| network.path.as_str()).collect();
    assert_eq!(paths, ["wwx(removed)2", "wwx(removed)3"], "distinct");
    assert_eq!(submission.summary.groups[0].label.as_str(), "tcp@wwx(removed)2");
}

#[test]
fn a_cut_line_costs_a_public_result_the_line_and_a_broken_one_the_files() {
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Honest);
    let result = host.result("one");
    let elsewhere = tempfile::tempdir().unwrap();
    let place = elsewhere.path();
    for name in ["run.json", "samples.jsonl"] {
        fs::copy(result.join(name), place.join(name)).unwrap();
    }
    let path = place.display().to_string();
    let lines = fs::read_to_string(place.join("samples.jsonl")).unwrap();
    // As a SIGKILL leaves it.
    fs::write(place.join("samples.jsonl"), format!("{lines}{{\"run\":\"")).unwrap();
    host.submit(&collector, &[&path, "--consent", "public"]).expect(0);
    let files = raw(&collector.stored()[0]);
    assert_eq!(files["samples.jsonl"].lines().count(), lines.lines().count());
    fs::write(place.join("samples.jsonl"), format!("{{\"run\":\"\n{lines}")).unwrap();
    let mut document: Value =
        serde_json::from_str(&fs::read_to_string(place.join("run.json")).unwrap()).unwrap();
    document["seed"] = 77.into();
    fs::write(place.join("run.json"), document.to_string()).unwrap();
    host.submit(&collector, &[&path]).expect(0).reports(&["without its raw part", "samples.jsonl"]);
    let stored = collector.stored();
    assert_eq!(stored.iter().filter(|one| one.raw.is_none()).count(), 1);
}

#[test]
fn what_a_collector_never_accepts_is_set_aside() {
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Answers(LineStatus::Invalid));
    host.result("one");
    host.submit(&collector, &["one", "--consent", "private"]).expect(4).reports(&["rejects", "422"]);
    assert!(host.outbox().is_empty());
    assert_eq!(host.rejected(), 1);
    let listed = host.run(&["submit", "--list"]).expect(0).stdout;
    assert!(listed.contains("rejected: invalid"), "{listed}");
    collector.set(Manner::Honest);
    host.submit(&collector, &["one"]).expect(0);
    assert_eq!(collector.stored().len(), 1);
}

#[test]
fn the_answer_of_a_proxy_rejects_no_result() {
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Honest);
    let result = host.result("large");
    for status in ["400 Bad Request", "413 Content Too Large", "422 Unprocessable Content"] {
        collector.set(Manner::Proxy(status, 0));
        let said = [&status[..3], "is not a Pathbench collector", "check the URL"];
        host.submit(&collector, &["large", "--consent", "private"]).expect(3).reports(&said);
        assert_eq!((host.outbox().len(), host.rejected()), (1, 0), "{status}");
    }
    // A line that is too large for the proxy stops no other.
    let small = tempfile::tempdir().unwrap();
    let mut document: Value =
        serde_json::from_str(&fs::read_to_string(result.join("run.json")).unwrap()).unwrap();
    document["seed"] = 77.into();
    fs::write(small.path().join("run.json"), document.to_string()).unwrap();
    let most = usize::try_from(fs::metadata(&host.outbox()[0]).unwrap().len()).unwrap() / 2;
    collector.set(Manner::Proxy("413 Content Too Large", most));
    host.submit(&collector, &[&small.path().display().to_string()]).expect(3).reports(&["413"]);
    assert_eq!((host.outbox().len(), host.rejected(), collector.stored().len()), (1, 0, 1));
    collector.set(Manner::Honest);
    host.submit(&collector, &[]).expect(0);
    assert_eq!(collector.stored().len(), 2);
}

#[test]
fn a_hostile_collector_costs_bounded_time_and_memory_and_no_result() {
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Honest);
    host.result("one");
    for (manner, code) in [
        (Manner::Closing, 3),
        (Manner::Garbage, 3),
        (Manner::Huge, 3),
        (Manner::HugeHeader, 3),
        (Manner::NoAnswers, 4),
        (Manner::OtherIds, 4),
        (Manner::Unauthorised, 4),
        (Manner::Redirecting, 4),
        (Manner::Busy(7_000_000), 4),
        (Manner::Busy(1), 4),
        (Manner::Answers(LineStatus::Busy), 4),
    ] {
        collector.set(manner.clone());
        let begun = now();
        let finished = host.submit(&collector, &["one", "--consent", "private"]).expect(code);
        assert!(begun.elapsed() < Duration::from_secs(20), "{manner:?} took {:?}", begun.elapsed());
        assert!(!finished.stderr.contains('\u{1b}'), "{finished:#?}");
        assert_eq!(host.outbox().len(), 1, "{manner:?}: {finished:#?}");
    }
    collector.set(Manner::Honest);
    host.submit(&collector, &[]).expect(0);
    assert!(host.outbox().is_empty() && collector.stored().len() == 1);
}

#[test]
fn a_result_waits_in_the_outbox_while_the_disk_of_the_collector_is_full() {
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Full);
    host.result("one");
    for _ in 0..2 {
        let finished = host.submit(&collector, &["one", "--consent", "private"]).expect(4);
        finished.reports(&["(507)", "no space"]);
        assert_eq!((host.outbox().len(), host.rejected()), (1, 0));
    }
    collector.set(Manner::Honest);
    host.submit(&collector, &[]).expect(0);
    assert!(host.outbox().is_empty() && collector.stored().len() == 1);
}

#[test]
fn a_silent_collector_ends_with_the_deadline() {
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Silent);
    host.result("one");
    host.submit(&collector, &["one", "--consent", "none"]).expect(2);
    let begun = now();
    host.submit(&collector, &["--delete"]).expect(3).reports(&["cannot reach the collector"]);
    let took = begun.elapsed();
    assert!((25..60).contains(&took.as_secs()), "{took:?}");
}

#[test]
fn a_full_disk_leaves_no_partial_file_and_the_result_where_it_is() {
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Honest);
    let result = host.result("one");
    host.submit(&collector, &["--consent", "private"]).expect(0);
    // No file can grow beyond 512 bytes (EFBIG, as SIGXFSZ is ignored).
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    host.0.prepare(&mut command);
    command
        .args(["-c", script])
        .arg(support::binary())
        .args(["submit", "--collector", &collector.url, "one"])
        .env("XDG_CONFIG_HOME", host.0.path().join("config"))
        .env("XDG_STATE_HOME", host.0.path().join("state"));
    finish(&mut command).expect(1).reports(&["cannot write", "the result stays in"]);
    let left = fs::read_dir(host.0.path().join("state/pathbench/outbox")).unwrap().count();
    assert_eq!(left, 1, "only `rejected` is there");
    assert!(result.join("run.json").exists() && collector.stored().is_empty());
    host.submit(&collector, &["one"]).expect(0);
    assert_eq!(collector.stored().len(), 1);
}

#[test]
fn a_collector_with_its_own_ca_is_trusted_by_the_ca_only() {
    let host = Host::new();
    host.result("one");
    let made = ["serve", "certificate", "--cert", "ca.pem", "--key", "key.pem", "127.0.0.1"];
    host.run(&made).expect(0);
    let pem = |name: &str| host.0.path().join(name);
    let chain = CertificateDer::pem_file_iter(pem("ca.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(pem("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let tls = builder.with_no_client_auth().with_single_cert(chain, key).unwrap();
    let collector = FakeCollector::start_encrypted(Manner::Honest, tls);
    host.submit(&collector, &["one", "--consent", "private"])
        .expect(3)
        .reports(&["cannot reach the collector"]);
    assert!(collector.stored().is_empty());
    host.submit(&collector, &["--collector-ca", "ca.pem"]).expect(0);
    assert_eq!(collector.stored().len(), 1);
    host.submit(&collector, &["--collector-ca", "key.pem"]).expect(2).reports(&["no certificate"]);
    host.submit(&collector, &["--collector-ca", "absent.pem"]).expect(2).reports(&["absent.pem"]);
}

#[test]
fn on_a_terminal_the_command_asks_for_consent_once() {
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Honest);
    host.result("one");
    let (master, terminal) = terminal();
    let mut command = host.command(&["submit", "--collector", &collector.url, "one"]);
    let both = terminal.try_clone().unwrap();
    let mut child =
        command.stdin(Stdio::from(terminal)).stderr(Stdio::from(both)).stdout(Stdio::null()).spawn().unwrap();
    drop(command);
    let mut master = File::from(master);
    master.write_all(b"perhaps\nprivate\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(collector.stored()[0].consent, Consent::Private);
    let mut shown = vec![0; 4096];
    let count = master.read(&mut shown).unwrap();
    let shown = String::from_utf8_lossy(&shown[..count]).into_owned();
    for level in Consent::ALL {
        assert!(shown.contains(level.name()), "{shown}");
    }
    // Not again.
    host.submit(&collector, &["one"]).expect(0);
}

/// Both ends of a terminal.
fn terminal() -> (OwnedFd, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let path = Path::new(OsStr::from_bytes(name.as_bytes()));
    let terminal = File::options().read(true).write(true).open(path).unwrap();
    (master, terminal)
}

#[test]
fn a_full_outbox_refuses_new_results_and_drops_no_old_one() {
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Closing);
    host.result("one");
    host.submit(&collector, &["one", "--consent", "private"]).expect(3);
    let config = host.0.path().join("config/pathbench/collector.toml");
    let size = fs::metadata(&host.outbox()[0]).unwrap().len();
    let limit = format!("outbox = \"{}B\" #", size + size / 2);
    fs::write(&config, fs::read_to_string(&config).unwrap().replace("# outbox", &limit)).unwrap();
    host.result("two");
    host.submit(&collector, &["two"]).expect(3).reports(&["cannot reach the collector"]);
    assert_eq!(host.outbox().len(), 1);
    collector.set(Manner::Honest);
    host.submit(&collector, &["two"]).expect(1).reports(&["full", "stays in"]);
    host.submit(&collector, &["two"]).expect(0);
    assert_eq!(collector.stored().len(), 2);
}

/// `PATHBENCH_KILLS=1000` for more.
#[test]
fn a_sigkill_loses_and_doubles_no_result() {
    let kills: u64 = std::env::var("PATHBENCH_KILLS").map_or(20, |text| text.parse().unwrap());
    let host = Host::new();
    let collector = FakeCollector::start(Manner::Honest);
    let result = host.result("one");
    let text = fs::read_to_string(result.join("run.json")).unwrap();
    let mut dice = Dice(13);
    let mut killed = 0;
    for number in 0..kills {
        // Another result each time, by its seed.
        let place = host.0.path().join(format!("result-{number}"));
        fs::create_dir(&place).unwrap();
        let mut document: Value = serde_json::from_str(&text).unwrap();
        document["seed"] = (1000 + number).into();
        fs::write(place.join("run.json"), document.to_string()).unwrap();
        let name = format!("result-{number}");
        let mut command =
            host.command(&["submit", "--collector", &collector.url, &name, "--consent", "private"]);
        let mut child = support::captured(&mut command);
        std::thread::sleep(Duration::from_micros(dice.below(15_000)));
        processes::signal(i32::try_from(child.id()).unwrap(), rustix::process::Signal::KILL);
        killed += u64::from(child.wait().unwrap().code().is_none());
        // Every file in the outbox is complete.
        for file in host.outbox() {
            assert!(fs::read(&file).unwrap().ends_with(b"}\n"), "{}", file.display());
        }
    }
    assert!(killed > kills / 4, "only {killed} of {kills} were killed in time");
    // The user repeats what was interrupted, the decision included: on a busy machine every kill precedes its file.
    let names: Vec<String> = (0..kills).map(|number| format!("result-{number}")).collect();
    let mut words: Vec<&str> = names.iter().map(String::as_str).collect();
    words.extend(["--consent", "private"]);
    host.submit(&collector, &words).expect(0);
    assert!(host.outbox().is_empty() && host.rejected() == 0);
    assert_eq!(collector.stored().len() as u64, kills, "each result once");
}

#[allow(clippy::disallowed_methods, reason = "a test is an outermost shell")]
fn now() -> Instant {
    Instant::now()
}
