//! Asking a server for its record of a test, over any path.

use super::run::{connect_error, refused};
use super::{ClientError, ClientPlan};
use crate::protocol::{Fetch, Frame, MAX_RECORD_BYTES, TestId, VERSION};
use crate::record::ServerRecord;
use crate::stream::{Channel, StreamError, Wait};
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_transport::{ConnectOptions, connect};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use thiserror::Error;

/// Which record to fetch, and by which way.
#[derive(Debug, Clone)]
pub struct FetchPlan {
    /// Over which transport; any that the server listens on.
    pub transport: Transport,
    /// The server.
    pub server: SocketAddr,
    /// The local address to start from; the kernel's choice when absent.
    pub local: Option<IpAddr>,
    /// The interface to leave by (`SO_BINDTODEVICE`).
    pub interface: Option<String>,
    /// The test.
    pub test: TestId,
    /// The client has given the test up: the server ends it first if it still runs, so that its record is
    /// complete and its place free.
    pub end_test: bool,
    /// How long to wait for the connection, and then for the record.
    pub timeout: Duration,
}

impl FetchPlan {
    /// Fetches the record of a test that is over for the client, the way the test itself was to go.
    #[must_use]
    pub fn after(plan: &ClientPlan) -> Self {
        Self {
            transport: plan.transport,
            server: plan.server,
            local: plan.local,
            interface: plan.interface.clone(),
            test: plan.test,
            end_test: true,
            timeout: plan.connect_timeout,
        }
    }
}

/// Why there is no record.
#[derive(Debug, Error)]
pub enum FetchError {
    /// No connection, or a server that does not answer properly.
    #[error("fetching the server's record of the test: {0}")]
    Connection(#[from] ClientError),
    /// The server has no record under this id, or no longer.
    #[error("{server} has no record of the test {test}: it never began there, or is too long ago")]
    NotFound {
        /// The server.
        server: SocketAddr,
        /// The test.
        test: TestId,
    },
}

/// Fetches a server's record.
///
/// # Errors
/// See [`FetchError`].
pub fn fetch_record(plan: &FetchPlan, clock: &dyn Clock) -> Result<ServerRecord, FetchError> {
    let options = ConnectOptions {
        local: plan.local,
        interface: plan.interface.clone(),
        ..ConnectOptions::to(plan.server, plan.timeout)
    };
    let connection = connect(plan.transport, &options).map_err(|error| connect_error(&error))?;
    let mut channel = Channel::new(&connection, clock);
    channel.accept_bodies_of(MAX_RECORD_BYTES);
    let wait = || Wait::patient(clock.now(), plan.timeout, None);
    let failed = |error: StreamError| match error {
        StreamError::Refused(refusal) => refused(refusal),
        error => ClientError::Handshake { server: plan.server, message: error.to_string() },
    };
    let fetch = Frame::Fetch(Fetch { version: VERSION, test: plan.test, end_test: plan.end_test });
    channel.write(&fetch, &mut wait()).map_err(failed)?;
    match channel.frame(&mut wait()).map_err(failed)? {
        Frame::Record(json) => {
            serde_json::from_slice(&json).map_err(|error| failed(StreamError::Record(error)).into())
        }
        Frame::NotFound => Err(FetchError::NotFound { server: plan.server, test: plan.test }),
        frame => Err(failed(StreamError::unexpected("RECORD", frame)).into()),
    }
}
