//! A qlog file for each connection (draft-ietf-quic-qlog-main-schema, JSON text sequences).

use super::time::Epoch;
use noq_proto::{ConnectionId, QlogConfig, QlogFactory, Side};
use pathbench_record::file;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

#[derive(Debug)]
pub(crate) struct QlogDirectory {
    directory: PathBuf,
    epoch: Epoch,
}

impl QlogDirectory {
    pub(crate) fn new(directory: PathBuf, epoch: Epoch) -> Self {
        Self { directory, epoch }
    }
}

impl QlogFactory for QlogDirectory {
    /// `None` when the file cannot be created: the connection works without its log.
    fn for_connection(
        &self,
        side: Side,
        remote: SocketAddr,
        initial_dst_cid: ConnectionId,
        now: Instant,
    ) -> Option<QlogConfig> {
        let side = if side.is_client() { "client" } else { "server" };
        let path = self.directory.join(format!("{initial_dst_cid}-{side}.qlog"));
        let file = file::create_anew(&path, 0o666).ok()?;
        let mut config = QlogConfig::new(Box::new(BufWriter::new(file)));
        let nanos = self.epoch.timestamp(now).as_nanos();
        config
            .title(Some(format!("{side}, peer {remote}")))
            .description(Some(format!("time 0 is {nanos} ns of CLOCK_MONOTONIC")))
            .start_time(now);
        Some(config)
    }
}
