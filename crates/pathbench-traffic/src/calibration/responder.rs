//! The far end of a calibration.

use super::datagram::{Arrival, DatagramSocket};
use super::header_bytes;
use super::message::{Kind, Message};
use super::probes::{ProbeSeries, ProbeTally, Source, probe};
use super::train::{Meter, Train};
use crate::cookie::Cookies;
use pathbench_record::time::Clock;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thiserror::Error;

/// How often a responder looks whether it is to stop.
const TICK: Duration = Duration::from_millis(50);

/// Trains remembered, and initiators' probes; the oldest goes first.
const MOST_TRAINS: usize = 16;

/// Why a responder could not be started.
#[derive(Debug, Error)]
pub enum ResponderError {
    /// The address cannot be used.
    #[error("opening a UDP socket on {address} to answer calibrations: {source}")]
    Socket {
        /// The address.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No thread to be had.
    #[error("starting a thread to answer calibrations: {0}")]
    Thread(io::Error),
}

/// Answers calibrations on some addresses, one thread each; stops when dropped.
#[derive(Debug)]
pub struct CalibrationResponder {
    stopping: Arc<AtomicBool>,
    addresses: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

impl CalibrationResponder {
    /// Answers on `addresses` (port 0: the kernel's choice). Name each link's own address rather than the
    /// wildcard: answers leave from the address that they were asked at.
    ///
    /// # Errors
    /// See [`ResponderError`]; nothing stays behind.
    pub fn start(addresses: &[SocketAddr], clock: &Arc<dyn Clock>) -> Result<Self, ResponderError> {
        let mut responder = Self { stopping: Arc::default(), addresses: Vec::new(), threads: Vec::new() };
        for &address in addresses {
            let socket =
                DatagramSocket::bind(address).map_err(|source| ResponderError::Socket { address, source })?;
            responder.addresses.push(socket.local_addr());
            let (stopping, clock) = (Arc::clone(&responder.stopping), Arc::clone(clock));
            let thread = thread::Builder::new()
                .name("calibration".to_owned())
                .spawn(move || serve(&socket, &stopping, clock.as_ref()))
                .map_err(ResponderError::Thread)?;
            responder.threads.push(thread);
        }
        Ok(responder)
    }

    /// Where it answers, ports filled in.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops and waits for the threads.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for CalibrationResponder {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // A panic of the thread has been printed already.
            let _ = thread.join();
        }
    }
}

/// A train that is arriving or has arrived.
struct Arriving {
    from: SocketAddr,
    session: u64,
    number: u64,
    rate: Meter,
}

/// What is arriving or has arrived.
#[derive(Default)]
struct Received {
    trains: VecDeque<Arriving>,
    probes: VecDeque<(Source, ProbeTally)>,
}

fn serve(socket: &DatagramSocket, stopping: &AtomicBool, clock: &dyn Clock) {
    let mut cookies = Cookies::new(clock.now());
    let mut received = Received::default();
    let mut buffer = vec![0; 65_536];
    while !stopping.load(Ordering::Acquire) {
        let arrival = match socket.receive(&mut buffer, TICK) {
            Ok(Some(arrival)) => arrival,
            Ok(None) => continue,
            Err(_) => {
                // Nothing that a datagram could cause; not worth spinning over.
                clock.sleep_until(clock.now() + TICK);
                continue;
            }
        };
        let bytes = &buffer[..arrival.length];
        let Some(message) = Message::decode(bytes) else { continue };
        let now = clock.now();
        if message.kind == Kind::CookieRequest {
            let cookie = cookies.cookie(now, arrival.from, message.session);
            let answer = Message { kind: Kind::Cookie, cookie, ..message };
            // An answer that cannot be sent is lost like any datagram; the initiator asks again.
            let _ = socket.send(&answer.encode(), arrival.from);
        } else if cookies.is_valid(now, arrival.from, message.session, message.cookie) {
            let asked = Asked { message, bytes, arrival };
            let _ = answer(socket, &asked, &mut received, clock);
        }
    }
}

/// A message from an initiator, and the datagrams it came with.
struct Asked<'a> {
    message: Message,
    bytes: &'a [u8],
    arrival: Arrival,
}

/// Answers an initiator that has proved its address.
fn answer(
    socket: &DatagramSocket,
    asked: &Asked<'_>,
    received: &mut Received,
    clock: &dyn Clock,
) -> io::Result<()> {
    let Asked { message, bytes, arrival } = asked;
    let to = arrival.from;
    let reply = |kind, values| socket.send(&Message { kind, values, ..*message }.encode(), to);
    let [value, ..] = message.values;
    match message.kind {
        Kind::Echo => reply(Kind::EchoReply, message.values),
        Kind::SizeProbe if is_of_size(arrival, value) => reply(Kind::SizeSeen, message.values),
        Kind::SizeRequest => send_probe(socket, message, to),
        Kind::Train | Kind::NumberedTrain => {
            received.train(to, message).rate.take(bytes, arrival, clock);
            Ok(())
        }
        Kind::TrainRequest | Kind::NumberedTrainRequest => {
            let Some(train) = Train::from_request(message) else { return Ok(()) };
            train.send(socket, to, clock)?;
            train.send_end(socket, to, clock)
        }
        Kind::ResultRequest => {
            let rate = received.known_train(to, message).map(|index| &received.trains[index].rate);
            let (bps, arrivals) = rate.map_or((None, 0), |rate| (rate.rate_bps(), rate.arrivals()));
            reply(Kind::Result, [value, bps.unwrap_or(0), arrivals, 0, 0])
        }
        Kind::Probe => {
            received.probes(to, message).take(bytes, arrival, clock.now());
            Ok(())
        }
        Kind::ProbesRequest => ProbeSeries::from_values(message.values)
            .map_or(Ok(()), |series| send_probes(socket, message, &series, to, clock)),
        Kind::ProbesResultRequest => {
            let tally = received.probes(to, message);
            let [min, p50, p95, max] = tally.delays().unwrap_or_default().values();
            reply(Kind::ProbesResult, [tally.received(), min, p50, p95, max])
        }
        _ => Ok(()),
    }
}

impl Received {
    /// Place of the train that the message is about.
    fn known_train(&self, from: SocketAddr, message: &Message) -> Option<usize> {
        let ([number, ..], session) = (message.values, message.session);
        self.trains
            .iter()
            .position(|train| (train.from, train.session, train.number) == (from, session, number))
    }

    /// The train that the message is part of.
    fn train(&mut self, from: SocketAddr, message: &Message) -> &mut Arriving {
        let ([number, ..], session) = (message.values, message.session);
        let index = self.known_train(from, message).unwrap_or_else(|| {
            if self.trains.len() >= MOST_TRAINS {
                self.trains.pop_front();
            }
            self.trains.push_back(Arriving { from, session, number, rate: Meter::for_part(message) });
            self.trains.len() - 1
        });
        &mut self.trains[index]
    }

    /// The probes of an initiator, which sends one series.
    fn probes(&mut self, from: SocketAddr, message: &Message) -> &mut ProbeTally {
        let source = (from, message.session);
        let known = self.probes.iter().position(|(known, _)| *known == source);
        let index = known.unwrap_or_else(|| {
            if self.probes.len() >= MOST_TRAINS {
                self.probes.pop_front();
            }
            self.probes.push_back((source, ProbeTally::of(0)));
            self.probes.len() - 1
        });
        &mut self.probes[index].1
    }
}

/// Sends probes; blocks for as long as they take.
fn send_probes(
    socket: &DatagramSocket,
    request: &Message,
    series: &ProbeSeries,
    to: SocketAddr,
    clock: &dyn Clock,
) -> io::Result<()> {
    let start = clock.now();
    for number in 0..series.count {
        clock.sleep_until(start + series.spacing * number as u32);
        socket.send(&probe(request, series.series, number, clock.now()), to)?;
    }
    Ok(())
}

/// Whether the arrival is one IP packet of `size` bytes.
pub(super) fn is_of_size(arrival: &Arrival, size: u64) -> bool {
    (arrival.length as u64) + u64::from(header_bytes(arrival.from.ip())) == size
        && arrival.segment == arrival.length
}

/// Sends a probe of the size asked for, or says that the kernel would not.
fn send_probe(socket: &DatagramSocket, request: &Message, to: SocketAddr) -> io::Result<()> {
    let size = request.values[0];
    let payload = size.saturating_sub(u64::from(header_bytes(to.ip())));
    if payload > 65_507 {
        return Ok(());
    }
    let probe = Message { kind: Kind::SizeProbe, ..*request }.encode_padded(payload as usize);
    match socket.send(&probe, to) {
        Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
            socket.send(&Message { kind: Kind::SizeRefused, ..*request }.encode(), to)
        }
        result => result,
    }
}
