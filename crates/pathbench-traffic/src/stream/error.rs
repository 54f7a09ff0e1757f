//! The errors that end a stream.

use super::processor::ProcessorError;
use crate::messages::MessageFault;
use crate::protocol::{ControlFrame, DecodeError, FrameKind, TestRefusal};
use crate::record::InvalidRecord;
use crate::throughput::ReceiveFault;
use pathbench_record::text;
use pathbench_transport::{DatagramUnsent, ReceiveError, SamplerError, SendError};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

#[derive(Debug, Error)]
pub(crate) enum StreamError {
    #[error("the connection to {peer} hung: no progress for {} while {doing}", text::duration(*.silence))]
    Hung { peer: SocketAddr, doing: &'static str, silence: Duration },
    #[error("{peer} did not {task} within {}", text::duration(*.after))]
    TooLate { peer: SocketAddr, task: &'static str, after: Duration },
    #[error("the test exceeded the time limit of this end")]
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
    Refused(TestRefusal),
    #[error("the peer sent {found}; {expected} was expected")]
    Unexpected { expected: &'static str, found: String },
    #[error("{}", incomplete(*.sent, *.received, *.cut_short))]
    Incomplete { sent: u64, received: u64, cut_short: bool },
    #[error("the peer's record is malformed: {0}")]
    Record(serde_json::Error),
    #[error("the peer's record is invalid: {0}")]
    InvalidRecord(#[from] InvalidRecord),
    #[error("preparing to sample the connection: {0}")]
    Telemetry(#[from] io::Error),
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    #[error("making the pages to send: {0}")]
    Pages(io::Error),
    #[error(transparent)]
    Processor(#[from] ProcessorError),
    #[error("starting a thread: {0}")]
    Thread(io::Error),
    #[error("sending datagrams: {0}")]
    Datagram(#[from] DatagramUnsent),
    #[error("this end cannot carry datagrams on this connection")]
    NoDatagrams,
    #[error("a thread of this test panicked ({message}); please report it")]
    Panic { message: String },
}

fn incomplete(sent: u64, received: u64, cut_short: bool) -> String {
    if cut_short {
        format!("the sender stopped at its own limit, after {sent} bytes")
    } else {
        format!("{sent} bytes were sent but {received} were received")
    }
}

const MOST_CHARACTERS: usize = 500;

impl StreamError {
    pub(crate) fn line(&self) -> String {
        text::printable(&self.to_string(), MOST_CHARACTERS)
    }

    pub(crate) fn from_unexpected(expected: FrameKind, frame: ControlFrame) -> Self {
        match frame {
            ControlFrame::Refuse(refusal) => Self::Refused(refusal),
            frame => Self::Unexpected { expected: expected.name(), found: frame.kind().to_string() },
        }
    }

    pub(crate) fn unexpected_data(expected: &'static str) -> Self {
        Self::Unexpected { expected, found: FrameKind::Data.to_string() }
    }

    pub(crate) fn is_consequence(&self) -> bool {
        matches!(self, Self::Send(SendError::Aborted { .. }) | Self::Receive(ReceiveError::Aborted { .. }))
    }
}
