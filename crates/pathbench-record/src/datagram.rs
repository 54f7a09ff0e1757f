//! The pattern `datagrams`: its parameters, the log of each end, the lines of `datagrams.jsonl` and the figures.

use crate::direction::{DataDirection, Direction};
use crate::document::OneWayDelay;
use crate::time::Timestamp;
use crate::units::milliseconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Header of a datagram; the smallest datagram.
pub const DATAGRAM_HEADER_BYTES: u32 = 40;
/// Largest payload of one packet by default: it fits into a QUIC packet of 1200 bytes, which every path carries.
pub const DEFAULT_PACKET_BYTES: u32 = 1_150;
/// Largest payload of one packet that can be asked for.
pub const MAX_PACKET_BYTES: u32 = 8_900;
/// Limit of the datagrams of one test: both directions and all paths together. Their log must fit into a RECORD frame.
pub const MAX_DATAGRAMS: u64 = 150_000;
/// Paths of a test.
pub const MAX_DATAGRAM_PATHS: u32 = 8;
/// Largest number of frames per second.
pub const MAX_FRAMES_PER_SECOND: u32 = 10_000;
/// Largest frame.
pub const MAX_FRAME_BYTES: u32 = 1_000_000;

/// Parameters of `datagrams`: a frame of fixed size at a constant rate, split into packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatagramsParameters {
    pub direction: DataDirection,
    /// Frames per second; a frame is sent at once.
    pub frames_per_second: u32,
    /// Payload of a frame, the 40-byte header of each packet included.
    pub frame_bytes: u32,
    /// Largest payload of one packet.
    pub packet_bytes: u32,
    #[serde(rename = "duration_ms", with = "milliseconds")]
    pub duration: Duration,
    /// A datagram that arrives later than this after it was sent is late.
    #[serde(rename = "deadline_ms", with = "milliseconds")]
    pub deadline: Duration,
    /// Wait for the last datagrams after the last one was sent.
    #[serde(rename = "linger_ms", with = "milliseconds")]
    pub linger: Duration,
    /// Paths that carry each datagram: all of `udp` and of the scheduler `redundant`, else 1.
    pub paths: u32,
}

impl Default for DatagramsParameters {
    fn default() -> Self {
        Self::voice()
    }
}

impl DatagramsParameters {
    /// 50 packets of 160 bytes per second: G.711 in packets of 20 ms (RFC 3551). Deadline: 150 ms (ITU-T G.114).
    pub const fn voice() -> Self {
        Self {
            direction: DataDirection::Both,
            frames_per_second: 50,
            frame_bytes: 160,
            packet_bytes: DEFAULT_PACKET_BYTES,
            duration: Duration::from_secs(10),
            deadline: Duration::from_millis(150),
            linger: Duration::from_secs(1),
            paths: 1,
        }
    }

    /// 60 frames of 20 kB per second: 9.6 Mbit/s.
    pub const fn video() -> Self {
        Self { frames_per_second: 60, frame_bytes: 20_000, ..Self::voice() }
    }

    /// Number of frames of one direction.
    pub fn frames(&self) -> u64 {
        let frames = self.duration.as_nanos() * u128::from(self.frames_per_second);
        u64::try_from(frames.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
    }

    /// Packets of one frame; their sizes differ by at most one byte.
    pub const fn packets_per_frame(&self) -> u32 {
        let packet_bytes = if self.packet_bytes == 0 { 1 } else { self.packet_bytes };
        self.frame_bytes.div_ceil(packet_bytes)
    }

    /// Datagrams of one direction on one path.
    pub fn datagrams(&self) -> u64 {
        self.frames().saturating_mul(u64::from(self.packets_per_frame()))
    }

    /// Datagrams of both directions on all paths.
    pub fn datagrams_in_all(&self) -> u64 {
        let directions = if self.direction == DataDirection::Both { 2 } else { 1 };
        self.datagrams().saturating_mul(u64::from(self.paths)).saturating_mul(directions)
    }

    /// The frame of a datagram, from 0.
    pub const fn frame_of(&self, sequence: u32) -> u32 {
        let packets = self.packets_per_frame();
        sequence / if packets == 0 { 1 } else { packets }
    }

    /// Payload of a datagram.
    pub const fn size_bytes(&self, sequence: u32) -> u32 {
        let packets = self.packets_per_frame();
        if packets == 0 {
            return 0;
        }
        self.frame_bytes / packets + (sequence % packets < self.frame_bytes % packets) as u32
    }

    /// When a datagram is due, from the first one on.
    pub fn due(&self, sequence: u32) -> Duration {
        let nanos = u64::from(self.frame_of(sequence)) * 1_000_000_000;
        Duration::from_nanos(nanos / u64::from(self.frames_per_second.max(1)))
    }

    /// Payload of one direction on all paths.
    pub fn bytes(&self) -> u64 {
        self.frames().saturating_mul(u64::from(self.frame_bytes)).saturating_mul(u64::from(self.paths))
    }

    /// Payload of one direction on all paths, per second.
    pub fn rate_bps(&self) -> u64 {
        let frames = u64::from(self.frames_per_second).saturating_mul(self.paths.into());
        frames.saturating_mul(u64::from(self.frame_bytes)).saturating_mul(8)
    }

    /// Sending time and the wait for the last datagrams.
    pub fn nominal_duration(&self) -> Duration {
        self.duration.saturating_add(self.linger)
    }

    pub const fn sends(&self, direction: Direction) -> bool {
        match direction {
            Direction::Upload => self.direction.has_upload(),
            Direction::Download => self.direction.has_download(),
        }
    }
}

/// A datagram, or one of its copies, at one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "DatagramOnWire", into = "DatagramOnWire")]
pub struct LoggedDatagram {
    pub sequence: u32,
    /// The sender: when its application passed the datagram on. The receiver: when its kernel received it.
    pub at: Timestamp,
    /// The index of the path of udp, the path ID of quic and mpquic.
    pub path: u32,
}

/// A list instead of a map, because a log must fit into a RECORD frame.
type DatagramOnWire = (u32, Timestamp, u32);

impl From<DatagramOnWire> for LoggedDatagram {
    fn from((sequence, at, path): DatagramOnWire) -> Self {
        Self { sequence, at, path }
    }
}

impl From<LoggedDatagram> for DatagramOnWire {
    fn from(logged: LoggedDatagram) -> Self {
        (logged.sequence, logged.at, logged.path)
    }
}

/// The datagrams of a test at one end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatagramLog {
    /// In the order in which they left.
    pub sent: Vec<LoggedDatagram>,
    /// On each path in the order of arrival, duplicates and copies included.
    pub received: Vec<LoggedDatagram>,
    /// At the client of udp: the local address of each path, by its index.
    pub paths: Vec<IpAddr>,
    /// Datagrams that were due and did not leave: the queue was full, the rate limit held them back, or the sender was
    /// late.
    pub unsent: u64,
    /// Datagrams that arrived and are not in the log: beyond its bound, or beyond the rate limit of this end.
    pub omitted: u64,
    /// Datagrams that no sender of this test has sent: a foreign session, or a sequence number out of range.
    pub foreign: u64,
}

/// One line of `datagrams.jsonl`: a datagram on one path. Times are on the run's clock.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatagramLine {
    /// The run's `id`.
    pub run: String,
    /// `upload` or `download`.
    pub direction: Direction,
    /// The path.
    pub path: String,
    /// Number within its direction, from 0; copies on several paths have the same number.
    pub sequence: u32,
    /// When the sender passed it on; absent if the sender's log does not have it.
    pub sent_ms: Option<f64>,
    /// When it arrived at the receiver (its kernel's timestamp where there is one); absent if it was lost.
    pub received_ms: Option<f64>,
    /// Further arrivals of the same datagram on the same path.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duplicates: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference to the field")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The datagrams of one direction: all together, and by path.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatagramRecord {
    /// All paths together. Over udp a datagram on each path is one of its own; over quic and mpquic the first copy
    /// counts, wherever it arrived.
    #[serde(flatten)]
    pub all: DatagramFigures,
    /// The deadline: a datagram whose one-way delay exceeds it is late.
    pub deadline_ms: Option<f64>,
    /// Datagrams that were due and did not leave: a full queue, the server's rate limit or a late sender.
    pub unsent: u64,
    /// Datagrams that the receiver did not log: beyond its bound, or beyond the server's rate limit.
    pub omitted: u64,
    /// Payload of all copies that were sent (mpquic with the scheduler `redundant`; else of all datagrams).
    pub sent_bytes: u64,
    /// Payload of the datagrams that arrived, each counted once.
    pub delivered_bytes: u64,
    /// Payload of the copies beyond the first of each datagram: the cost of the scheduler `redundant`.
    pub redundant_bytes: u64,
    /// Path → its figures.
    pub paths: BTreeMap<String, DatagramFigures>,
}

/// The figures of a flow of datagrams ([definitions](metrics.md#datagrams)).
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatagramFigures {
    /// Datagrams sent.
    pub sent: u64,
    /// Of `sent`, those that did not arrive.
    pub lost: u64,
    /// `lost` / `sent`; absent if none was sent.
    pub loss: Option<f64>,
    /// Arrivals of a datagram that had arrived before.
    pub duplicates: u64,
    /// Datagrams that arrived after one with a larger number (RFC 4737, type-P-reordered).
    pub reordered: u64,
    /// `reordered` / arrived datagrams.
    pub reordered_share: Option<f64>,
    /// Interarrival jitter (RFC 3550, section 6.4.1), mean over the arrivals.
    pub jitter_ms: Option<f64>,
    /// The largest value of the interarrival jitter.
    pub max_jitter_ms: Option<f64>,
    /// Datagrams that arrived later than the deadline; absent where the clocks of both ends are not comparable.
    pub late: Option<u64>,
    /// `late` / arrived datagrams.
    pub late_share: Option<f64>,
    /// Longest time without an arriving datagram, from the first to the last arrival.
    pub longest_gap_ms: Option<f64>,
    /// One-way delay, from the sender's application to the receiver's kernel; absent where the clocks are not comparable.
    pub delay: Option<OneWayDelay>,
    /// Frames; absent if a frame is one packet.
    pub frames: Option<FrameFigures>,
}

/// The frames of a flow of datagrams that has several packets a frame.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FrameFigures {
    /// Frames of which at least one packet was sent.
    pub sent: u64,
    /// Frames of which a packet is missing.
    pub incomplete: u64,
    /// `incomplete` / `sent`.
    pub incomplete_share: f64,
    /// Complete frames whose last packet arrived later than the deadline; absent where the clocks are not comparable.
    pub late: Option<u64>,
    /// `late` / `sent`.
    pub late_share: Option<f64>,
}
