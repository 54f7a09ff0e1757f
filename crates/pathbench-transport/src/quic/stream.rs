//! A bidirectional stream as a connection: blocking calls with a time limit.

use super::connection::{QuicConnection, StreamSignals, wait};
use super::datagrams::QuicDatagrams;
use crate::error::{Failure, ReceiveError, SendError};
use crate::telemetry::ConnectionSnapshot;
use bytes::Bytes;
use noq_proto::{ConnectionError, StreamId};
use pathbench_host::thread_time::ThreadClock;
use pathbench_mpquic::{Core, IDLE_TIMEOUT, Read, StreamEnd};
use pathbench_record::connection::{InForce, Negotiation, PathEvent};
use pathbench_record::network::Client;
use pathbench_record::text::duration;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// A stream. Its methods are those of [`crate::Connection`].
#[derive(Debug)]
pub(crate) struct QuicStream {
    pub(super) connection: Arc<QuicConnection>,
    id: StreamId,
    signals: Arc<StreamSignals>,
    pub(crate) local: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) in_force: InForce,
    aborted: AtomicBool,
}

/// A stream that waits for a test slot checks this often whether it was aborted.
const ABORT_CHECK: Duration = Duration::from_millis(100);

/// The longest wait for a signal before the state is checked again.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
enum Waiting {
    Read,
    Write,
}

impl QuicStream {
    pub(crate) fn adopt(connection: Arc<QuicConnection>, core: &mut Core, id: StreamId) -> Self {
        let signals = connection.adopt(core, id);
        let (local, transport) = (core.local_addr(), connection.transport(core));
        let in_force = connection.in_force(core);
        Self { connection, id, signals, local, transport, in_force, aborted: AtomicBool::new(false) }
    }

    /// The thread of the endpoint.
    pub(crate) fn driver(&self) -> Option<Arc<ThreadClock>> {
        self.connection.endpoint.driver.get().cloned()
    }

    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<usize, ReceiveError> {
        let peer = self.peer_addr();
        let deadline = timeout.map(|timeout| self.connection.endpoint.now() + timeout);
        let mut core = self.connection.lock();
        loop {
            if self.aborted.load(Ordering::Acquire) {
                return Err(ReceiveError::Aborted { peer });
            }
            let (read, must_send) = core.read(self.id, buffer);
            match read {
                Read::Bytes(count) => {
                    if must_send {
                        self.connection.submit(core);
                    }
                    return Ok(count);
                }
                Read::End(StreamEnd::Finished) => return Ok(0),
                Read::End(StreamEnd::Reset) => return Err(ReceiveError::Reset { peer }),
                Read::Blocked if buffer.is_empty() => return Ok(0),
                Read::Blocked => {}
            }
            if let Some(reason) = core.ended() {
                return Err(classify_end(reason).on_receive(peer, timeout));
            }
            core = match self.wait(core, Waiting::Read, deadline) {
                Ok(core) => core,
                Err(TimedOut) => return Err(Failure::TimedOut.on_receive(peer, timeout)),
            };
        }
    }

    pub(crate) fn send(&self, bytes: &[u8], timeout: Option<Duration>) -> Result<usize, SendError> {
        let peer = self.peer_addr();
        let deadline = timeout.map(|timeout| self.connection.endpoint.now() + timeout);
        let mut taken = 0;
        let mut piece = Bytes::new();
        let mut core = self.connection.lock();
        loop {
            if self.aborted.load(Ordering::Acquire) {
                return Err(SendError::Aborted { peer });
            }
            if let Some(reason) = core.ended() {
                return Err(classify_end(reason).on_send(peer, timeout));
            }
            let rest = bytes.get(taken..).unwrap_or_default();
            let count = core.write(self.id, rest, &mut piece).map_err(|_| SendError::Reset { peer })?;
            taken += count;
            if count > 0 {
                self.connection.submit(core);
                if taken == bytes.len() {
                    return Ok(taken);
                }
                core = self.connection.lock();
            }
            if taken == bytes.len() {
                return Ok(taken);
            }
            if count > 0 {
                // Sending may have freed buffer space.
                continue;
            }
            core = match self.wait(core, Waiting::Write, deadline) {
                Ok(core) => core,
                Err(TimedOut) if taken > 0 => return Ok(taken),
                Err(TimedOut) => return Err(Failure::TimedOut.on_send(peer, timeout)),
            };
        }
    }

    /// See [`crate::Connection::begin_test`].
    pub(crate) fn begin_test(&self, limit: Duration) -> bool {
        let Some(capacity) = &self.connection.endpoint.capacity else { return true };
        let tests = &capacity.tests;
        let client = Client::from(self.peer_addr().ip());
        let deadline = self.connection.endpoint.now() + limit;
        loop {
            // Under the lock: all streams of the connection share one slot.
            let mut core = self.connection.lock();
            if core.has_test() {
                return true;
            }
            if let Some(slot) = tests.acquire(client) {
                self.connection.begin_test(&mut core, slot);
                self.connection.submit(core);
                return true;
            }
            drop(core);
            let left = deadline.duration_since(self.connection.endpoint.now());
            if left.is_zero() || self.is_aborted() {
                return false;
            }
            tests.wait(client, left.min(ABORT_CHECK));
        }
    }

    pub(crate) fn finish_sending(&self) {
        let mut core = self.connection.lock();
        core.finish(self.id);
        self.connection.submit(core);
    }

    pub(crate) fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        let mut core = self.connection.lock();
        core.abort(self.id);
        self.connection.submit(core);
        self.signals.readable.notify_all();
        self.signals.writable.notify_all();
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    pub(crate) fn peer_addr(&self) -> SocketAddr {
        self.connection.peer_addr()
    }

    pub(crate) fn telemetry(&self) -> QuicTelemetry {
        QuicTelemetry {
            connection: Arc::clone(&self.connection),
            transport: self.transport,
            reports_paths: self.id.index() == 0,
        }
    }

    pub(crate) fn datagrams(&self) -> QuicDatagrams {
        QuicDatagrams::new(&self.connection)
    }

    pub(crate) fn path_events(&self) -> Vec<PathEvent> {
        self.connection.path_events()
    }

    fn wait<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        direction: Waiting,
        deadline: Option<Timestamp>,
    ) -> Result<MutexGuard<'a, Core>, TimedOut> {
        let left =
            deadline.map_or(LONGEST_WAIT, |deadline| deadline.duration_since(self.connection.endpoint.now()));
        if left.is_zero() {
            return Err(TimedOut);
        }
        let signal = match direction {
            Waiting::Read => {
                core.await_readable(self.id);
                &self.signals.readable
            }
            Waiting::Write => {
                core.await_writable(self.id);
                &self.signals.writable
            }
        };
        Ok(wait(signal, core, left))
    }
}

struct TimedOut;

fn classify_end(reason: &ConnectionError) -> Failure {
    match reason {
        ConnectionError::ApplicationClosed(_)
        | ConnectionError::ConnectionClosed(_)
        | ConnectionError::Reset
        | ConnectionError::LocallyClosed => Failure::Reset,
        ConnectionError::TimedOut => {
            let silence = duration(IDLE_TIMEOUT);
            Failure::Dead(format!("nothing received for {silence} (QUIC idle timeout)"))
        }
        other => Failure::Failed(io::Error::other(other.to_string())),
    }
}

impl Drop for QuicStream {
    fn drop(&mut self) {
        self.connection.release(self.id);
    }
}

/// Reads the figures of a connection's paths. The first stream of a connection reports them, the others none, so
/// that sums over streams count everything once.
#[derive(Debug)]
pub(crate) struct QuicTelemetry {
    connection: Arc<QuicConnection>,
    transport: Transport,
    reports_paths: bool,
}

impl QuicTelemetry {
    /// The open paths, the last closed ones, and the sums of earlier closed ones.
    pub(crate) fn snapshot(&self) -> ConnectionSnapshot {
        let now = self.connection.endpoint.now();
        let mut core = self.connection.lock();
        let multipath = match self.transport {
            Transport::Mpquic if core.is_multipath() => Negotiation::Negotiated,
            Transport::Mpquic => Negotiation::NotNegotiated,
            _ => Negotiation::NotAsked,
        };
        let subflows = if self.reports_paths { core.path_figures(now) } else { Vec::new() };
        ConnectionSnapshot { subflows, mptcp: None, multipath }
    }
}
