//! The bounded queue of groups that wait for the writer.

use super::group::{NotWritten, SubmissionGroup, Submitted, WrittenGroup};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) group: SubmissionGroup,
    pub(super) answer: oneshot::Sender<Result<WrittenGroup, NotWritten>>,
    bytes: usize,
}

impl Waiting {
    pub(super) fn new(
        group: SubmissionGroup,
        answer: oneshot::Sender<Result<WrittenGroup, NotWritten>>,
    ) -> Self {
        let bytes = group.submissions.iter().map(Submitted::bytes).sum();
        Self { group, answer, bytes }
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    added: Condvar,
    most_groups: usize,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    closed: bool,
}

impl Queue {
    pub(super) fn new(most_groups: usize, most_bytes: usize) -> Self {
        Self { state: Mutex::default(), added: Condvar::new(), most_groups, most_bytes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was room. A group larger than the queue fits an empty one.
    pub(super) fn push(&self, waiting: Waiting) -> bool {
        let mut state = self.state();
        let fits = state.waiting.is_empty()
            || (state.waiting.len() < self.most_groups && state.bytes + waiting.bytes <= self.most_bytes);
        if state.closed || !fits {
            return false;
        }
        state.bytes += waiting.bytes;
        state.waiting.push_back(waiting);
        drop(state);
        self.added.notify_one();
        true
    }

    /// Waits for a group and takes it, and those behind it up to the bounds. `None`: closed and empty.
    pub(super) fn drain(&self, most_submissions: usize, most_bytes: usize) -> Option<Vec<Waiting>> {
        let waited = self.added.wait_while(self.state(), |state| state.waiting.is_empty() && !state.closed);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let first = state.waiting.pop_front()?;
        let (mut submissions, mut bytes) = (first.group.submissions.len(), first.bytes);
        let mut taken = vec![first];
        while let Some(next) = state.waiting.front() {
            submissions += next.group.submissions.len();
            bytes += next.bytes;
            if submissions > most_submissions || bytes > most_bytes {
                break;
            }
            taken.extend(state.waiting.pop_front());
        }
        state.bytes -= taken.iter().map(|waiting| waiting.bytes).sum::<usize>();
        Some(taken)
    }

    pub(super) fn close(&self) {
        self.state().closed = true;
        self.added.notify_all();
    }

    /// Groups and bytes.
    pub(super) fn length(&self) -> (usize, usize) {
        let state = self.state();
        (state.waiting.len(), state.bytes)
    }
}
