//! Figures of paths.

use pathbench_record::sample::{PathFigures, PathState};
use serde_json::Value;

/// Written in full, so that a new field does not compile until this test covers it.
pub(crate) fn closed(figure: u64) -> PathFigures {
    let address = ([10, 0, 0, 1], 5201).into();
    PathFigures {
        subflow: figure as u32,
        path_id: Some(figure),
        local: address,
        remote: address,
        interface: Some("eth".to_owned()),
        state: PathState::Closed,
        backup: Some(false),
        bytes_sent: figure,
        packets_sent: Some(figure),
        packets_received: Some(figure),
        control_bytes_sent: Some(figure),
        control_bytes_received: Some(figure),
        bytes_acked: figure,
        bytes_received: figure,
        retransmitted_bytes: figure,
        retransmitted_segments: figure,
        lost_bytes: Some(figure),
        mtu_probes: Some(figure),
        black_holes: Some(figure),
        srtt_ms: figure as f64,
        rttvar_ms: figure as f64,
        min_rtt_ms: Some(figure as f64),
        rto_ms: figure as f64,
        backoff: figure as u32,
        cwnd_bytes: figure,
        in_flight_bytes: figure,
        not_sent_bytes: figure,
        pacing_rate_bps: Some(figure),
        delivery_rate_bps: Some(figure),
        mss_bytes: figure as u32,
        pmtu_bytes: figure as u32,
        since_last_sent_ms: figure,
        since_last_received_ms: figure,
        closed_paths: None,
        busy_us: Some(figure),
        receive_window_limited_us: Some(figure),
        send_buffer_limited_us: Some(figure),
        application_limited: Some(false),
        send_window_bytes: Some(figure as u32),
        receive_space_bytes: Some(figure as u32),
        out_of_order_packets: Some(figure as u32),
        connection_unacked_bytes: Some(figure),
        connection_received_bytes: Some(figure),
    }
}

#[test]
fn counters_of_closed_paths_add_up_and_other_figures_are_the_later_ones() {
    let mut sum = closed(100);
    sum.add_closed(&closed(7));
    let Value::Object(figures) = serde_json::to_value(&sum).unwrap() else { panic!("no object") };
    let value_is = |number: f64| {
        let of = figures.iter().filter(|(_, value)| value.as_f64() == Some(number));
        of.map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        value_is(107.0),
        "bytes_sent packets_sent packets_received control_bytes_sent control_bytes_received bytes_acked \
         bytes_received retransmitted_bytes retransmitted_segments lost_bytes mtu_probes black_holes \
         busy_us receive_window_limited_us send_buffer_limited_us out_of_order_packets"
    );
    assert_eq!(
        value_is(7.0),
        "srtt_ms rttvar_ms min_rtt_ms rto_ms backoff cwnd_bytes pacing_rate_bps delivery_rate_bps mss_bytes \
         pmtu_bytes since_last_sent_ms since_last_received_ms send_window_bytes receive_space_bytes \
         connection_unacked_bytes connection_received_bytes"
    );
    assert_eq!(
        (value_is(100.0).as_str(), value_is(0.0).as_str()),
        ("subflow", "in_flight_bytes not_sent_bytes")
    );
    assert_eq!((sum.path_id, sum.state, sum.closed_paths), (None, PathState::Closed, Some(2)));
    sum.add_closed(&PathFigures { lost_bytes: None, closed_paths: Some(3), ..closed(1) });
    assert_eq!((sum.lost_bytes, sum.closed_paths, sum.min_rtt_ms), (Some(107), Some(5), Some(1.0)));
}

#[test]
fn acknowledged_payload_is_at_most_what_was_sent_for_the_first_time() {
    let figures = |bytes_sent, retransmitted_bytes, bytes_acked| {
        let figures = PathFigures { bytes_sent, retransmitted_bytes, bytes_acked, ..closed(1) };
        (figures.new_bytes_sent(), figures.payload_acked())
    };
    assert_eq!(figures(1000, 300, 600), (700, 600));
    assert_eq!(figures(1000, 300, 800), (700, 700));
    assert_eq!(figures(0, 1, 5), (0, 0));
}
