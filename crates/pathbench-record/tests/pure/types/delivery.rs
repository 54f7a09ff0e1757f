use pathbench_record::delivery::*;
use pathbench_record::direction::Direction;
use pathbench_record::time::Timestamp;
use proptest::prelude::*;
use std::time::Duration;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

proptest! {
    #[test]
    fn a_sum_equals_one_series_of_all_records(
        mut arrivals in prop::collection::vec((0_u64..2_000, 0_usize..4, 1_u64..1_000), 0..60)
    ) {
        arrivals.sort_unstable();
        let mut whole = DeliverySeries::starting_at(at(0));
        let mut parts = vec![DeliverySeries::starting_at(at(0)); 4];
        for (ms, part, bytes) in arrivals {
            whole.record(at(ms), bytes);
            parts[part].record(at(ms), bytes);
        }
        let parts: Vec<_> = parts.iter().collect();
        prop_assert_eq!(DeliverySeries::sum(&parts), Some(whole));
    }
}

#[test]
fn nothing_adds_up_to_nothing() {
    let empty = DeliverySeries::starting_at(at(3));
    assert_eq!(DeliverySeries::sum(&[]), None);
    assert_eq!(DeliverySeries::sum(&[&empty, &empty]), Some(empty));
}

#[test]
fn a_wrong_time_or_origin_takes_no_memory() {
    let mut series = DeliverySeries::starting_at(at(0));
    series.record(Timestamp::from_nanos(u64::MAX), 1);
    assert_eq!((series.bytes.len(), series.total_bytes()), (MAX_BINS, 1));
    // A sum over 584 years of bins.
    let late = DeliverySeries::starting_at(Timestamp::from_nanos(u64::MAX));
    assert_eq!(DeliverySeries::sum(&[&DeliverySeries::starting_at(at(0)), &late]), None);
}

#[test]
fn counts_beyond_64_bits_saturate() {
    let mut series = DeliverySeries::starting_at(at(0));
    series.record(at(1), u64::MAX);
    series.record(at(2), 1);
    series.record(at(11), 1);
    assert_eq!((series.bytes[0], series.total_bytes()), (u64::MAX, u64::MAX));
    assert_eq!(DeliverySeries::sum(&[&series, &series]).map(|sum| sum.bytes), Some(vec![u64::MAX, 2]));
}

#[test]
fn a_series_becomes_lines_on_the_clock_of_the_run() {
    let begun = Timestamp::from_nanos(1_000_000_000);
    let mut series = DeliverySeries::starting_at(begun);
    series.record(begun + Duration::from_millis(5), 10);
    series.record(begun + Duration::from_millis(9), 1);
    series.record(begun + Duration::from_millis(31), 20);
    // The sender's first byte went out 2 ms after the recording had begun.
    let origin = begun + Duration::from_millis(2);
    let lines = DeliveryLine::of_series("r", Direction::Upload, &series, origin);
    let found: Vec<_> = lines.iter().map(|line| (line.t_ms as i64, line.bytes)).collect();
    assert_eq!(found, [(-2, 11), (28, 20)]);
}

#[test]
fn a_silence_of_a_sum_is_one_of_all_its_parts() {
    let series = |times: &[u64]| {
        let mut series = DeliverySeries::starting_at(at(0));
        for ms in times {
            series.record(at(*ms), 1);
        }
        series
    };
    // One part is silent from 0 to 100 ms, the other from 30 to 130 ms.
    let sum = DeliverySeries::sum(&[&series(&[0, 100, 130]), &series(&[0, 30, 130])]).unwrap();
    assert_eq!(
        sum.gaps,
        [
            Gap { from: at(0), until: at(30) },
            Gap { from: at(30), until: at(100) },
            Gap { from: at(100), until: at(130) }
        ]
    );
    // 20 ms are recorded as bins only.
    assert_eq!(series(&[0, 20, 41]).gaps, [Gap { from: at(20), until: at(41) }]);
}
