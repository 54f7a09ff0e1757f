//! A packet socket (packet(7)) with a ring buffer that the kernel and this process share.

#![allow(unsafe_code, reason = "the options of packet sockets and their memory have no safe form")]

mod block;

pub(crate) use block::{RingPacket, packets};

use crate::syscall::{option, outcome, set_option};
use crate::tun::PacketHeader;
use block::{PACKETS_OFFSET, STATUS_OFFSET};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

const BLOCK_BYTES: usize = 256 * 1024;
/// Any power of two; with `TPACKET_V3` packets have variable length.
const FRAME_BYTES: usize = 2048;
/// A partly filled block is passed to user space after this time.
const HAND_OVER_MS: u32 = 50;
/// Final wait for the last packets; the kernel passes them to the socket after 50 ms.
const LAST_BLOCK_WAIT: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// The reason why a ring could not be opened.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RingError {
    /// The kernel has no packet sockets.
    NotBuilt,
    NotPermitted(Errno),
    Refused {
        step: &'static str,
        errno: Errno,
    },
}

impl RingError {
    fn socket(errno: Errno) -> Self {
        match errno {
            Errno::PERM | Errno::ACCESS => Self::NotPermitted(errno),
            Errno::AFNOSUPPORT => Self::NotBuilt,
            errno => Self::Refused { step: "open a packet socket", errno },
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RingOptions<'a> {
    /// Blocks of 256 KiB.
    pub(crate) blocks: usize,
    /// Each packet has the header of a GSO packet before it ([`PacketHeader`]).
    pub(crate) offload_header: bool,
    /// Selects packets and the bytes captured of them.
    pub(crate) filter: &'a [libc::sock_filter],
}

#[derive(Debug)]
pub(crate) struct Ring {
    socket: OwnedFd,
    memory: NonNull<u8>,
    blocks: usize,
    next: usize,
}

// SAFETY: only this value refers to the mapping, and a mapping belongs to the process, not to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Captures the packets of the interface with this index in the calling thread's network namespace.
    pub(crate) fn open(index: u32, options: &RingOptions<'_>) -> Result<Self, RingError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Protocol 0: the socket receives nothing until the setup is complete.
        let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
            .map_err(RingError::socket)?;
        let refused = |step| move |errno| RingError::Refused { step, errno };
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set(&socket, libc::PACKET_VERSION, &version).map_err(refused("choose the layout"))?;
        if options.offload_header {
            let yes: libc::c_int = 1;
            set(&socket, libc::PACKET_VNET_HDR, &yes).map_err(refused("ask for the offloads"))?;
        }
        filter(&socket, options.filter).map_err(refused("set the filter"))?;
        let bytes = options.blocks * BLOCK_BYTES;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: options.blocks as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (bytes / FRAME_BYTES) as u32,
            tp_retire_blk_tov: HAND_OVER_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::PACKET_RX_RING, &request).map_err(refused("make the ring"))?;
        let memory = map(&socket, bytes).map_err(refused("map the ring"))?;
        let ring = Self { socket, memory, blocks: options.blocks, next: 0 };
        bind(&ring.socket, index).map_err(refused("listen"))?;
        Ok(ring)
    }

    /// Passes all ready blocks to `take`, and then returns them to the kernel.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        // At most one pass over the ring: on an overloaded machine other threads must get processor time.
        for _ in 0..self.blocks {
            if self.word(STATUS_OFFSET).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return;
            }
            // SAFETY: the block is within the mapping, which lives as long as `self`; the kernel does not write to it
            // between setting TP_STATUS_USER, which was just read, and the reset below.
            take(unsafe { std::slice::from_raw_parts(self.block().as_ptr(), BLOCK_BYTES) });
            // The kernel sets the status again when it reaches the block.
            self.word(PACKETS_OFFSET).store(0, Ordering::Relaxed);
            self.word(STATUS_OFFSET).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % self.blocks;
        }
    }

    /// Number of packets in the block that the kernel is filling, or has just filled.
    fn waiting_packets(&self) -> u32 {
        self.word(PACKETS_OFFSET).load(Ordering::Relaxed)
    }

    /// Ends the capture and passes all blocks with packets so far to `take`. Waits up to 50 ms for the kernel. Returns
    /// the packets that could not be passed.
    pub(crate) fn finish(&mut self, mut take: impl FnMut(&[u8])) -> u32 {
        self.close();
        self.drain(&mut take);
        while self.waiting_packets() > 0 {
            match self.wait(&LAST_BLOCK_WAIT) {
                Ok(false) => return self.waiting_packets(),
                Ok(true) | Err(Errno::INTR) => {}
                // Out of memory; no other failure is known.
                Err(_) => return 0,
            }
            self.drain(&mut take);
        }
        0
    }

    /// Waits for a block with packets, or for an error of the interface, which it clears: it would make every `poll(2)`
    /// return immediately. Returns whether one of them came.
    pub(crate) fn wait(&self, timeout: &Timespec) -> Result<bool, Errno> {
        let mut files = [PollFd::new(self, PollFlags::IN)];
        let ready = rustix::event::poll(&mut files, Some(timeout))?;
        if files[0].revents().contains(PollFlags::ERR) {
            let _network_down = rustix::net::sockopt::socket_error(&self.socket);
        }
        Ok(ready > 0)
    }

    /// `ARPHRD_…` of the interface; `None` after the interface was removed.
    pub(crate) fn hardware_type(&self) -> Option<u16> {
        // The kernel sets the index to -1 when it removes the interface.
        bound_to(&self.socket)
            .ok()
            .filter(|address| address.sll_ifindex > 0)
            .map(|address| address.sll_hatype)
    }

    fn close(&self) {
        // The only possible failure is an allocation of eight bytes; it is ignored.
        let _open = filter(&self.socket, &[statement(BPF_RETURN, 0)]);
    }

    pub(crate) fn take_dropped(&self) -> u32 {
        let statistics = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        let read = option(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, statistics);
        read.map_or(0, |statistics| statistics.tp_drops)
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
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.blocks * BLOCK_BYTES) };
    }
}

fn set<T>(socket: &OwnedFd, name: libc::c_int, value: &T) -> Result<(), Errno> {
    set_option(socket, libc::SOL_PACKET, name, value)
}

fn map(socket: &OwnedFd, bytes: usize) -> Result<NonNull<u8>, Errno> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address that the kernel selects.
    let memory = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, socket.as_raw_fd(), 0)
    };
    if memory == libc::MAP_FAILED {
        return outcome(-1).and(Err(Errno::NOMEM));
    }
    NonNull::new(memory.cast()).ok_or(Errno::NOMEM)
}

fn bind(socket: &OwnedFd, index: u32) -> Result<(), Errno> {
    let address = address(libc::ETH_P_ALL as u16, index as i32);
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of the address, which lives until the call returns.
    outcome(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })
}

fn bound_to(socket: &OwnedFd) -> Result<libc::sockaddr_ll, Errno> {
    let mut address = address(0, 0);
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the address, which has that many and lives past the call.
    outcome(unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut length) })?;
    Ok(address)
}

const fn address(protocol: u16, index: i32) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

// Classic BPF (Documentation/networking/filter.rst).
const BPF_LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const BPF_JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const BPF_RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// The first `bytes` bytes of IPv4 and IPv6 packets only, with any link header.
pub(crate) const fn ip_packets(bytes: u32) -> [libc::sock_filter; 5] {
    [
        statement(BPF_LOAD, (libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL) as u32),
        if_equal(libc::ETH_P_IP as u32, 2),
        if_equal(libc::ETH_P_IPV6 as u32, 1),
        statement(BPF_RETURN, 0),
        statement(BPF_RETURN, bytes),
    ]
}

/// The first `bytes` bytes of all packets.
pub(crate) const fn all_packets(bytes: u32) -> [libc::sock_filter; 1] {
    [statement(BPF_RETURN, bytes)]
}

/// The first `bytes` bytes of all packets except outgoing ones.
pub(crate) const fn incoming_packets(bytes: u32) -> [libc::sock_filter; 4] {
    [
        statement(BPF_LOAD, (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32),
        if_equal(libc::PACKET_OUTGOING as u32, 1),
        statement(BPF_RETURN, bytes),
        statement(BPF_RETURN, 0),
    ]
}

/// Skips statements if the loaded value is `value`.
const fn if_equal(value: u32, skip: u8) -> libc::sock_filter {
    libc::sock_filter { code: BPF_JUMP_IF_EQUAL, jt: skip, jf: 0, k: value }
}

fn filter(socket: &OwnedFd, program: &[libc::sock_filter]) -> Result<(), Errno> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// The length of the header before each packet, which is the kernel's default.
const _: () = assert!(PacketHeader::BYTES == 10);
