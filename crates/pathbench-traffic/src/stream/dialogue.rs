//! The threads of the patterns of messages. The requesting end has one thread that sends requests and receives answers,
//! or one for each; the answering end has one.

use super::channel::{StreamChannel, TICK, write_frame};
use super::error::StreamError;
use super::state::{FirstByte, TestStream};
use crate::messages::{InteractiveCore, MessageResponder, PingCore, RequesterStep};
use crate::protocol::ControlFrame;
use pathbench_record::time::Clock;
use pathbench_transport::{SendError, lock};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

pub(super) fn ping(
    stream: &TestStream,
    core: &Mutex<PingCore>,
    channel: &mut StreamChannel<'_>,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    let clock = channel.clock;
    on_first_byte(clock.now());
    loop {
        let now = clock.now();
        stream.check_deadline(now)?;
        let step = lock(core).next(now)?;
        match step {
            RequesterStep::Write(bytes) => match stream.connection.send(&bytes, Some(TICK)) {
                Ok(count) => lock(core).accepted(clock.now(), count),
                Err(SendError::TimedOut { .. }) => {
                    stream.check_silence(lock(core).hung(clock.now()), "sending")?;
                }
                Err(error) => return Err(error.into()),
            },
            RequesterStep::WaitUntil(due) => stream.pause(clock, due)?,
            RequesterStep::Await(until) => {
                if let Some(frame) = channel.next_frame_within(until.duration_since(now).min(TICK))? {
                    lock(core).take(clock.now(), frame)?;
                }
            }
            RequesterStep::Finished => break,
        }
    }
    let end = ControlFrame::End(lock(core).meter.end(false));
    channel.write(&end, &mut stream.wait(clock))
}

/// Sends requests at fixed intervals in a separate thread, which received data cannot delay, and receives the replies;
/// ends with END.
pub(super) fn interactive(
    stream: &TestStream,
    core: &Mutex<InteractiveCore>,
    channel: &mut StreamChannel<'_>,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    let clock = channel.clock;
    stream.run_both(
        "requests",
        clock,
        || send_requests(stream, core, clock, on_first_byte),
        || receive_replies(stream, core, channel),
    )?;
    let end = ControlFrame::End(lock(core).meter.end(false));
    channel.write(&end, &mut stream.wait(clock))
}

fn send_requests(
    stream: &TestStream,
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
            RequesterStep::Write(bytes) => match stream.connection.send(&bytes, Some(TICK)) {
                Ok(count) => {
                    lock(core).accepted(clock.now(), count);
                    stream.pay(clock, |pacers| &pacers.sent, count)?;
                }
                // The other thread detects whether the connection hangs.
                Err(SendError::TimedOut { .. }) => {}
                Err(error) => return Err(error.into()),
            },
            // Wakes up every `TICK`, because the test may be stopped.
            RequesterStep::WaitUntil(due) | RequesterStep::Await(due) => {
                stream.pause(clock, due.min(now + TICK))?;
            }
            RequesterStep::Finished => return Ok(()),
        }
    }
}

fn receive_replies(
    stream: &TestStream,
    core: &Mutex<InteractiveCore>,
    channel: &mut StreamChannel<'_>,
) -> Result<(), StreamError> {
    let clock = channel.clock;
    loop {
        let frame = channel.next_frame_within(TICK)?;
        let now = clock.now();
        let received = std::mem::take(&mut channel.uncharged);
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
        stream.check_silence(hung, "waiting for an acknowledgement")?;
        stream.check_deadline(now)?;
    }
}

pub(super) fn respond(
    stream: &TestStream,
    core: &Mutex<MessageResponder>,
    channel: &mut StreamChannel<'_>,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    let clock = channel.clock;
    let write = |frame: &[u8]| {
        let mut wait = stream.wait(clock);
        write_frame(&stream.connection, clock, frame, &mut wait).map(|()| clock.now())
    };
    lock(core).meter.progressed(clock.now());
    let mut stop_sent = false;
    loop {
        let frame = channel.next_frame_within(TICK)?;
        let now = clock.now();
        stream.check_deadline(now)?;
        if stream.group.stopping.load(Ordering::Acquire) && !stop_sent {
            write(&ControlFrame::Stop.encode()?)?;
            stop_sent = true;
        }
        let Some(frame) = frame else {
            stream.check_silence(lock(core).hung(now), "receiving")?;
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
        stream.pay(clock, |pacers| &pacers.received, std::mem::take(&mut channel.uncharged))?;
    }
}
