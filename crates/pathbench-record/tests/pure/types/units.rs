use pathbench_record::units::*;
use proptest::prelude::*;
use std::str::FromStr;
use std::time::Duration;

fn refused<T: FromStr<Err = UnitError>>(text: &str) -> String {
    match text.parse::<T>() {
        Ok(_) => panic!("`{text}` was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn rates_are_read_exactly() {
    for (text, bps) in [
        ("50mbit", 50_000_000),
        ("1gbit", 1_000_000_000),
        ("2.5gbit", 2_500_000_000),
        ("0.5kbit", 500),
        ("9bit", 9),
        ("50Mbit", 50_000_000),
        (" 50 mbit ", 50_000_000),
    ] {
        assert_eq!(text.parse(), Ok(Rate(bps)), "{text}");
    }
    assert_eq!(Rate(2_500_000_000).to_string(), "2.5gbit");
    assert_eq!(Rate(1_000_001).to_string(), "1.000001mbit");
    assert_eq!(Rate(0).to_string(), "0bit");
}

#[test]
fn errors_name_the_valid_form() {
    let remedy = "give a number with bit, kbit, mbit or gbit (per second), as in \"50mbit\"";
    assert_eq!(
        refused::<Rate>("50mbps"),
        format!("`50mbps` has the unit `mbps`, which is unknown or ambiguous; {remedy}")
    );
    assert_eq!(refused::<Rate>("50"), format!("`50` has no unit; {remedy}"));
    assert_eq!(refused::<Rate>("fast"), format!("`fast` is not a rate; {remedy}"));
    assert_eq!(refused::<Rate>("-1mbit"), format!("`-1mbit` is negative; {remedy}"));
    assert_eq!(
        refused::<Rate>("1.5bit"),
        format!("`1.5bit` is not a whole number of bits per second; {remedy}")
    );
    assert_eq!(refused::<Rate>("99999999999gbit"), format!("`99999999999gbit` is too large; {remedy}"));
    assert_eq!(refused::<Rate>("1.2.3mbit"), format!("`1.2.3mbit` is not a rate; {remedy}"));
    assert_eq!(refused::<Rate>(""), format!("an empty text is not a rate; {remedy}"));
    assert!(refused::<Span>("1").starts_with("`1` has no unit; give a number with us, ms, s, m"));
    assert!(refused::<Span>("1min").contains("the unit `min`"));
    assert!(refused::<Span>("1MS").contains("spells the unit ms wrongly"));
    assert!(refused::<Size>("64k").contains("the unit `k`"));
    assert!(refused::<Size>("64KB").contains("unknown or ambiguous"));
    assert!(refused::<Percent>("0.1").starts_with("`0.1` has no unit; give a percentage with its sign"));
    assert!(refused::<Percent>("101%").starts_with("`101%` is more than the whole"));
    assert!(refused::<QueueLimit>("100").starts_with("`100` has no unit; give a time at the link's rate"));
    assert!(refused::<QueueLimit>("1.5p").contains("not a whole number of packets"));
}

#[test]
fn durations_sizes_and_queues_are_read() {
    for (text, nanos) in [
        ("1ms", 1_000_000),
        ("250us", 250_000),
        ("3s", 3_000_000_000),
        ("2m", 120_000_000_000),
        ("0.5ms", 500_000),
    ] {
        assert_eq!(text.parse(), Ok(Span(Duration::from_nanos(nanos))), "{text}");
    }
    for (text, bytes) in
        [("1500", 1500), ("256kB", 256_000), ("64KiB", 65_536), ("10MB", 10_000_000), ("1.5KiB", 1536)]
    {
        assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
    }
    assert_eq!("100ms".parse(), Ok(QueueLimit::Time(Duration::from_millis(100))));
    assert_eq!("200p".parse(), Ok(QueueLimit::Packets(200)));
    assert_eq!("256kB".parse(), Ok(QueueLimit::Bytes(256_000)));
    assert!(("0.1%".parse::<Percent>().unwrap().fraction() - 0.001).abs() < 1e-15);
    assert_eq!(Span(Duration::from_secs(90)).to_string(), "90s");
    assert_eq!(Span(Duration::from_micros(1500)).to_string(), "1.5ms");
    assert_eq!(Size(65_536).to_string(), "64KiB");
    assert_eq!(QueueLimit::Bytes(1501).to_string(), "1501B");
}

proptest! {
    #[test]
    fn printed_quantities_parse_back(
        number in any::<u64>(), small in any::<u32>(), percent in 0_u32..=1_000_000_000
    ) {
        prop_assert_eq!(Rate(number).to_string().parse(), Ok(Rate(number)));
        prop_assert_eq!(Size(number).to_string().parse(), Ok(Size(number)));
        let time = Duration::from_nanos(number);
        prop_assert_eq!(Span(time).to_string().parse(), Ok(Span(time)));
        let percent: Percent = format!("{}.{:07}%", percent / 10_000_000, percent % 10_000_000).parse().unwrap();
        prop_assert_eq!(percent.to_string().parse(), Ok(percent));
        for queue in [QueueLimit::Time(time), QueueLimit::Packets(small), QueueLimit::Bytes(number)] {
            prop_assert_eq!(queue.to_string().parse(), Ok(queue));
        }
    }

    #[test]
    fn round_numbers_survive_too(number in 0_u64..10_000, unit in 0_usize..4) {
        let bps = number * [1, 1_000, 1_000_000, 1_000_000_000][unit];
        prop_assert_eq!(Rate(bps).to_string().parse(), Ok(Rate(bps)));
        prop_assert_eq!(Size(number << (10 * unit)).to_string().parse(), Ok(Size(number << (10 * unit))));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,12}", number in "[0-9.]{0,40}", unit in "[a-zA-Z%]{0,4}") {
        for text in [text, format!("{number}{unit}")] {
            // An accepted text prints as another accepted text.
            if let Ok(rate) = text.parse::<Rate>() { prop_assert_eq!(rate.to_string().parse(), Ok(rate)); }
            if let Ok(span) = text.parse::<Span>() { prop_assert_eq!(span.to_string().parse(), Ok(span)); }
            if let Ok(size) = text.parse::<Size>() { prop_assert_eq!(size.to_string().parse(), Ok(size)); }
            if let Ok(part) = text.parse::<Percent>() { prop_assert_eq!(part.to_string().parse(), Ok(part)); }
            if let Ok(queue) = text.parse::<QueueLimit>() { prop_assert_eq!(queue.to_string().parse(), Ok(queue)); }
        }
    }
}

#[test]
fn percentages_are_exact_fractions() {
    for (text, fraction) in [("0%", 0.0), ("0.0000001%", 1e-9), ("25%", 0.25), ("100%", 1.0)] {
        assert!((text.parse::<Percent>().unwrap().fraction() - fraction).abs() < 1e-15, "{text}");
    }
    assert!(refused::<Percent>("0.00000001%").contains("not a multiple of 0.0000001%"));
    assert_eq!(Percent::whole(25), "25%".parse().unwrap());
    assert_eq!(Percent::whole(101), "100%".parse().unwrap());
}

#[test]
fn the_largest_number_is_2_to_the_power_of_64_less_1() {
    assert_eq!("18446744073709551615bit".parse(), Ok(Rate(u64::MAX)));
    assert!(refused::<Rate>("18446744073709551616bit").contains("is too large"));
    assert!(refused::<Rate>("000000000000000000000100000000000000000000bit").contains("is too large"));
    assert_eq!("00000000000000000000000000000007bit".parse(), Ok(Rate(7)));
    assert!(refused::<Rate>("0.0000000000000000001gbit").contains("a whole number of bits per second"));
    assert_eq!("0.5000000000000000000000gbit".parse(), Ok(Rate(500_000_000)));
    for text in ["1.bit", ".5bit", ".bit"] {
        assert!(refused::<Rate>(text).contains("is not a rate"), "{text}");
    }
}

#[test]
fn durations_in_json_are_milliseconds() {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Timed {
        #[serde(with = "milliseconds")]
        time_ms: Duration,
    }
    let timed = |time_ms| Timed { time_ms };
    let json = serde_json::to_string(&timed(Duration::from_micros(1_500))).unwrap();
    assert_eq!(json, r#"{"time_ms":1.5}"#);
    assert_eq!(serde_json::from_str::<Timed>(&json).unwrap(), timed(Duration::from_micros(1_500)));
    for wrong in ["-1", "1.9e13"] {
        assert!(serde_json::from_str::<Timed>(&format!(r#"{{"time_ms":{wrong}}}"#)).is_err(), "{wrong}");
    }
}
