use pathbench_record::statistics::*;

#[test]
fn quantiles_are_those_of_r_type_7() {
    // R: quantile(c(1, 3, 4, 10), c(.1, .25, .5, .95))
    let values = [10.0, 1.0, 4.0, 3.0];
    for (p, expected) in [(0.0, 1.0), (0.1, 1.6), (0.25, 2.5), (0.5, 3.5), (0.95, 9.1), (1.0, 10.0)] {
        let found = quantile(&values, p).unwrap();
        assert!((found - expected).abs() < 1e-12, "p {p}: {found}");
    }
}

#[test]
fn ranks_are_those_of_the_printed_tables() {
    // 95 % ranks for the median, e.g. Conover, Practical Nonparametric Statistics, table A3.
    let table: [(usize, [usize; 2]); 7] =
        [(6, [1, 6]), (8, [1, 8]), (9, [2, 8]), (10, [2, 9]), (20, [6, 15]), (30, [10, 21]), (100, [40, 61])];
    for (n, ranks) in table {
        assert_eq!(median_interval_ranks(n), Some(ranks), "n {n}");
    }
    assert_eq!(median_interval_ranks(5), None);
    // Normal approximation for an n at which 2⁻ⁿ is zero in f64: n/2 ± 0.98·√n.
    let [low, high] = median_interval_ranks(10_000).unwrap();
    assert!((4901..=4903).contains(&low), "{low}");
    assert_eq!(low + high, 10_001);
}

#[test]
fn values_that_are_not_finite_are_rejected() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(median(&[1.0, bad]), None);
        assert_eq!(distribution(&[1.0, bad]), None);
    }
    assert_eq!(median(&[]), None);
    assert_eq!(quantile(&[1.0], 1.1), None);
    assert_eq!(quantile(&[1.0], f64::NAN), None);
}

#[test]
fn the_draws_are_those_of_the_reference() {
    // The generator of java.util.SplittableRandom and of Vigna's splitmix64.c.
    let mut random = SplitMix64::new(1_234_567);
    let drawn = [random.draw(), random.draw(), random.draw()];
    assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
}

#[test]
fn every_index_is_drawn_and_none_beyond() {
    let mut random = SplitMix64::new(1);
    let mut drawn = [0; 5];
    for _ in 0..5_000 {
        drawn[random.draw_below(5)] += 1;
    }
    assert!(drawn.iter().all(|count| (850..1_150).contains(count)), "{drawn:?}");
}

/// The example of docs/metrics.md, section Delay: a percentile is the delay of rank ⌈p·n⌉.
#[test]
fn a_percentile_by_nearest_rank_is_a_value_of_the_sample() {
    let mut delays = vec![20.0; 18];
    delays.extend([5_000.0, 5_100.0]);
    for (p, expected) in [(0.5, 20.0), (0.9, 20.0), (0.95, 5_000.0), (0.951, 5_100.0), (1.0, 5_100.0)] {
        assert_eq!(nearest_rank(&delays, p), Some(expected), "p {p}");
    }
    assert_eq!(nearest_rank(&[7.0, 3.0], 0.0), Some(3.0));
    assert_eq!(nearest_rank(&[], 0.5), None);
    assert_eq!(nearest_rank(&[1.0, f64::NAN], 0.5), None);
    for p in [-0.1, 1.1] {
        assert_eq!(nearest_rank(&[1.0], p), None, "p {p}");
    }
}

/// The table of docs/metrics.md, section Statistics.
#[test]
fn the_interval_of_the_median_reaches_from_the_kth_smallest_to_the_kth_largest_value() {
    let table = [
        (6, 1),
        (8, 1),
        (9, 2),
        (11, 2),
        (12, 3),
        (14, 3),
        (15, 4),
        (16, 4),
        (17, 5),
        (19, 5),
        (20, 6),
        (22, 6),
    ];
    for (n, k) in table {
        let values: Vec<f64> = (1..=n).rev().map(f64::from).collect();
        assert_eq!(median_interval(&values), Some([f64::from(k), f64::from(n + 1 - k)]), "n {n}");
    }
    assert_eq!(median_interval(&[1.0; 5]), None);
}

#[test]
fn a_distribution_has_median_extremes_and_interval() {
    let found = distribution(&[6.0, 1.0, 5.0, 2.0, 4.0, 3.0]).unwrap();
    assert_eq!((found.n, found.median, found.min, found.max), (6, 3.5, 1.0, 6.0));
    assert_eq!(found.ci95, Some([1.0, 6.0]));
    assert_eq!(range(&[2.0, -1.0, 7.0]), Some([-1.0, 7.0]));
}
