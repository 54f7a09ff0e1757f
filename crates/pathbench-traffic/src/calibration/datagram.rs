//! UDP sockets with what a calibration needs of the kernel: segmentation offload, arrival times, counted
//! drops, and probing datagrams that ignore the path MTU.
//!
//! Sources: udp(7) (`UDP_SEGMENT`, `UDP_GRO`), ip(7) and ipv6(7) (`IP_MTU_DISCOVER`), linux/in.h,
//! Documentation/networking/timestamping.rst (`SO_TIMESTAMPNS`), socket(7) (`SO_RXQ_OVFL`).
#![allow(
    unsafe_code,
    reason = "setsockopt, sendmsg and recvmsg with ancillary data that no safe wrapper knows"
)]

use crate::socket_option::set_option;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Mutex;
use std::time::Duration;

/// Asked for, not always granted: the kernel caps it without `CAP_NET_ADMIN`.
const BUFFER_BYTES: usize = 8 * 1024 * 1024;

/// Room for ancillary data, aligned as `cmsghdr` must be.
#[repr(C, align(8))]
struct Control([u8; 256]);

/// A UDP socket.
#[derive(Debug)]
pub(super) struct DatagramSocket {
    socket: Socket,
    local: SocketAddr,
    timeout: Mutex<Duration>,
}

/// A datagram, or several of one size that the kernel handed over at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// Bytes in the buffer.
    pub(super) length: usize,
    /// Bytes of each datagram; the last may be shorter.
    pub(super) segment: usize,
    pub(super) from: SocketAddr,
    /// When the kernel took it from the link, on the wall clock.
    pub(super) at_ns: Option<u64>,
    /// Running count of datagrams (or batches of them) that found no room in the socket.
    pub(super) drops: u32,
}

impl DatagramSocket {
    pub(super) fn bind(local: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
        socket.bind(&local.into())?;
        let probe = libc::IP_PMTUDISC_PROBE;
        if local.is_ipv4() {
            set_option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, probe)?;
        } else {
            set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
        }
        set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, 1)?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
        // Larger buffers where there is the privilege; what they lack is counted by SO_RXQ_OVFL.
        if set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER_BYTES as i32).is_err() {
            socket.set_recv_buffer_size(BUFFER_BYTES)?;
        }
        let local = socket
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::Error::other("the socket's address is neither IPv4 nor IPv6"))?;
        Ok(Self { socket, local, timeout: Mutex::new(Duration::ZERO) })
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Sends one datagram.
    pub(super) fn send(&self, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
        self.socket.send_to(bytes, &to.into()).map(|_| ())
    }

    /// Sends `bytes` as datagrams of `segment` bytes each in one system call.
    pub(super) fn send_segments(&self, bytes: &[u8], segment: u16, to: SocketAddr) -> io::Result<()> {
        let to = SockAddr::from(to);
        let mut control = Control([0; 256]);
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: msghdr is a plain structure of integers and pointers; all-zero is its empty value.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_name = to.as_ptr().cast_mut().cast();
        message.msg_namelen = to.len();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: CMSG_SPACE only computes; CMSG_FIRSTHDR stays within `control`, which is larger than one
        // header with a u16 and aligned for it.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as u32) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_UDP;
            (*header).cmsg_type = libc::UDP_SEGMENT;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
            ptr::write_unaligned(libc::CMSG_DATA(header).cast::<u16>(), segment);
        }
        // SAFETY: every pointer in `message` refers to a live local of the length given beside it; the kernel
        // only reads them.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits up to `timeout` for a datagram; `None` when there was none.
    pub(super) fn receive(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<Option<Arrival>> {
        self.arm(timeout)?;
        let mut control = Control([0; 256]);
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: both are plain structures of integers and pointers; all-zero is their empty value.
        let (mut message, mut from): (libc::msghdr, libc::sockaddr_storage) = unsafe { zeroed() };
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len();
        // SAFETY: every pointer in `message` refers to a live, exclusively borrowed object of the length given
        // beside it.
        let received = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0) };
        if received < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        }
        let Some(from) = socket_address(&from) else { return Ok(None) };
        let length = (received as usize).min(buffer.len());
        let mut arrival = Arrival { length, segment: length, from, at_ns: None, drops: 0 };
        read_control(&message, &mut arrival);
        Ok(Some(arrival))
    }

    fn arm(&self, timeout: Duration) -> io::Result<()> {
        let timeout = timeout.max(Duration::from_micros(1));
        let mut armed = crate::stream::lock(&self.timeout);
        if *armed != timeout {
            self.socket.set_read_timeout(Some(timeout))?;
            *armed = timeout;
        }
        Ok(())
    }
}

fn socket_address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the kernel wrote a sockaddr_in, which fits into the storage.
            let address = unsafe { &*ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
            let ip = std::net::Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Some((ip, u16::from_be(address.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that the kernel wrote a sockaddr_in6, which fits into the storage.
            let address = unsafe { &*ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
            let ip = std::net::Ipv6Addr::from(address.sin6_addr.s6_addr);
            let port = u16::from_be(address.sin6_port);
            Some(std::net::SocketAddrV6::new(ip, port, 0, address.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn read_control(message: &libc::msghdr, arrival: &mut Arrival) {
    // SAFETY: `message` was filled in by recvmsg, whose control buffer is still alive; the CMSG macros walk it
    // within msg_controllen, and each payload read below has the size that its type defines.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let data = libc::CMSG_DATA(header);
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let segment = ptr::read_unaligned(data.cast::<i32>());
                    arrival.segment = usize::try_from(segment).unwrap_or(0).clamp(1, arrival.length.max(1));
                }
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => {
                    let time = ptr::read_unaligned(data.cast::<libc::timespec>());
                    arrival.at_ns = Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    arrival.drops = ptr::read_unaligned(data.cast::<u32>());
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}
