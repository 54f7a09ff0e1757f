//! Periodic sampling on the real clock.

use crate::support::{in_namespace, loopback, pair, transfer, wait_for};
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_testkit::{MonotonicClock, tests};
use pathbench_transport::{Sampler, SamplerError};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

tests! {
    in_namespace =>
    samples_keep_their_interval_and_stopping_is_immediate,
    a_long_interval_does_not_delay_the_end,
}

fn samples_keep_their_interval_and_stopping_is_immediate() {
    let (client, server) = pair(Transport::Mptcp, Transport::Mptcp, loopback(1));
    let clock = Arc::new(MonotonicClock);
    let interval = Duration::from_millis(10);
    let sampler =
        Sampler::start(client.telemetry().expect("a handle"), Arc::clone(&clock) as _, interval, 65_536)
            .expect("a sampler");
    for _ in 0..25 {
        transfer(&client, &server, 100_000);
        thread::sleep(interval);
    }
    let (asked_at, asked) = wait_for("a sample of all bytes", || {
        sampler.latest().filter(|(_, sample)| sample.subflows[0].bytes_sent >= 2_500_000)
    });
    let before = clock.now();
    let result = sampler.stop();
    assert!(result.failure.is_none());
    assert_eq!(result.interval, interval);
    assert!(result.samples.len() >= 15, "{}", result.samples.len());
    assert!(result.samples.iter().any(|(at, snapshot)| *at == asked_at && *snapshot == asked));
    for pair in result.samples.windows(2) {
        assert!(pair[0].0 <= pair[1].0);
        assert!(pair[0].1.subflows[0].bytes_sent <= pair[1].1.subflows[0].bytes_sent);
    }
    let last = &result.samples[result.samples.len() - 1];
    assert!(last.0 >= before);
}

fn a_long_interval_does_not_delay_the_end() {
    let (client, _server) = pair(Transport::Tcp, Transport::Tcp, loopback(1));
    let clock = Arc::new(MonotonicClock);
    let telemetry = client.telemetry().expect("a handle");
    let sampler = Sampler::start(telemetry, Arc::clone(&clock) as _, Duration::from_secs(3600), 65_536)
        .expect("a sampler");
    thread::sleep(Duration::from_millis(50));
    let before = clock.now();
    let result = sampler.stop();
    assert!(clock.now().duration_since(before) < Duration::from_secs(5));
    assert_eq!(result.samples.len(), 2, "the first and the last");
    let error = Sampler::start(client.telemetry().expect("a handle"), clock, Duration::ZERO, 65_536)
        .expect_err("no interval at all");
    assert!(matches!(error, SamplerError::IntervalTooShort { .. }), "{error}");
}
