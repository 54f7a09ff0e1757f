//! Delays of requests from their arrivals alone.

use pathbench_analysis::metrics::live::RequestDelay;
use pathbench_record::time::Timestamp;
use std::time::Duration;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn the_fastest_request_sets_the_pace() {
    let mut delay = RequestDelay::new(ms(100));
    assert_eq!((delay.now(at(5)), delay.longest()), (None, None));
    // Due on the server's clock at 0, 100, 200, …; 20 ms one-way delay, except for a stall from 250 to 700 ms.
    for (sequence, arrived) in [(0, 1_025), (1, 1_120), (2, 1_220)] {
        delay.arrived(sequence, at(arrived));
    }
    assert_eq!(delay.longest(), Some(ms(5)));
    assert_eq!(delay.now(at(1_250)), Some(Duration::ZERO));
    // The next was to come at 1320 ms.
    assert_eq!(delay.now(at(1_500)), Some(ms(180)));
    for sequence in 3..7 {
        delay.arrived(sequence, at(1_720));
    }
    assert_eq!(delay.longest(), Some(ms(400)));
    assert_eq!(delay.now(at(1_730)), Some(ms(100)));
    delay.arrived(7, at(1_720));
    assert_eq!((delay.now(at(1_730)), delay.longest()), (Some(ms(0)), Some(ms(400))));
}

#[test]
fn a_clock_that_drifts_is_no_delay() {
    let mut delay = RequestDelay::new(ms(100));
    // A server's clock that is slow by 100 ppm for an hour.
    for sequence in 0..36_000_u32 {
        let arrived = Timestamp::from_nanos(1_000_000_000 + u64::from(sequence) * 100_010_000);
        delay.arrived(sequence, arrived);
    }
    assert!(delay.longest().unwrap() <= ms(6), "{:?}", delay.longest());
}
