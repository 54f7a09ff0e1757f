//! Sockets for a finder and a watch.

use super::exchange::Introduction;
use super::finder::Finder;
use super::watch::{BothFound, Watch, WatchEvent};
use super::{MtuEvent, MtuPlan, PathMtuFound, WatchPace};
use crate::datagram::{
    BUFFER_BYTES, DatagramClient as _, DatagramError, Family, PathSocket, TICK, check_token, random_session,
    turn, wait,
};
use pathbench_record::time::{Clock, Timestamp};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// After so long without the server, the socket is made anew: its address may not be the interface's any more.
const STALE: Duration = Duration::from_secs(2);

/// Examines one path, both ways, in the calling thread, until it is known, its bounds are reached, or `stop` is set.
pub fn find_mtu(
    plan: &MtuPlan,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
) -> Result<PathMtuFound, DatagramError> {
    let server = plan.checked()?;
    let socket = plan.open(server)?;
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
        wait([&socket], finder.due().min(now + TICK).since(now), clock.as_ref());
    }
    let (upload, download) = finder.result(clock.now());
    Ok(PathMtuFound { local: socket.local(), remote: server, upload, download })
}

/// Examines one path, and then keeps what it found up to date in the calling thread until `stop` is set. `sink` gets
/// the first result and each change, with the time on `clock` at which it was known. A path that goes away is waited for.
pub fn watch_mtu(
    plan: &MtuPlan,
    pace: WatchPace,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
    sink: &mut dyn FnMut(Timestamp, MtuEvent),
) -> Result<(), DatagramError> {
    let server = plan.checked()?;
    let mut socket = plan.open(server)?;
    let mut watch = Watch::new(clock.now(), plan.introduction(), plan.bounds, pace);
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut opened = clock.now();
    while !stop.load(Ordering::Acquire) {
        turn(&mut watch, &socket, clock.as_ref(), &mut buffer);
        while let Some(news) = watch.take_event() {
            sink(clock.now(), news.on_path(socket.local(), server));
        }
        let now = clock.now();
        if watch.is_away() && now.since(opened) > STALE {
            opened = now;
            match plan.open(server) {
                Ok(fresh) => socket = fresh,
                Err(error) => watch.refused(error.to_string()),
            }
        }
        wait([&socket], watch.due().min(now + TICK).since(now), clock.as_ref());
    }
    Ok(())
}

impl WatchEvent {
    fn on_path(self, local: IpAddr, remote: SocketAddr) -> MtuEvent {
        let path = |found: Box<BothFound>| {
            let (upload, download) = *found;
            Box::new(PathMtuFound { local, remote, upload, download })
        };
        match self {
            Self::Examined(found) => MtuEvent::Examined(path(found)),
            Self::Changed { before, now } => MtuEvent::Changed { before: path(before), now: path(now) },
            Self::Away { reason } => MtuEvent::Away { reason },
        }
    }
}

impl MtuPlan {
    fn checked(&self) -> Result<SocketAddr, DatagramError> {
        check_token(self.token.as_deref())?;
        Ok(match self.server {
            SocketAddr::V6(address) if address.ip().to_ipv4_mapped().is_some() => {
                SocketAddr::new(self.server.ip().to_canonical(), self.server.port())
            }
            other => other,
        })
    }

    fn open(&self, server: SocketAddr) -> Result<PathSocket, DatagramError> {
        PathSocket::open(self.path.interface.as_deref(), self.path.local, server)
    }

    fn introduction(&self) -> Introduction {
        let session = random_session();
        Introduction { session, token: self.token.clone(), family: Family::of(self.server.ip()) }
    }
}
