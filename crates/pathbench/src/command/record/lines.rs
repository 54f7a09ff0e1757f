//! Measures each path alone: idle probes, the MTU, TCP for a rough rate, and flows of datagrams. Where datagrams do not work,
//! TCP with probes beside it.

use super::flows::{FILL, FlowPath, SERIES};
use super::runner::{TICK, TestRunner};
use crate::client::discovery::Reached;
use crate::client::{Clocks, ServerTarget, TestClient, TestEvidence};
use crate::progress::ProgressDisplay;
use pathbench_analysis::assembly::ClientPath;
use pathbench_analysis::line::{
    DirectionEstimate, IdleEstimate, LineEstimate, LineProbe, LossBasis, LossEstimate, MeasuredValue,
    QueueEstimate, RateEstimate, SeriesEstimate,
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
use std::thread;
use std::time::Duration;

/// Time of the idle probes, and the interval of all probes of a path.
const IDLE: Duration = Duration::from_secs(4);
const PROBE_INTERVAL: Duration = Duration::from_millis(20);
/// Congestion controls of the upload, in order of preference: Reno's slow start ends when the queue is full, CUBIC's
/// (`HyStart`) when it grows. BBR fills none.
const FILLING: [&str; 2] = ["reno", "cubic"];

/// Times of TCP in one direction.
#[derive(Debug, Clone, Copy)]
struct TcpLoad {
    connections: u32,
    /// A slow line sends for long what the sockets have accepted.
    block_bytes: u32,
    omitted: Duration,
    measured: Duration,
}

/// Enough to choose the rates of datagrams.
const ROUGH: TcpLoad = TcpLoad {
    connections: 4,
    block_bytes: 16 * 1024,
    omitted: Duration::from_millis(500),
    measured: Duration::from_secs(1),
};
/// For the rate itself: it fills the queue before the measured time.
const ALONE: TcpLoad = TcpLoad {
    connections: 8,
    block_bytes: ThroughputParameters::DEFAULT_BLOCK_BYTES,
    omitted: Duration::from_secs(4),
    measured: Duration::from_secs(8),
};

/// A network may limit UDP more than TCP: below this part of TCP's rough rate, which one second may overstate, the line's
/// rate is that of TCP.
const UDP_PART: f64 = 0.6;

/// Measures the lines to a server.
pub(crate) struct LineRecorder<'a> {
    pub(crate) client: &'a TestClient,
    pub(crate) reached: &'a Reached,
    /// The address that serves tcp and datagrams, or why there is none.
    pub(crate) flows: Result<SocketAddr, String>,
    pub(crate) paths: &'a [ClientPath],
    pub(crate) stop: &'a AtomicBool,
    pub(crate) progress: &'a ProgressDisplay,
}

impl LineRecorder<'_> {
    /// The lines, one after the other, so that each is measured alone. `started` is the time of the measurement.
    pub(crate) fn record(&self, started: &str) -> Result<RecordedLines, Failure> {
        self.progress.line(format_args!(
            "recording {}: {} s of probes, then TCP and datagrams for about {} s on each path, above its rate",
            self.names(),
            IDLE.as_secs(),
            (ROUGH.omitted + ROUGH.measured + FILL).as_secs() * 2 + SERIES.as_secs()
        ));
        let idle = self.idle();
        let mtus = self.mtus();
        let mut lines = Vec::new();
        for ((path, idle), mtu_bytes) in self.paths.iter().zip(idle).zip(mtus) {
            let estimate = self.line(path, idle, mtu_bytes);
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::failed("stopped by the user: the lines are not recorded"));
            }
            lines.push(RecordedLine { estimate, traces: Vec::new() });
        }
        require_measured(&lines)?;
        Ok(RecordedLines {
            command: "test",
            server: self.reached.server.to_string(),
            measured: started.to_owned(),
            method: format!(
                "Each path was measured alone: UDP probes every {} ms for {} s, the MTU by datagrams of different sizes, TCP over\n\
                 several connections, and where the server takes them, UDP datagrams in each direction: small ones for {} s,\n\
                 far below the rate, and full packets above the rate.\n\
                 Other traffic on the paths at that time is in the values.",
                PROBE_INTERVAL.as_millis(),
                IDLE.as_secs(),
                SERIES.as_secs()
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

    /// The MTUs of the paths, in parallel: the search sends little.
    fn mtus(&self) -> Vec<MeasuredValue<u32>> {
        let Some(server) = self.reached.udp_address() else {
            return self.paths.iter().map(|_| Err("no transport works".to_owned())).collect();
        };
        thread::scope(|scope| {
            let searches: Vec<_> =
                self.paths.iter().map(|path| scope.spawn(move || self.mtu(path, server))).collect();
            searches
                .into_iter()
                .map(|search| search.join().unwrap_or_else(|_| Err("the search failed".to_owned())))
                .collect()
        })
    }

    fn line(
        &self,
        path: &ClientPath,
        idle: MeasuredValue<IdleEstimate>,
        mtu_bytes: MeasuredValue<u32>,
    ) -> LineEstimate {
        let server = self.reached.udp_address();
        let family = server.map_or(AddressFamily::Ipv4, |server| AddressFamily::from_address(server.ip()));
        let segments = mtu_bytes.as_ref().ok().copied().or(path.mtu_bytes).unwrap_or(1500);
        let [upload, download] = match self.flow_path(path, segments) {
            Ok(flows) => self.by_datagrams(path, &flows, &idle, segments, family),
            Err(reason) => Direction::BOTH
                .map(|direction| self.by_tcp(path, direction, &idle, segments, family, Err(reason.clone()))),
        };
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

    fn flow_path(&self, path: &ClientPath, mtu_bytes: u32) -> MeasuredValue<FlowPath<'_>> {
        let target = self.target(path, self.flows.clone()?);
        Ok(FlowPath { runner: self.runner(), target, mtu_bytes })
    }

    const fn runner(&self) -> TestRunner<'_> {
        TestRunner { client: self.client, stop: self.stop }
    }

    fn target(&self, path: &ClientPath, address: SocketAddr) -> ServerTarget {
        ServerTarget {
            address,
            host: self.reached.server.host.clone(),
            paths: vec![path.clone()],
            is_bound: true,
        }
    }

    /// Both directions of the path: a rough rate by TCP, the series in both directions at once, and in each direction the
    /// flow above the rate. Where a flow does not work, TCP alone.
    fn by_datagrams(
        &self,
        path: &ClientPath,
        flows: &FlowPath<'_>,
        idle: &MeasuredValue<IdleEstimate>,
        mtu_bytes: u32,
        family: AddressFamily,
    ) -> [DirectionEstimate; 2] {
        let rough = Direction::BOTH.map(|direction| {
            let (goodput_mbps, _) = self.load(path, direction, ROUGH)?;
            let rate = RateEstimate::from_goodput(goodput_mbps, mtu_bytes, family);
            rate.ok_or_else(|| "TCP delivered nothing".to_owned())
        });
        let series = thread::scope(|scope| {
            let [upload, download] = [0, 1].map(|index| {
                let (direction, rate) = (Direction::BOTH[index], rough[index].clone());
                scope.spawn(move || flows.series(direction, rate?.rate_bps as f64))
            });
            [upload, download].map(|one| one.join().unwrap_or_else(|_| Err("the series failed".to_owned())))
        });
        [0, 1].map(|index| {
            let direction = Direction::BOTH[index];
            let (rough, series) = match (&rough[index], &series[index]) {
                (Ok(rough), Ok(series)) => (rough, series),
                (Err(reason), _) => return not_measured(reason),
                (_, Err(reason)) => {
                    return self.by_tcp(path, direction, idle, mtu_bytes, family, Err(reason.clone()));
                }
            };
            let own_loss = loss(series).ok_or_else(|| "no UDP datagram was sent".to_owned());
            let filled = flows.fill(direction, rough.rate_bps as f64, series).and_then(|fill| {
                let rate = RateEstimate::from_fill(&fill, series.loss());
                let rate = rate.filter(|rate| rate.rate_bps as f64 >= UDP_PART * rough.rate_bps as f64);
                Ok((rate.ok_or_else(|| "TCP was faster than UDP datagrams".to_owned())?, fill))
            });
            let (rate, fill) = match filled {
                Ok(filled) => filled,
                Err(reason) => {
                    self.progress.line(format_args!("{} {}: {reason}", path.name, direction.name()));
                    return self.by_tcp(path, direction, idle, mtu_bytes, family, own_loss);
                }
            };
            self.progress.line(format_args!(
                "{} {}: {:.2} Mbit/s",
                path.name,
                direction.name(),
                rate.rate_bps as f64 / 1e6
            ));
            let queue = Ok(QueueEstimate::from_fill(&fill));
            DirectionEstimate { rate: Ok(rate), queue, loss: own_loss, congestion: None }
        })
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
    fn by_tcp(
        &self,
        path: &ClientPath,
        direction: Direction,
        idle: &MeasuredValue<IdleEstimate>,
        mtu_bytes: u32,
        family: AddressFamily,
        loss: MeasuredValue<LossEstimate>,
    ) -> DirectionEstimate {
        let over = AtomicBool::new(false);
        let (goodput, probes) = thread::scope(|scope| {
            let probes =
                scope.spawn(|| self.probe(std::slice::from_ref(path), &|_| over.load(Ordering::Relaxed)));
            let goodput = self.load(path, direction, ALONE);
            over.store(true, Ordering::Relaxed);
            (goodput, probes.join().unwrap_or_else(|_| Err("the probes failed".to_owned())))
        });
        let (goodput_mbps, congestion) = match goodput {
            Ok(found) => found,
            Err(reason) => return DirectionEstimate { loss, ..not_measured(&reason) },
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
        DirectionEstimate { rate, queue, loss, congestion }
    }

    /// Goodput of TCP alone in Mbit/s, and the sender's congestion control.
    fn load(
        &self,
        path: &ClientPath,
        direction: Direction,
        load: TcpLoad,
    ) -> MeasuredValue<(f64, Option<String>)> {
        let endpoints = &self.reached.endpoints;
        let address = endpoints.get(&Transport::Tcp).or_else(|| endpoints.get(&Transport::Mptcp));
        let address = address.or(self.flows.as_ref().ok());
        let address = *address.ok_or("tcp does not reach the server, or --transports leaves it out")?;
        let target = self.target(path, address);
        let (name, data) = match direction {
            Direction::Upload => ("throughput-upload", DataDirection::Upload),
            Direction::Download => ("throughput-download", DataDirection::Download),
        };
        let parameters = PatternParameters::Throughput(ThroughputParameters {
            direction: data,
            streams: load.connections,
            block_bytes: load.block_bytes,
            amount: Amount::Duration(load.measured),
            omit: load.omitted,
            ..ThroughputParameters::default()
        });
        let outcome = self.run_filling(&target, &parameters)?;
        if let Some(error) = &outcome.error {
            return Err(error.to_string());
        }
        let limit_bps = outcome.server.as_ref().and_then(|server| server.rate_limit_bps);
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
        if let Some(limit_mbps) = limit_bps.map(|bps| bps as f64 / 1e6).filter(|limit| goodput >= 0.9 * limit)
        {
            return Err(format!(
                "the server limits a test to {limit_mbps:.1} Mbit/s in each direction, so that of the line is not known"
            ));
        }
        Ok((goodput, congestion.map(str::to_owned)))
    }

    /// Runs a test with the first of [`FILLING`] that this host permits.
    fn run_filling(
        &self,
        target: &ServerTarget,
        parameters: &PatternParameters,
    ) -> MeasuredValue<ClientOutcome> {
        for congestion in FILLING {
            let outcome = self.runner().run(Transport::Tcp, target, parameters, Some(congestion))?;
            if !matches!(outcome.error, Some(ClientError::Incapable { .. })) {
                return Ok(outcome);
            }
        }
        self.runner().run(Transport::Tcp, target, parameters, None)
    }
}

/// A scenario without any measured value helps nobody.
fn require_measured(lines: &[RecordedLine]) -> Result<(), Failure> {
    let estimates = || lines.iter().map(|line| &line.estimate);
    let has_any =
        |line: &LineEstimate| line.idle.is_ok() || line.upload.rate.is_ok() || line.download.rate.is_ok();
    if estimates().any(has_any) {
        return Ok(());
    }
    let reason = estimates().find_map(|line| line.upload.rate.as_ref().err().cloned());
    let reason = reason.unwrap_or_else(|| "no path leads to the server".to_owned());
    Err(Failure::failed(format!("--record: no path could be measured, and no file is written: {reason}")))
}

fn not_measured(reason: &str) -> DirectionEstimate {
    let reason = || reason.to_owned();
    DirectionEstimate { rate: Err(reason()), queue: Err(reason()), loss: Err(reason()), congestion: None }
}

fn loss(series: &SeriesEstimate) -> Option<LossEstimate> {
    LossEstimate::from_counts(series.sent, series.lost, LossBasis::Datagrams)
}

const fn probe_frame_bytes(family: AddressFamily) -> u32 {
    family.udp_packet_bytes(HEADER_BYTES) + ETHERNET_HEADER_BYTES
}

fn udp_path(path: &ClientPath, server: SocketAddr) -> UdpPath {
    let local = path.addresses.iter().copied().find(|local| local.is_ipv4() == server.is_ipv4());
    UdpPath { interface: Some(path.interface.clone()), local }
}
