//! The far end of a calibration.

use super::RateMeter;
use super::datagram::{Arrival, DatagramSocket};
use super::header_bytes;
use super::message::{Kind, Message};
use super::train::{Train, meter};
use pathbench_record::time::Clock;
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thiserror::Error;

/// How often a responder looks whether it is to stop.
const TICK: Duration = Duration::from_millis(50);

/// Trains remembered; the oldest goes first.
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
    #[must_use]
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
    rate: RateMeter,
}

fn serve(socket: &DatagramSocket, stopping: &AtomicBool, clock: &dyn Clock) {
    let cookies = RandomState::new();
    let mut trains: VecDeque<Arriving> = VecDeque::new();
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
        let Some(message) = Message::decode(&buffer[..arrival.length]) else { continue };
        let cookie = cookies.hash_one((arrival.from, message.session));
        if message.kind == Kind::CookieRequest {
            let answer = Message { kind: Kind::Cookie, cookie, ..message };
            // An answer that cannot be sent is lost like any datagram; the initiator asks again.
            let _ = socket.send(&answer.encode(), arrival.from);
        } else if message.cookie == cookie {
            let _ = answer(socket, &message, &arrival, &mut trains, clock);
        }
    }
}

/// Answers an initiator that has proved its address.
fn answer(
    socket: &DatagramSocket,
    message: &Message,
    arrival: &Arrival,
    trains: &mut VecDeque<Arriving>,
    clock: &dyn Clock,
) -> io::Result<()> {
    let to = arrival.from;
    let reply = |kind, values| socket.send(&Message { kind, values, ..*message }.encode(), to);
    let [value, ..] = message.values;
    match message.kind {
        Kind::Echo => reply(Kind::EchoReply, message.values),
        Kind::SizeProbe if is_of_size(arrival, value) => reply(Kind::SizeSeen, message.values),
        Kind::SizeRequest => send_probe(socket, message, to),
        Kind::Train => {
            meter(train_of(trains, arrival.from, message), arrival, clock);
            Ok(())
        }
        Kind::TrainRequest => {
            let Some(train) = Train::from_request(message) else { return Ok(()) };
            train.send(socket, to, clock)?;
            train.send_end(socket, to, clock)
        }
        Kind::ResultRequest => {
            let rate = train_of(trains, arrival.from, message);
            reply(Kind::Result, [value, rate.rate_bps().unwrap_or(0), rate.arrivals(), 0, 0])
        }
        _ => Ok(()),
    }
}

fn train_of<'a>(
    trains: &'a mut VecDeque<Arriving>,
    from: SocketAddr,
    message: &Message,
) -> &'a mut RateMeter {
    let [number, asked_bps, _, _, bucket_bytes] = message.values;
    let session = message.session;
    let known =
        trains.iter().position(|train| (train.from, train.session, train.number) == (from, session, number));
    let index = known.unwrap_or_else(|| {
        if trains.len() >= MOST_TRAINS {
            trains.pop_front();
        }
        trains.push_back(Arriving { from, session, number, rate: RateMeter::new(asked_bps, bucket_bytes) });
        trains.len() - 1
    });
    &mut trains[index].rate
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
