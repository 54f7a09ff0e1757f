//! Measures each path alone: idle probes, the MTU, and TCP in each direction with probes beside it.

use crate::client::discovery::Reached;
use crate::client::{Clocks, ServerTarget, TestClient, TestEvidence, busy_wait, start_test};
use crate::progress::ProgressDisplay;
use pathbench_analysis::assembly::ClientPath;
use pathbench_analysis::line::{
    DirectionEstimate, IdleEstimate, LineEstimate, LineProbe, MeasuredValue, QueueEstimate, RateEstimate,
};
use pathbench_host::paths::HostNetwork;
use pathbench_lab::scenario::{RecordedLine, RecordedLines, RecordedTraffic};
use pathbench_program::exit::Failure;
use pathbench_record::direction::{DataDirection, Direction};
use pathbench_record::network::{AddressFamily, ETHERNET_HEADER_BYTES};
use pathbench_record::pattern::{Amount, PatternParameters, ThroughputParameters};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::{Transport, TransportLabel};
use pathbench_traffic::client::{ClientError, ClientOutcome};
use pathbench_traffic::datagram::{HEADER_BYTES, UdpPath};
use pathbench_traffic::path_mtu::{MtuBounds, MtuPlan, find_mtu};
use pathbench_traffic::probe::{ProbeOutcome, ProbePlan, ProbeSample, run_probes};
use pathbench_transport::lock;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

/// Time of the idle probes, and the interval of all probes of a path.
const IDLE: Duration = Duration::from_secs(10);
const PROBE_INTERVAL: Duration = Duration::from_millis(20);
/// TCP in each direction: it fills the queue before the measured time.
const OMITTED: Duration = Duration::from_secs(4);
const MEASURED: Duration = Duration::from_secs(8);
const CONNECTIONS: u32 = 8;
/// Congestion controls of the upload, in order of preference: Reno's slow start ends when the queue is full, CUBIC's
/// (`HyStart`) when it grows. BBR fills none.
const FILLING: [&str; 2] = ["reno", "cubic"];
const TICK: Duration = Duration::from_millis(100);
/// Attempts at a busy server.
const BUSY_TRIES: u32 = 5;
const STOPPED: &str = "stopped by the user";

/// Measures the lines to a server.
pub(crate) struct LineRecorder<'a> {
    pub(crate) client: &'a TestClient,
    pub(crate) reached: &'a Reached,
    pub(crate) paths: &'a [ClientPath],
    pub(crate) stop: &'a AtomicBool,
    pub(crate) progress: &'a ProgressDisplay,
}

impl LineRecorder<'_> {
    /// The lines, one after the other, so that each is measured alone. `started` is the time of the measurement.
    pub(crate) fn record(&self, started: &str) -> Result<RecordedLines, Failure> {
        let seconds = (OMITTED + MEASURED).as_secs();
        self.progress.line(format_args!(
            "recording {}: {} s of probes, then TCP for {seconds} s in each direction of each path",
            self.names(),
            IDLE.as_secs()
        ));
        let idle = self.idle();
        let mut lines = Vec::new();
        for (path, idle) in self.paths.iter().zip(idle) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::failed("stopped by the user: the lines are not recorded"));
            }
            let estimate = self.line(path, idle);
            lines.push(RecordedLine { estimate, traces: Vec::new() });
        }
        Ok(RecordedLines {
            command: "test",
            server: self.reached.server.to_string(),
            measured: started.to_owned(),
            method: format!(
                "Each path was measured alone, for about {} s: UDP probes every {} ms, the MTU by datagrams of different sizes,\n\
                 and TCP over {CONNECTIONS} connections in each direction. Other traffic on the paths at that time is in the values.",
                IDLE.as_secs() + 2 * seconds,
                PROBE_INTERVAL.as_millis()
            ),
            lines,
            traffic: RecordedTraffic::Throughput,
        })
    }

    fn names(&self) -> String {
        self.paths.iter().map(|path| path.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The idle paths, in parallel.
    fn idle(&self) -> Vec<MeasuredValue<IdleEstimate>> {
        let end = self.client.clock.now() + IDLE;
        let probes = self.probe(self.paths, &|now| now >= end);
        let estimate = |probes: Vec<LineProbe>| {
            let answered = probes.iter().filter(|probe| probe.rtt_ms.is_some()).count();
            IdleEstimate::from_probes(&probes)
                .ok_or_else(|| format!("{answered} of {} UDP probes were answered", probes.len()))
        };
        match probes {
            Ok(probes) => probes.into_iter().map(estimate).collect(),
            Err(reason) => self.paths.iter().map(|_| Err(reason.clone())).collect(),
        }
    }

    /// The probes of each of `paths`, until `is_over` or the user's stop.
    fn probe(
        &self,
        paths: &[ClientPath],
        is_over: &(dyn Fn(Timestamp) -> bool + Sync),
    ) -> Result<Vec<Vec<LineProbe>>, String> {
        let server = self.reached.udp_address().ok_or("no transport works")?;
        let plan = ProbePlan {
            server,
            token: self.client.arguments.server.token.clone(),
            paths: paths.iter().map(|path| udp_path(path, server)).collect(),
            interval: PROBE_INTERVAL,
        };
        let probes = Mutex::new(vec![Vec::new(); paths.len()]);
        let sink = |sample: ProbeSample| {
            let rtt_ms = match sample.outcome {
                ProbeOutcome::Answered { rtt } => Some(rtt.as_secs_f64() * 1e3),
                ProbeOutcome::Lost => None,
                // It was never on the path.
                ProbeOutcome::Refused { .. } => return,
            };
            let at_ms = sample.sent_at.as_nanos() as f64 / 1e6;
            if let Some(of_path) = lock(&probes).get_mut(sample.path) {
                of_path.push(LineProbe { at_ms, rtt_ms });
            }
        };
        let (clock, end) = (&self.client.clock, AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over(clock.now())
                    && !self.stop.load(Ordering::Relaxed)
                    && !end.load(Ordering::Relaxed)
                {
                    clock.sleep_until(clock.now() + TICK);
                }
                end.store(true, Ordering::Release);
            });
            let ended = run_probes(&plan, clock, &end, &sink);
            end.store(true, Ordering::Release);
            ended
        })
        .map_err(|error| error.to_string())?;
        let mut probes = std::mem::take(&mut *lock(&probes));
        for of_path in &mut probes {
            of_path.sort_by(|one, other| one.at_ms.total_cmp(&other.at_ms));
        }
        Ok(probes)
    }

    fn line(&self, path: &ClientPath, idle: MeasuredValue<IdleEstimate>) -> LineEstimate {
        let server = self.reached.udp_address();
        let family = server.map_or(AddressFamily::Ipv4, |server| AddressFamily::from_address(server.ip()));
        let mtu_bytes =
            server.map_or_else(|| Err("no transport works".to_owned()), |server| self.mtu(path, server));
        let segments = mtu_bytes.as_ref().ok().copied().or(path.mtu_bytes).unwrap_or(1500);
        let direction = |direction| self.direction(path, direction, &idle, segments, family);
        let (upload, download) = (direction(Direction::Upload), direction(Direction::Download));
        LineEstimate {
            name: path.name.clone(),
            is_backup: path.backup.unwrap_or(false),
            idle,
            mtu_bytes,
            upload,
            download,
            probe_frame_bytes: probe_frame_bytes(family),
        }
    }

    fn mtu(&self, path: &ClientPath, server: SocketAddr) -> MeasuredValue<u32> {
        let plan = MtuPlan {
            server,
            token: self.client.arguments.server.token.clone(),
            path: udp_path(path, server),
            bounds: MtuBounds::default(),
        };
        let found = find_mtu(&plan, &self.client.clock, self.stop).map_err(|error| error.to_string())?;
        if let (Some(upload), Some(download)) = (found.upload.mtu_bytes(), found.download.mtu_bytes()) {
            return Ok(upload.min(download));
        }
        let failed = [found.upload.found, found.download.found].into_iter().find_map(Result::err);
        Err(failed.map_or_else(|| "no answer".to_owned(), |why| why.to_string()))
    }

    /// TCP in one direction of the path, with probes beside it.
    fn direction(
        &self,
        path: &ClientPath,
        direction: Direction,
        idle: &MeasuredValue<IdleEstimate>,
        mtu_bytes: u32,
        family: AddressFamily,
    ) -> DirectionEstimate {
        let not_measured = |reason: String| DirectionEstimate {
            rate: Err(reason.clone()),
            queue: Err(reason),
            loss: None,
            congestion: None,
        };
        let over = AtomicBool::new(false);
        let (goodput, probes) = thread::scope(|scope| {
            let probes =
                scope.spawn(|| self.probe(std::slice::from_ref(path), &|_| over.load(Ordering::Relaxed)));
            let goodput = self.load(path, direction);
            over.store(true, Ordering::Relaxed);
            (goodput, probes.join().unwrap_or_else(|_| Err("the probes failed".to_owned())))
        });
        let (goodput_mbps, congestion) = match goodput {
            Ok(found) => found,
            Err(reason) => return not_measured(reason),
        };
        let answered = probes.as_ref().map_or(&[][..], |probes| &probes[0]);
        let rate = RateEstimate::from_goodput(goodput_mbps, mtu_bytes, family)
            .map(|rate| rate.with_probes(answered, probe_frame_bytes(family)))
            .ok_or_else(|| "TCP delivered nothing".to_owned());
        let queue = match (idle, probes) {
            (Ok(idle), Ok(probes)) => QueueEstimate::from_probes(idle, &probes[0])
                .ok_or_else(|| "too few UDP probes were answered while TCP filled the path".to_owned()),
            (Err(reason), _) => Err(reason.clone()),
            (_, Err(reason)) => Err(reason),
        };
        self.progress.line(format_args!(
            "{} {}: {goodput_mbps:.2} Mbit/s of TCP alone",
            path.name,
            direction.name()
        ));
        DirectionEstimate { rate, queue, loss: None, congestion }
    }

    /// Goodput of TCP alone in Mbit/s, and the sender's congestion control.
    fn load(&self, path: &ClientPath, direction: Direction) -> MeasuredValue<(f64, Option<String>)> {
        let endpoints = &self.reached.endpoints;
        let address = endpoints.get(&Transport::Tcp).or_else(|| endpoints.get(&Transport::Mptcp));
        let address = *address.ok_or("tcp does not reach the server, or --transports leaves it out")?;
        let target = ServerTarget {
            address,
            host: self.reached.server.host.clone(),
            paths: vec![path.clone()],
            is_bound: true,
        };
        let (name, data) = match direction {
            Direction::Upload => ("throughput-upload", DataDirection::Upload),
            Direction::Download => ("throughput-download", DataDirection::Download),
        };
        let parameters = PatternParameters::Throughput(ThroughputParameters {
            direction: data,
            streams: CONNECTIONS,
            amount: Amount::Duration(MEASURED),
            omit: OMITTED,
            ..ThroughputParameters::default()
        });
        let outcome = self.run_filling(&target, &parameters)?;
        if let Some(error) = &outcome.error {
            return Err(error.to_string());
        }
        let network = HostNetwork::read().map_err(|error| error.to_string())?;
        let setting =
            self.client.run_setting(&self.reached.server, name, &parameters, target.paths, &network);
        let label = TransportLabel { transport: Transport::Tcp, path: Some(path.name.clone()) };
        let evidence = TestEvidence {
            id: format!("record-{}-{}", path.name, direction.name()),
            label: &label,
            repetition: 1,
            setting: &setting,
            outcome,
            notifications: Vec::new(),
            counters: None,
            carried: std::collections::BTreeMap::new(),
        };
        let (assembled, _) = evidence.assemble(&mut Clocks::default());
        let sender = if direction == Direction::Upload { "client.congestion" } else { "server.congestion" };
        let congestion = assembled.record.parameters.in_force.get(sender).and_then(|name| name.as_str());
        let goodput = assembled.record.goodput_mbps;
        let goodput = goodput.ok_or_else(|| "TCP delivered nothing in the measured time".to_owned())?;
        Ok((goodput, congestion.map(str::to_owned)))
    }

    /// Runs a test with the first of [`FILLING`] that this host permits.
    fn run_filling(
        &self,
        target: &ServerTarget,
        parameters: &PatternParameters,
    ) -> MeasuredValue<ClientOutcome> {
        for congestion in FILLING {
            let outcome = self.run(target, parameters, Some(congestion))?;
            if !matches!(outcome.error, Some(ClientError::Incapable { .. })) {
                return Ok(outcome);
            }
        }
        self.run(target, parameters, None)
    }

    /// Runs a test over tcp; waits for a busy server.
    fn run(
        &self,
        target: &ServerTarget,
        parameters: &PatternParameters,
        congestion: Option<&str>,
    ) -> MeasuredValue<ClientOutcome> {
        let clock = &self.client.clock;
        for attempt in 1.. {
            let mut plan = self.client.plan(Transport::Tcp, target, parameters.clone());
            plan.socket.congestion = congestion.map(str::to_owned);
            let (transferred, test) = start_test(self.client, plan);
            let outcome = loop {
                if self.stop.load(Ordering::Relaxed) {
                    // The thread and its connection end with the process.
                    return Err(STOPPED.to_owned());
                }
                if matches!(transferred.recv_timeout(TICK), Err(RecvTimeoutError::Disconnected)) {
                    break test.join().map_err(|_| "the test failed".to_owned())?;
                }
            };
            let Some(wait) = busy_wait(&outcome).filter(|_| attempt < BUSY_TRIES) else { return Ok(outcome) };
            let until = clock.now() + wait;
            while clock.now() < until && !self.stop.load(Ordering::Relaxed) {
                clock.sleep_until((clock.now() + TICK).min(until));
            }
        }
        Err("the server is busy".to_owned())
    }
}

const fn probe_frame_bytes(family: AddressFamily) -> u32 {
    family.udp_packet_bytes(HEADER_BYTES) + ETHERNET_HEADER_BYTES
}

fn udp_path(path: &ClientPath, server: SocketAddr) -> UdpPath {
    let local = path.addresses.iter().copied().find(|local| local.is_ipv4() == server.is_ipv4());
    UdpPath { interface: Some(path.interface.clone()), local }
}
