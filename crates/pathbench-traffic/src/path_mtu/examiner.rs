//! What finds or watches the MTU of a path, without a socket.

use super::exchange::Outgoing;
use super::finder::Unsent;
use pathbench_record::time::Timestamp;
use std::net::IpAddr;

/// What a socket is driven for: datagrams and time in, datagrams and time out.
pub trait Examiner {
    /// The next datagram to be sent now. `None`: wait until [`Examiner::due`] or until something happens.
    fn poll(&mut self, now: Timestamp) -> Option<Outgoing>;

    /// When to poll again if nothing arrives before.
    fn due(&self) -> Timestamp;

    /// A datagram came from the server.
    fn received(&mut self, now: Timestamp, datagram: &[u8]);

    /// A datagram of [`Examiner::poll`] could not be sent.
    fn not_sent(&mut self, now: Timestamp, sequence: u32, why: Unsent);

    /// The network says that something does not arrive (ICMP), for a reason that has nothing to do with its size.
    fn refused(&mut self, reason: String);

    /// `router` says that a packet of ours is too long for the next link, which takes `said_bytes`; `quoted` is what it
    /// quotes of the payload.
    fn icmp(&mut self, now: Timestamp, router: IpAddr, said_bytes: u32, quoted: &[u8]);
}
