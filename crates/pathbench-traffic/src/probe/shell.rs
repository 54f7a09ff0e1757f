//! Sockets for probers: one per interface, made anew when the network under it has changed.

use super::prober::Prober;
use super::{ProbeCounts, ProbePath, ProbePlan, ProbeSample, SHORTEST_INTERVAL};
use crate::datagram::{
    BUFFER_BYTES, DatagramClient as _, DatagramError, PathSocket, TICK, Unsent, check_token, random_session,
    turn, wait,
};
use pathbench_record::time::{Clock, Timestamp};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// After so much silence the socket is made anew, in case the address that it has is no longer the interface's.
const STALE: Duration = Duration::from_secs(2);

struct Lane<'a> {
    path: &'a ProbePath,
    prober: Prober,
    socket: Option<(PathSocket, Timestamp)>,
}

/// Probes every path of `plan` until `stop` is set, in the calling thread, and hands each probe to `sink` as soon as
/// its outcome is known. An interface that is down or missing is no error: its probes are reported as refused, and go on
/// when it is back. What is still open at the end is waited for, for at most half a second.
///
/// Returns, for each path, how many answers came too late or twice. After an error nothing has been sent.
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
    let lane = |(index, path)| {
        // Not all at the same moment, where they share a bottleneck.
        let offset = plan.interval.mul_f64(index as f64 / plan.paths.len() as f64);
        let prober = Prober::new(start + offset, plan.interval, random_session(), plan.token.as_deref());
        Lane { path, prober, socket: None }
    };
    let mut lanes: Vec<Lane<'_>> = plan.paths.iter().enumerate().map(lane).collect();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut deadline = None;
    loop {
        let now = clock.now();
        if deadline.is_none() && stop.load(Ordering::Acquire) {
            deadline = Some(now + LAST_ANSWERS);
            for lane in &mut lanes {
                lane.prober.stop();
            }
        }
        for lane in &mut lanes {
            lane.turn(plan.server, clock, &mut buffer);
            lane.prober.expire(clock.now());
        }
        let over = deadline
            .is_some_and(|deadline| now >= deadline || lanes.iter().all(|lane| !lane.prober.is_waiting()));
        if over {
            for lane in &mut lanes {
                lane.prober.finish();
            }
        }
        for (path, lane) in lanes.iter_mut().enumerate() {
            for settled in lane.prober.take_settled() {
                let (sequence, sent_at, outcome) = (settled.sequence, settled.sent_at, settled.outcome);
                sink(ProbeSample { path, sequence, sent_at, outcome });
            }
        }
        if over {
            return Ok(lanes.iter().map(|lane| lane.prober.counts()).collect());
        }
        let until = lanes.iter().map(|lane| lane.prober.due()).fold(now + TICK, Timestamp::min);
        let sockets = lanes.iter().filter_map(|lane| lane.socket.as_ref().map(|(socket, _)| socket));
        wait(sockets, until.since(clock.now()), clock);
    }
}

impl Lane<'_> {
    fn turn(&mut self, server: SocketAddr, clock: &dyn Clock, buffer: &mut [u8]) {
        let now = clock.now();
        // Before the probe is made, so that opening a socket is in no round-trip time.
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
        if let Some((_, since)) = &self.socket {
            let heard = self.prober.last_heard().map_or(*since, |heard| heard.max(*since));
            if now.since(heard) > STALE {
                self.socket = None;
            }
        }
        if self.socket.is_none() {
            self.prober.introduce_again();
            let socket = PathSocket::open(Some(&self.path.interface), self.path.local, server)?;
            self.socket = Some((socket, now));
        }
        Ok(())
    }
}
