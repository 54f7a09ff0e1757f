//! Runs any program with its TCP sockets created as MPTCP (seccomp user notification), and follows each connection by
//! `sock_diag`: multipath used or not, and bytes by path.
//!
//! It never opens a connection itself, never reads a clock, and never keeps a descriptor of the program.

#[cfg(test)]
pathbench_kerneltest::privilege_independent!();
