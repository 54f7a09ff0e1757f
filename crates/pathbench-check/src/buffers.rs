//! The limits of TCP's automatic buffers as facts of a host.

use crate::facts::HostFacts;
use pathbench_record::resource::{BufferLimits, RECEIVE_BUFFERS, SEND_BUFFERS};
use pathbench_record::text::{plain, scaled};

/// `None` if they could not be read.
pub fn buffer_limits(facts: &HostFacts) -> Option<BufferLimits> {
    BufferLimits::parse(facts.setting(RECEIVE_BUFFERS)?, facts.setting(SEND_BUFFERS)?)
}

pub(crate) fn in_bytes(bytes: u64) -> String {
    plain(&scaled(bytes as f64, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB")]))
}

pub(crate) fn rate(bps: u64) -> String {
    plain(&scaled(bps as f64, &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")]))
}
