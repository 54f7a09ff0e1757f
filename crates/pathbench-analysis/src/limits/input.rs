//! The records and samples of one direction of a run, of which the limits are found.

use crate::binning::{ByteCurve, Window};
use pathbench_record::direction::Direction;
use pathbench_record::document::{LimitKind, LimitRecord};
use pathbench_record::end::EndRecord;
use pathbench_record::sample::{Sample, Side};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use std::collections::BTreeMap;

/// A queueing discipline of the client that limits the rate of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathShaper {
    pub interface: String,
    /// `tbf`, `htb`, …
    pub kind: String,
    pub rate_bps: u64,
}

/// Sizes that the run requests instead of the kernel's tuning (`SO_RCVBUF`, `SO_SNDBUF`), in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestedBuffers {
    pub receive: Option<u64>,
    pub send: Option<u64>,
}

/// One direction of a run.
#[derive(Debug, Clone, Copy)]
pub struct LimitInput<'a> {
    pub transport: Transport,
    pub direction: Direction,
    pub sending_side: Side,
    pub sender: Option<&'a EndRecord>,
    pub receiver: Option<&'a EndRecord>,
    /// The samples of both ends.
    pub samples: &'a [Sample],
    /// Zero of the samples' clock.
    pub origin: Timestamp,
    /// The measured time.
    pub window: Window,
    pub goodput_mbps: Option<f64>,
    /// The pattern's rate, of all streams together.
    pub rate_bps: Option<u64>,
    /// The server's limit for each client and direction.
    pub server_rate_bps: Option<u64>,
    pub requested: RequestedBuffers,
    /// Whether the server is another machine than the client.
    pub is_remote: bool,
    /// Name of a path → its interface at the client, for its shapers.
    pub interfaces: &'a BTreeMap<String, String>,
    pub shapers: &'a [PathShaper],
}

pub(super) const fn receiving_side(input: &LimitInput<'_>) -> Side {
    match input.sending_side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}

pub(super) fn record(input: &LimitInput<'_>, kind: LimitKind, share: f64, because: String) -> LimitRecord {
    let side = match kind {
        LimitKind::ReceiveWindow | LimitKind::ReceiverCpu => Some(receiving_side(input)),
        LimitKind::SendBuffer | LimitKind::Application | LimitKind::SenderCpu | LimitKind::Qdisc => {
            Some(input.sending_side)
        }
        LimitKind::CongestionWindow | LimitKind::HeadOfLine | LimitKind::SharedBottleneck => None,
    };
    LimitRecord {
        direction: input.direction,
        kind,
        side,
        path: None,
        share: share.clamp(0.0, 1.0),
        named: false,
        because,
        remedy: None,
    }
}

/// The bytes that the application received.
pub(super) fn delivered(input: &LimitInput<'_>) -> Option<ByteCurve> {
    Some(ByteCurve::from_series(&input.receiver?.deliveries))
}
