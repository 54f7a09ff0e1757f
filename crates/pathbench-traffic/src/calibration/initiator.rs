//! The near end of a calibration.

use super::datagram::{Arrival, DatagramSocket};
use super::message::{Kind, Message};
use super::probes::{ProbeSeries, ProbeTally, probe};
use super::responder::is_of_size;
use super::rtt::{Echoes, RttFigures};
use super::sizes::{MOST_ATTEMPTS, Question, Questions};
use super::train::{LONGEST, Train, payload_bytes};
use super::{CalibrationPlan, LinkCalibration, OneWayDelays, ProbedDirection, header_bytes};
use crate::cookie::random_session;
use pathbench_record::direction::Direction;
use pathbench_record::time::Clock;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// Pause between echoes: each finds the link idle.
const ECHO_SPACING: Duration = Duration::from_millis(2);

/// An answer that takes this much longer than the slowest echo is not coming.
const ANSWER_TIME: Duration = Duration::from_millis(20);

/// Longest wait for an answer before the round-trip time is known, or behind a full queue: over a satellite with a
/// bloated queue, an answer takes two seconds.
const LONG_TIME: Duration = Duration::from_secs(3);

/// Pauses between the messages that say hello: 3 s in all, and most of them early, for each may be lost.
const HELLO_WAITS_MS: [u64; 7] = [100, 200, 300, 400, 500, 700, 800];

/// Silence after which a train that has begun to arrive is over, beyond what the link's delay varies by.
const TRAIN_SILENCE: Duration = Duration::from_millis(100);

/// Times a message that got no answer is sent.
const ATTEMPTS: u64 = 10;

/// Pause between attempts to get a size through, at most; at low rates it is longer, so that they find the link idle.
const SIZE_SPACING: Duration = Duration::from_millis(10);

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
/// Takes about two trains, the time that the links' queues take to drain after each, 60 ms, 0.6 s where probes are
/// asked for, and some eight round-trip times; more where packets are lost or sizes do not pass
/// ([`CalibrationPlan::time_limit`]).
pub fn calibrate(plan: &CalibrationPlan, clock: &dyn Clock) -> Result<LinkCalibration, CalibrationError> {
    let socket = DatagramSocket::bind(plan.local)
        .map_err(|source| CalibrationError::Socket { local: plan.local, source })?;
    let mut link = Link {
        socket,
        plan,
        clock,
        session: random_session(),
        cookie: 0,
        answer_time: LONG_TIME,
        spread: Duration::ZERO,
        echoes: 0,
        buffer: vec![0; 65_536],
    };
    link.prove_address()?;
    let rtt = link.round_trips()?;
    let [forward_mtu_bytes, reverse_mtu_bytes] = link.mtus()?;
    let mtu_bytes = plan.mtu_bytes.min(forward_mtu_bytes).min(reverse_mtu_bytes);
    let forward_probes = link.forward_probes()?;
    let reverse_probes = link.reverse_probes()?;
    let forward_bps = plan.forward_bps.map(|bps| link.forward_rate(bps, mtu_bytes)).transpose()?;
    let reverse_bps = plan.reverse_bps.map(|bps| link.reverse_rate(bps, mtu_bytes)).transpose()?;
    Ok(LinkCalibration {
        forward_bps,
        reverse_bps,
        rtt: rtt.median,
        min_rtt: rtt.min,
        forward_mtu_bytes,
        reverse_mtu_bytes,
        forward_probes,
        reverse_probes,
    })
}

struct Link<'a> {
    socket: DatagramSocket,
    plan: &'a CalibrationPlan,
    clock: &'a dyn Clock,
    session: u64,
    cookie: u64,
    /// How long an answer may take.
    answer_time: Duration,
    /// By how much the round-trip times of echoes differed.
    spread: Duration,
    /// Number of the next echo.
    echoes: u64,
    buffer: Vec<u8>,
}

impl Link<'_> {
    fn prove_address(&mut self) -> Result<(), CalibrationError> {
        const DOING: &str = "when saying hello";
        for wait in HELLO_WAITS_MS.map(Duration::from_millis) {
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
        self.echoes = count;
        for number in 0..count {
            let sent = self.clock.now();
            echoes.sent(number, sent);
            self.send(&self.message(Kind::Echo, number).encode(), DOING)?;
            let last = number + 1 == count;
            loop {
                let spacing = if last {
                    echoes.longest().map_or(LONG_TIME, |rtt| rtt + rtt / 4 + ANSWER_TIME)
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
        let longest = echoes.longest().unwrap_or(LONG_TIME);
        let rtt = echoes.figures().ok_or_else(|| self.no_answer(DOING))?;
        self.spread = longest.saturating_sub(rtt.min);
        self.answer_time = longest + self.spread + ANSWER_TIME;
        Ok(rtt)
    }

    /// In each direction the asked size, one more when that passes as well, or the largest below it that does.
    fn mtus(&mut self) -> Result<[u32; 2], CalibrationError> {
        let asked = self.plan.mtu_bytes;
        let directions = Direction::BOTH;
        let questions =
            directions.map(|direction| [asked, asked + 1].map(|size| Question { direction, size }));
        let answers = self.settle(questions.as_flattened())?;
        let mut mtus = [asked; 2];
        for ((mtu, direction), passes) in mtus.iter_mut().zip(directions).zip(answers.chunks(2)) {
            *mtu = match passes {
                [true, larger] => asked + u32::from(*larger),
                _ => self.largest_below(direction, asked)?,
            };
        }
        Ok(mtus)
    }

    /// The largest size that passes, where `fails` does not.
    fn largest_below(&mut self, direction: Direction, mut fails: u32) -> Result<u32, CalibrationError> {
        let least = if self.plan.remote.is_ipv4() { SMALLEST_MTU_V4 } else { SMALLEST_MTU_V6 };
        let mut passes = least.min(fails);
        while fails - passes > 1 {
            let size = passes + (fails - passes) / 2;
            if self.settle(&[Question { direction, size }])?.contains(&true) {
                passes = size;
            } else {
                fails = size;
            }
        }
        Ok(passes)
    }

    /// The answers to questions asked at the same time.
    fn settle(&mut self, asked: &[Question]) -> Result<Vec<bool>, CalibrationError> {
        const DOING: &str = "probing the MTU";
        let mut questions = Questions::new(asked, self.echoes);
        let mut grace = self.answer_time;
        for _ in 0..MOST_ATTEMPTS {
            for question in questions.open() {
                self.ask(question, &mut questions)?;
            }
            if questions.open().is_empty() {
                break;
            }
            let witness = self.echoes;
            self.echoes += 1;
            self.send(&self.message(Kind::Echo, witness).encode(), DOING)?;
            self.hear(&mut questions, Some(witness), self.size_spacing(asked))?;
            if questions.silence_counts() {
                // An answer may be overtaken, where jitter reorders.
                grace = self.spread + ANSWER_TIME / 4;
                break;
            }
        }
        self.hear(&mut questions, None, grace)?;
        questions.answers().ok_or_else(|| self.no_answer(DOING))
    }

    /// The time that an attempt may take at least, so that the link is idle again: twice that of its packets.
    fn size_spacing(&self, asked: &[Question]) -> Duration {
        let plan = self.plan;
        let slowest = [plan.forward_bps, plan.reverse_bps].into_iter().flatten().min().or(plan.probed_bps);
        let bits = asked.iter().map(|question| u64::from(question.size) * 8).sum::<u64>();
        let needed = slowest.map_or(0, |bps| 2 * bits * 1_000_000 / bps.max(1));
        SIZE_SPACING.max(Duration::from_micros(needed))
    }

    /// Sends a probe of a size, or asks for one.
    fn ask(&self, question: Question, questions: &mut Questions) -> Result<(), CalibrationError> {
        let size = u64::from(question.size);
        let request = match question.direction {
            Direction::Upload => self
                .message(Kind::SizeProbe, size)
                .encode_padded(question.size.saturating_sub(header_bytes(self.plan.remote.ip())) as usize),
            Direction::Download => self.message(Kind::SizeRequest, size).encode().to_vec(),
        };
        match self.socket.send(&request, self.plan.remote) {
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                questions.answered(question, false);
                Ok(())
            }
            result => result.map_err(|source| self.failed("probing the MTU", source)),
        }
    }

    /// Takes answers for `time`; not so long when all are there, or the `witness` is back.
    fn hear(
        &mut self,
        questions: &mut Questions,
        witness: Option<u64>,
        time: Duration,
    ) -> Result<(), CalibrationError> {
        let deadline = self.clock.now() + time;
        loop {
            let rest = deadline.since(self.clock.now());
            let done =
                questions.open().is_empty() || witness.is_some_and(|number| questions.has_witness(number));
            if rest.is_zero() || done {
                return Ok(());
            }
            let answer = self.wait_for(rest, "probing the MTU", |answer, arrival| match answer.kind {
                Kind::SizeSeen | Kind::SizeRefused | Kind::EchoReply => true,
                Kind::SizeProbe => is_of_size(arrival, answer.values[0]),
                _ => false,
            })?;
            let Some((Message { kind, values: [value, ..], .. }, _)) = answer else { continue };
            let of = |direction| Question { direction, size: u32::try_from(value).unwrap_or(u32::MAX) };
            match kind {
                Kind::SizeSeen => questions.answered(of(Direction::Upload), true),
                Kind::SizeProbe => questions.answered(of(Direction::Download), true),
                Kind::SizeRefused => questions.answered(of(Direction::Download), false),
                _ => questions.witnessed(value),
            }
        }
    }

    /// Sends probes, and asks what became of them.
    fn forward_probes(&mut self) -> Result<Option<ProbedDirection>, CalibrationError> {
        const DOING: &str = "probing the delay there";
        let Some(series) = ProbeSeries::suiting(self.plan, self.plan.forward_bps) else { return Ok(None) };
        let of = self.message(Kind::Probe, 0);
        let start = self.clock.now();
        for number in 0..series.count {
            self.clock.sleep_until(start + series.spacing * number as u32);
            self.send(&probe(&of, series.series, number, self.clock.now()), DOING)?;
        }
        // So that the last are there before they are counted.
        self.clock.sleep_until(self.clock.now() + self.spread + ANSWER_TIME / 4);
        let request = self.message(Kind::ProbesResultRequest, 0).encode();
        for _ in 0..ATTEMPTS {
            self.send(&request, DOING)?;
            let answer =
                self.wait_for(self.answer_time, DOING, |answer, _| answer.kind == Kind::ProbesResult)?;
            if let Some((Message { values: [received, delays @ ..], .. }, _)) = answer {
                return Ok(Some(ProbedDirection {
                    sent: series.count as u32,
                    received: u32::try_from(received).unwrap_or(u32::MAX).min(series.count as u32),
                    delays: (received > 0).then(|| OneWayDelays::from_values(delays)),
                }));
            }
        }
        Err(self.no_answer(DOING))
    }

    /// Asks for probes, and counts them.
    fn reverse_probes(&mut self) -> Result<Option<ProbedDirection>, CalibrationError> {
        const DOING: &str = "probing the delay from there";
        let Some(series) = ProbeSeries::suiting(self.plan, self.plan.reverse_bps) else { return Ok(None) };
        for attempt in 0..ATTEMPTS {
            let series = ProbeSeries { series: attempt, ..series };
            let request = Message { values: series.values(), ..self.message(Kind::ProbesRequest, 0) };
            self.send(&request.encode(), DOING)?;
            let mut tally = ProbeTally::of(series.series);
            let mut deadline = self.clock.now() + self.answer_time + series.span() / 4;
            while tally.received() < series.count {
                let rest = deadline.since(self.clock.now());
                let arrival = self.wait_for(rest, DOING, |message, _| message.kind == Kind::Probe)?;
                let Some((Message { values: [_, number, ..], .. }, arrival)) = arrival else { break };
                let now = self.clock.now();
                tally.take(&self.buffer[..arrival.length], &arrival, now);
                let rest = series.spacing * series.count.saturating_sub(number) as u32;
                deadline = now + rest + self.spread + ANSWER_TIME;
            }
            if tally.received() > 0 {
                return Ok(Some(tally.figures(series.count)));
            }
        }
        Err(self.no_answer(DOING))
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
        for _ in 0..ATTEMPTS * 3 {
            self.send(&request, DOING)?;
            let answer = self.wait_for(self.answer_time + TRAIN_SILENCE, DOING, |answer, _| {
                answer.kind == Kind::Result && answer.values[0] == number
            })?;
            if let Some((answer, _)) = answer {
                return Ok(answer.values[1]);
            }
        }
        Err(self.no_answer(DOING))
    }

    fn reverse_rate(&mut self, asked_bps: u64, mtu_bytes: u32) -> Result<u64, CalibrationError> {
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
        let mut patience = self.answer_time + LONG_TIME;
        loop {
            let arrived = self.wait_for(patience, doing, |message, _| {
                matches!(message.kind, Kind::Fill | Kind::Train | Kind::NumberedTrain | Kind::TrainEnd)
                    && message.values[0] == train.number
            })?;
            patience = TRAIN_SILENCE + self.spread;
            match arrived {
                Some((Message { kind: Kind::Train | Kind::NumberedTrain, .. }, arrival)) => {
                    rate.take(&self.buffer[..arrival.length], &arrival, self.clock);
                }
                Some((Message { kind: Kind::Fill, .. }, _)) => {}
                Some(_) | None => return Ok(rate.rate_bps().unwrap_or(0)),
            }
        }
    }

    fn train(&self, number: u64, asked_bps: u64, mtu_bytes: u32) -> Train {
        let plan = self.plan;
        // A responder sends no longer ones.
        let duration = plan.train.min(LONGEST);
        Train {
            session: self.session,
            cookie: self.cookie,
            number,
            asked_bps,
            duration,
            payload_bytes: payload_bytes(asked_bps, duration, mtu_bytes, plan.remote),
            bucket_bytes: if plan.emulated { 0 } else { plan.bucket_bytes },
            numbered: plan.emulated,
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
