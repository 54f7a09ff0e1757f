//! Options of a TCP header (RFC 9293, section 3.1).

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// RFC 9293, section 3.7.1.
    Mss(u16),
    /// RFC 7323, section 2.2.
    WindowScale(u8),
    /// RFC 2018, section 2.
    SackPermitted,
    /// RFC 2018, section 3.
    Sack(SackBlocks<'a>),
    /// RFC 7323, section 3.2.
    Timestamps { value: u32, echo: u32 },
    /// RFC 8684, section 3: the whole option with kind and length.
    Mptcp(&'a [u8]),
    /// Another kind, or one of the above with a length that its RFC excludes; `bytes` has kind and length.
    Other { kind: u8, bytes: &'a [u8] },
}

/// Left and right edges of the blocks that a receiver has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SackBlocks<'a>(&'a [u8]);

impl<'a> SackBlocks<'a> {
    #[inline]
    pub fn edges(self) -> impl Iterator<Item = (u32, u32)> + 'a {
        self.0.chunks_exact(8).filter_map(|block| {
            let (left, right) = block.split_first_chunk()?;
            Some((u32::from_be_bytes(*left), u32::from_be_bytes(*right.first_chunk()?)))
        })
    }
}

/// The options of a header, without NOP (1); ends at EOL (0), at the end of the captured bytes, and at an option whose
/// length is below 2 or beyond the captured bytes.
#[inline]
pub fn options(bytes: &[u8]) -> impl Iterator<Item = TcpOption<'_>> {
    Options { rest: bytes, nops: 0 }
}

/// Value and echo of the time stamps.
#[inline]
pub fn timestamps(bytes: &[u8]) -> Option<(u32, u32)> {
    // The form of nearly all segments (RFC 7323, appendix A).
    if let [1, 1, 8, 10, v0, v1, v2, v3, e0, e1, e2, e3, ..] = *bytes {
        return Some((u32::from_be_bytes([v0, v1, v2, v3]), u32::from_be_bytes([e0, e1, e2, e3])));
    }
    options(bytes).find_map(|option| match option {
        TcpOption::Timestamps { value, echo } => Some((value, echo)),
        _ => None,
    })
}

/// The options without the time stamps that they begin with.
#[inline]
pub(crate) fn behind_timestamps(bytes: &[u8]) -> &[u8] {
    match bytes {
        [1, 1, 8, 10, _, _, _, _, _, _, _, _, rest @ ..] => rest,
        _ => bytes,
    }
}

/// NOPs between and behind the options. Four where a peer sends an option of four bytes: a middlebox erased it.
pub fn nop_count(bytes: &[u8]) -> usize {
    let mut options = Options { rest: bytes, nops: 0 };
    while options.next().is_some() {}
    options.nops
}

struct Options<'a> {
    rest: &'a [u8],
    nops: usize,
}

impl<'a> Iterator for Options<'a> {
    type Item = TcpOption<'a>;

    #[inline]
    fn next(&mut self) -> Option<TcpOption<'a>> {
        loop {
            match self.rest {
                [1, rest @ ..] => {
                    self.nops += 1;
                    self.rest = rest;
                }
                [kind @ 2..=255, length @ 2..=255, ..] => {
                    let Some((option, rest)) = self.rest.split_at_checked(usize::from(*length)) else {
                        self.rest = &[];
                        return None;
                    };
                    self.rest = rest;
                    return Some(parse(*kind, option));
                }
                _ => {
                    self.rest = &[];
                    return None;
                }
            }
        }
    }
}

#[inline]
fn parse(kind: u8, bytes: &[u8]) -> TcpOption<'_> {
    match *bytes {
        [2, 4, high, low] => TcpOption::Mss(u16::from_be_bytes([high, low])),
        [3, 3, shift] => TcpOption::WindowScale(shift),
        [4, 2] => TcpOption::SackPermitted,
        [5, _, ref blocks @ ..] if !blocks.is_empty() && blocks.len() % 8 == 0 => {
            TcpOption::Sack(SackBlocks(blocks))
        }
        [8, 10, ref values @ ..] => timestamps_option(values).unwrap_or(TcpOption::Other { kind, bytes }),
        [30, _, _, ..] => TcpOption::Mptcp(bytes),
        _ => TcpOption::Other { kind, bytes },
    }
}

#[inline]
fn timestamps_option(bytes: &[u8]) -> Option<TcpOption<'_>> {
    let (value, echo) = bytes.split_first_chunk()?;
    let echo = echo.first_chunk()?;
    Some(TcpOption::Timestamps { value: u32::from_be_bytes(*value), echo: u32::from_be_bytes(*echo) })
}
