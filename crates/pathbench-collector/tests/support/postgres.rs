//! A `PostgreSQL` server for one test.

use super::within;
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) struct Server {
    work: TempDir,
    process: Option<Child>,
    /// Port of 127.0.0.1 for TLS.
    port: Option<u16>,
}

/// A program of `PostgreSQL`, of the same version as the server.
fn program(name: &str) -> PathBuf {
    // Not the directory of a link to the server.
    pathbench_testkit::program("postgres").canonicalize().unwrap().with_file_name(name)
}

/// The command of a program that the kernel ends with `signal` when this thread ends.
fn command(name: &str, signal: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", signal]).arg(program(name)).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

impl Server {
    /// A server that leaves its files to the page cache, which outlives it.
    pub(crate) fn start() -> Self {
        let work = TempDir::with_prefix("pathbench-postgres").unwrap();
        let data = work.path().join("data");
        let made = command("initdb", "QUIT")
            .args(["--no-sync", "-A", "trust", "-U", "t", "-E", "UTF8", "--no-locale", "-D"])
            .arg(&data)
            .current_dir(work.path())
            .status();
        assert!(made.unwrap().success(), "initdb failed");
        let mut server = Self { work, process: None, port: None };
        server.run();
        server
    }

    /// A server that accepts TLS on 127.0.0.1 as well.
    pub(crate) fn encrypted(certificate: &str, key: &str) -> Self {
        let mut server = Self::start();
        server.stop();
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let path = server.work.path().join("data").join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        server.port = Some(TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());
        server.run();
        server
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.unwrap()
    }

    /// Starts the server process, and waits until it answers.
    pub(crate) fn run(&mut self) {
        let directory = self.directory();
        let log =
            std::fs::File::options().create(true).append(true).open(self.work.path().join("log")).unwrap();
        let mut command = command("postgres", "QUIT");
        match self.port {
            Some(port) => command
                .args(["-c", "listen_addresses=127.0.0.1", "-c", "ssl=on", "-c"])
                .arg(format!("port={port}")),
            None => command.args(["-c", "listen_addresses="]),
        };
        let process = command
            .arg("-D")
            .arg(self.work.path().join("data"))
            .args(["-c", "max_connections=60"])
            .args(["-c", "fsync=off"])
            .arg("-c")
            .arg(format!("unix_socket_directories={directory}"))
            .stderr(log)
            .current_dir(self.work.path())
            .spawn();
        self.process = Some(process.unwrap());
        let port = self.port.unwrap_or(5_432).to_string();
        let answers = || {
            let mut ready = Command::new(program("pg_isready"));
            let ready = ready.env("PGPORT", &port).args(["-q", "-h", &directory]).status();
            ready.unwrap().success().then_some(())
        };
        let log = || std::fs::read_to_string(self.work.path().join("log")).unwrap_or_default();
        assert!(within(Duration::from_secs(60), answers).is_some(), "the server does not start: {}", log());
    }

    pub(crate) fn directory(&self) -> String {
        self.work.path().to_str().unwrap().to_owned()
    }

    /// An empty database.
    pub(crate) fn database(&self, name: &str) -> String {
        let mut command = Command::new(program("createdb"));
        let port = self.port.unwrap_or(5_432).to_string();
        let made = command.env("PGPORT", port).args(["-h", &self.directory(), "-U", "t", name]).status();
        assert!(made.unwrap().success(), "createdb failed");
        format!("postgres:///{name}?host={}&user=t", self.directory())
    }

    /// Runs SQL, and returns the rows as text.
    pub(crate) fn sql(&self, database: &str, script: &str) -> String {
        let mut command = Command::new(program("psql"));
        command.args(["-h", &self.directory(), "-U", "t", "-d", database, "-qAtX", "-v", "ON_ERROR_STOP=1"]);
        command.env("PGPORT", self.port.unwrap_or(5_432).to_string());
        let output = command.args(["-c", script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Runs a file of SQL.
    pub(crate) fn script(&self, database: &str, script: &str) {
        let path = self.work.path().join("script.sql");
        std::fs::write(&path, script).unwrap();
        let mut command = Command::new(program("psql"));
        command.args([
            "-h",
            &self.directory(),
            "-U",
            "t",
            "-d",
            database,
            "-qX",
            "-v",
            "ON_ERROR_STOP=1",
            "-f",
        ]);
        let output = command.arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Another client, which is killed at the latest with this one.
    pub(crate) fn session(&self, database: &str, script: &str) -> Child {
        let mut command = command("psql", "KILL");
        command.args(["-h", &self.directory(), "-U", "t", "-d", database, "-qAtX", "-c", script]);
        command.spawn().unwrap()
    }

    pub(crate) fn dump(&self, database: &str) -> String {
        let mut command = Command::new(program("pg_dump"));
        let arguments = ["-h", &self.directory(), "-U", "t", "-d", database, "--no-owner", "--inserts"];
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            kill_process(Pid::from_child(process), signal).unwrap();
        }
    }

    /// Ends the server without a shutdown of its sessions.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::QUIT);
        let Some(mut process) = self.process.take() else { return };
        let ended = within(Duration::from_secs(20), || process.try_wait().unwrap());
        if ended.is_none() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A stopped process receives the signal when it continues.
        self.signal(Signal::CONT);
        self.stop();
    }
}
