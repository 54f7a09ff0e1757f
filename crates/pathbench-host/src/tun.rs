//! TUN devices: interfaces whose packets a program reads and writes (Documentation/networking/tuntap.rst).
//!
//! Every packet that is read or written begins with a [`PacketHeader`], by which the kernel hands over packets that
//! are still to be cut into segments and whose checksums are still to be completed, as to a network card.

#![allow(unsafe_code, reason = "the ioctls of /dev/net/tun have no safe form")]

mod header;

pub use header::{PacketHeader, Segmentation};

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
    /// There is no `/dev/net/tun`, or no driver behind it.
    #[error(
        "cannot make the TUN device {name}: {DEVICE} is missing ({errno}): load the driver with `modprobe tun`; in a \
         container, start it with --device {DEVICE}"
    )]
    Missing {
        /// The device's name.
        name: String,
        /// What `open(2)` said.
        errno: Errno,
    },
    /// `/dev/net/tun` is kept for others.
    #[error(
        "cannot make the TUN device {name}: {DEVICE} may not be opened by this user ({errno}): run as root, or open \
         it to all, as most distributions do, with `chmod 666 {DEVICE}` (a device made in a lab stays in it)"
    )]
    NotPermitted {
        /// The device's name.
        name: String,
        /// What `open(2)` said.
        errno: Errno,
    },
    /// The kernel refused a step.
    #[error("cannot {step} of the TUN device {name}: {errno}{}", remedy(*errno))]
    Refused {
        /// The device's name.
        name: String,
        /// What was being done.
        step: &'static str,
        /// What the system call said.
        errno: Errno,
    },
    /// The namespace could not be entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The interface could not be set up.
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
    cuts_udp: bool,
}

impl Tun {
    /// A new device in `namespace`, down at first. It takes packets still to be cut (TCP, and UDP where the kernel
    /// can) and checksums still to be completed. It has no address of its own making, so that nothing goes through
    /// it that nobody sent.
    ///
    /// # Errors
    /// [`TunError`]; [`TunError::is_host_unable`] says whether it would fail for any name.
    pub fn create(namespace: &NetNamespace, name: &str, mtu_bytes: u32) -> Result<Self, TunError> {
        // A device is made in the namespace in which its file was opened.
        let (fd, cuts_udp) = namespace.run_in(|| {
            let made = make(name)?;
            quieten(name);
            Ok::<_, TunError>(made)
        })??;
        let mut socket = RouteSocket::open_in(namespace)?;
        let index = socket.link(name)?.index;
        socket.set_mtu(index, mtu_bytes)?;
        socket.set_transmit_queue(index, WAITING_PACKETS)?;
        Ok(Self { fd, socket, name: name.to_owned(), index, cuts_udp })
    }

    /// The interface's name when it was made.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index in its namespace.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Whether UDP packets still to be cut are handed over and taken (`TUN_F_USO4`, Linux 6.2).
    pub const fn cuts_udp(&self) -> bool {
        self.cuts_udp
    }

    /// Chooses whether hosts hand over packets still to be cut. Without, each is a wire packet with its checksums.
    pub fn set_offload(&mut self, on: bool) -> Result<(), TunError> {
        self.cuts_udp = set_offload(self.fd.as_fd(), &self.name, on)?;
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

    /// Reads one packet with its header into `buffer` and says how long both are. A buffer that is too short cuts
    /// the packet off.
    ///
    /// # Errors
    /// `EAGAIN` when none is there, `EBADFD` when the interface is gone.
    #[inline]
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(&self.fd, buffer)
    }

    /// Writes one packet, header first, and returns when the kernel has taken it in.
    ///
    /// # Errors
    /// `EIO` while the interface is down, `EINVAL` for what is no IP packet or contradicts its header, `EBADFD` when
    /// the interface is gone.
    #[inline]
    pub fn write(&self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        rustix::io::writev(&self.fd, parts)
    }

    /// The interface's counters; `tx_dropped` are packets that nobody read in time.
    ///
    /// # Errors
    /// [`NetlinkError`] when the interface is gone.
    pub fn statistics(&mut self) -> Result<LinkStatistics, NetlinkError> {
        self.socket.statistics(self.index)
    }
}

impl AsFd for Tun {
    /// Readable when a packet is there.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// `struct ifreq` for a TUN device without further headers but [`PacketHeader`].
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

/// Makes the device in the calling thread's network namespace; says whether it cuts UDP, too.
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
    let cuts_udp = set_offload(fd.as_fd(), name, true)?;
    Ok((fd, cuts_udp))
}

/// Says which packets the device takes as they are; returns whether UDP to be cut is among them.
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
