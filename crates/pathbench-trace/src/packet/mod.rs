//! Headers of a captured packet, from the link layer to the transport.

mod address;
mod extension_headers;
mod headers;
pub mod link;
mod network;
pub mod reassembly;
pub mod tcp_options;
mod transport;
mod tunnel;

pub use address::{Address, FlowEndpoint};
pub use headers::{Dissected, Fragment, PacketHeaders, PacketTooBig, Reason, Tcp, TransportHeader, Udp};

/// Finds the headers of a frame. `link_type` is the number of <https://www.tcpdump.org/linktypes.html>;
/// `original_length` is the frame's length on the wire, of which `frame_bytes` were captured.
///
/// ```rust
/// use pathbench_trace::packet::{Dissected, TransportHeader, dissect, link};
/// use std::net::SocketAddr;
///
/// // IPv4 with 10 bytes of UDP: a header and two bytes of payload.
/// let packet = [
///     0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, // IPv4
///     0x30, 0x39, 0x00, 0x35, 0, 10, 0, 0, b'h', b'i', // UDP
/// ];
/// let Dissected::Packet(headers) = dissect(link::RAW, &packet, 30) else { panic!("a packet") };
/// assert_eq!(SocketAddr::from(headers.source).to_string(), "192.0.2.1:12345");
/// assert_eq!(headers.destination.port, 53);
/// let TransportHeader::Udp(udp) = headers.transport else { panic!("UDP") };
/// assert_eq!(udp.payload, b"hi");
/// ```
#[inline]
pub fn dissect(link_type: u16, frame_bytes: &[u8], original_length: u32) -> Dissected<'_> {
    network::dissect_frame(link_type, frame_bytes, original_length, 0)
}
