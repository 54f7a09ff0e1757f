//! Intervals of a running test.

use pathbench_analysis::metrics::live::IntervalMeter;
use pathbench_record::live::{PathProgress, Progress};
use pathbench_record::time::Timestamp;
use std::net::IpAddr;
use std::time::Duration;

const FIRST_BYTE_MS: u64 = 5_000;

fn progress(at_ms: u64, sent_bytes: u64, paths: &[(u8, u64)]) -> Progress {
    let path = |&(host, bytes): &(u8, u64)| PathProgress {
        local: [192, 0, 2, host].into(),
        remote: [198, 51, 100, 7].into(),
        acknowledged_bytes: bytes,
        received_bytes: 0,
        retransmitted_bytes: bytes / 100,
        rtt: Some(Duration::from_millis(u64::from(host))),
        cwnd_bytes: 14_480,
    };
    Progress {
        at: Timestamp::from_nanos((FIRST_BYTE_MS + at_ms) * 1_000_000),
        first_byte: Timestamp::from_nanos(FIRST_BYTE_MS * 1_000_000),
        sent_bytes,
        received_bytes: 0,
        paths: paths.iter().map(path).collect(),
        delays: Vec::new(),
        waiting_since: None,
    }
}

fn name(local: IpAddr) -> String {
    match local {
        IpAddr::V4(local) if local.octets()[3] < 3 => "eth".to_owned(),
        local => local.to_string(),
    }
}

#[test]
fn intervals_join_and_their_bytes_are_those_of_the_test() {
    let mut meter = IntervalMeter::new("01-tcp-r1".to_owned(), Duration::from_secs(1));
    let mut intervals = Vec::new();
    for step in 1..=25 {
        let now = progress(step * 100, step * 125_000, &[(1, step * 100_000), (3, step * 25_000)]);
        intervals.extend(meter.add(now, &name));
    }
    assert_eq!(intervals.len(), 2);
    intervals.extend(meter.finish(&name));
    assert!(meter.finish(&name).is_none());
    let spans: Vec<_> = intervals.iter().map(|one| (one.from_ms, one.to_ms)).collect();
    assert_eq!(spans, [(0.0, 1000.0), (1000.0, 2000.0), (2000.0, 2500.0)]);
    assert_eq!(intervals.iter().map(|one| one.upload_bytes).sum::<u64>(), 25 * 125_000);
    for interval in &intervals {
        assert!((interval.rate_mbps - 10.0).abs() < 1e-6, "{interval:?}");
        let names: Vec<_> = interval.paths.iter().map(|path| (path.name.as_str(), path.rtt_ms)).collect();
        assert_eq!(names, [("eth", Some(1.0)), ("192.0.2.3", Some(3.0))]);
        assert!((interval.paths[0].rate_mbps - 8.0).abs() < 1e-6);
        assert!(interval.delay_ms.is_none());
    }
}

#[test]
fn several_addresses_of_a_path_are_one_path() {
    let mut meter = IntervalMeter::new(String::new(), Duration::from_secs(1));
    let interval = meter.add(progress(2000, 500, &[(1, 300), (2, 200)]), &name).unwrap();
    assert_eq!(interval.paths.len(), 1);
    assert_eq!(interval.paths[0].bytes, 500);
}

#[test]
fn delays_count_in_their_interval_and_a_waiting_message_counts_from_its_due_time() {
    let mut meter = IntervalMeter::new(String::new(), Duration::from_secs(1));
    let with = |at_ms, delays: &[u64], waiting_ms: Option<u64>| Progress {
        delays: delays.iter().map(|&ms| Duration::from_millis(ms)).collect(),
        waiting_since: waiting_ms.map(|ms| progress(ms, 0, &[]).at),
        ..progress(at_ms, 0, &[])
    };
    assert!(meter.add(with(500, &[10, 20], None), &name).is_none());
    let first = meter.add(with(1000, &[90], None), &name).unwrap().delay_ms.unwrap();
    assert_eq!((first.messages, first.median, first.max, first.waiting), (3, Some(20.0), Some(90.0), None));
    let second = meter.add(with(2000, &[], Some(1200)), &name).unwrap().delay_ms.unwrap();
    assert_eq!((second.messages, second.median, second.max, second.waiting), (0, None, None, Some(800.0)));
}
