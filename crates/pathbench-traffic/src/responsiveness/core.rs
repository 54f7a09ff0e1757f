//! One end of a stream: its load in the phases of its direction, and the `self` probes between the blocks of load.

use super::probes::{ProbeAnswers, ProbeRequests};
use crate::messages::MessageFault;
use crate::meter::Meter;
use crate::protocol::{ControlFrame, Decoder, EndFrame, HEADER_BYTES, data_header};
use crate::throughput::{ConsumedBytes, ReceiveCore, ReceiveFault, payload_bytes_per_block};
use pathbench_record::direction::Direction;
use pathbench_record::end::TestId;
use pathbench_record::response::{
    LAST_ANSWERS, LoadProbe, PhaseWindow, ResponseRecord, ResponsivenessParameters,
};
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct LoadPlan {
    pub side: Side,
    pub test: TestId,
    /// Stream 0 carries the probes.
    pub stream: u32,
    pub parameters: ResponsivenessParameters,
    /// Largest write of load, frame header included.
    pub block_bytes: u32,
    /// This end's own limit of the payload in each direction.
    pub ceiling_bytes: Option<u64>,
    pub patience: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadStep {
    /// Write `from..until` of the block of load with the header `header`.
    Data {
        header: [u8; HEADER_BYTES],
        from: usize,
        until: usize,
    },
    /// Write the rest of a probe or an answer.
    Frame(Vec<u8>),
    /// Nothing is due before this time, unless bytes arrive.
    WaitUntil(Timestamp),
    Finished,
}

#[derive(Debug)]
enum Role {
    Asks(ProbeRequests),
    Answers(ProbeAnswers),
    /// Load only.
    Loads,
}

/// The frame being written and the number of its bytes that the socket has accepted.
#[derive(Debug)]
enum Writing {
    Data { done: usize, length: usize },
    Frame { done: usize, bytes: Vec<u8> },
}

/// Decides what one end of a stream writes and when, and takes the received bytes.
///
/// A probe or an answer is written at the next boundary between blocks. Progress of the sending half is a byte that the
/// socket accepted, of the receiving half a received byte.
#[derive(Debug)]
pub struct LoadCore {
    plan: LoadPlan,
    windows: Vec<PhaseWindow>,
    pub payload_per_block: usize,
    role: Role,
    /// The first step: zero of the phases at this end.
    start: Option<Timestamp>,
    writing: Option<Writing>,
    begun_bytes: u64,
    cut_short: bool,
    /// Payload of the load that this end sent, and that it received. Probes and answers are not included.
    pub sending: Meter,
    pub receiving: ReceiveCore,
}

impl LoadCore {
    /// A core that has not begun; its series count from `origin`.
    pub fn new(plan: LoadPlan, origin: Timestamp) -> Self {
        let role = match plan.side {
            _ if plan.stream > 0 => Role::Loads,
            Side::Client => Role::Asks(ProbeRequests::new(plan.test, &plan.parameters)),
            Side::Server => Role::Answers(ProbeAnswers::new(plan.test, &plan.parameters)),
        };
        Self {
            windows: plan.parameters.windows(),
            payload_per_block: payload_bytes_per_block(plan.block_bytes, None),
            role,
            start: None,
            writing: None,
            begun_bytes: 0,
            cut_short: false,
            sending: Meter::new(origin, plan.patience),
            receiving: ReceiveCore::new(origin, plan.patience, plan.ceiling_bytes, None),
            plan,
        }
    }

    /// The next step at `now`. The first call starts the phases at this end.
    pub fn next(&mut self, now: Timestamp) -> Result<LoadStep, MessageFault> {
        let start = self.begin(now);
        if let Some(rest) = self.rest() {
            return Ok(rest);
        }
        if let Some(bytes) = self.due_frame(start, now)? {
            self.sending.progressed(now);
            self.writing = Some(Writing::Frame { done: 0, bytes: bytes.clone() });
            return Ok(LoadStep::Frame(bytes));
        }
        if self.is_finished(start, now) {
            return Ok(LoadStep::Finished);
        }
        if let Some(payload) = self.next_payload(now.duration_since(start)) {
            self.begun_bytes += payload as u64;
            self.sending.begin_write(now);
            self.sending.progressed(now);
            self.writing = Some(Writing::Data { done: 0, length: HEADER_BYTES + payload });
        }
        Ok(self.rest().unwrap_or_else(|| LoadStep::WaitUntil(self.due(start, now))))
    }

    /// Starts the phases at this end, if they have not begun; returns their zero.
    pub fn begin(&mut self, now: Timestamp) -> Timestamp {
        self.sending.last_progress.get_or_insert(now);
        self.receiving.meter.last_progress.get_or_insert(now);
        *self.start.get_or_insert(now)
    }

    fn rest(&self) -> Option<LoadStep> {
        Some(match self.writing.as_ref()? {
            Writing::Frame { done, bytes } => LoadStep::Frame(bytes[*done..].to_vec()),
            &Writing::Data { done, length } => {
                let header = data_header((length - HEADER_BYTES) as u32);
                LoadStep::Data { header, from: done, until: length }
            }
        })
    }

    pub fn accepted(&mut self, now: Timestamp, count: usize) {
        if count > 0 {
            self.sending.progressed(now);
        }
        let is_complete = match &mut self.writing {
            None => return,
            Some(Writing::Frame { done, bytes }) => {
                *done = (*done + count).min(bytes.len());
                *done == bytes.len()
            }
            Some(Writing::Data { done, length }) => {
                let reached = (*done + count).min(*length);
                let payload = reached.saturating_sub(HEADER_BYTES) - done.saturating_sub(HEADER_BYTES);
                self.sending.sent(now, payload as u64);
                *done = reached;
                reached == *length
            }
        };
        if is_complete {
            self.writing = None;
        }
    }

    fn due_frame(&mut self, start: Timestamp, now: Timestamp) -> Result<Option<Vec<u8>>, MessageFault> {
        match &mut self.role {
            Role::Answers(answers) => answers.answer(),
            Role::Asks(requests) if requests.due(start).is_some_and(|due| due <= now) => {
                requests.request().map(Some)
            }
            Role::Asks(_) | Role::Loads => Ok(None),
        }
    }

    /// Payload of the next block of load; `None` outside the phases of this end's direction.
    fn next_payload(&mut self, since: Duration) -> Option<usize> {
        let own = own_direction(self.plan.side);
        // A client that has ended the test reads no further load.
        self.window(own, since).filter(|_| self.receiving.end.is_none())?;
        let mut payload = self.payload_per_block as u64;
        if let Some(ceiling) = self.plan.ceiling_bytes {
            payload = payload.min(ceiling.saturating_sub(self.begun_bytes));
            self.cut_short |= payload == 0;
        }
        (payload > 0).then_some(payload as usize)
    }

    fn window(&self, direction: Direction, since: Duration) -> Option<&PhaseWindow> {
        let mut windows = self.windows.iter().filter(|window| window.phase.has_load(direction));
        windows.find(|window| (window.from..window.until).contains(&since))
    }

    fn is_finished(&self, start: Timestamp, now: Timestamp) -> bool {
        let over = start + self.plan.parameters.duration();
        match &self.role {
            Role::Asks(requests) => now >= over && (requests.are_answered() || now >= over + LAST_ANSWERS),
            Role::Answers(answers) => self.receiving.end.is_some() && answers.is_idle(),
            Role::Loads => now >= over,
        }
    }

    /// The next time at which this end has something to do without further bytes of the peer.
    fn due(&self, start: Timestamp, now: Timestamp) -> Timestamp {
        let own = own_direction(self.plan.side);
        let loads = self.windows.iter().filter(|window| window.phase.has_load(own)).map(|window| window.from);
        let over = self.plan.parameters.duration();
        let moments = loads.chain([over, over + LAST_ANSWERS]).map(|since| start + since);
        let probe = match &self.role {
            Role::Asks(requests) => requests.due(start),
            Role::Answers(_) | Role::Loads => None,
        };
        let next = moments.chain(probe).filter(|at| *at > now).min();
        next.unwrap_or_else(|| now + LAST_ANSWERS)
    }

    /// Takes received bytes up to END.
    pub fn take(
        &mut self,
        now: Timestamp,
        decoder: &mut Decoder,
        input: &[u8],
    ) -> Result<ConsumedBytes, ReceiveFault> {
        let Self { role, receiving, .. } = self;
        receiving.take_with(now, decoder, input, |frame| match (&mut *role, frame) {
            (Role::Asks(requests), ControlFrame::Answer(answer)) => Ok(requests.take(now, &answer)?),
            (Role::Answers(answers), ControlFrame::Message(request)) => Ok(answers.take(&request)?),
            (_, frame) => Err(ReceiveFault::Unexpected { kind: frame.kind() }),
        })
    }

    /// Whether this end has something to write that the peer's last bytes have caused.
    pub fn wakes_sender(&self) -> bool {
        match &self.role {
            Role::Answers(answers) => !answers.is_idle() || self.receiving.end.is_some(),
            Role::Asks(requests) => requests.are_answered(),
            Role::Loads => false,
        }
    }

    /// Body of this end's END.
    pub fn own_end(&self) -> EndFrame {
        self.sending.end(self.cut_short)
    }

    /// Time for which a frame could not be written, once it exceeds the patience.
    pub fn hung_sending(&self, now: Timestamp) -> Option<Duration> {
        self.sending.hung(now).filter(|_| self.writing.is_some())
    }

    /// Time without received bytes while the peer has something to send, once it exceeds the patience.
    pub fn hung_receiving(&self, now: Timestamp) -> Option<Duration> {
        if self.receiving.end.is_some() {
            return None;
        }
        let start = self.start?;
        let since = self.expects_since(start, now)?.max(self.receiving.meter.last_progress?);
        let silence = now.duration_since(since);
        let patience = match &self.role {
            Role::Answers(_) => {
                self.plan.patience.saturating_add(self.plan.parameters.interval + LAST_ANSWERS)
            }
            Role::Asks(_) | Role::Loads => self.plan.patience,
        };
        (silence >= patience).then_some(silence)
    }

    /// Since when bytes of the peer are due; `None` while it has nothing to send.
    fn expects_since(&self, start: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let peer = match own_direction(self.plan.side) {
            Direction::Upload => Direction::Download,
            Direction::Download => Direction::Upload,
        };
        let since = now.duration_since(start);
        let load = self.window(peer, since).map(|window| start + window.from);
        let over = start + self.plan.parameters.duration();
        let of_role = match &self.role {
            // The client sends probes all the time.
            Role::Answers(_) => Some(start),
            Role::Asks(requests) => requests.waiting_since(start),
            Role::Loads => None,
        };
        let end = (now >= over).then_some(over + LAST_ANSWERS);
        load.into_iter().chain(of_role).chain(end).min()
    }

    /// The results of the `self` probes, at the client's stream 0 after the start.
    pub fn response(&self) -> Option<ResponseRecord> {
        let (Role::Asks(requests), Some(begun)) = (&self.role, self.start) else { return None };
        let probes: Vec<LoadProbe> = requests.results(begun);
        Some(ResponseRecord { begun, probes, ..ResponseRecord::default() })
    }
}

const fn own_direction(side: Side) -> Direction {
    match side {
        Side::Client => Direction::Upload,
        Side::Server => Direction::Download,
    }
}
