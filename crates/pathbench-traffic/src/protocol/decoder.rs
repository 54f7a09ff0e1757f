//! The incremental decoder: bytes in as they come, frames and runs of test data out.

use super::{DecodeError, Frame, FrameKind, HEADER_BYTES};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// This many bytes of DATA payload: the last ones of the consumed input. One DATA frame may give several.
    Payload(usize),
    Frame(Frame),
}

/// Decodes one direction of a connection.
///
/// Memory: at most the body of one control frame, which grows with the bytes that really arrive and never
/// beyond the bound of the frame's kind or [`Decoder::set_body_limit`]. DATA payload is only counted.
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

/// What a body's buffer starts with; more only once the peer has sent that much.
const FIRST_BODY_BYTES: usize = 4 * 1024;

impl Decoder {
    /// A decoder at the start of a connection that takes control bodies of up to `body_limit` bytes.
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

    /// Takes the next bytes of the connection: returns how many were consumed and what they completed.
    ///
    /// With `None` all of `input` was consumed. Otherwise call again with the rest.
    ///
    /// [`DecodeError`] at the first byte that cannot be the protocol; the same error again ever after.
    pub fn decode(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), DecodeError> {
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
                    let event = if run == 0 { None } else { Some(Event::Payload(run)) };
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
                    let frame = Frame::parse(kind, flags, body).map_err(|error| self.fail(error))?;
                    return Ok((consumed, Some(Event::Frame(frame))));
                }
            }
        }
    }

    fn begin_body(&self, header: [u8; HEADER_BYTES]) -> Result<State, DecodeError> {
        let [code, flags, reserved_0, reserved_1, length @ ..] = header;
        let kind = FrameKind::from_code(code).ok_or(DecodeError::UnknownType { code })?;
        if reserved_0 != 0 || reserved_1 != 0 || flags & !kind.known_flags() != 0 {
            return Err(DecodeError::Reserved { kind });
        }
        let length = u32::from_be_bytes(length) as usize;
        let (least, mut most) = kind.body_bounds();
        if kind == FrameKind::Data {
            return if (least..=most).contains(&length) {
                Ok(State::Payload { left: length })
            } else {
                Err(DecodeError::Length { kind, length: length as u64, least, most })
            };
        }
        most = most.min(self.body_limit);
        if !(least..=most).contains(&length) {
            return Err(DecodeError::Length { kind, length: length as u64, least, most });
        }
        let bytes = Vec::with_capacity(length.min(FIRST_BODY_BYTES));
        Ok(State::Body { kind, flags, length, bytes })
    }

    fn fail(&mut self, error: DecodeError) -> DecodeError {
        self.state = State::Failed(error.clone());
        error
    }
}
