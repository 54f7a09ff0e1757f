//! Several changes of netfilter as one transaction (`nfnetlink_rcv_batch`, net/netfilter/nfnetlink.c): all of them are
//! made, at one moment, or none.

use super::channel::{Channel, MESSAGE_HEADER, cut_short};
use super::error::NetlinkError;
use netlink_packet_core::{DefaultNla, NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR};

// linux/netfilter/nfnetlink.h
const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
const NFNL_MSG_BATCH_END: u16 = 0x11;
/// Length of `struct nfgenmsg`.
pub(crate) const NETFILTER_HEADER: usize = 4;

/// A change that is part of a transaction.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// Completes the sentence "cannot …".
    pub(crate) request: &'static str,
    /// Subsystem and message.
    pub(crate) kind: u16,
    /// On top of `REQUEST`.
    pub(crate) flags: u16,
    /// Header and attributes.
    pub(crate) payload: Vec<u8>,
}

/// A transaction that was not made.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The change that the kernel did not like; `None` when it took none at all or is not to be talked to.
    pub(crate) place: Option<usize>,
    pub(crate) error: NetlinkError,
}

/// `struct nfgenmsg`: address family, version 0, a resource id in network byte order; then attributes.
pub(crate) fn netfilter_payload(family: u8, resource: u16, attributes: &[DefaultNla]) -> Vec<u8> {
    let [high, low] = resource.to_be_bytes();
    let mut payload = vec![family, 0, high, low];
    payload.extend(super::attribute::emitted(attributes));
    payload
}

impl Channel {
    /// Makes all `changes` of one subsystem at one moment. `request` completes the sentence "cannot …" where it is
    /// about all of them.
    pub(crate) fn transact(
        &mut self,
        request: &str,
        subsystem: u8,
        changes: &[Change],
    ) -> Result<(), Refusal> {
        let as_a_whole = |error| Refusal { place: None, error };
        let begin = self.sequence.wrapping_add(1);
        let bytes = batch(begin, subsystem, changes);
        let length = u32::try_from(changes.len()).unwrap_or(u32::MAX);
        self.sequence = begin.wrapping_add(length).wrapping_add(1);
        self.socket
            .send(&bytes, 0)
            .map_err(|source| as_a_whole(NetlinkError::Exchange { request: request.to_owned(), source }))?;
        // Refusals come in the order of the changes, that of the whole before them. What is left of them after the
        // first is passed over by the next request, whose numbers are others.
        loop {
            for message in self.receive_datagram(request).map_err(as_a_whole)? {
                let message = message.ok_or_else(|| as_a_whole(cut_short(request)))?;
                let number = message.sequence.wrapping_sub(begin);
                if message.kind != NLMSG_ERROR || number > length {
                    continue;
                }
                let place = (number as usize).checked_sub(1);
                let request =
                    place.and_then(|place| changes.get(place)).map_or(request, |change| change.request);
                message.verdict(request).map_err(|error| Refusal { place, error })?;
                if number == length {
                    return Ok(());
                }
            }
        }
    }
}

/// The changes between begin and end, numbered from `sequence` on. The last one asks for an acknowledgement, which comes
/// after the transaction was made: not every kernel acknowledges its end.
fn batch(sequence: u32, subsystem: u8, changes: &[Change]) -> Vec<u8> {
    let frame = netfilter_payload(libc::AF_UNSPEC as u8, u16::from(subsystem), &[]);
    let mut bytes = Vec::new();
    put(&mut bytes, NFNL_MSG_BATCH_BEGIN, 0, sequence, &frame);
    let mut number = sequence;
    for (place, change) in changes.iter().enumerate() {
        number = number.wrapping_add(1);
        let acknowledged = if place + 1 == changes.len() { NLM_F_ACK } else { 0 };
        put(&mut bytes, change.kind, change.flags | acknowledged, number, &change.payload);
    }
    put(&mut bytes, NFNL_MSG_BATCH_END, 0, number.wrapping_add(1), &frame);
    bytes
}

/// One message; its length is a multiple of four, as everything in it is.
fn put(bytes: &mut Vec<u8>, kind: u16, flags: u16, sequence: u32, payload: &[u8]) {
    let length = u32::try_from(MESSAGE_HEADER + payload.len()).unwrap_or(u32::MAX);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::channel::Messages;

    #[test]
    fn changes_stand_between_begin_and_end_in_their_order() {
        let change = |kind| Change { request: "try", kind, flags: 0, payload: vec![1, 0, 0, 0] };
        let bytes = batch(7, 10, &[change(0xA00), change(0xA03)]);
        let messages: Vec<_> = Messages::new(&bytes).map(Option::unwrap).collect();
        let seen: Vec<_> = messages.iter().map(|message| (message.kind, message.sequence)).collect();
        assert_eq!(seen, [(0x10, 7), (0xA00, 8), (0xA03, 9), (0x11, 10)]);
        assert_eq!(messages[0].payload, [0, 0, 0, 10], "the subsystem is in network byte order");
    }
}
