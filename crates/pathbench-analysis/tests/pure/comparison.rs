//! Estimates, intervals and verdicts against textbooks, and their error rates in simulated studies.

#![allow(clippy::float_cmp, reason = "the estimates are elements of the sample, bit for bit")]
#![allow(clippy::approx_constant, reason = "3.14 is a measurement of the textbook")]

use pathbench_analysis::comparison::*;
use pathbench_record::direction::Direction;
use pathbench_record::document::{
    DirectionFigures, DirectionRecord, LinkFigures, LinkRecord, PathRecord, ResultDocument, RunRecord,
    Variant, Verdict,
};
use pathbench_record::statistics::SplitMix64;
use pathbench_record::summary::summarise;
use proptest::prelude::*;

/// All Walsh averages in order.
fn walsh(values: &[f64]) -> Vec<f64> {
    let mut averages: Vec<f64> = values
        .iter()
        .enumerate()
        .flat_map(|(i, a)| values[..=i].iter().map(move |b| f64::midpoint(*a, *b)))
        .collect();
    averages.sort_by(f64::total_cmp);
    averages
}

#[test]
fn the_paired_estimate_is_that_of_the_textbook() {
    // Hollander, Wolfe and Chicken, example 3.1 (Hamilton depression scale): T+ = 5, estimate −0.46; R:
    // wilcox.test(y, x, paired = TRUE, conf.int = TRUE): p = 0.03906, interval −0.786 to −0.010.
    let x = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
    let y = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
    let differences: Vec<f64> = x.iter().zip(y).map(|(x, y)| y - x).collect();
    let found = paired(&differences).unwrap();
    let [low, high] = found.ci95.unwrap();
    assert!((found.shift - -0.46).abs() < 1e-9, "{found:?}");
    assert!((low - -0.786).abs() < 1e-9 && (high - -0.01).abs() < 1e-9, "{found:?}");
    assert!((found.p - 0.039_06).abs() < 1e-5, "{found:?}");
}

#[test]
fn the_unpaired_estimate_is_that_of_the_textbook() {
    // Hollander, Wolfe and Chicken, example 4.1 (permeability of membranes): R: wilcox.test(x, y, conf.int = TRUE): W = 35,
    // p = 0.2544, difference in location −0.305 of y against x.
    let x = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
    let y = [1.15, 0.88, 0.90, 0.74, 1.21];
    let found = unpaired(&x, &y).unwrap();
    assert!((found.shift - -0.305).abs() < 1e-9, "{found:?}");
    assert!((found.p - 0.2544).abs() < 1e-4, "{found:?}");
    assert_eq!(found.ci95, None, "five values have no interval");
}

#[test]
fn holm_stops_at_the_first_hypothesis_that_stands() {
    assert_eq!(holm(&[0.01, 0.04, 0.03, 0.005]), [true, false, false, true]);
    assert_eq!(holm(&[0.04]), [true]);
    assert_eq!(holm(&[f64::NAN, 0.001]), [false, true]);
    assert_eq!(holm(&[]), [false; 0]);
    // facts of docs/metrics.md: with 6, 7, 8 and 10 pairs among 1, 3, 6 and 25 comparisons at most.
    for (pairs, most) in [(6, 1), (7, 3), (8, 6), (10, 25)] {
        assert_eq!(largest_family(pairs), most);
    }
}

#[test]
fn descriptions_know_their_bounds() {
    assert_eq!(cliffs_delta(&[1.0, 2.0], &[3.0, 4.0]), Some(1.0));
    assert_eq!(cliffs_delta(&[1.0, 2.0], &[2.0, 1.0]), Some(0.0));
    assert_eq!(cliffs_delta(&[], &[1.0]), None);
    assert_eq!(jains_index(&[(900.0, 900.0), (100.0, 100.0)]), Some(1.0));
    let uneven = jains_index(&[(900.0, 500.0), (100.0, 500.0)]).unwrap();
    assert!((uneven - 0.61).abs() < 0.001, "{uneven}");
    assert_eq!(jains_index(&[(1.0, 0.0), (1.0, 1.0)]), None);
}

/// Jain's index of the summary of a run with `bytes` over paths of 90 and 10 Mbit/s.
fn index_of(bytes: [u64; 2], change: impl Fn(&mut ResultDocument)) -> Option<f64> {
    let link = |name: &str, mbps: u64| LinkRecord {
        name: name.to_owned(),
        ends: ["client", "server"].map(str::to_owned),
        engine: "kernel".to_owned(),
        variant: Variant::new(),
        requested: LinkFigures {
            forward: DirectionFigures { rate_bps: Some(mbps * 1_000_000), ..DirectionFigures::default() },
            ..LinkFigures::default()
        },
        measured: None,
        tolerance: 0.05,
    };
    let path = |name: &str, bytes| PathRecord {
        name: name.to_owned(),
        bytes_delivered: bytes,
        ..PathRecord::default()
    };
    let upload = DirectionRecord {
        direction: Direction::Upload,
        goodput_mbps: None,
        delivered_bytes: bytes.iter().sum(),
        stall_ms: None,
        delay_ms: None,
    };
    let run = RunRecord {
        valid: true,
        paths: vec![path("eth", bytes[0]), path("wlan", bytes[1])],
        directions: vec![upload],
        ..RunRecord::default()
    };
    let mut document = ResultDocument {
        links: vec![link("eth", 90), link("wlan", 10)],
        runs: vec![run],
        ..ResultDocument::default()
    };
    change(&mut document);
    document.summary.groups = summarise(&document.runs);
    complete(&mut document);
    document.summary.groups[0].jains_index
}

#[test]
fn the_summary_has_jains_index_of_the_utilisations() {
    assert_eq!(index_of([9000, 1000], |_| ()), Some(1.0));
    assert_eq!(index_of([9000, 0], |_| ()), Some(0.5));
    // An inner link limits its path: 9000/30 and 1000/10 are utilisations of 3 to 1.
    let uneven = index_of([9000, 1000], |document| {
        let mut inner = document.links[0].clone();
        inner.name = "eth.hop".to_owned();
        inner.requested.forward.rate_bps = Some(30_000_000);
        document.links.push(inner);
    });
    assert_eq!(uneven, Some(0.8));
    // A link of another variant.
    let other = |document: &mut ResultDocument| {
        let mut link = document.links[0].clone();
        link.variant.insert("path.eth.rate".to_owned(), "1mbit".into());
        link.requested.forward.rate_bps = Some(1_000_000);
        document.links.push(link);
    };
    assert_eq!(index_of([9000, 1000], other), Some(1.0));
    // Rates that are unlimited or change, one path, data in both directions.
    let unlimited = |document: &mut ResultDocument| document.links[1].requested.forward.rate_bps = None;
    assert_eq!(index_of([9000, 1000], unlimited), None);
    let trace = |document: &mut ResultDocument| {
        document.links[1].requested.forward.given.insert("rate_trace".to_owned(), "lte.csv".into());
    };
    assert_eq!(index_of([9000, 1000], trace), None);
    assert_eq!(index_of([9000, 1000], |document| document.runs[0].paths.truncate(1)), None);
    let both = |document: &mut ResultDocument| {
        let mut download = document.runs[0].directions[0].clone();
        download.direction = Direction::Download;
        document.runs[0].directions.push(download);
    };
    assert_eq!(index_of([9000, 1000], both), None);
}

/// The ranks are the largest k with P(T < k) ≤ 2.5 %, from the exact distributions of T⁺ and U.
#[test]
fn the_interval_of_more_values_than_the_exact_distribution_covers_has_the_exact_ranks() {
    let mut random = SplitMix64::new(5);
    let mut draws =
        |count: usize| -> Vec<f64> { (0..count).map(|_| random.draw_below(1 << 40) as f64).collect() };
    let differences = draws(120);
    let averages = walsh(&differences);
    let expected = [averages[2_882 - 1], averages[averages.len() - 2_882]];
    assert_eq!(paired(&differences).unwrap().ci95, Some(expected));
    let (a, b) = (draws(60), draws(60));
    let mut shifts: Vec<f64> = a.iter().flat_map(|one| b.iter().map(move |other| other - one)).collect();
    shifts.sort_by(f64::total_cmp);
    assert_eq!(unpaired(&a, &b).unwrap().ci95, Some([shifts[1_427 - 1], shifts[3_600 - 1_427]]));
}

/// The standard deviation of the pairs' differences, and of a difference of two independent values.
#[test]
fn the_spread_is_a_sample_standard_deviation() {
    assert!((paired(&[1.0, 2.0, 3.0, 4.0]).unwrap().spread - (5.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    assert_eq!(paired(&[7.0]).unwrap().spread, 0.0);
    let apart = unpaired(&[1.0, 3.0], &[10.0, 14.0]).unwrap();
    assert!((apart.spread - 10.0_f64.sqrt()).abs() < 1e-12, "√(2 + 8)");
}

/// The formula of docs/metrics.md: (1.96 + 0.84)² · s²/h² · π/3, at least 6.
#[test]
fn the_pairs_that_are_needed_follow_from_effect_and_spread() {
    let needed = |n, shift, spread| {
        let estimate = Estimate { n, shift, ci95: None, p: 1.0, spread };
        repetitions_needed(&estimate, Rule { margin: 0.05 })
    };
    // 7.849 · π/3 = 8.219 pairs for a spread as large as the distance.
    assert_eq!(needed(3, 0.1, 0.1), Some(9));
    assert_eq!(needed(3, -0.1, 0.2), Some(33), "the effect in either direction");
    assert_eq!(needed(3, 0.02, 0.03), Some(9), "the distance to the margin");
    assert_eq!(needed(3, 0.1, 0.001), Some(6));
    assert_eq!(needed(20, 0.1, 0.001), Some(21), "more than there are");
    assert_eq!(needed(3, 0.05 - 1e-9, 0.1), None);
}

#[test]
fn a_verdict_needs_the_whole_interval_on_one_side() {
    let verdict =
        |shift, ci95| judge(&Estimate { n: 6, shift, ci95, p: 1.0, spread: 1.0 }, Rule { margin: 0.05 });
    assert_eq!(verdict(0.06, Some([0.001, 0.1])), Verdict::Different);
    assert_eq!(verdict(-0.06, Some([-0.1, -0.001])), Verdict::Different);
    assert_eq!(verdict(0.04, Some([0.001, 0.05])), Verdict::Same);
    assert_eq!(verdict(0.04, Some([0.001, 0.06])), Verdict::CannotTell);
    assert_eq!(verdict(-0.04, Some([-0.06, 0.0])), Verdict::CannotTell);
    assert_eq!(verdict(0.06, Some([0.0, 0.1])), Verdict::CannotTell);
    assert_eq!(verdict(9.0, None), Verdict::CannotTell);
}

#[test]
fn thousands_of_pairs_take_bounded_time() {
    let mut random = SplitMix64::new(7);
    let values: Vec<f64> = (0..50_000).map(|_| random.draw_below(1_000_000) as f64 - 400_000.0).collect();
    let found = paired(&values).unwrap();
    let [low, high] = found.ci95.unwrap();
    assert!(low < 100_000.0 && 100_000.0 < high && high - low < 10_000.0, "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_estimate_is_the_median_of_the_walsh_averages(
        values in prop::collection::vec(prop_oneof![-1e9..1e9_f64, (-3..3_i32).prop_map(f64::from)], 6..40),
    ) {
        let found = paired(&values).unwrap();
        let averages = walsh(&values);
        let middle = averages.len() / 2;
        let median =
            if averages.len() % 2 == 1 { averages[middle] } else { f64::midpoint(averages[middle - 1], averages[middle]) };
        prop_assert_eq!(found.shift, median);
        let [low, high] = found.ci95.unwrap();
        prop_assert!(averages.contains(&low) && averages.contains(&high) && low <= median && median <= high);
        // The p value agrees with the interval.
        prop_assert_eq!(found.p <= 0.05 + 1e-9, low > 0.0 || high < 0.0);
    }

    #[test]
    fn an_exchange_of_the_samples_turns_the_sign(
        a in prop::collection::vec(-100..100_i32, 6..30),
        b in prop::collection::vec(-100..100_i32, 6..30),
    ) {
        let [a, b] = [a, b].map(|values| values.into_iter().map(f64::from).collect::<Vec<f64>>());
        let (one, other) = (unpaired(&a, &b).unwrap(), unpaired(&b, &a).unwrap());
        prop_assert_eq!(one.shift, -other.shift);
        prop_assert_eq!(one.ci95.unwrap(), { let [low, high] = other.ci95.unwrap(); [-high, -low] });
        prop_assert!((one.p - other.p).abs() < 1e-9);
    }
}

fn run(label: &str, repetition: u32, goodput: f64, stall: f64) -> RunRecord {
    RunRecord {
        transport: label.split('@').next().unwrap().parse().unwrap(),
        label: label.to_owned(),
        pattern: "throughput".to_owned(),
        repetition,
        valid: true,
        goodput_mbps: Some(goodput),
        stall_ms: Some(stall),
        ..RunRecord::default()
    }
}

#[test]
fn a_result_compares_multipath_with_one_path_by_repetition() {
    // A drift that all labels of a repetition share.
    let mut runs = Vec::new();
    for repetition in 1..=8_u32 {
        let drift = 1.0 + f64::from(repetition) / 4.0;
        let wobble = 1.0 + 0.004 * f64::from(repetition % 3);
        runs.push(run("mptcp", repetition, 190.0 * drift * wobble, 30.0));
        runs.push(run("tcp@eth", repetition, 100.0 * drift, 0.0));
        runs.push(run("tcp@wlan", repetition, 189.0 * drift, 0.0));
    }
    let mut invalid = run("mptcp", 9, 1.0, 9000.0);
    invalid.valid = false;
    runs.push(invalid);
    let (found, omitted) = of_runs(&runs);
    assert_eq!(omitted, 0);
    let of = |figure: &str, baseline: &str| {
        let one = found.iter().find(|one| one.figure == figure && one.baseline.label == baseline);
        one.unwrap_or_else(|| panic!("{found:?}"))
    };
    let eth = of("goodput_mbps", "tcp@eth");
    assert_eq!((eth.verdict, eth.pairs, eth.family, eth.adjusted), (Verdict::Different, Some(8), 2, true));
    assert!((eth.ratio.unwrap() - 1.9).abs() < 0.02, "{eth:?}");
    assert_eq!(of("goodput_mbps", "tcp@wlan").verdict, Verdict::Same);
    let stall = of("stall_ms", "tcp@eth");
    assert_eq!((stall.difference, stall.ratio, stall.margin), (Some(30.0), None, 20.0));
    assert_eq!(stall.verdict, Verdict::Different);
}

#[test]
fn the_change_between_two_results_is_relative_or_in_the_figures_unit() {
    let runs = |goodput: f64, stall: f64| -> Vec<RunRecord> {
        (1..=6).map(|repetition| run("tcp", repetition, goodput, stall)).collect()
    };
    let change = |baseline: &[RunRecord], candidate: &[RunRecord], figure: &str, is_relative| {
        let found = changes(baseline, candidate, figure, is_relative);
        assert_eq!((found.len(), found[0].label, found[0].runs), (1, "tcp", [6, 6]));
        found[0].change
    };
    let close = |found: Option<(f64, Option<[f64; 2]>)>, expected: f64| {
        let (shift, Some([low, high])) = found.unwrap() else { panic!("no interval") };
        assert!([shift, low, high].iter().all(|one| (one - expected).abs() < 1e-9), "{found:?}");
    };
    let (one, other) = (runs(100.0, 0.0), runs(90.0, 30.0));
    close(change(&one, &other, "goodput_mbps", true), -0.1);
    close(change(&one, &other, "goodput_mbps", false), -10.0);
    close(change(&one, &other, "stall_ms", false), 30.0);
    assert_eq!(change(&one, &other, "stall_ms", true), None, "relative to 0");
    close(change(&other, &one, "stall_ms", true), -1.0);
    assert!(changes(&one, &other, "hung_ms", true).is_empty());
}

#[test]
fn few_pairs_cannot_tell_and_name_the_number_that_can() {
    let runs: Vec<RunRecord> = (1..=3)
        .flat_map(|repetition| [run("mptcp", repetition, 200.0, 0.0), run("tcp@eth", repetition, 100.0, 0.0)])
        .collect();
    let (found, _) = of_runs(&runs);
    let goodput = found.iter().find(|one| one.figure == "goodput_mbps").unwrap();
    assert_eq!((goodput.verdict, goodput.ci95), (Verdict::CannotTell, None));
    assert_eq!(goodput.repetitions_needed, Some(6));
}

/// Standard normal draws (Box and Muller).
fn normal(random: &mut SplitMix64) -> f64 {
    let mut uniform = || (random.draw() >> 11) as f64 / 9_007_199_254_740_992.0 + 1e-17;
    let (a, b) = (uniform(), uniform());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// Noise of 60 runs in the order of time, with a standard deviation of about 1.
fn noise(kind: &str, random: &mut SplitMix64) -> Vec<f64> {
    let mut last = normal(random);
    (0..60)
        .map(|_| match kind {
            "AR 0.5" | "AR 0.9" => {
                let phi: f64 = if kind == "AR 0.5" { 0.5 } else { 0.9 };
                last = phi * last + (1.0 - phi * phi).sqrt() * normal(random);
                last
            }
            // One run in ten has three times the noise.
            "heavy tail" => normal(random) * if random.draw_below(10) == 0 { 2.24 } else { 0.745 },
            "bimodal" => (if random.draw_below(4) == 0 { -1.6 } else { 0.53 }) + 0.3 * normal(random),
            _ => normal(random),
        })
        .collect()
}

/// How many of `studies` studies of 30 repetitions, in random order within each, find a difference.
fn found_different(kind: &str, cv: f64, factor: f64, studies: u32) -> u32 {
    let mut random = SplitMix64::new(12);
    let mut found = 0;
    for _ in 0..studies {
        let noise = noise(kind, &mut random);
        let differences: Vec<f64> = noise
            .chunks(2)
            .map(|pair| {
                let sign = if random.draw_below(2) == 0 { 1.0 } else { -1.0 };
                factor.ln() + sign * cv * (pair[1] - pair[0])
            })
            .collect();
        let verdict = judge(&paired(&differences).unwrap(), Rule::of_ratios(MARGIN));
        found += u32::from(verdict == Verdict::Different);
    }
    found
}

/// The table of docs/metrics.md; `--nocapture` prints it.
#[test]
fn the_rule_has_the_error_rates_that_the_documentation_states() {
    const STUDIES: u32 = 400;
    println!("noise        A/A false, %: CV 2   5  10  20   finds +10 %: CV 5  10  20");
    for kind in ["iid", "AR 0.5", "AR 0.9", "heavy tail", "bimodal"] {
        let percent =
            |cv, factor| 100.0 * f64::from(found_different(kind, cv, factor, STUDIES)) / f64::from(STUDIES);
        let wrong = [0.02, 0.05, 0.1, 0.2].map(|cv| percent(cv, 1.0));
        let right = [0.05, 0.1, 0.2].map(|cv| percent(cv, 1.1));
        println!("{kind:12} {wrong:?} {right:?}");
        // 5 % and three standard errors of 400 studies.
        assert!(wrong.iter().all(|one| *one <= 5.0 + 3.3), "{kind}: {wrong:?}");
        assert!(right[0] >= 99.0 && right[1] >= 87.0, "{kind}: {right:?}");
    }
}
