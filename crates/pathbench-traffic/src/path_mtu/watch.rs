//! A path's MTUs over time, without a socket: examined, watched, and examined again when they seem to have changed.

use super::exchange::{Exchange, Introduction};
use super::finder::Finder;
use super::guard::{Alarm, Guard, Known};
use super::probability::Loss;
use super::{DirectionFound, Evidence, MtuBounds, NoMtu, WatchPace};
use crate::datagram::{DatagramClient, Outgoing, Unsent};
use pathbench_record::direction::Direction;
use pathbench_record::time::Timestamp;
use std::collections::VecDeque;
use std::net::IpAddr;

pub type BothFound = (DirectionFound, DirectionFound);

#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// The first examination, or one after the path had been away.
    Examined(Box<BothFound>),
    Changed {
        before: Box<BothFound>,
        now: Box<BothFound>,
    },
    Away {
        reason: Option<String>,
    },
}

#[derive(Debug)]
enum State {
    Examining(Box<Finder>),
    Guarding(Box<Guard>),
    Away(Box<Exchange>),
}

/// See the module. It is driven as a [`Finder`] is, and is never over.
#[derive(Debug)]
pub struct Watch {
    who: Introduction,
    bounds: MtuBounds,
    pace: WatchPace,
    state: State,
    last: Option<BothFound>,
    was_away: bool,
    interface_bytes: u32,
    last_refusal: Option<String>,
    news: VecDeque<WatchEvent>,
}

impl Watch {
    pub fn new(now: Timestamp, who: Introduction, bounds: MtuBounds, pace: WatchPace) -> Self {
        let state = State::Examining(Box::new(Finder::new(now, who.clone(), bounds)));
        Self {
            who,
            bounds,
            pace,
            state,
            last: None,
            was_away: true,
            interface_bytes: 0,
            last_refusal: None,
            news: VecDeque::new(),
        }
    }

    pub fn is_away(&self) -> bool {
        matches!(self.state, State::Away(_))
    }

    pub fn take_event(&mut self) -> Option<WatchEvent> {
        self.news.pop_front()
    }

    fn proceed(&mut self, now: Timestamp) {
        match &mut self.state {
            State::Examining(finder) => {
                if finder.is_over() {
                    let found = finder.result(now);
                    self.interface_bytes = finder.interface_bytes();
                    self.examined(now, found);
                }
            }
            State::Guarding(guard) => match guard.alarm() {
                Some(Alarm::Changed) => self.examine(now),
                Some(Alarm::Silent) => {
                    let reason = guard.last_refusal.take();
                    self.go_away(now, reason);
                }
                None => {}
            },
            State::Away(exchange) => {
                if exchange.is_welcome() {
                    self.examine(now);
                }
            }
        }
    }

    /// Each state has a session of its own, so that late answers to one are not taken for another's.
    fn next_session(&mut self) -> Introduction {
        self.who.session = self.who.session.wrapping_add(1);
        self.who.clone()
    }

    fn examine(&mut self, now: Timestamp) {
        let who = self.next_session();
        self.state = State::Examining(Box::new(Finder::new(now, who, self.bounds)));
    }

    fn go_away(&mut self, now: Timestamp, reason: Option<String>) {
        if !self.was_away {
            self.news.push_back(WatchEvent::Away { reason: reason.or_else(|| self.last_refusal.take()) });
        }
        self.was_away = true;
        let who = self.next_session();
        self.state = State::Away(Box::new(Exchange::new(now, who).with_hellos_every(self.pace.interval)));
    }

    fn examined(&mut self, now: Timestamp, found: BothFound) {
        let unheard = |direction: &DirectionFound| {
            matches!(
                direction.found,
                Err(NoMtu::Silent | NoMtu::Unreachable { .. } | NoMtu::Refused { .. } | NoMtu::Unanswered)
            )
        };
        if unheard(&found.0) && unheard(&found.1) {
            let reason = found.0.found.as_ref().err().map(ToString::to_string);
            if self.last.is_none() {
                self.news.push_back(WatchEvent::Examined(Box::new(found.clone())));
                self.last = Some(found);
            }
            self.go_away(now, reason);
            return;
        }
        let found = match self.last.take() {
            Some(last) if !self.was_away => self.compared(last, found),
            _ => {
                self.news.push_back(WatchEvent::Examined(Box::new(found.clone())));
                found
            }
        };
        self.was_away = false;
        self.guard(now, &found);
        self.last = Some(found);
    }

    /// Tells what is different. What was not settled is no reason to think anything else than before.
    fn compared(&mut self, last: BothFound, found: BothFound) -> BothFound {
        let is_settled = |direction: &DirectionFound| {
            direction.found.as_ref().is_ok_and(|found| found.evidence != Evidence::Unsettled)
                || matches!(direction.found, Err(NoMtu::BelowFloor { .. }))
        };
        let pick = |last: &DirectionFound, found: DirectionFound| {
            if is_settled(&found) || mtu(last).is_none() { found } else { last.clone() }
        };
        let now = (pick(&last.0, found.0), pick(&last.1, found.1));
        if (mtu(&last.0), mtu(&last.1)) != (mtu(&now.0), mtu(&now.1)) {
            self.news.push_back(WatchEvent::Changed { before: Box::new(last), now: Box::new(now.clone()) });
        }
        now
    }

    fn guard(&mut self, now: Timestamp, found: &BothFound) {
        let known = |direction, found: &DirectionFound| {
            let lost = (found.loss * f64::from(found.probes_sent)).round() as u32;
            let answered = found.probes_sent.saturating_sub(lost).max(1);
            Known { direction, mtu_bytes: mtu(found), loss: Loss { answered, lost } }
        };
        let known = [known(Direction::Upload, &found.0), known(Direction::Download, &found.1)];
        let who = self.next_session();
        self.state = State::Guarding(Box::new(Guard::new(now, who, self.pace, known, self.interface_bytes)));
    }
}

impl DatagramClient for Watch {
    fn poll(&mut self, now: Timestamp) -> Option<Outgoing> {
        loop {
            self.proceed(now);
            let (outgoing, is_ripe) = match &mut self.state {
                State::Examining(finder) => (finder.poll(now), finder.is_over()),
                State::Guarding(guard) => (guard.poll(now), guard.alarm().is_some()),
                State::Away(exchange) => (exchange.hello(now), exchange.is_welcome()),
            };
            if outgoing.is_some() || !is_ripe {
                return outgoing;
            }
        }
    }

    fn due(&self) -> Timestamp {
        match &self.state {
            State::Examining(finder) => finder.due(),
            State::Guarding(guard) => guard.due(),
            State::Away(exchange) => exchange.due().unwrap_or_default(),
        }
    }

    fn received(&mut self, now: Timestamp, datagram: &[u8]) {
        match &mut self.state {
            State::Examining(finder) => finder.received(now, datagram),
            State::Guarding(guard) => guard.received(now, datagram),
            State::Away(exchange) => exchange.received(now, datagram),
        }
    }

    fn not_sent(&mut self, now: Timestamp, sequence: u32, why: Unsent) {
        match &mut self.state {
            State::Examining(finder) => finder.not_sent(now, sequence, why),
            State::Guarding(guard) => guard.not_sent(now, sequence, why),
            State::Away(_) => {}
        }
    }

    fn refused(&mut self, reason: String) {
        match &mut self.state {
            State::Examining(finder) => finder.refused(reason),
            State::Guarding(guard) => guard.last_refusal = Some(reason),
            State::Away(_) => self.last_refusal = Some(reason),
        }
    }

    fn icmp(&mut self, now: Timestamp, router: IpAddr, said_bytes: u32, quoted: &[u8]) {
        match &mut self.state {
            State::Examining(finder) => finder.icmp(now, router, said_bytes, quoted),
            State::Guarding(guard) => guard.icmp(now, router, said_bytes, quoted),
            State::Away(_) => {}
        }
    }
}

fn mtu(found: &DirectionFound) -> Option<u32> {
    found.found.as_ref().ok().map(|found| found.mtu_bytes)
}
