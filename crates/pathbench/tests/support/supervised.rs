//! `pathbench run` in the hosts of a lab: a supervised server, a client, and what their documents must have.

use super::processes::{Process, signal};
use super::standing::Lab;
use super::{Finished, Workplace, binary, finish, within};
use pathbench_testkit::program;
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);
pub(crate) const FILE_BYTES: u64 = 4_000_000;
/// A delay of the second path. Linux 6.18 loses bytes that arrive on a subflow whose join the receiver has not
/// completed (docs/run.md); with the delay the join completes before the first bytes arrive.
pub(crate) const DELAYED_JOIN: [&str; 2] = ["--set", "path.wlan.delay=10ms"];

/// The document of `--json`.
pub(crate) fn document(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:#?}"))
}

/// The document of a result directory.
pub(crate) fn result(directory: &Path) -> Value {
    let text = std::fs::read_to_string(directory.join("run.json"));
    serde_json::from_str(
        &text.unwrap_or_else(|error| panic!("no result in {}: {error}", directory.display())),
    )
    .unwrap()
}

/// Checks that the largest connection used multipath, with bytes on both paths of the lab.
#[track_caller]
pub(crate) fn used_both_paths(document: &Value) {
    let bytes = |one: &Value| one["bytes_sent"].as_u64().unwrap() + one["bytes_received"].as_u64().unwrap();
    let connections = document["connections"].as_array().unwrap();
    let largest = connections.iter().max_by_key(|one| bytes(one)).unwrap_or_else(|| panic!("{document:#}"));
    assert_eq!(largest["multipath"]["used"], true, "{largest:#}");
    let addresses = |of: &str| -> Vec<String> {
        let mut found: Vec<String> = largest["paths"]
            .as_array()
            .unwrap()
            .iter()
            .map(|path| path[of].as_str().unwrap().to_owned())
            .collect();
        found.sort();
        found.dedup();
        found
    };
    // The client's address decides the path, and the server may answer both subflows from one address.
    let client = if largest["role"] == "connected" { "local" } else { "remote" };
    assert_eq!(addresses(client), ["10.83.0.1", "10.83.1.1"], "{largest:#}");
    for path in largest["paths"].as_array().unwrap() {
        // On a busy machine the last snapshot precedes most of the bytes.
        assert!(bytes(path) >= FILE_BYTES / 100, "{largest:#}");
    }
}

/// `pathbench run` as a process among those of a test, by a word of its command.
pub(crate) fn supervisor(work: &Workplace, named: &str) -> Process {
    let is_it = |process: &Process| {
        let words = process.arguments();
        words.get(1).is_some_and(|command| command == "run") && words.iter().any(|one| one.contains(named))
    };
    let found = || work.processes().into_iter().find(is_it);
    assert!(within(SOON, || found().is_some()), "{named} is not supervised: {:#?}", work.processes());
    found().unwrap()
}

/// A server in the lab, supervised by `pathbench run`, with a result directory.
pub(crate) struct Supervised<'a> {
    lab: &'a Lab,
    process: Child,
    word: &'static str,
    out: PathBuf,
}

impl<'a> Supervised<'a> {
    /// Started, and connectable at `port`.
    pub(crate) fn serve(lab: &'a Lab, word: &'static str, command: &[String], port: u16) -> Self {
        let out = lab.work.path().join(format!("out-{word}"));
        let program = binary();
        let mut words = vec![program.to_str().unwrap(), "run", "--out", out.to_str().unwrap(), "--"];
        words.extend(command.iter().map(String::as_str));
        let output = std::fs::File::create(Self::output(lab, word)).unwrap();
        let mut command = lab.exec("server", &words);
        let process = command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        let server = Self { lab, process, word, out };
        // By /proc/net/tcp of the host: a connection would be reported.
        let wanted = format!(":{port:04X} ");
        let is_listening = || {
            let table = finish(&mut lab.exec("server", &["cat", "/proc/net/tcp", "/proc/net/tcp6"])).stdout;
            table.lines().any(|line| line.contains(&wanted) && line.contains(" 0A "))
        };
        assert!(within(SOON, is_listening), "{word} does not listen");
        server
    }

    /// The file with what the program and its supervisor print.
    fn output(lab: &Lab, word: &str) -> PathBuf {
        lab.work.path().join(format!("{word}.output"))
    }

    /// Asks the program to end by a signal for its supervisor, and returns the document.
    pub(crate) fn end(self, by: Signal) -> Value {
        signal(supervisor(&self.lab.work, self.word).id, by);
        self.wait()
    }

    /// Waits for the program's own end, and returns the document.
    pub(crate) fn wait(mut self) -> Value {
        self.process.wait().unwrap();
        result(&self.out)
    }
}

impl Drop for Supervised<'_> {
    #[allow(clippy::print_stderr, reason = "a failed test shows the output of its server")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = std::fs::read_to_string(Self::output(self.lab, self.word));
            eprintln!("{} in the host server printed: {output:#?}", self.word);
        }
    }
}

pub(crate) fn in_client(lab: &Lab, command: &[String]) -> Finished {
    let program = binary();
    let mut words = vec![program.to_str().unwrap(), "run", "--json", "--watch", "--"];
    words.extend(command.iter().map(String::as_str));
    finish(&mut lab.exec("client", &words))
}

pub(crate) fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}

/// nginx without a master process, which would change its user; every user is root in a lab.
pub(crate) fn nginx(lab: &Lab) -> Vec<String> {
    let place = lab.work.path();
    std::fs::write(place.join("file"), vec![7; FILE_BYTES as usize]).unwrap();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {}/{name};", place.display()))
        .join(" ");
    let configuration = format!(
        "daemon off; master_process off; user root root; pid {0}/nginx.pid; error_log {0}/nginx.log;\n\
         events {{ worker_connections 64; }}\n\
         http {{ access_log off; {temporary} server {{ listen 8080; root {0}; }} }}\n",
        place.display()
    );
    let file = place.join("nginx.conf");
    std::fs::write(&file, configuration).unwrap();
    let program = program("nginx");
    words(&[program.to_str().unwrap(), "-e", "stderr", "-c", file.to_str().unwrap()])
}
