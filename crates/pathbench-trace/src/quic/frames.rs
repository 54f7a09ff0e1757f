//! Frames of QUIC packets (RFC 9000, section 19; RFC 9221; draft-ietf-quic-multipath, section 4).

use super::Reader;
use super::header::ConnectionId;

/// A frame, as far as the analysis needs it. `path` is the path id, 0 in frames without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuicFrame<'a> {
    Padding,
    Ping,
    /// ACK and `PATH_ACK`, also those with ECN counts.
    Ack {
        path: u64,
        largest: u64,
        delay: u64,
        first_range: u64,
    },
    Crypto {
        offset: u64,
        data: &'a [u8],
    },
    Stream {
        id: u64,
        offset: u64,
        length: u64,
        fin: bool,
    },
    Datagram {
        length: u64,
    },
    /// `NEW_CONNECTION_ID` and `PATH_NEW_CONNECTION_ID`.
    NewConnectionId {
        path: u64,
        id: ConnectionId,
    },
    PathChallenge,
    PathResponse,
    PathAbandon {
        path: u64,
        error: u64,
    },
    PathStatus {
        path: u64,
        backup: bool,
    },
    ConnectionClose {
        error: u64,
        application: bool,
    },
    HandshakeDone,
    /// A frame that changes no figure: `MAX_DATA`, `RETIRE_CONNECTION_ID`, ….
    Other {
        kind: u64,
    },
}

/// The frames of a packet, to the first of an unknown type or with damaged fields.
#[derive(Debug, Clone)]
pub struct QuicFrames<'a> {
    reader: Reader<'a>,
    complete: bool,
}

impl<'a> QuicFrames<'a> {
    pub fn new(payload: &'a [u8]) -> Self {
        Self { reader: Reader(payload), complete: true }
    }

    /// No frame of an unknown type or with damaged fields was met.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

impl<'a> Iterator for QuicFrames<'a> {
    type Item = QuicFrame<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let frame = read(&mut self.reader);
        if frame.is_none() {
            self.complete = false;
            self.reader = Reader(&[]);
        }
        frame
    }
}

fn read<'a>(reader: &mut Reader<'a>) -> Option<QuicFrame<'a>> {
    let kind = reader.varint()?;
    Some(match kind {
        0x00 => {
            let padding = reader.0.iter().take_while(|&&byte| byte == 0).count();
            reader.take(padding)?;
            QuicFrame::Padding
        }
        0x01 => QuicFrame::Ping,
        0x02 | 0x03 => ack(reader, 0, kind == 0x03)?,
        0x3e | 0x3f => {
            let path = reader.varint()?;
            ack(reader, path, kind == 0x3f)?
        }
        0x06 => QuicFrame::Crypto { offset: reader.varint()?, data: reader.varint_bytes()? },
        0x08..=0x0f => stream(reader, kind)?,
        0x18 => new_connection_id(reader, 0)?,
        0x3e78 => {
            let path = reader.varint()?;
            new_connection_id(reader, path)?
        }
        0x1a => reader.take(8).map(|_| QuicFrame::PathChallenge)?,
        0x1b => reader.take(8).map(|_| QuicFrame::PathResponse)?,
        0x1c | 0x1d => {
            let error = reader.varint()?;
            if kind == 0x1c {
                reader.varint()?;
            }
            reader.varint_bytes()?;
            QuicFrame::ConnectionClose { error, application: kind == 0x1d }
        }
        0x1e => QuicFrame::HandshakeDone,
        0x30 => QuicFrame::Datagram { length: std::mem::take(&mut reader.0).len() as u64 },
        0x31 => QuicFrame::Datagram { length: reader.varint_bytes()?.len() as u64 },
        0x3e75 => QuicFrame::PathAbandon { path: reader.varint()?, error: reader.varint()? },
        0x3e76 | 0x3e77 => {
            let path = reader.varint()?;
            reader.varint()?;
            QuicFrame::PathStatus { path, backup: kind == 0x3e76 }
        }
        _ => other(reader, kind)?,
    })
}

/// RFC 9000, section 19.3.
fn ack<'a>(reader: &mut Reader<'a>, path: u64, ecn: bool) -> Option<QuicFrame<'a>> {
    let (largest, delay) = (reader.varint()?, reader.varint()?);
    let ranges = reader.varint()?;
    let first_range = reader.varint()?;
    // A count beyond the payload ends at the end of the payload.
    for _ in 0..ranges {
        reader.varint()?;
        reader.varint()?;
    }
    if ecn {
        skip_varints(reader, 3)?;
    }
    Some(QuicFrame::Ack { path, largest, delay, first_range })
}

/// RFC 9000, section 19.8.
fn stream<'a>(reader: &mut Reader<'a>, kind: u64) -> Option<QuicFrame<'a>> {
    let id = reader.varint()?;
    let offset = if kind & 4 != 0 { reader.varint()? } else { 0 };
    let data = if kind & 2 != 0 { reader.varint_bytes()? } else { std::mem::take(&mut reader.0) };
    Some(QuicFrame::Stream { id, offset, length: data.len() as u64, fin: kind & 1 != 0 })
}

/// RFC 9000, section 19.15, from the sequence number on.
fn new_connection_id<'a>(reader: &mut Reader<'a>, path: u64) -> Option<QuicFrame<'a>> {
    skip_varints(reader, 2)?;
    let id = ConnectionId::new(reader.u8_bytes()?)?;
    reader.take(16)?;
    Some(QuicFrame::NewConnectionId { path, id })
}

/// Frames of which only the length matters.
fn other<'a>(reader: &mut Reader<'a>, kind: u64) -> Option<QuicFrame<'a>> {
    match kind {
        // RESET_STREAM.
        0x04 => skip_varints(reader, 3)?,
        // STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED, PATH_RETIRE_CONNECTION_ID, PATH_CIDS_BLOCKED.
        0x05 | 0x11 | 0x15 | 0x3e79 | 0x3e7c => skip_varints(reader, 2)?,
        // NEW_TOKEN.
        0x07 => reader.varint_bytes().map(drop)?,
        // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID, MAX_PATH_ID, PATHS_BLOCKED;
        // TIME_STAMP (draft-huitema-quic-ts).
        0x10 | 0x12 | 0x13 | 0x14 | 0x16 | 0x17 | 0x19 | 0x2f5 | 0x3e7a | 0x3e7b => skip_varints(reader, 1)?,
        // IMMEDIATE_ACK and ACK_FREQUENCY (draft-ietf-quic-ack-frequency).
        0x1f => {}
        // With RESET_STREAM_AT (draft-ietf-quic-reliable-stream-reset).
        0xaf | 0x24 => skip_varints(reader, 4)?,
        // BDP (draft-kuhn-quic-0rtt-bdp): lifetime, capacity, RTT, address.
        0xebd9 => {
            skip_varints(reader, 3)?;
            reader.varint_bytes()?;
        }
        // OBSERVED_ADDRESS (draft-ietf-quic-address-discovery): sequence number, address, port.
        0x9f_81a6 | 0x9f_81a7 => {
            reader.varint()?;
            reader.take(if kind == 0x9f_81a6 { 6 } else { 18 })?;
        }
        _ => return None,
    }
    Some(QuicFrame::Other { kind })
}

fn skip_varints(reader: &mut Reader<'_>, count: usize) -> Option<()> {
    (0..count).try_for_each(|_| reader.varint().map(drop))
}
