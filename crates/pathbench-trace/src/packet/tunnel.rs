//! Tunnels in IP and in UDP: GRE, `EtherIP`, MPLS, VXLAN, GENEVE, GTP-U.

use super::headers::Reason;
use super::transport::IpPacket;

/// Ether type of transparent Ethernet bridging.
pub(super) const BRIDGED: u16 = 0x6558;
/// ERSPAN types I and II.
const ERSPAN: u16 = 0x88be;
const ERSPAN_3: u16 = 0x22eb;
/// PPP in GRE (RFC 2637).
const PPP: u16 = 0x880b;
const MPLS: u16 = 0x8847;

/// Extension headers of one GTP-U packet.
const MAXIMUM_EXTENSIONS: usize = 8;

/// The name and the payload of a tunnel in IP.
pub(super) fn in_ip<'a>(ip: &IpPacket<'a>) -> Result<(&'static str, Inner<'a>), Reason> {
    Ok(match ip.protocol {
        47 => ("GRE", gre(ip.payload)?),
        // RFC 3378: two bytes.
        97 => ("EtherIP", ip.payload.get(2..).map(Inner::Frame).ok_or(Reason::Truncated)?),
        137 => ("MPLS", Inner::Typed(MPLS, ip.payload)),
        protocol => return Err(Reason::Protocol(protocol)),
    })
}

/// The name and the payload of a datagram to the port of a tunnel with a header of that tunnel.
pub(super) fn in_udp(port: u16, payload: &[u8]) -> Option<(&'static str, Inner<'_>)> {
    Some(match port {
        // The second is the port of Linux from before RFC 7348.
        4789 | 8472 => ("VXLAN", vxlan(payload)?),
        6081 => ("GENEVE", geneve(payload)?),
        2152 => ("GTP-U", gtp(payload)?),
        _ => return None,
    })
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Inner<'a> {
    /// A frame of Ethernet.
    Frame(&'a [u8]),
    /// An ether type, and the bytes behind it.
    Typed(u16, &'a [u8]),
    Ppp(&'a [u8]),
    /// Its first byte shows the version.
    Ip(&'a [u8]),
    Unknown(&'static str),
}

impl Inner<'_> {
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Frame(bytes) | Self::Typed(_, bytes) | Self::Ppp(bytes) | Self::Ip(bytes) => bytes.len(),
            Self::Unknown(_) => 0,
        }
    }
}

fn be16(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// RFC 2784 and RFC 2890; version 1 of RFC 2637.
fn gre(bytes: &[u8]) -> Result<Inner<'_>, Reason> {
    let (flags, kind) = be16(bytes, 0).zip(be16(bytes, 2)).ok_or(Reason::Truncated)?;
    let (checksum, routing, key, sequence, acknowledgment) = (
        flags & 0x8000 != 0,
        flags & 0x4000 != 0,
        flags & 0x2000 != 0,
        flags & 0x1000 != 0,
        flags & 0x0080 != 0,
    );
    let version = flags & 7;
    // Source routing of RFC 1701 is out of use.
    if routing || version > 1 {
        return Ok(Inner::Unknown("GRE"));
    }
    let mut length = 4 + 4 * (usize::from(checksum) + usize::from(key) + usize::from(sequence));
    if version == 1 {
        length += 4 * usize::from(acknowledgment);
    }
    let payload = bytes.get(length..).ok_or(Reason::Truncated)?;
    Ok(match (version, kind) {
        (1, PPP) if sequence => Inner::Ppp(payload),
        (1, _) => Inner::Unknown("PPTP"),
        // Type I has no header of its own, type II eight bytes.
        (_, ERSPAN) => Inner::Frame(payload.get(if sequence { 8 } else { 0 }..).ok_or(Reason::Truncated)?),
        (_, ERSPAN_3) => Inner::Unknown("ERSPAN type III"),
        (_, 0x0800 | 0x86dd | 0x8847 | 0x8848 | BRIDGED | 0x8100 | 0x88a8) => Inner::Typed(kind, payload),
        _ => Inner::Unknown("GRE"),
    })
}

/// RFC 7348, section 5, and draft-ietf-nvo3-vxlan-gpe, section 3; `None` if the header is no header of VXLAN.
fn vxlan(bytes: &[u8]) -> Option<Inner<'_>> {
    let ([flags, r0, r1, r2, _, _, _, r3], frame) = bytes.split_first_chunk::<8>()?;
    match (flags, r0, r1, r2, r3) {
        // Plain, with the group policy extension, and with the generic protocol extension: the next protocol.
        (0x08, 0, 0, 0, 0) | (0x88, .., 0) | (0x0c, 0, 0, 3, 0) => Some(Inner::Frame(frame)),
        (0x0c, 0, 0, 1 | 2, 0) => Some(Inner::Ip(frame)),
        (0x0c, 0, 0, 4.., 0) => Some(Inner::Unknown("VXLAN-GPE")),
        _ => None,
    }
}

/// RFC 8926, section 3.4.
fn geneve(bytes: &[u8]) -> Option<Inner<'_>> {
    let [first, flags, ..] = *bytes else { return None };
    // Version 0; reserved bits are zero.
    if first >> 6 != 0 || flags & 0x3f != 0 {
        return None;
    }
    // Control packets carry no frame.
    if flags & 0x80 != 0 {
        return Some(Inner::Unknown("GENEVE"));
    }
    let kind = be16(bytes, 2)?;
    Some(Inner::Typed(kind, bytes.get(8 + 4 * usize::from(first & 0x3f)..)?))
}

/// 3GPP TS 29.281, section 5.1: version 1, message type "G-PDU".
fn gtp(bytes: &[u8]) -> Option<Inner<'_>> {
    let [flags, kind, ..] = *bytes else { return None };
    if flags & 0xf8 != 0x30 || kind != 0xff {
        return None;
    }
    let mut offset = 8;
    if flags & 7 != 0 {
        let mut next = if flags & 4 != 0 { *bytes.get(11)? } else { 0 };
        offset = 12;
        for _ in 0..MAXIMUM_EXTENSIONS {
            if next == 0 {
                break;
            }
            offset += 4 * usize::from(*bytes.get(offset).filter(|units| **units > 0)?);
            next = *bytes.get(offset - 1)?;
        }
    }
    Some(Inner::Ip(bytes.get(offset..)?))
}
