//! A packet socket (packet(7)) whose packets the kernel puts into memory that this process sees.

#![allow(unsafe_code, reason = "the options of packet sockets and their memory have no safe form")]

use super::SizeCounterError;
use super::block::{PACKETS_OFFSET, STATUS_OFFSET};
use crate::tun::PacketHeader;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A block takes some 1000 packets; all of them some 20 000, which is 0.1 s of a gigabit in packets of 1500 bytes.
const BLOCK_BYTES: usize = 256 * 1024;
const BLOCKS: usize = 16;
const RING_BYTES: usize = BLOCK_BYTES * BLOCKS;
/// Any power of two; with `TPACKET_V3` packets take what they need.
const FRAME_BYTES: usize = 2048;
/// A block that is not full is passed to user space after this time.
const HAND_OVER_MS: u32 = 50;
/// As much of a packet as its headers can take: Ethernet, IPv6 with extensions or IPv4 with options, TCP.
const CAPTURED_BYTES: u32 = 128;

#[derive(Debug)]
pub(super) struct Ring {
    socket: OwnedFd,
    memory: NonNull<u8>,
    next: usize,
}

// SAFETY: the memory is a mapping of the process that nothing but this value refers to; threads do not matter to it.
unsafe impl Send for Ring {}

impl Ring {
    pub(super) fn open(interface: &str, index: u32) -> Result<Self, SizeCounterError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Without a protocol it receives nothing until everything is ready.
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

    /// Hands all blocks that are ready to `take`, and then back to the kernel.
    pub(super) fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        // At most once round: on a machine too slow for what comes in, others want their turn, too.
        for _ in 0..BLOCKS {
            if self.word(STATUS_OFFSET).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return;
            }
            // SAFETY: the block lies within the mapping, which lives as long as `self`; the kernel does not write to
            // it between setting TP_STATUS_USER, which was just read, and our taking it away below.
            take(unsafe { std::slice::from_raw_parts(self.block().as_ptr(), BLOCK_BYTES) });
            // The kernel sets it anew when it comes to the block, which may be later.
            self.word(PACKETS_OFFSET).store(0, Ordering::Relaxed);
            self.word(STATUS_OFFSET).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % BLOCKS;
        }
    }

    /// How many packets are in the block that the kernel is filling, or has just filled.
    pub(super) fn waiting_packets(&self) -> u32 {
        self.word(PACKETS_OFFSET).load(Ordering::Relaxed)
    }

    pub(super) fn close(&self) {
        // What could fail is memory for eight bytes; then it goes on.
        let _open = filter(&self.socket, &[statement(BPF_RETURN, 0)]);
    }

    pub(super) fn take_dropped(&self) -> u32 {
        let mut statistics = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        let mut length = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to the structure, which lives until the call returns.
        let answer = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        if answer == 0 { statistics.tp_drops } else { 0 }
    }

    /// Forgets that the interface went down, which would make every `poll(2)` return at once.
    pub(super) fn clear_error(&self) {
        let _network_down = rustix::net::sockopt::socket_error(&self.socket);
    }

    fn block(&self) -> NonNull<u8> {
        // SAFETY: `next` is less than the number of blocks in the mapping.
        unsafe { self.memory.add(self.next * BLOCK_BYTES) }
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the offset is that of a 32-bit field in a block's header, so it is aligned and within the mapping,
        // which lives as long as `self`. The kernel writes it in one piece, and here only atomics touch it while the
        // block is the kernel's.
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
        // SAFETY: exactly what `map` mapped, and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), RING_BYTES) };
    }
}

fn outcome(answer: libc::c_int) -> Result<(), Errno> {
    if answer >= 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> Result<(), Errno> {
    set_at(socket, libc::SOL_PACKET, option, value)
}

fn set_at<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> Result<(), Errno> {
    let (place, length) = (std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel reads `length` bytes of the value, which lives until the call returns, and what the value
    // points to: of those used here only a filter's instructions, which its caller keeps.
    outcome(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, place, length) })
}

fn map(socket: &OwnedFd) -> Result<NonNull<u8>, Errno> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place that the kernel chooses.
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

/// The beginning of IPv4 and IPv6 packets, and nothing of others, whatever the interface puts before them.
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
    set_at(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// What stands before each packet is as long as the kernel makes it without being asked for another length.
const _: () = assert!(PacketHeader::BYTES == 10);
