//! Slots of a server. Each has an owner, and is released when the owner is dropped: at the end, when a thread cannot be
//! started, and at a panic.

use super::registry::{Ended, StreamResult};
use super::{ServerEvent, Shared, session};
use crate::stream::lock;
use pathbench_record::test_id::TestId;
use pathbench_transport::{Connection, contain_panic};
use std::sync::Arc;

pub(super) struct ConnectionSlot<'a> {
    shared: &'a Shared,
    number: u64,
    connection: Arc<Connection>,
}

/// The slot of one stream in its test; with the last one the test's own is released.
pub(super) struct TestSlot<'a> {
    shared: &'a Shared,
    test: TestId,
    stream: u32,
    result: Option<StreamResult>,
}

impl<'a> ConnectionSlot<'a> {
    pub(super) const fn of(shared: &'a Shared, number: u64, connection: Arc<Connection>) -> Self {
        Self { shared, number, connection }
    }

    /// Serves the connection to its end. A panic ends this connection and nothing else.
    pub(super) fn serve(self) {
        if let Err(message) = contain_panic(|| session::serve(self.shared, &self.connection)) {
            self.connection.abort();
            self.shared.report_panic("connection", &message);
        }
    }
}

impl Drop for ConnectionSlot<'_> {
    fn drop(&mut self) {
        lock(&self.shared.connections).remove(&self.number);
    }
}

impl<'a> TestSlot<'a> {
    pub(super) const fn of(shared: &'a Shared, test: TestId, stream: u32) -> Self {
        Self { shared, test, stream, result: None }
    }

    pub(super) fn release(mut self, result: Option<StreamResult>) {
        self.result = result;
    }
}

impl Drop for TestSlot<'_> {
    fn drop(&mut self) {
        let now = self.shared.clock.now();
        let ended = self.shared.registry.leave(now, self.test, self.stream, self.result.take());
        let Some(Ended { number, completed, sent_bytes, received_bytes, lasted }) = ended else { return };
        let event = ServerEvent::Ended { number, completed, sent_bytes, received_bytes, lasted };
        // A panic may be under way; a second one would end the process.
        if let Err(message) = contain_panic(|| self.shared.tell(&event)) {
            self.shared.report_panic("observer", &message);
        }
    }
}
