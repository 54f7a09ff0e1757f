//! Events of the kernels of all hosts during a run: MPTCP path managers, links, addresses.

use crate::environment::{EnvironmentError, NodeHandle};
use pathbench_analysis::assembly::{Notification, SeenEvent};
use pathbench_host::link_events::LinkEventStream;
use pathbench_host::mptcp::EventStream;
use pathbench_record::time::Clock;
use pathbench_transport::lock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Longest time between the end of the watch and the end of its thread.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Records every kernel event with the time at which it was read, on a separate thread.
#[derive(Debug)]
pub struct KernelWatch {
    received: Arc<Mutex<Vec<SeenEvent>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The events of one host's kernel.
#[derive(Debug)]
pub struct KernelEvents {
    /// The host's name in results.
    pub node: String,
    pub mptcp: Option<EventStream>,
    pub links: LinkEventStream,
}

impl KernelWatch {
    pub fn start(mut hosts: Vec<KernelEvents>, clock: &Arc<dyn Clock>) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (sink, stopped, clock) = (Arc::clone(&received), Arc::clone(&stop), Arc::clone(clock));
        let thread = std::thread::spawn(move || watch(&mut hosts, &sink, &stopped, &*clock));
        Self { received, stop, thread: Some(thread) }
    }

    /// The events since the last call.
    pub fn take(&self) -> Vec<SeenEvent> {
        std::mem::take(&mut *lock(&self.received))
    }

    /// Ends the watch, and returns the events since the last call.
    pub fn stop(mut self) -> Vec<SeenEvent> {
        self.end();
        self.take()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The panic hook has already printed a panic of the thread.
            let _ended = thread.join();
        }
    }
}

impl Drop for KernelWatch {
    fn drop(&mut self) {
        self.end();
    }
}

impl KernelEvents {
    pub(crate) fn open(node: &NodeHandle) -> Result<Self, EnvironmentError> {
        Ok(Self { node: node.name().to_owned(), mptcp: node.mptcp_events()?, links: node.link_events()? })
    }

    /// The events since the last call.
    fn receive(&mut self) -> Vec<Notification> {
        let mptcp = self.mptcp.as_mut().and_then(|stream| stream.receive().ok()).unwrap_or_default();
        let mptcp = mptcp.into_iter().map(Notification::Mptcp);
        let links = self.links.receive().unwrap_or_default().into_iter().map(Notification::Link);
        links.chain(mptcp).collect()
    }
}

fn watch(hosts: &mut [KernelEvents], sink: &Mutex<Vec<SeenEvent>>, stop: &AtomicBool, clock: &dyn Clock) {
    loop {
        // Read the flag before the events, so that events queued before the stop are still read.
        let last_round = stop.load(Ordering::Relaxed);
        let mut waiting: Vec<PollFd<'_>> = hosts
            .iter()
            .flat_map(|host| {
                host.mptcp.as_ref().map(EventStream::as_fd).into_iter().chain([host.links.as_fd()])
            })
            .map(|stream| PollFd::from_borrowed_fd(stream, PollFlags::IN))
            .collect();
        let ready = poll(&mut waiting, Some(&WAIT));
        drop(waiting);
        if ready.is_ok_and(|count| count > 0) {
            let at = clock.now();
            let mut received = Vec::new();
            for host in hosts.iter_mut() {
                let events = host.receive().into_iter();
                received.extend(events.map(|what| SeenEvent { at, node: host.node.clone(), what }));
            }
            lock(sink).extend(received);
        } else if last_round {
            return;
        }
    }
}
