//! A path's MTUs over time: examined, watched, and examined again when they may have changed; with the sockets.

use super::exchange::SessionParameters;
use super::finder::Finder;
use super::guard::{Alarm, Guard, Known};
use super::plan::{
    DirectionFound, MtuBounds, MtuEvent, MtuPlan, NoMtu, PathMtuFound, SizeEvidence, WatchPace,
};
use super::probability::ProbeLoss;
use crate::datagram::{
    BUFFER_BYTES, DatagramClient, DatagramError, DatagramSocket, Outgoing, STALE, TICK, Unsent, check_token,
    random_session, turn, wait,
};
use pathbench_record::direction::Direction;
use pathbench_record::network::AddressFamily;
use pathbench_record::time::{Clock, Timestamp};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
enum State {
    Examining(Box<Finder>),
    Guarding(Box<Guard>),
}

/// Run it as a [`Finder`]; it never ends.
#[derive(Debug)]
pub struct Watch {
    parameters: SessionParameters,
    bounds: MtuBounds,
    pace: WatchPace,
    state: State,
    last: Option<PathMtuFound>,
    was_away: bool,
    interface_bytes: u32,
    events: VecDeque<MtuEvent>,
}

impl Watch {
    pub fn new(now: Timestamp, parameters: SessionParameters, bounds: MtuBounds, pace: WatchPace) -> Self {
        let state = State::Examining(Box::new(Finder::new(now, parameters.clone(), bounds)));
        Self {
            parameters,
            bounds,
            pace,
            state,
            last: None,
            was_away: true,
            interface_bytes: 0,
            events: VecDeque::new(),
        }
    }

    /// Whether the server does not answer; it is then probed from time to time.
    pub fn is_away(&self) -> bool {
        matches!(&self.state, State::Guarding(guard) if guard.is_away())
    }

    pub fn take_event(&mut self) -> Option<MtuEvent> {
        self.events.pop_front()
    }

    fn client(&mut self) -> &mut dyn DatagramClient {
        match &mut self.state {
            State::Examining(finder) => finder.as_mut(),
            State::Guarding(guard) => guard.as_mut(),
        }
    }

    /// Changes to the next state when the current one has ended.
    fn proceed(&mut self, now: Timestamp) -> bool {
        match &mut self.state {
            State::Examining(finder) if finder.is_over() => {
                let found = finder.result(now);
                self.interface_bytes = finder.interface_bytes();
                self.examined(now, found);
            }
            State::Guarding(guard) => match guard.alarm {
                None => return false,
                Some(Alarm::Changed) => {
                    let parameters = self.next_session();
                    self.state = State::Examining(Box::new(Finder::new(now, parameters, self.bounds)));
                }
                Some(Alarm::Silent) => {
                    let reason = guard.last_refusal.take();
                    self.go_away(now, reason);
                }
            },
            State::Examining(_) => return false,
        }
        true
    }

    /// Each state has its own session, so that answers to an earlier session are ignored.
    fn next_session(&mut self) -> SessionParameters {
        self.parameters.session = self.parameters.session.wrapping_add(1);
        self.parameters.clone()
    }

    fn go_away(&mut self, now: Timestamp, reason: Option<String>) {
        if !self.was_away {
            self.events.push_back(MtuEvent::Away { reason });
        }
        self.was_away = true;
        self.guard(now, Vec::new());
    }

    fn guard(&mut self, now: Timestamp, known: Vec<Known>) {
        let parameters = self.next_session();
        self.state =
            State::Guarding(Box::new(Guard::new(now, parameters, self.pace, known, self.interface_bytes)));
    }

    fn examined(&mut self, now: Timestamp, found: PathMtuFound) {
        let is_silent = |direction: &DirectionFound| {
            matches!(
                direction.found,
                Err(NoMtu::Silent | NoMtu::Unreachable { .. } | NoMtu::Refused { .. } | NoMtu::Unanswered)
            )
        };
        if is_silent(&found.upload) && is_silent(&found.download) {
            let reason = found.upload.found.as_ref().err().map(ToString::to_string);
            if self.last.is_none() {
                self.events.push_back(MtuEvent::Examined(Box::new(found.clone())));
                self.last = Some(found);
            }
            self.go_away(now, reason);
            return;
        }
        let found = match self.last.take() {
            Some(last) if !self.was_away => self.compared(last, found),
            _ => {
                self.events.push_back(MtuEvent::Examined(Box::new(found.clone())));
                found
            }
        };
        self.was_away = false;
        let known = |direction, found: &DirectionFound| {
            let lost = (found.loss * f64::from(found.probes_sent)).round() as u32;
            let answered = found.probes_sent.saturating_sub(lost).max(1);
            Known { direction, mtu_bytes: found.mtu_bytes(), loss: ProbeLoss { answered, lost } }
        };
        let known =
            vec![known(Direction::Upload, &found.upload), known(Direction::Download, &found.download)];
        self.guard(now, known);
        self.last = Some(found);
    }

    /// Reports changes. An unsettled result does not replace a known one.
    fn compared(&mut self, last: PathMtuFound, found: PathMtuFound) -> PathMtuFound {
        let is_settled = |direction: &DirectionFound| {
            direction.found.as_ref().is_ok_and(|found| found.evidence != SizeEvidence::Unsettled)
                || matches!(direction.found, Err(NoMtu::BelowFloor { .. }))
        };
        let pick = |last: &DirectionFound, found: DirectionFound| {
            if is_settled(&found) || last.mtu_bytes().is_none() { found } else { last.clone() }
        };
        let now = PathMtuFound {
            upload: pick(&last.upload, found.upload),
            download: pick(&last.download, found.download),
        };
        let mtus = |found: &PathMtuFound| (found.upload.mtu_bytes(), found.download.mtu_bytes());
        if mtus(&last) != mtus(&now) {
            self.events.push_back(MtuEvent::Changed { before: Box::new(last), now: Box::new(now.clone()) });
        }
        now
    }
}

impl DatagramClient for Watch {
    fn poll(&mut self, now: Timestamp) -> Option<Outgoing> {
        loop {
            self.proceed(now);
            let outgoing = self.client().poll(now);
            if outgoing.is_some() || !self.proceed(now) {
                return outgoing;
            }
        }
    }

    fn due(&self) -> Timestamp {
        match &self.state {
            State::Examining(finder) => finder.due(),
            State::Guarding(guard) => guard.due(),
        }
    }

    fn received(&mut self, now: Timestamp, datagram: &[u8]) {
        self.client().received(now, datagram);
    }

    fn not_sent(&mut self, now: Timestamp, sequence: u32, why: Unsent) {
        self.client().not_sent(now, sequence, why);
    }

    fn refused(&mut self, reason: String) {
        self.client().refused(reason);
    }

    fn icmp(&mut self, now: Timestamp, router: IpAddr, mtu_bytes: u32, quoted: &[u8]) {
        self.client().icmp(now, router, mtu_bytes, quoted);
    }
}

/// Examines one path in both directions in the calling thread until it is known, a bound is reached, or `stop` is set.
pub fn find_mtu(
    plan: &MtuPlan,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
) -> Result<PathMtuFound, DatagramError> {
    let server = plan.check_server()?;
    let socket = plan.open(server)?;
    let mut finder = Finder::new(clock.now(), plan.session_parameters(), plan.bounds);
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
        wait([&socket], finder.due().min(now + TICK).duration_since(now), clock.as_ref());
    }
    Ok(finder.result(clock.now()))
}

/// Examines one path, then keeps the result up to date in the calling thread until `stop` is set. `sink` receives the
/// first result and each change, with its time on `clock`. The function waits for the return of a lost path.
pub fn watch_mtu(
    plan: &MtuPlan,
    pace: WatchPace,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
    sink: &mut dyn FnMut(Timestamp, MtuEvent),
) -> Result<(), DatagramError> {
    let server = plan.check_server()?;
    let mut socket = plan.open(server)?;
    let mut watch = Watch::new(clock.now(), plan.session_parameters(), plan.bounds, pace);
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut opened = clock.now();
    while !stop.load(Ordering::Acquire) {
        turn(&mut watch, &socket, clock.as_ref(), &mut buffer);
        while let Some(event) = watch.take_event() {
            sink(clock.now(), event);
        }
        let now = clock.now();
        if watch.is_away() && now.duration_since(opened) > STALE {
            opened = now;
            match plan.open(server) {
                Ok(fresh) => socket = fresh,
                Err(error) => watch.refused(error.to_string()),
            }
        }
        wait([&socket], watch.due().min(now + TICK).duration_since(now), clock.as_ref());
    }
    Ok(())
}

impl MtuPlan {
    fn check_server(&self) -> Result<SocketAddr, DatagramError> {
        check_token(self.token.as_deref())?;
        Ok(match self.server {
            SocketAddr::V6(address) if address.ip().to_ipv4_mapped().is_some() => {
                SocketAddr::new(self.server.ip().to_canonical(), self.server.port())
            }
            other => other,
        })
    }

    fn open(&self, server: SocketAddr) -> Result<DatagramSocket, DatagramError> {
        DatagramSocket::open(&self.path, server)
    }

    fn session_parameters(&self) -> SessionParameters {
        let session = random_session();
        SessionParameters {
            session,
            token: self.token.clone(),
            family: AddressFamily::from_address(self.server.ip()),
        }
    }
}
