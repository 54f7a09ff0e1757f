//! Tables and logs as public data sets have them, whose values an importer could take from the wrong place.

use pathbench_link::trace::{self, RateUnit, TraceContent, TraceError, TraceFormat, TraceOptions};
use pathbench_link::{RateModel, ScheduleEnd};
use std::time::Duration;

fn options(unit: Option<RateUnit>, columns: &[&str]) -> TraceOptions {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    TraceOptions { unit, columns, ..TraceOptions::default() }
}

fn auto() -> TraceOptions {
    TraceOptions::default()
}

fn import(text: &str, options: &TraceOptions) -> TraceContent {
    trace::import(text.as_bytes(), options).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(text: &str, options: &TraceOptions) -> TraceError {
    trace::import(text.as_bytes(), options).expect_err(text)
}

/// Milliseconds and bit/s.
fn rates(content: &TraceContent) -> Vec<(u128, u64)> {
    let Some(RateModel::Steps(rate)) = &content.rate else { panic!("no rate") };
    rate.steps.iter().map(|(at, bps)| (at.as_millis(), *bps)).collect()
}

/// Milliseconds and milliseconds.
fn delays(content: &TraceContent) -> Vec<(u128, u128)> {
    let delay = content.delay.as_ref().expect("a delay");
    delay.steps.iter().map(|(at, delay)| (at.as_millis(), delay.as_millis())).collect()
}

/// Regression: a separator within quotes began a new column, so that the value beside it became the rate.
#[test]
fn a_separator_within_quotes_belongs_to_its_value() {
    let text =
        "time_s,\"place, side\",cell,\"rate, down (Mbit/s)\"\n0,\"Hall 3, east\",7,12.5\n1,\"\",8,14\n";
    assert_eq!(rates(&import(text, &auto())), [(0, 12_500_000), (1_000, 14_000_000)]);
    let text = "time_s;cell;rate, down (Mbit/s)\n0;7;12.5\n1;8;14\n";
    assert_eq!(rates(&import(text, &auto())), [(0, 12_500_000), (1_000, 14_000_000)]);
}

/// Regression: `0,11,5` was 11 Mbit/s where 11.5 with a decimal comma was meant.
#[test]
fn a_line_with_other_columns_than_the_header_is_refused() {
    for text in [
        "time_s,rate_mbps\n0,12\n1,11,5\n",
        "time_s,place,rate_mbps\n0,hall,12\n1,Hall 3, east,11\n",
        "time_s\trate_mbps\tcell\n0\t12\t7\n\t1\t12\n",
    ] {
        assert!(matches!(refusal(text, &auto()), TraceError::Malformed { line: 3, .. }), "{text}");
    }
    assert_eq!(
        rates(&import("time_s,rate_mbps\n0,12,\n1,11,,\n", &auto())),
        [(0, 12_000_000), (1_000, 11_000_000)]
    );
    let wide = format!("time_s,{}rate_mbps\n0,1\n", "x,".repeat(300));
    assert!(matches!(refusal(&wide, &auto()), TraceError::Malformed { line: 1, .. }));
}

#[test]
fn the_column_of_numbered_rows_may_lack_a_name() {
    for text in
        [",time_s,rate_mbps\n0,10,12\n1,11,13\n", "\"\",\"time_s\",\"rate_mbps\"\n\"0\",10,12\n\"1\",11,13\n"]
    {
        assert_eq!(rates(&import(text, &auto())), [(0, 12_000_000), (1_000, 13_000_000)], "{text}");
    }
}

/// Regression: a rate kept its times where the delay beside it counted from the first line.
#[test]
fn all_quantities_of_a_table_begin_with_its_first_line() {
    let content = import("time_s,rate_mbps,rtt_ms,loss_percent\n40,8,20,1\n41,9,30,2\n42,8,40,3\n", &auto());
    assert_eq!(rates(&content), [(0, 8_000_000), (1_000, 9_000_000), (2_000, 8_000_000)]);
    assert_eq!(delays(&content), [(0, 10), (1_000, 15), (2_000, 20)]);
    let loss = content.loss.unwrap();
    assert_eq!(loss.steps.iter().map(|step| step.0.as_secs()).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(content.rate.unwrap().mean_rate_bps(), Some(8_333_333));
    assert_eq!(loss.end, content.delay.unwrap().end);
}

/// Regression: numbers of lost packets were read as probabilities, one packet as a loss of 100 %.
#[test]
fn a_number_of_lost_packets_is_no_loss() {
    for column in ["packets_lost", "lost_packets", "lost", "loss_count", "total_loss"] {
        let content = import(&format!("time_s,rate_mbps,{column}\n0,8,0\n1,9,1\n"), &auto());
        assert!(content.loss.is_none(), "{column}");
    }
    for (column, second) in [
        ("lost_percent", 0.01),
        ("packet_loss", 1.0),
        ("fraction_lost", 1.0),
        ("packets_loss_percentage", 0.01),
    ] {
        let content = import(&format!("time_s,rate_mbps,{column}\n0,8,0\n1,9,1\n"), &auto());
        assert_eq!(content.loss.unwrap().steps[1], (Duration::from_secs(1), second), "{column}");
    }
}

/// Regression: `video_bitrate_kbps` was chosen because its name has a unit, `total_mbit` because of its unit alone.
#[test]
fn a_unit_alone_chooses_no_column() {
    let text = "time_s,video_bitrate_kbps,throughput\n0,750,3.5\n1,1200,4\n";
    assert!(matches!(refusal(text, &auto()), TraceError::SeveralColumns { line: 1, .. }));
    let named = options(Some(RateUnit::Megabits), &["throughput"]);
    assert_eq!(rates(&import(text, &named)), [(0, 3_500_000), (1_000, 4_000_000)]);
    assert!(matches!(refusal("time_s,total_mbit\n0,750\n", &auto()), TraceError::NoColumn { .. }));
    // No option names the column of the time.
    let error = refusal("start,end,bits_per_second\n0,1,3\n", &auto());
    assert!(
        matches!(error, TraceError::NoTimeColumn { line: 1, .. }) && !error.to_string().contains("--column"),
        "{error}"
    );
    let text = "download_time_ms,timestamp,rate_mbps\n7,100,3\n9,101,4\n";
    assert_eq!(rates(&import(text, &auto())), [(0, 3_000_000), (1_000, 4_000_000)]);
}

/// Regression: two columns of kbit/s of a mobile network were read as Mbit/s, as Pensieve has them.
#[test]
fn a_detected_pensieve_trace_is_of_at_most_one_gigabit() {
    let text = "0 3500\n1 2800\n";
    let error = refusal(text, &auto());
    assert!(error.to_string().contains("kbit/s"), "{error}");
    assert_eq!(rates(&import(text, &options(Some(RateUnit::Kilobits), &[])))[0].1, 3_500_000);
    let given = TraceOptions { format: Some(TraceFormat::Pensieve), ..auto() };
    assert_eq!(rates(&import(text, &given))[0].1, 3_500_000_000);
    assert_eq!(rates(&import("0 1000\n1 999.5\n", &auto()))[0].1, 1_000_000_000);
}

#[test]
fn the_times_of_loggers_are_dates() {
    let text = "Timestamp,Speed,CellID,DL_bitrate,UL_bitrate,PINGAVG\n2019.12.16_13.40.04,0,11,8192,40,-\n\
                2019.12.16_13.40.05,1,11,10240,50,31\n";
    let error = refusal(text, &auto());
    assert!(error.to_string().contains("`DL_bitrate`, `UL_bitrate`"), "{error}");
    let named = options(Some(RateUnit::Kilobits), &["DL_bitrate"]);
    assert_eq!(rates(&import(text, &named)), [(0, 8_192_000), (1_000, 10_240_000)]);
    let twice = text.replace("13.40.05", "13.40.04");
    let error = refusal(&twice, &named).to_string();
    assert!(error.starts_with("line 3: ") && error.contains("keep one of each time"), "{error}");
    let missing = text.replace("8192", "-");
    assert!(matches!(refusal(&missing, &named), TraceError::Malformed { line: 2, .. }));
    // 12:59 PM is before 01:00 PM.
    let hours = "time,rate_mbps\n2024-05-05 01:00:00 PM,1\n2024-05-05 02:00:00 PM,2\n";
    assert!(matches!(refusal(hours, &auto()), TraceError::Malformed { line: 2, .. }));
}

#[test]
fn a_name_without_a_unit_is_read_with_a_note() {
    let notes = import("time,rate_mbps,loss\n0,1,0\n1,2,0.5\n", &auto()).notes.join("; ");
    assert!(notes.contains("`time` has no unit; its times are taken as seconds"), "{notes}");
    assert!(notes.contains("`loss` has no unit; its losses are taken as 0 to 1"), "{notes}");
    let notes = import("time,rate_mbps,loss\n1717000000,1,0%\n1717000001,2,1%\n", &auto()).notes;
    assert!(notes.is_empty(), "{notes:?}");
}

fn answer(sequence: u32) -> String {
    format!("64 bytes from 192.0.2.7: icmp_seq={sequence} ttl=52 time=10 ms\n")
}

/// Regression: the end of a long log began with hours in which everything was lost.
#[test]
fn the_end_of_a_log_of_ping_begins_with_its_first_answer() {
    let mut text: String = (50_000..50_020).filter(|at| *at != 50_004).map(answer).collect();
    // The probes before the first line count here.
    text += "50019 packets transmitted, 50000 received, 0.1% packet loss, time 50018000ms\n";
    let content = import(&text, &auto());
    assert_eq!(
        (delays(&content)[0], content.delay.unwrap().end),
        ((0, 5), ScheduleEnd::Repeat(Duration::from_secs(20)))
    );
    let loss = content.loss.unwrap();
    assert!((loss.steps[0].1 - (1.0 - 0.9_f64.sqrt())).abs() < 1e-9 && loss.steps[1].1 == 0.0, "{loss:?}");
}

/// Regression: the answers of a second ping with the same numbers were left out.
#[test]
fn several_pings_in_one_file_are_refused() {
    let begin = "PING 192.0.2.7 (192.0.2.7) 56(84) bytes of data.\n";
    let text = format!("{begin}{}\n{begin}{}", answer(1), answer(1));
    assert_eq!(refusal(&text, &auto()), TraceError::SeveralPings { line: 4 });
}

#[test]
fn answers_in_another_language_are_no_empty_file() {
    let text = "PING 192.0.2.7 (192.0.2.7) 56(84) octets de données.\n\
                64 octets de 192.0.2.7 : icmp_seq=1 ttl=57 temps=12.3 ms\n";
    let error = refusal(text, &auto());
    assert!(error == TraceError::NoAnswer && error.to_string().contains("LC_ALL=C"), "{error}");
}
