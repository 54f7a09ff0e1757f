//! The updates of a running test, and its early end.

use super::state::TestStream;
use super::work::Work;
use crate::messages::RequestArrival;
use pathbench_record::connection::PathEvent;
use pathbench_record::end::{MessageRecord, PathSample};
use pathbench_record::time::Timestamp;
use pathbench_transport::{Sampler, lock};
use std::sync::atomic::Ordering;

#[derive(Debug, Clone, Default)]
pub struct Update {
    pub at: Timestamp,
    /// The requests of this end (interactive). An unanswered request is repeated in each update until its result is
    /// final.
    pub messages: Vec<MessageRecord>,
    /// The server's requests that arrived (interactive). Their delay until acknowledged is in the server's record.
    pub arrivals: Vec<RequestArrival>,
    pub samples: Vec<PathSample>,
    pub path_events: Vec<PathEvent>,
    /// Whether all data was exchanged: at most the records are missing.
    pub is_exchanged: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Cursor {
    message: u32,
    sample: Option<Timestamp>,
    path_events: usize,
}

impl Update {
    pub(crate) fn collect_since(cursors: &mut [Cursor], streams: &[TestStream], at: Timestamp) -> Self {
        let is_exchanged = streams.iter().all(TestStream::is_exchanged);
        let mut update = Self { at, is_exchanged, ..Self::default() };
        for (stream, cursor) in streams.iter().zip(cursors) {
            update.add(stream, cursor);
        }
        update
    }

    fn add(&mut self, stream: &TestStream, cursor: &mut Cursor) {
        match &stream.work {
            Work::Interactive(core) => {
                self.messages.extend(lock(core).messages_since(&mut cursor.message, self.at));
            }
            Work::Respond(core) => self.arrivals.extend(lock(core).take_arrivals()),
            Work::Transfer { .. } | Work::Ping(_) | Work::Load(_) | Work::Datagrams(_) => {}
        }
        let samples =
            lock(&stream.sampler).as_ref().map(|sampler| Sampler::samples_since(sampler, cursor.sample));
        for (at, snapshot) in samples.unwrap_or_default() {
            cursor.sample = Some(at);
            self.samples.extend(stream.path_samples(at, snapshot));
        }
        if stream.index == 0 {
            let events = stream.connection.path_events();
            self.path_events.extend_from_slice(events.get(cursor.path_events..).unwrap_or_default());
            cursor.path_events = cursor.path_events.max(events.len());
        }
    }
}

impl TestStream {
    /// Ends a test of messages early: neither end makes a further request. Other patterns continue.
    pub(crate) fn stop(&self, now: Timestamp) {
        self.group.stopping.store(true, Ordering::Release);
        match &self.work {
            Work::Interactive(core) => lock(core).stop(now),
            Work::Ping(core) => lock(core).stop(),
            Work::Transfer { .. } | Work::Load(_) | Work::Respond(_) | Work::Datagrams(_) => {}
        }
    }

    fn is_exchanged(&self) -> bool {
        lock(&self.confirmed).is_some() || lock(&self.failure).is_some()
    }
}
