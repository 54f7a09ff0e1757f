use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::Direction;
use pathbench_record::event::*;
use pathbench_record::time::Timestamp;
use std::time::Duration;

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
