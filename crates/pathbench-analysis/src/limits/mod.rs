//! The limits of a run's rate, from the samples and records of both ends (docs/metrics.md, "Limits").
//!
//! Pure. A limit that the records do not decide is left out.

mod connection;
mod delivery;
mod processor;
mod remedy;
mod shared;
mod subflow;

pub use shared::name_shared_bottlenecks;

use crate::binning::{ByteCurve, Window};
use pathbench_record::direction::Direction;
use pathbench_record::document::{LimitKind, LimitRecord};
use pathbench_record::end::EndRecord;
use pathbench_record::sample::{Sample, Side};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use std::collections::{BTreeMap, BTreeSet};
use subflow::{Subflow, subflows};

/// Fraction of the measured time from which a limit explains the rate.
pub const NAMED_SHARE: f64 = 0.3;
/// Smaller fractions are not recorded.
const LEAST_SHARE: f64 = 0.05;
/// Part of a rate limit from which it counts as reached: headers and the first round trips take the rest.
const REACHED: f64 = 0.9;
/// Part of the bytes from which a subflow's waits count.
const LEAST_BYTES_SHARE: f64 = 0.02;

/// A queueing discipline of the client that limits the rate of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shaper {
    pub interface: String,
    /// `tbf`, `htb`, …
    pub kind: String,
    pub rate_bps: u64,
}

/// One direction of a run.
#[derive(Debug, Clone, Copy)]
pub struct LimitInput<'a> {
    pub transport: Transport,
    pub direction: Direction,
    pub sending_side: Side,
    pub sender: Option<&'a EndRecord>,
    pub receiver: Option<&'a EndRecord>,
    /// The samples of both ends.
    pub samples: &'a [Sample],
    /// Zero of the samples' clock.
    pub origin: Timestamp,
    /// The measured time.
    pub window: Window,
    pub goodput_mbps: Option<f64>,
    /// The pattern's rate, of all streams together.
    pub rate_bps: Option<u64>,
    /// The server's limit for each client and direction.
    pub server_rate_bps: Option<u64>,
    /// Name of a path → its interface at the client, for its shapers.
    pub interfaces: &'a BTreeMap<String, String>,
    pub shapers: &'a [Shaper],
}

/// The limits in one direction: those that explain the rate first, by share; then the congestion window; then the others.
pub fn limits(input: &LimitInput<'_>) -> Vec<LimitRecord> {
    let sent = subflows(input, input.sending_side);
    let received = subflows(input, receiving_side(input));
    let total: f64 = sent.iter().map(|one| one.bytes_sent).sum();
    let busy: Vec<&Subflow<'_>> =
        sent.iter().filter(|one| one.bytes_sent > LEAST_BYTES_SHARE * total).collect();
    let mut found = vec![application(input)];
    found.extend(processor::limits(input).map(Some));
    found.extend(qdisc(input, &busy).map(Some));
    found.push(delivery::head_of_line(input, &received));
    if input.transport == Transport::Mptcp {
        found.push(connection::limit(input, &busy, &sent, &received));
    } else if input.transport == Transport::Tcp {
        found.extend(subflow::limits(input, &busy).into_iter().map(Some));
    }
    found.extend(congestion_windows(input, &busy).map(Some));
    in_order(found.into_iter().flatten().collect())
}

/// The limits of all directions of a run in their order, each kind of an end and path once.
pub fn in_order(mut found: Vec<LimitRecord>) -> Vec<LimitRecord> {
    found.retain(|one| one.share >= LEAST_SHARE || one.kind == LimitKind::SharedBottleneck);
    for one in &mut found {
        one.named = one.kind != LimitKind::CongestionWindow && one.share >= NAMED_SHARE;
    }
    let rank = |one: &LimitRecord| match (one.named, one.kind) {
        (true, _) => 0,
        (false, LimitKind::CongestionWindow) => 1,
        (false, _) => 2,
    };
    found.sort_by(|a, b| rank(a).cmp(&rank(b)).then(b.share.total_cmp(&a.share)).then(a.kind.cmp(&b.kind)));
    let mut known = BTreeSet::new();
    found.retain(|one| known.insert((one.kind, one.side, one.path.clone(), one.direction)));
    found
}

const fn receiving_side(input: &LimitInput<'_>) -> Side {
    match input.sending_side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}

fn record(input: &LimitInput<'_>, kind: LimitKind, share: f64, because: String) -> LimitRecord {
    let side = match kind {
        LimitKind::ReceiveWindow | LimitKind::ReceiverCpu => Some(receiving_side(input)),
        LimitKind::SendBuffer | LimitKind::Application | LimitKind::SenderCpu | LimitKind::Qdisc => {
            Some(input.sending_side)
        }
        LimitKind::CongestionWindow | LimitKind::HeadOfLine | LimitKind::SharedBottleneck => None,
    };
    LimitRecord {
        direction: input.direction,
        kind,
        side,
        path: None,
        share: share.clamp(0.0, 1.0),
        named: false,
        because,
        remedy: None,
    }
}

fn application(input: &LimitInput<'_>) -> Option<LimitRecord> {
    let goodput = input.goodput_mbps?;
    let limits = [
        (input.rate_bps, "the pattern's rate", "raise `rate` of the pattern"),
        (input.server_rate_bps, "the server's rate limit for a client", ""),
    ];
    let (rate, name, remedy) = limits
        .into_iter()
        .filter_map(|(rate, name, remedy)| Some((rate? as f64 / 1e6, name, remedy)))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(mbps, _, _)| goodput >= REACHED * mbps)?;
    let because = format!("{goodput:.3} Mbit/s were delivered, and {name} is {rate:.3} Mbit/s");
    let found = record(input, LimitKind::Application, 1.0, because);
    Some(LimitRecord { remedy: (!remedy.is_empty()).then(|| remedy.to_owned()), ..found })
}

/// Of paths that leave the client through a shaper, and carry about its rate.
fn qdisc(input: &LimitInput<'_>, busy: &[&Subflow<'_>]) -> impl Iterator<Item = LimitRecord> {
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
        let remedy = Some(format!("tc qdisc del dev {} root", shaper.interface));
        NEAR.contains(&part).then(|| LimitRecord { path: Some(path.clone()), remedy, ..found })
    });
    found.collect::<Vec<_>>().into_iter()
}

/// The normal limit: time in which the subflows' congestion windows held data back.
fn congestion_windows(input: &LimitInput<'_>, busy: &[&Subflow<'_>]) -> impl Iterator<Item = LimitRecord> {
    busy.iter().map(|one| {
        let share = one.by_links();
        let because = format!("the congestion window held data back {:.0} % of the time", share * 100.0);
        let found = record(input, LimitKind::CongestionWindow, share, because);
        LimitRecord { path: Some(one.path.to_owned()), ..found }
    })
}

/// The bytes that the application received.
fn delivered(input: &LimitInput<'_>) -> Option<ByteCurve> {
    Some(ByteCurve::from_series(&input.receiver?.deliveries))
}
