//! The client: opens the streams of a test, runs it, and comes back with both ends' records.

mod fetch;
mod news;
mod run;

pub use fetch::{FetchError, FetchPlan, fetch_record};
pub use news::News;
pub use run::run_client;

use crate::protocol::RefusalCode;
use pathbench_record::document::UnreachableBecause;
use pathbench_record::end::EndRecord;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::test_id::TestId;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_transport::{QuicOptions, Security, SocketOptions};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A test as the client is to run it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientPlan {
    /// Over which transport.
    pub transport: Transport,
    /// The server.
    pub server: SocketAddr,
    /// The local address to start from; the kernel's choice when absent.
    pub local: Option<IpAddr>,
    /// The interface to leave by (`SO_BINDTODEVICE`).
    pub interface: Option<String>,
    /// Options of every stream's socket.
    pub socket: SocketOptions,
    /// The test's name: 16 bytes from a cryptographic random source.
    pub test: TestId,
    /// What to do.
    pub parameters: PatternParameters,
    /// Whether tcp and mptcp are encrypted, and what the server is known by; quic and mpquic always encrypt.
    pub security: Security,
    /// What quic and mpquic take beyond [`ClientPlan::socket`].
    pub quic: QuicOptions,
    /// What the server's operator gave the user, where the server asks for it.
    pub token: Option<String>,
    /// Interval of the kernel's figures per path, at least 1 ms.
    pub sample_interval: Duration,
    /// The server's, where the client wants its record to be smaller than it would be by itself.
    #[serde(default)]
    pub server_sample_interval: Option<Duration>,
    /// The test ends as not completed after this long without progress. A sender's progress is a byte that its
    /// socket accepted or that the peer's kernel acknowledged; a receiver's is a byte received.
    pub patience: Duration,
    /// How long to wait for each connection, and for the server's answer on it.
    pub connect_timeout: Duration,
}

impl ClientPlan {
    /// A test over the kernel's choice of address, in clear text where the transport has that, with a sample every
    /// 100 ms, patience for 30 s and 5 s to connect.
    pub fn new(
        transport: Transport,
        server: SocketAddr,
        test: TestId,
        parameters: PatternParameters,
    ) -> Self {
        Self {
            transport,
            server,
            local: None,
            interface: None,
            socket: SocketOptions::default(),
            test,
            parameters,
            security: Security::Clear,
            quic: QuicOptions::default(),
            token: None,
            sample_interval: Duration::from_millis(100),
            server_sample_interval: None,
            patience: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
        }
    }
}

/// Hears of a test while it runs; called from the test's threads, so it must be quick.
pub trait ClientObserver: Sync {
    /// A stream is connected; data does not flow yet.
    fn on_connected(&self, connected: &Connected) {
        let _ = connected;
    }

    /// The test's first byte of data: just before it is handed to the socket for an upload, just after it was
    /// received for a download, whichever is first for both. Called once.
    fn on_first_byte(&self, at: Timestamp) {
        let _ = at;
    }

    /// About every 100 ms between first byte and end.
    fn on_progress(&self, progress: &Progress) {
        let _ = progress;
    }

    /// Whether it wants to hear the news: putting them together takes some work.
    fn wants_news(&self) -> bool {
        false
    }

    /// What became known of the test since the last call, about every 100 ms between first byte and end.
    fn on_news(&self, news: &News<'_>) {
        let _ = news;
    }

    /// What is to become of the test; asked about every 100 ms.
    fn wish(&self) -> Wish {
        Wish::GoOn
    }
}

/// What is to become of a test that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wish {
    /// It goes on.
    #[default]
    GoOn,
    /// It comes to its end in good order: no further requests, and both ends' records (interactive; other patterns
    /// have an end of their own and go on to it).
    Stop,
    /// It ends now, by force.
    Abort,
}

/// An observer that does not listen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl ClientObserver for Unobserved {}

/// A stream that is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    /// When.
    pub at: Timestamp,
    /// Which stream, from 0.
    pub stream: u32,
    /// The local address (of the first subflow).
    pub local: SocketAddr,
    /// The server's address (of the first subflow).
    pub peer: SocketAddr,
}

/// How far a test has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// When.
    pub at: Timestamp,
    /// Payload bytes that the client's sockets accepted (upload).
    pub sent_bytes: u64,
    /// Payload bytes that the client received (download).
    pub received_bytes: u64,
    /// By path, from the latest sample; several streams' and subflows' figures on a path are added up.
    pub paths: Vec<PathProgress>,
}

/// How far a test has come on one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathProgress {
    /// The path's local address.
    pub local: IpAddr,
    /// The path's remote address.
    pub remote: IpAddr,
    /// Bytes that the server's kernel acknowledged on it (protocol overhead of the test included).
    pub acknowledged_bytes: u64,
    /// Bytes received on it (protocol overhead of the test included).
    pub received_bytes: u64,
}

/// How a test went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientOutcome {
    /// The client's record.
    pub client: EndRecord,
    /// The server's record of all streams; `None` when not every stream handed it over
    /// ([`fetch_record`] gets it over another path).
    pub server: Option<EndRecord>,
    /// Whether every stream ran to its end and both ends agree on every byte.
    pub completed: bool,
    /// Why not, in words.
    pub error: Option<ClientError>,
    /// For a test that began and did not complete: from the last progress to its end.
    pub hung: Option<Duration>,
}

impl ClientOutcome {
    /// Says, beside why the test did not complete, why the server's record of it could not be fetched either.
    pub fn report_fetch(&mut self, failure: &dyn Display) {
        if let Some(ClientError::Broken { message }) = &mut self.error {
            *message = format!("{message}; {failure}");
        }
    }
}

/// Why a test did not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ClientError {
    /// No connection could be opened.
    #[error("{message}")]
    Unreachable {
        /// Class of reason.
        because: UnreachableBecause,
        /// What happened.
        message: String,
    },
    /// This host cannot open such a connection at all, whatever the server.
    #[error("{message}")]
    Incapable {
        /// What is missing and how to get it.
        message: String,
    },
    /// The server refused.
    #[error("the server refused the test: {message}")]
    Refused {
        /// Class of reason.
        code: RefusalCode,
        /// The server's words.
        message: String,
        /// When to try again, where it makes sense.
        retry_after_ms: Option<u64>,
    },
    /// The other end does not answer as a Pathbench server does.
    #[error("{server} does not answer as a Pathbench server of this version does: {message}")]
    Handshake {
        /// The server.
        server: SocketAddr,
        /// What it did instead.
        message: String,
    },
    /// The plan makes no sense.
    #[error("{message}")]
    Plan {
        /// What is wrong.
        message: String,
    },
    /// The test began and one of its streams did not come to its end.
    #[error("{message}")]
    Broken {
        /// What happened.
        message: String,
    },
}
