//! Quantities in words.

use pathbench_report::quantity::{
    NONE, bit_rate, bounds, bytes, distribution, duration, each_direction, percent, plain, rate, ratio,
    spread,
};

#[test]
fn directions_that_differ_both_appear() {
    let words = |forward, reverse| each_direction(forward, reverse, |bps| plain(&bit_rate(bps)));
    assert_eq!(words(Some(20_000_000), Some(50_000_000)).as_deref(), Some("20 Mbit/s / 50 Mbit/s"));
    assert_eq!(words(Some(20_000_000), Some(20_000_000)).as_deref(), Some("20 Mbit/s"));
    assert_eq!(words(None, Some(1_000_000_000)).as_deref(), Some("– / 1 Gbit/s"));
    assert_eq!(words(None, None), None);
}

#[test]
fn the_unit_fits_the_value() {
    assert_eq!(rate(938.4), "938 Mbit/s");
    assert_eq!(rate(999.7), "1.00 Gbit/s");
    assert_eq!(rate(18_412.0), "18.4 Gbit/s");
    assert_eq!(rate(0.0512), "51.2 kbit/s");
    assert_eq!(rate(0.0), "0 Mbit/s");
    assert_eq!(duration(0.35), "350 µs");
    assert_eq!(duration(2.04), "2.04 ms");
    assert_eq!(duration(212.4), "212 ms");
    assert_eq!(duration(2412.0), "2.41 s");
    assert_eq!(duration(924_000.0), "15.4 min");
    assert_eq!(bytes(999), "999 B");
    assert_eq!(bytes(1_250_000_000), "1.25 GB");
    assert_eq!(percent(0.663), "66 %");
    assert_eq!(percent(0.004), "0.4 %");
    assert_eq!(percent(0.0001), "< 0.1 %");
    assert_eq!(percent(0.0), "0 %");
    assert_eq!(ratio(1.958), "1.96 ×");
}

#[test]
fn a_median_has_the_same_bounds_everywhere_and_they_are_named() {
    let five = [1.0, 2.0, 3.0, 4.0, 50.0];
    assert_eq!(spread(&five, duration).as_deref(), Some("3.00 ms (range 1.00–50.0)"));
    let nine = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 90.0];
    // The second lowest and the second highest of nine values.
    assert_eq!(spread(&nine, duration).as_deref(), Some("5.00 ms (95 % CI 2.00–8.00)"));
    assert_eq!(bounds(&distribution(&nine).unwrap(), duration), "95 % CI 2.00–8.00");
    assert_eq!(spread(&[3.0], duration).as_deref(), Some("3.00 ms"));
    assert_eq!(spread(&[3.0; 9], duration).as_deref(), Some("3.00 ms"));
    assert_eq!(spread(&[], duration), None);
}

#[test]
fn a_value_that_is_not_a_number_is_a_dash() {
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(rate(odd), NONE);
        assert_eq!(duration(odd), NONE);
        assert_eq!(percent(odd), NONE);
        assert_eq!(ratio(odd), NONE);
    }
}
