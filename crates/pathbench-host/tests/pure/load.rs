//! Load of the machine from the kernel's text.

use pathbench_host::load::LoadCounters;
use pathbench_host::thread_time::{ThreadClock, ThreadTime};
use std::time::Duration;

fn pressure(total_us: u64) -> String {
    format!(
        "some avg10=76.86 avg60=40.22 avg300=13.50 total={total_us}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
    )
}

fn stat(user: u64, idle: u64, steal: u64) -> String {
    format!("cpu  {user} 0 0 {idle} 0 0 0 {steal} 900 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nintr 5\n")
}

fn counters(cpu_us: u64, stat: &str) -> LoadCounters {
    LoadCounters::parse([Some(&pressure(cpu_us)), Some(&pressure(5)), None], Some(stat))
}

#[test]
fn load_is_the_rise_of_the_counters_over_the_time_between() {
    let before = counters(1_000_000, &stat(100, 1000, 10));
    let after = counters(2_500_000, &stat(250, 1030, 30));
    let load = after.load_since(&before, Duration::from_secs(2)).unwrap();
    assert!((load.measured_ms - 2000.0).abs() < 1e-9);
    assert_eq!(load.cpu_pressure_percent, Some(75.0));
    assert_eq!(load.io_pressure_percent, Some(0.0));
    assert_eq!(load.memory_pressure_percent, None);
    // 20 of 150 + 30 + 20 ticks; the time of guests is part of that of users.
    assert_eq!(load.steal_percent, Some(10.0));
}

#[test]
fn what_the_kernel_does_not_report_is_absent() {
    let none = LoadCounters::parse([None; 3], None);
    assert_eq!(none.load_since(&none, Duration::from_secs(1)), None);
    let without_psi = |steal| LoadCounters::parse([None; 3], Some(&stat(100 + steal, 0, steal)));
    let load = without_psi(10).load_since(&without_psi(0), Duration::from_secs(1)).unwrap();
    assert_eq!((load.cpu_pressure_percent, load.steal_percent), (None, Some(50.0)));
    // Kernels without steal have fewer columns; nothing happened in no time; counters that ran backwards.
    let text = "cpu  1 2 3 4 5 6 7\n";
    let old = LoadCounters::parse([Some("some total=x"), Some(""), Some("full total=5")], Some(text));
    assert_eq!(old, none);
    let one = counters(5, &stat(1, 1, 9));
    let load = one.load_since(&one, Duration::ZERO);
    assert_eq!(load, None);
    let earlier = counters(2, &stat(0, 0, 20));
    let load = one.load_since(&earlier, Duration::from_secs(1));
    assert_eq!(load.unwrap().steal_percent, None);
}

#[test]
fn the_time_of_a_thread_is_read_from_schedstat() {
    let time = ThreadTime::parse("53321 42493 2\n").unwrap();
    assert_eq!((time.ran, time.waited), (Duration::from_nanos(53_321), Duration::from_nanos(42_493)));
    for text in ["", "1", "1 x 2", "-1 2 3"] {
        assert_eq!(ThreadTime::parse(text), None, "{text}");
    }
    let own = ThreadClock::of_this_thread().unwrap();
    let before = own.time().unwrap();
    assert!(own.time().unwrap().ran >= before.ran);
}
