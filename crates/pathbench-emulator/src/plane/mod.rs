//! The data plane: one thread that moves the packets of TUN devices through pipes.
//!
//! A link is two devices and a pipe for each direction. The thread reads a packet from one device immediately, puts it
//! into the pipe, and writes it to the other device when the pipe delivers it. The [`Lateness`] is the actual departure
//! time minus the departure time of the model, for every packet.
//!
//! Hosts send GSO packets. The data plane segments them into wire packets, so that loss and queues apply to each one.
//! Consecutive packets that leave within 50 µs are written together, like the interrupt moderation of a network card;
//! below 240 Mbit/s that never happens. GSO packets pass unsegmented in a direction with an unlimited rate or more than
//! 2 Gbit/s, without random effects.

mod engine;
mod link;
mod packet;
mod recorder;
mod report;
mod waiting;

use engine::{Command, Engine};
use link::Link;
use pathbench_link::pipe::PipeCondition;
use pathbench_link::{ChangeSchedule, LinkChange, LinkModel};
use pathbench_record::direction::LinkDirection;
use pathbench_record::time::{Clock, Timestamp};
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use waiting::Waiting;

pub use link::PlaneLink;
pub use report::{DirectionReport, Lateness, LinkReport, PlaneError, QueueSample};

/// The handle of the data plane. Dropping it ends the thread, the links and their devices, and completes captures.
#[derive(Debug)]
pub struct DataPlane {
    commands: Option<mpsc::Sender<Command>>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    wall_offset_ns: i64,
}

impl DataPlane {
    /// Starts the thread, without links.
    pub fn start(clock: Arc<dyn Clock>) -> Result<Self, PlaneError> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| PlaneError::Wake { action: "make", errno })?;
        let wake = Arc::new(wake);
        let waiting = Waiting::new(Arc::clone(&wake))
            .map_err(|errno| PlaneError::Wake { action: "wait for", errno })?;
        let (commands, inbox) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("links".to_owned())
            .spawn(move || engine::run(clock.as_ref(), &inbox, waiting))
            .map_err(|source| PlaneError::Thread { source })?;
        Ok(Self { commands: Some(commands), wake, thread: Some(thread), wall_offset_ns: 0 })
    }

    /// Sets the offset from the clock to nanoseconds since 1970, for the captures of links added from now on.
    /// Without it, captures begin in 1970.
    pub const fn set_wall_offset_ns(&mut self, offset_ns: i64) {
        self.wall_offset_ns = offset_ns;
    }

    /// Adds a link and returns its number. The link then carries packets.
    pub fn add(&self, link: PlaneLink) -> Result<usize, PlaneError> {
        let wall_offset_ns = self.wall_offset_ns;
        self.ask(move |engine, now| engine.add(Link::new(link, wall_offset_ns, now)?))
    }

    /// Changes one direction of a link, and returns once the change is in effect.
    pub fn change(
        &self,
        link: usize,
        direction: LinkDirection,
        change: LinkChange,
    ) -> Result<(), PlaneError> {
        self.ask_link(link, move |link, now| link.direction(direction).change(now, &change))
    }

    /// The current model of one direction of a link, including the changes of a schedule up to now.
    pub fn model(&self, link: usize, direction: LinkDirection) -> Result<LinkModel, PlaneError> {
        self.ask_link(link, move |link, _| link.direction(direction).pipe.model().clone())
    }

    /// Starts a schedule of changes in one direction of a link; see [`pathbench_link::pipe::Pipe::follow`].
    pub fn follow(
        &self,
        link: usize,
        direction: LinkDirection,
        schedule: ChangeSchedule,
    ) -> Result<(), PlaneError> {
        self.ask_link(link, move |link, now| link.direction(direction).follow(now, schedule))
    }

    /// Sets the condition of a link in both directions.
    pub fn set_condition(&self, link: usize, condition: PipeCondition) -> Result<(), PlaneError> {
        self.ask_link(link, move |link, now| link.set_condition(condition, now))
    }

    /// Restarts a link: its models as last set (without changes of a schedule) and its condition stay; schedules and
    /// random numbers restart; statistics, lateness, samples and packets in flight are discarded.
    pub fn restart(&self, link: usize, seeds: [u64; 2]) -> Result<(), PlaneError> {
        self.ask(move |engine, now| engine.restart(link, seeds, now))
    }

    /// The statistics of a link since it began.
    pub fn report(&self, link: usize) -> Result<LinkReport, PlaneError> {
        self.ask_link(link, Link::report)
    }

    fn ask_link<T: Send + 'static>(
        &self,
        link: usize,
        command: impl FnOnce(&mut Link, Timestamp) -> T + Send + 'static,
    ) -> Result<T, PlaneError> {
        self.ask(move |engine, now| Ok(command(engine.link(link)?, now)))
    }

    fn ask<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Engine<'_>, Timestamp) -> Result<T, PlaneError> + Send + 'static,
    ) -> Result<T, PlaneError> {
        let (reply, answer) = mpsc::sync_channel(1);
        let commands = self.commands.as_ref().ok_or(PlaneError::Ended)?;
        // `send` fails only if the caller no longer waits for the answer.
        let command: Command = Box::new(move |engine, now| _ = reply.send(command(engine, now)));
        commands.send(command).map_err(|_| PlaneError::Ended)?;
        self.wake()?;
        answer.recv().map_err(|_| PlaneError::Ended)?
    }

    fn wake(&self) -> Result<(), PlaneError> {
        match rustix::io::write(&self.wake, &1_u64.to_ne_bytes()) {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(PlaneError::Wake { action: "write to", errno }),
        }
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        // The thread ends when the sender of commands is dropped.
        self.commands = None;
        if self.wake().is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}
