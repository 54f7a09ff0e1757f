//! Wake-up latency of threads: scheduling policy (sched(7)) and CPU idle states (`PM QoS`).

#![allow(unsafe_code, reason = "sched_setattr(2) has no wrapper")]

use rustix::process::{Resource, Rlimit};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

/// Shortest time slice that the kernel accepts (`__sched_setparam`, kernel/sched/syscalls.c: 0.1 ms to 100 ms).
const SLICE_NS: u64 = 100_000;
/// Lowest real-time priority: precedes all normal threads, follows all other real-time threads.
const REAL_TIME_PRIORITY: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precedence {
    /// `SCHED_FIFO`: runs on wake-up. Needs `CAP_SYS_NICE` in the initial user namespace, or `RLIMIT_RTPRIO`.
    RealTime,
    /// A short time slice (Linux 6.12 and newer, any user): runs soon after a wake-up, but for a short time.
    ShortSlice,
    None,
}

/// Minimises the wake-up latency of the calling thread: a real-time policy where permitted, otherwise a short time
/// slice. A refusal is not an error, because the thread works without it, with higher latency.
pub fn prefer_latency() -> Precedence {
    if schedule(libc::SCHED_FIFO, REAL_TIME_PRIORITY, 0) {
        Precedence::RealTime
    } else if shorten_slice() {
        Precedence::ShortSlice
    } else {
        Precedence::None
    }
}

/// Gives the calling thread the shortest time slice; whether the kernel accepted it. Before 6.12 it accepts the slice and
/// ignores it.
pub fn shorten_slice() -> bool {
    schedule(libc::SCHED_OTHER, 0, SLICE_NS)
}

/// Raises `RLIMIT_RTPRIO`, so that this process and its children can use real-time threads ([`prefer_latency`]) inside
/// a user namespace, which cannot grant that right. Requires privilege; otherwise no change and no error.
pub fn permit_precedence() {
    let limit = rustix::process::getrlimit(Resource::Rtprio);
    let priority = u64::from(REAL_TIME_PRIORITY);
    // `None` is unlimited.
    if limit.current.is_some_and(|current| current < priority) {
        let maximum = limit.maximum.map(|maximum| maximum.max(priority));
        let _stays =
            rustix::process::setrlimit(Resource::Rtprio, Rlimit { current: Some(priority), maximum });
    }
}

/// Whether the kernel accepted the policy for the calling thread.
fn schedule(policy: libc::c_int, priority: u32, runtime_ns: u64) -> bool {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: policy as u32,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: priority,
        sched_runtime: runtime_ns,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of the structure, which lives until the call returns; 0 is this thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

/// The tolerated CPU latency (`PM QoS`), a 32-bit integer in microseconds, in effect while the file is open
/// (`Documentation/power/pm_qos_interface.rst`). Root only on most machines.
const CPU_LATENCY_DEVICE: &str = "/dev/cpu_dma_latency";

/// Keeps all processors of this machine out of idle states: leaving one takes about 0.1 ms on bare metal and up to
/// milliseconds in a virtual machine. Increases power consumption. Ends with this value or with the process.
#[derive(Debug)]
pub struct CpuLatencyRequest {
    _request: File,
}

impl CpuLatencyRequest {
    #[expect(clippy::disallowed_methods, reason = "a device")]
    pub fn zero() -> io::Result<Self> {
        let mut request = OpenOptions::new().write(true).open(CPU_LATENCY_DEVICE)?;
        request.write_all(&0_i32.to_ne_bytes())?;
        Ok(Self { _request: request })
    }
}
