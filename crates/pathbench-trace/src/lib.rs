//! Analysis of packet captures: which connection sent which bytes on which path, from one or several points of capture.
//!
//! Bytes of capture files go in, a [`pathbench_record::trace::TraceDocument`] comes out. The analysis reads a file
//! once, in order, and keeps state for live connections only. This crate never opens a file or a socket and reads no clock.
//!
//! [`capture`] reads and writes files, [`packet`] finds the headers, [`mptcp`] and [`quic`] parse their protocols,
//! [`tcp`] follows one direction of a flow, [`comparison`] compares a flow at two points of capture, [`analyzer`]
//! assigns packets to flows and flows to connections.

pub mod analysis;
pub mod analyzer;
pub mod capture;
pub mod comparison;
pub mod coverage;
pub mod extract;
pub mod graph;
pub mod histogram;
pub mod mptcp;
pub mod packet;
pub mod quic;
pub mod series;
pub mod tcp;
