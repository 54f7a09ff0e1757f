//! Framed JSON messages between the orchestrator and a host agent, over a socket pair.
//!
//! Format: the length (four bytes, big-endian), then the JSON text of that length. Both ends are the same program, so
//! the format is private and has no version.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use thiserror::Error;

/// Maximum length of a message; a larger length field means that the framing is lost.
const LONGEST_MESSAGE_BYTES: u32 = 1 << 30;

#[derive(Debug, Error)]
pub enum ChannelError {
    #[error("the other end of the channel closed it")]
    Closed,
    #[error("the channel failed: {0}")]
    Io(#[from] io::Error),
    #[error("the channel carried data that is not a message: {0}")]
    Format(#[from] serde_json::Error),
    #[error("the channel's length field announces a message of {0} bytes")]
    TooLong(u32),
}

pub fn send<M: Serialize>(mut channel: impl Write, message: &M) -> Result<(), ChannelError> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    if length > LONGEST_MESSAGE_BYTES {
        return Err(ChannelError::TooLong(length));
    }
    frame[..4].copy_from_slice(&length.to_be_bytes());
    channel.write_all(&frame).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ChannelError::Closed,
        _ => ChannelError::Io(error),
    })
}

pub fn receive<M: DeserializeOwned>(channel: impl Read) -> Result<M, ChannelError> {
    receive_at_most(LONGEST_MESSAGE_BYTES, channel)
}

/// Reads one message from an untrusted peer, limited to `bytes` of memory.
pub fn receive_at_most<M: DeserializeOwned>(bytes: u32, mut channel: impl Read) -> Result<M, ChannelError> {
    let mut prefix = [0; 4];
    channel.read_exact(&mut prefix).map_err(channel_error)?;
    let length = u32::from_be_bytes(prefix);
    if length > bytes {
        return Err(ChannelError::TooLong(length));
    }
    let mut body = vec![0; length as usize];
    channel.read_exact(&mut body).map_err(channel_error)?;
    Ok(serde_json::from_slice(&body)?)
}

fn channel_error(error: io::Error) -> ChannelError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => ChannelError::Closed,
        _ => ChannelError::Io(error),
    }
}
