//! Buckets of figures: their width and order, and numbers that are no figures.

use pathbench_collector::facts::Bucket;
use pathbench_collector::facts::bucket::BUCKETS;
use proptest::prelude::*;

#[test]
fn numbers_that_are_no_figures_have_a_bucket_or_none() {
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(Bucket::from_value(odd), Bucket::ABSENT);
    }
    assert_eq!(Bucket::from_value(0.0).value(), Some(0.0));
    assert_eq!(Bucket::from_value(-0.0), Bucket::from_value(0.0));
    assert!(Bucket::from_value(1e300).index() < BUCKETS);
    assert_eq!(Bucket::from_value(f64::MIN_POSITIVE).value(), Some(0.0));
    assert_eq!(Bucket::read(u16::MAX), Bucket::ABSENT);
    assert_eq!(Bucket::from_value(3.0).ratio_to(Bucket::from_value(0.0)), Bucket::ABSENT);
}

proptest! {
    #[test]
    fn a_bucket_is_at_most_1_6_percent_wide(value in 1e-5_f64..1e12, negative: bool) {
        let value = if negative { -value } else { value };
        let bucket = Bucket::from_value(value);
        let found = bucket.value().unwrap();
        prop_assert!((found / value - 1.0).abs() <= 0.008, "{value} became {found}");
        prop_assert_eq!(Bucket::from_value(found), bucket);
        prop_assert_eq!(Bucket::read(bucket.0), bucket);
    }

    #[test]
    fn buckets_have_the_order_of_their_numbers(one in 0.0..1e12_f64, other in 0.0..1e12_f64) {
        prop_assert!(one > other || Bucket::from_value(one) <= Bucket::from_value(other));
    }
}
