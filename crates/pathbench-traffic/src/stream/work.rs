//! The work of one stream at one end: the pure core of its pattern behind a lock.

use super::datagram_work::DatagramWork;
use super::load_work::LoadWork;
use super::plan::TestPlan;
use crate::content::{Content, ContentKind};
use crate::messages::{InteractiveCore, MessageResponder, PingCore, ResponderPlan};
use crate::meter::Meter;
use crate::responsiveness::{LoadCore, LoadPlan};
use crate::throughput::{ReceiveCore, SendCore, SendPlan};
use pathbench_record::datagram::DatagramLog;
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::Direction;
use pathbench_record::end::MessageRecord;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::response::ResponseRecord;
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use pathbench_transport::lock;
use std::sync::Mutex;
use std::time::Duration;

pub(crate) enum Work {
    Transfer { sending: Option<Box<Mutex<SendCore>>>, receiving: Option<Box<Mutex<ReceiveCore>>> },
    Ping(Mutex<PingCore>),
    Interactive(Mutex<InteractiveCore>),
    Load(Box<LoadWork>),
    Respond(Mutex<MessageResponder>),
    Datagrams(Box<DatagramWork>),
}

impl Work {
    pub(super) fn new(plan: &TestPlan, stream: u32) -> Self {
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
            PatternParameters::Responsiveness(parameters) => {
                let load = LoadPlan {
                    side: plan.side,
                    test,
                    stream,
                    parameters: parameters.clone(),
                    block_bytes: plan.block_bytes(parameters.block_bytes, parameters.streams),
                    ceiling_bytes: plan.ceiling_bytes,
                    patience,
                };
                Self::Load(Box::new(LoadWork::new(LoadCore::new(load, origin))))
            }
            PatternParameters::Datagrams(datagrams) => {
                Self::Datagrams(Box::new(DatagramWork::new(plan, datagrams)))
            }
            parameters => match ResponderPlan::new(parameters, test, stream) {
                Some(respond) => Self::Respond(Mutex::new(MessageResponder::new(respond, origin, patience))),
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
                largest_frame_bytes: plan.largest_frame_bytes(&transfer),
            };
            Box::new(Mutex::new(SendCore::new(send, plan.started)))
        });
        let receiving = plan.parameters.transfer_of(plan.receives_as()).map(|transfer| {
            let content = content(plan, stream, plan.receives_as());
            let core = if transfer.skip_receive_copy {
                ReceiveCore::with_discard(plan.started, plan.patience, plan.ceiling_bytes)
            } else {
                ReceiveCore::new(plan.started, plan.patience, plan.ceiling_bytes, content)
            };
            Box::new(Mutex::new(core))
        });
        Self::Transfer { sending, receiving }
    }

    pub(super) fn datagram_log(&self) -> Option<DatagramLog> {
        match self {
            Self::Datagrams(work) => Some(work.log()),
            _ => None,
        }
    }

    /// Whether this end may be in the middle of test data, so that it must not write anything else before END.
    pub(crate) fn is_sending(&self) -> bool {
        !matches!(self, Self::Transfer { sending: None, .. })
    }

    fn meters(&self, mut visit: impl FnMut(&Meter)) {
        match self {
            Self::Transfer { sending, receiving } => {
                if let Some(core) = sending {
                    visit(&lock(core).meter);
                }
                if let Some(core) = receiving {
                    visit(&lock(core).meter);
                }
            }
            Self::Load(load) => {
                let core = lock(&load.core);
                visit(&core.sending);
                visit(&core.receiving.meter);
            }
            Self::Ping(core) => visit(&lock(core).meter),
            Self::Interactive(core) => visit(&lock(core).meter),
            Self::Respond(core) => visit(&lock(core).meter),
            Self::Datagrams(work) => {
                if let Some(core) = &work.sender {
                    visit(&lock(core).meter);
                }
                if let Some(core) = &work.receiver {
                    visit(&lock(core).meter);
                }
            }
        }
    }

    pub(crate) fn progress(&self) -> (u64, u64) {
        let (mut sent, mut received) = (0, 0);
        self.meters(|meter| {
            sent += meter.sent_bytes;
            received += meter.received_bytes;
        });
        (sent, received)
    }

    /// Appends the delays (ping: round-trip times) of the messages after the first `reported`, and counts these.
    /// Returns when the oldest message without an acknowledgement was due.
    pub(crate) fn delays_since(
        &self,
        reported: &mut u32,
        now: Timestamp,
        delays: &mut Vec<Duration>,
    ) -> Option<Timestamp> {
        let (messages, is_ping) = match self {
            Self::Interactive(core) => (lock(core).messages_from(*reported, now), false),
            Self::Ping(core) => (lock(core).messages_from(*reported), true),
            Self::Transfer { .. } | Self::Load(_) | Self::Respond(_) | Self::Datagrams(_) => return None,
        };
        for (index, message) in messages.iter().enumerate() {
            let is_last = index + 1 == messages.len();
            match if is_ping { message.round_trip() } else { message.delay() } {
                Some(delay) => delays.push(delay),
                // Requests of ping follow each other, so that only the last one waits; the others are lost.
                None if is_ping && !is_last => {}
                None => return Some(message.due),
            }
            *reported += 1;
        }
        None
    }

    pub(super) fn last_progress(&self) -> Option<Timestamp> {
        let mut last = None;
        self.meters(|meter| last = last.max(meter.last_progress));
        last
    }

    /// The series of offered and delivered bytes. In a transfer, each core has one of the two.
    pub(super) fn series(&self, origin: Timestamp) -> [DeliverySeries; 2] {
        let mut series = [DeliverySeries::starting_at(origin), DeliverySeries::starting_at(origin)];
        self.meters(|meter| {
            for (series, part) in series.iter_mut().zip([&meter.offered, &meter.deliveries]) {
                if part.first.is_some() {
                    series.clone_from(part);
                }
            }
        });
        series
    }

    pub(super) fn messages(&self, now: Timestamp) -> Vec<MessageRecord> {
        match self {
            Self::Transfer { .. } | Self::Load(_) | Self::Respond(_) | Self::Datagrams(_) => Vec::new(),
            Self::Ping(core) => lock(core).messages(),
            Self::Interactive(core) => lock(core).messages(now),
        }
    }
}

impl Work {
    /// The probes of a client's `responsiveness` test, from its first stream.
    pub(super) fn response(&self) -> Option<ResponseRecord> {
        match self {
            Self::Load(load) => lock(&load.core).response(),
            _ => None,
        }
    }
}

/// The direction of the requests on a stream of the interactive pattern: the client's on the first, the server's on the
/// second.
const fn flow(stream: u32) -> Direction {
    if stream == 0 { Direction::Upload } else { Direction::Download }
}

pub(super) fn content(plan: &TestPlan, stream: u32, direction: Direction) -> Option<Content> {
    let kind = match direction {
        Direction::Upload => ContentKind::Upload,
        Direction::Download => ContentKind::Download,
    };
    matches!(plan.parameters, PatternParameters::Bulk(_)).then(|| Content::new(plan.test, stream, kind))
}
