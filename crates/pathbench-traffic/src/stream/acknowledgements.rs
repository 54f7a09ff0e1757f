//! Whether the peer's kernel still acknowledges what was sent, by this kernel's word.

use pathbench_transport::{Connection, Telemetry};

pub(crate) struct Acknowledgements {
    telemetry: Option<Telemetry>,
    acknowledged: u64,
}

impl Acknowledgements {
    /// Watches `connection` from now on. Where the kernel tells nothing, nothing counts as acknowledged.
    pub(crate) fn of(connection: &Connection) -> Self {
        let mut watch = Self { telemetry: connection.telemetry().ok(), acknowledged: 0 };
        watch.advanced();
        watch
    }

    pub(crate) fn advanced(&mut self) -> bool {
        let Some(Ok(snapshot)) = self.telemetry.as_mut().map(Telemetry::snapshot) else { return false };
        let acknowledged: u64 = snapshot.subflows.iter().map(|path| path.bytes_acked).sum();
        let advanced = acknowledged > self.acknowledged;
        self.acknowledged = acknowledged.max(self.acknowledged);
        advanced
    }
}
