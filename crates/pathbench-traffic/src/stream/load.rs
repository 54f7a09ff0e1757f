//! The threads of the pattern `responsiveness`: one per direction. The thread that receives wakes the one that sends when
//! an answer is due.

use super::channel::{StreamChannel, TICK, write_frame};
use super::error::StreamError;
use super::load_work::LoadWork;
use super::paced::{PacedReceiver, PacedSender};
use super::state::{FirstByte, TestStream};
use crate::protocol::{ControlFrame, HEADER_BYTES};
use crate::responsiveness::LoadStep;
use crate::throughput::{DataBlock, ReceiverStep};
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::lock;
use std::time::Duration;

pub(super) fn exchange(
    stream: &TestStream,
    work: &LoadWork,
    channel: &mut StreamChannel<'_>,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    let clock = channel.clock;
    let begun = lock(&work.core).begin(clock.now());
    if stream.index == 0 {
        on_first_byte(begun);
    }
    stream.run_both("sender", clock, || send(stream, work, clock), || receive(stream, work, channel))
}

fn send(stream: &TestStream, work: &LoadWork, clock: &dyn Clock) -> Result<(), StreamError> {
    let mut block = DataBlock::new(lock(&work.core).payload_per_block);
    let mut block_header = [0; HEADER_BYTES];
    let excuse = |waited: Duration| lock(&work.core).sending.excuse(waited);
    let silence = |now: Timestamp, advanced: bool| {
        let mut core = lock(&work.core);
        if advanced {
            core.sending.progressed(now);
        }
        core.hung_sending(now)
    };
    let mut sender = PacedSender::new(stream, clock, excuse, silence);
    loop {
        stream.check_deadline(clock.now())?;
        let step = work.next(clock)?;
        let bytes = match &step {
            LoadStep::Finished => break,
            LoadStep::WaitUntil(_) => {
                stream.check_abort()?;
                continue;
            }
            LoadStep::Frame(bytes) => bytes.as_slice(),
            LoadStep::Data { header, from, until } => {
                if *header != block_header {
                    block_header = *header;
                    block.set_header(*header);
                }
                &block.bytes[*from..*until]
            }
        };
        let write = |granted: usize| stream.connection.send(&bytes[..granted], Some(TICK));
        if let (now, Some(count)) = sender.send(bytes.len(), write)? {
            lock(&work.core).accepted(now, count);
        }
    }
    let end = ControlFrame::End(lock(&work.core).own_end());
    write_frame(&stream.connection, clock, &end.encode()?, &mut stream.wait(clock))
}

fn receive(stream: &TestStream, work: &LoadWork, channel: &mut StreamChannel<'_>) -> Result<(), StreamError> {
    let excuse = |waited: Duration| lock(&work.core).receiving.meter.excuse(waited);
    let silence = |now: Timestamp| lock(&work.core).hung_receiving(now);
    let clock = channel.clock;
    let receiver = PacedReceiver::new(stream, clock, channel, (excuse, silence));
    loop {
        let (now, came) = receiver.receive(channel, |_, most| ReceiverStep::Receive { most })?;
        if came.is_none() {
            continue;
        }
        let (input, decoder) = channel.unread();
        let mut core = lock(&work.core);
        let taken = core.take(now, decoder, input)?;
        channel.consume(taken.consumed);
        if core.wakes_sender() {
            work.changed.notify_one();
        }
        if taken.ended {
            return Ok(());
        }
        drop(core);
        stream.check_deadline(now)?;
    }
}
