//! The limits of a run's rate, from the samples and records of both ends (docs/metrics.md, "Limits").
//!
//! Pure. A limit that the records do not decide is left out.

mod application;
mod buffer;
mod connection;
mod delivery;
mod flow_control;
mod input;
mod order;
mod processor;
mod qdisc;
mod shared;
mod subflow;
mod unexamined;

pub use input::{LimitInput, PathShaper, RequestedBuffers};
pub use order::{NAMED_SHARE, in_order};
pub use shared::name_shared_bottlenecks;

use input::receiving_side;
use pathbench_record::document::{LimitRecord, UnexaminedLimit};
use pathbench_record::transport::Transport;
use subflow::{Subflow, subflows};

/// Part of the bytes from which a subflow's waits count.
const LEAST_BYTES_SHARE: f64 = 0.02;
/// Fraction of the time in which the congestion window of each path is full, where the links carry no more.
const LINKS_FULL: f64 = 0.8;

/// The limits in one direction: those that explain the rate first, by share; then the congestion window; then the others.
pub fn limits(input: &LimitInput<'_>) -> Vec<LimitRecord> {
    let sent = subflows(input, input.sending_side);
    let received = subflows(input, receiving_side(input));
    let total: f64 = sent.iter().map(|one| one.bytes_sent).sum();
    let busy: Vec<&Subflow<'_>> =
        sent.iter().filter(|one| one.bytes_sent > LEAST_BYTES_SHARE * total).collect();
    let are_links_full = !busy.is_empty() && busy.iter().all(|one| one.by_links() >= LINKS_FULL);
    let mut found = vec![application::limit(input, are_links_full)];
    // The kernel sends and receives for tcp and mptcp, and keeps their congestion windows full without a CPU's limit.
    if !(input.transport.is_quic() && are_links_full) {
        found.extend(processor::limits(input).map(Some));
    }
    found.extend(qdisc::limits(input, &busy).map(Some));
    found.push(delivery::head_of_line(input, &received));
    if input.transport == Transport::Mptcp {
        found.push(connection::limit(input, &busy, &sent, &received));
    } else if input.transport == Transport::Tcp {
        found.extend(subflow::limits(input, &busy).into_iter().map(Some));
    } else if input.transport.is_quic()
        && !found.iter().flatten().any(|one| one.kind.is_cpu())
        && !processor::is_undecided(input)
    {
        // A receiver without CPU time does not read, and its windows stay full.
        found.extend(flow_control::limits(input, &busy).map(Some));
    }
    found.extend(subflow::congestion_windows(input, &busy).map(Some));
    in_order(found.into_iter().flatten().collect())
}

/// The limits in one direction that the records do not decide.
pub fn unexamined(input: &LimitInput<'_>) -> Vec<UnexaminedLimit> {
    unexamined::limits(input, &subflows(input, input.sending_side))
}
