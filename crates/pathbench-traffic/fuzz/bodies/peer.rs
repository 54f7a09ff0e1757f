//! A hand-written other end of a connection: it continues as an honest end, or does anything else.

use super::honest::{record_by_hand, series};
use pathbench_record::direction::Direction;
use pathbench_record::end::TestId;
use pathbench_record::pattern::{Amount, InteractiveParameters, PatternParameters, PingParameters};
use pathbench_record::sample::Side;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_traffic::content::{Content, ContentKind};
use pathbench_traffic::protocol::{
    ControlFrame, DecodedEvent, Decoder, EndFrame, HelloFrame, MessageFrame, TestRequest, data_header,
};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Longest wait for something that the other end may send, and for more of it.
const WAIT: Duration = Duration::from_millis(3);
const WAIT_FOR_MORE: Duration = Duration::from_micros(300);

/// One connection.
pub(crate) struct Peer {
    stream: TcpStream,
    decoder: Decoder,
    side: Side,
    /// Begin of the script, and zero of the record's time.
    begun: Timestamp,
    test: TestId,
    index: u32,
    parameters: PatternParameters,
    sent: u64,
    received: u64,
    /// Requests made, and replies to the last of them that are still to come.
    asked: u32,
    said_end: bool,
}

impl Peer {
    pub(crate) fn new(stream: TcpStream, side: Side, begun: Timestamp) -> Self {
        let _ = stream.set_write_timeout(Some(WAIT));
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            decoder: Decoder::new(8 << 20),
            side,
            begun,
            test: TestId([0; 16]),
            index: 0,
            parameters: PatternParameters::Ping(PingParameters::default()),
            sent: 0,
            received: 0,
            asked: 0,
            said_end: false,
        }
    }

    /// Writes what fits.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn send(&mut self, frame: &ControlFrame) {
        if let Ok(bytes) = frame.encode() {
            self.raw(&bytes);
        }
    }

    pub(crate) fn hello(
        &mut self,
        test: TestId,
        index: u32,
        parameters: PatternParameters,
        patience: Duration,
    ) {
        let request = TestRequest {
            transport: Transport::Tcp,
            patience,
            parameters: parameters.clone(),
            token: None,
            sample_interval: Duration::ZERO,
        };
        (self.test, self.index, self.parameters) = (test, index, parameters);
        self.send(&ControlFrame::Hello(HelloFrame::new(test, index, request.to_json())));
    }

    /// DATA with what belongs there, or something else.
    pub(crate) fn data(&mut self, length: usize, right: bool) {
        let mut payload = vec![7; length];
        if right {
            let kind = if self.side == Side::Client { ContentKind::Upload } else { ContentKind::Download };
            Content::new(self.test, self.index, kind).fill(self.sent, &mut payload);
        }
        self.raw(&data_header(length as u32));
        self.raw(&payload);
        self.sent += length as u64;
    }

    pub(crate) fn end(&mut self, bytes: Option<u64>, cut_short: bool) {
        self.said_end = true;
        let bytes = bytes.unwrap_or(self.sent) & !(1 << 63);
        self.send(&ControlFrame::End(EndFrame { bytes, elapsed_ns: bytes, cut_short }));
    }

    pub(crate) fn done(&mut self, bytes: Option<u64>) {
        let bytes = bytes.unwrap_or(self.received) & !(1 << 63);
        self.send(&ControlFrame::Done { bytes });
    }

    /// A request, or the answer to one.
    pub(crate) fn message(&mut self, sequence: u32, is_answer: bool, right: bool) {
        let Some([request, response]) = self.message_bytes() else { return };
        let (kind, bytes) =
            if is_answer { (ContentKind::Answers, response) } else { (ContentKind::Requests, request) };
        let mut content = vec![7; (bytes as usize).saturating_sub(4)];
        if right {
            let offset = u64::from(sequence) * content.len() as u64;
            Content::new(self.test, self.index, kind).fill(offset, &mut content);
        }
        let message = MessageFrame { sequence, content };
        self.send(&if is_answer { ControlFrame::Answer(message) } else { ControlFrame::Message(message) });
        if !self.has_load() {
            self.sent += u64::from(bytes);
        }
    }

    /// Whether only load is counted, and not the probes between it.
    const fn has_load(&self) -> bool {
        matches!(self.parameters, PatternParameters::Responsiveness(_))
    }

    fn message_bytes(&self) -> Option<[u32; 2]> {
        match &self.parameters {
            PatternParameters::Ping(ping) => Some([ping.request_bytes, ping.response_bytes]),
            PatternParameters::Responsiveness(load) => Some([load.probe_bytes; 2]),
            PatternParameters::Interactive(both) => Some([both.request_bytes, both.response_bytes]),
            PatternParameters::Bulk(_)
            | PatternParameters::Throughput(_)
            | PatternParameters::Datagrams(_) => None,
        }
    }

    /// This end's record, as far as it knows.
    pub(crate) fn record(&self) -> serde_json::Value {
        let by_hand = record_by_hand(self.test, self.parameters.clone(), 0);
        let course = |bytes| if bytes > 0 { vec![(0, bytes)] } else { Vec::new() };
        let mut record = by_hand;
        record.side = self.side;
        record.started = self.begun;
        record.offered = series(self.begun, &course(self.sent));
        record.deliveries = series(self.begun, &course(self.received));
        record.completed = true;
        let stream = &mut record.streams[0];
        stream.stream = self.index;
        (stream.sent_bytes, stream.received_bytes, stream.completed) = (self.sent, self.received, true);
        serde_json::to_value(record).expect("JSON")
    }

    /// Reads the frames that arrive within a moment, and replies to up to `most` frames as an honest end does; false at the end.
    pub(crate) fn go_on(&mut self, most: usize) -> bool {
        let mut buffer = [0; 4096];
        let mut frames = 0;
        let _ = self.stream.set_read_timeout(Some(WAIT));
        while frames < most {
            let count = match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => count,
                Err(error) => {
                    return matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    );
                }
            };
            let _ = self.stream.set_read_timeout(Some(WAIT_FOR_MORE));
            let mut rest = &buffer[..count];
            while !rest.is_empty() {
                let Ok((consumed, event)) = self.decoder.decode(rest) else { return false };
                rest = &rest[consumed..];
                match event {
                    None => {}
                    Some(DecodedEvent::Payload(run)) => self.received += run as u64,
                    Some(DecodedEvent::Frame(frame)) => {
                        frames += 1;
                        self.reply(frame);
                    }
                }
            }
        }
        true
    }

    fn reply(&mut self, frame: ControlFrame) {
        let is_interactive = matches!(self.parameters, PatternParameters::Interactive(_));
        match frame {
            ControlFrame::Hello(hello) => {
                let Ok(request) = TestRequest::from_json(&hello.request) else { return };
                (self.test, self.index, self.parameters) = (hello.test, hello.stream, request.parameters);
                self.send(&ControlFrame::Accept);
            }
            ControlFrame::Accept => {
                self.send(&ControlFrame::Start);
                self.begin();
            }
            ControlFrame::Start => self.begin(),
            ControlFrame::End(_) => {
                if self.has_load() && !self.said_end {
                    self.end(None, false);
                }
                self.done(None);
                // A server that sends nothing waits for no DONE.
                if self.side == Side::Server && !self.said_end {
                    self.hand_over();
                }
            }
            ControlFrame::Done { .. } if self.side == Side::Server => self.hand_over(),
            ControlFrame::Message(message) => {
                if !self.has_load() {
                    self.received += message.content.len() as u64 + 4;
                }
                if is_interactive {
                    self.send(&ControlFrame::Acknowledge { sequence: message.sequence });
                    self.sent += 4;
                }
                self.message(message.sequence, true, true);
            }
            ControlFrame::Acknowledge { .. } => self.received += 4,
            ControlFrame::Answer(message) => {
                if !self.has_load() {
                    self.received += message.content.len() as u64 + 4;
                }
                self.ask();
            }
            ControlFrame::Fetch(fetch) => {
                self.test = fetch.test;
                self.hand_over();
            }
            ControlFrame::Done { .. }
            | ControlFrame::Record(_)
            | ControlFrame::Refuse(_)
            | ControlFrame::NotFound
            | ControlFrame::Stop => {}
        }
    }

    pub(crate) fn hand_over(&mut self) {
        let json = self.record().to_string().into_bytes();
        self.send(&ControlFrame::Record(json));
    }

    /// The first frames of this end.
    fn begin(&mut self) {
        let direction = if self.side == Side::Client { Direction::Upload } else { Direction::Download };
        if let Some(transfer) = self.parameters.transfer_of(direction) {
            let bytes = match transfer.stream_amount(self.index) {
                Amount::Bytes(bytes) => bytes.min(100_000),
                Amount::Duration(_) => 1000,
            };
            self.data(bytes as usize, true);
            self.end(None, false);
        } else if self.asks() {
            self.ask();
        }
    }

    fn asks(&self) -> bool {
        match (&self.parameters, self.side) {
            (PatternParameters::Ping(_) | PatternParameters::Responsiveness(_), side) => side == Side::Client,
            (PatternParameters::Interactive(_), side) => (self.index == 0) == (side == Side::Client),
            _ => false,
        }
    }

    fn ask(&mut self) {
        let most = match &self.parameters {
            PatternParameters::Ping(ping) => ping.requests(),
            PatternParameters::Interactive(interactive) => InteractiveParameters::messages(interactive),
            PatternParameters::Responsiveness(load) => load.probes(),
            _ => 0,
        };
        if self.asked < most {
            let sequence = self.asked;
            self.asked += 1;
            self.message(sequence, false, true);
        } else if !self.said_end {
            let asked = u64::from(self.asked);
            let bytes = self.message_bytes().map(|[request, _]| u64::from(request) * asked);
            let bytes = bytes.filter(|_| !self.has_load());
            self.end(bytes, false);
        }
    }

    pub(crate) fn half_close(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Closes with a reset.
    pub(crate) fn abort(self) {
        let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }
}
