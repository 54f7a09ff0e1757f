//! What one stream has to do at one end: the pure core of its pattern behind a lock.

use super::{MAX_SERVER_BLOCKS_BYTES, TestPlan, lock};
use crate::content::{Content, Lane};
use crate::messages::{InteractiveCore, PingCore, Responder, ResponderPlan, Series};
use crate::protocol::HEADER_BYTES;
use crate::throughput::{ReceiveCore, SendCore, SendPlan, payload_bytes_per_block};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::Direction;
use pathbench_record::end::MessageRecord;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use std::sync::Mutex;

pub(super) enum Work {
    Transfer { sending: Option<Mutex<SendCore>>, receiving: Option<Mutex<ReceiveCore>> },
    Ping(Mutex<PingCore>),
    Interactive(Mutex<InteractiveCore>),
    Respond(Mutex<Responder>),
}

impl Work {
    pub(super) fn of(plan: &TestPlan, stream: u32) -> Self {
        let (test, origin, patience) = (plan.test, plan.started, plan.patience);
        match &plan.parameters {
            PatternParameters::Ping(ping) if plan.side == Side::Client => {
                Self::Ping(Mutex::new(PingCore::new(ping.clone(), test, origin, patience)))
            }
            PatternParameters::Interactive(interactive) if flow(stream) == plan.sends_as() => {
                let (flow, interactive) = (flow(stream), interactive.clone());
                let core = InteractiveCore::new(flow, interactive, test, stream, origin, patience);
                Self::Interactive(Mutex::new(core))
            }
            parameters => match ResponderPlan::of(parameters, test, stream) {
                Some(respond) => Self::Respond(Mutex::new(Responder::new(respond, origin, patience))),
                None => Self::transfer(plan, stream),
            },
        }
    }

    fn transfer(plan: &TestPlan, stream: u32) -> Self {
        let sending = plan.parameters.transfer_of(plan.sends_as()).map(|transfer| {
            let send = SendPlan {
                amount: transfer.stream_amount(stream),
                omit: transfer.omit,
                rate_bps: transfer.stream_rate_bps(),
                block_bytes: plan.block_bytes(transfer.block_bytes, transfer.streams),
                ceiling_bytes: plan.ceiling_bytes,
                patience: plan.patience,
            };
            Mutex::new(SendCore::new(send, plan.started))
        });
        let receiving = plan.parameters.transfer_of(plan.receives_as()).map(|_| {
            let core = ReceiveCore::new(plan.started, plan.patience, plan.ceiling_bytes);
            Mutex::new(match content(plan, stream, plan.receives_as()) {
                Some(content) => core.verifying(content),
                None => core,
            })
        });
        Self::Transfer { sending, receiving }
    }

    /// Whether this end may be in the middle of a frame, so that nothing else may be written.
    pub(super) fn is_sending(&self) -> bool {
        !matches!(self, Self::Transfer { sending: None, .. })
    }

    pub(super) fn progress(&self) -> (u64, u64) {
        match self {
            Self::Transfer { sending, receiving } => (
                sending.as_ref().map_or(0, |core| lock(core).accepted_bytes()),
                receiving.as_ref().map_or(0, |core| lock(core).received_bytes()),
            ),
            Self::Ping(core) => lock(core).series().total_bytes(),
            Self::Interactive(core) => lock(core).series().total_bytes(),
            Self::Respond(core) => lock(core).series().total_bytes(),
        }
    }

    pub(super) fn last_progress(&self) -> Option<Timestamp> {
        match self {
            Self::Transfer { sending, receiving } => {
                let sent = sending.as_ref().and_then(|core| lock(core).last_progress());
                let received = receiving.as_ref().and_then(|core| lock(core).last_progress());
                sent.max(received)
            }
            Self::Ping(core) => lock(core).last_progress(),
            Self::Interactive(core) => lock(core).last_progress(),
            Self::Respond(core) => lock(core).last_progress(),
        }
    }

    pub(super) fn series(&self, origin: Timestamp) -> Series {
        let none = || DeliverySeries::starting_at(origin);
        match self {
            Self::Transfer { sending, receiving } => Series {
                offered: sending.as_ref().map_or_else(none, |core| lock(core).offered().clone()),
                deliveries: receiving.as_ref().map_or_else(none, |core| lock(core).deliveries().clone()),
            },
            Self::Ping(core) => lock(core).series().clone(),
            Self::Interactive(core) => lock(core).series().clone(),
            Self::Respond(core) => lock(core).series().clone(),
        }
    }

    pub(super) fn messages(&self, now: Timestamp) -> Vec<MessageRecord> {
        match self {
            Self::Transfer { .. } | Self::Respond(_) => Vec::new(),
            Self::Ping(core) => lock(core).messages(),
            Self::Interactive(core) => lock(core).messages(now),
        }
    }
}

impl TestPlan {
    /// Where this end bounds the rate, blocks are small enough for the last ones not to outlast the test. A server bounds
    /// the memory of all blocks of a test.
    fn block_bytes(&self, asked: u32, streams: u32) -> u32 {
        let most = match self.side {
            Side::Client => asked,
            Side::Server => MAX_SERVER_BLOCKS_BYTES / streams.max(1),
        };
        let asked = asked.min(most);
        let share = self.pacers.as_ref().map(|pacers| pacers.rate_bps() / u64::from(streams.max(1)));
        payload_bytes_per_block(asked, share) as u32 + HEADER_BYTES as u32
    }

    pub(super) const fn sends_as(&self) -> Direction {
        match self.side {
            Side::Client => Direction::Upload,
            Side::Server => Direction::Download,
        }
    }

    const fn receives_as(&self) -> Direction {
        match self.side {
            Side::Client => Direction::Download,
            Side::Server => Direction::Upload,
        }
    }
}

/// Who asks on a stream of the interactive pattern: the client on the first, the server on the second.
const fn flow(stream: u32) -> Direction {
    if stream == 0 { Direction::Upload } else { Direction::Download }
}

pub(super) fn content(plan: &TestPlan, stream: u32, direction: Direction) -> Option<Content> {
    let lane = match direction {
        Direction::Upload => Lane::Upload,
        Direction::Download => Lane::Download,
    };
    matches!(plan.parameters, PatternParameters::Bulk(_)).then(|| Content::of(plan.test, stream, lane))
}
