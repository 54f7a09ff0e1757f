//! Headers of a captured packet, from the link layer to the transport.

mod address;
mod extension_headers;
mod headers;
pub mod link;
mod network;
pub mod reassembly;
pub mod tcp_options;
mod transport;

pub use address::{Address, FlowEndpoint};
pub use headers::{Dissected, Fragment, PacketHeaders, PacketTooBig, Reason, Tcp, TransportHeader, Udp};

/// Finds the headers of a frame. `link_type` is the number of <https://www.tcpdump.org/linktypes.html>;
/// `original_length` is the frame's length on the wire, of which `frame_bytes` were captured.
#[inline]
pub fn dissect(link_type: u16, frame_bytes: &[u8], original_length: u32) -> Dissected<'_> {
    let found = link::find_ip(link_type, frame_bytes).and_then(|(version, offset)| {
        Ok((version, offset, frame_bytes.get(offset..).ok_or(Reason::Truncated)?))
    });
    match found {
        Ok((version, offset, bytes)) => {
            // Some writers set no original length.
            let wire_length = original_length.saturating_sub(offset as u32).max(bytes.len() as u32);
            network::dissect(version, bytes, wire_length, 0)
        }
        Err(reason) => Dissected::Other(reason),
    }
}
