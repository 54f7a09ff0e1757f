//! What must hold of the statistics for any sample.

use pathbench_record::statistics::{
    FEWEST_FOR_INTERVAL, distribution, median, median_interval_ranks, quantile, range,
};
use proptest::prelude::*;

fn sample(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-1e9..1e9_f64, length)
}

/// P(Binomial(n, ½) < k), by Pascal's triangle.
fn binomial_below(n: usize, k: usize) -> f64 {
    let mut row = vec![1.0];
    for _ in 0..n {
        let mut next = vec![0.5 * row[0]];
        next.extend(row.windows(2).map(|pair| 0.5 * (pair[0] + pair[1])));
        next.push(0.5 * row[row.len() - 1]);
        row = next;
    }
    row[..k].iter().sum()
}

#[test]
fn the_ranks_cover_the_median_with_95_percent_and_no_narrower_ones_do() {
    for n in FEWEST_FOR_INTERVAL..200 {
        let [low, high] = median_interval_ranks(n).unwrap();
        assert_eq!(low + high, n + 1);
        assert!(1.0 - 2.0 * binomial_below(n, low) >= 0.95, "n {n}");
        assert!(1.0 - 2.0 * binomial_below(n, low + 1) < 0.95, "n {n}");
    }
}

proptest! {
    #[test]
    fn quantiles_lie_in_the_range_and_rise(values in sample(1..40), p in 0.0..=1.0, q in 0.0..=1.0) {
        let (low, high) = if p <= q { (p, q) } else { (q, p) };
        let (a, b) = (quantile(&values, low).unwrap(), quantile(&values, high).unwrap());
        let [min, max] = range(&values).unwrap();
        // Interpolation may differ by a rounding between two equal neighbours' places.
        prop_assert!(min <= a && b <= max && a <= b + 1e-6);
    }

    #[test]
    fn the_order_of_a_sample_does_not_matter(values in sample(1..40)) {
        let mut turned = values.clone();
        turned.reverse();
        prop_assert_eq!(distribution(&values), distribution(&turned));
    }

    #[test]
    fn a_distribution_is_in_order(values in sample(1..40)) {
        let found = distribution(&values).unwrap();
        prop_assert_eq!(found.n as usize, values.len());
        prop_assert!(found.min <= found.median && found.median <= found.max);
        prop_assert_eq!(found.ci95.is_some(), values.len() >= FEWEST_FOR_INTERVAL);
        if let Some([low, high]) = found.ci95 {
            prop_assert!(found.min <= low && low <= found.median && found.median <= high && high <= found.max);
        }
    }

    #[test]
    fn half_of_a_sample_lies_on_each_side_of_its_median(values in sample(1..40)) {
        let middle = median(&values).unwrap();
        prop_assert!(values.iter().filter(|&&value| value < middle).count() * 2 <= values.len());
        prop_assert!(values.iter().filter(|&&value| value > middle).count() * 2 <= values.len());
    }
}
