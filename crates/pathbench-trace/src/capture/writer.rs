//! Captures in the pcapng format (draft-ietf-opsawg-pcapng): nanoseconds, optionally a comment on each packet.
//!
//! This module only encodes; the caller writes the file.
//!
//! ```rust
//! use pathbench_trace::capture::{CaptureReader, Frame, InterfaceDescription, writer};
//!
//! let interface = InterfaceDescription { link_type: 1, name: Some("eth0".to_owned()), ..Default::default() };
//! let bytes = [0; 60].as_slice();
//! let frame = Frame { interface: 0, time_ns: 5, original_length: 60, bytes, comment: Some(b"lost later") };
//! let mut file = Vec::new();
//! writer::begin(&[interface.clone()], &mut file);
//! writer::packet(&frame, &mut file);
//!
//! let mut reader = CaptureReader::open(file.as_slice())?;
//! let batch = reader.batch()?.expect("a packet");
//! assert_eq!(batch.interfaces(), [interface]);
//! assert_eq!(batch.iter().collect::<Vec<_>>(), [frame]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::pcapng::{
    BYTE_ORDER_MAGIC, COMMENT, ENHANCED_PACKET, FILTER_TEXT, INTERFACE_DESCRIPTION,
    INTERFACE_DESCRIPTION_TEXT, INTERFACE_FILTER, INTERFACE_NAME, INTERFACE_TIME_RESOLUTION, SECTION_HEADER,
};
use super::{Frame, InterfaceDescription};

const SECTION_APPLICATION: u16 = 4;
/// Timestamps count units of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// Longest value of an option; longer values are truncated. Its length with padding fits in 16 bits.
const LARGEST_OPTION_BYTES: usize = 65_532;

/// Appends the start of a capture: a section with the interfaces, numbered from 0.
pub fn begin(interfaces: &[InterfaceDescription], out: &mut Vec<u8>) {
    block(SECTION_HEADER, out, |out| {
        out.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
        out.extend_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        // Section length: unspecified.
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        option(SECTION_APPLICATION, b"Pathbench", out);
        end_of_options(out);
    });
    for interface in interfaces {
        block(INTERFACE_DESCRIPTION, out, |out| {
            out.extend_from_slice(&interface.link_type.to_le_bytes());
            out.extend_from_slice(&0_u16.to_le_bytes());
            out.extend_from_slice(&interface.snap_length.to_le_bytes());
            if let Some(name) = &interface.name {
                option(INTERFACE_NAME, name.as_bytes(), out);
            }
            if let Some(description) = &interface.description {
                option(INTERFACE_DESCRIPTION_TEXT, description.as_bytes(), out);
            }
            option(INTERFACE_TIME_RESOLUTION, &[NANOSECONDS], out);
            if let Some(filter) = &interface.filter {
                option(INTERFACE_FILTER, &[&[FILTER_TEXT], filter.as_bytes()].concat(), out);
            }
            end_of_options(out);
        });
    }
}

/// Appends a packet. An empty comment is none.
pub fn packet(frame: &Frame<'_>, out: &mut Vec<u8>) {
    block(ENHANCED_PACKET, out, |out| {
        out.extend_from_slice(&frame.interface.to_le_bytes());
        out.extend_from_slice(&((frame.time_ns >> 32) as u32).to_le_bytes());
        out.extend_from_slice(&(frame.time_ns as u32).to_le_bytes());
        out.extend_from_slice(&(frame.bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&frame.original_length.to_le_bytes());
        out.extend_from_slice(frame.bytes);
        pad(frame.bytes.len(), out);
        if let Some(comment) = frame.comment.filter(|comment| !comment.is_empty()) {
            option(COMMENT, comment, out);
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
    if let Some(length_field) = out.get_mut(start + 4..start + 8) {
        length_field.copy_from_slice(&length);
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
