//! What becomes known of a test while it runs, for observers that must not lose it.

use super::ClientObserver;
use crate::messages::Arrival;
use crate::stream::{Cursor, Stream};
use pathbench_record::connection::PathEvent;
use pathbench_record::end::{EndRecord, MessageRecord, PathSample};
use pathbench_record::time::Timestamp;
use std::fmt;

pub struct News<'a> {
    pub at: Timestamp,
    /// The requests of this end (interactive). One that is not answered yet comes again with the next news, until what
    /// came of it is final.
    pub messages: Vec<MessageRecord>,
    /// The server's requests that came (interactive). How long they took to be acknowledged is in the server's record.
    pub arrivals: Vec<Arrival>,
    pub samples: Vec<PathSample>,
    pub path_events: Vec<PathEvent>,
    /// Whether all data went both ways: at most the records are still to come.
    pub is_exchanged: bool,
    streams: &'a [Stream],
}

impl fmt::Debug for News<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("News").field("at", &self.at).finish_non_exhaustive()
    }
}

impl News<'_> {
    /// The client's record so far, without samples; `None` of a test without streams. It takes time in proportion to the
    /// length of the test.
    pub fn record_so_far(&self) -> Option<EndRecord> {
        EndRecord::of_streams(self.streams.iter().map(|stream| stream.record_so_far(self.at)).collect())
    }
}

pub(super) struct Listener {
    cursors: Vec<Cursor>,
}

impl Listener {
    pub(super) fn of(streams: &[Stream]) -> Self {
        Self { cursors: vec![Cursor::default(); streams.len()] }
    }

    pub(super) fn tell(&mut self, streams: &[Stream], at: Timestamp, observer: &dyn ClientObserver) {
        let (mut messages, mut arrivals, mut samples, mut path_events) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (stream, cursor) in streams.iter().zip(&mut self.cursors) {
            let news = stream.news(cursor, at);
            messages.extend(news.messages);
            arrivals.extend(news.arrivals);
            samples.extend(news.samples);
            path_events.extend(news.path_events);
        }
        let is_exchanged = streams.iter().all(Stream::is_exchanged);
        observer.on_news(&News { at, messages, arrivals, samples, path_events, is_exchanged, streams });
    }
}
