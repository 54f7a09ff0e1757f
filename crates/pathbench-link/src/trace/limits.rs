//! Limits of traces.

pub const MAX_BYTES: usize = 128 << 20;
/// Maximum number of lines, or of opportunities in all packet trains. In Mahimahi's format, 1 min at 1 Gbit/s takes
/// 5 million lines, and 18 min take 90 million.
pub const MAX_VALUES: usize = 20_000_000;
/// Latest time in a trace: 31 days.
pub const MAX_SECONDS: u64 = 31 * 86_400;
