//! The handshake of a flow: which SYN was answered, and which answer was acknowledged.

use super::{ACK, RST, SYN};
use crate::packet::tcp_options::timestamps;
use crate::packet::{PacketHeaders, Tcp};

/// Most SYNs and SYN/ACKs whose times are kept.
const MOST: usize = 16;
/// Longest time between the two copies of a SYN on both sides of a middlebox.
const SAME_SYN_NS: u64 = 1_000_000_000;

/// The fate of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    Answered,
    /// No answer to any SYN.
    Unanswered,
    /// An RST came before the handshake was complete.
    Refused,
    /// The SYN/ACK was not acknowledged.
    Unacknowledged,
}

impl Opening {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Unanswered => "unanswered",
            Self::Refused => "refused",
            Self::Unacknowledged => "unacknowledged",
        }
    }
}

/// A SYN or a SYN/ACK.
#[derive(Debug, Clone, Copy)]
struct Sent {
    time_ns: u64,
    is_answer: bool,
    /// Value and echo of its time stamps.
    stamp: Option<(u32, u32)>,
    identification: u16,
    hop_limit: u8,
}

/// The handshake of a flow, as its capture shows it.
#[derive(Debug, Clone, Default)]
pub struct Handshake {
    sent: Vec<Sent>,
    /// SYNs of the client, with those sent again.
    pub syns: u32,
    /// RSTs of the client.
    client_resets: u32,
    /// The SYN/ACK was acknowledged.
    is_complete: bool,
    /// The end whose RST came before.
    refused_by: Option<usize>,
    rtt_ns: Option<u64>,
}

impl Handshake {
    /// A SYN, SYN/ACK or RST of end `side`.
    pub(super) fn control(&mut self, side: usize, packet: &PacketHeaders<'_>, tcp: &Tcp<'_>, time_ns: u64) {
        if tcp.flags & RST != 0 {
            self.client_resets += u32::from(side == 0);
            if !self.is_complete && self.syns > 0 {
                self.refused_by.get_or_insert(side);
            }
        } else if tcp.flags & SYN != 0 {
            self.syns += u32::from(tcp.flags & ACK == 0);
            if self.sent.len() == MOST {
                self.sent.remove(1);
            }
            self.sent.push(Sent {
                time_ns,
                is_answer: tcp.flags & ACK != 0,
                stamp: timestamps(tcp.options),
                identification: packet.identification,
                hop_limit: packet.hop_limit,
            });
        }
    }

    /// A SYN (or SYN/ACK) with another sequence number is the last one behind a middlebox that rewrites them.
    pub(super) fn is_rewritten(&self, packet: &PacketHeaders<'_>, tcp: &Tcp<'_>, time_ns: u64) -> bool {
        let is_answer = tcp.flags & ACK != 0;
        let stamp = timestamps(tcp.options).map(|(value, _)| value);
        self.sent.iter().rev().find(|sent| sent.is_answer == is_answer).is_some_and(|sent| {
            let same_packet = packet.identification != 0 && packet.identification == sent.identification;
            time_ns.abs_diff(sent.time_ns) <= SAME_SYN_NS
                && stamp == sent.stamp.map(|(value, _)| value)
                && (same_packet || packet.hop_limit != sent.hop_limit)
        })
    }

    /// The first acknowledgment of a SYN/ACK.
    #[cold]
    pub(super) fn complete(&mut self, tcp: &Tcp<'_>, time_ns: u64) {
        if self.is_complete {
            return;
        }
        self.is_complete = true;
        let sent = std::mem::take(&mut self.sent);
        let echo = timestamps(tcp.options).map(|(_, echo)| echo);
        let answers = || sent.iter().filter(|sent| sent.is_answer);
        let echoed = |sent: &&Sent| sent.stamp.is_some_and(|(value, _)| Some(value) == echo);
        let Some(acknowledged) = answers().find(echoed).or_else(|| answers().next_back()) else { return };
        // Of the SYNs before it, the one that it echoes; the last one where none has time stamps.
        let syns = || sent.iter().filter(|sent| !sent.is_answer && sent.time_ns <= acknowledged.time_ns);
        let answered = |sent: &&Sent| match (sent.stamp, acknowledged.stamp) {
            (Some((value, _)), Some((_, echo))) => value == echo,
            _ => false,
        };
        let Some(syn) = syns().find(answered).or_else(|| syns().next_back()) else { return };
        let first = answers().find(|answer| {
            answer.time_ns >= syn.time_ns
                && answer.stamp.map(|(_, echo)| echo) == acknowledged.stamp.map(|(_, echo)| echo)
        });
        let first_ns = first.map_or(acknowledged.time_ns, |first| first.time_ns);
        let to_server = first_ns.saturating_sub(syn.time_ns);
        self.rtt_ns = Some(to_server + time_ns.saturating_sub(acknowledged.time_ns));
    }

    /// From the SYN that was answered to the acknowledgment of the SYN/ACK, without the time that either was sent again.
    pub fn rtt_ns(&self) -> Option<u64> {
        self.rtt_ns
    }

    /// The end whose RST came before the handshake was complete.
    pub fn refused_by(&self) -> Option<usize> {
        self.refused_by
    }

    /// The fate of the SYN; `None` if it is not known. `client_packets` and `server_packets` are those of the flow.
    pub fn opening(&self, client_packets: u64, server_packets: u64, is_answered: bool) -> Option<Opening> {
        if self.syns == 0 {
            return None;
        }
        Some(match (self.is_complete, self.refused_by.is_some(), is_answered) {
            (true, ..) => Opening::Answered,
            (_, true, _) => Opening::Refused,
            // The client went on: what it had as an answer was not captured.
            _ if client_packets > u64::from(self.syns) + u64::from(self.client_resets) => return None,
            (.., true) => Opening::Unacknowledged,
            _ if server_packets == 0 => Opening::Unanswered,
            _ => return None,
        })
    }
}
