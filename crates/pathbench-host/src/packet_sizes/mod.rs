//! Sizes of the IP packets that cross an interface, as they are on the wire.
//!
//! Hosts hand over up to 64 KiB at a time and leave cutting to the network card, which on a `veth` never happens. A
//! packet socket sees such a packet whole and is told how it would be cut; what it becomes is counted.

mod block;
mod ring;

use crate::namespace::{NamespaceError, NetNamespace};
use crate::netlink::{NetlinkError, RouteSocket};
use ring::Ring;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How long the end waits for the kernel to hand over the last packets, which takes it 50 ms.
const LAST_BLOCK_WAIT: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// IPv4 and IPv6 packets by their length in bytes, IP header included. Segments count, each with its headers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PacketSizes {
    /// What came in by the interface: length in bytes → packets.
    pub received: BTreeMap<u32, u64>,
    /// What went out by it: length in bytes → packets.
    pub sent: BTreeMap<u32, u64>,
    /// Packets that crossed and were not counted, because this machine was too busy or could not make sense of them, as
    /// kernels before 6.2 cannot of UDP that is still to be cut. One that is still to be cut is one.
    pub missed_packets: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum SizeCounterError {
    #[error("cannot count the packets of {interface}: this kernel has no packet sockets (CONFIG_PACKET)")]
    NotBuilt { interface: String },
    #[error(
        "cannot count the packets of {interface}: {errno}; this needs CAP_NET_RAW in the network namespace: run as \
         root or in a user namespace"
    )]
    NotPermitted { interface: String, errno: Errno },
    #[error("cannot {step} to count the packets of {interface}: {errno}")]
    Refused { interface: String, step: &'static str, errno: Errno },
    #[error("cannot start a thread to count the packets of {interface}: {source}")]
    Thread { interface: String, source: std::io::Error },
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl SizeCounterError {
    /// Whether this host cannot count packets at all, for want of a part of the kernel or of permission.
    pub const fn is_host_unable(&self) -> bool {
        matches!(self, Self::NotBuilt { .. } | Self::NotPermitted { .. })
    }

    fn socket(interface: &str, errno: Errno) -> Self {
        let interface = interface.to_owned();
        match errno {
            Errno::PERM | Errno::ACCESS => Self::NotPermitted { interface, errno },
            Errno::AFNOSUPPORT => Self::NotBuilt { interface },
            errno => Self::Refused { interface, step: "open a packet socket", errno },
        }
    }
}

/// Listens to the packets of one interface, and counts them when asked to. They wait in 4 MiB of memory, which takes
/// some 20 000 of them; what finds no room is missed.
///
/// It sees what comes in before any filter, and what goes out behind the interface's queueing discipline. An interface
/// may have a link header or none (TUN). It may go down and up meanwhile. Packets with a VLAN tag are not counted.
#[derive(Debug)]
pub struct PacketTap {
    ring: Ring,
}

impl PacketTap {
    /// Listens to `interface` in `namespace` from now on.
    /// Errors: [`SizeCounterError::is_host_unable`] is true where it would fail for any interface.
    pub fn open(namespace: &NetNamespace, interface: &str) -> Result<Self, SizeCounterError> {
        let index = RouteSocket::open_in(namespace)?.link(interface)?.index;
        let ring = namespace.run_in(|| Ring::open(interface, index))??;
        Ok(Self { ring })
    }

    /// Counts the complete blocks: those of 250 KiB, and others 50 ms after a packet.
    pub fn collect(&mut self, sizes: &mut PacketSizes) {
        self.ring.drain(|block| block::count(block, sizes));
        sizes.missed_packets += u64::from(self.ring.take_dropped());
    }

    /// Counts everything that crossed until now, and ends. It waits up to 50 ms for the kernel.
    pub fn finish(mut self, sizes: &mut PacketSizes) {
        self.ring.close();
        self.collect(sizes);
        while self.ring.waiting_packets() > 0 {
            let mut files = [PollFd::new(&self.ring, PollFlags::IN)];
            match rustix::event::poll(&mut files, Some(&LAST_BLOCK_WAIT)) {
                Ok(0) => {
                    sizes.missed_packets += u64::from(self.ring.waiting_packets());
                    return;
                }
                Ok(_) => self.ring.clear_error(),
                Err(Errno::INTR) => {}
                // Memory ran out; nothing else is known to fail.
                Err(_) => return,
            }
            self.collect(sizes);
        }
    }
}

/// A [`PacketTap`] with a thread of its own that collects packets until it is stopped or dropped. It costs less
/// than a thousandth of a processor at 100 Mbit/s and about a hundredth for 30 000 packets a second that come singly.
#[derive(Debug)]
pub struct SizeCounter {
    counted: Arc<Mutex<PacketSizes>>,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl SizeCounter {
    /// Counts what crosses `interface` in `namespace` from now on.
    pub fn start(namespace: &NetNamespace, interface: &str) -> Result<Self, SizeCounterError> {
        let tap = PacketTap::open(namespace, interface)?;
        let refused = |errno| SizeCounterError::Refused {
            interface: interface.to_owned(),
            step: "make an event descriptor",
            errno,
        };
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).map_err(refused)?;
        let heard = rustix::io::fcntl_dupfd_cloexec(&stop, 0).map_err(refused)?;
        let counted = Arc::new(Mutex::new(PacketSizes::default()));
        let place = Arc::clone(&counted);
        let thread = std::thread::Builder::new()
            .name("packet sizes".to_owned())
            .spawn(move || watch(tap, &heard, &place))
            .map_err(|source| SizeCounterError::Thread { interface: interface.to_owned(), source })?;
        Ok(Self { counted, stop, thread: Some(thread) })
    }

    /// What has been counted up to 50 ms ago, and part of what came since.
    pub fn so_far(&self) -> PacketSizes {
        lock(&self.counted).clone()
    }

    /// Ends the counting and returns the result. It takes up to 50 ms.
    pub fn stop(mut self) -> PacketSizes {
        self.end();
        self.so_far()
    }

    fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // An event descriptor holds more than one 1.
        let _room = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for SizeCounter {
    fn drop(&mut self) {
        self.end();
    }
}

fn watch(mut tap: PacketTap, stop: &OwnedFd, place: &Mutex<PacketSizes>) {
    loop {
        let mut files = [PollFd::new(&tap.ring, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        let polled = rustix::event::poll(&mut files, None);
        let [packets, stopped] = files.map(|file| file.revents());
        if packets.contains(PollFlags::ERR) {
            tap.ring.clear_error();
        }
        if !matches!(polled, Ok(_) | Err(Errno::INTR)) || stopped.contains(PollFlags::IN) {
            break;
        }
        tap.collect(&mut lock(place));
    }
    tap.finish(&mut lock(place));
}

fn lock(sizes: &Mutex<PacketSizes>) -> MutexGuard<'_, PacketSizes> {
    sizes.lock().unwrap_or_else(PoisonError::into_inner)
}
