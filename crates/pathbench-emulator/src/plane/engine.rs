//! The thread: waits for packets, times and commands, and has the links do what is to be done.

use super::PlaneError;
use super::link::{Link, Tools};
use super::packet::{MODERATION, Outlet, Pool};
use super::waiting::{Call, Waiting};
use pathbench_host::scheduling::CpuLatencyRequest;
use pathbench_record::direction::LinkDirection;
use pathbench_record::time::{Clock, Timestamp};
use rustix::io::Errno;
use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// The processors may sleep again when nothing was carried for this long: longer than between pings.
const REST: Duration = Duration::from_secs(3);

pub(super) type Command = Box<dyn FnOnce(&mut Engine<'_>, Timestamp) + Send>;

pub(super) fn run(clock: &dyn Clock, inbox: &Receiver<Command>, waiting: Waiting) {
    // Without it the kernel may wake this thread 50 µs late; that it cannot be set shows in the lateness.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    // So does what precedence it gets.
    let _ = pathbench_host::scheduling::prefer_latency();
    let tools = Tools {
        clock,
        pool: Pool::new(),
        outlet: Outlet::default(),
        left_at: Timestamp::default(),
        joined: Vec::new(),
    };
    let mut engine = Engine { waiting, links: Vec::new(), tools, next_sample: None, attention: None };
    // When there is nothing to wait with any more, the thread ends, which the handle finds out.
    while engine.wait().is_ok() {
        if engine.take_note() && engine.obey(inbox) == Handle::Gone {
            return;
        }
        engine.receive();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handle {
    There,
    Gone,
}

pub(super) struct Engine<'thread> {
    waiting: Waiting,
    links: Vec<Link>,
    tools: Tools<'thread>,
    /// When samples are taken next; `None` while nothing happens.
    next_sample: Option<Timestamp>,
    attention: Option<Attention>,
}

/// While packets are carried, no processor sleeps: it would be late for the next. `None` where that is not allowed,
struct Attention {
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
                self.attend(now);
            }
        }
        self.attention.take_if(|attention| attention.ends <= now);
        // Setting a timer and being woken costs more than a packet does, most of all in virtual machines.
        let moderated = self.tools.left_at + MODERATION;
        let departure = self.deadline().map(|deadline| deadline.max(moderated));
        let rest = self.attention.as_ref().map(|attention| attention.ends);
        self.waiting.wait(now, departure.into_iter().chain(self.next_sample).chain(rest).min())
    }

    fn attend(&mut self, now: Timestamp) {
        let ends = now + REST;
        match &mut self.attention {
            Some(attention) => attention.ends = ends,
            none => *none = Some(Attention { ends, _latency: CpuLatencyRequest::zero().ok() }),
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.links.iter().filter_map(Link::next_deadline).min()
    }

    fn take_note(&mut self) -> bool {
        let mut called = false;
        for call in self.waiting.calls() {
            let Call::Device { number, failed } = *call else {
                called = true;
                continue;
            };
            let Some(link) = self.links.get_mut((number / 2) as usize) else { continue };
            let end = &mut link.ends[(number % 2) as usize];
            end.gone |= failed;
            end.readable = !end.gone;
            if end.gone {
                // It would call again and again.
                self.waiting.remove(&end.tun);
            }
        }
        called
    }

    fn receive(&mut self) {
        let deadline = self.deadline();
        // What a device has called for was there when it called, however long reading it takes.
        let called = self.tools.clock.now();
        for link in &mut self.links {
            for direction in LinkDirection::BOTH {
                if link.ends[direction.index()].readable {
                    link.receive(direction, called, deadline, &mut self.tools);
                }
            }
        }
        if self.next_sample.is_none() {
            let now = self.tools.clock.now();
            self.next_sample = Some(now + SAMPLE_INTERVAL);
            self.attend(now);
        }
    }

    fn obey(&mut self, inbox: &Receiver<Command>) -> Handle {
        loop {
            match inbox.try_recv() {
                Ok(command) => self.carry_out(command),
                Err(TryRecvError::Empty) => return Handle::There,
                Err(TryRecvError::Disconnected) => return Handle::Gone,
            }
        }
    }

    fn carry_out(&mut self, command: Command) {
        // Everything that was due before has left by then, so that counters and samples are of now.
        self.serve();
        let now = self.tools.clock.now();
        command(self, now);
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
        for (end, place) in link.ends.iter().zip(0_u64..) {
            self.waiting
                .add(&end.tun, number as u64 * 2 + place)
                .map_err(|errno| PlaneError::Wake { action: "wait for packets beside", errno })?;
        }
        self.links.push(link);
        Ok(number)
    }
}
