//! How soon a thread runs when it wakes: scheduling policy (sched(7)) and CPU idle states (PM QoS).

#![allow(unsafe_code, reason = "sched_setattr(2) has no wrapper")]

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

/// Shortest time slice that the kernel grants (`__sched_setparam`, kernel/sched/syscalls.c: 0.1 ms to 100 ms).
const SLICE_NS: u64 = 100_000;
/// Lowest real-time priority: before everything that is not real time, behind all that is.
const REAL_TIME_PRIORITY: u32 = 1;

/// `struct sched_attr` as of Linux 3.14 (uapi/linux/sched/types.h); newer kernels take the shorter one.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// What a thread got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precedence {
    /// `SCHED_FIFO`: it runs when it wakes. Needs `CAP_SYS_NICE` in the first user namespace, or `RLIMIT_RTPRIO`.
    RealTime,
    /// A short time slice (Linux 6.12 and newer, as any user): it soon runs when it wakes and is content with little
    /// each time.
    ShortSlice,
    /// That of all other threads.
    None,
}

/// Asks that the calling thread, which sleeps much and is in a hurry when it wakes, run as soon as it can: as a
/// real-time thread where that is allowed, else with a short time slice. What cannot be had is no error: the thread
/// works in any case, only later.
pub fn prefer_latency() -> Precedence {
    let fifo =
        Attributes { policy: libc::SCHED_FIFO as u32, priority: REAL_TIME_PRIORITY, ..Attributes::default() };
    let slice = Attributes { runtime_ns: SLICE_NS, ..Attributes::default() };
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

fn set(attributes: &Attributes) -> Result<(), Errno> {
    // SAFETY: the kernel reads `size` bytes of the structure, which lives until the call returns; 0 is this thread.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attributes), 0) };
    if answer == 0 {
        return Ok(());
    }
    let code = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    Err(Errno::from_raw_os_error(code))
}

/// The CPU latency (PM QoS) that users of the machine tolerate, as a 32-bit integer of microseconds, for as long as the
/// file is open (Documentation/power/pm_qos_interface.rst). Root only on most machines.
const CPU_LATENCY_DEVICE: &str = "/dev/cpu_dma_latency";

/// While it exists, no processor of this machine enters an idle state: leaving one takes some 0.1 ms on bare metal and up
/// to milliseconds in a virtual machine. Costs power. Ends with this value or with the process.
#[derive(Debug)]
pub struct CpuLatencyRequest {
    _request: File,
}

impl CpuLatencyRequest {
    /// Requests a latency of 0 µs.
    ///
    /// # Errors
    /// `PermissionDenied` for ordinary users, as a rule; `NotFound` where kernel or container has no such device.
    pub fn zero() -> io::Result<Self> {
        let mut request = OpenOptions::new().write(true).open(CPU_LATENCY_DEVICE)?;
        request.write_all(&0_i32.to_ne_bytes())?;
        Ok(Self { _request: request })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn some_precedence_is_had_on_any_recent_kernel() {
        // In a thread of its own: what it gets would stay with the caller.
        let got = std::thread::spawn(prefer_latency).join().unwrap();
        assert_ne!(got, Precedence::None);
    }

    /// The smallest latency of all requests.
    fn tolerated() -> i32 {
        let mut value = [0; 4];
        File::open(CPU_LATENCY_DEVICE).unwrap().read_exact(&mut value).unwrap();
        i32::from_ne_bytes(value)
    }

    #[test]
    fn a_latency_request_holds_where_the_device_may_be_opened() {
        match CpuLatencyRequest::zero() {
            Ok(request) => {
                assert_eq!(tolerated(), 0);
                drop(request);
            }
            Err(error) => {
                let known = [io::ErrorKind::PermissionDenied, io::ErrorKind::NotFound];
                assert!(known.contains(&error.kind()), "{error}");
            }
        }
    }
}
