//! Random decisions follow from seed, purpose and number.

use pathbench_link::packet::{Chance, DrawPurpose};

type Named<T> = (&'static str, fn(u64) -> T);

#[test]
fn units_are_spread_evenly_over_numbers_attempts_and_seeds() {
    let draws: [Named<f64>; 3] = [
        ("numbers", |n| Chance::new(1).unit(DrawPurpose::Loss, n, 0)),
        ("attempts", |n| Chance::new(1).unit(DrawPurpose::Loss, 7, n as u32)),
        ("seeds", |n| Chance::new(n).unit(DrawPurpose::Loss, 0, 0)),
    ];
    for (what, draw) in draws {
        let mut tenths = [0_u32; 10];
        for n in 0..100_000 {
            tenths[(draw(n) * 10.0) as usize] += 1;
        }
        // Chi squared with 9 degrees of freedom exceeds 27.9 once in a thousand; the draws are fixed.
        let chi: f64 = tenths.iter().map(|&count| (f64::from(count) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 27.9, "{what}: {chi} {tenths:?}");
    }
}

#[test]
fn neighbours_purposes_attempts_and_seeds_are_independent() {
    const CHANCE: Chance = Chance::new(3);
    let others: [Named<u64>; 4] = [
        ("next", |n| CHANCE.bits(DrawPurpose::Loss, n + 1, 0)),
        ("purpose", |n| CHANCE.bits(DrawPurpose::Corrupt, n, 0)),
        ("attempt", |n| CHANCE.bits(DrawPurpose::Loss, n, 1)),
        ("seed", |n| Chance::new(4).bits(DrawPurpose::Loss, n, 0)),
    ];
    for (what, other) in others {
        let equal: u32 =
            (0..10_000).map(|n| (!(CHANCE.bits(DrawPurpose::Loss, n, 0) ^ other(n))).count_ones()).sum();
        let share = f64::from(equal) / 640_000.0;
        assert!((share - 0.5).abs() < 0.0025, "{what}: {share}"); // four standard deviations
    }
}

#[test]
fn certain_and_impossible_are_just_that() {
    let chance = Chance::new(0);
    assert!((0..10_000).all(|n| chance.happens(1.0, DrawPurpose::Loss, n, 0)));
    assert!(!(0..10_000).any(|n| chance.happens(0.0, DrawPurpose::Loss, n, 0)));
}

#[test]
fn the_draws_never_change() {
    // Results name a seed; it must mean the same in every version.
    let drawn = [0, 1, 2].map(|n| Chance::new(42).bits(DrawPurpose::Loss, n, 0) >> 32);
    assert_eq!(drawn, [1_391_167_313, 4_123_292, 1_960_079_368]);
}
