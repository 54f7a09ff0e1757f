//! The progress of a running test, from the meters and samples of its streams.

use super::observer::{PathProgress, Progress};
use crate::stream::TestStream;
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Takes the progress of the same streams again and again.
pub(super) struct ProgressMeter<'a> {
    streams: &'a [TestStream],
    first_byte: Timestamp,
    /// Number of messages of each stream whose delays are reported.
    reported: Vec<u32>,
}

/// A path's sums over its subflows.
#[derive(Default)]
struct Sums {
    acknowledged_bytes: u64,
    received_bytes: u64,
    retransmitted_bytes: u64,
    cwnd_bytes: u64,
    /// Smoothed round-trip times of the open subflows.
    rtts_ms: Vec<f64>,
}

impl<'a> ProgressMeter<'a> {
    pub(super) fn new(streams: &'a [TestStream], first_byte: Timestamp) -> Self {
        Self { streams, first_byte, reported: vec![0; streams.len()] }
    }

    pub(super) fn take(&mut self, at: Timestamp) -> Progress {
        let (mut sent_bytes, mut received_bytes) = (0, 0);
        let mut paths: BTreeMap<(IpAddr, IpAddr), Sums> = BTreeMap::new();
        let mut delays = Vec::new();
        let mut waiting_since: Option<Timestamp> = None;
        for (stream, reported) in self.streams.iter().zip(&mut self.reported) {
            let (sent, received) = stream.work.progress();
            sent_bytes += sent;
            received_bytes += received;
            let since = stream.work.delays_since(reported, at, &mut delays);
            waiting_since = [waiting_since, since].into_iter().flatten().min();
            for figures in stream.latest().into_iter().flat_map(|snapshot| snapshot.subflows) {
                paths.entry((figures.local.ip(), figures.remote.ip())).or_default().add(&figures);
            }
        }
        let paths = paths.into_iter().map(|((local, remote), sums)| sums.progress(local, remote)).collect();
        let first_byte = self.first_byte;
        Progress { at, first_byte, sent_bytes, received_bytes, paths, delays, waiting_since }
    }
}

impl Sums {
    fn add(&mut self, figures: &PathFigures) {
        self.acknowledged_bytes += figures.payload_acked();
        self.received_bytes += figures.bytes_received;
        self.retransmitted_bytes += figures.retransmitted_bytes;
        if figures.state == PathState::Open {
            self.cwnd_bytes += figures.cwnd_bytes;
            self.rtts_ms.push(figures.srtt_ms);
        }
    }

    fn progress(self, local: IpAddr, remote: IpAddr) -> PathProgress {
        let mean_ms = self.rtts_ms.iter().sum::<f64>() / self.rtts_ms.len() as f64;
        PathProgress {
            local,
            remote,
            acknowledged_bytes: self.acknowledged_bytes,
            received_bytes: self.received_bytes,
            retransmitted_bytes: self.retransmitted_bytes,
            // Not a number without an open subflow.
            rtt: Duration::try_from_secs_f64(mean_ms / 1e3).ok(),
            cwnd_bytes: self.cwnd_bytes,
        }
    }
}
