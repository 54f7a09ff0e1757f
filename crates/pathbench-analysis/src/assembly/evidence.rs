//! The evidence of one run: its setting, the records of both ends, and the observed events.

use crate::attribution::CarriedBytes;
use crate::limits::PathShaper;
use crate::mptcp_setup::LocalSetup;
use pathbench_record::connection::Scheduler;
use pathbench_record::direction::{DataDirection, Direction};
use pathbench_record::document::{RunLink, UnreachableBecause, Variant};
use pathbench_record::end::EndRecord;
use pathbench_record::event::{EventKind, PathEffect};
use pathbench_record::kernel_event::{LinkEvent, MptcpEvent, WifiNetwork};
use pathbench_record::network::ClientPath;
use pathbench_record::pattern::{PatternParameters, ThroughputParameters};
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::TransportLabel;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The plan of a run, in a lab or between real hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSetting {
    /// Matrix key → value; empty without a matrix.
    pub variant: Variant,
    /// Name of the host that opened the connection.
    pub client: String,
    /// Name of the host that accepted it.
    pub server: String,
    /// The server's address as given by the user; `None` for a host of the lab.
    pub server_address: Option<String>,
    /// The pattern's name in results.
    pub pattern: String,
    pub parameters: PatternParameters,
    /// The parameters as given by the user, for `parameters.asked`.
    pub asked: Map<String, Value>,
    /// The client's paths, the initial one first.
    pub paths: Vec<ClientPath>,
    /// The client's interfaces without a route to the server at the start of the run; only their names are used.
    pub other_interfaces: Vec<ClientPath>,
    /// Interfaces of other hosts: host, interface, path of the interface.
    pub far_interfaces: Vec<[String; 3]>,
    /// The client's MPTCP set-up, where known. This crate fills in [`LocalSetup::initial`].
    pub mptcp: Option<LocalSetup>,
    /// The scheduler of mpquic: the path for new data.
    pub scheduler: Scheduler,
    /// The client's interfaces whose rate a queueing discipline limits; of a lab, whose links those are, none.
    pub shapers: Vec<PathShaper>,
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

/// All records of one run.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// Unique within the result.
    pub id: String,
    pub setting: &'a RunSetting,
    pub label: &'a TransportLabel,
    /// From 1.
    pub repetition: u32,
    /// The client's record; `None` when the connection was never opened.
    pub client: Option<EndRecord>,
    /// The server's record, on the client's clock.
    pub server: Option<EndRecord>,
    /// Whether the test ran to its end and both ends agree.
    pub completed: bool,
    pub error: Option<String>,
    /// For a connection that was never opened: the kind of `error`.
    pub unreachable: Option<UnreachableBecause>,
    pub gave_up: Option<Timestamp>,
    pub links: Vec<RunLink>,
    /// Interface of the client → what it, or its link in a lab, carried during the run; empty if that is unknown.
    pub carried: BTreeMap<String, CarriedBytes>,
    /// Why the environment differs from the scenario; empty when both agree.
    pub invalid_because: Vec<String>,
    pub executed: Vec<ExecutedEvent>,
    /// Notifications from the hosts' kernels.
    pub notifications: Vec<SeenEvent>,
    pub counters: BTreeMap<Side, BTreeMap<String, i64>>,
}

impl<'a> Evidence<'a> {
    /// The evidence of a run without any record, as before its end.
    pub fn new(id: String, setting: &'a RunSetting, label: &'a TransportLabel, repetition: u32) -> Self {
        Self {
            id,
            setting,
            label,
            repetition,
            client: None,
            server: None,
            completed: false,
            error: None,
            unreachable: None,
            gave_up: None,
            links: Vec::new(),
            carried: BTreeMap::new(),
            invalid_because: Vec::new(),
            executed: Vec::new(),
            notifications: Vec::new(),
            counters: BTreeMap::new(),
        }
    }
}

/// An executed event of the scenario.
#[derive(Debug, Clone)]
pub struct ExecutedEvent {
    pub due: Timestamp,
    /// When the kernel call returned.
    pub at: Timestamp,
    pub node: String,
    pub link: String,
    pub kind: EventKind,
    pub effect: PathEffect,
    pub detail: Map<String, Value>,
}

/// A notification from a host's kernel, and its time of arrival.
#[derive(Debug, Clone)]
pub struct SeenEvent {
    pub at: Timestamp,
    pub node: String,
    pub what: Notification,
}

#[derive(Debug, Clone)]
pub enum Notification {
    Mptcp(MptcpEvent),
    Link(LinkEvent),
    Wifi(WifiSighting),
}

/// A change of a Wi-Fi interface's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WifiSighting {
    pub interface: String,
    pub change: WifiChange,
    /// The network that the interface is connected to; `None` when it is not connected.
    pub network: Option<WifiNetwork>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WifiChange {
    /// The interface joined a network, or a different one.
    Joined,
    Left,
    /// The interface roamed to another access point of the same network.
    Moved,
    /// Only the signal strength or the rates changed.
    Signal,
}

impl Evidence<'_> {
    /// The transfer of a bulk-data run.
    pub(super) fn transfer(&self) -> Option<ThroughputParameters> {
        self.setting.parameters.transfer()
    }

    pub(super) fn directions(&self) -> &'static [Direction] {
        let of_datagrams = match &self.setting.parameters {
            PatternParameters::Datagrams(datagrams) => Some(datagrams.direction),
            _ => None,
        };
        match self.transfer().map(|transfer| transfer.direction).or(of_datagrams) {
            Some(DataDirection::Upload) => &[Direction::Upload],
            Some(DataDirection::Download) => &[Direction::Download],
            // Messages and their answers go in both directions.
            Some(DataDirection::Both) | None => &Direction::BOTH,
        }
    }

    fn end(&self, side: Side) -> Option<&EndRecord> {
        match side {
            Side::Client => self.client.as_ref(),
            Side::Server => self.server.as_ref(),
        }
    }

    /// The available records, the client's first.
    pub(super) fn ends(&self) -> impl Iterator<Item = &EndRecord> {
        self.client.iter().chain(&self.server)
    }

    pub(super) fn sender(&self, direction: Direction) -> Option<&EndRecord> {
        self.end(sending_side(direction))
    }

    pub(super) fn receiver(&self, direction: Direction) -> Option<&EndRecord> {
        self.end(receiving_side(direction))
    }

    /// Zero of the run's clock: the first byte that a sending application wrote. For messages, the time when the
    /// first one was due; of `responsiveness`, the begin of the first phase.
    pub fn origin(&self) -> Timestamp {
        if let Some(response) = self.client.as_ref().and_then(|client| client.response.as_ref()) {
            return response.begun;
        }
        if let Some(first_due) = self.ends().flat_map(|end| &end.messages).map(|message| message.due).min() {
            return first_due;
        }
        let first_written = self
            .directions()
            .iter()
            .filter_map(|&direction| {
                let written = self.sender(direction).and_then(|end| end.offered.first);
                written.or_else(|| self.receiver(direction).and_then(|end| end.deliveries.first))
            })
            .min();
        first_written
            .or_else(|| self.client.as_ref().map(|client| client.started))
            .or_else(|| self.executed.first().map(|event| event.due))
            .unwrap_or_default()
    }

    pub(super) fn path_manager(&self) -> impl Iterator<Item = (&str, &MptcpEvent)> {
        self.notifications.iter().filter_map(|seen| match &seen.what {
            Notification::Mptcp(event) => Some((seen.node.as_str(), event)),
            Notification::Link(_) | Notification::Wifi(_) => None,
        })
    }
}

pub(super) fn as_map(value: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

pub(super) const fn sending_side(direction: Direction) -> Side {
    match direction {
        Direction::Upload => Side::Client,
        Direction::Download => Side::Server,
    }
}

pub(super) const fn receiving_side(direction: Direction) -> Side {
    match direction {
        Direction::Upload => Side::Server,
        Direction::Download => Side::Client,
    }
}
