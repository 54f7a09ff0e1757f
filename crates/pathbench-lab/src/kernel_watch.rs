//! Listens to the kernels of all hosts of a lab while a run goes on: MPTCP path managers, links, addresses.

use crate::environment::{Environment, EnvironmentError, NodeHandle};
use pathbench_analysis::assembly::{Notification, SeenEvent};
use pathbench_host::link_events::LinkEventStream;
use pathbench_host::mptcp::EventStream;
use pathbench_record::time::Clock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Longest time between the end of the watch and its thread noticing.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A thread that writes down every notification with the time at which it was read.
#[derive(Debug)]
pub(crate) struct KernelWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<SeenEvent>>>,
}

impl KernelWatch {
    pub(crate) fn start(environment: &Environment, clock: &Arc<dyn Clock>) -> Result<Self, EnvironmentError> {
        let mut ears = environment.nodes().iter().map(Ears::of).collect::<Result<Vec<_>, _>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, clock) = (Arc::clone(&stop), Arc::clone(clock));
        let thread = std::thread::spawn(move || watch(&mut ears, &stopped, &*clock));
        Ok(Self { stop, thread: Some(thread) })
    }

    pub(crate) fn stop(mut self) -> Vec<SeenEvent> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for KernelWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Ears {
    node: String,
    mptcp: Option<EventStream>,
    links: LinkEventStream,
}

impl Ears {
    fn of(node: &NodeHandle) -> Result<Self, EnvironmentError> {
        Ok(Self { node: node.name().to_owned(), mptcp: node.mptcp_events()?, links: node.link_events()? })
    }

    /// What has come since the last time.
    fn hear(&mut self) -> Vec<Notification> {
        let mptcp = self.mptcp.as_mut().and_then(|stream| stream.receive().ok()).unwrap_or_default();
        let mptcp = mptcp.into_iter().map(Notification::Mptcp);
        let links = self.links.receive().unwrap_or_default().into_iter().map(Notification::Link);
        links.chain(mptcp).collect()
    }
}

fn watch(ears: &mut [Ears], stop: &AtomicBool, clock: &dyn Clock) -> Vec<SeenEvent> {
    let mut seen = Vec::new();
    loop {
        // Looked at before reading, so that what was queued when the stop came is still read.
        let last_round = stop.load(Ordering::Relaxed);
        let mut waiting: Vec<PollFd<'_>> = ears
            .iter()
            .flat_map(|ears| {
                ears.mptcp.as_ref().map(EventStream::as_fd).into_iter().chain([ears.links.as_fd()])
            })
            .map(|stream| PollFd::from_borrowed_fd(stream, PollFlags::IN))
            .collect();
        let ready = poll(&mut waiting, Some(&WAIT));
        drop(waiting);
        if ready.is_ok_and(|count| count > 0) {
            let at = clock.now();
            for ears in ears.iter_mut() {
                let node = ears.node.clone();
                seen.extend(ears.hear().into_iter().map(|what| SeenEvent { at, node: node.clone(), what }));
            }
        } else if last_round {
            return seen;
        }
    }
}
