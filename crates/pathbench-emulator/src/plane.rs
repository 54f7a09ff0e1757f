//! The data plane: one thread that moves the packets of TUN devices through pipes.
//!
//! A link is two devices and a pipe for each direction. What a host sends through one device is read at once, goes into the
//! pipe, and is written to the other device when the pipe delivers it. The time by which it is later than that is the
//! [`Lateness`], counted for every packet.
//!
//! Hosts hand over what is still to be cut into segments. It is cut here, a wire packet at a time, so that loss and queues
//! treat each by itself. Neighbours that leave within 50 µs are written together, as a network card would hand them up;
//! below 240 Mbit/s that never happens. A direction that treats no packet by itself (unlimited or beyond 2 Gbit/s,
//! nothing left to chance) is spared the cutting.

mod engine;
mod link;
mod packet;
mod recorder;
mod report;
mod waiting;

use crate::pipe::Condition;
use engine::{Command, Engine};
use link::Link;
use pathbench_host::tun::Tun;
use pathbench_link::ChangeSchedule;
use pathbench_link::{LinkChange, LinkModel};
use pathbench_record::direction::LinkDirection;
use pathbench_record::time::{Clock, Timestamp};
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use waiting::Waiting;

pub use report::{DirectionReport, Lateness, LinkReport, QueueSample};

#[derive(Debug)]
pub struct PlaneLink {
    pub name: String,
    pub ends: [Tun; 2],
    /// What happens to packets from the first end to the second, and back.
    pub models: [LinkModel; 2],
    /// What decides over chance, each direction.
    pub seeds: [u64; 2],
    /// The file that records every packet and its fate (pcapng); overwritten.
    pub capture: Option<PathBuf>,
}

/// A request to the data plane was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    #[error("cannot start the thread that moves the packets of emulated links: {source}")]
    Thread { source: std::io::Error },
    #[error("cannot {action} the event descriptor of the emulated links: {errno}")]
    Wake { action: &'static str, errno: Errno },
    #[error("the thread that moves the packets of emulated links has ended; this is a bug in Pathbench")]
    Ended,
    #[error("there is no emulated link with number {link}")]
    NoSuchLink { link: usize },
    #[error(
        "cannot write the capture of link {link} to {path:?}: {source}; is there such a directory, and room?"
    )]
    Capture { link: String, path: PathBuf, source: std::io::Error },
}

/// The handle of the data plane. Its end is that of the thread, of the links and of their devices; captures are
/// complete by then.
pub struct DataPlane {
    commands: Option<mpsc::Sender<Command>>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    links: usize,
    wall_offset_ns: i64,
}

impl DataPlane {
    /// Starts the thread. It begins without links.
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
        Ok(Self { commands: Some(commands), wake, thread: Some(thread), links: 0, wall_offset_ns: 0 })
    }

    /// Says what to add to the clock to get nanoseconds since 1970, for the captures of links added from now on.
    /// Without it, captures begin in 1970.
    pub const fn set_wall_offset_ns(&mut self, offset_ns: i64) {
        self.wall_offset_ns = offset_ns;
    }

    /// Adds a link; it carries packets by the time this returns its number.
    pub fn add(&mut self, link: PlaneLink) -> Result<usize, PlaneError> {
        let wall_offset_ns = self.wall_offset_ns;
        let number = self.ask(move |engine, now| engine.add(Link::new(link, wall_offset_ns, now)?))?;
        self.links = number + 1;
        Ok(number)
    }

    /// Changes one direction of a link, and returns once that is in force.
    pub fn change(
        &self,
        link: usize,
        direction: LinkDirection,
        change: LinkChange,
    ) -> Result<(), PlaneError> {
        self.ask(move |engine, now| {
            engine.link(link)?.direction(direction).change(now, &change);
            Ok(())
        })
    }

    /// The model in force in one direction of a link, including the changes of a schedule up to now.
    pub fn model(&self, link: usize, direction: LinkDirection) -> Result<LinkModel, PlaneError> {
        self.ask(move |engine, _| Ok(engine.link(link)?.direction(direction).pipe.model().clone()))
    }

    /// Has one direction of a link follow a schedule of changes from now on, see [`crate::pipe::Pipe::follow`].
    pub fn follow(
        &self,
        link: usize,
        direction: LinkDirection,
        schedule: ChangeSchedule,
    ) -> Result<(), PlaneError> {
        self.ask(move |engine, now| {
            engine.link(link)?.direction(direction).follow(now, schedule);
            Ok(())
        })
    }

    /// Changes how a link carries packets, in both directions.
    pub fn set_condition(&self, link: usize, condition: Condition) -> Result<(), PlaneError> {
        self.ask(move |engine, now| {
            engine.link(link)?.set_condition(condition, now);
            Ok(())
        })
    }

    /// Restarts a link: its models as last set (without changes of a schedule) and its condition stay; schedules and
    /// random numbers begin anew; statistics, lateness, samples and packets under way are discarded.
    pub fn restart(&self, link: usize, seeds: [u64; 2]) -> Result<(), PlaneError> {
        self.ask(move |engine, now| engine.restart(link, seeds, now))
    }

    /// The statistics of a link since it began.
    pub fn report(&self, link: usize) -> Result<LinkReport, PlaneError> {
        self.ask(move |engine, now| Ok(engine.link(link)?.report(now)))
    }

    fn ask<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Engine<'_>, Timestamp) -> Result<T, PlaneError> + Send + 'static,
    ) -> Result<T, PlaneError> {
        let (reply, answer) = mpsc::sync_channel(1);
        let commands = self.commands.as_ref().ok_or(PlaneError::Ended)?;
        // A caller that no longer waits for the answer needs none.
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

impl std::fmt::Debug for DataPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataPlane").field("links", &self.links).finish_non_exhaustive()
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        // The thread ends when the sender of commands is gone.
        self.commands = None;
        if self.wake().is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}
