//! The limits of buffers that a measured rate and RTT need.

use pathbench_record::resource::BufferLimits;

/// Rates under a limit are lower bounds.
const MARGIN: f64 = 2.0;
/// At least so many times the present limit, because a limited connection does not show the rate of its paths.
const GROWTH: u64 = 8;

/// The bandwidth-delay product in bytes.
pub(super) fn product(rate_bps: f64, rtt_ms: f64) -> u64 {
    (MARGIN * rate_bps / 8e3 * rtt_ms) as u64
}

pub(super) fn receive(limits: BufferLimits, product: u64) -> Option<String> {
    limits.receive_step(product.max(limits.receive[2].saturating_mul(GROWTH) / 2))
}

pub(super) fn send(limits: BufferLimits, product: u64) -> Option<String> {
    limits.send_step(product.max(limits.send[2].saturating_mul(GROWTH) / 2))
}
