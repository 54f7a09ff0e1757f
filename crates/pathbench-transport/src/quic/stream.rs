//! A bidirectional stream as a connection: blocking calls with a time limit.

use super::connection::{QuicConnection, StreamSignals, wait};
use super::telemetry::QuicTelemetry;
use crate::connection::{ReceiveError, SendError};
use bytes::Bytes;
use noq_proto::{ConnectionError, StreamId};
use pathbench_mpquic::{Core, IDLE_TIMEOUT, Read, StreamEnd};
use pathbench_record::connection::{InForce, PathEvent};
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
    connection: Arc<QuicConnection>,
    id: StreamId,
    signals: Arc<StreamSignals>,
    local: SocketAddr,
    transport: Transport,
    in_force: InForce,
    aborted: AtomicBool,
}

/// A wait for something that is not the stream's own looks this often whether the stream was aborted.
const ABORT_CHECK: Duration = Duration::from_millis(100);

/// A wait without a limit looks around this often.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
enum Waiting {
    Read,
    Write,
}

enum Ending {
    Reset,
    Dead(String),
    Failed(io::Error),
}

impl QuicStream {
    pub(crate) fn adopt(connection: Arc<QuicConnection>, core: &mut Core, id: StreamId) -> Self {
        let signals = connection.adopt(core, id);
        let (local, transport) = (core.local_addr(), connection.transport(core));
        let in_force = connection.in_force(core);
        Self { connection, id, signals, local, transport, in_force, aborted: AtomicBool::new(false) }
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
            let (read, tell) = core.read(self.id, buffer);
            match read {
                Read::Bytes(count) => {
                    if tell {
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
                return Err(match ending(reason) {
                    Ending::Reset => ReceiveError::Reset { peer },
                    Ending::Dead(message) => ReceiveError::Dead { peer, message },
                    Ending::Failed(source) => ReceiveError::Failed { peer, source },
                });
            }
            core = match self.wait(core, Waiting::Read, deadline) {
                Ok(core) => core,
                Err(TimeIsUp) => {
                    return Err(ReceiveError::TimedOut { peer, after: timeout.unwrap_or_default() });
                }
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
                return Err(match ending(reason) {
                    Ending::Reset => SendError::Reset { peer },
                    Ending::Dead(message) => SendError::Dead { peer, message },
                    Ending::Failed(source) => SendError::Failed { peer, source },
                });
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
                // What was submitted may have made room.
                continue;
            }
            core = match self.wait(core, Waiting::Write, deadline) {
                Ok(core) => core,
                Err(TimeIsUp) if taken > 0 => return Ok(taken),
                Err(TimeIsUp) => {
                    return Err(SendError::TimedOut { peer, after: timeout.unwrap_or_default() });
                }
            };
        }
    }

    /// See [`crate::Connection::begin_test`].
    pub(crate) fn begin_test(&self, limit: Duration) -> bool {
        let Some(server) = self.connection.endpoint.server() else { return true };
        let (peer, deadline) = (self.peer_addr().ip(), self.connection.endpoint.now() + limit);
        loop {
            // Under the lock, for all streams of the connection share one slot.
            let mut core = self.connection.lock();
            if core.has_test() {
                return true;
            }
            if let Some(slot) = server.capacity().test(peer) {
                self.connection.begin_test(&mut core, slot);
                self.connection.submit(core);
                return true;
            }
            drop(core);
            let left = deadline.since(self.connection.endpoint.now());
            if left.is_zero() || self.is_aborted() {
                return false;
            }
            server.capacity().await_test(peer, left.min(ABORT_CHECK));
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

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn peer_addr(&self) -> SocketAddr {
        self.connection.peer_addr()
    }

    pub(crate) fn transport(&self) -> Transport {
        self.transport
    }

    pub(crate) fn in_force(&self) -> &InForce {
        &self.in_force
    }

    pub(crate) fn telemetry(&self) -> QuicTelemetry {
        QuicTelemetry::new(Arc::clone(&self.connection), self.transport, self.id.index() == 0)
    }

    pub(crate) fn path_events(&self) -> Vec<PathEvent> {
        self.connection.path_events()
    }

    fn wait<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        direction: Waiting,
        deadline: Option<Timestamp>,
    ) -> Result<MutexGuard<'a, Core>, TimeIsUp> {
        let left = deadline.map_or(LONGEST_WAIT, |deadline| deadline.since(self.connection.endpoint.now()));
        if left.is_zero() {
            return Err(TimeIsUp);
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

struct TimeIsUp;

fn ending(reason: &ConnectionError) -> Ending {
    match reason {
        ConnectionError::ApplicationClosed(_)
        | ConnectionError::ConnectionClosed(_)
        | ConnectionError::Reset
        | ConnectionError::LocallyClosed => Ending::Reset,
        ConnectionError::TimedOut => {
            let seconds = IDLE_TIMEOUT.as_secs();
            Ending::Dead(format!("nothing was heard of it for {seconds} s (QUIC idle timeout)"))
        }
        other => Ending::Failed(io::Error::other(other.to_string())),
    }
}

impl Drop for QuicStream {
    fn drop(&mut self) {
        self.connection.release(self.id);
    }
}
