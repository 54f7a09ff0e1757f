//! Socket options that TCP sockets accept and MPTCP sockets refuse (net/mptcp/sockopt.c).

use pathbench_host::seccomp::OptionName;
use pathbench_host::sockets::refused_by_mptcp;
use rustix::io::Errno;

/// Level, number, name: the options that Linux 6.18 refuses. Later kernels may accept more; [`refused_here`] asks.
/// Numbers that libc lacks are those of asm-generic/socket.h, linux/tcp.h and linux/in6.h.
pub const REFUSED: [(i32, i32, &str); 58] = [
    (libc::SOL_SOCKET, libc::SO_OOBINLINE, "SO_OOBINLINE"),
    (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, "SO_ATTACH_FILTER"),
    (libc::SOL_SOCKET, libc::SO_PEEK_OFF, "SO_PEEK_OFF"),
    (libc::SOL_SOCKET, libc::SO_LOCK_FILTER, "SO_LOCK_FILTER"),
    (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, "SO_MAX_PACING_RATE"),
    (libc::SOL_SOCKET, libc::SO_ATTACH_BPF, "SO_ATTACH_BPF"),
    (libc::SOL_SOCKET, 53, "SO_CNX_ADVICE"),
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY, "SO_ZEROCOPY"),
    (libc::SOL_SOCKET, libc::SO_TXTIME, "SO_TXTIME"),
    (libc::SOL_SOCKET, 72, "SO_BUF_LOCK"),
    (libc::SOL_SOCKET, 74, "SO_TXREHASH"),
    (libc::SOL_SOCKET, 75, "SO_RCVMARK"),
    (libc::SOL_SOCKET, 82, "SO_RCVPRIORITY"),
    (libc::SOL_TCP, libc::TCP_SYNCNT, "TCP_SYNCNT"),
    (libc::SOL_TCP, libc::TCP_LINGER2, "TCP_LINGER2"),
    (libc::SOL_TCP, libc::TCP_WINDOW_CLAMP, "TCP_WINDOW_CLAMP"),
    (libc::SOL_TCP, libc::TCP_QUICKACK, "TCP_QUICKACK"),
    (libc::SOL_TCP, libc::TCP_MD5SIG, "TCP_MD5SIG"),
    (libc::SOL_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, "TCP_THIN_LINEAR_TIMEOUTS"),
    (libc::SOL_TCP, libc::TCP_THIN_DUPACK, "TCP_THIN_DUPACK"),
    (libc::SOL_TCP, libc::TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT"),
    (libc::SOL_TCP, libc::TCP_REPAIR, "TCP_REPAIR"),
    (libc::SOL_TCP, libc::TCP_REPAIR_QUEUE, "TCP_REPAIR_QUEUE"),
    (libc::SOL_TCP, libc::TCP_QUEUE_SEQ, "TCP_QUEUE_SEQ"),
    (libc::SOL_TCP, libc::TCP_REPAIR_OPTIONS, "TCP_REPAIR_OPTIONS"),
    (libc::SOL_TCP, libc::TCP_TIMESTAMP, "TCP_TIMESTAMP"),
    (libc::SOL_TCP, libc::TCP_SAVE_SYN, "TCP_SAVE_SYN"),
    (libc::SOL_TCP, libc::TCP_REPAIR_WINDOW, "TCP_REPAIR_WINDOW"),
    (libc::SOL_TCP, libc::TCP_ULP, "TCP_ULP"),
    (libc::SOL_TCP, 37, "TCP_TX_DELAY"),
    (libc::SOL_TCP, 44, "TCP_RTO_MAX_MS"),
    (libc::SOL_IP, libc::IP_TTL, "IP_TTL"),
    (libc::SOL_IP, libc::IP_OPTIONS, "IP_OPTIONS"),
    (libc::SOL_IP, libc::IP_PKTINFO, "IP_PKTINFO"),
    (libc::SOL_IP, libc::IP_MTU_DISCOVER, "IP_MTU_DISCOVER"),
    (libc::SOL_IP, libc::IP_RECVERR, "IP_RECVERR"),
    (libc::SOL_IP, libc::IP_RECVTTL, "IP_RECVTTL"),
    (libc::SOL_IP, libc::IP_RECVTOS, "IP_RECVTOS"),
    (libc::SOL_IP, libc::IP_RECVORIGDSTADDR, "IP_RECVORIGDSTADDR"),
    (libc::SOL_IP, libc::IP_MINTTL, "IP_MINTTL"),
    (libc::SOL_IP, libc::IP_UNICAST_IF, "IP_UNICAST_IF"),
    (libc::SOL_IPV6, libc::IPV6_UNICAST_HOPS, "IPV6_UNICAST_HOPS"),
    (libc::SOL_IPV6, libc::IPV6_MULTICAST_HOPS, "IPV6_MULTICAST_HOPS"),
    (libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, "IPV6_MTU_DISCOVER"),
    (libc::SOL_IPV6, libc::IPV6_MTU, "IPV6_MTU"),
    (libc::SOL_IPV6, libc::IPV6_RECVERR, "IPV6_RECVERR"),
    (libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, "IPV6_RECVPKTINFO"),
    (libc::SOL_IPV6, libc::IPV6_RECVHOPLIMIT, "IPV6_RECVHOPLIMIT"),
    (libc::SOL_IPV6, libc::IPV6_DONTFRAG, "IPV6_DONTFRAG"),
    (libc::SOL_IPV6, libc::IPV6_RECVTCLASS, "IPV6_RECVTCLASS"),
    (libc::SOL_IPV6, libc::IPV6_TCLASS, "IPV6_TCLASS"),
    (libc::SOL_IPV6, libc::IPV6_AUTOFLOWLABEL, "IPV6_AUTOFLOWLABEL"),
    (libc::SOL_IPV6, libc::IPV6_ADDR_PREFERENCES, "IPV6_ADDR_PREFERENCES"),
    (libc::SOL_IPV6, libc::IPV6_MINHOPCOUNT, "IPV6_MINHOPCOUNT"),
    (libc::SOL_IPV6, 76, "IPV6_UNICAST_IF"),
    (libc::SOL_IPV6, libc::IPV6_HDRINCL, "IPV6_HDRINCL"),
    (libc::SOL_IPV6, libc::IPV6_FLOWLABEL_MGR, "IPV6_FLOWLABEL_MGR"),
    (libc::SOL_IPV6, libc::IPV6_FLOWINFO_SEND, "IPV6_FLOWINFO_SEND"),
];

/// The options of [`REFUSED`] that this kernel refuses.
pub fn refused_here() -> Result<Vec<OptionName>, Errno> {
    refused_by_mptcp(&REFUSED.map(|(level, name, _)| OptionName { level, name }))
}

/// The option's name in C; its numbers if it is not in [`REFUSED`].
pub fn name(option: OptionName) -> String {
    let known = REFUSED.iter().find(|(level, name, _)| (*level, *name) == (option.level, option.name));
    known.map_or_else(|| format!("{}/{}", option.level, option.name), |(_, _, name)| (*name).to_owned())
}
