//! This host's socket buffers beside the measured bandwidth-delay product of all paths to the server.

use super::facts::{PathProbe, PathRates, ServerFacts};
use crate::buffers::{in_bytes, rate};
use crate::finding::{Finding, FindingId};
use pathbench_record::resource::BufferLimits;

/// Measured rates are those of short transfers: the paths may be faster.
const MARGIN: u64 = 2;

/// `None` unless the rates of two paths were measured: a connection over one path is TCP's matter.
pub(super) fn finding(facts: &ServerFacts) -> Option<Finding> {
    let limits = facts.buffers?;
    let measured: Vec<(&PathProbe, PathRates)> =
        facts.paths.iter().filter_map(|path| Some((path, path.rates?))).collect();
    let (slow, slowest) = measured.iter().max_by(|(_, a), (_, b)| a.min_rtt_ms.total_cmp(&b.min_rtt_ms))?;
    let rtt_ms = slowest.min_rtt_ms;
    if measured.len() < 2 || rtt_ms <= 0.0 {
        return None;
    }
    let download = Direction::new(&measured, |rates| rates.download_bps, rtt_ms, limits.window_bytes());
    let upload = Direction::new(&measured, |rates| rates.upload_bps, rtt_ms, limits.send[2]);
    let id = FindingId::TcpBuffers;
    let reached = [&download, &upload].map(|direction| rate(direction.sum_bps));
    let path = &slow.name;
    let short = [
        (download, "download", "receive window", BufferLimits::receive_step as fn(&BufferLimits, u64) -> _),
        (upload, "upload", "send buffer", BufferLimits::send_step),
    ];
    let mut found = Vec::new();
    let (mut is_slower_than_one, mut steps) = (false, Vec::new());
    for (direction, name, buffer, step) in short {
        if direction.ceiling_bps >= direction.sum_bps {
            continue;
        }
        found.push(format!(
            "{name}: a {buffer} of {} at the RTT of {path}, {rtt_ms:.0} ms, is {} for all paths together, while {} \
             alone reached {}",
            in_bytes(direction.buffer_bytes),
            rate(direction.ceiling_bps),
            direction.fastest,
            rate(direction.fastest_bps)
        ));
        is_slower_than_one |= direction.ceiling_bps < direction.fastest_bps;
        steps.extend(step(&limits, direction.product(rtt_ms).saturating_mul(MARGIN)));
    }
    if found.is_empty() {
        return Some(Finding::ok(
            id,
            format!(
                "buffers hold the rates that short transfers reached (download {}, upload {} in all) at {rtt_ms:.0} ms, the RTT \
                 of {path}; faster paths need more",
                reached[0], reached[1]
            ),
        ));
    }
    let meaning = "An MPTCP connection shares one buffer among its subflows: data behind a hole of the slow path waits in it, \
                   and the fast path waits with it. The limits of the server count as well: `pathbench check` there.";
    let found = found.join("; ");
    let finding = if is_slower_than_one {
        Finding::problem(id, found, meaning)
    } else {
        Finding::advice(id, found, meaning)
    };
    Some(finding.with_steps(steps))
}

struct Direction {
    buffer_bytes: u64,
    /// Highest rate of a connection with this buffer at the largest RTT.
    ceiling_bps: u64,
    sum_bps: u64,
    /// Name and rate of the fastest path.
    fastest: String,
    fastest_bps: u64,
}

impl Direction {
    fn new(
        measured: &[(&PathProbe, PathRates)],
        of: impl Fn(&PathRates) -> u64,
        rtt_ms: f64,
        buffer_bytes: u64,
    ) -> Self {
        let fastest = measured.iter().max_by_key(|(_, rates)| of(rates));
        Self {
            buffer_bytes,
            ceiling_bps: (buffer_bytes as f64 * 8_000.0 / rtt_ms) as u64,
            sum_bps: measured.iter().map(|(_, rates)| of(rates)).fold(0, u64::saturating_add),
            fastest: fastest.map(|(path, _)| path.name.clone()).unwrap_or_default(),
            fastest_bps: fastest.map_or(0, |(_, rates)| of(rates)),
        }
    }

    fn product(&self, rtt_ms: f64) -> u64 {
        (self.sum_bps as f64 / 8_000.0 * rtt_ms) as u64
    }
}
