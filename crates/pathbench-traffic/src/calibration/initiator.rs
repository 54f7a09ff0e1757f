//! The near end of a calibration.

use super::datagram::{Arrival, DatagramSocket};
use super::message::{Kind, Message};
use super::responder::is_of_size;
use super::rtt::{Echoes, RttFigures};
use super::train::{Train, meter, payload_bytes};
use super::{CalibrationPlan, LinkCalibration, header_bytes};
use pathbench_record::event::Direction;
use pathbench_record::time::Clock;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// Pause between echoes: each finds the link idle.
const ECHO_SPACING: Duration = Duration::from_millis(2);

/// An answer that takes longer than this and twice the round-trip time is not coming.
const ANSWER_TIME: Duration = Duration::from_millis(20);

/// Longest wait for an answer before the round-trip time is known, or behind a full queue.
const LONG_TIME: Duration = Duration::from_secs(1);

/// Silence after which a train that has begun to arrive is over.
const TRAIN_SILENCE: Duration = Duration::from_millis(100);

/// Times a message that got no answer is sent.
const ATTEMPTS: u32 = 3;

/// A train that measures less than this part of the asked rate is sent again, up to so many times in all, and
/// the highest rate counts: a busy machine can make a train too slow, but nothing makes a bottleneck faster.
const GOOD_ENOUGH: f64 = 0.99;
const TRAINS: u64 = 3;

/// Smallest IP packet that any link must carry (RFC 791, RFC 8200 section 5).
const SMALLEST_MTU_V4: u32 = 68 + 28;
const SMALLEST_MTU_V6: u32 = 1280;

/// Why a link could not be measured.
#[derive(Debug, Error)]
pub enum CalibrationError {
    /// The local address cannot be used.
    #[error("opening a UDP socket on {local} for a calibration: {source}")]
    Socket {
        /// The address.
        local: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel would not send or receive.
    #[error("calibrating the link {local} – {remote}, {doing}: {source}")]
    Failed {
        /// Near end.
        local: SocketAddr,
        /// Far end.
        remote: SocketAddr,
        /// What was being done.
        doing: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The far end does not answer.
    #[error(
        "calibrating the link {local} – {remote}: no answer {doing}; \
         the link is down, or nothing answers calibrations there"
    )]
    NoAnswer {
        /// Near end.
        local: SocketAddr,
        /// Far end.
        remote: SocketAddr,
        /// What was being done.
        doing: &'static str,
    },
}

/// Measures a link from this end; the other end runs a [`super::CalibrationResponder`].
///
/// Takes about two trains, the time that the links' queues take to drain after each, 60 ms, and some ten
/// round-trip times.
///
/// # Errors
/// See [`CalibrationError`].
pub fn calibrate(plan: &CalibrationPlan, clock: &dyn Clock) -> Result<LinkCalibration, CalibrationError> {
    let socket = DatagramSocket::bind(plan.local)
        .map_err(|source| CalibrationError::Socket { local: plan.local, source })?;
    let mut link = Link {
        socket,
        plan,
        clock,
        session: RandomState::new().hash_one(plan.remote),
        cookie: 0,
        answer_time: LONG_TIME,
        buffer: vec![0; 65_536],
    };
    link.prove_address()?;
    let rtt = link.round_trips()?;
    link.answer_time = rtt.median * 2 + ANSWER_TIME;
    let forward_mtu_bytes = link.mtu(Direction::Upload)?;
    let backward_mtu_bytes = link.mtu(Direction::Download)?;
    let mtu_bytes = plan.mtu_bytes.min(forward_mtu_bytes).min(backward_mtu_bytes);
    let forward_bps = plan.forward_bps.map(|bps| link.forward_rate(bps, mtu_bytes)).transpose()?;
    let backward_bps = plan.backward_bps.map(|bps| link.backward_rate(bps, mtu_bytes)).transpose()?;
    Ok(LinkCalibration {
        forward_bps,
        backward_bps,
        rtt: rtt.median,
        min_rtt: rtt.min,
        forward_mtu_bytes,
        backward_mtu_bytes,
        forward_probes: None,
        backward_probes: None,
    })
}

struct Link<'a> {
    socket: DatagramSocket,
    plan: &'a CalibrationPlan,
    clock: &'a dyn Clock,
    session: u64,
    cookie: u64,
    answer_time: Duration,
    buffer: Vec<u8>,
}

impl Link<'_> {
    fn prove_address(&mut self) -> Result<(), CalibrationError> {
        const DOING: &str = "when saying hello";
        for wait in [100, 300, 600].map(Duration::from_millis) {
            self.send(&self.message(Kind::CookieRequest, 0).encode(), DOING)?;
            if let Some((answer, _)) = self.wait_for(wait, DOING, |answer, _| answer.kind == Kind::Cookie)? {
                self.cookie = answer.cookie;
                return Ok(());
            }
        }
        Err(self.no_answer(DOING))
    }

    fn round_trips(&mut self) -> Result<RttFigures, CalibrationError> {
        const DOING: &str = "to echoes";
        let mut echoes = Echoes::default();
        let count = u64::from(self.plan.echoes.max(3));
        for number in 0..count {
            let sent = self.clock.now();
            echoes.sent(number, sent);
            self.send(&self.message(Kind::Echo, number).encode(), DOING)?;
            let last = number + 1 == count;
            loop {
                let spacing = if last {
                    echoes.longest().map_or(LONG_TIME, |rtt| rtt * 2 + ANSWER_TIME)
                } else {
                    ECHO_SPACING
                };
                let Some(rest) = spacing.checked_sub(self.clock.now().since(sent)) else { break };
                let answer = self.wait_for(rest, DOING, |answer, _| answer.kind == Kind::EchoReply)?;
                if let Some((answer, _)) = answer {
                    echoes.returned(answer.values[0], self.clock.now());
                }
                if last && echoes.all_returned() {
                    break;
                }
            }
        }
        echoes.figures().ok_or_else(|| self.no_answer(DOING))
    }

    /// The asked size, one more when that passes as well, or the largest below it that does.
    fn mtu(&mut self, direction: Direction) -> Result<u32, CalibrationError> {
        let asked = self.plan.mtu_bytes;
        if self.passes(direction, asked)? {
            return Ok(if self.passes(direction, asked + 1)? { asked + 1 } else { asked });
        }
        let least = if self.plan.remote.is_ipv4() { SMALLEST_MTU_V4 } else { SMALLEST_MTU_V6 };
        let (mut passes, mut fails) = (least.min(asked), asked);
        while fails - passes > 1 {
            let size = passes + (fails - passes) / 2;
            if self.passes(direction, size)? {
                passes = size;
            } else {
                fails = size;
            }
        }
        Ok(passes)
    }

    fn passes(&mut self, direction: Direction, size: u32) -> Result<bool, CalibrationError> {
        const DOING: &str = "probing the MTU";
        let request = match direction {
            Direction::Upload => self
                .message(Kind::SizeProbe, u64::from(size))
                .encode_padded(size.saturating_sub(header_bytes(self.plan.remote.ip())) as usize),
            Direction::Download => self.message(Kind::SizeRequest, u64::from(size)).encode().to_vec(),
        };
        for _ in 0..ATTEMPTS {
            match self.socket.send(&request, self.plan.remote) {
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => return Ok(false),
                result => result.map_err(|source| self.failed(DOING, source))?,
            }
            let answer = self.wait_for(self.answer_time, DOING, |answer, arrival| {
                answer.values[0] == u64::from(size)
                    && match answer.kind {
                        Kind::SizeSeen | Kind::SizeRefused => true,
                        Kind::SizeProbe => is_of_size(arrival, u64::from(size)),
                        _ => false,
                    }
            })?;
            if let Some((answer, _)) = answer {
                return Ok(answer.kind != Kind::SizeRefused);
            }
        }
        Ok(false)
    }

    fn forward_rate(&mut self, asked_bps: u64, mtu_bytes: u32) -> Result<u64, CalibrationError> {
        const DOING: &str = "measuring the rate there";
        let mut best = 0;
        for number in 1..=TRAINS {
            let train = self.train(number, asked_bps, mtu_bytes);
            train
                .send(&self.socket, self.plan.remote, self.clock)
                .map_err(|source| self.failed(DOING, source))?;
            best = best.max(self.result_of(&train)?);
            if best as f64 > asked_bps as f64 * GOOD_ENOUGH {
                break;
            }
        }
        if best == 0 { Err(self.no_answer(DOING)) } else { Ok(best) }
    }

    /// What the far end measured; its answer also says that the queue is empty again.
    fn result_of(&mut self, train: &Train) -> Result<u64, CalibrationError> {
        const DOING: &str = "to a train";
        let number = train.number;
        let request = self.message(Kind::ResultRequest, number).encode();
        for _ in 0..ATTEMPTS * 10 {
            self.send(&request, DOING)?;
            let answer = self.wait_for(self.answer_time + LONG_TIME / 10, DOING, |answer, _| {
                answer.kind == Kind::Result && answer.values[0] == number
            })?;
            if let Some((answer, _)) = answer {
                return Ok(answer.values[1]);
            }
        }
        Err(self.no_answer(DOING))
    }

    fn backward_rate(&mut self, asked_bps: u64, mtu_bytes: u32) -> Result<u64, CalibrationError> {
        const DOING: &str = "measuring the rate from there";
        let mut best = 0;
        for number in 1..=TRAINS {
            let train = self.train(number, asked_bps, mtu_bytes);
            self.send(&train.request().encode(), DOING)?;
            best = best.max(self.take_train(&train, DOING)?);
            if best as f64 > asked_bps as f64 * GOOD_ENOUGH {
                break;
            }
        }
        if best == 0 { Err(self.no_answer(DOING)) } else { Ok(best) }
    }

    /// Rate of a train that is arriving; 0 when too little of it came.
    fn take_train(&mut self, train: &Train, doing: &'static str) -> Result<u64, CalibrationError> {
        let mut rate = train.meter();
        let mut patience = LONG_TIME;
        loop {
            let arrived = self.wait_for(patience, doing, |message, _| {
                matches!(message.kind, Kind::Fill | Kind::Train | Kind::TrainEnd)
                    && message.values[0] == train.number
            })?;
            patience = TRAIN_SILENCE;
            match arrived {
                Some((Message { kind: Kind::Train, .. }, arrival)) => meter(&mut rate, &arrival, self.clock),
                Some((Message { kind: Kind::Fill, .. }, _)) => {}
                Some(_) | None => return Ok(rate.rate_bps().unwrap_or(0)),
            }
        }
    }

    fn train(&self, number: u64, asked_bps: u64, mtu_bytes: u32) -> Train {
        let plan = self.plan;
        Train {
            session: self.session,
            cookie: self.cookie,
            number,
            asked_bps,
            duration: plan.train,
            payload_bytes: payload_bytes(asked_bps, plan.train, mtu_bytes, plan.remote),
            bucket_bytes: plan.bucket_bytes,
        }
    }

    fn message(&self, kind: Kind, value: u64) -> Message {
        Message { kind, session: self.session, cookie: self.cookie, values: [value, 0, 0, 0, 0] }
    }

    fn send(&self, bytes: &[u8], doing: &'static str) -> Result<(), CalibrationError> {
        self.socket.send(bytes, self.plan.remote).map_err(|source| self.failed(doing, source))
    }

    /// The first message of this session that `wanted` accepts, within `time`.
    fn wait_for(
        &mut self,
        time: Duration,
        doing: &'static str,
        wanted: impl Fn(&Message, &Arrival) -> bool,
    ) -> Result<Option<(Message, Arrival)>, CalibrationError> {
        let deadline = self.clock.now() + time;
        loop {
            let rest = deadline.since(self.clock.now());
            if rest.is_zero() {
                return Ok(None);
            }
            // Whole milliseconds, so that the socket's timeout seldom changes.
            let rest = Duration::from_millis(u64::try_from(rest.as_millis()).unwrap_or(1000).max(1));
            let arrival =
                self.socket.receive(&mut self.buffer, rest).map_err(|source| self.failed(doing, source))?;
            let Some(arrival) = arrival.filter(|arrival| arrival.from == self.plan.remote) else { continue };
            let message = Message::decode(&self.buffer[..arrival.length]);
            if let Some(message) = message.filter(|message| message.session == self.session)
                && wanted(&message, &arrival)
            {
                return Ok(Some((message, arrival)));
            }
        }
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> CalibrationError {
        CalibrationError::Failed { local: self.socket.local_addr(), remote: self.plan.remote, doing, source }
    }

    fn no_answer(&self, doing: &'static str) -> CalibrationError {
        CalibrationError::NoAnswer { local: self.socket.local_addr(), remote: self.plan.remote, doing }
    }
}
