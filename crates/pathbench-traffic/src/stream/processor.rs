//! The processor of the threads that send and receive.

use pathbench_record::pattern::PatternParameters;
use pathbench_record::sample::Side;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum ProcessorError {
    #[error(
        "processor {processor} does not exist here, or this process may not use it (taskset -p shows which it may)"
    )]
    NotPermitted { processor: u32 },
    #[error("processor {processor}: {errno}")]
    Failed { processor: u32, errno: Errno },
}

/// The processor that the test requests for the threads of one end.
pub(crate) fn requested(parameters: &PatternParameters, side: Side) -> Option<u32> {
    let PatternParameters::Throughput(throughput) = parameters else { return None };
    match side {
        Side::Client => throughput.client_processor,
        Side::Server => throughput.server_processor,
    }
}

/// Whether this thread may run on `processor`.
pub(crate) fn check(processor: u32) -> Result<(), ProcessorError> {
    let permitted = sched_getaffinity(None).map_err(|errno| ProcessorError::Failed { processor, errno })?;
    let index = processor as usize;
    let is_permitted = index < CpuSet::MAX_CPU && permitted.is_set(index);
    if is_permitted { Ok(()) } else { Err(ProcessorError::NotPermitted { processor }) }
}

/// Restricts this thread, and the threads that it starts later, to `processor`.
pub(crate) fn pin_thread(processor: u32) -> Result<(), ProcessorError> {
    check(processor)?;
    let mut only = CpuSet::new();
    only.set(processor as usize);
    sched_setaffinity(None, &only).map_err(|errno| ProcessorError::Failed { processor, errno })
}
