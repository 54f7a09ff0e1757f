//! CPU time of single threads of this process (Documentation/scheduler/sched-stats.rst, `/proc/PID/schedstat`).

use pathbench_record::file;
use std::time::Duration;

/// A thread of this process. Its id may be reused after its end: read its time only while it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadId(u32);

/// Time that a thread has spent so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// On a CPU.
    pub ran: Duration,
    /// Ready to run, while other threads had the CPUs.
    pub waited: Duration,
}

impl ThreadId {
    pub fn current() -> Self {
        Self(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs())
    }

    /// `None` if the thread has ended, or if the kernel does not report it (without `CONFIG_SCHED_INFO`).
    pub fn time(self) -> Option<ThreadTime> {
        let path = format!("/proc/self/task/{}/schedstat", self.0);
        ThreadTime::parse(&file::read_text(path, file::SMALL_FILE_BYTES).ok()?)
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
