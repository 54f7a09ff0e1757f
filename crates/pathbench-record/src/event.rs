//! One line of `events.jsonl`: something that happened to a link, a path or a connection.

use crate::delivery::DeliverySeries;
use crate::direction::Direction;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who says that it happened.
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

/// One line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The run's id.
    pub run: String,
    /// When it took effect (scenario events: when the kernel call returned), on the run's clock.
    pub t_ms: f64,
    /// Who says so.
    pub source: EventSource,
    /// Host on which it happened or was seen.
    pub host: String,
    /// What: `down`, `up`, `set`, `remove-address`, `SUB_ESTABLISHED`, `path-suspended`, `first-byte`, ….
    pub kind: String,
    /// The path or link it concerns, where it concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// For scenario events: when it was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<f64>,
    /// Everything else that was said (addresses, error, reset reason, changed keys).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub detail: Map<String, Value>,
}

/// One line of `delivery.jsonl`: bytes handed to the receiving application in one 10 ms bin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveryLine {
    /// The run's id.
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
