//! One end of a link: executes [`CalibrationCommand`]s.

use super::plan::OneWayDelays;
use super::probes::ProbeTally;
use super::train::{PacketTrain, send};
use crate::datagram::{BUFFER_BYTES, DatagramKind, DatagramMessage, DatagramSocket, ReceivedDatagram, wait};
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::lock;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thiserror::Error;

const TICK: Duration = Duration::from_millis(5);

/// A receiver ends after this time if no report is requested.
const LONGEST_RECEIVER: Duration = Duration::from_secs(60);

/// A packet is lost when it takes this much longer than the slowest other one and a margin for jitter.
pub(super) const ANSWER_TIME: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum CalibrationCommand {
    /// Opens a socket on this address and closes an earlier one. The report contains the port.
    Open(SocketAddr),
    Connect(SocketAddr),
    /// Receives the series with this number until a report is requested.
    Expect(u32, ProbeSeries),
    Send(u32, ProbeSeries),
    /// Reports the received packets when the series is complete or `wait` has elapsed. With `silence`: once a packet
    /// has arrived, when no further packet arrives for that time.
    Report {
        wait: Duration,
        silence: Option<Duration>,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ProbeSeries {
    /// Small packets that the receiver returns. The sender pauses for one of `waits` after each; with `first_only`, it
    /// stops at the first answer.
    Echoes {
        waits: Vec<Duration>,
        first_only: bool,
    },
    /// Per attempt, a packet of each size (of the IP packet), followed by a small packet.
    Sizes {
        sizes: Vec<u32>,
        attempts: u32,
        spacing: Duration,
    },
    Probes {
        count: u32,
        spacing: Duration,
    },
    Train(PacketTrain),
}

/// The result of a command; fields that do not apply to it are empty.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct EndReport {
    pub local: Option<SocketAddr>,
    pub rtts: Vec<Duration>,
    /// Sizes that the local interface rejects (`EMSGSIZE`).
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

/// One end of a link. A separate thread receives; it ends when this value is dropped.
#[derive(Debug, Default)]
pub struct CalibrationEnd {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    receiver: Option<Receiver>,
    socket: Option<Arc<DatagramSocket>>,
}

/// The thread ends at the time that a [`Finish`] sets, or when the sender is dropped without one.
#[derive(Debug)]
struct Receiver {
    finish: Sender<Finish>,
    thread: JoinHandle<EndReport>,
}

#[derive(Debug, Clone, Copy)]
struct Finish {
    asked: Timestamp,
    wait: Duration,
    silence: Option<Duration>,
}

impl CalibrationEnd {
    pub fn carry_out(
        &self,
        command: CalibrationCommand,
        clock: &Arc<dyn Clock>,
    ) -> Result<EndReport, EndError> {
        let failed = |doing| move |source| EndError { doing, source };
        match command {
            CalibrationCommand::Open(address) => {
                // The receiver holds the earlier socket, which may have the same address.
                self.end_receiver();
                lock(&self.state).socket = None;
                let socket = DatagramSocket::bind(None, address).map_err(io::Error::other);
                let socket = socket.map_err(failed("preparing a socket"))?;
                socket.meter_arrivals().map_err(failed("metering arrivals"))?;
                let local = socket.local().map_err(failed("reading the address"))?;
                lock(&self.state).socket = Some(Arc::new(socket));
                Ok(EndReport { local, ..EndReport::default() })
            }
            CalibrationCommand::Connect(peer) => {
                self.socket()?.connect(peer).map_err(failed("connecting"))?;
                Ok(EndReport::default())
            }
            CalibrationCommand::Expect(number, series) => {
                self.end_receiver();
                let (socket, clock) = (self.socket()?, Arc::clone(clock));
                let (finish, finished) = channel();
                let thread = thread::Builder::new()
                    .name("calibration".to_owned())
                    .spawn(move || receive(&socket, number, &series, &finished, clock.as_ref()))
                    .map_err(failed("starting a thread"))?;
                lock(&self.state).receiver = Some(Receiver { finish, thread });
                Ok(EndReport::default())
            }
            CalibrationCommand::Send(number, series) => {
                series.send(number, self.socket()?.as_ref(), clock.as_ref()).map_err(failed("sending"))
            }
            CalibrationCommand::Report { wait, silence } => {
                let receiver = lock(&self.state).receiver.take().ok_or_else(no_command);
                let Receiver { finish, thread } = receiver.map_err(failed("receiving"))?;
                // The send fails if the receiver has ended on its own; its report is then ready.
                let _ended = finish.send(Finish { asked: clock.now(), wait, silence });
                let panicked = |_| io::Error::other("the receiver panicked");
                thread.join().map_err(panicked).map_err(failed("receiving"))
            }
        }
    }

    fn end_receiver(&self) {
        let earlier = lock(&self.state).receiver.take();
        if let Some(Receiver { finish, thread }) = earlier {
            drop(finish);
            // A panic of the thread has been printed already.
            let _ = thread.join();
        }
    }

    fn socket(&self) -> Result<Arc<DatagramSocket>, EndError> {
        let socket = lock(&self.state).socket.clone();
        socket.ok_or_else(|| EndError { doing: "using a UDP socket", source: no_command() })
    }
}

impl Drop for CalibrationEnd {
    fn drop(&mut self) {
        self.end_receiver();
    }
}

fn no_command() -> io::Error {
    io::Error::other("no command has made one")
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

fn receive(
    socket: &DatagramSocket,
    number: u32,
    series: &ProbeSeries,
    finished: &mpsc::Receiver<Finish>,
    clock: &dyn Clock,
) -> EndReport {
    let mut meter = if let ProbeSeries::Train(train) = series { Some(train.meter()) } else { None };
    let (mut probes, mut sizes) = (ProbeTally::default(), BTreeSet::new());
    let mut buffer = vec![0; BUFFER_BYTES];
    let (start, mut last, mut finish) = (clock.now(), None, None::<Finish>);
    let mut is_complete = false;
    while !is_complete {
        let now = clock.now();
        match finished.try_recv() {
            Ok(time) => finish = Some(time),
            // The sender is dropped: no report can be requested.
            Err(TryRecvError::Disconnected) if finish.is_none() => break,
            Err(_) => {}
        }
        if finish.is_some_and(|finish| finish.is_due(now, last))
            || now.duration_since(start) >= LONGEST_RECEIVER
        {
            break;
        }
        let Some(arrival) = receive_within(socket, &mut buffer, TICK, clock) else { continue };
        let now = clock.now();
        for (message, length) in arrival.messages(&buffer) {
            if message.session != u64::from(number) {
                continue;
            }
            last = Some(now);
            match (message.kind, series) {
                (DatagramKind::Probe, ProbeSeries::Echoes { .. }) => {
                    // An answer that cannot be sent is lost like any datagram.
                    let _ = send(
                        socket,
                        &DatagramMessage { kind: DatagramKind::Answer, ..message }.encode(length),
                        None,
                    );
                }
                (DatagramKind::Probe, _) => probes.take(message.sequence, message.value, arrival.at_ns, now),
                (DatagramKind::SizeProbe, _)
                    if socket.family.udp_packet_bytes(length) == message.size_bytes() =>
                {
                    sizes.insert(message.size_bytes());
                }
                (DatagramKind::TrainEnd, _) => is_complete = true,
                _ => {}
            }
        }
        if let Some(meter) = &mut meter {
            meter.take(number.into(), &buffer, &arrival, socket.family, now);
        }
        is_complete |=
            matches!(series, ProbeSeries::Probes { count, .. } if probes.received_probes() >= *count);
    }
    EndReport {
        sizes: sizes.into_iter().collect(),
        received: probes.received_probes(),
        delays: probes.delays(),
        rate_bps: meter.and_then(|meter| meter.rate_bps()),
        ..EndReport::default()
    }
}

/// Waits up to `time` for a datagram.
fn receive_within(
    socket: &DatagramSocket,
    buffer: &mut [u8],
    time: Duration,
    clock: &dyn Clock,
) -> Option<ReceivedDatagram> {
    socket.receive(buffer).or_else(|| {
        // An entry in the socket's error queue would end the wait at once.
        while socket.take_report().is_some() {}
        wait([socket], time, clock);
        socket.receive(buffer)
    })
}

impl ProbeSeries {
    fn send(&self, number: u32, socket: &DatagramSocket, clock: &dyn Clock) -> io::Result<EndReport> {
        let mut report = EndReport::default();
        let session = u64::from(number);
        let small = |sequence: u32| {
            let message = DatagramMessage::new(DatagramKind::Probe, session, sequence);
            send(socket, &DatagramMessage { value: clock.now().as_nanos(), ..message }.encode(0), None)
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
                        let message = DatagramMessage::new(DatagramKind::SizeProbe, session, attempt)
                            .with_sizes(size, 0);
                        let length = socket.family.udp_payload_bytes(size);
                        match send(socket, &message.encode(length), None) {
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
    fn take(&mut self, session: u64, arrival: ReceivedDatagram, bytes: &[u8], now: Timestamp) {
        for (message, _) in arrival.messages(bytes) {
            if message.kind == DatagramKind::Answer
                && message.session == session
                && let Some(sent) = self.sent.remove(&message.sequence)
            {
                self.rtts.push(now.duration_since(sent));
            }
        }
    }
}

/// Sends echoes and returns the round-trip times of those that return in time. The wait for the last echo is computed
/// from the other round-trip times.
fn send_echoes(
    session: u64,
    waits: &[Duration],
    first_only: bool,
    socket: &DatagramSocket,
    clock: &dyn Clock,
) -> io::Result<Vec<Duration>> {
    let mut echoes = Echoes::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    for (sequence, wait) in (0..).zip(waits) {
        let is_last = sequence as usize + 1 == waits.len();
        let sent = clock.now();
        echoes.sent.insert(sequence, sent);
        send(socket, &DatagramMessage::new(DatagramKind::Probe, session, sequence).encode(0), None)?;
        loop {
            let longest = echoes.rtts.iter().max().filter(|_| is_last);
            let wait = longest.map_or(*wait, |rtt| *rtt + *rtt / 4 + ANSWER_TIME);
            let is_enough =
                if first_only { !echoes.rtts.is_empty() } else { is_last && echoes.sent.is_empty() };
            if is_enough {
                return Ok(echoes.rtts);
            }
            let rest = wait.saturating_sub(clock.now().duration_since(sent));
            if rest.is_zero() {
                break;
            }
            if let Some(arrival) = receive_within(socket, &mut buffer, rest, clock) {
                echoes.take(session, arrival, &buffer, clock.now());
            }
        }
    }
    Ok(echoes.rtts)
}
