//! The threads of the patterns of messages: one that asks and hears, or asks in one and hears in another; one that
//! answers.

use super::channel::write_frame;
use super::transfer::{first_cause, joined};
use super::{Channel, FirstByte, Stream, StreamError, TICK, lock};
use crate::messages::{InteractiveCore, InteractiveStep, PingCore, PingStep, Responder};
use crate::protocol::Frame;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::SendError;
use std::sync::Mutex;
use std::thread;

pub(super) fn ping(
    stream: &Stream,
    core: &Mutex<PingCore>,
    channel: &mut Channel<'_>,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    let clock = channel.clock();
    let peer = stream.connection.peer_addr();
    on_first_byte(clock.now());
    loop {
        let now = clock.now();
        stream.check_deadline(now)?;
        let step = lock(core).next(now)?;
        match step {
            PingStep::Write(bytes) => match stream.connection.send(&bytes, Some(TICK)) {
                Ok(count) => lock(core).accepted(clock.now(), count),
                Err(SendError::TimedOut { .. }) => {
                    if let Some(silence) = lock(core).hung(clock.now()) {
                        return Err(StreamError::Hung { peer, doing: "sending", silence });
                    }
                }
                Err(error) => return Err(error.into()),
            },
            PingStep::WaitUntil(due) => stream.pause(clock, due)?,
            PingStep::Await(until) => {
                if let Some(frame) = channel.next_frame_within(until.since(now).min(TICK))? {
                    lock(core).take(clock.now(), frame)?;
                }
            }
            PingStep::Finished => break,
        }
    }
    let end = Frame::End(lock(core).series().end());
    channel.write(&end, &mut stream.wait(clock))
}

/// Asks on the grid, in a thread of its own that nothing received can hold up, and hears the replies; ends with END.
pub(super) fn interactive(
    stream: &Stream,
    core: &Mutex<InteractiveCore>,
    channel: &mut Channel<'_>,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    let clock = channel.clock();
    thread::scope(|scope| {
        let asking = thread::Builder::new()
            .name("asker".to_owned())
            .spawn_scoped(scope, || stream.half(|| ask(stream, core, clock, on_first_byte)))
            .map_err(StreamError::Thread)?;
        let heard = stream.half(|| hear(stream, core, channel));
        first_cause(heard, joined(asking))
    })?;
    let end = Frame::End(lock(core).series().end());
    channel.write(&end, &mut stream.wait(clock))
}

fn ask(
    stream: &Stream,
    core: &Mutex<InteractiveCore>,
    clock: &dyn Clock,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    on_first_byte(clock.now());
    loop {
        let now = clock.now();
        stream.check_deadline(now)?;
        let step = lock(core).next(now)?;
        match step {
            InteractiveStep::Write(bytes) => match stream.connection.send(&bytes, Some(TICK)) {
                Ok(count) => {
                    lock(core).accepted(clock.now(), count);
                    stream.pay(clock, |pacers| &pacers.sent, count)?;
                }
                // Whether it hangs is for the one who hears to say.
                Err(SendError::TimedOut { .. }) => {}
                Err(error) => return Err(error.into()),
            },
            // It may be stopped in between.
            InteractiveStep::WaitUntil(due) => stream.pause(clock, due.min(now + TICK))?,
            InteractiveStep::Finished => return Ok(()),
        }
    }
}

fn hear(
    stream: &Stream,
    core: &Mutex<InteractiveCore>,
    channel: &mut Channel<'_>,
) -> Result<(), StreamError> {
    let clock = channel.clock();
    let peer = stream.connection.peer_addr();
    loop {
        let frame = channel.next_frame_within(TICK)?;
        let now = clock.now();
        let received = channel.take_uncharged();
        let mut core = lock(core);
        if let Some(frame) = frame {
            core.take(now, frame)?;
        }
        if core.is_settled(now) {
            return Ok(());
        }
        let hung = core.hung(now);
        drop(core);
        stream.pay(clock, |pacers| &pacers.received, received)?;
        if let Some(silence) = hung {
            return Err(StreamError::Hung { peer, doing: "waiting for an acknowledgement", silence });
        }
        stream.check_deadline(now)?;
    }
}

/// What still comes between END and DONE; returns the bytes that DONE speaks of.
pub(super) fn until_done(
    channel: &mut Channel<'_>,
    wait: &mut super::Wait,
    mut late: impl FnMut(Timestamp, Frame) -> Result<(), StreamError>,
) -> Result<u64, StreamError> {
    loop {
        match channel.frame(wait)? {
            Frame::Done { bytes } => return Ok(bytes),
            frame => late(channel.clock().now(), frame)?,
        }
    }
}

pub(super) fn respond(
    stream: &Stream,
    core: &Mutex<Responder>,
    channel: &mut Channel<'_>,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    let clock = channel.clock();
    let peer = stream.connection.peer_addr();
    let write = |frame: &[u8]| {
        let mut wait = stream.wait(clock);
        write_frame(&stream.connection, clock, frame, &mut wait).map(|()| clock.now())
    };
    lock(core).begin(clock.now());
    let mut said_stop = false;
    loop {
        let frame = channel.next_frame_within(TICK)?;
        let now = clock.now();
        stream.check_deadline(now)?;
        if stream.is_stopping() && !said_stop {
            write(&Frame::Stop.encode()?)?;
            said_stop = true;
        }
        let Some(frame) = frame else {
            if let Some(silence) = lock(core).hung(now) {
                return Err(StreamError::Hung { peer, doing: "receiving", silence });
            }
            continue;
        };
        on_first_byte(now);
        let reply = lock(core).take(now, frame)?;
        let Some(reply) = reply else { return Ok(()) };
        let mut sent = reply.answer.len();
        if let Some(acknowledgement) = reply.acknowledgement {
            sent += acknowledgement.len();
            let at = write(&acknowledgement)?;
            lock(core).acknowledged(at);
        }
        let at = write(&reply.answer)?;
        lock(core).answered(at);
        stream.pay(clock, |pacers| &pacers.sent, sent)?;
        stream.pay(clock, |pacers| &pacers.received, channel.take_uncharged())?;
    }
}
