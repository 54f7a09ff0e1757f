//! What of a run's plan its assembly has to know.

use crate::verdict::LocalSetup;
use pathbench_record::connection::Scheduler;
use pathbench_record::document::Variant;
use pathbench_record::pattern::PatternParameters;
use serde_json::{Map, Value};
use std::net::IpAddr;

/// A run as it was to be, whether it was made in a lab or between real hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSetting {
    /// Matrix key → value; empty without a matrix.
    pub variant: Variant,
    /// Name of the host that opened the connection.
    pub client: String,
    /// Name of the host that accepted it.
    pub server: String,
    /// The server's address as it was given, where it is not a host of the lab.
    pub server_address: Option<String>,
    /// The pattern's name in results.
    pub pattern: String,
    pub parameters: PatternParameters,
    /// The parameters as the user knows them, for `parameters.asked`.
    pub asked: Map<String, Value>,
    /// The client's ways out, the one to start on first.
    pub paths: Vec<ClientPath>,
    /// The client's interfaces that are no way to the server at the start of the run, for their names alone.
    pub other_interfaces: Vec<ClientPath>,
    /// Interfaces of other hosts and the paths they belong to: host, interface, path.
    pub far_interfaces: Vec<[String; 3]>,
    /// How the client is set up for MPTCP, where it is known ([`LocalSetup::initial`] is filled in here).
    pub mptcp: Option<LocalSetup>,
    /// Which path new data takes on mpquic.
    pub scheduler: Scheduler,
}

/// A way out of the client. Its addresses decide which path a subflow takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPath {
    pub name: String,
    pub interface: String,
    pub addresses: Vec<IpAddr>,
    /// Whether it was set up as a spare; `None` where nobody said.
    pub backup: Option<bool>,
    pub mtu_bytes: Option<u32>,
}

impl RunSetting {
    pub(super) fn named(&self) -> impl Iterator<Item = &ClientPath> {
        self.paths.iter().chain(&self.other_interfaces)
    }

    pub(super) fn path(&self, name: &str) -> Option<&ClientPath> {
        self.paths.iter().find(|path| path.name == name)
    }

    pub(super) fn path_of_interface(&self, host: &str, interface: &str) -> Option<String> {
        if host == self.client {
            let of_client = self.named().find(|path| path.interface == interface);
            return of_client.map(|path| path.name.clone());
        }
        let of_others = self.far_interfaces.iter();
        of_others
            .filter(|[of, name, _]| of == host && name == interface)
            .map(|[_, _, path]| path.clone())
            .next()
    }
}
