//! The threads of the pattern `datagrams`: one sends at the due times; the other receives, and exchanges END and DONE on
//! the control stream. An end that has sent its last datagram writes END; the other end waits for late datagrams and
//! answers with DONE.

use super::channel::{StreamChannel, TICK};
use super::datagram_work::{DatagramCarrier, DatagramWork};
use super::error::StreamError;
use super::state::{FirstByte, TestStream};
use super::work::Work;
use crate::datagram::{DatagramKind, DatagramMessage, FlowArrival, HEADER_BYTES, LONGEST_DEBT};
use crate::flow::{FlowReceiver, FlowSender, FlowStep};
use crate::pacer::Pacers;
use crate::protocol::{ControlFrame, FrameKind};
use pathbench_record::datagram::DATAGRAM_HEADER_BYTES;
use pathbench_record::end::TestId;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::{DatagramUnsent, QuicDatagrams, lock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const _: () = assert!(DATAGRAM_HEADER_BYTES as usize == HEADER_BYTES);

/// Longest wait for a datagram before the control stream is read.
const SLICE: Duration = Duration::from_millis(20);

/// The session of datagrams in a connection of the test's own.
fn session(test: TestId) -> u64 {
    test.0.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}

pub(super) fn exchange(
    stream: &TestStream,
    work: &DatagramWork,
    channel: &mut StreamChannel<'_>,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    let clock = channel.clock;
    let Some(carrier) = work.carrier.get() else { return Err(StreamError::NoDatagrams) };
    let is_sent = AtomicBool::new(false);
    let send = || {
        let sent = send(stream, work, carrier, clock, on_first_byte);
        is_sent.store(true, Ordering::Release);
        sent
    };
    stream.run_both("datagrams", clock, send, || {
        receive(stream, work, carrier, channel, &is_sent, on_first_byte)
    })
}

fn send(
    stream: &TestStream,
    work: &DatagramWork,
    carrier: &DatagramCarrier,
    clock: &dyn Clock,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    let Some(sender) = &work.sender else { return Ok(()) };
    let message = DatagramMessage::new(DatagramKind::Flow, session(stream.plan.test), 0);
    let mut datagram = message.encode(work.parameters.packet_bytes as usize);
    let now = clock.now();
    lock(sender).begin(now);
    on_first_byte(now);
    loop {
        let now = clock.now();
        stream.check_deadline(now)?;
        let step = lock(sender).next(now);
        match step {
            FlowStep::Finished => return Ok(()),
            FlowStep::WaitUntil(due) => stream.pause(clock, due)?,
            FlowStep::Send { sequence, bytes } => {
                let bytes = bytes as usize;
                let on_all_paths = bytes * work.parameters.paths.max(1) as usize;
                stream.pay(clock, |pacers| &pacers.sent, on_all_paths)?;
                let datagram = datagram.get_mut(..bytes).ok_or(StreamError::NoDatagrams)?;
                send_one(work, carrier, sender, clock.now(), sequence, datagram)?;
            }
        }
    }
}

/// Sends a datagram on all its paths.
fn send_one(
    work: &DatagramWork,
    carrier: &DatagramCarrier,
    sender: &Mutex<FlowSender>,
    now: Timestamp,
    sequence: u32,
    datagram: &mut [u8],
) -> Result<(), StreamError> {
    let on_path = |path: u32, sent: bool| {
        let mut sender = lock(sender);
        if sent { sender.sent(now, sequence, now, path) } else { sender.not_sent() }
    };
    match carrier {
        DatagramCarrier::Quic(quic) => {
            DatagramMessage::stamp(datagram, sequence, now.as_nanos());
            match quic.send(datagram) {
                Ok(()) => lock(sender).handed_over(),
                Err(error @ DatagramUnsent::Unsupported) => return Err(error.into()),
                Err(error @ DatagramUnsent::TooLarge { .. }) if sequence == 0 => return Err(error.into()),
                Err(_) => lock(sender).not_sent(),
            }
        }
        DatagramCarrier::Client(flows) => {
            for path in 0..flows.count() {
                on_path(path, flows.send(now, path, sequence, datagram));
            }
        }
        DatagramCarrier::Server(slot) => {
            for path in 0..work.parameters.paths {
                on_path(path, slot.flow.send(now, path, sequence, datagram));
            }
        }
    }
    Ok(())
}

/// Receives datagrams and control frames until both ends are done.
fn receive(
    stream: &TestStream,
    work: &DatagramWork,
    carrier: &DatagramCarrier,
    channel: &mut StreamChannel<'_>,
    is_sent: &AtomicBool,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    let clock = channel.clock;
    let begun = clock.now();
    let over = begun + work.parameters.nominal_duration() + stream.plan.patience;
    let (mut end_written, mut done_written, mut done) = (false, false, false);
    let mut peer_ended: Option<Timestamp> = None;
    while !(end_written && done_written && done) {
        let limit =
            if take_datagrams(stream, work, carrier, clock, on_first_byte) { Duration::ZERO } else { TICK };
        let frame = channel.next_frame_within(limit)?;
        let now = clock.now();
        match frame {
            None => {}
            Some(ControlFrame::End(_)) => peer_ended = Some(peer_ended.unwrap_or(now)),
            Some(ControlFrame::Done { .. }) => done = true,
            Some(frame) => return Err(StreamError::from_unexpected(FrameKind::Done, frame)),
        }
        if !end_written && is_sent.load(Ordering::Acquire) {
            let end = work.sender.as_ref().map(|sender| lock(sender).end()).unwrap_or_default();
            channel.write(&ControlFrame::End(end), &mut stream.wait(clock))?;
            end_written = true;
        }
        if !done_written && peer_ended.is_some_and(|at| now >= at + work.parameters.linger) {
            let bytes = work.receiver.as_ref().map_or(0, |receiver| lock(receiver).meter.received_bytes);
            channel.write(&ControlFrame::Done { bytes }, &mut stream.wait(clock))?;
            done_written = true;
        }
        stream.check_deadline(now)?;
        let silence = (now > over).then(|| now.duration_since(begun));
        stream.check_silence(silence, "waiting for the end of the datagrams")?;
    }
    if let DatagramCarrier::Quic(quic) = carrier {
        take_departures(work, quic);
    }
    Ok(())
}

/// Takes the datagrams that arrive within a slice of time, and the departures; `false` if this end does not wait for
/// them here, because the server's port takes them.
fn take_datagrams(
    stream: &TestStream,
    work: &DatagramWork,
    carrier: &DatagramCarrier,
    clock: &dyn Clock,
    on_first_byte: FirstByte<'_>,
) -> bool {
    let pacers = stream.plan.pacers.as_deref();
    match carrier {
        DatagramCarrier::Server(_) => return false,
        DatagramCarrier::Client(flows) => flows.receive(clock, SLICE, |arrival| {
            take(work, pacers, arrival, on_first_byte);
        }),
        DatagramCarrier::Quic(quic) => {
            for arrival in quic.receive(SLICE) {
                let Some(message) = DatagramMessage::decode(arrival.datagram.bytes()) else {
                    count_foreign(work);
                    continue;
                };
                if message.kind != DatagramKind::Flow || message.session != session(stream.plan.test) {
                    count_foreign(work);
                    continue;
                }
                let length = usize::from(arrival.datagram.length_bytes);
                let (at, path, sequence) = (arrival.at, arrival.path, message.sequence);
                take(work, pacers, FlowArrival { at, path, sequence, length }, on_first_byte);
            }
            take_departures(work, quic);
        }
    }
    true
}

fn take_departures(work: &DatagramWork, quic: &QuicDatagrams) {
    let Some(sender) = &work.sender else { return };
    for departure in quic.take_departures() {
        let Some(message) = DatagramMessage::decode(departure.datagram.bytes()) else { continue };
        let handed_over = Timestamp::from_nanos(message.value);
        lock(sender).sent(departure.at, message.sequence, handed_over, departure.path);
    }
}

fn take(work: &DatagramWork, pacers: Option<&Pacers>, arrival: FlowArrival, on_first_byte: FirstByte<'_>) {
    let Some(receiver) = &work.receiver else { return };
    on_first_byte(arrival.at);
    let FlowArrival { at, path, sequence, length } = arrival;
    let is_permitted = pacers.is_none_or(|pacers| pacers.received.charge_within(at, length, LONGEST_DEBT));
    let mut receiver = lock(receiver);
    if is_permitted { receiver.receive(at, path, sequence, length) } else { receiver.omit() }
}

fn count_foreign(work: &DatagramWork) {
    if let Some(receiver) = &work.receiver {
        lock(receiver).count_foreign();
    }
}

impl TestStream {
    /// Sets how the datagrams of the test travel; no effect for other patterns.
    pub(crate) fn set_carrier(&self, carrier: DatagramCarrier) {
        if let Work::Datagrams(work) = &self.work {
            // Set once, before the stream runs.
            let _ = work.carrier.set(carrier);
        }
    }

    /// The receiver of the test's datagrams, if the pattern is `datagrams` and the peer sends.
    pub(crate) fn datagram_receiver(&self) -> Option<Arc<Mutex<FlowReceiver>>> {
        match &self.work {
            Work::Datagrams(work) => work.receiver.clone(),
            _ => None,
        }
    }
}
