//! A queueing discipline of the client that shapes a path to about the rate that it carried. It is the host's configuration:
//! the limit has no remedy.

use super::input::{LimitInput, record};
use super::subflow::Subflow;
use pathbench_record::document::{LimitKind, LimitRecord};
use pathbench_record::sample::Side;

/// Of paths that leave the client through a shaper, and carry about its rate.
pub(super) fn limits(input: &LimitInput<'_>, busy: &[&Subflow<'_>]) -> impl Iterator<Item = LimitRecord> {
    /// TCP/IPv4 headers with timestamps and Ethernet, per full segment.
    const HEADERS: f64 = 66.0;
    const NEAR: std::ops::RangeInclusive<f64> = 0.85..=1.1;
    let from_client = input.sending_side == Side::Client;
    let shapers = input.shapers.iter().filter(move |_| from_client);
    let found = shapers.filter_map(|shaper| {
        let (path, _) = input.interfaces.iter().find(|(_, interface)| **interface == shaper.interface)?;
        let carried: f64 = busy
            .iter()
            .filter(|one| one.path == path)
            .map(|one| one.bytes_sent * (1.0 + HEADERS / one.mss_bytes.max(HEADERS)) * 8e3 / one.length_ms)
            .sum();
        let part = carried / shaper.rate_bps as f64;
        let because = format!(
            "{} of the client shapes to {:.3} Mbit/s ({}), and the path carried {:.3} Mbit/s with headers",
            shaper.interface,
            shaper.rate_bps as f64 / 1e6,
            shaper.kind,
            carried / 1e6
        );
        let found = record(input, LimitKind::Qdisc, part.min(1.0), because);
        NEAR.contains(&part).then(|| LimitRecord { path: Some(path.clone()), ..found })
    });
    found.collect::<Vec<_>>().into_iter()
}
