//! The hops of the paths that lose an MPTCP option: SYNs with growing numbers of hops from raw sockets.

use super::prober::ServerProber;
use pathbench_check::server::facts::{PathProbe, ServerFacts};
use pathbench_check::server::hops::{HopTrace, PathHops};
use pathbench_check::server::lost_option;
use pathbench_host::hop_probe::{HopProbe, HopProbeError, HopProber, HopReply, HopReplyKind, SynOption};
use pathbench_program::random;
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

const MOST_HOPS: u8 = 30;
/// Hops that are probed at the same time.
const BATCH: u8 = 5;
/// Batches without any answer after which no further hop is probed.
const MOST_SILENT: u32 = 2;
/// Linux routers send six ICMP messages to a host at once, and then one per second: few SYNs, once repeated.
const ATTEMPTS: u32 = 2;
const ANSWER_TIME: Duration = Duration::from_millis(400);
/// Time limit for all paths together.
const BUDGET: Duration = Duration::from_secs(10);
/// Ports that middleboxes treat differently, beside the server's.
const OTHER_PORTS: [u16; 3] = [443, 80, 8080];

impl ServerProber<'_> {
    /// Examines the hops of each path that loses an option.
    pub(super) fn trace_hops(&self, facts: &mut ServerFacts) {
        let end = self.clock.now() + BUDGET;
        for index in 0..facts.paths.len() {
            let Some(option) = lost_option(facts, index) else { continue };
            let path = &facts.paths[index];
            self.progress.line(format_args!("{}: the hops to the server", path.name));
            let hops = match self.traces(path, option, end) {
                Ok(traces) if traces.is_empty() => PathHops::NotExamined("the time was over".to_owned()),
                Ok(traces) => PathHops::Examined(traces),
                Err(error @ HopProbeError::NotPermitted(_)) => {
                    PathHops::NotExamined(format!("{error}; run pathbench check {} as root", facts.server))
                }
                Err(error) => PathHops::NotExamined(error.to_string()),
            };
            facts.paths[index].hops = Some(hops);
        }
    }

    fn traces(
        &self,
        path: &PathProbe,
        option: SynOption,
        end: Timestamp,
    ) -> Result<Vec<HopTrace>, HopProbeError> {
        let mut traces = Vec::new();
        let plain = self.trace(path, path.server, SynOption::Plain, MOST_HOPS, end)?;
        let farthest = plain.iter().map(|reply| reply.hops).max().unwrap_or_default();
        let most = farthest.saturating_add(1).min(MOST_HOPS);
        let others = OTHER_PORTS.into_iter().filter(|port| *port != path.server.port());
        for port in std::iter::once(path.server.port()).chain(others) {
            if self.clock.now() >= end {
                break;
            }
            let server = SocketAddr::new(path.server.ip(), port);
            let with_option = self.trace(path, server, option, most, end)?;
            traces.push(HopTrace { port, option, plain: plain.clone(), with_option });
        }
        Ok(traces)
    }

    /// The answers to SYNs with 1 to `most` hops, the first of each; ends with the answer of the server.
    fn trace(
        &self,
        path: &PathProbe,
        server: SocketAddr,
        option: SynOption,
        most: u8,
        end: Timestamp,
    ) -> Result<Vec<HopReply>, HopProbeError> {
        let prober = HopProber::open(&path.interface, path.local, server.ip())?;
        let (mut sent, mut replies) = (Vec::new(), BTreeMap::new());
        let (mut from, mut silent) = (1, 0);
        while from <= most && silent < MOST_SILENT && !is_answered(&replies) && self.clock.now() < end {
            let to = from.saturating_add(BATCH - 1).min(most);
            let known = replies.len();
            for _ in 0..ATTEMPTS {
                for hops in (from..=to).filter(|hops| !replies.contains_key(hops)) {
                    let probe = probe(prober.source(), server, hops, option);
                    prober.send(&probe)?;
                    sent.push(probe);
                }
                self.collect(&prober, &sent, from..=to, &mut replies)?;
                if is_complete(&replies, from..=to) || self.clock.now() >= end {
                    break;
                }
            }
            silent = if replies.len() == known { silent + 1 } else { 0 };
            from = to + 1;
        }
        Ok(replies.into_values().collect())
    }

    /// Waits for the answers of the hops of `range`.
    fn collect(
        &self,
        prober: &HopProber,
        sent: &[HopProbe],
        range: std::ops::RangeInclusive<u8>,
        replies: &mut BTreeMap<u8, HopReply>,
    ) -> Result<(), HopProbeError> {
        let until = self.clock.now() + ANSWER_TIME;
        loop {
            let left = until.duration_since(self.clock.now());
            if left.is_zero() || is_complete(replies, range.clone()) {
                return Ok(());
            }
            for reply in prober.receive(left, sent)? {
                replies.entry(reply.hops).or_insert(reply);
            }
        }
    }
}

fn probe(source: SocketAddr, destination: SocketAddr, hops: u8, option: SynOption) -> HopProbe {
    let [s0, s1, s2, s3, i0, i1]: [u8; 6] = random::bytes();
    let (sequence, id) = (u32::from_be_bytes([s0, s1, s2, s3]), u16::from_be_bytes([i0, i1]));
    HopProbe { source, destination, hops, sequence, ip_id: id.max(1), option }
}

/// Whether every hop of `range` up to the server has answered.
fn is_complete(replies: &BTreeMap<u8, HopReply>, mut range: std::ops::RangeInclusive<u8>) -> bool {
    let server = replies.values().filter(|reply| is_final(reply)).map(|reply| reply.hops).min();
    range.all(|hops| server.is_some_and(|server| hops > server) || replies.contains_key(&hops))
}

fn is_answered(replies: &BTreeMap<u8, HopReply>) -> bool {
    replies.values().any(is_final)
}

const fn is_final(reply: &HopReply) -> bool {
    matches!(reply.kind, HopReplyKind::SynAck { .. } | HopReplyKind::Reset)
}
