//! Shaping: a rate, a bounded queue and, where supported, delay and loss. The messages follow `linux/pkt_sched.h`.
//!
//! ```text
//! root 1: htb ── class 1:1 (rate = ceil, everything) ── leaf 10: bfifo | pfifo, or 20: netem
//! ```

use crate::namespace::NetNamespace;
use crate::netlink::message::{Attributes, Encoder, u32_at, u64_at};
use crate::netlink::{NetlinkError, RouteSocket};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_ECHO, NLM_F_EXCL, NLM_F_REPLACE};
use pathbench_record::network::ETHERNET_HEADER_BYTES;
use rustix::io::Errno;
use std::time::Duration;

/// Handle of the root queueing discipline, `1:`.
const ROOT: u32 = 0x1_0000;
/// The class of all packets, `1:1`.
const CLASS: u32 = 0x1_0001;
/// Handle of a bfifo queue in the class, `10:`.
const FIFO: u32 = 0x10_0000;
/// Handle of a netem queue in the class, `20:`. The kernel modifies an existing queue with the same handle and rejects
/// another kind; a queue with another handle replaces the existing one.
const NETEM: u32 = 0x20_0000;
const TC_H_ROOT: u32 = 0xFFFF_FFFF;

/// `struct tcmsg`: family and padding, interface, handle, parent, info.
const TC_HEADER: usize = 20;
// linux/gen_stats.h
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_JITTER64: u16 = 11;
const TC_HTB_PROTOVER: u32 = 3;
/// The kernel computes transmission times itself instead of reading a table (`psched_l2t_ns`).
const TC_LINKLAYER_ETHERNET: u8 = 1;
/// Unused, because the class's quantum is set; the kernel requires a divisor.
const RATE_TO_QUANTUM: u32 = 10;
/// Relevant for several classes only; the largest value without a warning in the kernel log.
const QUANTUM_BYTES: u32 = 200_000;
/// A tick of the packet scheduler is 64 ns (`PSCHED_SHIFT`, `net/pkt_sched.h`; third number of `/proc/net/psched`
/// divided by the second).
const TICK_SHIFT: u32 = 6;
/// HTB limits debts to this duration (`mbuffer`, `net/sched/sch_htb.c`).
const MAX_BURST_NS: u128 = 60_000_000_000;

pub const MIN_RATE_BPS: u64 = 8_000;
pub const MAX_RATE_BPS: u64 = 100_000_000_000;

/// Idle time that a class can make up for. Timers fire up to 1 ms late on a busy machine, and the missed time reduces
/// the rate: at 1 Gbit/s on two busy cores, 0.05 ms reduced it by up to 5 %, 0.2 ms by 1.5 %, 1 ms by less than 0.1 %.
const BURST_TIME: Duration = Duration::from_millis(1);
/// Bytes at 10 Gbit/s in that time; faster links are never delayed that much.
const MAX_BURST_BYTES: u64 = 1_250_000;

/// A shaper for the outgoing packets of an interface.
///
/// Rate and sizes count Ethernet frames without preamble and FCS. A GSO packet counts as its segments.
#[derive(Debug, Clone, PartialEq)]
pub struct Shaper {
    /// Bits per second, [`MIN_RATE_BPS`] to [`MAX_RATE_BPS`].
    pub rate_bps: u64,
    /// Bytes that may pass at once after a pause; see [`default_burst_bytes`].
    pub burst_bytes: u64,
    /// Limit of the queue. Must hold the largest packet, up to 64 KiB with segmentation offload. In bytes, because the
    /// kernel would count a GSO packet as one.
    pub queue_bytes: u64,
    /// Delay and loss before the rate. Its own limit replaces `queue_bytes`.
    pub netem: Option<Netem>,
}

/// Delay and random loss by the kernel's network emulator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Netem {
    pub delay: Duration,
    /// Maximum deviation from `delay` in both directions, uniformly distributed. It reorders packets.
    pub jitter: Duration,
    /// Fraction of lost packets, 0 to 1, independent of each other.
    pub loss: f64,
    /// Maximum number of packets delayed or queued.
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
    /// Number of times that the rate limit delayed a packet.
    pub overlimits: u32,
}

impl QdiscStatistics {
    /// Parses the counters in an `RTM_NEWQDISC` message.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (_, attributes) = Attributes::parse_after_header(payload, TC_HEADER)?;
        let attributes = attributes.nested(libc::TCA_STATS2)?;
        // struct gnet_stats_basic: bytes (8), packets (4); struct gnet_stats_queue: five words.
        let (basic, queue) = (attributes.get(TCA_STATS_BASIC)?, attributes.get(TCA_STATS_QUEUE)?);
        let packets = attributes.get(TCA_STATS_PKT64).and_then(|value| u64_at(value, 0));
        Some(Self {
            bytes: u64_at(basic, 0)?,
            packets: packets.or_else(|| u32_at(basic, 8).map(u64::from))?,
            backlog_packets: u32_at(queue, 0)?,
            backlog_bytes: u32_at(queue, 4)?,
            drops: u32_at(queue, 8)?,
            overlimits: u32_at(queue, 16)?,
        })
    }
}

impl Shaper {
    /// A shaper with the default burst for packets of `mtu` bytes, and with neither delay nor loss.
    pub fn new(rate_bps: u64, mtu: u32, queue_bytes: u64) -> Self {
        Self { rate_bps, burst_bytes: default_burst_bytes(rate_bps, mtu), queue_bytes, netem: None }
    }

    /// Whether the kernel supports the values.
    pub fn check(&self) -> Result<(), ShaperError> {
        let invalid = |what| Err(ShaperError::Invalid { what, shaper: Box::new(self.clone()) });
        if !(MIN_RATE_BPS..=MAX_RATE_BPS).contains(&self.rate_bps) {
            return invalid("the rate must be 8 kbit/s to 100 Gbit/s");
        }
        if self.burst_bytes == 0 || burst_ticks(self.rate_bps, self.burst_bytes).is_none() {
            return invalid("the burst must be at least a byte and last at most 60 s at the rate");
        }
        if !(1..=u64::from(u32::MAX)).contains(&self.queue_bytes) {
            return invalid("the queue must have at least a byte and be shorter than 4 GiB");
        }
        match self.netem {
            Some(netem) if !(0.0..=1.0).contains(&netem.loss) => invalid("the loss must be 0 to 1"),
            Some(netem) if netem.limit_packets == 0 => invalid("netem's queue limit must not be 0"),
            Some(netem) if netem.delay.max(netem.jitter) > Duration::from_secs(60) => {
                invalid("delay and jitter can be 60 s at most")
            }
            _ => Ok(()),
        }
    }
}

/// A burst that keeps the rate despite late timers: the bytes of 1 ms at the rate, at least two full frames, at most
/// 1.25 MB.
pub fn default_burst_bytes(rate_bps: u64, mtu: u32) -> u64 {
    let by_time = u128::from(rate_bps) * BURST_TIME.as_micros() / 8_000_000;
    let two_frames = 2 * u64::from(mtu + ETHERNET_HEADER_BYTES);
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
    /// Shapes the outgoing packets of interface `index`, and replaces its queueing disciplines.
    /// Errors: the interface may then have no shaper.
    pub fn install_shaper(&mut self, index: u32, shaper: &Shaper) -> Result<(), ShaperError> {
        shaper.check()?;
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        let request = format!("install a shaper on interface {index}");
        let root = encode_tc(index, ROOT, TC_H_ROOT, "htb", &root_options()).message(libc::RTM_NEWQDISC);
        match self.channel.execute(&request, flags, &root) {
            Err(error) if error.is_already_there() => {
                self.remove_shaper(index)?;
                self.channel.execute(&request, flags, &root)
            }
            other => other,
        }
        .map_err(|error| classify_missing(error, "htb"))?;
        self.class_and_leaf(index, shaper, [flags; 2], "install a shaper")
    }

    /// Changes rate, burst and queue of a shaper from [`Self::install_shaper`]; queued packets stay, and the counters
    /// continue. A change between netem and a plain queue replaces the queue and drops its packets.
    /// Errors: [`ShaperError::Netlink`] with `ENOENT` if there is no shaper; [`ShaperError::NoNetem`], after which the
    /// rate has changed already.
    pub fn change_rate(&mut self, index: u32, shaper: &Shaper) -> Result<(), ShaperError> {
        shaper.check()?;
        self.class_and_leaf(index, shaper, [0, NLM_F_CREATE | NLM_F_REPLACE], "change the shaper")
    }

    /// Removes the shaper of interface `index` and its queued packets.
    /// Errors: [`NetlinkError::Refused`] (`ENOENT` if there is none).
    pub fn remove_shaper(&mut self, index: u32) -> Result<(), NetlinkError> {
        let message = tc_message(index, 0, TC_H_ROOT).message(libc::RTM_DELQDISC);
        self.channel.execute(&format!("remove the shaper from interface {index}"), 0, &message)
    }

    /// Counters of the root queueing discipline of interface `index`, of any kind.
    pub fn qdisc_statistics(&mut self, index: u32) -> Result<QdiscStatistics, NetlinkError> {
        let request = format!("read the shaper's counters of interface {index}");
        let message = tc_message(index, 0, TC_H_ROOT).message(libc::RTM_GETQDISC);
        // Without the flag the kernel sends the answer to the multicast group, but not to this socket.
        self.channel.expect(&request, NLM_F_ECHO, &message, QdiscStatistics::parse)
    }

    fn class_and_leaf(
        &mut self,
        index: u32,
        shaper: &Shaper,
        [class_flags, leaf_flags]: [u16; 2],
        action: &str,
    ) -> Result<(), ShaperError> {
        let class = encode_tc(index, CLASS, ROOT, "htb", &class_options(shaper)).message(libc::RTM_NEWTCLASS);
        let request = format!("{action} of interface {index}: rate {} bit/s", shaper.rate_bps);
        self.channel.execute(&request, class_flags, &class)?;
        let (handle, kind, options) = leaf_options(shaper);
        let leaf = encode_tc(index, handle, CLASS, kind, &options).message(libc::RTM_NEWQDISC);
        let request = match shaper.netem {
            Some(netem) => format!("{action} of interface {index}: {netem:?}"),
            None => format!("{action} of interface {index}: {kind} of {} bytes", shaper.queue_bytes),
        };
        self.channel.execute(&request, leaf_flags, &leaf).map_err(|error| classify_missing(error, kind))
    }
}

fn classify_missing(error: NetlinkError, kind: &'static str) -> ShaperError {
    match (error.errno(), kind) {
        (Some(Errno::NOENT), "netem") => ShaperError::NoNetem,
        (Some(Errno::NOENT), kind) => ShaperError::NoQdisc { kind },
        _ => error.into(),
    }
}

fn tc_message(index: u32, handle: u32, parent: u32) -> Encoder {
    let words = [0, index, handle, parent, 0].map(u32::to_ne_bytes);
    Encoder::with_header(words.as_flattened())
}

fn encode_tc(index: u32, handle: u32, parent: u32, kind: &str, options: &[u8]) -> Encoder {
    tc_message(index, handle, parent).text(libc::TCA_KIND, kind).bytes(libc::TCA_OPTIONS, options)
}

/// Options of the root: `struct tc_htb_glob` with class 1 as the default.
fn root_options() -> Vec<u8> {
    let default_class = CLASS & 0xFFFF;
    let glob = words(&[TC_HTB_PROTOVER, RATE_TO_QUANTUM, default_class, 0, 0]);
    Encoder::default().bytes(TCA_HTB_INIT, &glob).into_bytes()
}

/// Options of the class: `struct tc_htb_opt`, with separate 64-bit rates.
pub fn class_options(shaper: &Shaper) -> Vec<u8> {
    let rate = shaper.rate_bps / 8;
    let ratespec = ratespec(u32::try_from(rate).unwrap_or(u32::MAX));
    // `check` has verified that it fits.
    let burst = burst_ticks(shaper.rate_bps, shaper.burst_bytes).unwrap_or(u32::MAX);
    let (level, priority) = (0, 0);
    let parameters =
        [&ratespec[..], &ratespec, &words(&[burst, burst, QUANTUM_BYTES, level, priority])].concat();
    Encoder::default()
        .bytes(TCA_HTB_PARMS, &parameters)
        .u64(TCA_HTB_RATE64, rate)
        .u64(TCA_HTB_CEIL64, rate)
        .into_bytes()
}

/// `struct tc_ratespec`: `cell_log`, `linklayer`, `overhead` (2), `cell_align` (2), `mpu` (2), `rate` in
/// bytes per second (4).
fn ratespec(bytes_per_second: u32) -> [u8; 12] {
    let mut spec = [0; 12];
    spec[1] = TC_LINKLAYER_ETHERNET;
    spec[8..].copy_from_slice(&bytes_per_second.to_ne_bytes());
    spec
}

/// The burst as its duration at the rate, in ticks; `None` if HTB cannot represent it.
pub fn burst_ticks(rate_bps: u64, burst_bytes: u64) -> Option<u32> {
    let nanoseconds = u128::from(burst_bytes) * 8_000_000_000 / u128::from(rate_bps.max(1));
    if nanoseconds > MAX_BURST_NS {
        return None;
    }
    u32::try_from(nanoseconds >> TICK_SHIFT).ok().map(|ticks| ticks.max(1))
}

pub fn leaf_options(shaper: &Shaper) -> (u32, &'static str, Vec<u8>) {
    // struct tc_fifo_qopt
    match &shaper.netem {
        Some(netem) => (NETEM, "netem", netem_options(netem)),
        None => (FIFO, "bfifo", words(&[u32::try_from(shaper.queue_bytes).unwrap_or(u32::MAX)])),
    }
}

pub fn netem_options(netem: &Netem) -> Vec<u8> {
    let ticks = |time: Duration| u32::try_from(time.as_nanos() >> TICK_SHIFT).unwrap_or(u32::MAX);
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let loss = (netem.loss * f64::from(u32::MAX)).round() as u32;
    let (gap, duplicate) = (0, 0);
    let options =
        words(&[ticks(netem.delay), netem.limit_packets, loss, gap, duplicate, ticks(netem.jitter)]);
    Encoder::with_header(&options)
        .u64(TCA_NETEM_LATENCY64, nanoseconds(netem.delay))
        .u64(TCA_NETEM_JITTER64, nanoseconds(netem.jitter))
        .into_bytes()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Whether the kernel has netem, tested on the loopback interface of a new network namespace.
pub fn kernel_has_netem() -> Result<bool, ShaperError> {
    let namespace = NetNamespace::create().map_err(NetlinkError::from)?;
    let mut socket = RouteSocket::open_in(&namespace)?;
    let loopback = socket.link("lo")?.index;
    let netem = Netem { delay: Duration::ZERO, jitter: Duration::ZERO, loss: 0.0, limit_packets: 1 };
    let options = netem_options(&netem);
    let message = encode_tc(loopback, ROOT, TC_H_ROOT, "netem", &options).message(libc::RTM_NEWQDISC);
    match socket.channel.execute("try netem", NLM_F_CREATE | NLM_F_EXCL, &message) {
        Ok(()) => Ok(true),
        Err(error) if error.errno() == Some(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
