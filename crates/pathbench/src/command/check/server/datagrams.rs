//! UDP to each port of the server, and the path MTU, over every path.

use super::prober::ServerProber;
use pathbench_check::facts::HostFacts;
use pathbench_check::server::facts::{MtuDirection, MtuProbe, UdpProbe};
use pathbench_host::paths::ProbedPath;
use pathbench_traffic::datagram::UdpPath;
use pathbench_traffic::path_mtu::{DirectionFound, MtuBounds, MtuPlan, NoMtu, SizeEvidence, find_mtu};
use pathbench_traffic::probe::{ProbeOutcome, ProbePlan, ProbeSample, run_probes};
use pathbench_transport::lock;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(100);
/// A port without an answer to any probe in this time is blocked.
const PATIENCE: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(20);
/// Time limit of a search for a path MTU.
const MTU_TIME: Duration = Duration::from_secs(6);

type Result = (Vec<UdpProbe>, Option<MtuProbe>);

impl ServerProber<'_> {
    /// The results for each of `paths`, probed in parallel.
    pub(super) fn datagrams(&self, paths: &[ProbedPath], host: &HostFacts) -> Vec<Result> {
        let mut ports = vec![self.target.name.port];
        ports.extend(self.quic_ports.iter().filter(|port| **port != self.target.name.port));
        thread::scope(|scope| {
            let threads: Vec<_> = paths
                .iter()
                .map(|path| {
                    let ports = &ports;
                    scope.spawn(move || {
                        let udp: Vec<UdpProbe> = ports.iter().map(|port| self.udp(path, *port)).collect();
                        let open = udp.iter().find(|probe| probe.answer.is_ok()).map(|probe| probe.port);
                        let mtu = open.and_then(|port| self.mtu(path, port, host));
                        (udp, mtu)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
        })
    }

    /// Sends probes until one is answered.
    fn udp(&self, path: &ProbedPath, port: u16) -> UdpProbe {
        let server = SocketAddr::new(path.server.ip(), port);
        debug_assert!(server.is_ipv4() == path.local.is_ipv4(), "a path has one family");
        let plan = ProbePlan {
            server,
            token: self.arguments.token.clone(),
            paths: vec![udp_path(path)],
            interval: INTERVAL,
        };
        let (stop, answer) = (AtomicBool::new(false), Mutex::new(Err("no answer".to_owned())));
        let sink = |sample: ProbeSample| {
            let mut answer = lock(&answer);
            match sample.outcome {
                ProbeOutcome::Answered { rtt } if answer.is_err() => {
                    *answer = Ok(rtt.as_secs_f64() * 1e3);
                    stop.store(true, Ordering::Release);
                }
                ProbeOutcome::Refused { error } if answer.is_err() => *answer = Err(error),
                _ => {}
            }
        };
        let failure = thread::scope(|scope| {
            scope.spawn(|| {
                let end = self.clock.now() + PATIENCE;
                while self.clock.now() < end && !stop.load(Ordering::Acquire) {
                    self.clock.sleep_until(self.clock.now() + TICK);
                }
                stop.store(true, Ordering::Release);
            });
            let failure = run_probes(&plan, &self.clock, &stop, &sink).err();
            stop.store(true, Ordering::Release);
            failure
        });
        let answer = lock(&answer).clone();
        UdpProbe { port, answer: failure.map_or(answer, |error| Err(error.to_string())) }
    }

    fn mtu(&self, path: &ProbedPath, port: u16, host: &HostFacts) -> Option<MtuProbe> {
        let plan = MtuPlan {
            server: SocketAddr::new(path.server.ip(), port),
            token: self.arguments.token.clone(),
            path: udp_path(path),
            bounds: MtuBounds { most_time: MTU_TIME, ..MtuBounds::default() },
        };
        let found = find_mtu(&plan, &self.clock, &AtomicBool::new(false)).ok()?;
        let link = host.network.links.iter().find(|link| link.name == path.interface);
        Some(MtuProbe {
            interface_mtu_bytes: link.map_or(0, |link| link.mtu),
            upload: direction(&found.upload),
            download: direction(&found.download),
        })
    }
}

fn udp_path(path: &ProbedPath) -> UdpPath {
    UdpPath { interface: Some(path.interface.clone()), local: Some(path.local) }
}

fn direction(found: &DirectionFound) -> MtuDirection {
    MtuDirection {
        mtu_bytes: found.mtu_bytes(),
        silent: match &found.found {
            Ok(found) => found.evidence == SizeEvidence::DroppedSilently,
            Err(why) => matches!(why, NoMtu::BelowFloor { .. }),
        },
        error: found.found.as_ref().err().map(ToString::to_string),
    }
}
