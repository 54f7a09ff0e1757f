//! Messages of traffic control as `linux/pkt_sched.h` lays them out.

use super::{Netem, QdiscStatistics, QueueLimit, Shaper};
use crate::netlink::message::{Attributes, Encoder, u32_at, u64_at};
use std::time::Duration;

/// Handle of the root queueing discipline, `1:`.
pub(super) const ROOT: u32 = 0x1_0000;
/// The class that everything goes through, `1:1`.
pub(super) const CLASS: u32 = 0x1_0001;
/// Handle of the queue in that class while it is bfifo or pfifo, `10:`.
const FIFO: u32 = 0x10_0000;
/// Handle of the queue in that class while it is netem, `20:`. The kernel changes a queue that it finds under
/// the handle and refuses another kind there; under another handle it puts the new queue in the old one's place.
const NETEM: u32 = 0x20_0000;
pub(super) const TC_H_ROOT: u32 = 0xFFFF_FFFF;

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
/// The kernel then computes transmission times itself instead of reading a table (`psched_l2t_ns`).
const TC_LINKLAYER_ETHERNET: u8 = 1;
/// Unused, as the class's quantum is given; the kernel wants a divisor.
const RATE_TO_QUANTUM: u32 = 10;
/// Matters among several classes only; the most that the kernel takes without a warning in its log.
const QUANTUM_BYTES: u32 = 200_000;
/// A tick of the packet scheduler is 64 ns (`PSCHED_SHIFT`, `net/pkt_sched.h`; third number of
/// `/proc/net/psched` over the second).
const TICK_SHIFT: u32 = 6;
/// Beyond this HTB forgets debts (`mbuffer`, `net/sched/sch_htb.c`).
const MAX_BURST_NS: u128 = 60_000_000_000;

pub(super) fn tc_message(index: u32, handle: u32, parent: u32) -> Encoder {
    let words = [0, index, handle, parent, 0].map(u32::to_ne_bytes);
    Encoder::after(words.as_flattened())
}

pub(super) fn tc_described(index: u32, handle: u32, parent: u32, kind: &str, options: &[u8]) -> Encoder {
    tc_message(index, handle, parent).text(libc::TCA_KIND, kind).bytes(libc::TCA_OPTIONS, options)
}

/// Options of the root: `struct tc_htb_glob` with everything going to class 1 by default.
pub(super) fn root_options() -> Vec<u8> {
    let default_class = CLASS & 0xFFFF;
    let glob = words(&[TC_HTB_PROTOVER, RATE_TO_QUANTUM, default_class, 0, 0]);
    Encoder::default().bytes(TCA_HTB_INIT, &glob).into_bytes()
}

/// Options of the class: `struct tc_htb_opt`, with the rates in 64 bits beside it.
pub(super) fn class_options(shaper: &Shaper) -> Vec<u8> {
    let rate = shaper.rate_bps / 8;
    let ratespec = ratespec(u32::try_from(rate).unwrap_or(u32::MAX));
    // `check` has made sure that it fits.
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

/// The burst as the time it takes at the rate, in ticks; `None` when that is longer than HTB remembers.
pub(super) fn burst_ticks(rate_bps: u64, burst_bytes: u64) -> Option<u32> {
    let nanoseconds = u128::from(burst_bytes) * 8_000_000_000 / u128::from(rate_bps.max(1));
    if nanoseconds > MAX_BURST_NS {
        return None;
    }
    u32::try_from(nanoseconds >> TICK_SHIFT).ok().map(|ticks| ticks.max(1))
}

pub(super) fn leaf_options(shaper: &Shaper) -> (u32, &'static str, Vec<u8>) {
    // struct tc_fifo_qopt
    match (&shaper.netem, shaper.queue) {
        (Some(netem), _) => (NETEM, "netem", netem_options(netem)),
        (None, QueueLimit::Bytes(bytes)) => {
            (FIFO, "bfifo", words(&[u32::try_from(bytes).unwrap_or(u32::MAX)]))
        }
        (None, QueueLimit::Packets(packets)) => (FIFO, "pfifo", words(&[packets])),
    }
}

pub(super) fn netem_options(netem: &Netem) -> Vec<u8> {
    let ticks = |time: Duration| u32::try_from(time.as_nanos() >> TICK_SHIFT).unwrap_or(u32::MAX);
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let loss = (netem.loss * f64::from(u32::MAX)).round() as u32;
    let (gap, duplicate) = (0, 0);
    let options =
        words(&[ticks(netem.delay), netem.limit_packets, loss, gap, duplicate, ticks(netem.jitter)]);
    Encoder::after(&options)
        .u64(TCA_NETEM_LATENCY64, nanoseconds(netem.delay))
        .u64(TCA_NETEM_JITTER64, nanoseconds(netem.jitter))
        .into_bytes()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

pub(super) fn parse_statistics(payload: &[u8]) -> Option<QdiscStatistics> {
    let (_, attributes) = Attributes::after(payload, TC_HEADER)?;
    let attributes = attributes.nested(libc::TCA_STATS2)?;
    // struct gnet_stats_basic: bytes (8), packets (4); struct gnet_stats_queue: five words.
    let (basic, queue) = (attributes.get(TCA_STATS_BASIC)?, attributes.get(TCA_STATS_QUEUE)?);
    let packets = attributes.get(TCA_STATS_PKT64).and_then(|value| u64_at(value, 0));
    Some(QdiscStatistics {
        bytes: u64_at(basic, 0)?,
        packets: packets.or_else(|| u32_at(basic, 8).map(u64::from))?,
        backlog_packets: u32_at(queue, 0)?,
        backlog_bytes: u32_at(queue, 4)?,
        drops: u32_at(queue, 8)?,
        overlimits: u32_at(queue, 16)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::{MAX_RATE_BPS, MIN_RATE_BPS};
    use proptest::prelude::*;

    #[test]
    fn class_of_one_gigabit() {
        let shaper = Shaper::new(1_000_000_000, 1500, QueueLimit::Bytes(1_000_000));
        let options = class_options(&shaper);
        let attributes = Attributes::new(&options);
        let parameters = attributes.get(TCA_HTB_PARMS).unwrap();
        assert_eq!(parameters.len(), 44, "struct tc_htb_opt");
        assert_eq!(u32_at(parameters, 8), Some(125_000_000));
        assert_eq!(u32_at(parameters, 20), Some(125_000_000));
        assert_eq!((parameters[1], parameters[13]), (1, 1));
        // 125 000 B last 1 ms, which are 15 625 ticks of 64 ns.
        assert_eq!((u32_at(parameters, 24), u32_at(parameters, 28)), (Some(15_625), Some(15_625)));
        assert_eq!(u64_at(attributes.get(TCA_HTB_RATE64).unwrap(), 0), Some(125_000_000));
    }

    #[test]
    fn rates_beyond_32_bits_stand_in_the_wide_attribute() {
        let options = class_options(&Shaper::new(100_000_000_000, 1500, QueueLimit::Packets(1000)));
        let attributes = Attributes::new(&options);
        assert_eq!(u32_at(attributes.get(TCA_HTB_PARMS).unwrap(), 8), Some(u32::MAX));
        assert_eq!(u64_at(attributes.get(TCA_HTB_CEIL64).unwrap(), 0), Some(12_500_000_000));
    }

    #[test]
    fn netem_of_ten_milliseconds() {
        let netem = Netem {
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(1),
            loss: 0.5,
            limit_packets: 1000,
        };
        let options = netem_options(&netem);
        assert_eq!(u32_at(&options, 0), Some(156_250));
        assert_eq!(u32_at(&options, 4), Some(1000));
        assert_eq!(u32_at(&options, 8), Some(1 << 31));
        assert_eq!(u32_at(&options, 20), Some(15_625));
        let attributes = Attributes::new(&options[24..]);
        assert_eq!(u64_at(attributes.get(TCA_NETEM_LATENCY64).unwrap(), 0), Some(10_000_000));
    }

    #[test]
    fn netem_and_a_plain_queue_have_handles_of_their_own() {
        let plain = Shaper::new(10_000_000, 1500, QueueLimit::Bytes(100_000));
        let netem = Netem {
            delay: Duration::from_millis(10),
            jitter: Duration::ZERO,
            loss: 0.0,
            limit_packets: 1000,
        };
        let disturbed = Shaper { netem: Some(netem), ..plain.clone() };
        let (plain_handle, plain_kind, _) = leaf_options(&plain);
        let (disturbed_handle, disturbed_kind, _) = leaf_options(&disturbed);
        assert_eq!((plain_kind, disturbed_kind), ("bfifo", "netem"));
        assert_ne!(plain_handle, disturbed_handle);
        assert_eq!((plain_handle | disturbed_handle) & 0xFFFF, 0, "handles of queues have no minor number");
    }

    proptest! {
        #[test]
        fn any_bytes(payload: Vec<u8>) {
            let _ = parse_statistics(&payload);
        }

        #[test]
        fn the_default_burst_always_fits(rate in MIN_RATE_BPS..=MAX_RATE_BPS, mtu in 68u32..=9000) {
            let shaper = Shaper::new(rate, mtu, QueueLimit::Packets(1));
            prop_assert!(burst_ticks(rate, shaper.burst_bytes).is_some());
        }
    }
}
