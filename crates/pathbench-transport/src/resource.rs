//! CPU time of a test's threads and of the hypervisor, and the limits of TCP's buffers at this end.

use pathbench_host::load::LoadCounters;
use pathbench_host::sysctl;
use pathbench_host::thread_time::{ThreadClock, ThreadTime};
use pathbench_record::resource::{BufferLimits, RECEIVE_BUFFERS, SEND_BUFFERS, ThreadUse};
use pathbench_record::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// Measures the CPU time of one thread.
#[derive(Debug)]
pub struct ThreadMeter {
    thread: Arc<ThreadClock>,
    before: ThreadTime,
    begun: Timestamp,
}

impl ThreadMeter {
    /// Begins with the calling thread; `None` where the kernel does not report its time.
    pub fn start(now: Timestamp) -> Option<Self> {
        Self::with_thread(Arc::new(ThreadClock::of_this_thread()?), now)
    }

    pub(crate) fn with_thread(thread: Arc<ThreadClock>, now: Timestamp) -> Option<Self> {
        Some(Self { before: thread.time()?, thread, begun: now })
    }

    /// The time since the start; `None` if the thread has ended.
    pub fn stop(self, now: Timestamp) -> Option<ThreadUse> {
        let after = self.thread.time()?;
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Some(ThreadUse {
            ran_us: micros(after.ran.checked_sub(self.before.ran)?),
            waited_us: micros(after.waited.checked_sub(self.before.waited)?),
            measured_us: micros(now.duration_since(self.begun)),
        })
    }
}

/// Measures the CPU time that the hypervisor takes from this machine.
#[derive(Debug)]
pub struct StealMeter {
    before: LoadCounters,
    begun: Timestamp,
}

impl StealMeter {
    pub fn start(now: Timestamp) -> Self {
        Self { before: LoadCounters::read(), begun: now }
    }

    /// Percentage of the time of all CPUs since the start; `None` where the kernel does not report it.
    pub fn stop(self, now: Timestamp) -> Option<u32> {
        let load = LoadCounters::read().load_since(&self.before, now.duration_since(self.begun))?;
        Some(load.steal_percent?.round() as u32)
    }
}

/// The limits of TCP's buffers in the network namespace of the calling thread.
pub fn buffer_limits() -> Option<BufferLimits> {
    let read = |key| sysctl::read(key).ok();
    BufferLimits::parse(&read(RECEIVE_BUFFERS)?, &read(SEND_BUFFERS)?)
}
