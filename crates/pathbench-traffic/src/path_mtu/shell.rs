//! Sockets for a finder and a watch.

use super::examiner::Examiner;
use super::exchange::{Introduction, MAX_TOKEN_BYTES};
use super::finder::Finder;
use super::size::Family;
use super::socket::{PathSocket, Told};
use super::watch::{BothFound, Watch, WatchNews};
use super::{MtuError, MtuNews, MtuPlan, PathMtuFound, WatchPace};
use crate::cookie::random_session;
use pathbench_record::time::{Clock, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// `stop` is looked at this often.
const TICK: Duration = Duration::from_millis(50);
/// Longer than any datagram.
const BUFFER_BYTES: usize = 1 << 16;
/// After so long without the server, the socket is made anew: its address may not be the interface's any more.
const STALE: Duration = Duration::from_secs(2);
/// Datagrams sent before it is looked whether some have arrived.
const SENDS_PER_TURN: usize = 8;

/// Examines one path, both ways, in the calling thread, until it is known, its bounds are reached, or `stop` is set.
///
/// # Errors
/// See [`MtuError`]: the path itself could not be used. What is wrong further on is in the result.
pub fn find_mtu(plan: &MtuPlan, clock: &Arc<dyn Clock>, stop: &AtomicBool) -> Result<PathMtuFound, MtuError> {
    let server = plan.checked()?;
    let socket = PathSocket::open(&plan.path, server)?;
    let mut finder = Finder::new(clock.now(), plan.introduction(), plan.bounds);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        if stop.load(Ordering::Acquire) {
            finder.stop();
        }
        turn(&mut finder, &socket, clock.as_ref(), &mut buffer);
        if finder.is_over() {
            break;
        }
        let now = clock.now();
        sleep(&socket, finder.due().min(now + TICK).since(now), clock.as_ref());
    }
    let (upload, download) = finder.result(clock.now());
    Ok(PathMtuFound { local: socket.local(), remote: server, upload, download })
}

/// Takes what has arrived and sends what is due.
fn turn(core: &mut dyn Examiner, socket: &PathSocket, clock: &dyn Clock, buffer: &mut [u8]) {
    let mut told = Vec::new();
    loop {
        while let Some(word) = socket.take_told() {
            told.push(word);
        }
        while let Some(length) = socket.receive(buffer) {
            core.received(clock.now(), &buffer[..length]);
        }
        for word in told.drain(..) {
            match word {
                Told::TooBig { router, said_bytes, quoted } => {
                    core.icmp(clock.now(), router, said_bytes, &quoted);
                }
                Told::Refused { reason } => core.refused(reason),
                // Sending told as much.
                Told::TooLong { .. } => {}
            }
        }
        for _ in 0..SENDS_PER_TURN {
            let Some(outgoing) = core.poll(clock.now()) else { return };
            if let Err(why) = socket.send(&outgoing.payload, &mut told) {
                core.not_sent(clock.now(), outgoing.sequence, why);
            }
        }
    }
}

/// Until something has arrived, or for `time`.
fn sleep(socket: &PathSocket, time: Duration, clock: &dyn Clock) {
    let limit = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    let mut watched = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    if poll(&mut watched, Some(&limit)).is_err() {
        // A signal, or no memory: the time is waited out, rather than spun through.
        clock.sleep_until(clock.now() + time);
    }
}

/// Examines one path, and then keeps what it found up to date in the calling thread until `stop` is set. `sink` is told
/// the first result and each change, with the time on `clock` at which it was known. A path that goes away is waited for.
///
/// # Errors
/// See [`MtuError`]: the path could not be used at the beginning.
pub fn watch_mtu(
    plan: &MtuPlan,
    pace: WatchPace,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
    sink: &mut dyn FnMut(Timestamp, MtuNews),
) -> Result<(), MtuError> {
    let server = plan.checked()?;
    let mut socket = PathSocket::open(&plan.path, server)?;
    let mut watch = Watch::new(clock.now(), plan.introduction(), plan.bounds, pace);
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut opened = clock.now();
    while !stop.load(Ordering::Acquire) {
        turn(&mut watch, &socket, clock.as_ref(), &mut buffer);
        while let Some(news) = watch.take_news() {
            sink(clock.now(), news.on_path(socket.local(), server));
        }
        let now = clock.now();
        if watch.is_away() && now.since(opened) > STALE {
            opened = now;
            match PathSocket::open(&plan.path, server) {
                Ok(fresh) => socket = fresh,
                Err(error) => watch.refused(error.to_string()),
            }
        }
        sleep(&socket, watch.due().min(now + TICK).since(now), clock.as_ref());
    }
    Ok(())
}

impl WatchNews {
    fn on_path(self, local: IpAddr, remote: SocketAddr) -> MtuNews {
        let path = |found: Box<BothFound>| {
            let (upload, download) = *found;
            Box::new(PathMtuFound { local, remote, upload, download })
        };
        match self {
            Self::Examined(found) => MtuNews::Examined(path(found)),
            Self::Changed { before, now } => MtuNews::Changed { before: path(before), now: path(now) },
            Self::Away { reason } => MtuNews::Away { reason },
        }
    }
}

impl MtuPlan {
    /// The server's address, when the plan can be carried out.
    fn checked(&self) -> Result<SocketAddr, MtuError> {
        if let Some(token) = self.token.as_deref().filter(|token| token.len() > MAX_TOKEN_BYTES) {
            return Err(MtuError::Token { bytes: token.len(), most: MAX_TOKEN_BYTES });
        }
        Ok(match self.server {
            SocketAddr::V6(address) if address.ip().to_ipv4_mapped().is_some() => {
                SocketAddr::new(self.server.ip().to_canonical(), self.server.port())
            }
            other => other,
        })
    }

    fn introduction(&self) -> Introduction {
        let session = random_session();
        Introduction { session, token: self.token.clone(), family: Family::of(self.server.ip()) }
    }
}
