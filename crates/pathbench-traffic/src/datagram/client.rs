//! The sans-IO interface of the clients, and the loop that connects one to a socket.

use super::socket::{DatagramSocket, NetworkReport, Unsent};
use pathbench_record::time::{Clock, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::IpAddr;
use std::time::Duration;

pub(crate) const TICK: Duration = Duration::from_millis(50);
pub(crate) const BUFFER_BYTES: usize = 1 << 16;
/// Silence after which a client's socket is reopened: the interface's address may have changed.
pub(crate) const STALE: Duration = Duration::from_secs(2);
/// Datagrams sent before received ones are read.
const SENDS_PER_TURN: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub sequence: u32,
    pub payload: Vec<u8>,
}

/// A sans-IO client: datagrams and time in, datagrams and time out.
pub trait DatagramClient {
    /// The next datagram to send now. `None`: wait until [`DatagramClient::due`] or until a datagram arrives.
    fn poll(&mut self, now: Timestamp) -> Option<Outgoing>;

    fn due(&self) -> Timestamp;

    fn received(&mut self, now: Timestamp, datagram: &[u8]);

    fn not_sent(&mut self, now: Timestamp, sequence: u32, why: Unsent);

    /// The network reports by ICMP that a datagram was not delivered, for a reason other than its size.
    fn refused(&mut self, reason: String);

    /// `router` reports that a packet is too big for the next link, whose MTU is `mtu_bytes`; `quoted` is the quoted
    /// beginning of the UDP payload.
    fn icmp(&mut self, _now: Timestamp, _router: IpAddr, _mtu_bytes: u32, _quoted: &[u8]) {}
}

/// Reads the datagrams that have arrived and sends those that are due. `false` when the socket failed to send, for a
/// reason other than a datagram's size or a full queue.
pub(crate) fn turn(
    client: &mut dyn DatagramClient,
    socket: &DatagramSocket,
    clock: &dyn Clock,
    buffer: &mut [u8],
) -> bool {
    let mut reports = Vec::new();
    let mut works = true;
    loop {
        while let Some(report) = socket.take_report() {
            reports.push(report);
        }
        while let Some(arrival) = socket.receive(buffer) {
            client.received(clock.now(), &buffer[..arrival.length]);
        }
        for report in reports.drain(..) {
            match report {
                NetworkReport::TooBig { router, mtu_bytes, quoted } => {
                    client.icmp(clock.now(), router, mtu_bytes, &quoted);
                }
                NetworkReport::Refused { reason } => client.refused(reason),
                // The send call has failed with this error as well.
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
            if let Err(why) = socket.send(&outgoing.payload, None, &mut reports) {
                works &= !matches!(why, Unsent::Failed { .. });
                client.not_sent(clock.now(), outgoing.sequence, why);
            }
        }
    }
}

/// Waits until one of the sockets is readable, for at most `time`.
pub(crate) fn wait<'a>(
    sockets: impl IntoIterator<Item = &'a DatagramSocket>,
    time: Duration,
    clock: &dyn Clock,
) {
    let limit = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    let mut watched: Vec<PollFd<'_>> =
        sockets.into_iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    if poll(&mut watched, Some(&limit)).is_err() {
        // A signal or lack of memory: sleeps, to avoid a busy loop.
        clock.sleep_until(clock.now() + time);
    }
}
