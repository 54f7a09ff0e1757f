//! A rate of the application or of the server's owner that the run reached.

use super::input::{LimitInput, record};
use pathbench_record::document::{LimitKind, LimitRecord};

/// Part of a rate limit from which it counts as reached: headers and the first round trips take the rest.
const REACHED: f64 = 0.9;
/// The same part where the links are full, too.
const CLEARLY_REACHED: f64 = 0.97;

pub(super) fn limit(input: &LimitInput<'_>, are_links_full: bool) -> Option<LimitRecord> {
    let goodput = input.goodput_mbps?;
    let reached = if are_links_full { CLEARLY_REACHED } else { REACHED };
    let limits = [
        (input.rate_bps, "the pattern's rate", "raise `rate` of the pattern"),
        (input.server_rate_bps, "the server's rate limit for a client", ""),
    ];
    let (rate, name, remedy) = limits
        .into_iter()
        .filter_map(|(rate, name, remedy)| Some((rate? as f64 / 1e6, name, remedy)))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(mbps, _, _)| goodput >= reached * mbps)?;
    let because = format!("{goodput:.3} Mbit/s were delivered, and {name} is {rate:.3} Mbit/s");
    let found = record(input, LimitKind::Application, 1.0, because);
    Some(LimitRecord { remedy: (!remedy.is_empty()).then(|| remedy.to_owned()), ..found })
}
