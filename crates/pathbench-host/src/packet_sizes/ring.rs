//! A packet socket (packet(7)) with a ring buffer that the kernel and this process share.

#![allow(unsafe_code, reason = "the options of packet sockets and their memory have no safe form")]

use super::block::{PACKETS_OFFSET, STATUS_OFFSET};
use crate::namespace::NamespaceError;
use crate::netlink::NetlinkError;
use crate::syscall::{option, outcome, set_option};
use crate::tun::PacketHeader;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A block holds about 1000 packets; all blocks hold about 20 000, which is 0.1 s at 1 Gbit/s with packets of 1500
/// bytes.
const BLOCK_BYTES: usize = 256 * 1024;
const BLOCKS: usize = 16;
const RING_BYTES: usize = BLOCK_BYTES * BLOCKS;
/// Any power of two; with `TPACKET_V3` packets have variable length.
const FRAME_BYTES: usize = 2048;
/// A partly filled block is passed to user space after this time.
const HAND_OVER_MS: u32 = 50;
/// Captured bytes per packet, enough for its headers: Ethernet, IPv6 with extensions or IPv4 with options, TCP.
const CAPTURED_BYTES: u32 = 128;

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
    /// Whether this host cannot count any packets, because a kernel feature or permission is missing.
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

#[derive(Debug)]
pub(super) struct Ring {
    socket: OwnedFd,
    memory: NonNull<u8>,
    next: usize,
}

// SAFETY: only this value refers to the mapping, and a mapping belongs to the process, not to a thread.
unsafe impl Send for Ring {}

impl Ring {
    pub(super) fn open(interface: &str, index: u32) -> Result<Self, SizeCounterError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Protocol 0: the socket receives nothing until the setup is complete.
        let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
            .map_err(|errno| SizeCounterError::socket(interface, errno))?;
        let refused =
            |step| move |errno| SizeCounterError::Refused { interface: interface.to_owned(), step, errno };
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set(&socket, libc::PACKET_VERSION, &version).map_err(refused("choose the layout"))?;
        let yes: libc::c_int = 1;
        set(&socket, libc::PACKET_VNET_HDR, &yes).map_err(refused("ask for the offloads"))?;
        filter(&socket, &ip_only()).map_err(refused("set the filter"))?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (RING_BYTES / FRAME_BYTES) as u32,
            tp_retire_blk_tov: HAND_OVER_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::PACKET_RX_RING, &request).map_err(refused("make the ring"))?;
        let memory = map(&socket).map_err(refused("map the ring"))?;
        let ring = Self { socket, memory, next: 0 };
        bind(&ring.socket, index).map_err(refused("listen"))?;
        Ok(ring)
    }

    /// Passes all ready blocks to `take`, and then returns them to the kernel.
    pub(super) fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        // At most one pass over the ring: on an overloaded machine other threads must get processor time.
        for _ in 0..BLOCKS {
            if self.word(STATUS_OFFSET).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return;
            }
            // SAFETY: the block is within the mapping, which lives as long as `self`; the kernel does not write to it
            // between setting TP_STATUS_USER, which was just read, and the reset below.
            take(unsafe { std::slice::from_raw_parts(self.block().as_ptr(), BLOCK_BYTES) });
            // The kernel sets the status again when it reaches the block.
            self.word(PACKETS_OFFSET).store(0, Ordering::Relaxed);
            self.word(STATUS_OFFSET).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % BLOCKS;
        }
    }

    /// Number of packets in the block that the kernel is filling, or has just filled.
    pub(super) fn waiting_packets(&self) -> u32 {
        self.word(PACKETS_OFFSET).load(Ordering::Relaxed)
    }

    pub(super) fn close(&self) {
        // The only possible failure is an allocation of eight bytes; it is ignored.
        let _open = filter(&self.socket, &[statement(BPF_RETURN, 0)]);
    }

    pub(super) fn take_dropped(&self) -> u32 {
        let statistics = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        let read = option(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, statistics);
        read.map_or(0, |statistics| statistics.tp_drops)
    }

    /// Clears the pending "interface down" error, which would make every `poll(2)` return immediately.
    pub(super) fn clear_error(&self) {
        let _network_down = rustix::net::sockopt::socket_error(&self.socket);
    }

    fn block(&self) -> NonNull<u8> {
        // SAFETY: `next` is less than the number of blocks in the mapping.
        unsafe { self.memory.add(self.next * BLOCK_BYTES) }
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the offset is that of a 32-bit field in a block's header, so it is aligned and within the mapping,
        // which lives as long as `self`. The kernel writes the field atomically, and this process uses only atomics
        // while the kernel owns the block.
        unsafe { AtomicU32::from_ptr(self.block().add(offset).cast().as_ptr()) }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: `map` created exactly this mapping, and no reference to it remains.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), RING_BYTES) };
    }
}

fn set<T>(socket: &OwnedFd, name: libc::c_int, value: &T) -> Result<(), Errno> {
    set_option(socket, libc::SOL_PACKET, name, value)
}

fn map(socket: &OwnedFd) -> Result<NonNull<u8>, Errno> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address that the kernel selects.
    let memory = unsafe {
        libc::mmap(std::ptr::null_mut(), RING_BYTES, protection, libc::MAP_SHARED, socket.as_raw_fd(), 0)
    };
    if memory == libc::MAP_FAILED {
        return outcome(-1).and(Err(Errno::NOMEM));
    }
    NonNull::new(memory.cast()).ok_or(Errno::NOMEM)
}

fn bind(socket: &OwnedFd, index: u32) -> Result<(), Errno> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of the address, which lives until the call returns.
    outcome(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })
}

// Classic BPF (Documentation/networking/filter.rst).
const BPF_LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const BPF_JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const BPF_RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// Captures the first bytes of IPv4 and IPv6 packets only, with any link header.
fn ip_only() -> [libc::sock_filter; 5] {
    let protocol = (libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL) as u32;
    let if_equal = |value: libc::c_int, skip| libc::sock_filter {
        code: BPF_JUMP_IF_EQUAL,
        jt: skip,
        jf: 0,
        k: value as u32,
    };
    [
        statement(BPF_LOAD, protocol),
        if_equal(libc::ETH_P_IP, 2),
        if_equal(libc::ETH_P_IPV6, 1),
        statement(BPF_RETURN, 0),
        statement(BPF_RETURN, CAPTURED_BYTES),
    ]
}

fn filter(socket: &OwnedFd, program: &[libc::sock_filter]) -> Result<(), Errno> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// The length of the header before each packet, which is the kernel's default.
const _: () = assert!(PacketHeader::BYTES == 10);
