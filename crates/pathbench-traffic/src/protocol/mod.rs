//! The test protocol: how a test travels inside the connection that it measures.
//!
//! One connection is one stream of a test; there is no separate control connection that could die in its
//! place. Every frame is an 8-byte header and a body:
//!
//! ```text
//!  byte 0     1       2..4          4..8                 8..
//!  type     flags   0x0000   length, big-endian u32    body of `length` bytes
//! ```
//!
//! ```text
//! client                                   server
//! HELLO  magic, version, test, stream,  ─►
//!        request as JSON
//!                                       ◄─ ACCEPT, or REFUSE and close
//! START  all streams are accepted       ─►
//! DATA…  END{bytes}        (upload, both)   DATA…  END{bytes}     (download, both)
//! DONE{bytes received}  (download, both)    DONE{bytes received}  (upload, both)
//! close                                 ◄─ RECORD of the server's end of the stream
//! ```
//!
//! The patterns of messages have, in the place of DATA, on each stream in one direction (ping: the client asks;
//! interactive: the client on stream 0, the server on stream 1):
//!
//! ```text
//! MESSAGE{sequence, content}            ─►
//!                                       ◄─ ACKNOWLEDGE{sequence}          (interactive)
//!                                       ◄─ ANSWER{sequence, content}
//! END{bytes of all messages}            ─►
//!                                       ◄─ DONE{bytes received}
//! ```
//!
//! A test that a person ends: the client makes no further request, and in the place of an answer says `STOP` on the
//! stream on which the server asks, which then makes none either (interactive). Both go on to END as ever.
//!
//! On a fresh connection, over any path: `FETCH{test}` ─► `RECORD` of the whole test as the server saw it, `REFUSE`
//! while the test runs, or `NOT_FOUND`. The client's record stays with the client.

mod decoder;
mod error;
mod frame;

pub use decoder::{Decoder, Event};
pub use error::DecodeError;
pub(crate) use frame::record_header;
pub use frame::{End, Fetch, Frame, FrameKind, Hello, Message, Refusal, RefusalCode, data_header};

/// First bytes of the body of HELLO and FETCH.
pub const MAGIC: [u8; 8] = *b"PATHBNCH";

pub const VERSION: u16 = 1;

pub const HEADER_BYTES: usize = 8;

pub const MAX_HELLO_BYTES: usize = 64 * 1024;

/// Largest body of the other small frames (ACCEPT, REFUSE).
pub const MAX_SMALL_BYTES: usize = 4 * 1024;

/// Largest body of DATA; it is never held in memory as a whole by a receiver.
pub const MAX_DATA_BYTES: usize = 16 * 1024 * 1024;
