//! The inputs of the multipath verdict, the diagnoses and the handover metrics.

use super::lines;
use super::paths::AssembledPath;
use super::resolved::ResolvedRun;
use crate::diagnosis::{DiagnosisInput, diagnose};
use crate::metrics::{self, PathHistory};
use crate::mptcp_setup::LocalSetup;
use crate::verdict::{PathDelivery, QuicPaths, VerdictInput};
use pathbench_record::connection::Negotiation;
use pathbench_record::document::{HandoverRecord, PathDiagnosis};
use pathbench_record::event::{Event, EventKind};
use pathbench_record::kernel_event::MptcpEvent;
use pathbench_record::network::ClientPath;
use pathbench_record::sample::{PathFigures, Sample, Side};
use pathbench_record::stage::{SubflowEvidence, SubflowOpening, SubflowStage};
use pathbench_record::transport::Transport;

/// The first subflow of a list may be that of a fallen-back connection, which is open as well.
fn is_opened(figures: &PathFigures) -> bool {
    let evidence = SubflowEvidence::from_figures(figures, SubflowOpening::Join);
    figures.path_id.is_some() || evidence.stage().is_some_and(SubflowStage::is_opened)
}

impl ResolvedRun<'_> {
    /// The connection's negotiation: the worst result among its streams.
    fn negotiation(&self) -> Negotiation {
        let streams = self.evidence.client.iter().flat_map(|client| &client.streams);
        let mut found = Negotiation::default();
        for stream in streams {
            match stream.multipath {
                Negotiation::FellBack { .. } => return stream.multipath,
                _ => found = stream.multipath,
            }
        }
        found
    }

    pub(super) fn connection(&self, paths: &[AssembledPath]) -> VerdictInput {
        // The client's list of paths keeps closed subflows, so its length is the number of subflows ever attempted.
        let streams = || self.evidence.client.iter().flat_map(|client| &client.streams);
        let subflows_attempted = streams().map(|stream| stream.paths.len() as u32).max();
        let subflows_total = streams()
            .map(|stream| stream.paths.iter().filter(|figures| is_opened(figures)).count() as u32)
            .max();
        let delivery = |path: &AssembledPath| PathDelivery {
            name: path.record.name.clone(),
            delivered_bytes: path.record.bytes_delivered,
            last: path.last.clone(),
            stage: None,
        };
        let quic = (self.evidence.label.transport == Transport::Mpquic).then(|| QuicPaths {
            asked: self.paths_from_the_first(),
            events: self.evidence.client.as_ref().map(lines::path_events).unwrap_or_default(),
            scheduler: self.evidence.setting.scheduler.clone(),
        });
        VerdictInput {
            requested: self.evidence.label.transport.is_multipath(),
            negotiation: self.negotiation(),
            paths: paths.iter().map(delivery).collect(),
            subflows_total,
            subflows_attempted,
            unopened: None,
            causes: Vec::new(),
            counters: self.evidence.counters.get(&Side::Client).cloned().unwrap_or_default(),
            peer_counters: self.evidence.counters.get(&Side::Server).cloned().unwrap_or_default(),
            setup: self.setup(),
            join_failures: self.join_failures(),
            quic,
            opening: self.opening(),
            diagnoses: Vec::new(),
            strays: self.names.strays.clone(),
        }
    }

    fn setup(&self) -> Option<LocalSetup> {
        let initial =
            self.evidence.client.as_ref().and_then(|end| end.streams.first()).map(|stream| stream.local.ip());
        self.evidence.setting.mptcp.clone().map(|setup| LocalSetup { initial, ..setup })
    }

    fn join_failures(&self) -> Vec<MptcpEvent> {
        self.evidence
            .path_manager()
            .filter(|(node, event)| {
                *node == self.evidence.setting.client && event.kind == EventKind::SubClosed
            })
            .map(|(_, event)| event)
            .filter(|event| event.error.is_some_and(|error| error != 0) || event.reset_reason.is_some())
            .cloned()
            .collect()
    }

    /// The client's paths: the initial path first, the others in their order.
    pub(super) fn paths_from_the_first(&self) -> Vec<ClientPath> {
        let first = self.evidence.label.path.as_deref();
        let mut paths = self.evidence.setting.paths.clone();
        paths.sort_by_key(|path| first.is_some_and(|first| first != path.name));
        paths
    }

    pub(super) fn diagnoses(
        &self,
        connection: &VerdictInput,
        samples: &[Sample],
        events: &[Event],
    ) -> Vec<PathDiagnosis> {
        if self.evidence.label.transport == Transport::Udp {
            // Its samples are those of the control connection.
            return Vec::new();
        }
        let senders: Vec<Side> = self.flows.iter().map(|flow| flow.sending_side).collect();
        let mut planned = self.paths_from_the_first();
        if !self.evidence.label.transport.is_multipath() {
            planned.truncate(1);
        }
        diagnose(&DiagnosisInput {
            transport: self.evidence.label.transport,
            server: self.evidence.setting.server_address.as_deref(),
            senders: &senders,
            planned: &planned,
            samples,
            events,
            connection,
        })
    }

    /// The handover of a run over several paths, at the end that sends data: the client, except for a pure download.
    pub(super) fn handover(&self, samples: &[Sample], events: &[Event]) -> Option<HandoverRecord> {
        if !self.evidence.label.transport.is_multipath() {
            return None;
        }
        let sends = self.flows.iter().any(|flow| flow.sending_side == Side::Client);
        let side = if sends { Side::Client } else { Side::Server };
        let backups = self.evidence.setting.paths.iter().filter(|path| path.backup == Some(true));
        let backups: Vec<String> = backups.map(|path| path.name.clone()).collect();
        metrics::handover(&PathHistory { samples, events, side, backups: &backups })
    }
}
