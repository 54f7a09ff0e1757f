//! Limits that both ends keep: an agent sends nothing beyond them, a collector rejects everything beyond them.

/// The raw part of a result, a `.tar.zst` file, before base64. A result with more is submitted without its raw part.
pub const RAW_BYTES: usize = 8 << 20;

/// One line of a batch: a raw part in base64 and a summary.
pub const LINE_BYTES: usize = RAW_BYTES.div_ceil(3) * 4 + SUMMARY_BYTES + 1024;

/// The summary of a submission, as JSON.
pub const SUMMARY_BYTES: usize = 64 << 10;

/// The body of a batch, after decompression.
pub const BATCH_BYTES: usize = 16 << 20;

/// Lines of a batch.
pub const BATCH_LINES: usize = 1_000;

/// Bytes of a name: a scenario, an operator, an experiment, a path.
pub const NAME_BYTES: usize = 64;

/// Groups of runs in a summary.
pub const GROUPS: usize = 128;

/// Other lists of a summary: networks, handovers, reachability, pairs.
pub const ITEMS: usize = 64;

/// Figures of a group, and paths of its shares.
pub const FIGURES: usize = 32;

/// The largest figure in any unit; larger ones are not measurements.
pub const LARGEST_FIGURE: f64 = 1e12;

/// Any other JSON body: check-in, live report, experiment.
pub const BODY_BYTES: usize = 64 << 10;

/// The earliest time of a result: 2020-01-01, in milliseconds of Unix time.
pub const EARLIEST_MS: u64 = 1_577_836_800_000;
