//! Every parser of traces on arbitrary bytes: no panic, messages of one line, and valid schedules only.

use pathbench_link::trace::{self, RateUnit, TimeUnit, TraceError, TraceFormat, TraceOptions, TraceSummary};
use pathbench_link::{RateModel, ScheduleEnd, Steps};
use std::time::Duration;

fn read<T>(outcome: Result<T, TraceError>) -> Option<T> {
    outcome.map_err(|error| assert!(!error.to_string().contains(char::is_control))).ok()
}

fn check_steps<V>(schedule: &Steps<V>) {
    assert!(schedule.steps.is_sorted_by(|one, other| one.0 < other.0));
    assert_eq!(schedule.steps.first().map(|step| step.0), Some(Duration::ZERO));
    if let (ScheduleEnd::Repeat(period), Some(last)) = (schedule.end, schedule.steps.last()) {
        assert!(last.0 < period);
    }
}

fn check_rate(rate: &RateModel) {
    match rate {
        RateModel::Opportunities(schedule) => {
            assert!(schedule.at_ms.is_sorted() && schedule.at_ms.last() > Some(&0));
        }
        RateModel::Trains(schedule) => {
            assert!(schedule.trains.is_sorted_by_key(|train| train.at));
            assert!(schedule.trains.iter().all(|train| train.opportunities.is_sorted()));
        }
        RateModel::Steps(schedule) => {
            check_steps(schedule);
            assert!(schedule.mean_rate_bps() <= Some(1_000_000_000_000));
        }
        RateModel::Unlimited | RateModel::Constant(_) => panic!("no trace"),
    }
    let _ = TraceSummary::from_rate(rate);
}

pub(crate) fn run(bytes: &[u8]) {
    for format in std::iter::once(None).chain(TraceFormat::ALL.map(Some)) {
        let plain = TraceOptions { format, ..TraceOptions::default() };
        let with_units = TraceOptions {
            unit: Some(RateUnit::Kilobits),
            delay_unit: Some(TimeUnit::Milliseconds),
            ..plain.clone()
        };
        for options in [plain, with_units] {
            if let Some(rate) = read(trace::rate(bytes, &options)) {
                check_rate(&rate);
            }
            if let Some(delay) = read(trace::delay(bytes, &options)) {
                check_steps(&delay);
                assert!(TraceSummary::from_delay(&delay).is_some());
            }
            if let Some(loss) = read(trace::loss(bytes, &options)) {
                check_steps(&loss);
                assert!(loss.mean_loss().is_some_and(|loss| (0.0..=1.0 + 1e-9).contains(&loss)));
            }
            if let Some(content) = read(trace::import(bytes, &options)) {
                assert!(content.rate.is_some() || content.delay.is_some() || content.loss.is_some());
            }
        }
    }
}
