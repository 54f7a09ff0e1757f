//! A collector as a process, and submissions for it.

pub(crate) use super::random;
pub(crate) use super::results::{NOW_MS, name};
use pathbench_api::Uuid;
use pathbench_api::consent::Consent;
use pathbench_api::digest::Digest;
use pathbench_api::name::Name;
use pathbench_api::submission::{SCHEMA, Submission, new_id};
use pathbench_api::summary::{GroupSummary, Mode, Network, NetworkKind, Summary};
use pathbench_api::token::{Audience, TokenKey};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const DELETION_TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub(crate) fn summary() -> Summary {
    let group = |label: &str, goodput: f64| GroupSummary {
        label: name(label),
        pattern: name("throughput-download"),
        variant: None,
        runs: 3,
        valid: 3,
        completed: 3,
        multipath_used: u32::from(label.starts_with("mp")) * 3,
        figures: BTreeMap::from([(name("goodput_mbps"), goodput), (name("stall_ms"), 40.0)]),
        shares: BTreeMap::from([(name("wlan"), 0.7), (name("lte"), 0.3)]),
    };
    let network = |path: &str, kind, prefix: &str| Network {
        path: name(path),
        kind,
        operator: Some(name("Example Mobile")),
        prefix: Some(name(prefix)),
    };
    Summary {
        mode: Mode::Stable,
        scenario: name("test"),
        started_ms: NOW_MS,
        version: name("0.1.0"),
        kernel: name("6.18.5"),
        machine: name("x86_64"),
        server: Some(name("nyc")),
        experiment: None,
        networks: vec![
            network("wlan", NetworkKind::Wifi, "192.0.2.0/24"),
            network("lte", NetworkKind::Cellular, "198.51.100.0/24"),
        ],
        groups: vec![group("tcp", 20.0), group("mptcp", 31.0), group("quic", 19.0), group("mpquic", 30.0)],
        reachability: Vec::new(),
        handovers: Vec::new(),
        delay_pairs: Vec::new(),
        family_pairs: Vec::new(),
    }
}

pub(crate) fn submission() -> Submission {
    Submission {
        schema: SCHEMA.to_owned(),
        id: new_id(NOW_MS, &random()),
        agent: Uuid::from_u128(7),
        consent: Consent::Public,
        deletion_sha256: Digest::compute(DELETION_TOKEN.as_bytes()),
        summary: summary(),
        raw: None,
    }
}

pub(crate) fn submission_with_raw_part() -> Submission {
    let mut one = submission();
    one.raw = Some(data_encoding::BASE64.encode(&zstd::encode_all(&b"a result"[..], 3).unwrap()));
    one
}

pub(crate) fn line(submission: &Submission) -> String {
    serde_json::to_string(submission).unwrap()
}

pub(crate) fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_pathbench-collector").into()
}

/// The program `pathbench` of the same build.
pub(crate) fn client_program() -> PathBuf {
    let program = program().with_file_name("pathbench");
    assert!(program.exists(), "this test needs {}: cargo build -p pathbench", program.display());
    program
}

/// Runs `pathbench` to its end, with its files in `home`.
pub(crate) fn pathbench(home: &Path, arguments: &[&str]) -> Output {
    Command::new(client_program())
        .args(arguments)
        .envs(["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"].map(|name| (name, home)))
        .output()
        .unwrap()
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[impl AsRef<OsStr>]) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    pathbench_testkit::output(command.spawn().unwrap())
}

/// The token with which the server `name` reports itself, by the text of its key file.
pub(crate) fn report_token(key: &str, name: &str, now_s: u64) -> String {
    let key = TokenKey::from_text(key).unwrap();
    let name = Name::new(name).unwrap();
    key.mint(Audience::Server, &name, random(), now_s, Duration::from_secs(60)).unwrap()
}

/// Killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Collector {
    child: Child,
    pub(crate) url: String,
    pub(crate) dir: PathBuf,
    temporary: Option<TempDir>,
}

impl Collector {
    /// In a directory of its own.
    pub(crate) fn start(options: &[&str]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut collector = Self::start_in(temporary.path(), options);
        collector.temporary = Some(temporary);
        collector
    }

    pub(crate) fn start_in(dir: &Path, options: &[&str]) -> Self {
        Self::start_with(dir, options, &[])
    }

    pub(crate) fn start_with(dir: &Path, options: &[&str], environment: &[(&str, String)]) -> Self {
        let mut child = Command::new(program())
            .envs(environment.iter().cloned())
            .args(["--listen", "127.0.0.1:0", "--dir"])
            .arg(dir)
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().expect("the collector prints its address").unwrap();
        let url = first.split_whitespace().last().unwrap().trim_end_matches('/').to_owned();
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url, dir: dir.to_owned(), temporary: None }
    }

    pub(crate) fn address(&self) -> String {
        self.url.split("//").nth(1).unwrap().to_owned()
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Runs a subcommand on this collector's directory, and returns what it prints.
    pub(crate) fn command(&self, arguments: &[&str]) -> String {
        let dir = self.dir.display().to_string();
        let output = run(&[arguments, &["--dir", &dir]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Ends it with SIGTERM and returns its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        self.child.wait().unwrap().code()
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        Request::to(method, format!("{}{path}", self.url))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path).send()
    }

    pub(crate) fn submit(&self, lines: &[String]) -> Answer {
        self.request("POST", "/v1/results").body(lines.join("\n")).send()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Request {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The code of each line of a batch.
    pub(crate) fn codes(&self) -> Vec<u64> {
        self.json()["results"].as_array().unwrap().iter().map(|line| line["code"].as_u64().unwrap()).collect()
    }
}

impl Request {
    pub(crate) fn to(method: &str, url: String) -> Self {
        Self { method: method.to_owned(), url, headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn bearer(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {}", token.trim()))
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn json(self, body: &impl serde::Serialize) -> Self {
        self.header("Content-Type", "application/json").body(serde_json::to_vec(body).unwrap())
    }

    pub(crate) fn send(self) -> Answer {
        self.try_send().unwrap()
    }

    pub(crate) fn try_send(self) -> Result<Answer, ureq::Error> {
        let config = ureq::config::Config::builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(120)))
            .build();
        let agent = ureq::Agent::new_with_config(config);
        let mut request = ureq::http::Request::builder().method(self.method.as_str()).uri(&self.url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(self.body).unwrap();
        let mut response = agent.run(request)?;
        let headers = response.headers().iter();
        let headers = headers.map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let headers = headers.collect();
        let status = response.status().as_u16();
        let mut body = Vec::new();
        response.body_mut().as_reader().read_to_end(&mut body).map_err(ureq::Error::Io)?;
        Ok(Answer { status, headers, body })
    }
}
