//! The receiving end of one stream.

use crate::content::Content;
use crate::protocol::{DecodeError, Decoder, End, Event, Frame, FrameKind, Refusal};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::time::Timestamp;
use std::time::Duration;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReceiveFault {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("the peer sent {kind} in the middle of the test data")]
    Unexpected { kind: FrameKind },
    #[error("the peer ended the test: {0}")]
    Refused(Refusal),
    #[error("the data received is not what was sent: byte {offset} of the stream is wrong")]
    Content {
        /// Its place, from 0.
        offset: u64,
    },
    #[error("the peer sent more than the {limit} bytes that this end takes in one test")]
    Excess { limit: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Bytes that belong to the test data; the rest comes after END.
    pub consumed: usize,
    pub ended: bool,
}

/// Turns received bytes into deliveries, and knows when the data is complete.
///
/// *Progress* of a receiver is a byte received; before END, silence longer than its patience ends the test.
#[derive(Debug)]
pub struct ReceiveCore {
    ceiling: Option<u64>,
    patience: Duration,
    received: u64,
    content: Option<Content>,
    end: Option<End>,
    last_progress: Option<Timestamp>,
    deliveries: DeliverySeries,
}

impl ReceiveCore {
    pub fn new(origin: Timestamp, patience: Duration, ceiling: Option<u64>) -> Self {
        Self {
            ceiling,
            patience,
            received: 0,
            content: None,
            end: None,
            last_progress: None,
            deliveries: DeliverySeries::starting_at(origin),
        }
    }

    pub const fn verifying(mut self, content: Content) -> Self {
        self.content = Some(content);
        self
    }

    /// The test begins: silence counts from now on.
    pub const fn begin(&mut self, now: Timestamp) {
        self.last_progress = Some(now);
    }

    pub fn take(
        &mut self,
        now: Timestamp,
        decoder: &mut Decoder,
        input: &[u8],
    ) -> Result<Taken, ReceiveFault> {
        let before = self.received;
        let result = self.decode(decoder, input);
        self.deliveries.record(now, self.received - before);
        self.last_progress = Some(now);
        let taken = result?;
        match self.ceiling {
            Some(limit) if self.received > limit => Err(ReceiveFault::Excess { limit }),
            _ => Ok(taken),
        }
    }

    fn decode(&mut self, decoder: &mut Decoder, input: &[u8]) -> Result<Taken, ReceiveFault> {
        let mut consumed = 0;
        while consumed < input.len() {
            let (count, event) = decoder.decode(&input[consumed..])?;
            consumed += count;
            match event {
                None => {}
                Some(Event::Payload(run)) => self.take_payload(&input[consumed - run..consumed])?,
                Some(Event::Frame(Frame::End(end))) => {
                    self.end = Some(end);
                    return Ok(Taken { consumed, ended: true });
                }
                Some(Event::Frame(Frame::Refuse(refusal))) => return Err(ReceiveFault::Refused(refusal)),
                Some(Event::Frame(frame)) => return Err(ReceiveFault::Unexpected { kind: frame.kind() }),
            }
        }
        Ok(Taken { consumed, ended: false })
    }

    fn take_payload(&mut self, payload: &[u8]) -> Result<(), ReceiveFault> {
        if let Some(content) = self.content
            && let Some(offset) = content.first_difference(self.received, payload)
        {
            // Only what is right was delivered.
            self.received = offset;
            return Err(ReceiveFault::Content { offset });
        }
        self.received += payload.len() as u64;
        Ok(())
    }

    /// This end itself waited for `time` and received nothing: that is no silence of the peer.
    pub fn excuse(&mut self, time: Duration) {
        self.last_progress = self.last_progress.map(|last| last + time);
    }

    /// How long there was silence, once that exceeds the patience and END has not come.
    pub fn hung(&self, now: Timestamp) -> Option<Duration> {
        if self.end.is_some() {
            return None;
        }
        let silence = now.since(self.last_progress?);
        (silence >= self.patience).then_some(silence)
    }

    /// When there last was progress; `None` before the test begins.
    pub const fn last_progress(&self) -> Option<Timestamp> {
        self.last_progress
    }

    pub const fn received_bytes(&self) -> u64 {
        self.received
    }

    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether END came, not cut short, and exactly the bytes it speaks of.
    pub fn is_complete(&self) -> bool {
        self.end.is_some_and(|end| !end.cut_short && end.bytes == self.received)
    }

    pub const fn deliveries(&self) -> &DeliverySeries {
        &self.deliveries
    }
}
