//! TUN devices: interfaces whose packets a program reads and writes (Documentation/networking/tuntap.rst).
//!
//! Every packet begins with a [`PacketHeader`], which lets the kernel exchange GSO packets and packets with incomplete
//! checksums, as with a network card.

#![allow(unsafe_code, reason = "the ioctls of /dev/net/tun have no safe form")]

use crate::namespace::{NamespaceError, NetNamespace};
use crate::netlink::{LinkStatistics, NetlinkError, RouteSocket, valid_name};
use crate::syscall::outcome;
use pathbench_record::network::IPV6_HEADER_BYTES;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const DEVICE: &str = "/dev/net/tun";

/// Packets that the device queues for reading: about 20 ms of minimum-size packets. The queue is normally empty; it
/// absorbs late wake-ups of the reading thread.
const WAITING_PACKETS: u32 = 10_000;

/// Maximum size of an IP packet from a device, including GSO packets: the kernel's default `gso_max_size` plus an IPv6
/// header, which its length field excludes.
pub const LARGEST_PACKET_BYTES: usize = 65_535 + IPV6_HEADER_BYTES;

/// A TUN device could not be created or changed.
#[derive(Debug, thiserror::Error)]
pub enum TunError {
    #[error(
        "cannot make the TUN device {name}: {DEVICE} is missing ({errno}): load the driver with `modprobe tun`; in a \
         container, start it with --device {DEVICE}"
    )]
    Missing { name: String, errno: Errno },
    #[error(
        "cannot make the TUN device {name}: {DEVICE} may not be opened by this user ({errno}): run as root, or open \
         it to all, as most distributions do, with `chmod 666 {DEVICE}` (a device made in a lab stays in it)"
    )]
    NotPermitted { name: String, errno: Errno },
    #[error("cannot {step} of the TUN device {name}: {errno}{}", remedy(*errno))]
    Refused { name: String, step: &'static str, errno: Errno },
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl TunError {
    /// Whether this host cannot create any TUN device, because the driver or permission is missing.
    pub const fn is_host_unable(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::NotPermitted { .. })
    }
}

const fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::BUSY => "; an interface of this name exists already",
        Errno::PERM => {
            "; this needs CAP_NET_ADMIN over the network namespace: run as root or in a user namespace"
        }
        Errno::INVAL => "; the kernel is too old for it, or an interface of another kind has this name",
        _ => "",
    }
}

/// A TUN device: an interface in a namespace, and the file for its packets. The interface is removed with the last
/// handle to the file.
#[derive(Debug)]
pub struct Tun {
    fd: OwnedFd,
    socket: RouteSocket,
    name: String,
    index: u32,
    udp_gso: bool,
}

impl Tun {
    /// Creates a device in `namespace`, initially down. It accepts GSO packets (TCP, and UDP where supported) and
    /// incomplete checksums. It has no automatic address, so that the kernel sends no packets of its own.
    /// Errors: [`TunError::is_host_unable`] is true if the call would fail for any name.
    pub fn create(namespace: &NetNamespace, name: &str, mtu_bytes: u32) -> Result<Self, TunError> {
        // A device belongs to the namespace in which its file was opened.
        let (fd, udp_gso) = namespace.run_in(|| {
            let made = make(name)?;
            disable_autoconfiguration(name);
            Ok::<_, TunError>(made)
        })??;
        let mut socket = RouteSocket::open_in(namespace)?;
        let index = socket.link(name)?.index;
        socket.set_mtu(index, mtu_bytes)?;
        socket.set_transmit_queue(index, WAITING_PACKETS)?;
        Ok(Self { fd, socket, name: name.to_owned(), index, udp_gso })
    }

    /// The interface's name at creation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index in its namespace.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Whether UDP GSO packets are read and written (`TUN_F_USO4`, Linux 6.2).
    pub const fn udp_gso(&self) -> bool {
        self.udp_gso
    }

    /// Sets whether the kernel passes GSO packets. Otherwise each packet is a wire packet with complete checksums.
    pub fn set_offload(&mut self, on: bool) -> Result<(), TunError> {
        self.udp_gso = set_offload(self.fd.as_fd(), &self.name, on)?;
        Ok(())
    }

    /// Reads one packet with its header into `buffer` and returns the length of both. A short buffer truncates the
    /// packet.
    /// Errors: `EAGAIN` if no packet is available, `EBADFD` after removal of the interface.
    #[inline]
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(&self.fd, buffer)
    }

    /// Writes one packet, header first, and returns once the kernel has accepted it.
    /// Errors: `EIO` while the interface is down, `EINVAL` for an invalid IP packet or one that contradicts its header,
    /// `EBADFD` after removal of the interface.
    #[inline]
    pub fn write(&self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        rustix::io::writev(&self.fd, parts)
    }

    /// The interface's counters; `tx_dropped` counts packets that were not read in time.
    pub fn statistics(&mut self) -> Result<LinkStatistics, NetlinkError> {
        self.socket.statistics(self.index)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn interface_request(name: &str) -> Result<libc::ifreq, TunError> {
    // The kernel replaces a percent sign by a number (`dev_alloc_name`).
    if valid_name(name)?.contains('%') {
        return Err(NetlinkError::InvalidName { name: name.to_owned() }.into());
    }
    let mut ifr_name = [0; libc::IFNAMSIZ];
    for (target, byte) in ifr_name.iter_mut().zip(name.bytes()) {
        *target = byte as libc::c_char;
    }
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL;
    let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_flags: flags as libc::c_short };
    Ok(libc::ifreq { ifr_name, ifr_ifru })
}

fn make(name: &str) -> Result<(OwnedFd, bool), TunError> {
    let mut request = interface_request(name)?;
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = rustix::fs::open(DEVICE, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::ACCESS | Errno::PERM => TunError::NotPermitted { name: name.to_owned(), errno },
        errno => TunError::Missing { name: name.to_owned(), errno },
    })?;
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, which lives until the call returns.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    refuse(answer, name, "set the name")?;
    let header_bytes = PacketHeader::BYTES as libc::c_int;
    // SAFETY: TUNSETVNETHDRSZ reads one int, which lives until the call returns.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const header_bytes) };
    refuse(answer, name, "set the packet header's length")?;
    let udp_gso = set_offload(fd.as_fd(), name, true)?;
    Ok((fd, udp_gso))
}

fn set_offload(fd: BorrowedFd<'_>, name: &str, on: bool) -> Result<bool, TunError> {
    let set = |features: libc::c_uint| {
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(features)) }
    };
    if !on {
        return refuse(set(0), name, "turn off the offloads").map(|()| false);
    }
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    if set(tcp | libc::TUN_F_USO4 | libc::TUN_F_USO6) == 0 {
        return Ok(true);
    }
    refuse(set(tcp), name, "turn on the offloads").map(|()| false)
}

fn refuse(answer: libc::c_int, name: &str, step: &'static str) -> Result<(), TunError> {
    outcome(answer).map_err(|errno| TunError::Refused { name: name.to_owned(), step, errno })
}

/// Disables the kernel's own packets on the device: no link-local address, no router solicitations. A host without IPv6
/// lacks these settings, and one with a read-only `/proc/sys` keeps its own; both are acceptable.
fn disable_autoconfiguration(name: &str) {
    for (key, value) in [("addr_gen_mode", "1"), ("router_solicitations", "0"), ("accept_ra", "0")] {
        let _ = crate::sysctl::write(&format!("net/ipv6/conf/{name}/{key}"), value);
    }
}

/// The segmentation of a GSO packet: `VIRTIO_NET_HDR_GSO_*` of `linux/virtio_net.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segmentation {
    /// TCP over IPv4.
    TcpV4 = 1,
    /// TCP over IPv6.
    TcpV6 = 4,
    Udp = 5,
}

/// The offload state of a packet, as exchanged between a network card and the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketHeader {
    /// For an incomplete checksum: the offset of the first byte it covers, and the offset of its field from there. The
    /// field then contains the sum of the pseudo header.
    pub checksum: Option<(u16, u16)>,
    /// The segmentation of a GSO packet; `None` for a wire packet.
    pub segmentation: Option<Segmentation>,
    /// Whether only the first segment has CWR (RFC 3168).
    pub ecn: bool,
    /// Length of the headers: a hint only.
    pub header_bytes: u16,
    /// Payload bytes of each segment except the last.
    pub segment_bytes: u16,
}

const NEEDS_CHECKSUM: u8 = 1;
const GSO_ECN: u8 = 0x80;

impl PacketHeader {
    pub const BYTES: usize = 10;

    /// Parses the header at the start of `bytes`; `None` if they are too short, or if the device does not support the
    /// segmentation type.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let &[flags, gso, h0, h1, s0, s1, c0, c1, o0, o1] = bytes.first_chunk::<{ Self::BYTES }>()?;
        let segmentation = match gso & !GSO_ECN {
            0 => None,
            1 => Some(Segmentation::TcpV4),
            4 => Some(Segmentation::TcpV6),
            5 => Some(Segmentation::Udp),
            _ => return None,
        };
        let checksum = (u16::from_ne_bytes([c0, c1]), u16::from_ne_bytes([o0, o1]));
        Some(Self {
            checksum: (flags & NEEDS_CHECKSUM != 0).then_some(checksum),
            segmentation,
            ecn: gso & GSO_ECN != 0,
            header_bytes: u16::from_ne_bytes([h0, h1]),
            segment_bytes: u16::from_ne_bytes([s0, s1]),
        })
    }

    #[inline]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let flags = if self.checksum.is_some() { NEEDS_CHECKSUM } else { 0 };
        let gso = self.segmentation.map_or(0, |segmentation| segmentation as u8);
        let gso = if self.ecn { gso | GSO_ECN } else { gso };
        let (start, offset) = self.checksum.unwrap_or_default();
        let [h, s] = [self.header_bytes, self.segment_bytes].map(u16::to_ne_bytes);
        let [c, o] = [start, offset].map(u16::to_ne_bytes);
        [flags, gso, h[0], h[1], s[0], s[1], c[0], c[1], o[0], o[1]]
    }
}
