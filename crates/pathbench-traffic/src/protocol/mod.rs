//! The test protocol, which carries a test inside the connection that it measures.
//!
//! One connection is one stream of a test; there is no separate control connection that could fail while the measured
//! one works. Every frame is an 8-byte header and a body:
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
//!                                       ◄─ START
//! DATA…  END{bytes}        (upload, both)   DATA…  END{bytes}     (download, both)
//! DONE{bytes received}  (download, both)    DONE{bytes received}  (upload, both)
//! close                                 ◄─ RECORD of the server's end of the stream
//! ```
//!
//! The client sends no data before the server's START. If the server's process is in a call on its MPTCP socket when the
//! last packet of a join arrives, Linux 6.18 completes the join at the end of the call, and `mptcp_subflow_joined`
//! (net/mptcp/protocol.c) overwrites the mapping of data that has arrived on the subflow in the meantime: bytes are lost.
//! The first subflows join while the server sends ACCEPT; when it answers START, that call has ended. With TLS they join
//! during the handshake: the client sends the last flight of it and HELLO in one write, so that either both arrive or
//! neither does, and MPTCP sends them again. The server sends no data before it has answered START on every stream: over
//! quic, endless data of one stream would hold back the others.
//!
//! The patterns of messages use these frames instead of DATA, on each stream in one direction (ping: the client makes
//! the requests; interactive: the client on stream 0, the server on stream 1):
//!
//! ```text
//! MESSAGE{sequence, content}            ─►
//!                                       ◄─ ACKNOWLEDGE{sequence}          (interactive)
//!                                       ◄─ ANSWER{sequence, content}
//! END{bytes of all messages}            ─►
//!                                       ◄─ DONE{bytes received}
//! ```
//!
//! When a user ends an interactive test, the client makes no further request and sends `STOP` instead of an answer, so
//! that the server makes no further request either. Both continue with END.
//!
//! On a new connection, over any path: `FETCH{test}` ─► `RECORD` of the server's end of the whole test, `REFUSE` while
//! the test runs, or `NOT_FOUND`. The client's record stays with the client.

mod decoder;
mod format;
mod frame;

pub use decoder::{DecodedEvent, Decoder};
pub use format::{
    DecodeError, FrameKind, HEADER_BYTES, MAGIC, MAX_DATA_BYTES, MAX_HELLO_BYTES, MAX_SMALL_BYTES, VERSION,
};
pub(crate) use frame::header;
pub use frame::{
    ControlFrame, EndFrame, Fetch, HelloFrame, MessageFrame, RefusalCode, RequestError, TestRefusal,
    TestRequest, data_header,
};
