//! Lines in which every field has a value, shared by tests and by the writer of the golden result.

use pathbench_record::delivery::DeliveryLine;
use pathbench_record::direction::{Direction, LinkDirection};
use pathbench_record::document::{LinkSample, ProbeLine};
use pathbench_record::end::MessageLine;
use pathbench_record::event::{Event, EventSource};
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use serde_json::json;

pub(crate) const RUN: &str = "01-mptcp-r1";

fn sample(t_ms: f64, path: &str, host: u8, bytes_received: u64) -> Sample {
    Sample {
        run: RUN.to_owned(),
        t_ms,
        host: "server".to_owned(),
        side: Side::Server,
        stream: 0,
        path: path.to_owned(),
        figures: PathFigures {
            subflow: u32::from(host),
            path_id: Some(1),
            local: ([10, 0, host, 2], 5201).into(),
            remote: ([10, 0, host, 1], 40_000).into(),
            interface: Some(path.to_owned()),
            state: PathState::Open,
            backup: Some(false),
            bytes_sent: 0,
            packets_sent: Some(5_000),
            packets_received: Some(2_500),
            control_bytes_sent: Some(120),
            control_bytes_received: Some(9_000),
            bytes_acked: 1,
            bytes_received,
            retransmitted_bytes: 0,
            retransmitted_segments: 0,
            lost_bytes: Some(1_200),
            mtu_probes: Some(7),
            black_holes: Some(1),
            srtt_ms: 2.25,
            rttvar_ms: 0.5,
            min_rtt_ms: Some(0.061),
            rto_ms: 204.0,
            backoff: 0,
            cwnd_bytes: 14_480,
            in_flight_bytes: 0,
            not_sent_bytes: 0,
            pacing_rate_bps: Some(1_250_000_000),
            delivery_rate_bps: Some(940_000_000),
            mss_bytes: 1448,
            pmtu_bytes: 1500,
            since_last_sent_ms: 4,
            since_last_received_ms: 0,
            closed_paths: None,
            busy_us: Some(51_000),
            receive_window_limited_us: Some(51_000),
            send_buffer_limited_us: Some(51_000),
            application_limited: Some(false),
            send_window_bytes: Some(65_535),
            receive_space_bytes: Some(65_535),
            out_of_order_packets: Some(65_535),
            connection_unacked_bytes: Some(51_000),
            connection_received_bytes: Some(51_000),
        },
    }
}

pub(crate) fn samples() -> Vec<Sample> {
    vec![
        sample(100.0, "eth", 1, 11_750_000),
        sample(100.0, "wlan", 2, 11_640_000),
        sample(200.0, "eth", 1, 23_480_000),
        sample(200.0, "wlan", 2, 23_310_000),
    ]
}

pub(crate) fn events() -> Vec<Event> {
    let event = |t_ms, source, kind: &str, due_ms| Event {
        run: RUN.to_owned(),
        t_ms,
        source,
        host: "client".to_owned(),
        kind: kind.into(),
        path: Some("wlan".to_owned()),
        due_ms,
        detail: [("error".to_owned(), json!(101))].into_iter().collect(),
    };
    vec![
        event(3000.4, EventSource::Scenario, "down", Some(3000.0)),
        event(3000.6, EventSource::Link, "down", None),
        event(3000.9, EventSource::Mptcp, "SUB_CLOSED", None),
        event(3001.2, EventSource::Quic, "path-abandoned", None),
        event(3231.3, EventSource::Observer, "recovered", None),
    ]
}

pub(crate) fn deliveries() -> Vec<DeliveryLine> {
    (0..20_u32)
        .map(|bin| DeliveryLine {
            run: RUN.to_owned(),
            direction: Direction::Upload,
            t_ms: f64::from(bin) * 10.0,
            bytes: 2_339_500,
        })
        .collect()
}

pub(crate) fn messages() -> Vec<MessageLine> {
    let line = |sequence, unacknowledged: bool| MessageLine {
        run: RUN.to_owned(),
        direction: Direction::Upload,
        probe: None,
        path: None,
        phase: None,
        sequence,
        due_ms: f64::from(sequence) * 100.0,
        sent_ms: Some(f64::from(sequence) * 100.0 + 0.25),
        acknowledged_ms: (!unacknowledged).then(|| f64::from(sequence) * 100.0 + 21.5),
        answered_ms: (!unacknowledged).then(|| f64::from(sequence) * 100.0 + 22.0),
        delay_ms: if unacknowledged { 5000.0 } else { 21.5 },
        unacknowledged,
    };
    vec![line(0, false), line(1, true)]
}

pub(crate) fn link_samples() -> Vec<LinkSample> {
    let sample = |t_ms, direction, queue_packets: u64| LinkSample {
        run: RUN.to_owned(),
        t_ms,
        link: "wlan".to_owned(),
        direction,
        queue_bytes: queue_packets * 1_514,
        queue_packets,
        offered_bytes: 3_000_000,
        delivered_bytes: 2_900_000,
        dropped_packets: 13,
        rate_bps: Some(20_000_000),
        loss: Some(0.01),
        delay_ms: Some(20.0),
    };
    vec![sample(100.0, LinkDirection::Forward, 40), sample(100.0, LinkDirection::Reverse, 0)]
}

pub(crate) fn probe_lines() -> Vec<ProbeLine> {
    let line = |sequence: u32, rtt_ms, error: Option<&str>| ProbeLine {
        t_ms: f64::from(sequence) * 100.0,
        path: "wlan".to_owned(),
        sequence,
        rtt_ms,
        error: error.map(str::to_owned),
    };
    vec![line(0, Some(20.5), None), line(1, None, None), line(2, None, Some("Network is unreachable"))]
}
