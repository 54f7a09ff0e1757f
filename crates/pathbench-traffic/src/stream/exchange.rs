//! The run of a stream: its data, and the confirmation of the received bytes.

use super::channel::StreamChannel;
use super::error::StreamError;
use super::state::{FirstByte, TestStream};
use super::work::Work;
use super::{datagrams, dialogue, load, transfer};
use crate::meter::Wait;
use crate::protocol::{ControlFrame, EndFrame, FrameKind};
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use pathbench_transport::lock;

impl TestStream {
    /// Exchanges the data and its confirmation by both ends, at a client after the server's START. The thread that first
    /// sends or receives a byte calls `on_first_byte`, once. After an error, the connection is not usable.
    pub(crate) fn run(
        &self,
        channel: &mut StreamChannel<'_>,
        on_first_byte: FirstByte<'_>,
    ) -> Result<(), StreamError> {
        let clock = channel.clock;
        let begun = clock.now();
        // Each stream by itself: one whose START was lost does not hold up the others.
        let started = match self.plan.side {
            Side::Client => {
                let mut wait = Wait::with_timeout(begun, self.plan.patience, "start the stream");
                channel.expect(&ControlFrame::Start, &mut wait)
            }
            Side::Server => Ok(()),
        };
        let exchanged =
            started.and_then(|()| self.measure_cpu(clock, || self.exchange(channel, on_first_byte)));
        let result = exchanged.and_then(|()| self.confirm(channel));
        *lock(&self.confirmed) = result.is_ok().then(|| clock.now());
        if let Err(error) = &result {
            let silence = clock.now().duration_since(self.work.last_progress().unwrap_or(begun));
            *lock(&self.failure) = Some((error.line(), silence));
        }
        self.end_membership();
        result
    }

    fn exchange(
        &self,
        channel: &mut StreamChannel<'_>,
        on_first_byte: FirstByte<'_>,
    ) -> Result<(), StreamError> {
        match &self.work {
            Work::Transfer { sending, receiving } => {
                transfer::exchange(self, sending.as_deref(), receiving.as_deref(), channel, on_first_byte)
            }
            Work::Load(load) => load::exchange(self, load, channel, on_first_byte),
            Work::Ping(core) => dialogue::ping(self, core, channel, on_first_byte),
            Work::Interactive(core) => dialogue::interactive(self, core, channel, on_first_byte),
            Work::Respond(core) => dialogue::respond(self, core, channel, on_first_byte),
            Work::Datagrams(work) => datagrams::exchange(self, work, channel, on_first_byte),
        }
    }

    fn confirm(&self, channel: &mut StreamChannel<'_>) -> Result<(), StreamError> {
        match &self.work {
            // Datagrams may be lost; their exchange ends with DONE in both directions.
            Work::Datagrams(_) => Ok(()),
            Work::Transfer { sending, receiving } => {
                if let Some(core) = receiving {
                    let core = lock(core);
                    let (received, end) = (core.meter.received_bytes, core.end);
                    drop(core);
                    self.confirm_received(channel, received, end)?;
                }
                let Some(core) = sending else { return Ok(()) };
                let end = lock(core).end();
                self.await_confirmation(channel, end, |_, frame| {
                    Err(StreamError::from_unexpected(FrameKind::Done, frame))
                })
            }
            Work::Load(load) => {
                let core = lock(&load.core);
                let (received, end, own_end) =
                    (core.receiving.meter.received_bytes, core.receiving.end, core.own_end());
                drop(core);
                self.confirm_received(channel, received, end)?;
                self.await_confirmation(channel, own_end, |_, frame| {
                    Err(StreamError::from_unexpected(FrameKind::Done, frame))
                })
            }
            Work::Respond(core) => {
                let core = lock(core);
                let (received, end) = (core.meter.received_bytes, core.end);
                drop(core);
                self.confirm_received(channel, received, end)
            }
            Work::Ping(core) => {
                let end = lock(core).meter.end(false);
                self.await_confirmation(channel, end, |at, frame| Ok(lock(core).take(at, frame)?))
            }
            Work::Interactive(core) => {
                let end = lock(core).meter.end(false);
                self.await_confirmation(channel, end, |at, frame| Ok(lock(core).take(at, frame)?))
            }
        }
    }

    fn confirm_received(
        &self,
        channel: &mut StreamChannel<'_>,
        received: u64,
        end: Option<EndFrame>,
    ) -> Result<(), StreamError> {
        channel.write(&ControlFrame::Done { bytes: received }, &mut self.wait(channel.clock))?;
        complete(end.unwrap_or_default(), received)
    }

    /// Waits for DONE; `late` handles frames that arrive before it.
    fn await_confirmation(
        &self,
        channel: &mut StreamChannel<'_>,
        end: EndFrame,
        mut late: impl FnMut(Timestamp, ControlFrame) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        let mut wait = self.wait(channel.clock);
        loop {
            match channel.frame(&mut wait)? {
                ControlFrame::Done { bytes } => return complete(end, bytes),
                frame => late(channel.clock.now(), frame)?,
            }
        }
    }
}

const fn complete(end: EndFrame, received: u64) -> Result<(), StreamError> {
    let EndFrame { bytes: sent, cut_short, .. } = end;
    if end.is_complete(received) {
        Ok(())
    } else {
        Err(StreamError::Incomplete { sent, received, cut_short })
    }
}
