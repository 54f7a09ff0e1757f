//! Packets of an interface, from the link-layer header on, with the kernel's timestamps.

use crate::netlink::{NetlinkError, RouteSocket};
use crate::packet_ring::{Ring, RingError, RingOptions, RingPacket, all_packets, incoming_packets, packets};
use rustix::event::Timespec;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The ring has 32 MiB, which is 0.25 s at 1 Gbit/s.
const BLOCKS: usize = 128;

// <https://www.tcpdump.org/linktypes.html>
const LINKTYPE_ETHERNET: u16 = 1;
const LINKTYPE_RAW: u16 = 101;

// linux/if_arp.h
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_RAWIP: u16 = 519;
const ARPHRD_LOOPBACK: u16 = 772;
const ARPHRD_NONE: u16 = 0xfffe;

#[derive(Debug, thiserror::Error)]
pub enum PacketCaptureError {
    #[error("cannot capture on {interface}: this kernel has no packet sockets (CONFIG_PACKET)")]
    NotBuilt { interface: String },
    #[error(
        "cannot capture on {interface}: {errno}; this needs CAP_NET_RAW in the network namespace: run as root, or give \
         the capability to the program: sudo setcap cap_net_raw+ep PROGRAM"
    )]
    NotPermitted { interface: String, errno: Errno },
    #[error("cannot {step} to capture on {interface}: {errno}")]
    Refused { interface: String, step: &'static str, errno: Errno },
    #[error(
        "cannot capture on {interface}: its link type (ARPHRD {arphrd}) is neither Ethernet nor raw IP; capture on the \
         interface below it"
    )]
    LinkType { interface: String, arphrd: u16 },
    #[error("the interface {interface} was removed during the capture")]
    Removed { interface: String },
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl PacketCaptureError {
    /// Whether this host cannot capture on any interface, because a kernel feature or permission is missing.
    pub const fn is_host_unable(&self) -> bool {
        matches!(self, Self::NotBuilt { .. } | Self::NotPermitted { .. })
    }
}

/// Captures the packets of one interface, which may go down and up.
///
/// Incoming packets are captured before any filter, outgoing packets after the interface's queueing discipline. Each
/// packet of a loopback interface is captured once. GSO packets are captured unsegmented, VLAN tags are not captured.
#[derive(Debug)]
pub struct PacketCapture {
    interface: String,
    ring: Ring,
    link_type: u16,
    unread: u32,
}

impl PacketCapture {
    /// Starts to capture the first `snap_bytes` bytes of each packet of `interface` in the calling thread's network
    /// namespace.
    pub fn open(interface: &str, snap_bytes: u32) -> Result<Self, PacketCaptureError> {
        let link = RouteSocket::open()?.link(interface)?;
        let all = all_packets(snap_bytes);
        let incoming = incoming_packets(snap_bytes);
        let filter: &[_] = if link.loopback { &incoming } else { &all };
        let options = RingOptions { blocks: BLOCKS, offload_header: false, filter };
        let interface = interface.to_owned();
        let ring = match Ring::open(link.index, &options) {
            Ok(ring) => ring,
            Err(RingError::NotBuilt) => return Err(PacketCaptureError::NotBuilt { interface }),
            Err(RingError::NotPermitted(errno)) => {
                return Err(PacketCaptureError::NotPermitted { interface, errno });
            }
            Err(RingError::Refused { step, errno }) => {
                return Err(PacketCaptureError::Refused { interface, step, errno });
            }
        };
        let link_type = match ring.hardware_type() {
            Some(ARPHRD_ETHER | ARPHRD_LOOPBACK) => LINKTYPE_ETHERNET,
            Some(ARPHRD_NONE | ARPHRD_RAWIP) => LINKTYPE_RAW,
            Some(arphrd) => return Err(PacketCaptureError::LinkType { interface, arphrd }),
            None => return Err(PacketCaptureError::Removed { interface }),
        };
        Ok(Self { interface, ring, link_type, unread: 0 })
    }

    /// `LINKTYPE_…` of the packets.
    pub const fn link_type(&self) -> u16 {
        self.link_type
    }

    /// Passes packets to `take`: the time in nanoseconds since 1970, the captured bytes from the link-layer header on, and
    /// the original length. Waits up to `timeout` for the first packet, and returns the number of packets. The kernel
    /// passes packets on after 50 ms, or when there are 250 KiB.
    pub fn receive(
        &mut self,
        timeout: Duration,
        mut take: impl FnMut(u64, &[u8], u32),
    ) -> Result<usize, PacketCaptureError> {
        let passed = self.drain(&mut take);
        if passed > 0 {
            return Ok(passed);
        }
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match self.ring.wait(&timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => {
                let interface = self.interface.clone();
                return Err(PacketCaptureError::Refused { interface, step: "wait for packets", errno });
            }
        }
        let passed = self.drain(&mut take);
        if passed == 0 && self.ring.hardware_type().is_none() {
            return Err(PacketCaptureError::Removed { interface: self.interface.clone() });
        }
        Ok(passed)
    }

    fn drain(&mut self, mut take: impl FnMut(u64, &[u8], u32)) -> usize {
        let (mut passed, mut unread) = (0, 0);
        self.ring.drain(|block| unread += pass(block, &mut passed, &mut take));
        self.unread += unread;
        passed
    }

    /// Ends the capture and passes the last packets to `take`, as [`Self::receive`] does. Waits up to 50 ms for the
    /// kernel. [`Self::take_dropped`] is still valid afterwards.
    pub fn finish(&mut self, mut take: impl FnMut(u64, &[u8], u32)) {
        let (mut passed, mut unread) = (0, 0);
        let missed = self.ring.finish(|block| unread += pass(block, &mut passed, &mut take));
        self.unread += unread + missed;
    }

    /// Packets that were dropped since the last call because the ring was full.
    pub fn take_dropped(&mut self) -> u32 {
        std::mem::take(&mut self.unread).saturating_add(self.ring.take_dropped())
    }
}

/// For `poll(2)` on several captures: readable when [`PacketCapture::receive`] has packets or an error.
impl AsFd for PacketCapture {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

/// Returns the packets that could not be read.
fn pass(block: &[u8], passed: &mut usize, take: &mut impl FnMut(u64, &[u8], u32)) -> u32 {
    packets(block, |RingPacket { time_ns, bytes, original_length, .. }| {
        *passed += 1;
        take(*time_ns, bytes, *original_length);
    })
}
