//! Series of samples and their due times.

use pathbench_record::connection::Negotiation;
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use pathbench_transport::{ConnectOptions, ConnectionSnapshot, SampleSeries, Sampler, Session, next_due};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

fn timestamp(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn path(subflow: u32, state: PathState) -> PathFigures {
    let ends = ([10, 0, 0, 1], 1).into();
    PathFigures { subflow, state, ..PathFigures::new(ends, ends) }
}

fn snapshot(subflows: Vec<PathFigures>) -> ConnectionSnapshot {
    ConnectionSnapshot { subflows, mptcp: None, multipath: Negotiation::Negotiated }
}

fn numbers(series: &SampleSeries) -> Vec<Vec<u32>> {
    let numbers = |sample: &ConnectionSnapshot| sample.subflows.iter().map(|path| path.subflow).collect();
    series.samples.iter().map(|(_, sample)| numbers(sample)).collect()
}

#[test]
fn the_end_of_a_path_is_in_one_sample() {
    use PathState::{Closed, Open};
    let mut series = SampleSeries::of_at_most(100);
    let listings = [
        vec![path(1, Open), path(2, Open)],
        vec![path(1, Open), path(2, Closed)],
        vec![path(1, Open), path(2, Closed), path(3, Closed)],
        vec![path(1, Open), path(2, Closed), path(3, Closed)],
        // The ledger has dropped subflow 2 and treats 3 as new.
        vec![path(1, Open), path(3, Open)],
        vec![path(1, Open), path(3, Closed)],
    ];
    for (ms, listed) in listings.into_iter().enumerate() {
        assert_eq!(series.push(timestamp(ms as u64), snapshot(listed)), 0);
    }
    assert_eq!(numbers(&series), [vec![1, 2], vec![1, 2], vec![1, 3], vec![1], vec![1, 3], vec![1, 3]]);
}

#[test]
fn thinning_keeps_the_last_sample_and_the_end_of_every_path() {
    use PathState::{Closed, Open};
    let mut series = SampleSeries::of_at_most(9);
    let listings = [
        vec![path(1, Open), path(2, Open)],
        vec![path(1, Open), path(2, Closed)],
        vec![path(1, Open), path(2, Closed)],
        vec![path(1, Open), path(2, Closed)],
    ];
    let mut doublings = 0;
    for (ms, listed) in listings.into_iter().enumerate() {
        doublings += series.push(timestamp(ms as u64), snapshot(listed));
    }
    assert_eq!((doublings, numbers(&series)), (1, vec![vec![1, 2], vec![1]]));
    assert_eq!(series.samples.last().map(|(at, _)| *at), Some(timestamp(3)));
    assert_eq!(series.figures, 5);
}

#[test]
fn a_series_stays_within_its_bound_as_paths_open_and_close() {
    let mut series = SampleSeries::of_at_most(1000);
    for ms in 0..20_000_u32 {
        let closed = (ms.saturating_sub(32)..ms).map(|number| path(number * 8, PathState::Closed));
        let open = (0..8).map(|number| path(ms * 8 + number, PathState::Open));
        series.push(timestamp(ms.into()), snapshot(closed.chain(open).collect()));
        let figures: usize = series.samples.iter().map(|(_, sample)| 1 + sample.subflows.len()).sum();
        assert!(figures <= 1000 && series.closed.len() <= 32, "{figures} after {ms}");
    }
    assert!(series.samples.len() > 10, "{} samples", series.samples.len());
}

#[test]
fn late_samples_do_not_shift_the_grid() {
    let ten = Duration::from_millis(10);
    assert_eq!(next_due(timestamp(100), ten, timestamp(101)), timestamp(110));
    assert_eq!(next_due(timestamp(100), ten, timestamp(110)), timestamp(110));
    assert_eq!(next_due(timestamp(100), ten, timestamp(111)), timestamp(120));
    assert_eq!(next_due(timestamp(100), ten, timestamp(164)), timestamp(170));
    assert_eq!(next_due(timestamp(100), ten, timestamp(170)), timestamp(170));
}

fn sampler_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    names.filter(|name| name.as_deref().is_ok_and(|name| name == "sampler\n")).count()
}

#[test]
fn a_stopped_sampler_ends_its_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let hour = Duration::from_secs(3600);
    let options = ConnectOptions::new(listener.local_addr().unwrap(), hour);
    let connection = Session::new(Transport::Tcp, options, Arc::new(MonotonicClock)).open().unwrap();
    let sampler =
        Sampler::start(connection.telemetry().unwrap(), Arc::new(MonotonicClock), hour, 1000).unwrap();
    while sampler.latest().is_none() {
        thread::yield_now();
    }
    assert_eq!(sampler_threads(), 1);
    assert_eq!(sampler.stop().samples.len(), 2);
    let ended = (0..1000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        sampler_threads() == 0
    });
    assert!(ended, "its thread sleeps on");
}
