//! Estimates of lines from synthetic probes and transfers.

use pathbench_analysis::line::{
    DirectionEstimate, FillEstimate, FlowDatagram, IdleEstimate, LineEstimate, LineProbe, LossBasis,
    LossEstimate, QueueEstimate, RateBasis, RateEstimate, SeriesEstimate,
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
    assert!(!LossEstimate::from_counts(500, 2, LossBasis::Datagrams).unwrap().is_distinct());
    assert!(LossEstimate::from_counts(500, 3, LossBasis::Datagrams).unwrap().is_distinct());
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
    let basis = RateBasis::Tcp { goodput_mbps: 14.48, payload_bytes: 1_448, probes_bps: 0 };
    assert_eq!((rate.rate_bps, rate.basis, rate.frame_bytes), (15_140_000, basis, 1_514));
    // Regression: probes every 20 ms take a share of a slow line that was missing in its rate.
    let probes =
        [0.0, 20.0, 40.0, 60.0].map(|at_ms| LineProbe { at_ms, rtt_ms: (at_ms > 0.0).then_some(9.0) });
    let beside = rate.with_probes(&probes, 100);
    assert!(matches!(beside.basis, RateBasis::Tcp { probes_bps: 40_000, .. }), "{beside:?}");
    assert_eq!(beside.rate_bps, rate.rate_bps + 40_000);
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
        loss: Err("no datagrams".to_owned()),
        congestion: None,
    };
    let own = LossEstimate::from_counts(10_000, 100, LossBasis::Datagrams).unwrap();
    let mut line = LineEstimate {
        name: "dsl".to_owned(),
        is_backup: false,
        idle: Ok(IdleEstimate::from_probes(&probes([Some(25.64); 60])).unwrap()),
        mtu_bytes: Ok(1_500),
        upload: DirectionEstimate { loss: Ok(own), ..direction(0.41) },
        download: direction(41.0),
        probe_frame_bytes: 82,
    };
    // 82 bytes take 1.6 ms and 0.016 ms.
    assert!((line.transmission_ms() - 1.616).abs() < 0.001);
    assert!((line.delay_ms().unwrap() - 12.012).abs() < 0.001);
    assert_eq!(line.loss(Direction::Upload), Some(own));
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

/// Datagrams of 1,250 bytes at `offered_mbps` over a line of 10 Mbit/s with a queue of 200 ms, 20 ms of delay and clocks that
/// differ by `clock_ms`; every `lost_every`th one is lost behind the line. A host pauses from `paused_ms` on for 500 ms.
fn flow(offered_mbps: f64, seconds: f64, lost_every: usize, paused_ms: Option<f64>) -> Vec<FlowDatagram> {
    let (interval_ms, clock_ms) = (10.0 / offered_mbps, -4_000.0);
    let mut free_ms = 0.0_f64;
    let count = (seconds * 1e3 / interval_ms) as usize;
    let datagram = |index: usize| {
        let sent_ms = index as f64 * interval_ms;
        let leaves_ms = free_ms.max(sent_ms) + 1.0;
        if leaves_ms - sent_ms > 200.0 {
            return FlowDatagram { sent_ms, received_ms: None };
        }
        free_ms = leaves_ms;
        let held_ms = paused_ms
            .filter(|pause| (*pause..pause + 500.0).contains(&leaves_ms))
            .map_or(leaves_ms, |pause| pause + 500.0 + (leaves_ms - pause) / 1e3);
        let is_lost = index % lost_every == lost_every - 1;
        FlowDatagram { sent_ms, received_ms: (!is_lost).then_some(held_ms + 20.0 + clock_ms) }
    };
    (0..count).map(datagram).collect()
}

#[test]
fn a_flow_above_the_rate_shows_rate_and_queue_whatever_the_loss() {
    for (lost_every, paused_ms) in [(usize::MAX, None), (49, None), (usize::MAX, Some(1_200.0))] {
        let series = SeriesEstimate::from_datagrams(&flow(1.0, 8.0, lost_every, None), 1_250).unwrap();
        let lost = if lost_every == 49 { 16 } else { 0 };
        assert_eq!((series.sent, series.lost), (800, lost));
        let fill = FillEstimate::from_datagrams(&flow(20.0, 3.0, lost_every, paused_ms), 1_250, &series);
        let fill = fill.unwrap();
        let rate = RateEstimate::from_fill(&fill, series.loss()).unwrap();
        assert!((rate.rate_bps as f64 / 10e6 - 1.0).abs() < 0.02, "{rate:?}");
        let queue = QueueEstimate::from_fill(&fill);
        assert!(fill.is_full && (queue.queue_ms / 200.0 - 1.0).abs() < 0.02, "{fill:?} {queue:?}");
    }
}

#[test]
fn a_flow_below_the_rate_or_too_short_for_the_queue_says_so() {
    let series = SeriesEstimate::from_datagrams(&flow(1.0, 8.0, 50, None), 1_250).unwrap();
    let loss = series.loss();
    let below = FillEstimate::from_datagrams(&flow(8.0, 3.0, 50, None), 1_250, &series).unwrap();
    assert!(!below.is_above(loss) && !below.is_full, "{below:?}");
    assert!(RateEstimate::from_fill(&below, loss).is_none());
    // 12 of 10 Mbit/s fill a fifth of a second in one second.
    let short = FillEstimate::from_datagrams(&flow(12.0, 1.0, usize::MAX, None), 1_250, &series).unwrap();
    assert!(short.is_above(0.0) && !short.is_full, "{short:?}");
    assert!(FillEstimate::from_datagrams(&flow(20.0, 0.005, 1_000, None), 1_250, &series).is_none());
    assert!(SeriesEstimate::from_datagrams(&flow(1.0, 0.1, 1_000, None), 1_250).is_none());
}
