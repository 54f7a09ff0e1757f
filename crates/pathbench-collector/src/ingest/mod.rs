//! The writer: a bounded queue, one thread, and one durable commit for all submissions that wait.

mod commit;
mod figures;
mod group;
mod queue;

pub use figures::Figures;
pub use group::{NotWritten, SubmissionGroup, Submitted, WrittenGroup};

use crate::raw::RawStore;
use crate::store::Database;
use commit::{Commit, CommitError};
use figures::Counters;
use pathbench_api::problem::LineStatus;
use pathbench_program::clock::RealClock;
use pathbench_record::time::SharedClock;
use queue::{Queue, Waiting};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// The answer to one group, when it is stored durably or failed: for `await`, or `blocking_recv` on a thread.
pub type Answer = oneshot::Receiver<Result<WrittenGroup, NotWritten>>;

#[derive(Clone)]
pub struct WriterOptions {
    /// Groups and bytes that may wait; more are answered with [`NotWritten::Busy`].
    pub queue_groups: usize,
    pub queue_bytes: usize,
    /// Submissions and bytes of one commit; a single group may exceed both.
    pub commit_submissions: usize,
    pub commit_bytes: usize,
    pub retry_after: Duration,
    /// Takes one line for the log.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
    /// For the durations of commits.
    pub clock: SharedClock,
    /// Whether the disk has space for results. Deletions have a reserve of their own.
    pub has_space: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            queue_groups: 4_096,
            queue_bytes: 128 << 20,
            commit_submissions: 1_024,
            commit_bytes: 32 << 20,
            retry_after: Duration::from_secs(2),
            log: Arc::new(|_| ()),
            clock: Arc::new(RealClock),
            has_space: Arc::new(|| true),
        }
    }
}

/// The writer. Dropping it stores what waits, and ends its thread.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Queue,
    counters: Counters,
    options: WriterOptions,
}

impl Writer {
    /// # Errors
    /// The system starts no thread.
    pub fn start(
        database: Arc<dyn Database>,
        raw: Arc<dyn RawStore>,
        options: WriterOptions,
    ) -> std::io::Result<Self> {
        let queue = Queue::new(options.queue_groups, options.queue_bytes);
        let shared = Arc::new(Shared { queue, counters: Counters::default(), options });
        let commit = Commit { database, raw };
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || write_until_stopped(&of_thread, &commit))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Passes a group to the writer; never blocks.
    pub fn submit(&self, group: SubmissionGroup) -> Result<Answer, NotWritten> {
        let (answer, receiver) = oneshot::channel();
        let accepted = self.shared.queue.push(Waiting::new(group, answer));
        if accepted {
            return Ok(receiver);
        }
        self.shared.counters.count_refused();
        Err(NotWritten::Busy { retry_after: self.shared.options.retry_after })
    }

    pub fn figures(&self) -> Figures {
        self.shared.counters.figures(self.shared.queue.length(), self.shared.options.queue_groups)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            (self.shared.options.log)("the writer ended with a panic");
        }
    }
}

fn write_until_stopped(shared: &Shared, commit: &Commit) {
    let options = &shared.options;
    while let Some(batch) = shared.queue.drain(options.commit_submissions, options.commit_bytes) {
        let (groups, answers): (Vec<SubmissionGroup>, Vec<_>) =
            batch.into_iter().map(|waiting| (waiting.group, waiting.answer)).unzip();
        let outcomes = write(shared, commit, &groups);
        for ((answer, outcome), group) in answers.into_iter().zip(outcomes).zip(&groups) {
            shared.counters.count_outcome(group, &outcome);
            // The client is gone: its repetition will find the results.
            drop(answer.send(outcome));
        }
    }
}

/// One outcome for each group. A panic is confined to the submission that causes it.
fn write(
    shared: &Shared,
    commit: &Commit,
    groups: &[SubmissionGroup],
) -> Vec<Result<WrittenGroup, NotWritten>> {
    match guarded(shared, commit, groups) {
        Some(outcomes) => outcomes,
        None => groups.iter().map(|group| write_alone(shared, commit, group)).collect(),
    }
}

fn write_alone(
    shared: &Shared,
    commit: &Commit,
    group: &SubmissionGroup,
) -> Result<WrittenGroup, NotWritten> {
    let mut statuses = Vec::with_capacity(group.submissions.len());
    for submission in &group.submissions {
        let alone = SubmissionGroup { submissions: vec![submission.clone()] };
        let outcome = guarded(shared, commit, std::slice::from_ref(&alone)).and_then(|mut one| one.pop());
        match outcome {
            Some(Ok(written)) => statuses.extend(written.statuses),
            Some(Err(failed)) => return Err(failed),
            None => statuses.push(LineStatus::Busy),
        }
    }
    Ok(WrittenGroup { statuses })
}

/// `None`: a panic, which is counted and logged.
fn guarded(
    shared: &Shared,
    commit: &Commit,
    groups: &[SubmissionGroup],
) -> Option<Vec<Result<WrittenGroup, NotWritten>>> {
    // After a panic only the database and the raw store are used again; both recover from poisoned locks.
    let started = shared.options.clock.now();
    let has_space = shared.options.has_space.as_ref();
    let caught = catch_unwind(AssertUnwindSafe(|| commit.write(groups, has_space)));
    let committed = match caught {
        Ok(committed) => committed,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            shared.counters.count_panic();
            (shared.options.log)(&format!("a panic in the writer: {text}"));
            return None;
        }
    };
    let duration = shared.options.clock.now().duration_since(started);
    shared.counters.count_commit(&committed, duration);
    if let Some(failure) = &committed.failure {
        (shared.options.log)(&format!("a commit failed: {failure}"));
    }
    let outcome = |statuses: Option<Vec<LineStatus>>| {
        statuses.map(|statuses| WrittenGroup { statuses }).ok_or_else(|| NotWritten::Failed {
            problem: committed.failure.as_ref().map_or_else(String::new, ToString::to_string),
            is_full: committed.failure.as_ref().is_some_and(CommitError::is_full),
            retry_after: shared.options.retry_after,
        })
    };
    Some(committed.groups.into_iter().map(outcome).collect())
}
