//! TUN devices: interfaces whose packets a program reads and writes (Documentation/networking/tuntap.rst).
//!
//! Every packet that is read or written begins with a [`PacketHeader`], by which the kernel hands over packets that
//! are still to be cut into segments and whose checksums are still to be completed, as to a network card.

#![allow(unsafe_code, reason = "the ioctls of /dev/net/tun have no safe form")]

use crate::namespace::{NamespaceError, NetNamespace};
use crate::netlink::{LinkStatistics, NetlinkError, RouteSocket, valid_name};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const DEVICE: &str = "/dev/net/tun";

/// Packets that wait in the device until they are read: some 20 ms of the smallest packets. They are not to wait
/// here; but a thread that is called late must not lose any.
const WAITING_PACKETS: u32 = 10_000;

/// Largest IP packet that a device hands over, with what is still to be cut: the kernel's default `gso_max_size`,
/// and an IPv6 header, which the length in it does not count.
pub const LARGEST_PACKET_BYTES: usize = 65_535 + 40;

/// A TUN device could not be made or changed.
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
    /// Whether this host cannot make TUN devices at all, for want of the driver or of permission.
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

/// A TUN device: an interface in a namespace, and the file its packets go through. The interface goes with the last
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
    /// A new device in `namespace`, down at first. It takes packets still to be cut (TCP, and UDP where the kernel
    /// can) and checksums still to be completed. It has no address of its own making, so that nothing goes through
    /// it that nobody sent.
    /// Errors: [`TunError::is_host_unable`] is true where it would fail for any name.
    pub fn create(namespace: &NetNamespace, name: &str, mtu_bytes: u32) -> Result<Self, TunError> {
        // A device is made in the namespace in which its file was opened.
        let (fd, udp_gso) = namespace.run_in(|| {
            let made = make(name)?;
            quieten(name);
            Ok::<_, TunError>(made)
        })??;
        let mut socket = RouteSocket::open_in(namespace)?;
        let index = socket.link(name)?.index;
        socket.set_mtu(index, mtu_bytes)?;
        socket.set_transmit_queue(index, WAITING_PACKETS)?;
        Ok(Self { fd, socket, name: name.to_owned(), index, udp_gso })
    }

    /// The interface's name when it was made.
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

    /// Chooses whether hosts hand over packets still to be cut. Without, each is a wire packet with its checksums.
    pub fn set_offload(&mut self, on: bool) -> Result<(), TunError> {
        self.udp_gso = set_offload(self.fd.as_fd(), &self.name, on)?;
        Ok(())
    }

    /// Pulls the plug (`false`) or puts it in: the interface stays up, but without a carrier nothing is sent.
    pub fn set_carrier(&self, on: bool) -> Result<(), TunError> {
        let carrier = libc::c_int::from(on);
        // SAFETY: TUNSETCARRIER reads one int, which lives until the call returns.
        let answer =
            unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TUNSETCARRIER as _, &raw const carrier) };
        refuse(answer, &self.name, "set the carrier")
    }

    /// Reads one packet with its header into `buffer` and returns the length of both. A buffer that is too short cuts
    /// the packet off.
    /// Errors: `EAGAIN` when none is there, `EBADFD` when the interface is gone.
    #[inline]
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(&self.fd, buffer)
    }

    /// Writes one packet, header first, and returns when the kernel has taken it in.
    /// Errors: `EIO` while the interface is down, `EINVAL` for what is no IP packet or contradicts its header,
    /// `EBADFD` when the interface is gone.
    #[inline]
    pub fn write(&self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        rustix::io::writev(&self.fd, parts)
    }

    /// The interface's counters; `tx_dropped` are packets that were not read in time.
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
    // A percent sign would have the kernel choose a number in its place (`dev_alloc_name`).
    if valid_name(name)?.contains('%') {
        return Err(NetlinkError::InvalidName { name: name.to_owned() }.into());
    }
    let mut ifr_name = [0; libc::IFNAMSIZ];
    for (place, byte) in ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
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
    if answer >= 0 {
        return Ok(());
    }
    let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
    Err(TunError::Refused { name: name.to_owned(), step, errno })
}

/// Keeps the kernel from talking over the device by itself: no link-local address, no router solicitations. A host
/// without IPv6 has no such settings, and one whose `/proc/sys` is read-only keeps its own: either is fine.
fn quieten(name: &str) {
    for (key, value) in [("addr_gen_mode", "1"), ("router_solicitations", "0"), ("accept_ra", "0")] {
        let _ = crate::sysctl::write(&format!("net/ipv6/conf/{name}/{key}"), value);
    }
}

/// How a GSO packet is to be segmented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segmentation {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    Udp,
}

/// The offload state of a packet, as a network card and the kernel exchange it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketHeader {
    /// Where the checksum is still to be completed: the first byte it covers and where it stands, from there. The
    /// checksum field holds the sum of the pseudo header by then.
    pub checksum: Option<(u16, u16)>,
    /// How the packet is to be cut; `None`: it is a wire packet.
    pub segmentation: Option<Segmentation>,
    /// Whether the first segment alone carries CWR (RFC 3168).
    pub ecn: bool,
    /// Length of the headers, as far as the kernel knows: a hint only.
    pub header_bytes: u16,
    /// Payload bytes of each segment but the last.
    pub segment_bytes: u16,
}

const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

impl PacketHeader {
    pub const BYTES: usize = 10;

    /// The header at the beginning of `bytes`; `None` when they are too few, or name a way of cutting that was not
    /// offered.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let &[flags, gso, h0, h1, s0, s1, c0, c1, o0, o1] = bytes.first_chunk::<{ Self::BYTES }>()?;
        let segmentation = match gso & !GSO_ECN {
            0 => None,
            GSO_TCP_V4 => Some(Segmentation::TcpV4),
            GSO_TCP_V6 => Some(Segmentation::TcpV6),
            GSO_UDP_L4 => Some(Segmentation::Udp),
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
        let gso = match self.segmentation {
            None => 0,
            Some(Segmentation::TcpV4) => GSO_TCP_V4,
            Some(Segmentation::TcpV6) => GSO_TCP_V6,
            Some(Segmentation::Udp) => GSO_UDP_L4,
        };
        let gso = if self.ecn { gso | GSO_ECN } else { gso };
        let (start, offset) = self.checksum.unwrap_or_default();
        let [h, s] = [self.header_bytes, self.segment_bytes].map(u16::to_ne_bytes);
        let [c, o] = [start, offset].map(u16::to_ne_bytes);
        [flags, gso, h[0], h[1], s[0], s[1], c[0], c[1], o[0], o[1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_kernel_would_not_take_or_would_change() {
        for name in ["", "sixteen-bytes-xx", "a/b", "a b", "a:1", "..", "tun%d"] {
            assert!(
                matches!(interface_request(name), Err(TunError::Netlink(NetlinkError::InvalidName { .. }))),
                "{name}"
            );
        }
        assert!(interface_request("fifteen-bytes-x").is_ok());
    }

    #[test]
    fn what_the_host_lacks_is_told_from_what_was_asked_wrongly() {
        let name = || "wlan".to_owned();
        let missing = TunError::Missing { name: name(), errno: Errno::NOENT };
        let forbidden = TunError::NotPermitted { name: name(), errno: Errno::ACCESS };
        let taken = TunError::Refused { name: name(), step: "set the name", errno: Errno::BUSY };
        assert!(missing.is_host_unable() && missing.to_string().contains("modprobe tun"));
        assert!(forbidden.is_host_unable() && forbidden.to_string().contains("chmod 666 /dev/net/tun"));
        assert!(!taken.is_host_unable() && taken.to_string().contains("exists already"));
    }
}
