//! The threads of the data phase: one per direction.

use super::channel::{StreamChannel, TICK, write_frame};
use super::error::StreamError;
use super::paced::{PacedReceiver, PacedSender};
use super::state::{FirstByte, TestStream};
use super::work::content;
use crate::meter::Wait;
use crate::moderation::ReceiveModeration;
use crate::protocol::{ControlFrame, Decoder, HEADER_BYTES, data_header};
use crate::throughput::{DataBlock, ReceiveCore, ReceiverStep, SendCore, SenderStep};
use pathbench_record::time::{Clock, Timestamp};
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
    let mut frame_header = [0; HEADER_BYTES];
    let excuse = |waited: Duration| lock(core).meter.excuse(waited);
    let silence = |now: Timestamp, advanced: bool| {
        let mut core = lock(core);
        if advanced {
            core.meter.progressed(now);
        }
        core.meter.hung(now)
    };
    let mut sender = PacedSender::new(stream, clock, excuse, silence);
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
                let write = |granted: usize| source.send(connection, header, from..from + granted);
                let accepted;
                (now, accepted) = sender.send(until - from, write)?;
                if let Some(count) = accepted {
                    let mut core = lock(core);
                    core.accepted(now, count);
                    step = core.next(now);
                }
            }
        }
        stream.check_deadline(now)?;
    }
    let end = ControlFrame::End(lock(core).end());
    write_frame(connection, clock, &end.encode()?, &mut stream.wait(clock))
}

fn receive(
    stream: &TestStream,
    core: &Mutex<ReceiveCore>,
    channel: &mut StreamChannel<'_>,
    on_first_byte: FirstByte<'_>,
) -> Result<(), StreamError> {
    let excuse = |waited: Duration| lock(core).meter.excuse(waited);
    let silence = |now: Timestamp| lock(core).hung(now);
    let clock = channel.clock;
    let receiver = PacedReceiver::new(stream, clock, channel, (excuse, silence));
    let discards = {
        let mut core = lock(core);
        core.meter.progressed(clock.now());
        core.discards
    };
    let step = |decoder: &Decoder, most: usize| {
        // Without a discard the core has no say in it: one lock less for each call.
        if discards { lock(core).next(decoder, most) } else { ReceiverStep::Receive { most } }
    };
    let mut moderation = stream.plan.permits_rests().then(ReceiveModeration::default);
    let mut begun = false;
    loop {
        let (now, came) = receiver.receive(channel, step)?;
        let Some(discarded) = came else { continue };
        let (count, has_ended) = if discarded > 0 {
            lock(core).discarded(now, &mut channel.decoder, discarded)?;
            (discarded, false)
        } else {
            let (input, decoder) = channel.unread();
            let taken = lock(core).take(now, decoder, input)?;
            channel.consume(taken.consumed);
            (taken.consumed, taken.ended)
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
        if let Some(until) = moderation.as_mut().and_then(|rests| rests.rest(now, count, channel.emptied)) {
            stream.pause(clock, until)?;
        }
    }
}
