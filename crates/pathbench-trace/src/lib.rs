//! Analysis of packet captures: which connection sent which bytes on which path, from one or several points of capture.
//!
//! Bytes of capture files go in, a [`pathbench_record::trace::TraceDocument`] comes out. The analysis reads a file
//! once, in order, and keeps state for live connections only. This crate never opens a file or a socket and reads no clock.
//!
//! [`capture`] reads and writes files, [`packet`] finds the headers, [`mptcp`] and [`quic`] parse their protocols,
//! [`tcp`] follows one direction of a flow, [`comparison`] compares a flow at two points of capture, [`analyzer`]
//! assigns packets to flows and flows to connections.
//!
//! # Modules
//! - `analysis`: whole captures: several files, or several interfaces, merged by time, into one result
//! - `analyzer`: assigns packets to flows, and flows to connections
//! - `capture`: capture files: pcap and pcapng, also compressed with gzip or zstd
//! - `comparison`: one TCP flow at two points of capture: bytes lost and reordered between them, one-way delays,
//!   middleboxes
//! - `coverage`: a set of byte ranges of a sequence space
//! - `display_filter`: display filters of Wireshark
//! - `extract`: the packets of chosen connections as captures of their own, with a comment on each packet
//! - `graph`: time-sequence graphs of chosen connections: a second pass over their captures, in bounded memory
//! - `histogram`: durations in bounded memory
//! - `mptcp`: multipath TCP: options, keys and the data level of a connection (RFC 8684; version 0: RFC 6824)
//! - `packet`: headers of a captured packet, from the link layer to the transport
//! - `quic`: QUIC and Multipath QUIC: headers, keys, frames, and the paths of connections (RFC 8999, RFC 9000, RFC
//!   9001, RFC 9369, draft-ietf-quic-multipath)
//! - `series`: bytes over time in bounded memory
//! - `tcp`: one TCP flow at one point of capture: sequence numbers, acknowledgments, retransmissions, round-trip
//!   times

pub mod analysis;
pub mod analyzer;
pub mod capture;
pub mod comparison;
pub mod coverage;
mod display_filter;
pub mod extract;
pub mod graph;
pub mod histogram;
pub mod mptcp;
pub mod packet;
pub mod quic;
pub mod series;
pub mod tcp;
