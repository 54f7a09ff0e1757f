//! One line of `events.jsonl`: something that happened to a link, a path or a connection.

use crate::delivery::DeliverySeries;
use crate::direction::Direction;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventSource {
    /// An `[[event]]` of the scenario, carried out by the lab.
    Scenario,
    /// The kernel's MPTCP path manager (generic netlink `mptcp_pm_events`).
    Mptcp,
    /// The QUIC library's path events and this project's QUIC driver: `path-opened`, `path-established`,
    /// `path-abandoned`, `path-closed`, `path-status`, `path-suspended`, `path-resumed`, `scheduler`,
    /// `mtu-black-hole`, `events-omitted`.
    Quic,
    /// The kernel's link and address notifications.
    Link,
    /// Pathbench's own observation (first byte, connection died, …).
    Observer,
}

macro_rules! event_kinds {
    ($($variant:ident = $name:literal,)*) => {
        /// What happened. Scenario and kernel share the kinds of an interface; [`EventSource`] says who reports it.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum EventKind {
            $($variant,)*
            /// A kind that this version does not know.
            Other(String),
        }

        impl EventKind {
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(name) => name,
                }
            }
        }

        impl From<&str> for EventKind {
            fn from(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)*
                    other => Self::Other(other.to_owned()),
                }
            }
        }
    };
}

event_kinds! {
    Down = "down",
    Up = "up",
    Blackhole = "blackhole",
    Outage = "outage",
    Restore = "restore",
    RemoveAddress = "remove-address",
    AddAddress = "add-address",
    Set = "set",
    Fade = "fade",
    Appeared = "appeared",
    Disappeared = "disappeared",
    CarrierUp = "carrier-up",
    CarrierDown = "carrier-down",
    Mtu = "mtu",
    AddressAdded = "address-added",
    AddressRemoved = "address-removed",
    WifiJoined = "wifi-joined",
    WifiLeft = "wifi-left",
    WifiMoved = "wifi-moved",
    WifiSignal = "wifi-signal",
    Created = "CREATED",
    Established = "ESTABLISHED",
    Closed = "CLOSED",
    Announced = "ANNOUNCED",
    Removed = "REMOVED",
    SubEstablished = "SUB_ESTABLISHED",
    SubClosed = "SUB_CLOSED",
    SubPriority = "SUB_PRIORITY",
    ListenerCreated = "LISTENER_CREATED",
    ListenerClosed = "LISTENER_CLOSED",
    Overrun = "overrun",
    PathOpened = "path-opened",
    PathRefused = "path-refused",
    PathEstablished = "path-established",
    PathGivenUp = "path-given-up",
    PathAbandoned = "path-abandoned",
    PathClosed = "path-closed",
    PathStatus = "path-status",
    PathSuspended = "path-suspended",
    PathResumed = "path-resumed",
    InterfaceGone = "interface-gone",
    InterfaceBack = "interface-back",
    Scheduler = "scheduler",
    MtuBlackHole = "mtu-black-hole",
    EventsOmitted = "events-omitted",
    FirstByte = "first-byte",
    LastByte = "last-byte",
    GaveUp = "gave-up",
}

impl EventKind {
    /// Whether it takes something away from a path, so that its impact is worth a figure.
    pub const fn is_disruptive(&self) -> bool {
        use EventKind::{Blackhole, Down, Fade, Outage, RemoveAddress, Set};
        matches!(self, Down | Blackhole | Outage | RemoveAddress | Set | Fade)
    }
}

impl From<String> for EventKind {
    fn from(name: String) -> Self {
        Self::from(name.as_str())
    }
}

impl From<EventKind> for String {
    fn from(kind: EventKind) -> Self {
        kind.name().to_owned()
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub run: String,
    /// When it took effect (scenario events: when the kernel call returned), on the run's clock.
    pub t_ms: f64,
    pub source: EventSource,
    pub host: String,
    pub kind: EventKind,
    /// The path or link it concerns, where it concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<f64>,
    /// Everything else that was said (addresses, error, reset reason, changed keys).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub detail: Map<String, Value>,
}

/// One line of `delivery.jsonl`: bytes handed to the receiving application in one 10 ms bin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveryLine {
    pub run: String,
    /// Which way the data went.
    pub direction: Direction,
    /// Start of the bin on the run's clock. Bins without a byte have no line.
    pub t_ms: f64,
    /// Bytes delivered within the bin.
    pub bytes: u64,
}

impl DeliveryLine {
    /// The lines of one direction of a run: one per bin that has bytes. `origin` is the zero of the run's clock.
    pub fn of_series(
        run: &str,
        direction: Direction,
        series: &DeliverySeries,
        origin: Timestamp,
    ) -> Vec<Self> {
        let spoken = series.bytes.iter().enumerate().filter(|&(_, &bytes)| bytes > 0);
        spoken
            .map(|(bin, &bytes)| Self {
                run: run.to_owned(),
                direction,
                t_ms: series.bin_start(bin).ms_from(origin),
                bytes,
            })
            .collect()
    }
}
