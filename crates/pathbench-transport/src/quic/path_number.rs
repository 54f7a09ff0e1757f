//! Path ids as numbers.

use noq_proto::PathId;

/// The number of a path id, which the library shows as text only.
pub(crate) fn path_number(path: PathId) -> u32 {
    path.to_string().parse().unwrap_or(u32::MAX)
}
