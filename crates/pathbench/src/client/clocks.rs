//! How far the clocks of both ends are apart.

use super::{Client, Target};
use pathbench_lab::assembly::ClockOffset;
use pathbench_record::transport::Transport;
use pathbench_traffic::iperf::{Amount, IperfParameters, TrafficDirection};
use pathbench_traffic::record::EndRecord;
use std::time::Duration;

/// Bytes each way of the exchange that tells how far the clocks of both ends are apart.
const CLOCK_BYTES: u64 = 1000;
const CLOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Compares both clocks by a few bytes both ways over a transport that works.
pub(crate) fn compare(client: &Client, transport: Transport, target: &Target) -> Option<ClockOffset> {
    let both = IperfParameters {
        direction: TrafficDirection::Both,
        amount: Amount::Bytes(CLOCK_BYTES),
        ..IperfParameters::default()
    };
    let outcome = client.run_unwatched(transport, target, both.into(), CLOCK_TIMEOUT);
    ClockOffset::of_records(&outcome.client, outcome.server.as_ref()?)
}

/// What is known of both clocks by now.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clocks {
    offset: Option<ClockOffset>,
}

impl Clocks {
    /// As it was compared, where it could be.
    pub(crate) const fn differing_by(offset: Option<ClockOffset>) -> Self {
        Self { offset }
    }

    /// Learns from a comparison, or from the records of a test.
    pub(crate) fn learn(&mut self, of_this: Option<ClockOffset>) {
        self.offset = match (self.offset, of_this) {
            (Some(known), Some(of_this)) => Some(known.and(of_this)),
            (known, of_this) => of_this.or(known),
        };
    }

    /// The server's record with its times on the client's clock, and what a reader should know of them.
    pub(crate) fn on_clients(
        &mut self,
        client: &EndRecord,
        server: EndRecord,
    ) -> (EndRecord, Option<String>) {
        self.learn(ClockOffset::of_records(client, &server));
        let offset = self.offset.filter(|offset| offset.suits(client, &server));
        let note = match offset {
            None => Some(
                "the clocks of both ends could not be compared: the server's times are counted from the moment at \
                 which the connection was open"
                    .to_owned(),
            ),
            Some(offset) if !offset.may_be_none() => Some(format!(
                "the server's clock is another one: its times are right to ±{:.2} ms",
                offset.uncertainty().as_secs_f64() * 1e3
            )),
            Some(_) => None,
        };
        let offset = offset.unwrap_or_else(|| ClockOffset::of_starts(client, &server));
        (offset.apply(server), note)
    }
}
