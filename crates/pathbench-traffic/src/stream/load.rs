//! The threads of the pattern `responsiveness`: one per direction. The thread that receives wakes the one that sends when
//! an answer is due.

use super::channel::{StreamChannel, TICK, write_frame};
use super::error::StreamError;
use super::load_work::LoadWork;
use super::state::{FirstByte, TestStream};
use super::transfer::await_grant;
use crate::protocol::{ControlFrame, HEADER_BYTES};
use crate::responsiveness::LoadStep;
use crate::throughput::DataBlock;
use pathbench_record::time::Clock;
use pathbench_transport::{SendError, lock};
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
    let pacer = stream.plan.pacers.as_ref().map(|pacers| &pacers.sent);
    let mut acknowledgements = None;
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
        let excuse = |waited: Duration| lock(&work.core).sending.excuse(waited);
        let grant = await_grant(stream, clock, pacer, bytes.len(), excuse)?;
        let granted = grant.as_ref().map_or(bytes.len(), |grant| grant.bytes.min(bytes.len()));
        match stream.connection.send(&bytes[..granted], Some(TICK)) {
            Ok(count) => {
                if let Some(grant) = grant {
                    grant.spend(count);
                }
                lock(&work.core).accepted(clock.now(), count);
            }
            Err(SendError::TimedOut { .. }) => {
                let watch = acknowledgements.get_or_insert_with(|| stream.acknowledgements());
                let advanced = watch.advanced();
                let (mut core, now) = (lock(&work.core), clock.now());
                if advanced {
                    core.sending.progressed(now);
                }
                stream.check_silence(core.hung_sending(now), "sending")?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let end = ControlFrame::End(lock(&work.core).own_end());
    write_frame(&stream.connection, clock, &end.encode()?, &mut stream.wait(clock))
}

fn receive(stream: &TestStream, work: &LoadWork, channel: &mut StreamChannel<'_>) -> Result<(), StreamError> {
    let clock = channel.clock;
    channel.prepare_for_data();
    let pacer = stream.plan.pacers.as_ref().map(|pacers| &pacers.received);
    if let Some(pacer) = pacer {
        // Bytes that arrived together with START.
        pacer.charge(clock.now(), channel.unread().0.len());
    }
    loop {
        let excuse = |waited: Duration| lock(&work.core).receiving.excuse(waited);
        let grant = await_grant(stream, clock, pacer, channel.buffer.len(), excuse)?;
        channel.uncharged = 0;
        let came = channel.fill(TICK, grant.as_ref().map_or(usize::MAX, |grant| grant.bytes))?;
        let now = clock.now();
        if let Some(grant) = grant {
            grant.spend(std::mem::take(&mut channel.uncharged));
        }
        let mut core = lock(&work.core);
        if came {
            let (input, decoder) = channel.unread();
            let taken = core.take(now, decoder, input)?;
            channel.consume(taken.consumed);
            if core.wakes_sender() {
                work.changed.notify_one();
            }
            if taken.ended {
                return Ok(());
            }
        } else {
            stream.check_silence(core.hung_receiving(now), "receiving")?;
        }
        drop(core);
        stream.check_deadline(now)?;
    }
}
