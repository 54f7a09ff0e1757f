//! Captures in the pcapng format (draft-ietf-opsawg-pcapng): raw IP packets, nanoseconds, a comment on each packet.
//!
//! This module only encodes; the caller writes the file.

/// `LINKTYPE_RAW`: IPv4 or IPv6, according to the first four bits.
const LINK_TYPE_RAW: u16 = 101;
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

// Options of blocks.
const COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_TIME_RESOLUTION: u16 = 9;
/// Timestamps count units of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// Longest value of an option; longer values are truncated. Its length with padding fits in 16 bits.
const LARGEST_OPTION_BYTES: usize = 65_532;

/// Appends the start of a capture: a section with an interface for each name, numbered from 0.
pub fn begin(interfaces: &[&str], out: &mut Vec<u8>) {
    block(SECTION_HEADER, out, |out| {
        out.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
        out.extend_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        // Section length: unspecified.
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        option(SECTION_APPLICATION, b"Pathbench", out);
        end_of_options(out);
    });
    for name in interfaces {
        block(INTERFACE_DESCRIPTION, out, |out| {
            out.extend_from_slice(&LINK_TYPE_RAW.to_le_bytes());
            out.extend_from_slice(&0_u16.to_le_bytes());
            // SnapLen: no limit.
            out.extend_from_slice(&0_u32.to_le_bytes());
            option(INTERFACE_NAME, name.as_bytes(), out);
            option(INTERFACE_TIME_RESOLUTION, &[NANOSECONDS], out);
            end_of_options(out);
        });
    }
}

/// Appends an IP packet that was received at `at_ns` (nanoseconds since 1970) on interface `interface`.
pub fn packet(interface: u32, at_ns: u64, ip: &[u8], comment: &str, out: &mut Vec<u8>) {
    let length = (ip.len() as u32).to_le_bytes();
    block(ENHANCED_PACKET, out, |out| {
        out.extend_from_slice(&interface.to_le_bytes());
        out.extend_from_slice(&((at_ns >> 32) as u32).to_le_bytes());
        out.extend_from_slice(&(at_ns as u32).to_le_bytes());
        out.extend_from_slice(&length);
        out.extend_from_slice(&length);
        out.extend_from_slice(ip);
        pad(ip.len(), out);
        if !comment.is_empty() {
            option(COMMENT, comment.as_bytes(), out);
            end_of_options(out);
        }
    });
}

fn block(kind: u32, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = ((out.len() - start + 4) as u32).to_le_bytes();
    if let Some(place) = out.get_mut(start + 4..start + 8) {
        place.copy_from_slice(&length);
    }
    out.extend_from_slice(&length);
}

fn option(code: u16, value: &[u8], out: &mut Vec<u8>) {
    let value = value.get(..LARGEST_OPTION_BYTES).unwrap_or(value);
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(value.len(), out);
}

fn end_of_options(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; 4]);
}

fn pad(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice([0; 3].get(..length.wrapping_neg() % 4).unwrap_or_default());
}
