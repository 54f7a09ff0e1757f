//! What became known of a stream while it runs, and ending it before its time.

use super::work::Work;
use super::{Stream, lock};
use crate::messages::Arrival;
use pathbench_record::connection::PathEvent;
use pathbench_record::end::{MessageRecord, PathSample};
use pathbench_record::time::Timestamp;
use pathbench_transport::Sampler;

#[derive(Debug, Clone, Default)]
pub(crate) struct Cursor {
    message: u32,
    sample: Option<Timestamp>,
    path_events: usize,
}

#[derive(Debug, Default)]
pub(crate) struct StreamNews {
    pub(crate) messages: Vec<MessageRecord>,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) samples: Vec<PathSample>,
    pub(crate) path_events: Vec<PathEvent>,
}

impl Stream {
    /// No further request is made on it, nor asked for by this end: the test goes on to its end as if its time were
    /// over. Patterns other than interactive run on.
    pub(crate) fn stop(&self, now: Timestamp) {
        self.companions.stop();
        if let Work::Interactive(core) = &self.work {
            lock(core).stop(now);
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.companions.is_stopping()
    }

    /// Whether all its data went both ways, or it has failed: at most the records are still to come.
    pub(crate) fn is_exchanged(&self) -> bool {
        lock(&self.confirmed).is_some() || lock(&self.failure).is_some()
    }

    /// What became known since `cursor`, which moves on. A request that is not answered yet comes again.
    pub(crate) fn news(&self, cursor: &mut Cursor, now: Timestamp) -> StreamNews {
        let mut news = StreamNews::default();
        match &self.work {
            Work::Interactive(core) => {
                let core = lock(core);
                news.messages = core.messages_from(cursor.message, now);
                cursor.message = core.settled();
            }
            Work::Respond(core) => news.arrivals = lock(core).take_arrivals(),
            Work::Transfer { .. } | Work::Ping(_) => {}
        }
        let samples = lock(&self.sampler).as_ref().map(|sampler| Sampler::since(sampler, cursor.sample));
        for (at, snapshot) in samples.unwrap_or_default() {
            cursor.sample = Some(at);
            let of_path = |figures| PathSample { at, stream: self.index, figures };
            news.samples.extend(snapshot.subflows.into_iter().map(of_path));
        }
        if self.index == 0 {
            let events = self.connection.path_events();
            news.path_events = events.get(cursor.path_events..).unwrap_or_default().to_vec();
            cursor.path_events = cursor.path_events.max(events.len());
        }
        news
    }
}
