//! Link-layer headers: where the IP header of a frame begins.
//!
//! Numbers and headers of link types: <https://www.tcpdump.org/linktypes.html>.

use super::headers::Reason;

/// `LINKTYPE_NULL`: four bytes of address family in the byte order of the capturing host.
pub const NULL: u16 = 0;
/// `LINKTYPE_ETHERNET`.
pub const ETHERNET: u16 = 1;
/// `LINKTYPE_PPP`: PPP (RFC 1661), with or without the address and control bytes of RFC 1662.
pub const PPP: u16 = 9;
/// `DLT_RAW` of most systems; some writers put it into files.
pub const RAW_BSD: u16 = 12;
/// `DLT_RAW` of OpenBSD.
pub const RAW_OPENBSD: u16 = 14;
/// `LINKTYPE_PPP_HDLC`: PPP or Cisco HDLC, which the first byte tells apart (RFC 1547, section 4.3.1).
pub const PPP_HDLC: u16 = 50;
/// `LINKTYPE_RAW`: IPv4 or IPv6 without a link-layer header.
pub const RAW: u16 = 101;
/// `LINKTYPE_C_HDLC`: Cisco HDLC (RFC 1547, section 4.3.1).
pub const CISCO_HDLC: u16 = 104;
/// `LINKTYPE_IEEE802_11`.
pub const IEEE802_11: u16 = 105;
/// `LINKTYPE_LOOP`: as [`NULL`], in network byte order.
pub const LOOP: u16 = 108;
/// `LINKTYPE_LINUX_SLL`: <https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL.html>.
pub const LINUX_SLL: u16 = 113;
/// `LINKTYPE_IEEE802_11_RADIOTAP`: <https://www.radiotap.org>.
pub const IEEE802_11_RADIOTAP: u16 = 127;
/// `LINKTYPE_PPP_PPPD`: [`PPP`] with a direction in place of the address byte.
pub const PPP_PPPD: u16 = 166;
/// `LINKTYPE_PPP_WITH_DIR`: [`PPP`] behind a byte with the direction.
pub const PPP_WITH_DIRECTION: u16 = 204;
/// `LINKTYPE_IPV4`.
pub const IPV4: u16 = 228;
/// `LINKTYPE_IPV6`.
pub const IPV6: u16 = 229;
/// `LINKTYPE_NFLOG`: <https://www.tcpdump.org/linktypes/LINKTYPE_NFLOG.html>.
pub const NFLOG: u16 = 239;
/// `LINKTYPE_LINUX_SLL2`: <https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL2.html>.
pub const LINUX_SLL2: u16 = 276;

/// VLAN tags, `PPPoE` and LLC headers of one frame.
const MAXIMUM_TAGS: usize = 8;
const MAXIMUM_LABELS: usize = 16;
/// Attributes of an NFLOG packet before its payload.
const MAXIMUM_ATTRIBUTES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V4,
    V6,
}

/// IP version and offset of the IP header.
pub(super) type Found = Result<(Version, usize), Reason>;

#[inline]
pub(super) fn find_ip(link_type: u16, frame: &[u8]) -> Found {
    if link_type == ETHERNET {
        let ether_type = be16(frame, 12)?;
        // The common cases, before the loop over tags.
        return match ether_type {
            0x0800 => Ok((Version::V4, 14)),
            0x86dd => Ok((Version::V6, 14)),
            _ => after_ether_type(frame, ether_type, 14),
        };
    }
    find_ip_of_other_link_type(link_type, frame)
}

fn find_ip_of_other_link_type(link_type: u16, frame: &[u8]) -> Found {
    match link_type {
        NULL | LOOP => address_family(frame),
        PPP_HDLC if matches!(frame.first(), Some(0x0f | 0x8f)) => cisco_hdlc(frame),
        PPP | PPP_HDLC => ppp_frame(frame, 0),
        PPP_PPPD => ppp(frame, 2),
        PPP_WITH_DIRECTION => ppp_frame(frame, 1),
        CISCO_HDLC => cisco_hdlc(frame),
        NFLOG => nflog(frame),
        RAW | RAW_BSD | RAW_OPENBSD => by_first_byte(frame, 0),
        IPV4 => Ok((Version::V4, 0)),
        IPV6 => Ok((Version::V6, 0)),
        LINUX_SLL => after_ether_type(frame, be16(frame, 14)?, 16),
        LINUX_SLL2 => after_ether_type(frame, be16(frame, 0)?, 20),
        IEEE802_11 => ieee802_11(frame, 0, false),
        IEEE802_11_RADIOTAP => radiotap(frame),
        _ => Err(Reason::LinkType),
    }
}

fn be16(bytes: &[u8], offset: usize) -> Result<u16, Reason> {
    let chunk = bytes.get(offset..).and_then(<[u8]>::first_chunk).ok_or(Reason::Truncated)?;
    Ok(u16::from_be_bytes(*chunk))
}

fn le16(bytes: &[u8], offset: usize) -> Result<u16, Reason> {
    be16(bytes, offset).map(u16::swap_bytes)
}

fn byte(bytes: &[u8], offset: usize) -> Result<u8, Reason> {
    bytes.get(offset).copied().ok_or(Reason::Truncated)
}

fn by_first_byte(frame: &[u8], offset: usize) -> Found {
    match byte(frame, offset)? >> 4 {
        4 => Ok((Version::V4, offset)),
        6 => Ok((Version::V6, offset)),
        _ => Err(Reason::NotIp),
    }
}

/// `AF_INET` is 2 everywhere; `AF_INET6` is 10 on Linux, 24 on NetBSD and OpenBSD, 28 on FreeBSD, 30 on macOS.
fn address_family(frame: &[u8]) -> Found {
    let bytes = *frame.first_chunk::<4>().ok_or(Reason::Truncated)?;
    let (big, little) = (u32::from_be_bytes(bytes), u32::from_le_bytes(bytes));
    match big.min(little) {
        2 => Ok((Version::V4, 4)),
        10 | 24 | 28 | 30 => Ok((Version::V6, 4)),
        _ => Err(Reason::NotIp),
    }
}

/// PPP in frames of RFC 1662, whose address and control bytes may be compressed away (RFC 1661, section 6.6).
fn ppp_frame(frame: &[u8], offset: usize) -> Found {
    ppp(frame, if frame.get(offset) == Some(&0xff) { offset + 2 } else { offset })
}

/// Address, control, ether type.
fn cisco_hdlc(frame: &[u8]) -> Found {
    after_ether_type(frame, be16(frame, 2)?, 4)
}

/// The payload attribute of a packet of the kernel's log; attributes are in the byte order of the host.
fn nflog(frame: &[u8]) -> Found {
    let family = byte(frame, 0)?;
    let mut offset = 4;
    for _ in 0..MAXIMUM_ATTRIBUTES {
        let big = (be16(frame, offset)?, be16(frame, offset + 2)?);
        // Types are below 256: the byte order is that in which this one is.
        let (length, kind) =
            if big.1 < 256 && big.1 != 0 { big } else { (big.0.swap_bytes(), big.1.swap_bytes()) };
        if length < 4 {
            return Err(Reason::Malformed);
        }
        match (kind, family) {
            (9, 2) => return Ok((Version::V4, offset + 4)),
            (9, 10) => return Ok((Version::V6, offset + 4)),
            (9, _) => return by_first_byte(frame, offset + 4),
            _ => offset += usize::from(length).next_multiple_of(4),
        }
    }
    Err(Reason::NotIp)
}

/// From an ether type (or the length of IEEE 802.3) to IP; `offset` is behind the ether type.
pub(super) fn after_ether_type(frame: &[u8], mut ether_type: u16, mut offset: usize) -> Found {
    for _ in 0..MAXIMUM_TAGS {
        match ether_type {
            0x0800 => return Ok((Version::V4, offset)),
            0x86dd => return Ok((Version::V6, offset)),
            // 802.1Q, 802.1ad and the QinQ types from before 802.1ad.
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
                ether_type = be16(frame, offset + 2)?;
                offset += 4;
            }
            0x8847 | 0x8848 => return mpls(frame, offset),
            // RFC 2516, section 4: version and type, code, session, length.
            0x8864 => return ppp(frame, offset + 6),
            // A length of IEEE 802.3; 4 is `ETH_P_802_2` of cooked captures.
            ..=1500 => {
                ether_type = snap(frame, offset)?;
                offset += 8;
            }
            // IEEE 802.1AE.
            0x88e5 => return Err(Reason::Encapsulated("MACsec")),
            _ => return Err(Reason::NotIp),
        }
    }
    Err(Reason::NotIp)
}

/// The ether type in an LLC and SNAP header (RFC 1042; IEEE 802.1H has the OUI 00-00-F8).
fn snap(frame: &[u8], offset: usize) -> Result<u16, Reason> {
    match frame.get(offset..).and_then(<[u8]>::first_chunk::<8>).ok_or(Reason::Truncated)? {
        [0xaa, 0xaa, 3, 0, 0, 0 | 0xf8, high, low] => Ok(u16::from_be_bytes([*high, *low])),
        _ => Err(Reason::NotIp),
    }
}

/// Label stack of RFC 3032, section 2.1. The payload's type is known to the routers alone: its first byte decides.
pub(super) fn mpls(frame: &[u8], mut offset: usize) -> Found {
    for _ in 0..MAXIMUM_LABELS {
        let bottom_of_stack = byte(frame, offset + 2)? & 1 == 1;
        offset += 4;
        if bottom_of_stack {
            return match by_first_byte(frame, offset) {
                // A control word (RFC 4385): the payload is a frame of another link layer.
                Err(Reason::NotIp) => Err(Reason::Encapsulated("MPLS")),
                found => found,
            };
        }
    }
    Err(Reason::NotIp)
}

/// RFC 1661, section 2; a protocol with an odd first byte is compressed to one byte (section 6.5).
pub(super) fn ppp(frame: &[u8], offset: usize) -> Found {
    let first = byte(frame, offset)?;
    let (protocol, offset) =
        if first & 1 == 1 { (u16::from(first), offset + 1) } else { (be16(frame, offset)?, offset + 2) };
    match protocol {
        0x0021 => Ok((Version::V4, offset)),
        0x0057 => Ok((Version::V6, offset)),
        // Unicast and multicast (RFC 3032, section 4.3).
        0x0281 | 0x0283 => mpls(frame, offset),
        // Multilink, compressed and encrypted datagrams (RFC 1990, RFC 1962, RFC 1968).
        0x003d => Err(Reason::Encapsulated("multilink PPP")),
        0x00fd | 0x00fb => Err(Reason::Encapsulated("compressed PPP")),
        0x0053 | 0x0055 => Err(Reason::Encapsulated("encrypted PPP")),
        // RFC 1144 and ROHC.
        0x002d | 0x002f | 0x0003 | 0x0005 => Err(Reason::Encapsulated("PPP with compressed headers")),
        _ => Err(Reason::NotIp),
    }
}

/// Data frames of IEEE 802.11-2020, section 9.3.2.1.
fn ieee802_11(frame: &[u8], start: usize, padded: bool) -> Found {
    let (kind, flags) = (byte(frame, start)?, byte(frame, start + 1)?);
    let (quality_of_service, no_data) = (kind & 0x80 != 0, kind & 0x40 != 0);
    // Version 0, type 2.
    if kind & 0x0f != 0x08 || no_data {
        return Err(Reason::NotIp);
    }
    if flags & 0x40 != 0 {
        return Err(Reason::Encrypted);
    }
    // More fragments, or a fragment number.
    if flags & 0x04 != 0 || byte(frame, start + 22)? & 0x0f != 0 {
        return Err(Reason::LinkFragment);
    }
    let mut header_length = 24;
    if flags & 3 == 3 {
        header_length += 6;
    }
    if quality_of_service {
        // An A-MSDU carries several packets.
        if byte(frame, start + header_length)? & 0x80 != 0 {
            return Err(Reason::Aggregate);
        }
        header_length += 2;
        // HT control.
        if flags & 0x80 != 0 {
            header_length += 4;
        }
    }
    if padded {
        header_length = header_length.next_multiple_of(4);
    }
    let offset = start + header_length;
    after_ether_type(frame, snap(frame, offset)?, offset + 8)
}

fn radiotap(frame: &[u8]) -> Found {
    if byte(frame, 0)? != 0 {
        return Err(Reason::Malformed);
    }
    let length = usize::from(le16(frame, 2)?);
    if length < 8 {
        return Err(Reason::Malformed);
    }
    // The frame's header is padded to 32 bits (<https://www.radiotap.org/fields/Flags.html>).
    let padded = radiotap_flags(frame.get(..length).ok_or(Reason::Truncated)?).is_some_and(|f| f & 0x20 != 0);
    ieee802_11(frame, length, padded)
}

/// The field "flags", bit 1; only TSFT, bit 0, comes before it.
fn radiotap_flags(header: &[u8]) -> Option<u8> {
    let present = *header.get(4)?;
    if present & 2 == 0 {
        return None;
    }
    let mut offset: usize = 4;
    // Bit 31: another word of "present" bits follows.
    while header.get(offset + 3)? & 0x80 != 0 {
        offset += 4;
    }
    offset += 4;
    if present & 1 != 0 {
        offset = offset.next_multiple_of(8) + 8;
    }
    header.get(offset).copied()
}
