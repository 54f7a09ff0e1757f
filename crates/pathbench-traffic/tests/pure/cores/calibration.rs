//! The sequence of measurements of a link with two scripted ends.

use pathbench_record::time::Timestamp;
use pathbench_traffic::calibration::{
    CalibrationCommand, CalibrationError, CalibrationPlan, EndReport, LinkCalibration, OneWayDelays,
    PacketTrain, ProbeSeries, ProbeTally, calibrate,
};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;

const SPAN: Duration = Duration::from_millis(300);

fn ms(values: &[u64]) -> Vec<Duration> {
    values.iter().map(|ms| Duration::from_millis(*ms)).collect()
}

fn plan(mtu_bytes: u32) -> CalibrationPlan {
    let [near, far]: [SocketAddr; 2] = [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into()];
    CalibrationPlan::new(near, far, mtu_bytes)
}

/// A link that delivers all packets up to its MTU at the requested rate.
struct Link {
    rtts: Vec<Duration>,
    mtu_bytes: u32,
    /// The sender's kernel rejects larger packets.
    refuses: bool,
    /// Number of small packets that arrive in each series of sizes.
    controls: Vec<u32>,
    sent: Vec<ProbeSeries>,
}

impl Link {
    fn new(mtu_bytes: u32) -> Self {
        Self { rtts: ms(&[20]), mtu_bytes, refuses: false, controls: Vec::new(), sent: Vec::new() }
    }

    fn carry_out(&mut self, command: CalibrationCommand) -> EndReport {
        let mut report = EndReport::default();
        match (command, self.sent.last()) {
            (CalibrationCommand::Open(address), _) => report.local = Some(address),
            (CalibrationCommand::Send(_, series), _) => {
                match &series {
                    ProbeSeries::Echoes { .. } => report.rtts.clone_from(&self.rtts),
                    ProbeSeries::Sizes { sizes, .. } if self.refuses => {
                        report.refused =
                            sizes.iter().copied().filter(|size| *size > self.mtu_bytes).collect();
                    }
                    _ => {}
                }
                self.sent.push(series);
            }
            (CalibrationCommand::Report { .. }, Some(ProbeSeries::Sizes { sizes, attempts, .. })) => {
                report.sizes = sizes.iter().copied().filter(|size| *size <= self.mtu_bytes).collect();
                report.received = if self.controls.is_empty() { *attempts } else { self.controls.remove(0) };
            }
            (CalibrationCommand::Report { .. }, Some(ProbeSeries::Probes { count, .. })) => {
                report.received = *count;
            }
            (CalibrationCommand::Report { .. }, Some(ProbeSeries::Train(_))) => {
                report.rate_bps = Some(1_000_000_000_000);
            }
            _ => {}
        }
        report
    }

    fn calibrate(&mut self, plan: &CalibrationPlan) -> Result<LinkCalibration, CalibrationError<String>> {
        let link = RefCell::new(self);
        let mut end = |command| Ok(link.borrow_mut().carry_out(command));
        let mut other = |command| Ok(link.borrow_mut().carry_out(command));
        calibrate(plan, &mut end, &mut other)
    }

    fn sizes(&self) -> Vec<Vec<u32>> {
        let sizes = self.sent.iter().filter_map(|series| match series {
            ProbeSeries::Sizes { sizes, .. } => Some(sizes.clone()),
            _ => None,
        });
        sizes.collect()
    }
}

#[test]
fn a_missing_size_counts_only_when_its_control_packets_arrive() {
    let mut link = Link { controls: vec![5, 1, 6], ..Link::new(1500) };
    let found = link.calibrate(&plan(1500)).unwrap();
    assert_eq!((found.forward.mtu_bytes, found.reverse.mtu_bytes), (1500, 1500));
    // Five small packets are not enough; a size that has passed is not repeated. The other direction needs one series.
    assert_eq!(link.sizes(), [vec![1500, 1501], vec![1501], vec![1500, 1501]]);
    let mut silent = Link { controls: vec![0; 6], ..Link::new(0) };
    let error = silent.calibrate(&plan(1500)).unwrap_err();
    assert!(
        matches!(error, CalibrationError::NoAnswer { doing: "when the MTU was measured", .. }),
        "{error}"
    );
    assert_eq!(silent.sizes().len(), 6);
}

#[test]
fn a_size_refused_by_the_kernel_needs_no_control_packets() {
    let mut link = Link { refuses: true, controls: vec![0; 100], ..Link::new(1400) };
    let found = link.calibrate(&plan(1500)).unwrap();
    assert_eq!((found.forward.mtu_bytes, found.reverse.mtu_bytes), (1400, 1400));
    assert!(link.sizes().iter().filter(|sizes| sizes.len() == 2).count() == 2, "{:?}", link.sizes());
}

#[test]
fn a_larger_mtu_than_requested_is_detected() {
    let found = Link::new(9000).calibrate(&plan(1500)).unwrap();
    assert_eq!((found.forward.mtu_bytes, found.reverse.mtu_bytes), (1501, 1501));
}

#[test]
fn median_and_minimum() {
    for (rtts, median, min) in [(&[9, 1, 5][..], 5, 1), (&[4, 2, 100, 8], 6, 2)] {
        let found = Link { rtts: ms(rtts), ..Link::new(1500) }.calibrate(&plan(1500)).unwrap();
        assert_eq!([found.rtt, found.min_rtt], ms(&[median, min])[..]);
    }
    let error = Link { rtts: Vec::new(), ..Link::new(1500) }.calibrate(&plan(1500)).unwrap_err();
    assert!(matches!(error, CalibrationError::NoAnswer { doing: "of the first echoes", .. }), "{error}");
}

#[test]
fn probes_take_at_most_a_tenth_of_the_rate() {
    for (probes, forward_bps, probed_bps, expected) in [
        (0, None, None, None),
        (300, None, None, Some(300)),
        (100_000, None, None, Some(4096)),
        (1000, Some(10_000_000), None, Some(457)),
        (100, Some(10_000_000), None, Some(100)),
        (1000, None, Some(1_000_000), Some(45)),
        (1000, Some(10_000), None, Some(8)),
    ] {
        let mut link = Link::new(1500);
        let plan = CalibrationPlan { probes, forward_bps, probed_bps, ..plan(1500) };
        let found = link.calibrate(&plan).unwrap();
        assert_eq!(found.forward.probes.map(|probes| probes.sent), expected, "{plan:?}");
        let series = link.sent.iter().find_map(|series| match series {
            ProbeSeries::Probes { count, spacing } => Some((*count, *spacing)),
            _ => None,
        });
        assert_eq!(series.map(|(count, _)| count), expected, "{plan:?}");
        if let Some((count, spacing)) = series {
            assert!(spacing * count <= SPAN);
        }
    }
}

#[test]
fn datagrams_of_trains_fit_the_mtu_and_get_smaller_at_low_rates() {
    for (rate_bps, mtu_bytes, is_ipv4, payload) in [
        (1_000_000_000, 1500, true, 1472),
        (1_000_000_000, 1500, false, 1452),
        (10_000_000_000, 9000, true, 8972),
        (1_000_000, 1500, true, 270),
        (10_000, 1500, true, 200),
    ] {
        let mut plan = plan(mtu_bytes);
        if !is_ipv4 {
            plan.far = "[2001:db8::1]:1".parse().unwrap();
        }
        let plan = CalibrationPlan { train: Duration::from_millis(150), forward_bps: Some(rate_bps), ..plan };
        let mut link = Link::new(mtu_bytes);
        link.calibrate(&plan).unwrap();
        let train = link.sent.iter().find_map(|series| match series {
            ProbeSeries::Train(PacketTrain { payload_bytes, .. }) => Some(*payload_bytes),
            _ => None,
        });
        assert_eq!(train, Some(payload), "{plan:?}");
    }
}

#[test]
fn delays_are_on_one_clock_though_the_kernel_stamps_by_another() {
    let wall = 1_700_000_000_000_000_000_u64;
    let mut tally = ProbeTally::default();
    for number in 0..100_u32 {
        let sent = 1_000_000_000 + u64::from(number) * 1_000_000;
        // 20 ms and up to 0.1 ms; the receiving thread reads up to 5 ms late.
        let arrived = sent + 20_000_000 + u64::from(number) * 1000;
        let taken = Timestamp::from_nanos(arrived + 10_000 + u64::from(number) % 7 * 700_000);
        tally.take(number, sent, Some(wall + arrived), taken);
        tally.take(number, sent, Some(wall + arrived), taken + Duration::from_millis(1));
    }
    assert_eq!(tally.received_probes(), 100);
    let us = |us| Duration::from_micros(us);
    assert_eq!(
        tally.delays(),
        Some(OneWayDelays { min: us(20_010), p50: us(20_059), p95: us(20_104), max: us(20_109) })
    );
}

#[test]
fn without_timestamps_the_receive_time_counts() {
    let mut tally = ProbeTally::default();
    for number in 0..2 {
        tally.take(number, 5_000_000, None, Timestamp::from_nanos(7_000_000));
    }
    assert_eq!(tally.received_probes(), 2);
    assert_eq!(tally.delays().unwrap().max, Duration::from_millis(2));
    assert_eq!(ProbeTally::default().delays(), None);
}
