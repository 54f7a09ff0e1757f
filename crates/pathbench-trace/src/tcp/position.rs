//! Sequence numbers as positions that do not wrap.

/// The 64-bit position nearest to `near` whose low 32 bits are `low`: sequence numbers wrap (RFC 9293, section 3.4).
///
/// ```rust
/// use pathbench_trace::tcp::nearest_position;
///
/// assert_eq!(nearest_position(5, 0xffff_fff0), 0x1_0000_0005);
/// assert_eq!(nearest_position(0xffff_fff0, 0x1_0000_0005), 0xffff_fff0);
/// ```
#[inline]
pub fn nearest_position(low: u32, near: u64) -> u64 {
    let distance = low.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(distance.into())
}
