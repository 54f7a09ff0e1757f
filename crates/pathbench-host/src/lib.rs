//! Control of this Linux host: network namespaces, links, addresses, routes, rules, queueing disciplines,
//! the MPTCP path manager, sysctls and the kernel's counters, by netlink and system calls.
//!
//! All calls are synchronous and act on the calling thread's network namespace or on a named one
//! ([`namespace::NetNamespace`]). This crate changes nothing by running `ip`, `tc` or `sysctl`, never sends or receives test traffic,
//! never decides on the host's configuration, never reads a clock, and never undoes a change by itself: each call
//! performs one operation and returns the kernel's answer. Changes with several steps ([`change::Applier`]) record
//! each step in advance, and undo the steps on request.

pub mod change;
pub mod connections;
pub mod counters;
pub mod device;
pub mod egress;
pub mod firewall;
pub mod hop_probe;
pub mod iproute;
pub mod kernel;
pub mod leases;
pub mod link_events;
pub mod load;
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
pub mod shaping;
pub mod sockets;
mod source_route;
mod syscall;
pub mod sysctl;
pub mod systemd;
pub mod thread_time;
pub mod tun;
pub mod wifi;
