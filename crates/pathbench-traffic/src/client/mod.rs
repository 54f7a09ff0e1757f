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

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientPlan {
    pub transport: Transport,
    pub server: SocketAddr,
    /// The local address to start from; the kernel's choice when absent.
    pub local: Option<IpAddr>,
    /// The interface to leave by (`SO_BINDTODEVICE`).
    pub interface: Option<String>,
    pub socket: SocketOptions,
    /// The test's name: 16 bytes from a cryptographic random source.
    pub test: TestId,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wish {
    #[default]
    GoOn,
    /// It comes to its end in good order: no further requests, and both ends' records (interactive; other patterns
    /// have an end of their own and go on to it).
    Stop,
    Abort,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl ClientObserver for Unobserved {}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    pub at: Timestamp,
    /// Which stream, from 0.
    pub stream: u32,
    pub local: SocketAddr,
    pub peer: SocketAddr,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub at: Timestamp,
    /// Payload bytes that the client's sockets accepted (upload).
    pub sent_bytes: u64,
    /// Payload bytes that the client received (download).
    pub received_bytes: u64,
    /// By path, from the latest sample; several streams' and subflows' figures on a path are added up.
    pub paths: Vec<PathProgress>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathProgress {
    pub local: IpAddr,
    pub remote: IpAddr,
    /// Bytes that the server's kernel acknowledged on it (protocol overhead of the test included).
    pub acknowledged_bytes: u64,
    /// Bytes received on it (protocol overhead of the test included).
    pub received_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientOutcome {
    pub client: EndRecord,
    /// The server's record of all streams; `None` when not every stream handed it over
    /// ([`fetch_record`] gets it over another path).
    pub server: Option<EndRecord>,
    /// Whether every stream ran to its end and both ends agree on every byte.
    pub completed: bool,
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ClientError {
    #[error("{message}")]
    Unreachable { because: UnreachableBecause, message: String },
    #[error("{message}")]
    Incapable { message: String },
    #[error("the server refused the test: {message}")]
    Refused { code: RefusalCode, message: String, retry_after_ms: Option<u64> },
    #[error("{server} does not answer as a Pathbench server of this version does: {message}")]
    Handshake { server: SocketAddr, message: String },
    #[error("{message}")]
    Plan { message: String },
    #[error("{message}")]
    Broken { message: String },
}
