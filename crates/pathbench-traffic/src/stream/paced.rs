//! The calls of one direction of the data phase: within the rate limit of the client, and with bounded silence.

use super::channel::{StreamChannel, TICK};
use super::error::StreamError;
use super::state::TestStream;
use crate::meter::Acknowledgements;
use crate::pacer::{Grant, Pacer};
use crate::protocol::Decoder;
use crate::throughput::ReceiverStep;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::SendError;
use std::time::Duration;

/// Waits for a grant of some of `wanted` bytes, if this end limits the rate; `excuse` receives the time of that wait.
fn await_grant<'a>(
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

/// `excuse` receives this end's own waits; `silence` whether the peer has acknowledged more, and returns the time
/// without progress once it exceeds the patience.
pub(super) struct PacedSender<'a, E, S> {
    stream: &'a TestStream,
    clock: &'a dyn Clock,
    pacer: Option<&'a Pacer>,
    acknowledgements: Option<Acknowledgements>,
    excuse: E,
    silence: S,
}

impl<'a, E: Fn(Duration), S: Fn(Timestamp, bool) -> Option<Duration>> PacedSender<'a, E, S> {
    pub(super) fn new(stream: &'a TestStream, clock: &'a dyn Clock, excuse: E, silence: S) -> Self {
        let pacer = stream.plan.pacers.as_ref().map(|pacers| &pacers.sent);
        Self { stream, clock, pacer, acknowledgements: None, excuse, silence }
    }

    /// Passes up to `wanted` bytes to `write`; returns the accepted ones, or `None` when the socket accepted none within
    /// [`TICK`].
    pub(super) fn send(
        &mut self,
        wanted: usize,
        write: impl FnOnce(usize) -> Result<usize, SendError>,
    ) -> Result<(Timestamp, Option<usize>), StreamError> {
        let grant = await_grant(self.stream, self.clock, self.pacer, wanted, &self.excuse)?;
        let granted = grant.as_ref().map_or(wanted, |grant| grant.bytes.min(wanted));
        match write(granted) {
            Ok(count) => {
                let now = self.clock.now();
                if let Some(grant) = grant {
                    grant.spend(count);
                }
                Ok((now, Some(count)))
            }
            Err(SendError::TimedOut { .. }) => {
                let now = self.clock.now();
                let watch = self.acknowledgements.get_or_insert_with(|| self.stream.acknowledgements());
                let advanced = watch.advanced();
                self.stream.check_silence((self.silence)(now, advanced), "sending")?;
                Ok((now, None))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// As [`PacedSender`].
pub(super) struct PacedReceiver<'a, E, S> {
    stream: &'a TestStream,
    clock: &'a dyn Clock,
    pacer: Option<&'a Pacer>,
    excuse: E,
    silence: S,
}

impl<'a, E: Fn(Duration), S: Fn(Timestamp) -> Option<Duration>> PacedReceiver<'a, E, S> {
    /// Charges the bytes that arrived together with START.
    pub(super) fn new(
        stream: &'a TestStream,
        clock: &'a dyn Clock,
        channel: &mut StreamChannel<'_>,
        (excuse, silence): (E, S),
    ) -> Self {
        channel.prepare_for_data();
        let pacer = stream.plan.pacers.as_ref().map(|pacers| &pacers.received);
        if let Some(pacer) = pacer {
            pacer.charge(clock.now(), channel.unread().0.len());
        }
        Self { stream, clock, pacer, excuse, silence }
    }

    /// Receives into the channel, or discards, as `step` decides for the granted number of bytes. Returns the number of
    /// discarded bytes, or `None` when none arrived within [`TICK`].
    pub(super) fn receive(
        &self,
        channel: &mut StreamChannel<'_>,
        step: impl FnOnce(&Decoder, usize) -> ReceiverStep,
    ) -> Result<(Timestamp, Option<usize>), StreamError> {
        let grant = await_grant(self.stream, self.clock, self.pacer, channel.buffer.len(), &self.excuse)?;
        channel.uncharged = 0;
        let most = grant.as_ref().map_or(usize::MAX, |grant| grant.bytes);
        let came = match step(&channel.decoder, most) {
            ReceiverStep::Discard { most } if !channel.has_unread() => channel.discard(TICK, most)?,
            ReceiverStep::Discard { .. } => Some(0),
            ReceiverStep::Receive { most } => channel.fill(TICK, most)?.then_some(0),
        };
        let now = self.clock.now();
        if let Some(grant) = grant {
            grant.spend(std::mem::take(&mut channel.uncharged));
        }
        if came.is_none() {
            self.stream.check_silence((self.silence)(now), "receiving")?;
            self.stream.check_deadline(now)?;
        }
        Ok((now, came))
    }
}
