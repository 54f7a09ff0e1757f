//! `lab up`, `lab exec`, `lab down` in a directory of their own, and the socket of a lab.

use super::{Finished, TWO_PATHS, Workplace};
use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A directory with the scenario `two`, and a lab name that no other test or user has.
pub(crate) struct Site {
    pub(crate) work: Workplace,
    pub(crate) name: String,
}

impl Site {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let work = Workplace::new();
        work.scenario("two", TWO_PATHS);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { work, name: format!("test-{}-{number}", std::process::id()) }
    }

    /// A site whose lab is up.
    pub(crate) fn standing() -> Self {
        let site = Self::new();
        site.up(&site.name).expect(0);
        site
    }

    pub(crate) fn up(&self, name: &str) -> Finished {
        self.work.run(&["lab", "up", "two.toml", "--name", name])
    }

    pub(crate) fn down(&self, name: &str) -> Finished {
        self.work.run(&["lab", "down", name])
    }

    pub(crate) fn exec(&self, host: &str, command: &[&str]) -> Finished {
        self.work.run(&[&["lab", "exec", "--lab", &self.name, host, "--"], command].concat())
    }

    pub(crate) fn is_listed(&self, name: &str) -> bool {
        let list = self.work.run(&["lab", "list"]).expect(0).stdout;
        list.lines().any(|line| line.split_whitespace().next() == Some(name))
    }
}

/// Connects to a lab's socket.
pub(crate) fn connect(lab: &str) -> UnixStream {
    UnixStream::connect_addr(&address(lab)).unwrap()
}

/// The socket address of a lab of this user.
pub(crate) fn address(lab: &str) -> SocketAddr {
    let name = format!("pathbench-lab/{}/{lab}", rustix::process::geteuid().as_raw());
    SocketAddr::from_abstract_name(name).unwrap()
}

/// A request that a lab answers with the names of its hosts.
pub(crate) const UNKNOWN_HOST: &str = "{\"Enter\":{\"host\":\"nowhere\"}}";

pub(crate) fn question(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

/// The answer of a lab at `address` to a request.
pub(crate) fn ask(address: &SocketAddr, question: &[u8]) -> io::Result<String> {
    let mut lab = UnixStream::connect_addr(address)?;
    lab.set_read_timeout(Some(Duration::from_secs(30)))?;
    // The lab may close the connection before it has read the request.
    let _closed = lab.write_all(question);
    let mut prefix = [0; 4];
    lab.read_exact(&mut prefix)?;
    let mut body = vec![0; u32::from_be_bytes(prefix) as usize];
    lab.read_exact(&mut body)?;
    Ok(String::from_utf8(body).unwrap())
}
