//! The kernel's counters, and the paths to which their rise belongs.
//!
//! Counters count all connections of a network namespace. A path has counters only where the kernel's list of sockets shows a
//! subflow with its address in the time of the probe, and where no other connection raised them.

use super::counters::{End, JoinAttempt, PathCounters, Unattributed};
use super::facts::{MptcpProbe, PathProbe, ServerFacts, Subflow, Transfer};
use pathbench_record::sample::PathState;
use pathbench_record::stage::{
    HandshakeCounters, HandshakeState, SubflowEvidence, SubflowOpening, SubflowStage,
};
use std::net::SocketAddr;

/// The joins from the addresses of a path during a transfer.
#[derive(Debug)]
pub struct Joins<'a> {
    pub subflows: Vec<&'a Subflow>,
    pub attempts: Vec<&'a JoinAttempt>,
    others: Others,
    probe: &'a MptcpProbe,
}

#[derive(Debug, Clone, Copy)]
struct Others {
    established: u64,
    failed: u64,
}

fn count(subflows: &[&Subflow], attempts: &[&JoinAttempt]) -> u64 {
    // The kernel reports the end of a subflow that the samples contain as well.
    let ended = subflows.iter().filter(|subflow| subflow.state != PathState::Open).count();
    let open = subflows.len() - ended;
    (open + ended.max(attempts.len())) as u64
}

impl<'a> Joins<'a> {
    /// The joins of `path`, which is not the initial path of `transfer`.
    pub fn find(facts: &ServerFacts, transfer: &'a Transfer, path: &PathProbe) -> Result<Self, Unattributed> {
        let (subflows, attempts) = joins_of(&transfer.probe, path);
        if subflows.is_empty() && attempts.is_empty() {
            return Err(Unattributed::NoSubflow);
        }
        let mut others = Others { established: 0, failed: 0 };
        for (index, other) in facts.paths.iter().enumerate() {
            if index == transfer.initial || other.name == path.name {
                continue;
            }
            let (subflows, attempts) = joins_of(&transfer.probe, other);
            let open = subflows.iter().filter(|subflow| subflow.state == PathState::Open).count() as u64;
            others.established += open;
            others.failed += count(&subflows, &attempts) - open;
        }
        Ok(Self { subflows, attempts, others, probe: &transfer.probe })
    }

    pub fn is_open(&self) -> bool {
        self.subflows.iter().any(|subflow| subflow.state == PathState::Open)
    }

    /// The addresses to which the joins went.
    pub fn remotes(&self) -> impl Iterator<Item = SocketAddr> {
        let subflows = self.subflows.iter().map(|subflow| subflow.remote);
        subflows.chain(self.attempts.iter().map(|attempt| attempt.remote))
    }

    /// The farthest stage that sockets and counters show; `None` where the counters rose for some of several joins.
    pub fn stage(&self, counters: &PathCounters<'_>) -> Option<SubflowStage> {
        let rose = |name| counters.rose(End::Client, name).map(u64::from);
        let is_opening = self.subflows.iter().any(|subflow| subflow.state == PathState::Opening);
        let evidence = SubflowEvidence {
            opening: SubflowOpening::Join,
            state: if is_opening { HandshakeState::SynSent } else { HandshakeState::Unseen },
            packets_received: self.attempts.iter().map(|attempt| attempt.packets_received).max().unwrap_or(0),
            counters: HandshakeCounters {
                syn_sent: rose("MPJoinSynTx")?,
                syn_ack_received: rose("MPJoinSynAckRx")?,
                reset_sent: rose("MPRstTx")?,
                reset_received: rose("MPRstRx")?,
                ..HandshakeCounters::default()
            },
            ..SubflowEvidence::default()
        };
        evidence.stage()
    }

    pub fn counters(&self) -> Result<PathCounters<'a>, Unattributed> {
        let own = count(&self.subflows, &self.attempts);
        let known = own + self.others.established + self.others.failed;
        let counters = &self.probe.counters;
        let sent = counters.client.rise("MPJoinSynTx");
        if sent > known {
            return Err(Unattributed::OtherTraffic(format!(
                "this network namespace sent {sent} joins meanwhile (MPJoinSynTx), and {known} of them were this test's"
            )));
        }
        Ok(PathCounters {
            counters,
            others: self.others.established,
            failed: own.max(1) + self.others.failed,
        })
    }
}

fn joins_of<'a>(probe: &'a MptcpProbe, path: &PathProbe) -> (Vec<&'a Subflow>, Vec<&'a JoinAttempt>) {
    let subflows = probe.subflows.iter().filter(|one| path.has_address(one.local.ip()));
    let attempts = probe.attempts.iter().filter(|one| path.has_address(one.local));
    (subflows.collect(), attempts.collect())
}
