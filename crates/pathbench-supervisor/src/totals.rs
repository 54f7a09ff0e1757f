//! The payload bytes of a connection, and whether they are exact. Pure.
//!
//! The last snapshot of a connection precedes its end, and the kernel reports no MPTCP socket when it is destroyed. The
//! figures are exact where the last snapshot shows that nothing could follow, or where the report of the end of the only
//! subflow with payload has them.

use crate::ledger::{ObservedConnection, SubflowRecord};
use pathbench_record::connection::MptcpFigures;

/// States of `net/tcp_states.h` after the peer's `DATA_FIN`: no more data can arrive.
const RECEIVED_ALL: [u8; 5] = [CLOSE_WAIT, LAST_ACK, CLOSING, TIME_WAIT, CLOSE];
/// States after the program's close(2) or shutdown(2): no more data can be written.
const WROTE_ALL: [u8; 6] = [FIN_WAIT1, FIN_WAIT2, LAST_ACK, CLOSING, TIME_WAIT, CLOSE];
const FIN_WAIT1: u8 = 4;
const FIN_WAIT2: u8 = 5;
const TIME_WAIT: u8 = 6;
const CLOSE: u8 = 7;
const CLOSE_WAIT: u8 = 8;
const LAST_ACK: u8 = 9;
const CLOSING: u8 = 11;

/// Payload bytes in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteTotal {
    pub bytes: u64,
    /// Otherwise the true number may be larger.
    pub is_exact: bool,
}

impl ObservedConnection {
    /// Payload bytes sent, without those that were sent again.
    pub fn total_sent(&self) -> ByteTotal {
        let is_written = |mptcp: &MptcpFigures| {
            // The DATA_FIN takes one sequence number.
            let unacked = mptcp.write_seq.zip(mptcp.snd_una).map(|(end, acked)| end.wrapping_sub(acked));
            self.mptcp_state.is_some_and(|state| WROTE_ALL.contains(&state))
                && unacked.is_some_and(|count| count <= 1)
        };
        // Data that was sent again on another subflow is in the figures of both.
        let is_sent_again = |mptcp: &MptcpFigures| mptcp.bytes_retransmitted.is_none_or(|bytes| bytes > 0);
        let of_connection = self.mptcp.as_ref().map(|mptcp| Known {
            bytes: mptcp.bytes_sent.unwrap_or_default(),
            is_exact: mptcp.bytes_sent.is_some() && is_written(mptcp),
            is_repeated: is_sent_again(mptcp),
        });
        self.total(of_connection, |subflow| Payload {
            bytes: subflow.figures.new_bytes_sent(),
            may_have_fin: false,
        })
    }

    /// Payload bytes received, without those that were received again.
    pub fn total_received(&self) -> ByteTotal {
        let of_connection = self.mptcp.as_ref().map(|mptcp| Known {
            bytes: mptcp.bytes_received.unwrap_or_default(),
            is_exact: mptcp.bytes_received.is_some()
                && self.mptcp_state.is_some_and(|state| RECEIVED_ALL.contains(&state)),
            is_repeated: false,
        });
        self.total(of_connection, |subflow| Payload {
            bytes: subflow.figures.bytes_received,
            may_have_fin: subflow.may_have_fin(),
        })
    }

    fn total(&self, of_connection: Option<Known>, payload: impl Fn(&SubflowRecord) -> Payload) -> ByteTotal {
        let all: Vec<Payload> = self.subflows.iter().map(payload).collect();
        let is_final = !self.subflows.is_empty() && self.subflows.iter().all(|subflow| subflow.is_final);
        let may_have_fin = all.iter().any(|one| one.may_have_fin);
        // Without a FIN there is one byte less.
        let sum = all.iter().map(Payload::least).fold(0, u64::saturating_add);
        let Some(known) = of_connection else {
            return ByteTotal { bytes: sum, is_exact: is_final && !may_have_fin };
        };
        if known.is_exact {
            return ByteTotal { bytes: known.bytes, is_exact: true };
        }
        // One subflow's payload is the connection's, unless MPTCP sent a part of it again on the same subflow.
        let is_single = is_final && all.iter().filter(|one| one.bytes > 0).count() <= 1 && !known.is_repeated;
        let most = all.iter().map(|one| one.bytes).fold(0, u64::saturating_add);
        let is_exact = is_single && if may_have_fin { most == known.bytes } else { most >= known.bytes };
        // The same data is never on one subflow twice without that.
        let largest =
            if known.is_repeated { 0 } else { all.iter().map(Payload::least).max().unwrap_or_default() };
        ByteTotal { bytes: known.bytes.max(largest), is_exact }
    }
}

/// The payload of a subflow.
#[derive(Debug, Clone, Copy)]
struct Payload {
    bytes: u64,
    /// One of the bytes may be the peer's FIN.
    may_have_fin: bool,
}

impl Payload {
    fn least(&self) -> u64 {
        self.bytes.saturating_sub(u64::from(self.may_have_fin))
    }
}

/// The connection's own figures at the last snapshot.
#[derive(Debug, Clone, Copy)]
struct Known {
    bytes: u64,
    is_exact: bool,
    is_repeated: bool,
}
