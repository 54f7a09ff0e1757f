//! Control of this Linux host: network namespaces, links, addresses, routes, rules, queueing disciplines,
//! the MPTCP path manager, sysctls and the kernel's counters, by netlink and system calls.
//!
//! All calls are synchronous and act on the calling thread's network namespace or on a named one
//! ([`namespace::NetNamespace`]). This crate never runs `ip`, `tc` or `sysctl`, never sends or receives test traffic,
//! never decides on the host's configuration, never reads a clock, and never undoes a change by itself: each call
//! performs one operation and returns the kernel's answer. Changes with several steps ([`change::Applier`]) record
//! each step in advance, and undo the steps on request.
//!
//! # Modules
//! - [`change`]: the changes of this host, with a journal and their undo
//! - [`connections`]: the live TCP connections and subflows, and their reset
//! - [`counters`]: the kernel's protocol counters (MIB)
//! - [`device`]: the offloads, speed and modem kind of an interface
//! - [`firewall`]: the `nf_tables` rules of a lab's router
//! - [`kernel`]: the kernel version, the processors and the MPTCP support
//! - [`link_events`]: the changes of interfaces and addresses
//! - [`managers`]: the programs that manage interfaces, rules or endpoints
//! - [`mptcp`]: the MPTCP path manager
//! - [`namespace`]: the network namespaces
//! - [`netlink`]: the links, addresses, routes and rules
//! - [`packet_capture`]: the packets of an interface
//! - `packet_ring`: the ring buffer of a packet socket
//! - [`packet_sizes`]: the sizes of the packets that cross an interface
//! - [`path_mtu`]: the kernel's path-MTU state and its correction
//! - [`paths`]: the paths to a server
//! - [`process`]: the running processes
//! - [`qdisc`]: the shaping of an interface
//! - [`scheduling`]: the wake-up latency of threads
//! - [`seccomp`]: the seccomp user notification
//! - [`sockets`]: the TCP and MPTCP sockets of a namespace
//! - `syscall`: the system calls without a safe wrapper
//! - [`sysctl`]: the kernel settings
//! - [`tun`]: the TUN devices
//! - [`wifi`]: the Wi-Fi interfaces and networks
//! - `nmcli`: what only a running `NetworkManager` knows, by its client nmcli(1): its version, and which interfaces
//!   are metered, also by its own guess (a phone that shares its connection); and whether a modem is roaming, by
//!   mmcli(1)

pub mod change;
pub mod connections;
pub mod counters;
pub mod device;
pub mod firewall;
pub mod kernel;
pub mod link_events;
pub mod managers;
pub mod mptcp;
pub mod namespace;
pub mod netlink;
pub mod nmcli;
pub mod packet_capture;
mod packet_ring;
pub mod packet_sizes;
pub mod path_mtu;
pub mod paths;
pub mod process;
pub mod qdisc;
pub mod scheduling;
pub mod seccomp;
pub mod sockets;
mod syscall;
pub mod sysctl;
pub mod tun;
pub mod wifi;
