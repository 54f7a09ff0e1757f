//! Estimates of lines from synthetic probes and transfers.

use pathbench_analysis::line::{
    DirectionEstimate, IdleEstimate, LineEstimate, LineProbe, LossBasis, LossEstimate, QueueEstimate,
    RateEstimate,
};
use pathbench_record::direction::Direction;
use pathbench_record::network::AddressFamily;

fn probes(rtts_ms: impl IntoIterator<Item = Option<f64>>) -> Vec<LineProbe> {
    let probe = |(index, rtt_ms)| LineProbe { at_ms: index as f64 * 20.0, rtt_ms };
    rtts_ms.into_iter().enumerate().map(probe).collect()
}

/// Quantiles of an exponential distribution, in an order without a trend.
fn exponential(count: usize, mean_ms: f64) -> impl Iterator<Item = f64> {
    (0..count).map(move |index| {
        let rank = (index * 7_919 % count) as f64 + 0.5;
        -mean_ms * (1.0 - rank / count as f64).ln()
    })
}

#[test]
fn an_idle_path_has_the_smallest_round_trip_and_half_of_the_mean_above_it() {
    let idle =
        IdleEstimate::from_probes(&probes(exponential(500, 8.0).map(|above| Some(50.0 + above)))).unwrap();
    assert!((idle.base_rtt_ms - 50.0).abs() < 0.1, "{idle:?}");
    assert!((idle.jitter_ms - 4.0).abs() < 0.2, "8 ms of both directions: {idle:?}");
    assert_eq!((idle.probes, idle.loss.lost), (500, 0));
    assert!(IdleEstimate::from_probes(&probes([Some(5.0); 19])).is_none());
    assert!(IdleEstimate::from_probes(&probes([None; 500])).is_none());
}

#[test]
fn a_loss_of_round_trips_is_shared_by_both_directions() {
    let lost = LossEstimate::from_counts(1_000, 36, LossBasis::RoundTrips).unwrap();
    assert!((1.0 - (1.0 - lost.loss).powi(2) - 0.036).abs() < 1e-12);
    // Wilson's interval of 36 in 1000 is 2.61 to 4.94 %.
    let both = lost.interval.map(|loss| 1.0 - (1.0 - loss).powi(2));
    assert!((both[0] - 0.0261).abs() < 2e-4 && (both[1] - 0.0494).abs() < 2e-4, "{both:?}");
    assert!(!lost.is_coarse());
    let datagrams = LossEstimate::from_counts(1_000, 36, LossBasis::Datagrams).unwrap();
    assert!((datagrams.loss - 0.036).abs() < 1e-12);
    let none = LossEstimate::from_counts(500, 0, LossBasis::Datagrams).unwrap();
    assert_eq!((none.loss, none.interval[0], none.is_coarse()), (0.0, 0.0, false));
    assert!((none.interval[1] - 0.0076).abs() < 1e-4, "{none:?}");
    assert!(LossEstimate::from_counts(500, 1, LossBasis::Datagrams).unwrap().is_coarse());
    assert!(LossEstimate::from_counts(0, 0, LossBasis::Datagrams).is_none());
    assert!(LossEstimate::from_counts(5, 6, LossBasis::Datagrams).is_none());
}

#[test]
fn the_queue_is_what_the_load_adds() {
    let idle = IdleEstimate::from_probes(&probes([Some(40.0); 100])).unwrap();
    // The queue is filled and drained by a quarter, as by CUBIC, and probes at its end are lost.
    let sawtooth = |index: usize| match index % 50 {
        49 => None,
        step => Some(40.0 + 150.0 + step as f64),
    };
    let loaded = probes((0..400).map(sawtooth));
    let queue = QueueEstimate::from_probes(&idle, &loaded).unwrap();
    assert!(queue.is_filled() && (queue.queue_ms - 200.0).abs() < 4.0, "{queue:?}");
    assert!(QueueEstimate::from_probes(&idle, &loaded[390..]).is_none(), "too few probes under load");
    let unfilled = QueueEstimate::from_probes(&idle, &probes([Some(40.5); 100])).unwrap();
    assert!(!unfilled.is_filled(), "{unfilled:?}");
}

#[test]
fn the_rate_counts_whole_frames() {
    // 1448 of 1514 bytes.
    let rate = RateEstimate::from_goodput(14.48, 1_500, AddressFamily::Ipv4).unwrap();
    assert_eq!((rate.rate_bps, rate.payload_bytes, rate.frame_bytes), (15_140_000, 1_448, 1_514));
    // Regression: probes every 20 ms take a share of a slow line that was missing in its rate.
    let probes =
        [0.0, 20.0, 40.0, 60.0].map(|at_ms| LineProbe { at_ms, rtt_ms: (at_ms > 0.0).then_some(9.0) });
    let beside = rate.with_probes(&probes, 100);
    assert_eq!((beside.probes_bps, beside.rate_bps), (40_000, rate.rate_bps + 40_000));
    assert_eq!(rate.with_probes(&probes[..1], 100), rate);
    assert_eq!(RateEstimate::from_goodput(14.28, 1_500, AddressFamily::Ipv6).unwrap().rate_bps, 15_140_000);
    for (goodput, mtu) in [(0.0, 1_500), (5.0, 50), (f64::NAN, 1_500)] {
        assert!(RateEstimate::from_goodput(goodput, mtu, AddressFamily::Ipv4).is_none(), "{goodput} {mtu}");
    }
}

#[test]
fn the_delay_is_half_a_round_trip_without_the_transmission_of_the_probe() {
    let rate =
        |mbps| Ok(RateEstimate::from_goodput(mbps * 1_448.0 / 1_514.0, 1_500, AddressFamily::Ipv4).unwrap());
    let direction = |mbps| DirectionEstimate {
        rate: rate(mbps),
        queue: Err("none".to_owned()),
        loss: None,
        congestion: None,
    };
    let own = LossEstimate::from_counts(10_000, 100, LossBasis::Datagrams);
    let mut line = LineEstimate {
        name: "dsl".to_owned(),
        is_backup: false,
        idle: Ok(IdleEstimate::from_probes(&probes([Some(25.64); 60])).unwrap()),
        mtu_bytes: Ok(1_500),
        upload: DirectionEstimate { loss: own, ..direction(0.41) },
        download: direction(41.0),
        probe_frame_bytes: 82,
    };
    // 82 bytes take 1.6 ms and 0.016 ms.
    assert!((line.transmission_ms() - 1.616).abs() < 0.001);
    assert!((line.delay_ms().unwrap() - 12.012).abs() < 0.001);
    assert_eq!(line.loss(Direction::Upload), own);
    for (congestion, fills) in
        [(None, true), (Some("reno"), true), (Some("cubic"), true), (Some("bbr"), false)]
    {
        line.upload.congestion = congestion.map(str::to_owned);
        assert_eq!(line.upload.fills_queues(), fills, "{congestion:?}");
    }
    assert_eq!(line.loss(Direction::Download).unwrap().basis, LossBasis::RoundTrips);
    line.idle = Err("silent".to_owned());
    assert_eq!((line.delay_ms(), line.loss(Direction::Download)), (None, None));
}
