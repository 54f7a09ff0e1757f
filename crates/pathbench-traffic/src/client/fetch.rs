//! Asking a server for its record of a test, over any path.

use super::run::{connect_error, refused};
use super::{ClientError, ClientPlan};
use crate::protocol::{Fetch, Frame, VERSION};
use crate::record::{InvalidRecord, check_peer};
use crate::stream::{Channel, RECORD_TIME, StreamError, Wait};
use pathbench_record::end::{EndRecord, MAX_RECORD_BYTES};
use pathbench_record::test_id::TestId;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_transport::{ConnectOptions, QuicOptions, Security, Session};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// How to reach the server for its record of a test. No token: a server asks for the test's id, which only this client knows.
#[derive(Debug, Clone)]
pub struct FetchPlan {
    pub transport: Transport,
    pub server: SocketAddr,
    /// The local address to start from; the kernel's choice when absent.
    pub local: Option<IpAddr>,
    /// The interface to leave by (`SO_BINDTODEVICE`).
    pub interface: Option<String>,
    /// Whether tcp and mptcp are encrypted, and what the server is known by; quic and mpquic always encrypt.
    pub security: Security,
    pub quic: QuicOptions,
    /// The client has given the test up: the server ends it first if it still runs, so that its record is
    /// complete and its place free. Without that, a server refuses while the test runs.
    pub end_test: bool,
    pub timeout: Duration,
}

impl FetchPlan {
    /// Fetches the record of a test that is over by the kernel's choice of address, in clear text where the transport
    /// has that.
    pub fn new(transport: Transport, server: SocketAddr, timeout: Duration) -> Self {
        Self {
            transport,
            server,
            local: None,
            interface: None,
            security: Security::Clear,
            quic: QuicOptions::default(),
            end_test: false,
            timeout,
        }
    }

    /// Fetches the record of a test that is over for the client, by the same route as the test.
    pub fn after(plan: &ClientPlan) -> Self {
        Self {
            local: plan.local,
            interface: plan.interface.clone(),
            security: plan.security.clone(),
            quic: plan.quic.clone(),
            end_test: true,
            ..Self::new(plan.transport, plan.server, plan.connect_timeout)
        }
    }
}

#[derive(Debug, Error)]
pub enum FetchError {
    #[error("fetching the server's record of the test: {0}")]
    Connection(#[from] ClientError),
    #[error("{server} has no record of the test {test}: it never began there, or is too long ago")]
    NotFound { server: SocketAddr, test: TestId },
    #[error("the server's record of the test is not used: {0}")]
    Invalid(#[from] InvalidRecord),
}

/// Fetches the server's record of the test of which `client` is this end's.
pub fn fetch_record(
    plan: &FetchPlan,
    client: &EndRecord,
    clock: &Arc<dyn Clock>,
) -> Result<EndRecord, FetchError> {
    let options = ConnectOptions {
        local: plan.local,
        interface: plan.interface.clone(),
        security: plan.security.clone(),
        quic: plan.quic.clone(),
        ..ConnectOptions::to(plan.server, plan.timeout)
    };
    let session = Session::new(plan.transport, options, Arc::clone(clock));
    let clock = clock.as_ref();
    let connection = session.open().map_err(|error| connect_error(&error))?;
    let mut channel = Channel::new(&connection, clock);
    channel.accept_bodies_of(MAX_RECORD_BYTES);
    let mut wait = Wait::within(clock.now(), RECORD_TIME, "hand over its record").or_silence(plan.timeout);
    let failed = |error: StreamError| match error {
        StreamError::Refused(refusal) => refused(refusal),
        error => ClientError::Handshake { server: plan.server, message: error.line() },
    };
    let fetch = Frame::Fetch(Fetch { version: VERSION, test: client.test, end_test: plan.end_test });
    channel.write(&fetch, &mut wait).map_err(failed)?;
    match channel.frame(&mut wait).map_err(failed)? {
        Frame::Record(json) => {
            let server = serde_json::from_slice(&json).map_err(|error| failed(StreamError::Record(error)))?;
            check_peer(client, &server, clock.now())?;
            Ok(server)
        }
        Frame::NotFound => Err(FetchError::NotFound { server: plan.server, test: client.test }),
        frame => Err(failed(StreamError::unexpected("RECORD", frame)).into()),
    }
}
