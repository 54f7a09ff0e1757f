//! What went out at one end of a dialogue and what came in.

use crate::protocol::End;
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::time::Timestamp;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Series {
    /// Those that the socket accepted, and when.
    pub offered: DeliverySeries,
    pub deliveries: DeliverySeries,
}

impl Series {
    pub(super) fn starting_at(origin: Timestamp) -> Self {
        Self { offered: DeliverySeries::starting_at(origin), deliveries: DeliverySeries::starting_at(origin) }
    }

    pub fn total_bytes(&self) -> (u64, u64) {
        (self.offered.total_bytes(), self.deliveries.total_bytes())
    }

    /// Body of the END frame: what it says of the requests that the socket took.
    pub fn end(&self) -> End {
        let elapsed = match (self.offered.first, self.offered.last) {
            (Some(first), Some(last)) => last.since(first),
            _ => Duration::ZERO,
        };
        End {
            bytes: self.offered.total_bytes(),
            elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            cut_short: false,
        }
    }
}
