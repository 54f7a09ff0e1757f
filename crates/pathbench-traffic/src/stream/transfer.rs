//! The threads of the data phase: one per direction.

use super::channel::{StreamChannel, TICK, write_frame};
use super::error::StreamError;
use super::state::{FirstByte, TestStream};
use super::work::content;
use crate::meter::Wait;
use crate::pacer::{Grant, Pacer};
use crate::protocol::{ControlFrame, HEADER_BYTES, data_header};
use crate::throughput::{DataBlock, ReceiveCore, ReceiverStep, SendCore, SenderStep};
use pathbench_record::time::Clock;
use pathbench_transport::{Connection, SealedBytes, SendError, lock};
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

/// Time limit for reading the refusal of a peer that has reset the connection.
const EXPLANATION: Duration = Duration::from_millis(500);

pub(super) fn exchange(
    stream: &TestStream,
    sending: Option<&Mutex<SendCore>>,
    receiving: Option<&Mutex<ReceiveCore>>,
    channel: &mut StreamChannel<'_>,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    let clock = channel.clock;
    match (sending, receiving) {
        (Some(core), None) => send(stream, core, clock, on_first_byte)
            .map_err(|error| explanation(channel, &error).unwrap_or(error)),
        (None, Some(core)) => receive(stream, core, channel, on_first_byte),
        (Some(outgoing), Some(incoming)) => stream.run_both(
            "sender",
            clock,
            || send(stream, outgoing, clock, on_first_byte),
            || receive(stream, incoming, channel, on_first_byte),
        ),
        (None, None) => Ok(()),
    }
}

/// The refusal that the peer sent before it reset the connection during this end's sending.
fn explanation(channel: &mut StreamChannel<'_>, error: &StreamError) -> Option<StreamError> {
    if !matches!(error, StreamError::Send(SendError::Reset { .. })) {
        return None;
    }
    let mut wait = Wait::with_timeout(channel.clock.now(), EXPLANATION, "report a reason");
    match channel.frame(&mut wait) {
        Ok(ControlFrame::Refuse(refusal)) => Some(StreamError::Refused(refusal)),
        _ => None,
    }
}

/// The frames that a stream sends.
enum FrameSource {
    Copied(DataBlock),
    /// Pages with the largest frame; the headers of shorter frames are copied.
    Sealed {
        pages: SealedBytes,
        header: [u8; HEADER_BYTES],
    },
}

impl FrameSource {
    fn new(stream: &TestStream, core: &SendCore) -> Result<Self, StreamError> {
        if !stream.plan.parameters.transfer().is_some_and(|transfer| transfer.zero_copy) {
            return Ok(Self::Copied(DataBlock::new(core.payload_per_block)));
        }
        let payload = core.largest_payload();
        let header = data_header(payload as u32);
        let mut block = DataBlock::new(payload);
        block.set_header(header);
        let pages = SealedBytes::new(&block.bytes).map_err(StreamError::Pages)?;
        Ok(Self::Sealed { pages, header })
    }

    fn set_header(&mut self, header: [u8; HEADER_BYTES]) {
        if let Self::Copied(block) = self {
            block.set_header(header);
        }
    }

    fn send(
        &self,
        connection: &Connection,
        header: [u8; HEADER_BYTES],
        range: Range<usize>,
    ) -> Result<usize, SendError> {
        match self {
            Self::Copied(block) => connection.send(block.piece(range.start, range.end), Some(TICK)),
            Self::Sealed { pages, header: largest } if *largest == header || range.start >= HEADER_BYTES => {
                connection.send_sealed(pages, &range, Some(TICK))
            }
            Self::Sealed { .. } => {
                connection.send(&header[range.start..HEADER_BYTES.min(range.end)], Some(TICK))
            }
        }
    }
}

fn send(
    stream: &TestStream,
    core: &Mutex<SendCore>,
    clock: &dyn Clock,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    let connection: &Connection = &stream.connection;
    let mut source = FrameSource::new(stream, &lock(core))?;
    let content = content(&stream.plan, stream.index, stream.plan.sends_as());
    let pacer = stream.plan.pacers.as_ref().map(|pacers| &pacers.sent);
    let mut frame_header = [0; HEADER_BYTES];
    let mut acknowledgements = None;
    let mut now = clock.now();
    let mut step = lock(core).next(now);
    on_first_byte(now);
    loop {
        match step {
            SenderStep::Finished => break,
            SenderStep::WaitUntil(due) => {
                stream.pause(clock, due)?;
                now = clock.now();
                step = lock(core).next(now);
            }
            SenderStep::Write { header, from, until, offset } => {
                if let (Some(content), 0, FrameSource::Copied(block)) = (content, from, &mut source) {
                    block.set_content(content, offset, until - HEADER_BYTES);
                }
                if header != frame_header {
                    frame_header = header;
                    source.set_header(header);
                }
                let grant = await_grant(stream, clock, pacer, until - from, |waited| {
                    lock(core).meter.excuse(waited);
                })?;
                let end = grant.as_ref().map_or(until, |grant| from + grant.bytes);
                match source.send(connection, header, from..end) {
                    Ok(count) => {
                        now = clock.now();
                        if let Some(grant) = grant {
                            grant.spend(count);
                        }
                        let mut core = lock(core);
                        core.accepted(now, count);
                        step = core.next(now);
                    }
                    Err(SendError::TimedOut { .. }) => {
                        now = clock.now();
                        let watch = acknowledgements.get_or_insert_with(|| stream.acknowledgements());
                        let advanced = watch.advanced();
                        let mut core = lock(core);
                        if advanced {
                            core.meter.progressed(now);
                        }
                        stream.check_silence(core.meter.hung(now), "sending")?;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        stream.check_deadline(now)?;
    }
    let end = ControlFrame::End(lock(core).end());
    write_frame(connection, clock, &end.encode()?, &mut stream.wait(clock))
}

/// Waits for a grant of some of `wanted` bytes, if this end limits the rate; `excuse` receives the time of that wait.
pub(super) fn await_grant<'a>(
    stream: &TestStream,
    clock: &dyn Clock,
    pacer: Option<&'a Pacer>,
    wanted: usize,
    excuse: impl FnOnce(Duration),
) -> Result<Option<Grant<'a>>, StreamError> {
    let Some(pacer) = pacer else { return Ok(None) };
    let asked = clock.now();
    let grant = pacer.grant(asked, wanted);
    if grant.due > asked {
        stream.pause(clock, grant.due)?;
        excuse(clock.now().duration_since(asked));
    }
    Ok(Some(grant))
}

fn receive(
    stream: &TestStream,
    core: &Mutex<ReceiveCore>,
    channel: &mut StreamChannel<'_>,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    let clock = channel.clock;
    channel.prepare_for_data();
    let pacer = stream.plan.pacers.as_ref().map(|pacers| &pacers.received);
    lock(core).meter.progressed(clock.now());
    if let Some(pacer) = pacer {
        // Bytes that arrived together with START.
        pacer.charge(clock.now(), channel.unread().0.len());
    }
    let mut begun = false;
    loop {
        let grant = await_grant(stream, clock, pacer, channel.buffer.len(), |waited| {
            lock(core).meter.excuse(waited);
        })?;
        channel.uncharged = 0;
        let most = grant.as_ref().map_or(usize::MAX, |grant| grant.bytes);
        let step = lock(core).next(&channel.decoder, most);
        let came = match step {
            ReceiverStep::Discard { most } if !channel.has_unread() => channel.discard(TICK, most)?,
            ReceiverStep::Discard { .. } => Some(0),
            ReceiverStep::Receive { most } => channel.fill(TICK, most)?.then_some(0),
        };
        let now = clock.now();
        if let Some(grant) = grant {
            grant.spend(std::mem::take(&mut channel.uncharged));
        }
        let Some(discarded) = came else {
            stream.check_silence(lock(core).hung(now), "receiving")?;
            stream.check_deadline(now)?;
            continue;
        };
        let has_ended = if discarded > 0 {
            lock(core).discarded(now, &mut channel.decoder, discarded)?;
            false
        } else {
            let (input, decoder) = channel.unread();
            let taken = lock(core).take(now, decoder, input)?;
            channel.consume(taken.consumed);
            taken.ended
        };
        if !begun {
            begun = lock(core).meter.received_bytes > 0;
            if begun {
                on_first_byte(now);
            }
        }
        if has_ended {
            return Ok(());
        }
        stream.check_deadline(now)?;
    }
}
