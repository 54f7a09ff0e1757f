//! The data plane's thread: waits for packets, deadlines and commands, and serves the links.

use super::link::{Link, Tools};
use super::packet::{MODERATION, Outlet, Pool};
use super::report::PlaneError;
use super::waiting::{Call, Waiting};
use pathbench_host::scheduling::CpuLatencyRequest;
use pathbench_record::direction::LinkDirection;
use pathbench_record::time::{Clock, Timestamp};
use rustix::io::Errno;
use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// The processors may enter idle states after this time without packets, which is longer than the interval of pings.
const REST: Duration = Duration::from_secs(3);

pub(super) type Command = Box<dyn FnOnce(&mut Engine<'_>, Timestamp) + Send>;

pub(super) fn run(clock: &dyn Clock, inbox: &Receiver<Command>, waiting: Waiting) {
    // With the default timer slack the kernel may wake this thread 50 µs late. A refusal increases the lateness.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    // A refusal increases the lateness, too.
    let _ = pathbench_host::scheduling::prefer_latency();
    let tools = Tools {
        clock,
        pool: Pool::new(),
        outlet: Outlet::default(),
        left_at: Timestamp::default(),
        joined: Vec::new(),
    };
    let mut engine = Engine { waiting, links: Vec::new(), tools, next_sample: None, awake: None };
    // Without a working poll descriptor the thread ends; the handle reports `PlaneError::Ended`.
    while engine.wait().is_ok() {
        if engine.read_calls() && !engine.run_commands(inbox) {
            return;
        }
        engine.receive();
    }
}

pub(super) struct Engine<'thread> {
    waiting: Waiting,
    links: Vec<Link>,
    tools: Tools<'thread>,
    /// Time of the next samples; `None` while no link changes.
    next_sample: Option<Timestamp>,
    awake: Option<AwakeRequest>,
}

/// Keeps processors out of idle states while packets are carried, because leaving an idle state takes time. `_latency`
/// is `None` if the request is not permitted.
struct AwakeRequest {
    ends: Timestamp,
    _latency: Option<CpuLatencyRequest>,
}

impl Engine<'_> {
    fn serve(&mut self) -> bool {
        let mut busy = false;
        for link in &mut self.links {
            for direction in LinkDirection::BOTH {
                let now = self.tools.clock.now();
                busy |= link.serve(direction, now, &mut self.tools);
                busy |= link.ends[direction.index()].readable;
            }
        }
        busy
    }

    fn wait(&mut self) -> Result<(), Errno> {
        if self.serve() {
            return self.waiting.look();
        }
        let now = self.tools.clock.now();
        if self.next_sample.is_some_and(|at| at <= now) {
            let changed = self.links.iter_mut().fold(false, |changed, link| changed | link.sample(now));
            self.next_sample = changed.then(|| now + SAMPLE_INTERVAL);
            if changed {
                self.keep_awake(now);
            }
        }
        self.awake.take_if(|awake| awake.ends <= now);
        // A timer and its wake-up cost more CPU time than a packet, especially in virtual machines.
        let moderated = self.tools.left_at + MODERATION;
        let departure = self.deadline().map(|deadline| deadline.max(moderated));
        let rest = self.awake.as_ref().map(|awake| awake.ends);
        self.waiting.wait(now, departure.into_iter().chain(self.next_sample).chain(rest).min())
    }

    fn keep_awake(&mut self, now: Timestamp) {
        let ends = now + REST;
        match &mut self.awake {
            Some(awake) => awake.ends = ends,
            none => *none = Some(AwakeRequest { ends, _latency: CpuLatencyRequest::zero().ok() }),
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.links.iter().filter_map(Link::next_deadline).min()
    }

    fn read_calls(&mut self) -> bool {
        let mut called = false;
        for call in self.waiting.calls() {
            let Call::Device { number, failed } = *call else {
                called = true;
                continue;
            };
            let Some(link) = self.links.get_mut((number / 2) as usize) else { continue };
            let end = &mut link.ends[(number % 2) as usize];
            end.removed |= failed;
            end.readable = !end.removed;
            if end.removed {
                // Otherwise every wait would report it as ready.
                self.waiting.remove(&end.tun);
            }
        }
        called
    }

    fn receive(&mut self) {
        let deadline = self.deadline();
        for link in &mut self.links {
            for direction in LinkDirection::BOTH {
                if link.ends[direction.index()].readable {
                    link.receive(direction, deadline, &mut self.tools);
                }
            }
        }
        if self.next_sample.is_none() {
            let now = self.tools.clock.now();
            self.next_sample = Some(now + SAMPLE_INTERVAL);
            self.keep_awake(now);
        }
    }

    /// Executes the pending commands; returns whether the handle still exists.
    fn run_commands(&mut self, inbox: &Receiver<Command>) -> bool {
        loop {
            match inbox.try_recv() {
                Ok(command) => {
                    // Serve the links first, so that counters and samples include all packets that are due.
                    self.serve();
                    let now = self.tools.clock.now();
                    command(self, now);
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    pub(super) fn restart(&mut self, link: usize, seeds: [u64; 2], now: Timestamp) -> Result<(), PlaneError> {
        let found = self.links.get_mut(link).ok_or(PlaneError::NoSuchLink { link })?;
        found.restart(seeds, now, &mut self.tools.pool);
        Ok(())
    }

    pub(super) fn link(&mut self, link: usize) -> Result<&mut Link, PlaneError> {
        self.links.get_mut(link).ok_or(PlaneError::NoSuchLink { link })
    }

    pub(super) fn add(&mut self, link: Link) -> Result<usize, PlaneError> {
        let number = self.links.len();
        for (end, index) in link.ends.iter().zip(0_u64..) {
            self.waiting
                .add(&end.tun, number as u64 * 2 + index)
                .map_err(|errno| PlaneError::Wake { action: "wait for packets beside", errno })?;
        }
        self.links.push(link);
        Ok(number)
    }
}
