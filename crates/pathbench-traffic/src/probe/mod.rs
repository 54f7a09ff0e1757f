//! Small UDP datagrams over each interface at a fixed interval, answered by the server. They measure reachability and
//! round-trip time of each network, independently of the tests.
//!
//! Each path has a [`NetworkProber`], which is sans-IO; [`run_probes`] connects the probers to sockets.

mod prober;

pub use prober::{NetworkProber, ProbeCounts, ProbeOutcome, ProbeSample};

use crate::datagram::{
    BUFFER_BYTES, DatagramClient as _, DatagramError, DatagramSocket, STALE, TICK, UdpPath, Unsent,
    check_token, random_session, turn, wait,
};
use pathbench_record::time::{Clock, Timestamp};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SHORTEST_INTERVAL: Duration = Duration::from_millis(20);
const LAST_ANSWERS: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbePlan {
    pub server: SocketAddr,
    /// The client's token, if the server requires one.
    pub token: Option<String>,
    /// The interfaces need not exist yet, and may disappear and return.
    pub paths: Vec<UdpPath>,
    /// Interval between two probes of a path; at least 20 ms.
    pub interval: Duration,
}

struct ProbedPath<'a> {
    path: &'a UdpPath,
    prober: NetworkProber,
    socket: Option<(DatagramSocket, Timestamp)>,
}

/// Probes every path of `plan` in the calling thread until `stop` is set, and passes each probe to `sink` when its
/// outcome is known. An interface that is down or missing is not an error: its probes are reported as refused until it
/// returns. At the end the function waits for the probes in flight, for at most 0.5 s.
///
/// Returns the number of late and duplicate answers of each path. After an error no probe has been sent.
pub fn run_probes(
    plan: &ProbePlan,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
    sink: &dyn Fn(ProbeSample),
) -> Result<Vec<ProbeCounts>, DatagramError> {
    if plan.interval < SHORTEST_INTERVAL {
        return Err(DatagramError::Interval { given: plan.interval });
    }
    check_token(plan.token.as_deref())?;
    let clock = clock.as_ref();
    let start = clock.now();
    let probed = |(index, path)| {
        // The probes of different paths are spread over the interval, because the paths may share a bottleneck.
        let offset = plan.interval.mul_f64(index as f64 / plan.paths.len() as f64);
        let (start, session) = (start + offset, random_session());
        let prober = NetworkProber::new(index, start, plan.interval, session, plan.token.as_deref());
        ProbedPath { path, prober, socket: None }
    };
    let mut probed_paths: Vec<ProbedPath<'_>> = plan.paths.iter().enumerate().map(probed).collect();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut deadline = None;
    loop {
        let now = clock.now();
        if deadline.is_none() && stop.load(Ordering::Acquire) {
            deadline = Some(now + LAST_ANSWERS);
            for probed in &mut probed_paths {
                probed.prober.stopped = true;
            }
        }
        for probed in &mut probed_paths {
            probed.turn(plan.server, clock, &mut buffer);
            probed.prober.expire(clock.now());
        }
        let over = deadline.is_some_and(|deadline| {
            now >= deadline || probed_paths.iter().all(|probed| probed.prober.in_flight.is_empty())
        });
        if over {
            for probed in &mut probed_paths {
                probed.prober.finish();
            }
        }
        probed_paths.iter_mut().flat_map(|probed| probed.prober.take_settled()).for_each(sink);
        if over {
            return Ok(probed_paths.iter().map(|probed| probed.prober.counts).collect());
        }
        let until = probed_paths.iter().map(|probed| probed.prober.due()).fold(now + TICK, Timestamp::min);
        let sockets =
            probed_paths.iter().filter_map(|probed| probed.socket.as_ref().map(|(socket, _)| socket));
        wait(sockets, until.duration_since(clock.now()), clock);
    }
}

impl ProbedPath<'_> {
    fn turn(&mut self, server: SocketAddr, clock: &dyn Clock, buffer: &mut [u8]) {
        let now = clock.now();
        // Opened before the probe is sent, so that no round-trip time includes the opening of a socket.
        let opened = if now < self.prober.due() { Ok(()) } else { self.ensure_socket(server, now) };
        if let Some((socket, _)) = &self.socket {
            if !turn(&mut self.prober, socket, clock, buffer) {
                self.socket = None;
            }
        } else if let Err(error) = opened
            && let Some(probe) = self.prober.poll(clock.now())
        {
            let reason = error.to_string();
            self.prober.not_sent(clock.now(), probe.sequence, Unsent::Failed { reason });
        }
    }

    fn ensure_socket(&mut self, server: SocketAddr, now: Timestamp) -> Result<(), DatagramError> {
        self.socket.take_if(|(_, since)| {
            now.duration_since(
                self.prober.last_received.map_or(*since, |received_at| received_at.max(*since)),
            ) > STALE
        });
        if self.socket.is_none() {
            self.prober.discard_cookie();
            let socket = DatagramSocket::open(self.path, server)?;
            self.socket = Some((socket, now));
        }
        Ok(())
    }
}
