//! Extension headers of IPv6 (RFC 8200, section 4).

use super::headers::Reason;

const MAXIMUM_EXTENSION_HEADERS: usize = 16;

pub(super) struct Chain {
    pub(super) next_header: u8,
    /// Bytes of the extension headers.
    pub(super) length: usize,
    /// Offset, more fragments, identification; none of an atomic fragment (RFC 6946).
    pub(super) fragment: Option<(u32, bool, u32)>,
}

/// Ends at the first header that is no extension header, or behind the header of a fragment.
#[inline]
pub(super) fn skip_extension_headers(mut next_header: u8, bytes: &[u8]) -> Result<Chain, Reason> {
    let mut length = 0;
    for _ in 0..=MAXIMUM_EXTENSION_HEADERS {
        // Hop-by-hop, routing, fragment, AH, destination options, mobility, HIP, shim6.
        if !matches!(next_header, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140) {
            return Ok(Chain { next_header, length, fragment: None });
        }
        let header = bytes.get(length..).and_then(<[u8]>::first_chunk::<8>).ok_or(Reason::Truncated)?;
        let [next, units, o0, o1, i0, i1, i2, i3] = *header;
        length += match next_header {
            44 => 8,
            // RFC 4302, section 2.2: in units of four bytes, minus 2.
            51 => (usize::from(units) + 2) * 4,
            _ => (usize::from(units) + 1) * 8,
        };
        let field = u16::from_be_bytes([o0, o1]);
        let (offset, more_fragments) = (u32::from(field & 0xfff8), field & 1 != 0);
        if next_header == 44 && (offset != 0 || more_fragments) {
            let identification = u32::from_be_bytes([i0, i1, i2, i3]);
            return Ok(Chain {
                next_header: next,
                length,
                fragment: Some((offset, more_fragments, identification)),
            });
        }
        next_header = next;
    }
    Err(Reason::ExtensionHeaders)
}
