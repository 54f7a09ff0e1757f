//! Shapers as traffic control messages.

use pathbench_host::netlink::message::{Attributes, u32_at, u64_at};
use pathbench_host::qdisc::{
    MAX_RATE_BPS, MIN_RATE_BPS, Netem, Shaper, burst_ticks, class_options, default_burst_bytes, leaf_options,
    netem_options,
};
use proptest::prelude::*;
use std::time::Duration;

// linux/pkt_sched.h
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const TCA_NETEM_LATENCY64: u16 = 10;

#[test]
fn class_of_one_gigabit() {
    let shaper = Shaper::new(1_000_000_000, 1500, 1_000_000);
    let options = class_options(&shaper);
    let attributes = Attributes::new(&options);
    let parameters = attributes.get(TCA_HTB_PARMS).unwrap();
    assert_eq!(parameters.len(), 44, "struct tc_htb_opt");
    assert_eq!(u32_at(parameters, 8), Some(125_000_000));
    assert_eq!(u32_at(parameters, 20), Some(125_000_000));
    assert_eq!((parameters[1], parameters[13]), (1, 1));
    // 125 000 B last 1 ms, that is, 15 625 ticks of 64 ns.
    assert_eq!((u32_at(parameters, 24), u32_at(parameters, 28)), (Some(15_625), Some(15_625)));
    assert_eq!(u64_at(attributes.get(TCA_HTB_RATE64).unwrap(), 0), Some(125_000_000));
}

#[test]
fn rates_above_32_bits_use_the_64_bit_attribute() {
    let options = class_options(&Shaper::new(100_000_000_000, 1500, 1_000_000));
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
    let plain = Shaper::new(10_000_000, 1500, 100_000);
    let netem =
        Netem { delay: Duration::from_millis(10), jitter: Duration::ZERO, loss: 0.0, limit_packets: 1000 };
    let disturbed = Shaper { netem: Some(netem), ..plain.clone() };
    let (plain_handle, plain_kind, _) = leaf_options(&plain);
    let (disturbed_handle, disturbed_kind, _) = leaf_options(&disturbed);
    assert_eq!((plain_kind, disturbed_kind), ("bfifo", "netem"));
    assert_ne!(plain_handle, disturbed_handle);
    assert_eq!((plain_handle | disturbed_handle) & 0xFFFF, 0, "handles of queues have no minor number");
}

proptest! {
    #[test]
    fn the_default_burst_always_fits(rate in MIN_RATE_BPS..=MAX_RATE_BPS, mtu in 68u32..=9000) {
        let shaper = Shaper::new(rate, mtu, 1);
        prop_assert!(burst_ticks(rate, shaper.burst_bytes).is_some());
    }
}

#[test]
fn bursts() {
    assert_eq!(default_burst_bytes(1_000_000, 1500), 3028);
    assert_eq!(default_burst_bytes(1_000_000_000, 1500), 125_000);
    assert_eq!(default_burst_bytes(10_000_000_000, 1500), 1_250_000);
    assert_eq!(default_burst_bytes(100_000_000_000, 9000), 1_250_000);
}

#[test]
fn invalid_values_are_rejected_before_the_request() {
    let good = Shaper::new(1_000_000, 1500, 30_000);
    let netem = Netem { delay: Duration::ZERO, jitter: Duration::ZERO, loss: 0.0, limit_packets: 1000 };
    assert!(good.check().is_ok());
    assert!(Shaper { rate_bps: MAX_RATE_BPS, ..good.clone() }.check().is_ok());
    assert!(Shaper::new(MIN_RATE_BPS, 1500, good.queue_bytes).check().is_ok());
    let wrong = [
        Shaper { rate_bps: 7_999, ..good.clone() },
        Shaper { rate_bps: MAX_RATE_BPS + 1, ..good.clone() },
        Shaper { burst_bytes: 0, ..good.clone() },
        Shaper { burst_bytes: u64::MAX, ..good.clone() },
        Shaper { queue_bytes: 0, ..good.clone() },
        Shaper { queue_bytes: 1 << 32, ..good.clone() },
        Shaper { netem: Some(Netem { loss: f64::NAN, ..netem }), ..good.clone() },
        Shaper { netem: Some(Netem { limit_packets: 0, ..netem }), ..good.clone() },
        Shaper { netem: Some(Netem { delay: Duration::from_secs(61), ..netem }), ..good },
    ];
    for shaper in wrong {
        assert!(shaper.check().is_err(), "{shaper:?}");
    }
}
