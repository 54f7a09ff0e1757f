//! Capture files: pcap and pcapng, also compressed with gzip or zstd.
//!
//! Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

mod batch;
mod buffer;
mod byte_order;
mod damage;
mod link_type;
mod pcap;
mod pcapng;
mod reader;
mod source;
pub mod writer;

pub use batch::{Batch, Frames};
pub use damage::Damage;
pub use link_type::link_type_name;
pub use reader::{CaptureReadError, CaptureReader, Format, OpenError};
pub use source::Compression;

/// An interface of a capture: an interface description of pcapng; the one interface of a pcap file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InterfaceDescription {
    /// `LINKTYPE_…`, <https://www.tcpdump.org/linktypes.html>.
    pub link_type: u16,
    pub name: Option<String>,
    pub description: Option<String>,
    /// 0 without a limit.
    pub snap_length: u32,
    pub filter: Option<String>,
}

/// A captured packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Index in the reader's interfaces. Several sections of a file have one list.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Before truncation to the snap length.
    pub original_length: u32,
    pub bytes: &'a [u8],
    /// The first comment of the packet.
    pub comment: Option<&'a [u8]>,
}
