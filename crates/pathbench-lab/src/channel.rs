//! Framed JSON messages between the orchestrator and a host agent, over a socket pair.
//!
//! Format: four bytes big-endian length, then that many bytes of JSON. Both ends are this very program,
//! so the format is private and carries no version.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use thiserror::Error;

/// No message is longer; a longer announcement means that the two ends are out of step.
const LONGEST_MESSAGE_BYTES: u32 = 1 << 30;

#[derive(Debug, Error)]
pub enum ChannelError {
    #[error("the other end of the channel closed it")]
    Closed,
    #[error("the channel failed: {0}")]
    Io(#[from] io::Error),
    #[error("the channel carried something that is no message: {0}")]
    Format(#[from] serde_json::Error),
    #[error("the channel announced a message of {0} bytes")]
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

/// Reads one message of a peer that is not trusted with the memory of a longer one.
pub fn receive_at_most<M: DeserializeOwned>(bytes: u32, mut channel: impl Read) -> Result<M, ChannelError> {
    let mut prefix = [0; 4];
    channel.read_exact(&mut prefix).map_err(closed)?;
    let length = u32::from_be_bytes(prefix);
    if length > bytes {
        return Err(ChannelError::TooLong(length));
    }
    let mut body = vec![0; length as usize];
    channel.read_exact(&mut body).map_err(closed)?;
    Ok(serde_json::from_slice(&body)?)
}

fn closed(error: io::Error) -> ChannelError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => ChannelError::Closed,
        _ => ChannelError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_through_whole_and_in_order() {
        let mut bytes = Vec::new();
        send(&mut bytes, &"first").unwrap();
        send(&mut bytes, &vec![1, 2, 3]).unwrap();
        let mut reader = bytes.as_slice();
        assert_eq!(receive::<String>(&mut reader).unwrap(), "first");
        assert_eq!(receive::<Vec<u32>>(&mut reader).unwrap(), [1, 2, 3]);
        assert!(matches!(receive::<String>(&mut reader), Err(ChannelError::Closed)));
    }

    #[test]
    fn an_absurd_length_is_refused_before_anything_is_allocated() {
        let bytes = [0xff, 0xff, 0xff, 0xff, 0];
        assert!(matches!(receive::<String>(bytes.as_slice()), Err(ChannelError::TooLong(u32::MAX))));
    }
}
