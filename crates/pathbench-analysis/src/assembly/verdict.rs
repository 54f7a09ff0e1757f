//! What the verdict on multipath is made of.

use super::paths::AssembledPath;
use super::{Evidence, quic};
use crate::verdict::{JoinFailure, LocalSetup, PathDelivery, VerdictInput};
use pathbench_record::connection::Negotiation;
use pathbench_record::kernel_event::MptcpEventKind;
use pathbench_record::sample::Side;

impl Evidence<'_> {
    /// The connection's negotiation: the worst word of any of its streams.
    fn negotiation(&self) -> Negotiation {
        let streams = self.client.iter().flat_map(|client| &client.streams);
        let mut word = Negotiation::default();
        for stream in streams {
            match stream.multipath {
                Negotiation::FellBack { .. } => return stream.multipath,
                _ => word = stream.multipath,
            }
        }
        word
    }

    pub(super) fn connection(&self, paths: &[AssembledPath]) -> VerdictInput {
        // The client's ledger keeps closed subflows, so its length is how many there ever were.
        let streams = self.client.iter().flat_map(|client| &client.streams);
        let subflows_total = streams.map(|stream| stream.paths.len() as u32).max();
        VerdictInput {
            requested: self.label.transport.is_multipath(),
            negotiation: self.negotiation(),
            paths: paths
                .iter()
                .map(|path| PathDelivery {
                    name: path.record.name.clone(),
                    delivered_bytes: path.record.bytes_delivered,
                    last: path.last.clone(),
                })
                .collect(),
            subflows_total,
            counters: self.counters.get(&Side::Client).cloned().unwrap_or_default(),
            peer_counters: self.counters.get(&Side::Server).cloned().unwrap_or_default(),
            setup: self.setup(),
            join_failures: self.join_failures(),
            quic: quic::paths(self),
            diagnoses: Vec::new(),
        }
    }

    fn setup(&self) -> Option<LocalSetup> {
        let initial =
            self.client.as_ref().and_then(|end| end.streams.first()).map(|stream| stream.local.ip());
        self.setting.mptcp.clone().map(|setup| LocalSetup { initial, ..setup })
    }

    fn join_failures(&self) -> Vec<JoinFailure> {
        self.path_manager()
            .filter(|(node, _)| *node == self.setting.client)
            .map(|(_, event)| event)
            .filter(|event| event.kind == MptcpEventKind::SubClosed)
            .filter(|event| event.error.is_some_and(|error| error != 0) || event.reset_reason.is_some())
            .map(|event| JoinFailure {
                local: event.local.map(|address| address.ip()),
                remote: event.remote.map(|address| address.ip()),
                errno: event.error.map(i32::from),
                reset_reason: event.reset_reason,
            })
            .collect()
    }
}
