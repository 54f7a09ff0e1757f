//! One end of a link: carries out commands.

use super::OneWayDelays;
use super::probes::ProbeTally;
use super::socket::{Arrival, CalibrationSocket};
use super::train::{Meter, Train};
use crate::datagram::{Family, Kind, Message};
use crate::stream::lock;
use pathbench_record::time::{Clock, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thiserror::Error;

/// How often a receiver looks whether a report is due.
const TICK: Duration = Duration::from_millis(5);

/// A receiver of which no report is asked for ends after this.
const LONGEST_RECEIVER: Duration = Duration::from_secs(60);

/// An echo that takes this much longer than the slowest one is lost.
pub(super) const ANSWER_TIME: Duration = Duration::from_millis(20);

const BUFFER_BYTES: usize = 1 << 16;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Command {
    /// Opens a socket on this address, in place of an earlier one; the report has its port.
    Open(SocketAddr),
    Connect(SocketAddr),
    /// Receives the series of this number until a report is asked for.
    Expect(u32, Series),
    Send(u32, Series),
    /// Reports what has arrived, once it is complete or until `wait` is over. With `silence`: once something has
    /// arrived, when nothing more has for that time.
    Report {
        wait: Duration,
        silence: Option<Duration>,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Series {
    /// Small packets that the receiver returns. The sender waits so long after each; with `first_only` until one is
    /// back.
    Echoes {
        waits: Vec<Duration>,
        first_only: bool,
    },
    /// In each attempt a packet of each size (IP packet), and a small one behind them.
    Sizes {
        sizes: Vec<u32>,
        attempts: u32,
        spacing: Duration,
    },
    Probes {
        count: u32,
        spacing: Duration,
    },
    Train(Train),
}

/// What a command results in; fields that do not concern it are empty.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct EndReport {
    pub local: Option<SocketAddr>,
    pub rtts: Vec<Duration>,
    /// Sizes that the local interface does not take.
    pub refused: Vec<u32>,
    pub sizes: Vec<u32>,
    pub received: u32,
    pub delays: Option<OneWayDelays>,
    pub rate_bps: Option<u64>,
}

#[derive(Debug, Error)]
#[error("calibrating a link, {doing}: {source}")]
pub struct EndError {
    doing: &'static str,
    source: io::Error,
}

/// One end of a link. It receives on a thread of its own, which ends when it is dropped.
#[derive(Debug, Default)]
pub struct CalibrationEnd {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    receiver: Option<Receiver>,
    socket: Option<Arc<CalibrationSocket>>,
}

#[derive(Debug)]
struct Receiver {
    finish: Arc<Mutex<Option<Finish>>>,
    thread: Option<JoinHandle<io::Result<EndReport>>>,
}

#[derive(Debug, Clone, Copy)]
struct Finish {
    asked: Timestamp,
    wait: Duration,
    silence: Option<Duration>,
}

impl CalibrationEnd {
    pub fn carry_out(&self, command: Command, clock: &Arc<dyn Clock>) -> Result<EndReport, EndError> {
        let failed = |doing| move |source| EndError { doing, source };
        match command {
            Command::Open(address) => {
                *lock(&self.state) = State::default();
                let socket = CalibrationSocket::bind(address).map_err(failed("opening a UDP socket"))?;
                let local = Some(socket.local);
                lock(&self.state).socket = Some(Arc::new(socket));
                Ok(EndReport { local, ..EndReport::default() })
            }
            Command::Connect(peer) => {
                self.socket()?.connect(peer);
                Ok(EndReport::default())
            }
            Command::Expect(number, series) => {
                let receiver = Receiver::start(self.socket()?, number, series, Arc::clone(clock))
                    .map_err(failed("starting a thread"))?;
                lock(&self.state).receiver = Some(receiver);
                Ok(EndReport::default())
            }
            Command::Send(number, series) => {
                series.send(number, self.socket()?.as_ref(), clock.as_ref()).map_err(failed("sending"))
            }
            Command::Report { wait, silence } => {
                let receiver = lock(&self.state).receiver.take();
                let report =
                    receiver.map(|receiver| receiver.finish(Finish { asked: clock.now(), wait, silence }));
                report.unwrap_or_else(|| Err(no_command())).map_err(failed("receiving"))
            }
        }
    }

    fn socket(&self) -> Result<Arc<CalibrationSocket>, EndError> {
        let socket = lock(&self.state).socket.clone();
        socket.ok_or_else(|| EndError { doing: "using a UDP socket", source: no_command() })
    }
}

fn no_command() -> io::Error {
    io::Error::other("no command has made one")
}

impl Receiver {
    fn start(
        socket: Arc<CalibrationSocket>,
        number: u32,
        series: Series,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let finish = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&finish);
        let thread = thread::Builder::new()
            .name("calibration".to_owned())
            .spawn(move || receive(&socket, number, &series, &shared, clock.as_ref()))?;
        Ok(Self { finish, thread: Some(thread) })
    }

    fn finish(mut self, finish: Finish) -> io::Result<EndReport> {
        *lock(&self.finish) = Some(finish);
        let joined = self.thread.take().map(JoinHandle::join);
        joined.and_then(Result::ok).unwrap_or_else(|| Err(io::Error::other("the receiver panicked")))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let now = Finish { asked: Timestamp::default(), wait: Duration::ZERO, silence: None };
        lock(&self.finish).get_or_insert(now);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed already.
            let _ = thread.join();
        }
    }
}

impl Finish {
    fn is_due(self, now: Timestamp, last: Option<Timestamp>) -> bool {
        let due = match (self.silence, last) {
            (Some(silence), Some(last)) => last.max(self.asked) + silence,
            _ => self.asked + self.wait,
        };
        now >= due
    }
}

struct Tally {
    probes: ProbeTally,
    sizes: BTreeSet<u32>,
    meter: Option<Meter>,
    is_complete: bool,
}

fn receive(
    socket: &CalibrationSocket,
    number: u32,
    series: &Series,
    finish: &Mutex<Option<Finish>>,
    clock: &dyn Clock,
) -> io::Result<EndReport> {
    let meter = if let Series::Train(train) = series { Some(train.meter()) } else { None };
    let mut tally =
        Tally { probes: ProbeTally::default(), sizes: BTreeSet::new(), meter, is_complete: false };
    let mut buffer = vec![0; BUFFER_BYTES];
    let (start, mut last) = (clock.now(), None);
    loop {
        let now = clock.now();
        let is_due = lock(finish).is_some_and(|finish| finish.is_due(now, last));
        if tally.is_complete || is_due || now.since(start) >= LONGEST_RECEIVER {
            break;
        }
        let Some(arrival) = socket.receive(&mut buffer, TICK)? else { continue };
        let now = clock.now();
        for (message, length) in arrival.messages(&buffer) {
            if message.session != u64::from(number) {
                continue;
            }
            last = Some(now);
            match (message.kind, series) {
                (Kind::Probe, Series::Echoes { .. }) => {
                    // One that cannot be sent is lost like any datagram.
                    let _ = socket.send(&Message { kind: Kind::Answer, ..message }.encode(length));
                }
                (Kind::Probe, _) => tally.probes.take(message.sequence, message.value, &arrival, now),
                (Kind::SizeProbe, _) if is_of_size(&message, length, socket.local) => {
                    tally.sizes.insert(message.size_bytes());
                }
                (Kind::TrainEnd, _) => tally.is_complete = true,
                _ => {}
            }
        }
        if let Some(meter) = tally.meter.as_mut() {
            meter.take(number.into(), &buffer, &arrival, Family::of(socket.local.ip()), now);
        }
        tally.is_complete |=
            matches!(series, Series::Probes { count, .. } if tally.probes.received() >= *count);
    }
    Ok(EndReport {
        sizes: tally.sizes.into_iter().collect(),
        received: tally.probes.received(),
        delays: tally.probes.delays(),
        rate_bps: tally.meter.and_then(|meter| meter.rate_bps()),
        ..EndReport::default()
    })
}

fn is_of_size(message: &Message, length: usize, local: SocketAddr) -> bool {
    Family::of(local.ip()).packet_bytes(length) == message.size_bytes()
}

impl Series {
    fn send(&self, number: u32, socket: &CalibrationSocket, clock: &dyn Clock) -> io::Result<EndReport> {
        let mut report = EndReport::default();
        let session = u64::from(number);
        let small = |sequence: u32| {
            let message = Message::new(Kind::Probe, session, sequence);
            socket.send(&Message { value: clock.now().as_nanos(), ..message }.encode(0))
        };
        match self {
            Self::Echoes { waits, first_only } => {
                report.rtts = send_echoes(session, waits, *first_only, socket, clock)?;
            }
            Self::Sizes { sizes, attempts, spacing } => {
                let mut refused = BTreeSet::new();
                let start = clock.now();
                for attempt in 0..*attempts {
                    clock.sleep_until(start + *spacing * attempt);
                    for &size in sizes {
                        let message = Message::new(Kind::SizeProbe, session, attempt).with_sizes(size, 0);
                        let length = Family::of(socket.local.ip()).payload_bytes(size);
                        match socket.send(&message.encode(length)) {
                            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                                refused.insert(size);
                            }
                            result => result?,
                        }
                    }
                    small(attempt)?;
                }
                report.refused = refused.into_iter().collect();
            }
            Self::Probes { count, spacing } => {
                let start = clock.now();
                for sequence in 0..*count {
                    clock.sleep_until(start + *spacing * sequence);
                    small(sequence)?;
                }
            }
            Self::Train(train) => train.send(session, socket, clock)?,
        }
        Ok(report)
    }
}

#[derive(Debug, Default)]
struct Echoes {
    sent: BTreeMap<u32, Timestamp>,
    rtts: Vec<Duration>,
}

impl Echoes {
    fn returned(&mut self, number: u32, at: Timestamp) {
        if let Some(sent) = self.sent.remove(&number) {
            self.rtts.push(at.since(sent));
        }
    }

    fn take(&mut self, session: u64, arrival: Arrival, bytes: &[u8], now: Timestamp) {
        for (message, _) in arrival.messages(bytes) {
            if message.kind == Kind::Answer && message.session == session {
                self.returned(message.sequence, now);
            }
        }
    }
}

/// Sends echoes; the round-trip times of those that are back in time. The last is waited for only as long as makes sense
/// by the others.
fn send_echoes(
    session: u64,
    waits: &[Duration],
    first_only: bool,
    socket: &CalibrationSocket,
    clock: &dyn Clock,
) -> io::Result<Vec<Duration>> {
    let mut echoes = Echoes::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    for (sequence, wait) in (0..).zip(waits) {
        let is_last = sequence as usize + 1 == waits.len();
        let sent = clock.now();
        echoes.sent.insert(sequence, sent);
        socket.send(&Message::new(Kind::Probe, session, sequence).encode(0))?;
        loop {
            let longest = echoes.rtts.iter().max().filter(|_| is_last);
            let wait = longest.map_or(*wait, |rtt| *rtt + *rtt / 4 + ANSWER_TIME);
            let is_enough =
                if first_only { !echoes.rtts.is_empty() } else { is_last && echoes.sent.is_empty() };
            if is_enough {
                return Ok(echoes.rtts);
            }
            let rest = wait.saturating_sub(clock.now().since(sent));
            if rest.is_zero() {
                break;
            }
            if let Some(arrival) = socket.receive(&mut buffer, rest)? {
                echoes.take(session, arrival, &buffer, clock.now());
            }
        }
    }
    Ok(echoes.rtts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_and_unknown_echoes_do_not_count() {
        let mut echoes = Echoes::default();
        let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        echoes.sent.insert(1, at(0));
        echoes.returned(1, at(3));
        echoes.returned(1, at(9));
        echoes.returned(2, at(9));
        assert!(echoes.sent.is_empty());
        assert_eq!(echoes.rtts, [Duration::from_millis(3)]);
    }
}
