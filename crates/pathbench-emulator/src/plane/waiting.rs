//! Waits for packets, commands and deadlines.
//!
//! Deadlines use a timer descriptor (timerfd): the timeout of `epoll_wait(2)` has a resolution of 1 ms, and the
//! timeouts of `epoll_pwait2(2)` and `ppoll(2)` may be late by 0.1 % (`select_estimate_accuracy`, fs/select.c).

use pathbench_host::tun::Tun;
use pathbench_record::time::Timestamp;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

const EVENTS: usize = 64;
const WAKE: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
/// A long wait ends this long before its deadline and continues as a short one: a processor takes longer to leave a
/// deep idle state than to wake shortly after a wake-up.
const LEAD: Duration = Duration::from_micros(120);
const LONG_WAIT: Duration = Duration::from_micros(400);
/// The last part of a long wait is busy polling: sleeping and waking take as long.
const LAST: Duration = Duration::from_micros(30);
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
const NEVER: Timespec = AT_ONCE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Handle,
    Device { number: u64, failed: bool },
}

#[derive(Debug)]
pub(super) struct Waiting {
    poll: OwnedFd,
    timer: OwnedFd,
    armed: Option<Timestamp>,
    approached: Option<Timestamp>,
    wake: Arc<OwnedFd>,
    calls: Vec<Call>,
}

impl Waiting {
    pub(super) fn new(wake: Arc<OwnedFd>) -> Result<Self, Errno> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&poll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        epoll::add(&poll, &timer, epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN)?;
        Ok(Self { poll, timer, armed: None, approached: None, wake, calls: Vec::with_capacity(EVENTS) })
    }

    pub(super) fn add(&self, tun: &Tun, number: u64) -> Result<(), Errno> {
        epoll::add(&self.poll, tun, epoll::EventData::new_u64(number), epoll::EventFlags::IN)
    }

    pub(super) fn remove(&self, tun: &Tun) {
        // The kernel has removed it already if its interface was deleted.
        let _ = epoll::delete(&self.poll, tun);
    }

    /// Waits until a descriptor is ready or `deadline` is reached or close; `None`: no limit. Repeated calls meet the
    /// deadline with the best accuracy of the machine.
    pub(super) fn wait(&mut self, now: Timestamp, deadline: Option<Timestamp>) -> Result<(), Errno> {
        let timer = match deadline {
            Some(deadline) if deadline > now + LONG_WAIT => {
                self.approached = Some(deadline);
                Some(deadline - LEAD)
            }
            Some(deadline) if self.approached == Some(deadline) => {
                if deadline <= now + LAST {
                    return self.look();
                }
                Some(deadline - LAST)
            }
            soon => soon,
        };
        if timer != self.armed {
            self.arm(timer)?;
        }
        self.fetch(None)
    }

    pub(super) fn look(&mut self) -> Result<(), Errno> {
        self.fetch(Some(&AT_ONCE))
    }

    pub(super) fn calls(&self) -> &[Call] {
        &self.calls
    }

    fn arm(&mut self, deadline: Option<Timestamp>) -> Result<(), Errno> {
        let it_value = deadline.map_or(NEVER, |deadline| {
            // Zero would disarm the timer.
            let nanos = deadline.as_nanos().max(1);
            Timespec { tv_sec: (nanos / 1_000_000_000) as _, tv_nsec: (nanos % 1_000_000_000) as _ }
        });
        let setting = Itimerspec { it_interval: NEVER, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        self.armed = deadline;
        Ok(())
    }

    fn fetch(&mut self, timeout: Option<&Timespec>) -> Result<(), Errno> {
        self.calls.clear();
        let mut space = [MaybeUninit::uninit(); EVENTS];
        let events = match epoll::wait(&self.poll, space.as_mut_slice(), timeout) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        for event in events {
            let (flags, number) = (event.flags, event.data.u64());
            match number {
                TIMER => {}
                WAKE => {
                    let _ = rustix::io::read(&self.wake, &mut [0; 8]);
                    self.calls.push(Call::Handle);
                }
                number => {
                    let failed = flags.contains(epoll::EventFlags::ERR);
                    self.calls.push(Call::Device { number, failed });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::time::Clock as _;
    use pathbench_testkit::MonotonicClock;
    use rustix::event::EventfdFlags;

    /// Regression: timeouts of `epoll_wait` were rounded up to milliseconds. The shortest of many waits is the accuracy
    /// of the mechanism; the longer ones depend on the machine.
    #[test]
    fn waits_of_parts_of_a_millisecond_are_that_long() {
        let wake = Arc::new(rustix::event::eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let mut waiting = Waiting::new(wake).unwrap();
        for wait in [Duration::from_micros(100), Duration::from_micros(1_200)] {
            let late = (0..50).map(|_| {
                let deadline = MonotonicClock.now() + wait;
                while MonotonicClock.now() < deadline {
                    waiting.wait(MonotonicClock.now(), Some(deadline)).unwrap();
                    assert_eq!(waiting.calls(), []);
                }
                MonotonicClock.now().duration_since(deadline)
            });
            let least = late.min().unwrap();
            assert!(least < Duration::from_micros(300), "{least:?} late after {wait:?}");
        }
    }

    #[test]
    fn a_wake_up_by_the_handle_is_reported_once() {
        let wake = Arc::new(rustix::event::eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let mut waiting = Waiting::new(Arc::clone(&wake)).unwrap();
        rustix::io::write(&wake, &1_u64.to_ne_bytes()).unwrap();
        waiting.wait(Timestamp::default(), None).unwrap();
        assert_eq!(waiting.calls(), [Call::Handle]);
        waiting.look().unwrap();
        assert_eq!(waiting.calls(), []);
    }
}
