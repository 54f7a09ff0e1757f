//! The records of a run, resolved once: its ends, the sender and the receiver of each direction, the names of its paths,
//! and the zero of its clock.

use super::evidence::{Evidence, sending_side};
use super::path_names::PathNames;
use pathbench_record::direction::Direction;
use pathbench_record::end::EndRecord;
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;

pub(super) struct ResolvedRun<'a> {
    pub(super) evidence: &'a Evidence<'a>,
    pub(super) names: PathNames,
    /// Zero of the run's clock.
    pub(super) origin: Timestamp,
    /// The available records with their hosts, the client's first.
    pub(super) ends: Vec<(&'a EndRecord, &'a str)>,
    /// The directions in which the application sends.
    pub(super) flows: Vec<ResolvedFlow<'a>>,
}

/// One direction of a run's data; an end without a record is absent.
pub(super) struct ResolvedFlow<'a> {
    pub(super) direction: Direction,
    pub(super) sending_side: Side,
    pub(super) sender: Option<&'a EndRecord>,
    pub(super) receiver: Option<&'a EndRecord>,
}

impl<'a> ResolvedRun<'a> {
    pub(super) fn new(evidence: &'a Evidence<'a>, origin: Timestamp) -> Self {
        let setting = evidence.setting;
        let host = |end: &EndRecord| match end.side {
            Side::Client => setting.client.as_str(),
            Side::Server => setting.server.as_str(),
        };
        let flow = |&direction: &Direction| ResolvedFlow {
            direction,
            sending_side: sending_side(direction),
            sender: evidence.sender(direction),
            receiver: evidence.receiver(direction),
        };
        Self {
            evidence,
            names: PathNames::new(evidence),
            origin,
            ends: evidence.ends().map(|end| (end, host(end))).collect(),
            flows: evidence.directions().iter().map(flow).collect(),
        }
    }
}
