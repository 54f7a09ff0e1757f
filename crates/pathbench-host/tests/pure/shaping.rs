//! Shapers as traffic control messages.

use pathbench_host::netlink::message::{Attributes, Encoder, u32_at, u64_at};
use pathbench_host::qdisc::{
    MAX_RATE_BPS, MIN_RATE_BPS, Netem, Shaper, burst_ticks, class_options, default_burst_bytes, leaf_options,
    netem_options,
};
use pathbench_host::shaping::{Shaping, parse_htb_class, parse_qdisc};
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

/// An `RTM_NEWQDISC` of interface 7 below `parent`.
fn qdisc(parent: u32, kind: &str, options: Encoder) -> Vec<u8> {
    let header = [0, 7, 1 << 16, parent, 0].map(u32::to_ne_bytes);
    let message = Encoder::with_header(header.as_flattened()).text(libc::TCA_KIND, kind);
    message.bytes(libc::TCA_OPTIONS, &options.into_bytes()).into_bytes()
}

/// `struct tc_tbf_qopt` with this rate in bytes per second: rate, peak rate, limit, buffer, MTU.
fn tbf(rate: u32) -> Encoder {
    let words = [0, 0, rate, 0, 0, 0, 100_000, 0, 0].map(u32::to_ne_bytes);
    Encoder::default().bytes(1, words.as_flattened())
}

#[test]
fn disciplines_that_limit_an_interface_are_recognised() {
    const ROOT: u32 = u32::MAX;
    let found = |kind: &str, options| parse_qdisc(&qdisc(ROOT, kind, options));
    let shaping = |kind: &str, rate_bps| Some(Shaping { interface: 7, kind: kind.to_owned(), rate_bps });
    assert_eq!(found("tbf", tbf(1_250_000)), shaping("tbf", Some(10_000_000)));
    // Above 32 bits: TCA_TBF_RATE64.
    let wide = tbf(u32::MAX).u64(4, 12_500_000_000);
    assert_eq!(found("tbf", wide), shaping("tbf", Some(100_000_000_000)));
    assert_eq!(found("cake", Encoder::default().u64(2, 2_500_000)), shaping("cake", Some(20_000_000)));
    assert_eq!(found("cake", Encoder::default().u64(2, 0)), None);
    let netem = Encoder::with_header(&netem_options(&Netem {
        delay: Duration::from_millis(20),
        jitter: Duration::ZERO,
        loss: 0.0,
        limit_packets: 100,
    }));
    assert_eq!(found("netem", netem), shaping("netem", None));
    assert_eq!(found("hfsc", Encoder::default()), shaping("hfsc", None));
    assert_eq!(found("fq_codel", Encoder::default()), None);
    // A child: its parent is listed.
    assert_eq!(parse_qdisc(&qdisc(1 << 16, "tbf", tbf(1_250_000))), None);
}

#[test]
fn the_ceiling_of_a_class_is_its_rate() {
    let shaper = Shaper::new(1_000_000_000, 1500, 1_000_000);
    let class = |parent| qdisc(parent, "htb", Encoder::with_header(&class_options(&shaper)));
    assert_eq!(parse_htb_class(&class(u32::MAX)), Some(1_000_000_000));
    assert_eq!(parse_htb_class(&class(0x1_0001)), None);
}

proptest! {
    #[test]
    fn bytes_of_any_kind_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0_usize..120) {
        let _ = (parse_qdisc(&bytes), parse_htb_class(&bytes));
        let message = qdisc(u32::MAX, "netem", tbf(1));
        let message = &message[..cut.min(message.len())];
        let _ = (parse_qdisc(message), parse_htb_class(message));
    }
}
