//! Analysis of packet captures: which connection sent which bytes on which path, from one or several points of capture.
//!
//! Bytes of capture files go in, a [`pathbench_record::trace::TraceDocument`] comes out. The analysis reads a file
//! once, in order, and keeps state for live connections only. This crate never opens a file or a socket and reads no clock.
//!
//! [`capture`] reads and writes files, [`packet`] finds the headers, [`mptcp`] and [`quic`] parse their protocols,
//! [`tcp`] follows one direction of a flow, [`comparison`] compares a flow at two points of capture, [`analyzer`]
//! assigns packets to flows and flows to connections.
//!
//! # Example
//! The connections of a capture that is written in memory:
//! ```rust
//! use pathbench_trace::analysis::{AnalysisParameters, analyse, open};
//! use pathbench_trace::capture::{Frame, InterfaceDescription, writer};
//! use pathbench_trace::packet::link;
//! use pathbench_trace::quic::Quic;
//! use pathbench_trace::tcp::{ACK, SYN};
//!
//! const CLIENT: [u8; 4] = [192, 0, 2, 1];
//! const SERVER: [u8; 4] = [203, 0, 113, 9];
//!
//! fn segment(from_client: bool, sequence: u32, acknowledgment: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
//!     let mut packet = vec![0x45, 0, 0, 40 + payload.len() as u8, 0, 0, 0x40, 0, 64, 6, 0, 0];
//!     packet.extend(if from_client { [CLIENT, SERVER] } else { [SERVER, CLIENT] }.concat());
//!     let [source, destination] = if from_client { [40_000_u16, 443] } else { [443, 40_000] };
//!     packet.extend([source.to_be_bytes(), destination.to_be_bytes()].concat());
//!     packet.extend([sequence.to_be_bytes(), acknowledgment.to_be_bytes()].concat());
//!     packet.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
//!     packet.extend(payload);
//!     packet
//! }
//!
//! let packets = [
//!     segment(true, 100, 0, SYN, b""),
//!     segment(false, 900, 101, SYN | ACK, b""),
//!     segment(true, 101, 901, ACK, b"hello"),
//! ];
//! let interface = InterfaceDescription { link_type: link::RAW, ..InterfaceDescription::default() };
//! let mut file = Vec::new();
//! writer::begin(&[interface], &mut file);
//! for (bytes, time_ns) in packets.iter().zip([0, 30_000_000, 31_000_000]) {
//!     let original_length = bytes.len() as u32;
//!     writer::packet(&Frame { interface: 0, time_ns, original_length, bytes, comment: None }, &mut file);
//! }
//!
//! let captures = vec![open("example.pcapng".to_owned(), file.as_slice())?];
//! let document = analyse(captures, &AnalysisParameters { most: 10, seed: 1 }, Quic::new(None), ()).document;
//! let [connection] = document.connections.as_slice() else { panic!("one connection") };
//! assert_eq!(connection.transport, "tcp");
//! assert_eq!(connection.upload.data_bytes, 5);
//! assert_eq!(connection.subflows[0].handshake_rtt_ms, Some(31.0));
//! # Ok::<(), pathbench_trace::capture::OpenError>(())
//! ```

pub mod analysis;
pub mod analyzer;
pub mod capture;
pub mod comparison;
pub mod coverage;
mod display_filter;
pub mod extract;
pub mod finding;
pub mod graph;
pub mod histogram;
pub mod mptcp;
pub mod packet;
pub mod quic;
pub mod series;
pub mod tcp;
