//! Control of this Linux host: network namespaces, links, addresses, routes, rules, queueing disciplines,
//! the MPTCP path manager, sysctls and the kernel's counters, by netlink and system calls.
//!
//! Everything here is synchronous and acts either on the calling thread's network namespace or on one that
//! is named explicitly ([`namespace::NetNamespace`]). Nothing calls `ip`, `tc` or `sysctl`. This crate never
//! sends or receives test traffic, never decides what a host should look like, never reads a clock, and
//! undoes nothing by itself: it does one thing per call, and returns the kernel's answer. What takes
//! several steps ([`path_mtu::Remedy`]) writes each down before it is made, and takes them back when asked.

pub mod connections;
pub mod counters;
pub mod firewall;
pub mod kernel;
pub mod link_events;
pub mod mptcp;
pub mod namespace;
pub mod netlink;
pub mod packet_sizes;
pub mod path_mtu;
pub mod qdisc;
pub mod scheduling;
pub mod sysctl;
pub mod tun;
pub mod wifi;

#[cfg(test)]
pathbench_kerneltest::unprivileged_too!();
