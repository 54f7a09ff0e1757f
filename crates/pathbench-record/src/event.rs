//! One line of `events.jsonl`: an event of a link, a path or a connection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::SerializeDisplay;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventSource {
    /// An `[[event]]` of the scenario, executed by the lab.
    Scenario,
    /// The kernel's MPTCP path manager (generic netlink `mptcp_pm_events`).
    Mptcp,
    /// The QUIC library's path events and this project's QUIC driver: `path-opened`, `path-established`,
    /// `path-abandoned`, `path-closed`, `path-status`, `path-suspended`, `path-resumed`, `scheduler`,
    /// `mtu-black-hole`, `events-omitted`.
    Quic,
    /// The kernel's link and address notifications.
    Link,
    /// Pathbench's own observation (first byte, connection failed, …).
    Observer,
}

macro_rules! event_kinds {
    ($($variant:ident = $name:literal,)*) => {
        /// The kind of event. Scenario and kernel share the kinds of an interface; [`EventSource`] names the reporter.
        #[derive(Debug, Clone, PartialEq, Eq, SerializeDisplay, Deserialize, JsonSchema)]
        #[serde(from = "String")]
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

/// The effect of an event on the quality of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum PathEffect {
    Worse,
    Better,
    #[default]
    Neutral,
}

impl EventKind {
    /// The effect on the path; that of `set` and `fade` depends on their values.
    pub const fn path_effect(&self) -> PathEffect {
        use EventKind::{AddAddress, Blackhole, Down, Outage, RemoveAddress, Restore, Up};
        match self {
            Down | Blackhole | Outage | RemoveAddress => PathEffect::Worse,
            Up | Restore | AddAddress => PathEffect::Better,
            _ => PathEffect::Neutral,
        }
    }

    /// Whether the event degrades a path, so that its impact is computed.
    pub const fn is_disruptive(&self) -> bool {
        use EventKind::{Blackhole, Down, Fade, Outage, RemoveAddress, Set};
        matches!(self, Down | Blackhole | Outage | RemoveAddress | Set | Fade)
    }
}

impl Default for EventKind {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl From<String> for EventKind {
    fn from(name: String) -> Self {
        Self::from(name.as_str())
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// The run's `id`.
    pub run: String,
    /// Time at which it took effect; for the scenario's events, at which the system call returned.
    pub t_ms: f64,
    /// The reporter.
    pub source: EventSource,
    /// Host on which it occurred or was observed.
    pub host: String,
    /// `down`, `up`, `set`, `remove-address`, `SUB_ESTABLISHED`, `SUB_CLOSED`, `first-byte`, …
    pub kind: EventKind,
    /// Path or link.
    pub path: Option<String>,
    /// Time at which it was due (scenario's events only).
    pub due_ms: Option<f64>,
    /// Further fields: addresses, error, reset reason, and the keys of the event.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub detail: Map<String, Value>,
}
