//! The limits that the records do not decide, and the missing figures.

use super::input::{LimitInput, receiving_side};
use super::processor;
use super::subflow::Subflow;
use pathbench_record::document::{LimitKind, UnexaminedLimit};
use pathbench_record::end::EndRecord;
use pathbench_record::sample::Side;

pub(super) fn limits(input: &LimitInput<'_>, sent: &[Subflow<'_>]) -> Vec<UnexaminedLimit> {
    let mut found = Vec::new();
    let mut add = |kind, side, because: String| {
        found.push(UnexaminedLimit { direction: input.direction, kind, side, because });
    };
    let ends = [
        (LimitKind::SenderCpu, input.sending_side, input.sender),
        (LimitKind::ReceiverCpu, receiving_side(input), input.receiver),
    ];
    for (kind, side, end) in ends {
        if let Some(because) = processor(end) {
            add(kind, Some(side), because);
        }
    }
    for (kind, side) in
        [(LimitKind::ReceiveWindow, receiving_side(input)), (LimitKind::SendBuffer, input.sending_side)]
    {
        if let Some(because) = buffer(input, sent, kind) {
            add(kind, Some(side), because.to_owned());
        }
    }
    if input.sending_side == Side::Server && input.is_remote {
        add(LimitKind::Qdisc, Some(Side::Server), "the qdiscs of a server are not read".to_owned());
    }
    found
}

fn processor(end: Option<&EndRecord>) -> Option<String> {
    let Some(used) = end.and_then(|end| end.cpu) else {
        return Some("the CPU time of this end is unknown".to_owned());
    };
    processor::undecided(&used)
}

fn buffer(input: &LimitInput<'_>, sent: &[Subflow<'_>], kind: LimitKind) -> Option<&'static str> {
    if sent.is_empty() {
        return Some("too few samples of the sender");
    }
    if input.transport.is_quic() {
        let is_counted = sent
            .iter()
            .flat_map(|one| &one.samples)
            .any(|one| one.figures.receive_window_limited_us.is_some());
        if processor::is_undecided(input) {
            return Some("an end without CPU time does not read or send");
        }
        return (!is_counted).then_some("the sender does not count the time");
    }
    let end = if kind == LimitKind::ReceiveWindow { input.receiver } else { input.sender };
    let is_known = end.is_some_and(|end| end.tcp_buffers.is_some());
    (!is_known).then_some("the limits of this end's TCP buffers are unknown")
}
