//! The packets of a trace in protobuf's wire format (`TracePacket`, `TrackDescriptor`, `TrackEvent`,
//! `DebugAnnotation`; field numbers from Perfetto's .proto files).

use pathbench_record::text;
use std::io::{self, Write};

/// Longest name or value, in characters.
const LONGEST: usize = 200;

/// All packets are of one sequence; without its number Perfetto drops events.
const SEQUENCE: u64 = 1;

/// The value of `TrackDescriptor.child_ordering` that keeps the given order.
const EXPLICIT: u64 = 3;

/// `TrackEvent.type`.
#[derive(Clone, Copy)]
enum Kind {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
}

/// The uuid of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Track(u64);

pub(super) struct TraceWriter<'a, W: Write> {
    out: &'a mut W,
    /// Zero of the trace.
    start_ms: f64,
    tracks: u64,
}

impl<'a, W: Write> TraceWriter<'a, W> {
    pub(super) fn new(out: &'a mut W, start_ms: f64) -> Self {
        Self { out, start_ms, tracks: 0 }
    }

    /// A track for a process, which has the others below it.
    pub(super) fn process(&mut self, name: &str) -> io::Result<Track> {
        let pid = self.tracks + 1;
        let process = Message::default().number(1, pid).text(6, name);
        self.describe(|descriptor| descriptor.message(3, &process).number(11, EXPLICIT))
    }

    /// A track that holds others.
    pub(super) fn group(&mut self, parent: Track, name: &str) -> io::Result<Track> {
        self.child(parent, name, |descriptor| descriptor.number(11, EXPLICIT))
    }

    /// A track of slices or instants.
    pub(super) fn track(&mut self, parent: Track, name: &str) -> io::Result<Track> {
        self.child(parent, name, |descriptor| descriptor)
    }

    pub(super) fn counter(&mut self, parent: Track, name: &str, unit: &str) -> io::Result<Track> {
        let counter = Message::default().text(6, unit);
        self.child(parent, name, |descriptor| descriptor.message(8, &counter))
    }

    fn child(
        &mut self,
        parent: Track,
        name: &str,
        add: impl FnOnce(Message) -> Message,
    ) -> io::Result<Track> {
        // The order of creation.
        let rank = self.tracks;
        self.describe(|descriptor| add(descriptor.text(2, name).number(5, parent.0).number(12, rank)))
    }

    fn describe(&mut self, add: impl FnOnce(Message) -> Message) -> io::Result<Track> {
        self.tracks += 1;
        let descriptor = add(Message::default().number(1, self.tracks));
        self.packet(Message::default().message(60, &descriptor))?;
        Ok(Track(self.tracks))
    }

    pub(super) fn count(&mut self, track: Track, t_ms: f64, value: f64) -> io::Result<()> {
        self.event(track, Kind::Counter, t_ms, |event| event.double(44, value))
    }

    pub(super) fn slice(
        &mut self,
        track: Track,
        name: &str,
        [from_ms, until_ms]: [f64; 2],
    ) -> io::Result<()> {
        self.begin(track, name, from_ms)?;
        self.end(track, until_ms)
    }

    pub(super) fn begin(&mut self, track: Track, name: &str, t_ms: f64) -> io::Result<()> {
        self.event(track, Kind::Begin, t_ms, |event| event.text(23, name))
    }

    pub(super) fn end(&mut self, track: Track, t_ms: f64) -> io::Result<()> {
        self.event(track, Kind::End, t_ms, |event| event)
    }

    pub(super) fn instant(
        &mut self,
        track: Track,
        name: &str,
        t_ms: f64,
        fields: &[(&str, String)],
    ) -> io::Result<()> {
        self.event(track, Kind::Instant, t_ms, |event| {
            fields.iter().fold(event.text(23, name), |event, (name, value)| {
                event.message(4, &Message::default().text(10, name).text(6, value))
            })
        })
    }

    fn event(
        &mut self,
        track: Track,
        kind: Kind,
        t_ms: f64,
        add: impl FnOnce(Message) -> Message,
    ) -> io::Result<()> {
        let event = add(Message::default().number(9, kind as u64).number(11, track.0));
        let nanoseconds = ((t_ms - self.start_ms) * 1e6).round() as u64;
        self.packet(Message::default().number(8, nanoseconds).message(11, &event))
    }

    fn packet(&mut self, packet: Message) -> io::Result<()> {
        let trace = Message::default().message(1, &packet.number(10, SEQUENCE));
        self.out.write_all(&trace.0)
    }
}

/// The bytes of a protobuf message (protobuf.dev/programming-guides/encoding).
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    fn double(mut self, field: u32, value: f64) -> Self {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text::printable(text, LONGEST).as_bytes())
    }

    fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of protobuf's documentation: `a = 150`, `b = "testing"`, an embedded message.
    #[test]
    fn messages_have_the_wire_format() {
        let inner = Message::default().number(1, 150);
        assert_eq!(inner.0, [0x08, 0x96, 0x01]);
        assert_eq!(Message::default().message(3, &inner).0, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(Message::default().text(2, "testing").0, *b"\x12\x07testing");
        assert_eq!(Message::default().double(1, 1.0).0, [0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
        assert_eq!(Message::default().number(60, u64::MAX).0.len(), 12);
    }
}
