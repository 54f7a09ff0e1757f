//! Calibration over loopback: without a shaper, but with the kernel's real sockets, offloads and arrival times.

use crate::common::clock;
use pathbench_record::time::Timestamp;
use pathbench_traffic::calibration::{
    CalibrationCommand, CalibrationEnd, CalibrationError, CalibrationPlan, EndError, EndReport,
    LinkCalibration, ProbeSeries, calibrate,
};
use pathbench_traffic::datagram::{DatagramKind, DatagramMessage};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

fn loopback(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

type Measured = Result<LinkCalibration, CalibrationError<EndError>>;

/// Both ends in this process.
fn measure(plan: &CalibrationPlan) -> Measured {
    let (near, far) = (CalibrationEnd::default(), CalibrationEnd::default());
    calibrate(plan, &mut |command| near.carry_out(command, &clock()), &mut |command| {
        far.carry_out(command, &clock())
    })
}

fn measures(near: &str, far: &str) {
    let mut plan = CalibrationPlan::new(loopback(near), loopback(far), 1500);
    plan.forward_bps = Some(100_000_000);
    plan.reverse_bps = Some(50_000_000);
    plan.train = Duration::from_millis(100);
    let (mut forward, mut reverse) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let link = measure(&plan).unwrap();
        // Loopback carries more than 1500 bytes, and the report must show that.
        assert_eq!((link.forward.mtu_bytes, link.reverse.mtu_bytes), (1501, 1501));
        assert!(link.min_rtt <= link.rtt && link.rtt < Duration::from_millis(100), "{link:?}");
        forward.push(link.forward.rate_bps.unwrap() as f64 / 100e6);
        reverse.push(link.reverse.rate_bps.unwrap() as f64 / 50e6);
    }
    // Nothing limits the rate: the train arrives as fast as it is sent, 25 % above the requested rate. A sender that
    // was descheduled sends late and then too fast, so that single trains deviate.
    for mut ratios in [forward, reverse] {
        ratios.sort_by(f64::total_cmp);
        assert!((0.9..1.5).contains(&ratios[2]), "{ratios:?}");
    }
}

#[test]
fn an_unlimited_link_measures_faster_than_asked_over_ipv4() {
    measures("127.0.0.1:0", "127.0.0.1:0");
}

#[test]
fn an_unlimited_link_measures_faster_than_asked_over_ipv6() {
    if UdpSocket::bind("[::1]:0").is_err() {
        // Without IPv6 on the host, the error says so.
        let plan = CalibrationPlan::new(loopback("[::1]:0"), loopback("[::1]:9"), 1500);
        let error = measure(&plan).unwrap_err();
        assert!(error.to_string().contains("opening a UDP socket"), "{error}");
        return;
    }
    measures("[::1]:0", "[::1]:0");
}

#[test]
fn an_mtu_smaller_than_requested_is_found_and_unlimited_rates_are_not_measured() {
    // Loopback's MTU is 65536; an IPv4 packet has at most 65535 bytes.
    let plan = CalibrationPlan::new(loopback("127.0.0.1:0"), loopback("127.0.0.1:0"), 70_000);
    let link = measure(&plan).unwrap();
    assert_eq!((link.forward.mtu_bytes, link.reverse.mtu_bytes), (65_535, 65_535));
    assert_eq!((link.forward.rate_bps, link.reverse.rate_bps), (None, None));
}

#[test]
fn silence_is_reported_after_a_bounded_time() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let plan = CalibrationPlan::new(loopback("127.0.0.1:0"), silent.local_addr().unwrap(), 1500);
    let near = CalibrationEnd::default();
    let begun = clock().now();
    let error: CalibrationError<EndError> =
        calibrate(&plan, &mut |command| near.carry_out(command, &clock()), &mut |_| Ok(EndReport::default()))
            .unwrap_err();
    assert!(matches!(error, CalibrationError::NoAnswer { .. }), "{error}");
    assert!(clock().now().duration_since(begun) < Duration::from_secs(4));
}

#[test]
fn nothing_is_sent_to_an_address_but_the_other_end() {
    let [peer, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let end = CalibrationEnd::default();
    let command = |one| end.carry_out(one, &clock()).unwrap();
    let address = command(CalibrationCommand::Open(loopback("127.0.0.1:0"))).local.unwrap();
    command(CalibrationCommand::Connect(peer.local_addr().unwrap()));
    let waits = vec![MS];
    command(CalibrationCommand::Expect(7, ProbeSeries::Echoes { waits, first_only: false }));
    let mut buffer = [0; 2000];
    for socket in [&peer, &other] {
        socket.set_read_timeout(Some(150 * MS)).unwrap();
        for kind in [
            DatagramKind::Hello,
            DatagramKind::Answer,
            DatagramKind::SizeProbe,
            DatagramKind::SizeRequest,
            DatagramKind::Train,
        ] {
            socket.send_to(&DatagramMessage::new(kind, 7, 1).encode(1000), address).unwrap();
        }
        for session in [0, 6, 8, u64::MAX] {
            socket
                .send_to(&DatagramMessage::new(DatagramKind::Probe, session, 1).encode(0), address)
                .unwrap();
        }
        socket.send_to(b"\x0bpbprobe", address).unwrap();
        socket.send_to(&[0; 1400], address).unwrap();
        assert!(socket.recv(&mut buffer).is_err(), "an answer to what is no echo");
    }
    let echo = DatagramMessage::new(DatagramKind::Probe, 7, 1).encode(0);
    other.send_to(&echo, address).unwrap();
    assert!(other.recv(&mut buffer).is_err(), "an answer to another address");
    // An echo from the other end is returned, and the answer is not longer.
    peer.send_to(&echo, address).unwrap();
    assert_eq!(peer.recv(&mut buffer).unwrap(), echo.len());
    assert_eq!(DatagramMessage::decode(&buffer).unwrap().kind, DatagramKind::Answer);
    command(CalibrationCommand::Report { wait: Duration::ZERO, silence: None });
    peer.send_to(&echo, address).unwrap();
    assert!(peer.recv(&mut buffer).is_err(), "an echo was returned when none was expected");
}

#[test]
fn duplicate_and_unknown_echoes_do_not_count() {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(5000 * MS)).unwrap();
    let end = CalibrationEnd::default();
    let command = |one| end.carry_out(one, &clock()).unwrap();
    let address = command(CalibrationCommand::Open(loopback("127.0.0.1:0"))).local.unwrap();
    command(CalibrationCommand::Connect(peer.local_addr().unwrap()));
    let echo = ProbeSeries::Echoes { waits: vec![200 * MS, 5000 * MS], first_only: false };
    let report = thread::scope(|scope| {
        let sending = scope.spawn(|| command(CalibrationCommand::Send(7, echo)));
        for _ in 0..2 {
            let mut buffer = [0; 2000];
            let length = peer.recv(&mut buffer).unwrap();
            let probe = DatagramMessage::decode(&buffer[..length]).unwrap();
            // The answer twice, and one to no probe.
            for sequence in [probe.sequence, probe.sequence, 2] {
                let answer = DatagramMessage { kind: DatagramKind::Answer, sequence, ..probe.clone() };
                peer.send_to(&answer.encode(0), address).unwrap();
            }
        }
        sending.join().unwrap()
    });
    assert_eq!(report.rtts.len(), 2);
}

/// The properties of the link, equal in both directions.
#[derive(Debug, Clone, Copy)]
struct Model {
    rate_bps: u64,
    queue: Duration,
    delay: Duration,
    /// Period of the losses after the bottleneck, in packets.
    one_lost_in: Option<u64>,
    mtu_bytes: usize,
}

/// A link between loopback sockets.
struct Between {
    /// The link's addresses, as seen from the near and the far end.
    sides: [SocketAddr; 2],
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Between {
    fn start(model: Model, far: SocketAddr) -> Self {
        let sockets = [UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap()];
        let sides = [0, 1].map(|side: usize| sockets[side].local_addr().unwrap());
        sockets[1].connect(far).unwrap();
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        let thread = thread::spawn(move || carry(model, &sockets, &stop));
        Self { sides, stopping, thread: Some(thread) }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn carry(model: Model, sockets: &[UdpSocket; 2], stopping: &AtomicBool) {
    let clock = clock();
    for socket in sockets {
        socket.set_nonblocking(true).unwrap();
    }
    let mut client = None;
    let mut buffer = vec![0; 65_536];
    let mut in_flight: [VecDeque<(Timestamp, Vec<u8>)>; 2] = Default::default();
    let mut busy_until = [clock.now(); 2];
    let mut number: u64 = 0;
    while !stopping.load(Ordering::Acquire) {
        for from in 0..2 {
            while let Ok((length, sender)) = sockets[from].recv_from(&mut buffer) {
                client = if from == 0 { Some(sender) } else { client };
                let now = clock.now();
                let begins = busy_until[from].max(now);
                if length + 28 > model.mtu_bytes || begins.duration_since(now) > model.queue {
                    continue;
                }
                let wire_bits = (length as u64 + 42) * 8;
                busy_until[from] = begins + Duration::from_nanos(wire_bits * 1_000_000_000 / model.rate_bps);
                number += 1;
                if model.one_lost_in.is_none_or(|every| !(number * 7919 % 1000).is_multiple_of(every)) {
                    in_flight[from].push_back((busy_until[from] + model.delay, buffer[..length].to_vec()));
                }
            }
            let now = clock.now();
            while in_flight[from].front().is_some_and(|(due, _)| *due <= now) {
                let Some((_, bytes)) = in_flight[from].pop_front() else { break };
                let _ = match (from, client) {
                    (0, _) => sockets[1].send(&bytes),
                    (_, Some(client)) => sockets[0].send_to(&bytes, client),
                    _ => Ok(0),
                };
            }
        }
        thread::sleep(Duration::from_micros(50));
    }
}

fn calibrate_through(model: Model, adapt: impl Fn(&mut CalibrationPlan)) -> (LinkCalibration, Duration) {
    let mut plan = CalibrationPlan::new(loopback("127.0.0.1:0"), loopback("127.0.0.1:0"), 1500);
    plan.emulated = true;
    plan.bucket_bytes = [0; 2];
    adapt(&mut plan);
    let begun = clock().now();
    let (near, far) = (CalibrationEnd::default(), CalibrationEnd::default());
    let between = RefCell::new(None);
    let side =
        |near: bool| between.borrow().as_ref().map(|between: &Between| between.sides[usize::from(!near)]);
    let link = calibrate(
        &plan,
        &mut |command| {
            let command = match command {
                CalibrationCommand::Connect(far) => {
                    between.replace(Some(Between::start(model, far)));
                    CalibrationCommand::Connect(side(true).unwrap())
                }
                other => other,
            };
            near.carry_out(command, &clock())
        },
        &mut |command| {
            let command = match command {
                CalibrationCommand::Connect(_) => CalibrationCommand::Connect(side(false).unwrap()),
                other => other,
            };
            far.carry_out(command, &clock())
        },
    );
    (link.unwrap(), clock().now().duration_since(begun))
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn delay_loss_and_rate_of_an_emulated_link_are_found_in_both_directions() {
    for one_lost_in in [None, Some(20)] {
        let model =
            Model { rate_bps: 10_000_000, queue: 40 * MS, delay: 20 * MS, one_lost_in, mtu_bytes: 1500 };
        // A busy host relays packets late; at least one of many tries is not delayed.
        let tries = (0..20).map(|_| {
            calibrate_through(model, |plan| {
                plan.forward_bps = Some(model.rate_bps);
                plan.reverse_bps = Some(model.rate_bps);
                plan.probes = 300;
            })
            .0
        });
        let (mut rate_off, mut rtt, mut delay) = (f64::MAX, Duration::MAX, Duration::MAX);
        for link in tries {
            assert_eq!((link.forward.mtu_bytes, link.reverse.mtu_bytes), (1500, 1500));
            let directions = [link.forward, link.reverse].map(|direction| {
                let (probes, bps) = (direction.probes.unwrap(), direction.rate_bps);
                let loss = probes.loss().unwrap();
                assert!(probes.sent == 300 && loss < 0.2, "{probes:?}");
                assert!((loss > 0.01) == one_lost_in.is_some(), "{probes:?}");
                let delays = probes.delays.unwrap();
                assert!(delays.min >= 20 * MS, "{delays:?}");
                assert!(delays.min <= delays.p50 && delays.p50 <= delays.p95 && delays.p95 <= delays.max);
                ((bps.unwrap() as f64 / 10e6 - 1.0).abs(), delays.p50)
            });
            rate_off = rate_off.min(directions[0].0.max(directions[1].0));
            rtt = rtt.min(link.rtt);
            delay = delay.min(directions[0].1.max(directions[1].1));
            if rate_off < 0.005 && rtt <= 45 * MS && delay <= 22 * MS {
                break;
            }
        }
        // The headers of the link layer are 1 % of the rate.
        let found = format!("{one_lost_in:?}: rate off by {rate_off}, {rtt:?}, {delay:?} at best");
        assert!(rate_off < 0.009 && rtt <= 45 * MS && delay <= 22 * MS, "{found}");
    }
}

#[test]
fn a_link_with_a_round_trip_of_more_than_a_second_is_waited_for() {
    let model = Model {
        rate_bps: 2_000_000,
        queue: 500 * MS,
        delay: 600 * MS,
        one_lost_in: Some(50),
        mtu_bytes: 1400,
    };
    let limit =
        CalibrationPlan::new(loopback("127.0.0.1:0"), loopback("127.0.0.1:1"), 1400).time_limit(1200 * MS);
    // As above: a thread of this test relays the packets, and its stalls appear in the measurement.
    let mut tries = (0..4).map(|_| {
        let (link, took) = calibrate_through(model, |plan| {
            plan.mtu_bytes = 1400;
            // Limited to the longest train.
            plan.train = 3000 * MS;
            plan.forward_bps = Some(model.rate_bps);
            plan.reverse_bps = Some(model.rate_bps);
            plan.probes = 50;
        });
        assert!(link.min_rtt >= 1200 * MS, "{link:?}");
        assert_eq!((link.forward.mtu_bytes, link.reverse.mtu_bytes), (1400, 1400));
        assert!(took < limit, "{took:?}");
        link
    });
    let near = |bps: Option<u64>| (bps.unwrap() as f64 / 2e6 - 1.0).abs() < 0.1;
    let undisturbed = |link: &LinkCalibration| {
        near(link.forward.rate_bps) && near(link.reverse.rate_bps) && link.rtt < 1300 * MS
    };
    assert!(tries.any(|link| undisturbed(&link)), "off each time");
}

#[test]
fn an_mtu_is_found_on_a_lossy_link() {
    let model =
        Model { rate_bps: 50_000_000, queue: 40 * MS, delay: MS, one_lost_in: Some(10), mtu_bytes: 1280 };
    let (link, _) = calibrate_through(model, |_| {});
    assert_eq!((link.forward.mtu_bytes, link.reverse.mtu_bytes), (1280, 1280));
}
