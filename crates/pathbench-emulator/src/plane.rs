//! The data plane: one thread that moves the packets of TUN devices through pipes.
//!
//! A link is two devices and a pipe for each way. What a host sends through one device is read at once, goes into the
//! pipe, and is written to the other device when the pipe says so. How much later than that it really is is the
//! [`Lateness`], counted for every packet.
//!
//! Hosts hand over what is still to be cut into segments. It is cut here, a wire packet at a time, so that loss and queues
//! treat each by itself. Neighbours that leave within 50 µs are written together, as a network card would hand them up;
//! below 240 Mbit/s that never happens. A direction that treats no packet by itself (unlimited or beyond 2 Gbit/s,
//! nothing left to chance) is spared the cutting.

mod command;
mod direction;
mod engine;
mod granularity;
mod lateness;
mod link;
mod outlet;
mod packet;
mod recorder;
mod report;
mod waiting;

use crate::pipe::Condition;
use command::{Command, Reply};
use pathbench_host::tun::Tun;
use pathbench_link::ChangeSchedule;
use pathbench_link::{LinkChange, LinkModel};
use pathbench_record::direction::LinkDirection;
use pathbench_record::time::Clock;
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use waiting::Waiting;

pub use lateness::Lateness;
pub use report::{DirectionReport, LinkReport, QueueSample};

/// A link to be: its devices and what it does.
#[derive(Debug)]
pub struct PlaneLink {
    /// For captures and messages.
    pub name: String,
    /// The two ends.
    pub ends: [Tun; 2],
    /// What happens to packets from the first end to the second, and back.
    pub models: [LinkModel; 2],
    /// What decides over chance, each way.
    pub seeds: [u64; 2],
    /// The file that records every packet and its fate (pcapng); overwritten.
    pub capture: Option<PathBuf>,
}

/// A request to the data plane was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// Its thread could not be started.
    #[error("cannot start the thread that moves the packets of emulated links: {source}")]
    Thread {
        /// What the system said.
        source: std::io::Error,
    },
    /// What wakes its thread could not be made or used.
    #[error("cannot {action} the event descriptor of the emulated links: {errno}")]
    Wake {
        /// What was being done.
        action: &'static str,
        /// What the system call said.
        errno: Errno,
    },
    /// Its thread is gone, which only a mistake in this program can bring about.
    #[error("the thread that moves the packets of emulated links has ended; this is a bug in Pathbench")]
    Ended,
    /// There is no such link.
    #[error("there is no emulated link with number {link}")]
    NoSuchLink {
        /// The number.
        link: usize,
    },
    /// The capture's file could not be made.
    #[error(
        "cannot write the capture of link {link} to {path:?}: {source}; is there such a directory, and room?"
    )]
    Capture {
        /// The link's name.
        link: String,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The handle of the data plane. Its end is that of the thread, of the links and of their devices; captures are
/// complete by then.
#[derive(Debug)]
pub struct DataPlane {
    commands: Option<mpsc::Sender<Command>>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    links: usize,
    wall_offset_ns: i64,
}

impl DataPlane {
    /// Starts the thread. It begins without links.
    ///
    /// # Errors
    /// [`PlaneError::Thread`] and [`PlaneError::Wake`].
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
        let number = self.ask(|reply| Command::Add { link: Box::new(link), wall_offset_ns, reply })?;
        self.links = number + 1;
        Ok(number)
    }

    /// Changes what one way of a link does, and returns once that is in force.
    pub fn change(&self, link: usize, way: LinkDirection, change: LinkChange) -> Result<(), PlaneError> {
        self.ask(|reply| Command::Change { link, way, change: Box::new(change), reply })
    }

    /// The model in force in one direction of a link, with what a schedule of changes has made of it by now.
    pub fn model(&self, link: usize, way: LinkDirection) -> Result<LinkModel, PlaneError> {
        self.ask(|reply| Command::Model { link, way, reply })
    }

    /// Has one way of a link follow a schedule of changes from now on, see [`crate::pipe::Pipe::follow`].
    pub fn follow(
        &self,
        link: usize,
        way: LinkDirection,
        schedule: ChangeSchedule,
    ) -> Result<(), PlaneError> {
        self.ask(|reply| Command::Follow { link, way, schedule, reply })
    }

    /// Changes how a link carries packets, both ways.
    pub fn set_condition(&self, link: usize, condition: Condition) -> Result<(), PlaneError> {
        self.ask(|reply| Command::SetCondition { link, condition, reply })
    }

    /// Begins a link anew: its models as last set (without what a schedule of changes made of them) and its condition
    /// stay; schedules and random numbers are at their beginning; statistics, lateness and samples are gone. Packets
    /// that are under way are gone, too.
    pub fn restart(&self, link: usize, seeds: [u64; 2]) -> Result<(), PlaneError> {
        self.ask(|reply| Command::Restart { link, seeds, reply })
    }

    /// What a link has done since it began.
    pub fn report(&self, link: usize) -> Result<LinkReport, PlaneError> {
        self.ask(|reply| Command::Report { link, reply })
    }

    /// Sends a command and waits for the answer.
    fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, PlaneError> {
        let (reply, answer) = mpsc::sync_channel(1);
        let commands = self.commands.as_ref().ok_or(PlaneError::Ended)?;
        commands.send(command(reply)).map_err(|_| PlaneError::Ended)?;
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
        // The thread ends when nobody can send commands any more.
        self.commands = None;
        if self.wake().is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}
