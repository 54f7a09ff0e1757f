//! Virtual time of several threads: it moves only while all of them sleep.

use pathbench_record::time::{Clock, Timestamp, WallClock};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

#[derive(Debug)]
struct State {
    now: Timestamp,
    /// The threads that use the clock, with the deadline of those that sleep.
    threads: HashMap<ThreadId, Option<Timestamp>>,
    /// Real time of a step, in which processes and the test get the processor.
    pause: Duration,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// A clock that moves to the earliest deadline when all threads sleep that have read it and have not ended. A request
/// to the collector takes no time; a process takes `pause` / 200 ms of it.
#[derive(Debug, Clone)]
pub(crate) struct LockstepClock {
    shared: Arc<Shared>,
    epoch: Duration,
}

/// Removes a thread that ends.
struct Registration(Vec<(ThreadId, Arc<Shared>)>);

impl Drop for Registration {
    fn drop(&mut self) {
        for (own, shared) in &self.0 {
            shared.state.lock().unwrap().threads.remove(own);
            shared.changed.notify_all();
        }
    }
}

thread_local! {
    static REGISTRATION: RefCell<Registration> = const { RefCell::new(Registration(Vec::new())) };
}

impl LockstepClock {
    pub(crate) fn from_unix(seconds: u64) -> Self {
        let state = State { now: Timestamp::default(), threads: HashMap::new(), pause: Duration::ZERO };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        Self { shared, epoch: Duration::from_secs(seconds) }
    }

    pub(crate) fn set_pause(&self, pause: Duration) {
        self.shared.state.lock().unwrap().pause = pause;
    }

    /// For a thread that time does not wait for.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.shared.state.lock().unwrap().now.as_nanos())
    }

    /// Waits until other threads have moved the clock by `time`.
    #[track_caller]
    pub(crate) fn pass(&self, time: Duration) {
        let end = self.elapsed() + time;
        assert!(super::within(super::host::PATIENCE, || self.elapsed() >= end), "virtual time stands still");
    }
}

impl LockstepClock {
    fn register(&self, state: &mut State) -> ThreadId {
        let own = thread::current().id();
        state.threads.entry(own).or_insert_with(|| {
            REGISTRATION.with(|all| all.borrow_mut().0.push((own, Arc::clone(&self.shared))));
            None
        });
        own
    }
}

impl Clock for LockstepClock {
    fn now(&self) -> Timestamp {
        let mut state = self.shared.state.lock().unwrap();
        self.register(&mut state);
        state.now
    }

    fn sleep_until(&self, deadline: Timestamp) {
        let mut state = self.shared.state.lock().unwrap();
        let own = self.register(&mut state);
        state.threads.insert(own, Some(deadline));
        loop {
            if state.now >= deadline {
                state.threads.insert(own, None);
                return;
            }
            let earliest = state.threads.values().copied().reduce(|one, other| Some(one?.min(other?)));
            let Some(Some(earliest)) = earliest else {
                state = self.shared.changed.wait(state).unwrap();
                continue;
            };
            let pause = state.pause;
            drop(state);
            thread::sleep(pause);
            state = self.shared.state.lock().unwrap();
            // Another thread may have moved the clock meanwhile.
            if state.threads.values().all(Option::is_some) && earliest > state.now {
                state.now = earliest;
                for due in state.threads.values_mut().filter(|due| due.is_some_and(|due| due <= earliest)) {
                    *due = None;
                }
                self.shared.changed.notify_all();
            }
        }
    }
}

impl WallClock for LockstepClock {
    fn since_epoch(&self) -> Duration {
        self.epoch + self.elapsed()
    }
}
