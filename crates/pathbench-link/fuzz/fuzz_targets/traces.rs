//! Every parser of traces on arbitrary bytes: no panic, messages of one line, and valid schedules only.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pathbench_link::{ScheduleEnd, Steps};
use pathbench_link::trace::{self, TraceError};
use std::time::Duration;

fn harmless<T>(outcome: Result<T, TraceError>) -> Option<T> {
    outcome.map_err(|error| assert!(!error.to_string().contains(char::is_control))).ok()
}

fn sound<V>(schedule: &Steps<V>) {
    assert!(schedule.steps.is_sorted_by(|one, other| one.0 < other.0));
    assert_eq!(schedule.steps.first().map(|step| step.0), Some(Duration::ZERO));
    if let (ScheduleEnd::Repeat(period), Some(last)) = (schedule.end, schedule.steps.last()) {
        assert!(last.0 < period);
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(schedule) = harmless(trace::mahimahi(bytes)) {
        assert!(schedule.at_ms.is_sorted() && schedule.at_ms.last() > Some(&0));
        assert!(schedule.mean_rate_bps().is_some());
    }
    if let Some(schedule) = harmless(trace::cellreplay(bytes)) {
        assert!(schedule.trains.is_sorted_by_key(|train| train.at));
        assert!(schedule.trains.iter().all(|train| train.opportunities.is_sorted()));
        let _ = (schedule.mean_rate_bps(), schedule.mean_base_delay());
    }
    if let Some(schedule) = harmless(trace::bytes_per_second(bytes)) {
        sound(&schedule);
        assert!(schedule.mean_rate_bps() <= Some(1_000_000_000_000));
    }
    if let Some(schedule) = harmless(trace::loss(bytes)) {
        sound(&schedule);
        let mean = schedule.mean_loss();
        assert!(mean.is_some_and(|loss| (0.0..=1.0 + 1e-9).contains(&loss)));
    }
    if let Some(schedule) = harmless(trace::delay(bytes)) {
        sound(&schedule);
        assert!(schedule.mean_delay().is_some());
    }
    let _ = harmless(trace::rate(bytes, None));
});
