//! Traces of other tools: generated files of each format, their quantities, and the refusals of ambiguous ones.

use pathbench_link::trace::{
    self, RateUnit, TimeUnit, TraceContent, TraceError, TraceFormat, TraceOptions, TraceSummary,
};
use pathbench_link::{RateModel, ScheduleEnd, Steps};
use pathbench_record::direction::Direction;
use proptest::prelude::*;
use std::fmt::Write as _;
use std::time::Duration;

fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

fn auto() -> TraceOptions {
    TraceOptions::default()
}

fn with_unit(unit: RateUnit) -> TraceOptions {
    TraceOptions { unit: Some(unit), ..auto() }
}

fn rate_steps(text: &str, options: &TraceOptions) -> Vec<(u64, u64)> {
    let RateModel::Steps(steps) =
        trace::rate(text.as_bytes(), options).unwrap_or_else(|error| panic!("{text}: {error}"))
    else {
        panic!("{text}: no steps")
    };
    steps.steps.iter().map(|(at, bps)| (at.as_millis() as u64, *bps)).collect()
}

fn import(text: &str, options: &TraceOptions) -> TraceContent {
    trace::import(text.as_bytes(), options).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn delays(content: &TraceContent) -> Vec<(u64, f64)> {
    let delay = content.delay.as_ref().expect("a delay");
    delay.steps.iter().map(|(at, delay)| (at.as_millis() as u64, delay.as_secs_f64() * 1e3)).collect()
}

#[test]
fn pensieve_is_seconds_and_megabits_with_blanks_or_tabs() {
    for text in ["0.0\t2.5\n1.5\t4.125\n3.0\t0\n", "0 2.5\n1.5  4.125\r\n3 0\r\n"] {
        assert_eq!(rate_steps(text, &auto()), [(0, 2_500_000), (1_500, 4_125_000), (3_000, 0)]);
    }
    // A trace that begins in the middle of a recording begins at zero.
    assert_eq!(rate_steps("1700000000.5 1\n1700000001 2\n", &auto()), [(0, 1_000_000), (500, 2_000_000)]);
    let error = trace::rate(b"0 2500000\n1 3000000\n", &auto()).unwrap_err();
    assert!(matches!(error, TraceError::Implausible { line: 1, .. }), "{error}");
    assert_eq!(
        rate_steps("0 2500000\n1 3000000\n", &with_unit(RateUnit::Bits)),
        [(0, 2_500_000), (1_000, 3_000_000)]
    );
}

/// Regression: a table without a unit was read as bytes per second.
#[test]
fn a_rate_without_a_unit_is_refused_with_the_choice() {
    for text in
        ["0,12.5\n1,15.25\n2,8\n", "time,throughput\n0,12.5\n1,15.25\n2,8\n", "0;12.5\n1;15.25\n2;8\n"]
    {
        let error = trace::rate(text.as_bytes(), &auto()).unwrap_err();
        assert!(matches!(error, TraceError::NoRateUnit { line: 1, .. }), "{text}: {error}");
        let message = error.to_string();
        for unit in RateUnit::ALL {
            assert!(message.contains(unit.name()), "{message}");
        }
        let expected = [(0, 12_500_000), (1_000, 15_250_000), (2_000, 8_000_000)];
        assert_eq!(rate_steps(text, &with_unit(RateUnit::Megabits)), expected);
        let bytes: Vec<u64> =
            rate_steps(text, &with_unit(RateUnit::Bytes)).iter().map(|step| step.1).collect();
        assert_eq!(bytes, [100, 122, 64]);
    }
}

#[test]
fn units_are_read_from_the_names_of_columns() {
    let table = [
        ("throughput_mbps", 3_000_000),
        ("Throughput (Mbit/s)", 3_000_000),
        ("bw_kbps", 3_000),
        ("capacity [kbit/s]", 3_000),
        ("rate_bps", 3),
        ("bits_per_second", 3),
        ("bytes/s", 24),
        ("bytes_per_second", 24),
        ("rate_MBps", 24_000_000),
        ("dl (kB/s)", 24_000),
        ("goodput_gbit", 3_000_000_000),
        ("megabits per sec", 3_000_000),
    ];
    for (column, bps) in table {
        assert_eq!(rate_steps(&format!("t_s,{column}\n0,3\n"), &auto()), [(0, bps)], "{column}");
    }
    for column in ["throughput_MBPS", "rate_mb/s", "bandwidth", "bitrate (b)"] {
        let error = trace::rate(format!("t_s,{column}\n0,3\n").as_bytes(), &auto()).unwrap_err();
        assert!(matches!(error, TraceError::NoRateUnit { .. }), "{column}: {error}");
    }
    let error = trace::rate(b"t_s,rate_mbps\n0,3\n", &with_unit(RateUnit::Bytes)).unwrap_err();
    assert!(matches!(error, TraceError::UnitConflict { .. }), "{error}");
}

#[test]
fn dates_and_unix_times_become_relative() {
    let expected = [(0, 60_000_000), (2_500, 55_500_000)];
    for [first, second] in [
        ["2025-03-30 00:59:59 PST", "2025-03-30 01:00:01.500 PST"],
        ["2025-03-30T00:59:59Z", "2025-03-30T02:00:01.5+01:00"],
        ["\"2025-12-31T23:59:59\"", "\"2026-01-01T00:00:01.5\""],
        ["1743296399", "1743296401.5"],
        ["1743296399000", "1743296401500"],
    ] {
        let text = format!("time,throughput,heading\n{first},60,3\n{second},55.5,4\n");
        assert_eq!(rate_steps(&text, &with_unit(RateUnit::Megabits)), expected, "{first}");
    }
    let table = "time_ms;rate_mbps\n0;60\n2500;55.5\n";
    assert_eq!(rate_steps(table, &auto()), expected);
    let zones = "time,rate_mbps\n2025-11-02 01:59:59 PDT,1\n2025-11-02 01:00:00 PST,1\n";
    let error = trace::rate(zones.as_bytes(), &auto()).unwrap_err();
    assert!(matches!(error, TraceError::ZoneChanges { line: 3, .. }), "{error}");
}

#[test]
fn columns_that_are_not_unique_are_refused_until_one_is_named() {
    let text =
        "time_s,download_mbps,upload_mbps,rtt_ms,loss_percent\n0,50,5,30,1\n1,60,6,,0\n2,55,5.5,34,2\n";
    let error = trace::import(text.as_bytes(), &auto()).unwrap_err();
    assert!(error.to_string().contains("`download_mbps`, `upload_mbps`"), "{error}");
    let columns = |names: &[&str]| TraceOptions {
        columns: names.iter().map(|name| (*name).to_owned()).collect(),
        ..auto()
    };
    let content = import(text, &columns(&["Upload_Mbps"]));
    assert!(content.delay.is_none() && content.loss.is_none());
    let summary = TraceSummary::from_rate(content.rate.as_ref().unwrap()).unwrap();
    assert_eq!((summary.least, summary.most, summary.duration), (5e6, 6e6, Some(ms(3_000))));
    let content = import(text, &columns(&["download_mbps", "rtt_ms", "loss_percent"]));
    assert_eq!(
        delays(&content),
        [(0, 15.0), (2_000, 17.0)],
        "half of the round trip; the lost one leaves it"
    );
    assert_eq!(content.loss.unwrap().steps, [(ms(0), 0.01), (ms(1_000), 0.0), (ms(2_000), 0.02)]);
    assert!(content.notes.iter().any(|note| note.contains("half of the measured round trip")));
    let unknown = "time_s,north,south\n0,5,6\n1,6,7\n";
    assert!(matches!(trace::rate(unknown.as_bytes(), &auto()), Err(TraceError::NoColumn { .. })));
    let named = TraceOptions { unit: Some(RateUnit::Kilobits), ..columns(&["south"]) };
    assert_eq!(rate_steps(unknown, &named), [(0, 6_000), (1_000, 7_000)]);
}

#[test]
fn a_delay_column_needs_a_unit_and_a_direction() {
    let error = trace::delay(b"time_s,rtt\n0,20\n", &auto()).unwrap_err();
    assert!(matches!(error, TraceError::NoTimeUnit { .. }), "{error}");
    let options = TraceOptions { delay_unit: Some(TimeUnit::Microseconds), ..auto() };
    assert_eq!(trace::delay(b"time_s,rtt\n0,20000\n", &options).unwrap().steps, [(ms(0), ms(10))]);
    assert_eq!(trace::delay(b"time_s,owd_ms\n0,20\n", &auto()).unwrap().steps, [(ms(0), ms(20))]);
    // Latency may be of one direction or of both.
    assert!(matches!(trace::delay(b"time_s,latency_ms\n0,20\n", &auto()), Err(TraceError::NoColumn { .. })));
}

#[test]
fn leoreplayer_has_a_delay_for_each_ten_milliseconds() {
    let delay = trace::delay(b"21\n21\n24\n23.5\n", &auto()).unwrap();
    let steps = vec![(ms(0), ms(21)), (ms(20), ms(24)), (ms(30), Duration::from_micros(23_500))];
    assert_eq!(delay, Steps { steps, end: ScheduleEnd::Repeat(ms(40)) });
    let error = trace::import(b"21\n24\n", &auto()).unwrap_err().to_string();
    assert!(
        error.contains("mahimahi") && error.contains("leoreplayer") && error.contains("--format"),
        "{error}"
    );
    let named = TraceOptions { format: Some(TraceFormat::LeoReplayer), ..auto() };
    assert_eq!(delays(&import("21\n24\n", &named)), [(0, 21.0), (10, 24.0)]);
    assert!(matches!(trace::delay(b"21\n\n24\n", &auto()), Err(TraceError::Malformed { line: 2, .. })));
    assert!(matches!(trace::delay(b"21\n-1\n", &auto()), Err(TraceError::OutOfRange { line: 2, .. })));
}

fn alphartc(link: &str) -> String {
    format!(
        "{{\"type\": \"video\", \"downlink\": {{}},\n \"{link}\": {{\"trace_pattern\": [\n\
         {{\"duration\": 400, \"capacity\": 1200, \"loss\": 0, \"jitter\": 0, \"rtt\": 30}},\n\
         {{\"duration\": 600, \"capacity\": 800.5, \"loss\": 0.25}}\n]}}}}"
    )
}

#[test]
fn alphartc_has_rate_loss_and_half_of_its_round_trip() {
    let content = import(&alphartc("uplink"), &auto());
    assert_eq!(content.format, TraceFormat::AlphaRtc);
    let Some(RateModel::Steps(rate)) = &content.rate else { panic!("no rate") };
    assert_eq!(rate.steps, [(ms(0), 1_200_000), (ms(400), 800_500)]);
    assert_eq!(rate.end, ScheduleEnd::Repeat(ms(1_000)));
    assert_eq!(rate.mean_rate_bps(), Some(960_300));
    assert_eq!(delays(&content), [(0, 15.0)]);
    assert_eq!(content.loss.as_ref().unwrap().steps, [(ms(0), 0.0), (ms(400), 0.25)]);
    for (from, to, line, part) in [
        ("1200", "-3", "line 3", "capacity is -3"),
        ("\"loss\": 0.25", "\"loss\": 25", "line 4", "loss is 25"),
        ("600", "0", "line 4", "duration is 0"),
        ("800.5", "oops", "line 4", "alphartc"),
    ] {
        let error =
            trace::import(alphartc("uplink").replace(from, to).as_bytes(), &auto()).unwrap_err().to_string();
        let named = part == "alphartc" || error.contains(part);
        assert!(error.contains(line) && named && error.contains("trace_pattern"), "{error}");
    }
    let both = alphartc("uplink").replace(
        "\"downlink\": {}",
        "\"downlink\": {\"trace_pattern\": [{\"duration\": 5, \"capacity\": 7}]}",
    );
    assert_eq!(trace::rate(both.as_bytes(), &auto()).unwrap_err(), TraceError::SeveralDirections);
    let download = TraceOptions { direction: Some(Direction::Download), ..auto() };
    assert_eq!(rate_steps(&both, &download), [(0, 7_000)]);
}

/// Round trips of 24, 26, … ms every 200 ms, lost as `lost` says.
fn irtt(lost: &[&str]) -> String {
    let trips: Vec<String> = lost
        .iter()
        .enumerate()
        .map(|(index, lost)| {
            let sent = 7_000_000_000 + index as u64 * 200_000_000;
            let delay = if *lost == "false" {
                format!("{{\"receive\": 11000000, \"rtt\": {}, \"send\": 13000000}}", 24_000_000 + index * 2_000_000)
            } else {
                "{}".to_owned()
            };
            format!(
                "{{\"seqno\": {index}, \"lost\": \"{lost}\", \"timestamps\": {{\"client\": {{\"receive\": {{}}, \"send\": \
                 {{\"wall\": 17000000000000, \"monotonic\": {sent}}}}}, \"server\": {{}}}}, \"delay\": {delay}, \"ipdv\": {{}}}}"
            )
        })
        .collect();
    format!(
        "{{\"version\": \"0.9.1\", \"system_info\": {{}}, \"stats\": {{}},\n\"round_trips\": [\n{}\n]}}",
        trips.join(",\n")
    )
}

#[test]
fn irtt_has_delay_and_the_loss_of_each_direction() {
    let mut lost = ["false"; 20];
    (lost[3], lost[7], lost[8]) = ("true_up", "true_up", "true_down");
    let text = irtt(&lost);
    let content = import(&text, &auto());
    assert_eq!(content.format, TraceFormat::Irtt);
    let found = delays(&content);
    assert_eq!((found.len(), found[0], found[3]), (17, (0, 12.0), (800, 16.0)));
    assert_eq!(content.delay.as_ref().unwrap().end, ScheduleEnd::Repeat(ms(4_000)));
    let in_direction = |direction| {
        let options = TraceOptions { direction, ..auto() };
        trace::loss(text.as_bytes(), &options).unwrap().steps[0].1
    };
    assert!(
        (in_direction(Some(Direction::Upload)) - 0.2).abs() < 1e-12,
        "2 of 10 in the first window of 2 s"
    );
    assert!((in_direction(Some(Direction::Download)) - 0.125).abs() < 1e-12, "1 of the 8 that arrived");
    assert!((in_direction(None) - (1.0 - 0.7_f64.sqrt())).abs() < 1e-12, "3 of 10 round trips");
    let error = trace::import(text.replace("\"true_down\"", "\"maybe\"").as_bytes(), &auto()).unwrap_err();
    assert!(error.to_string().starts_with("line 11: lost is `maybe`"), "{error}");
}

#[test]
fn the_table_of_irtt_has_lost_packets_by_direction() {
    let text = "timestamp,rtt,uplink,downlink\n1717000000000000000,40,22,18\n1717000000010000000,-1,0,0\n\
                1717000000020000000,0,-1,0\n1717000000030000000,44,22,22\n";
    let content = import(text, &auto());
    assert_eq!(content.format, TraceFormat::Irtt);
    assert_eq!(delays(&content), [(0, 20.0), (30, 22.0)]);
    assert!((content.loss.unwrap().steps[0].1 - (1.0 - 0.5_f64.sqrt())).abs() < 1e-12);
}

/// Answers of ping: sequence, milliseconds; and the Unix time of `-D` of the first.
fn ping(answers: &[(u32, f64)], begin: Option<f64>, end: &str) -> String {
    let mut text = "PING host.example (192.0.2.7) 56(84) bytes of data.\n".to_owned();
    for (sequence, rtt) in answers {
        let at = begin.map_or(String::new(), |begin| {
            format!("[{:.6}] ", begin + f64::from(*sequence) * 0.5 + rtt / 1e3)
        });
        writeln!(
            text,
            "{at}64 bytes from host.example (192.0.2.7): icmp_seq={sequence} ttl=52 time={rtt} ms"
        )
        .unwrap();
    }
    text + end
}

#[test]
fn ping_has_delay_and_loss_by_its_missing_numbers() {
    let answers: Vec<(u32, f64)> =
        (1..=20).filter(|at| ![4, 5].contains(at)).map(|at| (at, 30.0 + f64::from(at))).collect();
    let printed = import(&ping(&answers, Some(1_717_000_000.25), ""), &auto());
    let found = delays(&printed);
    assert_eq!((printed.format, found.len()), (TraceFormat::Ping, 18));
    assert_eq!(found[..4], [(0, 15.5), (500, 16.0), (1_000, 16.5), (2_500, 18.0)]);
    let loss = &printed.loss.as_ref().unwrap().steps;
    assert!((loss[0].1 - (1.0 - 0.8_f64.sqrt())).abs() < 1e-12, "2 of the first 10 in 5 s: {loss:?}");
    assert_eq!(loss[1], (ms(5_000), 0.0));
    // Without -D the statistics at the end have the interval, and the lost probes at the end.
    let statistics = "\n--- host.example ping statistics ---\n25 packets transmitted, 18 received, 28% packet loss, time 4800ms\n\
                      rtt min/avg/max/mdev = 31.000/40.7/50.0/5.6 ms\n";
    let counted = import(&ping(&answers, None, statistics), &auto());
    assert_eq!(delays(&counted)[..4], [(0, 15.5), (200, 16.0), (400, 16.5), (1_000, 18.0)]);
    assert_eq!(counted.delay.as_ref().unwrap().end, ScheduleEnd::Repeat(ms(5_000)));
    assert!(counted.notes.iter().any(|note| note.contains("0.2 s")), "{:?}", counted.notes);
    let assumed = import(&ping(&answers, None, ""), &auto());
    assert_eq!(delays(&assumed)[1], (1_000, 16.0));
    assert!(assumed.notes.iter().any(|note| note.contains("assumed")), "{:?}", assumed.notes);
}

#[test]
fn the_numbers_of_ping_wrap_and_its_other_lines_are_ignored() {
    let text = "64 bytes from 192.0.2.7: icmp_seq=65534 ttl=52 time=10 ms\nno answer yet for icmp_seq=65535\n\
                From 192.0.2.1 icmp_seq=65535 Destination Host Unreachable\n\
                64 bytes from 192.0.2.7: icmp_seq=0 ttl=52 time=12 ms\n64 bytes from 192.0.2.7: icmp_seq=0 ttl=52 time=13 ms (DUP!)\n";
    let content = import(text, &TraceOptions { format: Some(TraceFormat::Ping), ..auto() });
    let found = delays(&content);
    assert_eq!((found.first().unwrap().1, found.last().unwrap().1), (5.0, 6.0));
    let only_losses = "PING 192.0.2.7 (192.0.2.7) 56(84) bytes of data.\n\n--- 192.0.2.7 ping statistics ---\n\
                       5 packets transmitted, 0 received, 100% packet loss, time 4090ms\n";
    assert_eq!(trace::import(only_losses.as_bytes(), &auto()).unwrap_err(), TraceError::NoAnswer);
    let error = trace::import(b"64 bytes from h: icmp_seq=1 ttl=5 time=x ms\n", &auto()).unwrap_err();
    assert!(matches!(error, TraceError::Malformed { line: 1, .. }), "{error}");
}

#[test]
fn the_summary_of_opportunities_has_rates_of_whole_seconds() {
    let lines: Vec<String> =
        (1..=1_000).chain((1_001..=2_000).step_by(2)).map(|at: u32| at.to_string()).collect();
    let model = trace::rate(format!("{}\n2000\n", lines.join("\n")).as_bytes(), &auto()).unwrap();
    let summary = TraceSummary::from_rate(&model).unwrap();
    assert_eq!(summary.duration, Some(ms(2_000)));
    assert!((summary.most - 12e6).abs() < 2e4 && (summary.least - 6e6).abs() < 2e4, "{summary:?}");
}

proptest! {
    /// A written table is read as the same schedule, the length of the last value included.
    #[test]
    fn a_schedule_is_written_and_read_back(
        values in prop::collection::vec((1_u64..4_000, 0_u64..40_000), 1..40), last in 2_u64..4_000
    ) {
        let mut at = 0;
        let mut steps = Vec::new();
        for (gap, delay) in values {
            steps.push((ms(at), Duration::from_micros(delay)));
            at += gap;
        }
        let end = steps.last().unwrap().0 + ms(last);
        let schedule = Steps { steps, end: ScheduleEnd::Repeat(end) };
        let read = trace::delay(trace::delay_table(&schedule).as_bytes(), &auto()).unwrap();
        prop_assert_eq!(read.end, schedule.end);
        let mut at = Duration::ZERO;
        while at < end {
            prop_assert_eq!(read.value_at(at).unwrap().0, schedule.value_at(at).unwrap().0);
            at += ms(97);
        }
        // The mean of more lines is rounded otherwise.
        let (written, read) = (schedule.mean_delay().unwrap(), read.mean_delay().unwrap());
        prop_assert!(read.abs_diff(written) <= Duration::from_nanos(2), "{read:?}, not {written:?}");
    }

    #[test]
    fn messages_have_one_line_and_name_a_remedy(
        text in r#"(PING |[0-9]{1,5}|[a-z_]{1,9}|time_s|rate_mbps|rtt_ms|icmp_seq=|time=| bytes from |\{|\}|\[|"|:|,|;|\t| |\n|\.|-){0,40}"#
    ) {
        for format in std::iter::once(None).chain(TraceFormat::ALL.map(Some)) {
            let options = TraceOptions { format, ..auto() };
            if let Err(error) = trace::import(text.as_bytes(), &options) {
                prop_assert!(!error.to_string().contains(char::is_control), "{error}");
            }
        }
    }
}
