//! The incremental decoder: bytes in any segmentation in, frames and lengths of test data out.

use super::format::{DecodeError, FrameKind, HEADER_BYTES};
use super::frame::ControlFrame;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodedEvent {
    /// Length of DATA payload: the last bytes of the consumed input. One DATA frame may give several events.
    Payload(usize),
    Frame(ControlFrame),
}

/// Decodes one direction of a connection.
///
/// Memory: at most the body of one control frame. It grows with the received bytes, up to the bound of the frame's kind
/// or of [`Decoder::set_body_limit`]. DATA payload is only counted.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    body_limit: usize,
}

#[derive(Debug)]
enum State {
    Header { bytes: [u8; HEADER_BYTES], filled: usize },
    Payload { left: usize },
    Body { kind: FrameKind, flags: u8, length: usize, bytes: Vec<u8> },
    Failed(DecodeError),
}

impl State {
    const START: Self = Self::Header { bytes: [0; HEADER_BYTES], filled: 0 };
}

/// Initial capacity of a body's buffer; it grows only with received bytes.
const FIRST_BODY_BYTES: usize = 4 * 1024;

impl Decoder {
    /// A decoder at the start of a connection that accepts control bodies of up to `body_limit` bytes.
    pub const fn new(body_limit: usize) -> Self {
        Self { state: State::START, body_limit }
    }

    /// Changes the largest control body from the next header on.
    pub const fn set_body_limit(&mut self, body_limit: usize) {
        self.body_limit = body_limit;
    }

    pub const fn at_frame_boundary(&self) -> bool {
        matches!(self.state, State::Header { filled: 0, .. })
    }

    /// Bytes of the DATA frame whose header was decoded that have not arrived yet; 0 outside of DATA.
    pub const fn payload_left(&self) -> usize {
        match self.state {
            State::Payload { left } => left,
            _ => 0,
        }
    }

    /// Counts up to [`Decoder::payload_left`] bytes of DATA that the receiver has discarded; returns their number.
    pub fn skip_payload(&mut self, count: usize) -> usize {
        let State::Payload { left } = &mut self.state else { return 0 };
        let skipped = count.min(*left);
        *left -= skipped;
        if *left == 0 {
            self.state = State::START;
        }
        skipped
    }

    /// Decodes the next bytes of the connection. Returns the number of consumed bytes and the event that they complete.
    ///
    /// With `None`, all of `input` was consumed. Otherwise call again with the remaining bytes.
    ///
    /// Errors: at the first byte that violates the protocol; each later call returns the same error.
    pub fn decode(&mut self, input: &[u8]) -> Result<(usize, Option<DecodedEvent>), DecodeError> {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            match &mut self.state {
                State::Failed(error) => return Err(error.clone()),
                State::Payload { left } => {
                    let run = rest.len().min(*left);
                    *left -= run;
                    if *left == 0 {
                        self.state = State::START;
                    }
                    let event = if run == 0 { None } else { Some(DecodedEvent::Payload(run)) };
                    return Ok((consumed + run, event));
                }
                State::Header { bytes, filled } => {
                    let count = rest.len().min(HEADER_BYTES - *filled);
                    bytes[*filled..*filled + count].copy_from_slice(&rest[..count]);
                    *filled += count;
                    consumed += count;
                    if *filled < HEADER_BYTES {
                        return Ok((consumed, None));
                    }
                    let header = *bytes;
                    self.state = self.begin_body(header).map_err(|error| self.fail(error))?;
                }
                State::Body { kind, flags, length, bytes } => {
                    let count = rest.len().min(*length - bytes.len());
                    bytes.extend_from_slice(&rest[..count]);
                    consumed += count;
                    if bytes.len() < *length {
                        return Ok((consumed, None));
                    }
                    let (kind, flags, body) = (*kind, *flags, std::mem::take(bytes));
                    self.state = State::START;
                    let frame = ControlFrame::parse(kind, flags, body).map_err(|error| self.fail(error))?;
                    return Ok((consumed, Some(DecodedEvent::Frame(frame))));
                }
            }
        }
    }

    fn begin_body(&self, header: [u8; HEADER_BYTES]) -> Result<State, DecodeError> {
        let [code, flags, reserved_0, reserved_1, length @ ..] = header;
        let kind = FrameKind::from_repr(code).ok_or(DecodeError::UnknownType { code })?;
        let (_, body, flags_known) = kind.properties();
        if reserved_0 != 0 || reserved_1 != 0 || flags & !flags_known != 0 {
            return Err(DecodeError::Reserved { kind });
        }
        let length = u32::from_be_bytes(length) as usize;
        let most = if kind == FrameKind::Data { *body.end() } else { self.body_limit.min(*body.end()) };
        let bounds = *body.start()..=most;
        if !bounds.contains(&length) {
            return Err(DecodeError::length(kind, length, &bounds));
        }
        if kind == FrameKind::Data {
            return Ok(State::Payload { left: length });
        }
        let bytes = Vec::with_capacity(length.min(FIRST_BODY_BYTES));
        Ok(State::Body { kind, flags, length, bytes })
    }

    fn fail(&mut self, error: DecodeError) -> DecodeError {
        self.state = State::Failed(error.clone());
        error
    }
}
