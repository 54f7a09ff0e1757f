//! CPU time of single threads of this process (Documentation/scheduler/sched-stats.rst, `/proc/PID/schedstat`).

use pathbench_record::file;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

/// Longest `schedstat`: three numbers.
const LONGEST: usize = 128;

/// A thread of this process. Other threads may read its time, while it lives: the open file has no thread id, which would
/// be that of another process-id namespace in a lab.
#[derive(Debug)]
pub struct ThreadClock(File);

/// Time that a thread has spent so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// On a CPU.
    pub ran: Duration,
    /// Ready to run, while other threads had the CPUs.
    pub waited: Duration,
}

impl ThreadClock {
    /// The CPU time of the calling thread; `None` if the kernel does not report it (without `CONFIG_SCHED_INFO`).
    pub fn of_this_thread() -> Option<Self> {
        file::open("/proc/thread-self/schedstat").ok().map(Self)
    }

    /// `None` if the thread has ended.
    pub fn time(&self) -> Option<ThreadTime> {
        let mut bytes = [0; LONGEST];
        let length = self.0.read_at(&mut bytes, 0).ok()?;
        ThreadTime::parse(std::str::from_utf8(&bytes[..length]).ok()?)
    }
}

impl ThreadTime {
    /// Parses `schedstat`: nanoseconds on a CPU, nanoseconds on a run queue, number of time slices.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace().map(|field| field.parse().ok());
        let mut next = || Some(Duration::from_nanos(fields.next()??));
        Some(Self { ran: next()?, waited: next()? })
    }
}
