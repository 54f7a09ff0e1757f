//! Loads of state into the processor's cache before its use.
//!
//! The state of thousands of flows does not fit into the cache. A segment needs some twenty lines of it, one after the
//! other; loaded for all packets of a batch at once, they wait for memory at the same time.

use super::connection::{Connection, MptcpConnection, MptcpSubflow, Subflow};
use crate::mptcp::data::DataLevelDirection;
use crate::packet::{PacketHeaders, Tcp, TransportHeader};
use crate::tcp::FlowDirection;
use std::hint::black_box;

impl Subflow {
    #[inline]
    pub(super) fn touch(&self) {
        self.flow.directions.iter().for_each(FlowDirection::touch);
        black_box((self.flow.ends[0].port, self.flow.last_ns, self.connection, self.plain_bytes[0]));
        black_box((self.mptcp.is_some(), self.flow.end));
    }

    /// The lines that depend on what the packet is.
    #[inline]
    pub(super) fn touch_directions(&self, packet: &PacketHeaders<'_>) {
        let TransportHeader::Tcp(tcp) = &packet.transport else { return };
        let side = self.flow.side(packet.source);
        let has_payload = tcp.payload_length > 0;
        self.flow.directions[side].touch_sender(has_payload);
        if !has_payload {
            self.flow.directions[1 - side].touch_acknowledged();
        }
    }

    #[inline]
    pub(super) fn touch_references(&self, packet: &PacketHeaders<'_>) {
        if let TransportHeader::Tcp(Tcp { payload_length: 1.., .. }) = packet.transport {
            self.flow.directions[self.flow.side(packet.source)].touch_references();
        }
        if let Some(mptcp) = &self.mptcp {
            mptcp.touch();
        }
    }
}

impl FlowDirection {
    #[inline]
    fn touch_references(&self) {
        self.throughput.touch();
        self.goodput.touch();
    }
}

impl MptcpSubflow {
    #[inline]
    fn touch(&self) {
        black_box((self.dss_captured, self.reinjected_bytes));
        self.mappings.iter().for_each(crate::mptcp::mapping::Mappings::touch);
    }
}

impl Connection {
    #[inline]
    pub(super) fn touch(&self) {
        black_box((self.first_ns, self.last_ns, self.fallback.is_some(), self.mptcp.is_some()));
    }

    #[inline]
    pub(super) fn touch_data(&self) {
        if let Some(mptcp) = &self.mptcp {
            mptcp.touch();
        }
    }

    #[inline]
    pub(super) fn touch_references(&self) {
        if let Some(mptcp) = &self.mptcp {
            mptcp.data.iter().for_each(DataLevelDirection::touch_references);
        }
    }
}

impl MptcpConnection {
    #[inline]
    fn touch(&self) {
        black_box(self.checksum);
        self.data.iter().for_each(DataLevelDirection::touch);
    }
}
