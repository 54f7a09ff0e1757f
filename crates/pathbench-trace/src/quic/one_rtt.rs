//! 1-RTT packets with their keys: packet numbers per path id, streams, acknowledgments, further connection ids.

use super::connection::{Connection, PacketContext, Scratch, Signal};
use super::frames::{QuicFrame, QuicFrames};
use super::header::ConnectionId;
use super::keys;
use super::path::Path;

/// Path ids with packet numbers of their own.
const MAX_PATH_IDS: usize = 256;
/// Path ids that are tried for a connection id whose announcement was not captured.
const MAX_GUESSES: usize = 8;
/// Signals of a connection.
const MAX_SIGNALS: usize = 256;

impl Connection {
    /// Counts the packet, and reads its frames if it can be decrypted.
    pub(super) fn short(&mut self, context: PacketContext, packet: &[u8], scratch: &mut Scratch) {
        self.counts.one_rtt += 1;
        if self.one_rtt[context.side].is_none() {
            return;
        }
        match self.decrypt(context.side, packet, scratch) {
            Some((path_id, number)) => {
                self.counts.decrypted += 1;
                if self.is_duplicate(context.side, path_id, number) {
                    self.counts.duplicates += 1;
                    return;
                }
                if let Some(path) = self.paths.get_mut(context.path) {
                    path.id = Some(path_id);
                }
                self.frames(context, path_id, number, &scratch.payload);
            }
            None => self.counts.undecrypted += 1,
        }
    }

    /// Path id and packet number; the frames are in `scratch.payload`.
    fn decrypt(&mut self, side: usize, packet: &[u8], scratch: &mut Scratch) -> Option<(u32, u64)> {
        let after = packet.get(1..)?;
        let destinations = &self.ids[1 - side];
        let known = destinations.iter().find(|(id, _)| after.starts_with(id.as_slice()) && !id.is_empty());
        let length = known.map_or(self.id_length[1 - side], |(id, _)| Some(id.len()))?;
        let spaces = &self.spaces[side];
        let guesses: Vec<u32> = match known {
            Some(&(_, path)) => vec![path],
            None => [0]
                .into_iter()
                .chain(spaces.keys().copied().filter(|&path| path != 0))
                .take(MAX_GUESSES)
                .collect(),
        };
        let keys = self.one_rtt[side].as_mut()?;
        let unprotected = keys.unprotect(packet, 1 + length, &mut scratch.header)?;
        let header = 1 + length + unprotected.number_length;
        let (path, number) = guesses.into_iter().find_map(|path| {
            let expected = spaces.get(&path).map_or(0, |space| space.expected);
            let number = keys::decode_number(expected, unprotected.number, unprotected.number_length);
            keys.open(header, path, number, &mut scratch.header, &mut scratch.payload)
                .map(|()| (path, number))
        })?;
        if let Some(id) = after.get(..length).and_then(ConnectionId::new).filter(|_| known.is_none()) {
            self.learn_id(1 - side, id, path);
        }
        Some((path, number))
    }

    fn is_duplicate(&mut self, side: usize, path_id: u32, number: u64) -> bool {
        let spaces = &mut self.spaces[side];
        if spaces.len() < MAX_PATH_IDS || spaces.contains_key(&path_id) {
            return spaces.entry(path_id).or_default().is_duplicate(number);
        }
        false
    }

    fn frames(&mut self, context: PacketContext, path_id: u32, number: u64, payload: &[u8]) {
        let (mut eliciting, mut again) = (false, false);
        let mut frames = QuicFrames::new(payload);
        for frame in frames.by_ref() {
            eliciting |= !matches!(
                frame,
                QuicFrame::Ack { .. } | QuicFrame::Padding | QuicFrame::ConnectionClose { .. }
            );
            match frame {
                QuicFrame::Ack { path, largest, .. } => self.acknowledge(context, path, largest),
                QuicFrame::Stream { id, offset, length, .. } => {
                    again |= self.stream(context, id, offset, length);
                }
                QuicFrame::Datagram { length } => self.new_data(context, length),
                QuicFrame::NewConnectionId { path, id } => {
                    if let Ok(path) = u32::try_from(path) {
                        self.learn_id(context.side, id, path);
                    }
                }
                QuicFrame::PathAbandon { path, error } => {
                    self.paths_with_id(path).for_each(|known| known.abandoned = true);
                    let detail = format!("path {path}, error {error:#x}");
                    self.signal(context, "path-abandon", Some(path), Some(detail));
                }
                QuicFrame::PathStatus { path, backup } => {
                    self.paths_with_id(path).for_each(|known| known.backup = Some(backup));
                    let kind = if backup { "path-status-backup" } else { "path-status-available" };
                    self.signal(context, kind, Some(path), Some(format!("path {path}")));
                }
                QuicFrame::PathChallenge => self.signal(context, "path-challenge", None, None),
                QuicFrame::PathResponse => self.signal(context, "path-response", None, None),
                QuicFrame::ConnectionClose { error, .. } => {
                    self.counts.closes += 1;
                    self.signal(context, "connection-close", None, Some(format!("error {error:#x}")));
                }
                _ => {}
            }
        }
        self.counts.unknown_frames += u64::from(!frames.is_complete());
        if let Some(direction) = self.direction(context) {
            direction.retransmitted_packets += u64::from(again);
        }
        if let Some(space) = self.spaces[context.side].get_mut(&path_id) {
            space.sent(number, context.time_ns, context.path, eliciting);
        }
    }

    fn paths_with_id(&mut self, id: u64) -> impl Iterator<Item = &mut Path> {
        self.paths.iter_mut().filter(move |path| path.id.map(u64::from) == Some(id))
    }

    /// A round trip from the largest acknowledged packet (RFC 9002, section 5.1).
    fn acknowledge(&mut self, context: PacketContext, path_id: u64, largest: u64) {
        let Ok(path_id) = u32::try_from(path_id) else { return };
        let sender = 1 - context.side;
        let space = self.spaces[sender].get_mut(&path_id);
        let Some((sent_ns, path)) = space.and_then(|space| space.acknowledged(largest)) else { return };
        if let Some(path) = self.paths.get_mut(path) {
            path.directions[sender].rtt_sample(context.time_ns.saturating_sub(sent_ns));
        }
    }

    /// Whether the packet repeats bytes.
    fn stream(&mut self, context: PacketContext, id: u64, offset: u64, length: u64) -> bool {
        let carried = self.streams[context.side].carry(id, offset, length, context.path as u16);
        if let Some(direction) = self.direction(context) {
            direction.stream_bytes += length;
            direction.retransmitted_bytes += carried.same_path;
            direction.reinjected_bytes += carried.other_path;
            direction.gap_bytes += carried.gap;
        }
        self.new_data(context, carried.new);
        carried.same_path + carried.other_path > 0
    }

    fn new_data(&mut self, context: PacketContext, bytes: u64) {
        let since_start = context.time_ns.saturating_sub(self.start_ns);
        if let Some(direction) = self.direction(context) {
            direction.data_bytes += bytes;
            direction.goodput.add(since_start, bytes);
        }
    }

    fn signal(
        &mut self,
        context: PacketContext,
        kind: &'static str,
        path_id: Option<u64>,
        detail: Option<String>,
    ) {
        if self.signals.len() < MAX_SIGNALS {
            let of_path = |id: u64| self.paths.iter().position(|path| path.id.map(u64::from) == Some(id));
            let path = path_id.and_then(of_path).unwrap_or(context.path);
            self.signals.push(Signal { context: PacketContext { path, ..context }, kind, detail });
        }
    }
}
