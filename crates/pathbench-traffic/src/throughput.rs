//! The `throughput` pattern: bulk data in one or both directions, on parallel streams, by time or by bytes.
//!
//! Pure: a [`SendCore`] decides what to write next or how long to wait, a [`ReceiveCore`] turns received bytes into
//! deliveries. The code that owns sockets and threads is in [`crate::client`] and [`crate::server`].

use crate::content::Content;
use crate::messages::MessageFault;
use crate::meter::Meter;
use crate::protocol::{
    ControlFrame, DecodeError, DecodedEvent, Decoder, EndFrame, FrameKind, HEADER_BYTES, TestRefusal,
    data_header,
};
use pathbench_record::pattern::Amount;
use pathbench_record::time::Timestamp;
use std::time::Duration;
use thiserror::Error;

/// At a limited rate, a block holds at most this much time of the rate.
const MAX_BLOCK_TIME: Duration = Duration::from_millis(10);

/// Smallest payload of a block, at any rate.
const MIN_PAYLOAD_BYTES: usize = 256;

/// Largest frame of a fast stream whose receiver discards it, or whose sender does not copy it: each frame costs a call
/// for its header.
pub(crate) const FAST_FRAME_BYTES: u32 = 1 << 20;

/// Frames of a fast stream grow while one takes less time than this, so that the last one outlasts the test by little.
const FAST_FRAME_TIME: Duration = Duration::from_millis(1);

/// Longest piece that one call discards, so that deadlines and limits are checked between two calls.
const MOST_DISCARDED_BYTES: u64 = 1 << 20;

/// A stream behind its schedule (a stalled socket, a late wake-up) catches up with at most this much time in one burst,
/// and skips the rest.
pub const MAX_CATCH_UP: Duration = Duration::from_millis(50);

/// Payload of a full block: `block_bytes` without the header, and at a limited rate at most 10 ms of it.
pub fn payload_bytes_per_block(block_bytes: u32, rate_bps: Option<u64>) -> usize {
    let most = (block_bytes as usize).saturating_sub(HEADER_BYTES).max(1);
    match rate_bps {
        None => most,
        Some(rate) => {
            let within_time = u128::from(rate) * MAX_BLOCK_TIME.as_nanos() / 8_000_000_000;
            most.min(usize::try_from(within_time).unwrap_or(usize::MAX).max(MIN_PAYLOAD_BYTES))
        }
    }
}

/// A DATA frame that is written repeatedly: space for the header, then pseudo-random payload without a zero byte, so
/// that neither a compressing link nor a zero-page optimisation makes the test easier than real data.
#[derive(Debug, Clone)]
pub struct DataBlock {
    pub bytes: Vec<u8>,
}

impl DataBlock {
    pub fn new(payload_bytes: usize) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.reserve_exact(payload_bytes);
        // xorshift64 (Marsaglia 2003), fixed seed: both ends of a comparison send the same bytes.
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        while bytes.len() < HEADER_BYTES + payload_bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push(((state >> 32) as u8).max(1));
        }
        Self { bytes }
    }

    pub fn set_header(&mut self, header: [u8; HEADER_BYTES]) {
        self.bytes[..HEADER_BYTES].copy_from_slice(&header);
    }

    /// The bytes of a frame from `from`, at most until `until`: the payload repeats where the frame is longer than the block.
    pub fn piece(&self, from: usize, until: usize) -> &[u8] {
        let payload = self.bytes.len() - HEADER_BYTES;
        let begin = if from < HEADER_BYTES || payload == 0 {
            from
        } else {
            HEADER_BYTES + (from - HEADER_BYTES) % payload
        };
        let rest = self.bytes.get(begin..).unwrap_or_default();
        rest.get(..until.saturating_sub(from)).unwrap_or(rest)
    }

    pub fn set_content(&mut self, content: Content, offset: u64, payload_bytes: usize) {
        if let Some(payload) = self.bytes.get_mut(HEADER_BYTES..HEADER_BYTES + payload_bytes) {
            content.fill(offset, payload);
        }
    }
}

/// Schedule of a rate-limited stream in absolute time: byte `n` is due `n / rate` after the start. Rounding and late
/// wake-ups therefore never accumulate to a drift.
#[derive(Debug, Clone)]
pub struct SendSchedule {
    rate_bps: u64,
    origin: Timestamp,
    scheduled: u64,
}

impl SendSchedule {
    /// A schedule of `rate_bps` (not zero) whose first byte is due at `origin`.
    pub fn new(rate_bps: u64, origin: Timestamp) -> Self {
        Self { rate_bps: rate_bps.max(1), origin, scheduled: 0 }
    }

    /// Whether the next byte is due at `now`; if not, the error is its due time.
    pub fn ready(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        let nanos = u128::from(self.scheduled) * 8_000_000_000 / u128::from(self.rate_bps);
        let due = self.origin + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        if now < due {
            return Err(due);
        }
        let behind = now.duration_since(due);
        if behind > MAX_CATCH_UP {
            self.origin = self.origin + behind.saturating_sub(MAX_CATCH_UP);
        }
        Ok(())
    }

    pub const fn book(&mut self, bytes: u64) {
        self.scheduled += bytes;
    }
}

#[derive(Debug, Clone, Copy)]
pub struct SendPlan {
    pub amount: Amount,
    /// Warm-up; a test by time lasts this much longer.
    pub omit: Duration,
    pub rate_bps: Option<u64>,
    pub block_bytes: u32,
    /// The sender's own limit of the payload, independent of the request.
    pub ceiling_bytes: Option<u64>,
    pub patience: Duration,
    /// Frames grow up to this length while the stream is fast; `block_bytes` or less: never.
    pub largest_frame_bytes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderStep {
    /// Write `from..until` of the block with the header `header`; `offset` is the offset of the block's first payload
    /// byte in the stream.
    Write {
        header: [u8; HEADER_BYTES],
        from: usize,
        until: usize,
        offset: u64,
    },
    WaitUntil(Timestamp),
    Finished,
}

/// Decides what one stream writes and when, and records the bytes that its socket accepted (`offered`).
///
/// *Progress* of a sender is a byte that its socket accepted or that the peer's kernel acknowledged while there is data
/// to write. Waiting for the rate limit does not count as lack of progress.
#[derive(Debug)]
pub struct SendCore {
    plan: SendPlan,
    pub payload_per_block: usize,
    /// Payload of the next frame, and the time when the current one began.
    frame_payload: usize,
    frame_begun: Timestamp,
    schedule: Option<SendSchedule>,
    /// End of a test by time; set by the first step.
    deadline: Option<Timestamp>,
    /// The block being written: accepted bytes and length, header included.
    block: Option<(usize, usize)>,
    begun: u64,
    cut_short: bool,
    pub meter: Meter,
}

impl SendCore {
    pub fn new(plan: SendPlan, origin: Timestamp) -> Self {
        let payload_per_block = payload_bytes_per_block(plan.block_bytes, plan.rate_bps);
        Self {
            plan,
            payload_per_block,
            frame_payload: payload_per_block,
            frame_begun: origin,
            schedule: None,
            deadline: None,
            block: None,
            begun: 0,
            cut_short: false,
            meter: Meter::new(origin, plan.patience),
        }
    }

    /// The next step at `now`. The first call starts the test on this stream.
    pub fn next(&mut self, now: Timestamp) -> SenderStep {
        if self.meter.last_progress.is_none() {
            self.start(now);
        }
        if let Some((from, until)) = self.block {
            return self.write(from, until);
        }
        let Some(payload) = self.next_payload(now) else { return SenderStep::Finished };
        if let Some(schedule) = &mut self.schedule {
            if let Err(due) = schedule.ready(now) {
                // At most until the end of the test, so that END is not delayed by a block's time.
                return SenderStep::WaitUntil(self.deadline.map_or(due, |deadline| due.min(deadline)));
            }
            schedule.book(payload);
        }
        self.begun += payload;
        self.frame_begun = now;
        self.meter.begin_write(now);
        self.meter.progressed(now);
        let until = HEADER_BYTES + payload as usize;
        self.block = Some((0, until));
        self.write(0, until)
    }

    pub fn accepted(&mut self, now: Timestamp, count: usize) {
        let Some((from, until)) = self.block else { return };
        let reached = (from + count).min(until);
        let payload = reached.saturating_sub(HEADER_BYTES) - from.saturating_sub(HEADER_BYTES);
        self.meter.sent(now, payload as u64);
        self.block = if reached < until { Some((reached, until)) } else { None };
        if self.block.is_none() {
            let is_fast = now.duration_since(self.frame_begun) < FAST_FRAME_TIME;
            let payload = if is_fast { self.frame_payload * 2 } else { self.frame_payload / 2 };
            self.frame_payload = payload.clamp(self.payload_per_block, self.largest_payload());
        }
        if count > 0 {
            self.meter.progressed(now);
        }
    }

    pub fn end(&self) -> EndFrame {
        self.meter.end(self.cut_short)
    }

    /// Payload of the largest frame.
    pub fn largest_payload(&self) -> usize {
        (self.plan.largest_frame_bytes as usize).saturating_sub(HEADER_BYTES).max(self.payload_per_block)
    }

    fn start(&mut self, now: Timestamp) {
        self.meter.progressed(now);
        self.schedule = self.plan.rate_bps.map(|rate| SendSchedule::new(rate, now));
        if let Amount::Duration(duration) = self.plan.amount {
            self.deadline = Some(now + self.plan.omit + duration);
        }
    }

    /// Payload of the block to begin at `now`; `None` when everything has been sent.
    fn next_payload(&mut self, now: Timestamp) -> Option<u64> {
        let mut payload = self.frame_payload as u64;
        if let Amount::Bytes(bytes) = self.plan.amount {
            payload = payload.min(bytes - self.begun);
        }
        if self.deadline.is_some_and(|deadline| now >= deadline) || payload == 0 {
            return None;
        }
        if let Some(ceiling) = self.plan.ceiling_bytes {
            payload = payload.min(ceiling - self.begun);
            self.cut_short = payload == 0;
        }
        (payload > 0).then_some(payload)
    }

    fn write(&self, from: usize, until: usize) -> SenderStep {
        let payload = until - HEADER_BYTES;
        // The current block is the last one begun.
        SenderStep::Write {
            header: data_header(payload as u32),
            from,
            until,
            offset: self.begun - payload as u64,
        }
    }
}

/// The beginning of the message about wrong content, in the records of both ends.
pub(crate) const ALTERED: &str = "the received data differs from the sent data";

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReceiveFault {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("the peer sent {kind} in the middle of the test data")]
    Unexpected { kind: FrameKind },
    #[error("the peer ended the test: {0}")]
    Refused(TestRefusal),
    #[error("{}: byte {offset} of the stream is wrong", ALTERED)]
    Content { offset: u64 },
    #[error(transparent)]
    Message(#[from] MessageFault),
    #[error("the peer sent more than the {limit} bytes that this end accepts in one test")]
    Excess { limit: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumedBytes {
    /// Bytes that belong to the test data; the rest follows END.
    pub consumed: usize,
    pub ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverStep {
    Receive {
        most: usize,
    },
    /// Discard payload of the current DATA frame.
    Discard {
        most: usize,
    },
}

/// Turns received bytes into deliveries and detects the end of the data.
///
/// *Progress* of a receiver is a received byte. Before END, a silence longer than its patience ends the test.
#[derive(Debug)]
pub struct ReceiveCore {
    ceiling: Option<u64>,
    content: Option<Content>,
    /// Whether payload is discarded in the kernel instead of being received.
    pub discards: bool,
    pub end: Option<EndFrame>,
    pub meter: Meter,
}

impl ReceiveCore {
    /// A core that accepts at most `ceiling` bytes and compares them with `content`.
    pub fn new(
        origin: Timestamp,
        patience: Duration,
        ceiling: Option<u64>,
        content: Option<Content>,
    ) -> Self {
        Self { ceiling, content, discards: false, end: None, meter: Meter::new(origin, patience) }
    }

    /// A core whose payload is discarded in the kernel and only counted.
    pub fn with_discard(origin: Timestamp, patience: Duration, ceiling: Option<u64>) -> Self {
        Self { discards: true, ..Self::new(origin, patience, ceiling, None) }
    }

    /// The next bytes to receive, at most `most`; headers and control frames are received exactly.
    pub fn next(&self, decoder: &Decoder, most: usize) -> ReceiverStep {
        if !self.discards {
            return ReceiverStep::Receive { most };
        }
        match decoder.payload_left() {
            0 => ReceiverStep::Receive { most: most.min(HEADER_BYTES) },
            left => {
                // One byte beyond the limit shows that the peer exceeds it.
                let limit = self.ceiling.unwrap_or(u64::MAX).saturating_sub(self.meter.received_bytes);
                let most = (left.min(most) as u64).min(MOST_DISCARDED_BYTES).min(limit.saturating_add(1));
                ReceiverStep::Discard { most: most as usize }
            }
        }
    }

    /// Counts bytes that were discarded after [`ReceiverStep::Discard`].
    pub fn discarded(
        &mut self,
        now: Timestamp,
        decoder: &mut Decoder,
        count: usize,
    ) -> Result<(), ReceiveFault> {
        let payload = decoder.skip_payload(count);
        self.meter.received(now, payload as u64);
        self.meter.progressed(now);
        self.check_ceiling()
    }

    fn check_ceiling(&self) -> Result<(), ReceiveFault> {
        match self.ceiling {
            Some(limit) if self.meter.received_bytes > limit => Err(ReceiveFault::Excess { limit }),
            _ => Ok(()),
        }
    }

    /// Takes received bytes up to END; no other frame may be among the data.
    pub fn take(
        &mut self,
        now: Timestamp,
        decoder: &mut Decoder,
        input: &[u8],
    ) -> Result<ConsumedBytes, ReceiveFault> {
        let unexpected = |frame: ControlFrame| Err(ReceiveFault::Unexpected { kind: frame.kind() });
        self.take_with(now, decoder, input, unexpected)
    }

    /// Takes received bytes up to END, and passes the other frames among the data to `on_frame`.
    pub fn take_with(
        &mut self,
        now: Timestamp,
        decoder: &mut Decoder,
        input: &[u8],
        on_frame: impl FnMut(ControlFrame) -> Result<(), ReceiveFault>,
    ) -> Result<ConsumedBytes, ReceiveFault> {
        let mut received = self.meter.received_bytes;
        let result = self.decode(decoder, input, &mut received, on_frame);
        self.meter.received(now, received - self.meter.received_bytes);
        self.meter.progressed(now);
        let taken = result?;
        self.check_ceiling().map(|()| taken)
    }

    fn decode(
        &mut self,
        decoder: &mut Decoder,
        input: &[u8],
        received: &mut u64,
        mut on_frame: impl FnMut(ControlFrame) -> Result<(), ReceiveFault>,
    ) -> Result<ConsumedBytes, ReceiveFault> {
        let mut consumed = 0;
        while consumed < input.len() {
            let (count, event) = decoder.decode(&input[consumed..])?;
            consumed += count;
            match event {
                None => {}
                Some(DecodedEvent::Payload(run)) => {
                    let payload = &input[consumed - run..consumed];
                    let wrong = self.content.and_then(|content| content.first_difference(*received, payload));
                    // Only correct bytes count as delivered.
                    *received = wrong.unwrap_or(*received + run as u64);
                    if let Some(offset) = wrong {
                        return Err(ReceiveFault::Content { offset });
                    }
                }
                Some(DecodedEvent::Frame(ControlFrame::End(end))) => {
                    self.end = Some(end);
                    return Ok(ConsumedBytes { consumed, ended: true });
                }
                Some(DecodedEvent::Frame(ControlFrame::Refuse(refusal))) => {
                    return Err(ReceiveFault::Refused(refusal));
                }
                Some(DecodedEvent::Frame(frame)) => on_frame(frame)?,
            }
        }
        Ok(ConsumedBytes { consumed, ended: false })
    }

    /// Time of silence, once it exceeds the patience before END.
    pub fn hung(&self, now: Timestamp) -> Option<Duration> {
        self.meter.hung(now).filter(|_| self.end.is_none())
    }
}
