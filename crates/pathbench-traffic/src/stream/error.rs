//! Why a stream did not complete.

use crate::messages::MessageFault;
use crate::protocol::{DecodeError, Frame, FrameKind, Refusal};
use crate::record::InvalidRecord;
use crate::throughput::ReceiveFault;
use pathbench_record::text;
use pathbench_transport::{ReceiveError, SamplerError, SendError};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// Why a stream did not complete, in words for the person who ran the test.
#[derive(Debug, Error)]
pub(crate) enum StreamError {
    #[error("the connection to {peer} hung: no progress for {:.1} s while {doing}", .silence.as_secs_f64())]
    Hung { peer: SocketAddr, doing: &'static str, silence: Duration },
    #[error("{peer} did not {task} within {:.1} s", .after.as_secs_f64())]
    TooLate { peer: SocketAddr, task: &'static str, after: Duration },
    #[error("the test was stopped at this end's limit of time")]
    Overtime,
    #[error(transparent)]
    Send(#[from] SendError),
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    #[error("{peer} closed the connection before the test was over")]
    Closed { peer: SocketAddr },
    #[error(transparent)]
    Fault(#[from] ReceiveFault),
    #[error(transparent)]
    Message(#[from] MessageFault),
    #[error(transparent)]
    Protocol(#[from] DecodeError),
    #[error("the peer refused: {0}")]
    Refused(Refusal),
    #[error("the peer sent {found} where {expected} belongs")]
    Unexpected { expected: &'static str, found: String },
    #[error("{}", incomplete(*.sent, *.received, *.cut_short))]
    Incomplete { sent: u64, received: u64, cut_short: bool },
    #[error("the peer's record is not one: {0}")]
    Record(serde_json::Error),
    #[error("the peer's record is not used: {0}")]
    InvalidRecord(#[from] InvalidRecord),
    #[error("preparing to sample the connection: {0}")]
    Telemetry(#[from] io::Error),
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    #[error("starting a thread: {0}")]
    Thread(io::Error),
    #[error("a thread of this test panicked ({message}); please report it")]
    Panic { message: String },
}

fn incomplete(sent: u64, received: u64, cut_short: bool) -> String {
    if cut_short {
        format!("the sender stopped at a limit of its own, after {sent} bytes")
    } else {
        format!("{sent} bytes were sent but {received} were received")
    }
}

/// Characters of an error; some quote what the peer sent.
const MOST_CHARACTERS: usize = 500;

impl StreamError {
    pub(crate) fn line(&self) -> String {
        text::plain(&self.to_string(), MOST_CHARACTERS)
    }

    pub(crate) fn unexpected(expected: &'static str, frame: Frame) -> Self {
        match frame {
            Frame::Refuse(refusal) => Self::Refused(refusal),
            frame => Self::Unexpected { expected, found: frame.kind().to_string() },
        }
    }

    pub(crate) fn unexpected_data(expected: &'static str) -> Self {
        Self::Unexpected { expected, found: FrameKind::Data.to_string() }
    }

    pub(crate) fn is_consequence(&self) -> bool {
        matches!(self, Self::Send(SendError::Aborted { .. }) | Self::Receive(ReceiveError::Aborted { .. }))
    }

    pub(crate) fn may_have_an_explanation(&self) -> bool {
        matches!(self, Self::Send(SendError::Reset { .. }))
    }
}
