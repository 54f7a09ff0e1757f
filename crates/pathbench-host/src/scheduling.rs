//! How soon a thread runs when it wakes: scheduling policy (sched(7)) and CPU idle states (`PM QoS`).

#![allow(unsafe_code, reason = "sched_setattr(2) has no wrapper")]

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

/// Shortest time slice that the kernel grants (`__sched_setparam`, kernel/sched/syscalls.c: 0.1 ms to 100 ms).
const SLICE_NS: u64 = 100_000;
/// Lowest real-time priority: before everything that is not real time, behind all that is.
const REAL_TIME_PRIORITY: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precedence {
    /// `SCHED_FIFO`: it runs when it wakes. Needs `CAP_SYS_NICE` in the first user namespace, or `RLIMIT_RTPRIO`.
    RealTime,
    /// A short time slice (Linux 6.12 and newer, as any user): it soon runs when it wakes and is content with little
    /// each time.
    ShortSlice,
    None,
}

/// Asks that the calling thread, which sleeps much and is in a hurry when it wakes, run as soon as it can: as a
/// real-time thread where that is allowed, else with a short time slice. What cannot be had is no error: the thread
/// works in any case, only later.
pub fn prefer_latency() -> Precedence {
    let fifo = attributes(libc::SCHED_FIFO, REAL_TIME_PRIORITY, 0);
    let slice = attributes(libc::SCHED_OTHER, 0, SLICE_NS);
    if set(&fifo).is_ok() {
        Precedence::RealTime
    } else if set(&slice).is_ok() {
        // Before 6.12 the kernel takes the slice and makes nothing of it.
        Precedence::ShortSlice
    } else {
        Precedence::None
    }
}

/// Lets this process and all that it starts make threads that come before all others ([`prefer_latency`]), also from
/// within a user namespace, where they could not be given that right. Only a privileged process can; others stay as
/// they are, which is no error.
pub fn permit_precedence() {
    let limit = rustix::process::getrlimit(Resource::Rtprio);
    let priority = u64::from(REAL_TIME_PRIORITY);
    // `None` is no limit at all.
    if limit.current.is_some_and(|current| current < priority) {
        let maximum = limit.maximum.map(|maximum| maximum.max(priority));
        let _stays =
            rustix::process::setrlimit(Resource::Rtprio, Rlimit { current: Some(priority), maximum });
    }
}

fn attributes(policy: libc::c_int, priority: u32, runtime_ns: u64) -> libc::sched_attr {
    libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: policy as u32,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: priority,
        sched_runtime: runtime_ns,
        sched_deadline: 0,
        sched_period: 0,
    }
}

fn set(attributes: &libc::sched_attr) -> Result<(), Errno> {
    // SAFETY: the kernel reads `size` bytes of the structure, which lives until the call returns; 0 is this thread.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attributes), 0) };
    if answer == 0 {
        return Ok(());
    }
    let code = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    Err(Errno::from_raw_os_error(code))
}

/// The CPU latency (`PM QoS`) that users of the machine tolerate, as a 32-bit integer of microseconds, for as long as the
/// file is open (`Documentation/power/pm_qos_interface.rst`). Root only on most machines.
const CPU_LATENCY_DEVICE: &str = "/dev/cpu_dma_latency";

/// While it exists, no processor of this machine enters an idle state: leaving one takes some 0.1 ms on bare metal and up
/// to milliseconds in a virtual machine. Costs power. Ends with this value or with the process.
#[derive(Debug)]
pub struct CpuLatencyRequest {
    _request: File,
}

impl CpuLatencyRequest {
    /// Requests a latency of 0 µs.
    pub fn zero() -> io::Result<Self> {
        let mut request = OpenOptions::new().write(true).open(CPU_LATENCY_DEVICE)?;
        request.write_all(&0_i32.to_ne_bytes())?;
        Ok(Self { _request: request })
    }
}
