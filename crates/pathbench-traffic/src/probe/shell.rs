//! Sockets for probers: one per interface, made anew when the network under it has changed.

use super::prober::{Prober, fits};
use super::{MAX_TOKEN_BYTES, ProbeCounts, ProbeError, ProbePath, ProbePlan, ProbeSample, SHORTEST_INTERVAL};
use crate::cookie::random_session;
use pathbench_record::time::{Clock, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// `stop` is looked at this often.
const TICK: Duration = Duration::from_millis(50);

/// How long the last answers are waited for.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// After so much silence the socket is made anew, in case the address that it has is no longer the interface's.
const STALE: Duration = Duration::from_secs(2);

/// Longer than any datagram that a responder sends.
const BUFFER_BYTES: usize = 2048;

/// An interface and what probes by it.
struct Lane<'a> {
    path: &'a ProbePath,
    prober: Prober,
    socket: Option<(Socket, Timestamp)>,
}

/// Probes every path of `plan` until `stop` is set, in the calling thread, and hands each probe to `sink` as soon as
/// its fate is known. An interface that is down or missing is no error: its probes are reported as refused, and go on
/// when it is back. What is still open at the end is waited for, for at most half a second.
///
/// Returns, for each path, how many answers came too late or twice.
///
/// # Errors
/// See [`ProbeError`]; nothing has been sent then.
pub fn run_probes(
    plan: &ProbePlan,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
    sink: &dyn Fn(ProbeSample),
) -> Result<Vec<ProbeCounts>, ProbeError> {
    plan.check()?;
    let start = clock.now();
    let mut lanes: Vec<Lane<'_>> = plan
        .paths
        .iter()
        .enumerate()
        .map(|(index, path)| {
            // Not all at the same moment, where they share a bottleneck.
            let offset = plan.interval.mul_f64(index as f64 / plan.paths.len() as f64);
            let session = random_session();
            let prober = Prober::new(start + offset, plan.interval, session, plan.token.as_deref());
            Lane { path, prober, socket: None }
        })
        .collect();
    let mut deadline = None;
    loop {
        let now = clock.now();
        if deadline.is_none() && stop.load(Ordering::Acquire) {
            deadline = Some(now + LAST_ANSWERS);
        }
        for lane in &mut lanes {
            lane.receive(clock.as_ref());
            if deadline.is_none() {
                lane.send(plan.server, clock.as_ref());
            }
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
        let dues = lanes.iter().map(|lane| lane.prober.due()).filter(|_| deadline.is_none());
        let until = dues.min().unwrap_or(now + TICK).min(now + TICK);
        sleep(&lanes, until.since(clock.now()), clock.as_ref());
    }
}

/// Until something has arrived, or for `time`.
fn sleep(lanes: &[Lane<'_>], time: Duration, clock: &dyn Clock) {
    let limit = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    let sockets = lanes.iter().filter_map(|lane| lane.socket.as_ref());
    let mut watched: Vec<PollFd<'_>> =
        sockets.map(|(socket, _)| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)).collect();
    if poll(&mut watched, Some(&limit)).is_err() {
        // A signal, or no memory: the time is waited out, rather than spun through.
        clock.sleep_until(clock.now() + time);
    }
}

impl Lane<'_> {
    /// Sends the next probe when it is due.
    fn send(&mut self, server: SocketAddr, clock: &dyn Clock) {
        let now = clock.now();
        if now < self.prober.due() {
            return;
        }
        let opened = self.ensure_socket(server, now);
        // Only now, so that opening a socket is in no round-trip time.
        let Some((sequence, datagram)) = self.prober.probe(clock.now()) else { return };
        let sent = match (&self.socket, opened) {
            (Some((socket, _)), Ok(())) => socket
                .send(&datagram)
                .map(drop)
                .map_err(|error| format!("sending by {}: {}", self.path.interface, words(&error))),
            (_, Err(error)) => Err(error),
            (None, Ok(())) => Err("no socket".to_owned()),
        };
        if let Err(error) = sent {
            self.socket = None;
            self.prober.not_sent(sequence, error);
        }
    }

    /// Has a socket, a new one when the old one may be stale.
    fn ensure_socket(&mut self, server: SocketAddr, now: Timestamp) -> Result<(), String> {
        if let Some((_, since)) = self.socket {
            let heard = self.prober.last_heard().map_or(since, |heard| heard.max(since));
            if now.since(heard) > STALE {
                self.socket = None;
            }
        }
        if self.socket.is_none() {
            self.prober.introduce_again();
            self.socket = Some((open(self.path, server)?, now));
        }
        Ok(())
    }

    /// Takes what has arrived.
    fn receive(&mut self, clock: &dyn Clock) {
        let mut buffer = [0; BUFFER_BYTES];
        while let Some((socket, _)) = &mut self.socket {
            match socket.read(&mut buffer) {
                Ok(length) => self.prober.received(clock.now(), &buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // What the network told (ICMP). When it is the socket itself, sending fails as well and says so.
                Err(error) => {
                    let place = &self.path.interface;
                    self.prober.network_refused(format!("the network says by {place}: {}", words(&error)));
                    return;
                }
            }
        }
    }
}

fn open(path: &ProbePath, server: SocketAddr) -> Result<Socket, String> {
    let interface = &path.interface;
    let failed = |doing: &str| {
        let place = format!("{doing} {interface}");
        move |error: io::Error| format!("{place}: {}", words(&error))
    };
    let socket = Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP))
        .map_err(failed("opening a UDP socket for"))?;
    socket.bind_device(Some(interface.as_bytes())).map_err(failed("binding to"))?;
    let any = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let local = SocketAddr::new(path.local.unwrap_or(any), 0);
    socket.bind(&local.into()).map_err(failed(&format!("using the address {} by", local.ip())))?;
    socket.connect(&server.into()).map_err(failed("no way to the server by"))?;
    socket.set_nonblocking(true).map_err(failed("setting up a socket for"))?;
    Ok(socket)
}

/// The kernel's words, without the number.
pub(crate) fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => {
            let words = error.to_string();
            words.strip_suffix(&format!(" (os error {code})")).unwrap_or(&words).to_owned()
        }
        None => error.to_string(),
    }
}

impl ProbePlan {
    fn check(&self) -> Result<(), ProbeError> {
        if self.interval < SHORTEST_INTERVAL {
            return Err(ProbeError::Interval { given: self.interval });
        }
        if let Some(token) = self.token.as_deref().filter(|token| !fits(token)) {
            return Err(ProbeError::Token { bytes: token.len(), most: MAX_TOKEN_BYTES });
        }
        Ok(())
    }
}
