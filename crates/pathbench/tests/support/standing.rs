//! A running lab, and a server in it.

use super::{TWO_PATHS, Workplace, binary, captured, ended};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

/// The server's address on the first link.
pub(crate) const SERVER: &str = "10.83.0.2";
/// A running lab with two hosts and two links.
pub(crate) struct Lab {
    pub(crate) work: Workplace,
    pub(crate) name: String,
}

impl Lab {
    pub(crate) fn standing(options: &[&str]) -> Self {
        Self::of(TWO_PATHS, options)
    }

    pub(crate) fn of(scenario: &str, options: &[&str]) -> Self {
        let work = Workplace::new();
        work.scenario("two", scenario);
        Self::up(work, "two.toml", options)
    }

    /// A shipped scenario's lab.
    pub(crate) fn of_shipped(scenario: &str, options: &[&str]) -> Self {
        Self::up(Workplace::new(), scenario, options)
    }

    fn up(work: Workplace, scenario: &str, options: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("standing-{}-{number}", std::process::id());
        work.run(&[&["lab", "up", scenario, "--name", &name], options].concat()).expect(0);
        Self { work, name }
    }

    /// A command that runs in a host of the lab.
    pub(crate) fn exec(&self, host: &str, command: &[&str]) -> Command {
        self.work.pathbench(&[&["lab", "exec", "--lab", &self.name, host, "--"], command].concat())
    }

    /// `pathbench serve` in the host `server`; it is listening when this returns.
    pub(crate) fn serve(&self, options: &[&str]) -> Server {
        let program = binary();
        let serve = [&[program.to_str().unwrap(), "serve"], options].concat();
        Server::started(&mut self.exec("server", &serve))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.work.run(&["lab", "down", &self.name]);
    }
}

/// A running server; it ends with the test.
pub(crate) struct Server {
    process: Child,
    pub(crate) fingerprint: String,
    /// The server's first listening address.
    pub(crate) address: String,
}

impl Server {
    /// Waits for the line with the certificate's fingerprint, which the server prints when it is listening.
    pub(crate) fn started(command: &mut Command) -> Self {
        let mut process = captured(command);
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let word = |line: String| {
            let words = line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            words.into_iter().find(|word| word.len() == 64 && word.chars().all(|c| c.is_ascii_hexdigit()))
        };
        let mut address = None;
        let fingerprint = lines
            .map_while(Result::ok)
            .inspect(|line| {
                let listening = line.strip_prefix("listening on ").and_then(|rest| rest.split(' ').next());
                address = address.take().or(listening.map(str::to_owned));
            })
            .find_map(word);
        let (Some(fingerprint), Some(address)) = (fingerprint, address) else {
            let finished = ended(process);
            panic!("it did not start: {finished:#?}");
        };
        Self { process, fingerprint, address }
    }

    /// A server on a free port of the loopback address.
    pub(crate) fn on_loopback(work: &Workplace) -> Self {
        Self::started(&mut work.pathbench(&["serve", "--open", "--port", "0", "--listen", "127.0.0.1"]))
    }

    pub(crate) fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _dead = self.process.kill();
        let _reaped = self.process.wait();
    }
}
