//! Shaping: a rate, a bounded queue before it and, where the kernel can, delay and loss.
//!
//! ```text
//! root 1: htb ── class 1:1 (rate = ceil, everything) ── leaf 10: bfifo | pfifo, or 20: netem
//! ```

mod message;

use crate::namespace::NetNamespace;
use crate::netlink::{NetlinkError, RouteSocket};
use message::{
    CLASS, ROOT, TC_H_ROOT, class_options, leaf_options, parse_statistics, root_options, tc_described,
    tc_message,
};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_ECHO, NLM_F_EXCL, NLM_F_REPLACE};
use rustix::io::Errno;
use std::time::Duration;

/// Slowest rate that can be asked for.
pub const MIN_RATE_BPS: u64 = 8_000;
/// Fastest rate that can be asked for.
pub const MAX_RATE_BPS: u64 = 100_000_000_000;
/// Bytes that an Ethernet frame has beyond the IP packet, as queueing disciplines count them.
pub const ETHERNET_HEADER_BYTES: u64 = 14;

/// How long a class may have sent nothing and make up for it afterwards. Timers fire late, up to a
/// millisecond on a busy machine, and what is not made up for is lost from the rate: at 1 Gbit/s on two busy
/// cores 0.05 ms cost up to 5 %, 0.2 ms 1.5 %, 1 ms less than 0.1 %.
const BURST_TIME: Duration = Duration::from_millis(1);
/// What 10 Gbit/s gives in that time; faster links are never that far behind.
const MAX_BURST_BYTES: u64 = 1_250_000;

/// A shaper of what an interface sends.
///
/// Rate and sizes count Ethernet frames without preamble and FCS. A GSO packet
/// counts as its segments.
#[derive(Debug, Clone, PartialEq)]
pub struct Shaper {
    /// Bits per second, [`MIN_RATE_BPS`] to [`MAX_RATE_BPS`].
    pub rate_bps: u64,
    /// How much may pass at once after a pause; see [`default_burst_bytes`].
    pub burst_bytes: u64,
    pub queue: QueueLimit,
    /// Delay and loss before the rate. Its own limit takes the place of `queue` then.
    pub netem: Option<Netem>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueLimit {
    /// Bytes of Ethernet frames. Must hold the largest packet, up to 64 KiB with segmentation offload.
    Bytes(u64),
    Packets(u32),
}

/// Delay and random loss by the kernel's network emulator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Netem {
    pub delay: Duration,
    /// Uniformly distributed deviation from `delay`, up to this much to either side. It reorders packets.
    pub jitter: Duration,
    /// Fraction of packets that are lost, 0 to 1, each independently.
    pub loss: f64,
    /// Most packets on their way and waiting together.
    pub limit_packets: u32,
}

/// Counters of a queueing discipline since it was installed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QdiscStatistics {
    /// Bytes of Ethernet frames sent; a GSO packet counts as its segments.
    pub bytes: u64,
    /// Packets sent, as frames like `bytes`.
    pub packets: u64,
    /// Packets dropped because the queue was full; a GSO packet counts once.
    pub drops: u32,
    pub backlog_bytes: u32,
    pub backlog_packets: u32,
    /// How often something waited only because of the rate.
    pub overlimits: u32,
}

impl Shaper {
    /// `rate_bps` with a queue, the default burst for packets of `mtu` bytes, and neither delay nor loss.
    pub fn new(rate_bps: u64, mtu: u32, queue: QueueLimit) -> Self {
        Self { rate_bps, burst_bytes: default_burst_bytes(rate_bps, mtu), queue, netem: None }
    }

    fn check(&self) -> Result<(), ShaperError> {
        let invalid = |what| Err(ShaperError::Invalid { what, shaper: Box::new(self.clone()) });
        if !(MIN_RATE_BPS..=MAX_RATE_BPS).contains(&self.rate_bps) {
            return invalid("the rate must be 8 kbit/s to 100 Gbit/s");
        }
        if self.burst_bytes == 0 || message::burst_ticks(self.rate_bps, self.burst_bytes).is_none() {
            return invalid("the burst must be at least a byte and last at most 60 s at the rate");
        }
        match self.queue {
            QueueLimit::Bytes(0) | QueueLimit::Packets(0) => return invalid("the queue must have room"),
            QueueLimit::Bytes(bytes) if bytes > u64::from(u32::MAX) => {
                return invalid("the queue must be shorter than 4 GiB");
            }
            QueueLimit::Bytes(_) | QueueLimit::Packets(_) => {}
        }
        match self.netem {
            Some(netem) if !(0.0..=1.0).contains(&netem.loss) => invalid("the loss must be 0 to 1"),
            Some(netem) if netem.limit_packets == 0 => invalid("netem's queue must have room"),
            Some(netem) if netem.delay.max(netem.jitter) > Duration::from_secs(60) => {
                invalid("delay and jitter can be 60 s at most")
            }
            _ => Ok(()),
        }
    }
}

/// A burst that lets the shaper keep its rate although its timers fire late: what the rate gives in 1 ms, at
/// least two full frames, at most 1.25 MB.
pub fn default_burst_bytes(rate_bps: u64, mtu: u32) -> u64 {
    let by_time = u128::from(rate_bps) * BURST_TIME.as_micros() / 8_000_000;
    let two_frames = 2 * (u64::from(mtu) + ETHERNET_HEADER_BYTES);
    (by_time as u64).min(MAX_BURST_BYTES).max(two_frames)
}

/// A shaper could not be installed or changed.
#[derive(Debug, thiserror::Error)]
pub enum ShaperError {
    #[error(
        "this kernel has no netem (CONFIG_NET_SCH_NETEM), so its links can have no delay or loss: use the emulated engine"
    )]
    NoNetem,
    #[error(
        "this kernel cannot shape: it was built without {kind} (CONFIG_NET_SCH_HTB, CONFIG_NET_SCH_FIFO)"
    )]
    NoQdisc { kind: &'static str },
    #[error("{what}, but this was asked for: {shaper:?}")]
    Invalid { what: &'static str, shaper: Box<Shaper> },
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl RouteSocket {
    /// Shapes what interface `index` sends from now on, in place of whatever it had for that.
    /// Errors: The interface may be left without a shaper then.
    pub fn install_shaper(&mut self, index: u32, shaper: &Shaper) -> Result<(), ShaperError> {
        shaper.check()?;
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        let request = format!("install a shaper on interface {index}");
        let root = tc_described(index, ROOT, TC_H_ROOT, "htb", &root_options()).message(libc::RTM_NEWQDISC);
        match self.channel.execute(&request, flags, &root) {
            Err(error) if error.is_already_there() => {
                self.remove_shaper(index)?;
                self.channel.execute(&request, flags, &root)
            }
            other => other,
        }
        .map_err(|error| missing(error, "htb"))?;
        self.class_and_leaf(index, shaper, [flags; 2], "install a shaper")
    }

    /// Changes rate, burst and queue of a shaper that [`Self::install_shaper`] made; what waits stays, and the
    /// counters run on. With netem where there was none, or the other way round, a new queue takes the old
    /// one's place, and what waits is dropped.
    /// Errors: [`ShaperError::Netlink`] with `ENOENT` when there is no shaper, `EINVAL` when the queue counts packets
    /// instead of bytes or the other way round; [`ShaperError::NoNetem`]. But for the first the rate is changed
    /// already then.
    pub fn change_rate(&mut self, index: u32, shaper: &Shaper) -> Result<(), ShaperError> {
        shaper.check()?;
        self.class_and_leaf(index, shaper, [0, NLM_F_CREATE | NLM_F_REPLACE], "change the shaper")
    }

    /// Takes away what shapes interface `index`, with all that waits.
    /// Errors: [`NetlinkError::Refused`] (`ENOENT` when there is nothing).
    pub fn remove_shaper(&mut self, index: u32) -> Result<(), NetlinkError> {
        let message = tc_message(index, 0, TC_H_ROOT).message(libc::RTM_DELQDISC);
        self.channel.execute(&format!("remove the shaper from interface {index}"), 0, &message)
    }

    /// Counters of what shapes interface `index` (of its root queueing discipline, whatever it is).
    pub fn qdisc_statistics(&mut self, index: u32) -> Result<QdiscStatistics, NetlinkError> {
        let request = format!("read the shaper's counters of interface {index}");
        let message = tc_message(index, 0, TC_H_ROOT).message(libc::RTM_GETQDISC);
        // Without the flag the kernel sends the answer to the multicast group, but not to this socket.
        self.channel.expect(&request, NLM_F_ECHO, &message, parse_statistics)
    }

    fn class_and_leaf(
        &mut self,
        index: u32,
        shaper: &Shaper,
        [class_flags, leaf_flags]: [u16; 2],
        action: &str,
    ) -> Result<(), ShaperError> {
        let class =
            tc_described(index, CLASS, ROOT, "htb", &class_options(shaper)).message(libc::RTM_NEWTCLASS);
        let request = format!("{action} of interface {index}: rate {} bit/s", shaper.rate_bps);
        self.channel.execute(&request, class_flags, &class)?;
        let (handle, kind, options) = leaf_options(shaper);
        let leaf = tc_described(index, handle, CLASS, kind, &options).message(libc::RTM_NEWQDISC);
        let request = match shaper.netem {
            Some(netem) => format!("{action} of interface {index}: {netem:?}"),
            None => format!("{action} of interface {index}: {kind} {:?}", shaper.queue),
        };
        self.channel.execute(&request, leaf_flags, &leaf).map_err(|error| missing(error, kind))
    }
}

fn missing(error: NetlinkError, kind: &'static str) -> ShaperError {
    match (error.errno(), kind) {
        (Some(Errno::NOENT), "netem") => ShaperError::NoNetem,
        (Some(Errno::NOENT), kind) => ShaperError::NoQdisc { kind },
        _ => error.into(),
    }
}

/// Whether the kernel has netem, tried on the loopback interface of a network namespace made for that.
pub fn kernel_has_netem() -> Result<bool, ShaperError> {
    let namespace = NetNamespace::create().map_err(NetlinkError::from)?;
    let mut socket = RouteSocket::open_in(&namespace)?;
    let loopback = socket.link("lo")?.index;
    let netem = Netem { delay: Duration::ZERO, jitter: Duration::ZERO, loss: 0.0, limit_packets: 1 };
    let options = message::netem_options(&netem);
    let message = tc_described(loopback, ROOT, TC_H_ROOT, "netem", &options).message(libc::RTM_NEWQDISC);
    match socket.channel.execute("try netem", NLM_F_CREATE | NLM_F_EXCL, &message) {
        Ok(()) => Ok(true),
        Err(error) if error.errno() == Some(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts() {
        assert_eq!(default_burst_bytes(1_000_000, 1500), 3028);
        assert_eq!(default_burst_bytes(1_000_000_000, 1500), 125_000);
        assert_eq!(default_burst_bytes(10_000_000_000, 1500), 1_250_000);
        assert_eq!(default_burst_bytes(100_000_000_000, 9000), 1_250_000);
    }

    #[test]
    fn nonsense_is_refused_before_the_kernel_sees_it() {
        let good = Shaper::new(1_000_000, 1500, QueueLimit::Bytes(30_000));
        let netem = Netem { delay: Duration::ZERO, jitter: Duration::ZERO, loss: 0.0, limit_packets: 1000 };
        assert!(good.check().is_ok());
        assert!(Shaper { rate_bps: MAX_RATE_BPS, ..good.clone() }.check().is_ok());
        assert!(Shaper::new(MIN_RATE_BPS, 1500, good.queue).check().is_ok());
        let wrong = [
            Shaper { rate_bps: 7_999, ..good.clone() },
            Shaper { rate_bps: MAX_RATE_BPS + 1, ..good.clone() },
            Shaper { burst_bytes: 0, ..good.clone() },
            Shaper { burst_bytes: u64::MAX, ..good.clone() },
            Shaper { queue: QueueLimit::Bytes(0), ..good.clone() },
            Shaper { queue: QueueLimit::Bytes(1 << 32), ..good.clone() },
            Shaper { netem: Some(Netem { loss: f64::NAN, ..netem }), ..good.clone() },
            Shaper { netem: Some(Netem { limit_packets: 0, ..netem }), ..good.clone() },
            Shaper { netem: Some(Netem { delay: Duration::from_secs(61), ..netem }), ..good },
        ];
        for shaper in wrong {
            assert!(shaper.check().is_err(), "{shaper:?}");
        }
    }
}
