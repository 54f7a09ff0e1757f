//! What a client of the datagram protocol does for its socket, and the socket's turns.

use super::socket::{NetworkReport, PathSocket};
use pathbench_record::time::{Clock, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::IpAddr;
use std::time::Duration;

pub(crate) const TICK: Duration = Duration::from_millis(50);
pub(crate) const BUFFER_BYTES: usize = 1 << 16;
/// Datagrams sent before those that have arrived are taken.
const SENDS_PER_TURN: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub sequence: u32,
    pub payload: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsent {
    /// `EMSGSIZE` of the local interface, and the longest IP packet that it takes, if the kernel reports it.
    TooLong {
        limit_bytes: Option<u32>,
    },
    Full,
    Failed {
        reason: String,
    },
}

/// A sans-IO client: datagrams and time in, datagrams and time out.
pub trait DatagramClient {
    /// The next datagram to be sent now. `None`: wait until [`DatagramClient::due`] or until something happens.
    fn poll(&mut self, now: Timestamp) -> Option<Outgoing>;

    fn due(&self) -> Timestamp;

    fn received(&mut self, now: Timestamp, datagram: &[u8]);

    fn not_sent(&mut self, now: Timestamp, sequence: u32, why: Unsent);

    /// The network reports that something does not arrive (ICMP), for a reason other than its size.
    fn refused(&mut self, reason: String);

    /// `router` reports that a packet is too long for the next link, which takes `said_bytes`; `quoted` is the beginning
    /// of the payload, as far as it was quoted.
    fn icmp(&mut self, now: Timestamp, router: IpAddr, said_bytes: u32, quoted: &[u8]);
}

/// Takes what has arrived and sends what is due. `false` when the socket failed to send, for another reason than a
/// datagram's size or a full queue.
pub(crate) fn turn(
    client: &mut dyn DatagramClient,
    socket: &PathSocket,
    clock: &dyn Clock,
    buffer: &mut [u8],
) -> bool {
    let mut reports = Vec::new();
    let mut works = true;
    loop {
        while let Some(report) = socket.take_report() {
            reports.push(report);
        }
        while let Some(length) = socket.receive(buffer) {
            client.received(clock.now(), &buffer[..length]);
        }
        for report in reports.drain(..) {
            match report {
                NetworkReport::TooBig { router, said_bytes, quoted } => {
                    client.icmp(clock.now(), router, said_bytes, &quoted);
                }
                NetworkReport::Refused { reason } => client.refused(reason),
                // The call that sent it has failed as well.
                NetworkReport::TooLong { .. } => {}
            }
        }
        for _ in 0..SENDS_PER_TURN {
            let Some(outgoing) = client.poll(clock.now()) else {
                if reports.is_empty() {
                    return works;
                }
                break;
            };
            if let Err(why) = socket.send(&outgoing.payload, &mut reports) {
                works &= !matches!(why, Unsent::Failed { .. });
                client.not_sent(clock.now(), outgoing.sequence, why);
            }
        }
    }
}

/// Waits until something has arrived at one of the sockets, or for `time`.
pub(crate) fn wait<'a>(sockets: impl IntoIterator<Item = &'a PathSocket>, time: Duration, clock: &dyn Clock) {
    let limit = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    let mut watched: Vec<PollFd<'_>> =
        sockets.into_iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    if poll(&mut watched, Some(&limit)).is_err() {
        // A signal, or no memory: the time is waited out, rather than spun through.
        clock.sleep_until(clock.now() + time);
    }
}
