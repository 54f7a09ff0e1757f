//! The state of one path.

use super::pulse::{Pulse, Verdict};
use crate::driver::{LocalSocket, SocketId};
use crate::library::stream_meter::StreamBytes;
use noq_proto::{PathId, PathStats};
use pathbench_record::sample::PathState as Stage;
use pathbench_record::time::Timestamp;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// While the peer does not answer on a new path, the library repeats `PATH_CHALLENGE` at least every two seconds. Opening
/// another path instead would use up path ids: a server replaces no ids of paths on which it received no packet.
const OPEN_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    LinkDown,
    AddressRemoved,
    OpenTimeout,
    Silent,
    Unheard,
}

impl CloseReason {
    /// A clause that completes "the path was closed because".
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::LinkDown => "the interface went down",
            Self::AddressRemoved => "the local address was removed",
            Self::OpenTimeout => "the peer did not answer on it in time",
            Self::Silent => "nothing was heard on it while another path was heard",
            Self::Unheard => "the peer asked not to use it and acknowledged nothing on it",
        }
    }
}

/// The route of a path's packets until it is closed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Detour {
    pub(super) from: IpAddr,
    pub(super) by: SocketId,
    pub(super) ends_at: Timestamp,
}

/// Packets of a path take the route of another one until it is closed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stray {
    pub(super) own: PathStats,
    pub(super) by: PathId,
}

/// Datagrams and bytes that a path's route carried for another path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Carried {
    pub(super) sent_datagrams: u64,
    pub(super) sent_bytes: u64,
    pub(super) received_datagrams: u64,
    pub(super) received_bytes: u64,
}

/// A path, from its opening until its figures are summed up. What its congestion controller and its packet keys observe
/// is in the scheduler's board and in the stream meter, which noq calls; everything else about it is here.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a path")]
pub(crate) struct PathState {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// The addresses are those at its establishment, and stay fixed: before the close, its packets may take the route
    /// of another path.
    pub(super) named: bool,
    pub(super) stage: Stage,
    /// The socket that sends its packets. `None` at a server, whose paths share one.
    pub(super) socket: Option<LocalSocket>,
    /// At a client, the index of the wanted path.
    pub(super) wanted: Option<usize>,
    /// Start of its opening, then the time of its establishment.
    pub(super) since: Timestamp,
    /// Time limit of its opening.
    pub(super) patience: Duration,
    /// The peer's `PATH_STATUS` for it is backup.
    pub(super) peer_backup: bool,
    /// The peer chose its status; it does not repeat the status that this end sent.
    pub(super) peer_asks: bool,
    /// Since when the peer asks for no data on it, although this end wants to use it.
    pub(super) avoided_since: Option<Timestamp>,
    /// The peer asks for no data on it, and acknowledges nothing: it seems to receive nothing on it.
    pub(super) unheard: bool,
    pub(super) pulse: Pulse,
    /// Reason of the close in progress.
    pub(super) closing: Option<CloseReason>,
    /// noq did not close the path, since it was the last one. No new attempt until another path is established.
    pub(super) refused: bool,
    pub(super) detour: Option<Detour>,
    pub(super) stray: Option<Box<Stray>>,
    /// Traffic of removed paths that took its route.
    pub(super) carried: Carried,
    pub(super) black_holes: u64,
    pub(super) activity: Activity,
    /// The last figures, after noq has removed the path.
    pub(super) last: Option<Box<PathStats>>,
}

impl PathState {
    pub(super) fn new(local: SocketAddr, remote: SocketAddr, now: Timestamp) -> Self {
        Self {
            local,
            remote,
            named: false,
            stage: Stage::Opening,
            socket: None,
            wanted: None,
            since: now,
            patience: OPEN_TIMEOUT,
            peer_backup: false,
            peer_asks: false,
            avoided_since: None,
            unheard: false,
            pulse: Pulse::new(now),
            closing: None,
            refused: false,
            detour: None,
            stray: None,
            carried: Carried::default(),
            black_holes: 0,
            activity: Activity::new(now),
            last: None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    pub(super) fn is_silent(&self) -> bool {
        self.pulse.verdict != Verdict::Heard
    }
}

/// When stream data was last sent and received.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Activity {
    sent: (u64, Timestamp),
    received: (u64, Timestamp),
}

impl Activity {
    pub(super) const fn new(now: Timestamp) -> Self {
        Self { sent: (0, now), received: (0, now) }
    }

    /// The activity after the counters reached `carried` at `now`.
    pub(super) fn update(self, carried: &StreamBytes, now: Timestamp) -> Self {
        let later = |(bytes, at): (u64, Timestamp), count| {
            if count == bytes { (bytes, at) } else { (count, now) }
        };
        Self { sent: later(self.sent, carried.sent), received: later(self.received, carried.received) }
    }

    /// The time since stream data was last sent and received, in ms.
    pub(super) fn since_ms(&self, now: Timestamp) -> [u64; 2] {
        [self.sent, self.received].map(|(_, at)| now.duration_since(at).as_millis() as u64)
    }
}
