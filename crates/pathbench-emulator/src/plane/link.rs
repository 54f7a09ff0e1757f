//! A running link: moves packets from its devices into its pipes, and from its pipes to its devices.

use super::packet::{Departure, Outlet, PacketBuffer, Piece, Pool, Received, Written};
use super::recorder::{Note, Recorder};
use super::report::{DirectionReport, Histogram, LinkReport, PlaneError, QueueSample};
use crate::flow::packet_flow;
use crate::segmentation::{GsoPacket, Run};
use pathbench_host::tun::Tun;
use pathbench_link::packet::{Fate, Outcome, PacketFlow, PipePacket};
use pathbench_link::pipe::{Pipe, PipeCondition};
use pathbench_link::{ChangeSchedule, Discipline, LinkChange, LinkModel, LossModel, RateModel};
use pathbench_record::direction::LinkDirection;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_record::units::QueueLimit;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

/// Maximum that is read from one device, or written from one pipe, before the next one is served.
const TURN_PACKETS: usize = 64;
const TURN_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub struct PlaneLink {
    pub name: String,
    pub ends: [Tun; 2],
    /// Models of the direction from the first end to the second, and of the reverse direction.
    pub models: [LinkModel; 2],
    /// Seed of the random decisions of each direction.
    pub seeds: [u64; 2],
    /// The file that records every packet and its fate (pcapng); overwritten.
    pub capture: Option<PathBuf>,
}

pub(super) struct Tools<'clock> {
    pub(super) clock: &'clock dyn Clock,
    pub(super) pool: Pool,
    pub(super) outlet: Outlet,
    pub(super) left_at: Timestamp,
    pub(super) joined: Vec<(Timestamp, u32)>,
}

#[derive(Debug)]
pub(super) struct End {
    pub(super) tun: Tun,
    pub(super) readable: bool,
    pub(super) removed: bool,
    overruns_before: u64,
}

impl End {
    /// The kernel's counter since the creation of the device; 0 for a removed interface.
    fn overruns(&mut self) -> u64 {
        self.tun.statistics().map_or(0, |counters| counters.tx_dropped)
    }
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) ends: [End; 2],
    directions: [Direction; 2],
    recorder: Option<Recorder>,
}

impl Link {
    pub(super) fn new(link: PlaneLink, wall_offset_ns: i64, now: Timestamp) -> Result<Self, PlaneError> {
        let PlaneLink { name, ends, models, seeds, capture } = link;
        let recorder = capture.map(|path| Recorder::create(&name, &path, wall_offset_ns)).transpose()?;
        let ends = ends.map(|tun| End { tun, readable: true, removed: false, overruns_before: 0 });
        let [forward, reverse] = models;
        let directions = [Direction::new(forward, seeds[0], now), Direction::new(reverse, seeds[1], now)];
        Ok(Self { ends, directions, recorder })
    }

    pub(super) fn direction(&mut self, direction: LinkDirection) -> &mut Direction {
        &mut self.directions[direction.index()]
    }

    pub(super) fn restart(&mut self, seeds: [u64; 2], now: Timestamp, pool: &mut Pool) {
        if let Some(recorder) = &mut self.recorder {
            recorder.restart(pool);
        }
        for (direction, seed) in self.directions.iter_mut().zip(seeds) {
            direction.restart(seed, now);
        }
        for end in &mut self.ends {
            end.overruns_before = end.overruns();
        }
    }

    pub(super) fn set_condition(&mut self, condition: PipeCondition, now: Timestamp) {
        for direction in &mut self.directions {
            direction.pipe.set_condition(now, condition);
        }
    }

    pub(super) fn sample(&mut self, now: Timestamp) -> bool {
        let [forward, reverse] = &mut self.directions;
        forward.sample(now) | reverse.sample(now)
    }

    pub(super) fn report(&mut self, now: Timestamp) -> LinkReport {
        self.sample(now);
        let mut directions = self.directions.each_ref().map(Direction::report);
        for (report, end) in directions.iter_mut().zip(&mut self.ends) {
            report.overrun_packets = end.overruns().saturating_sub(end.overruns_before);
        }
        let capture_error = self.recorder.as_ref().and_then(Recorder::error).map(str::to_owned);
        LinkReport { directions, capture_error }
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.directions.iter().filter_map(|direction| direction.pipe.next_deadline()).min()
    }

    pub(super) fn receive(
        &mut self,
        direction: LinkDirection,
        deadline: Option<Timestamp>,
        tools: &mut Tools<'_>,
    ) {
        let mut bytes = 0;
        for _ in 0..TURN_PACKETS {
            let end = &mut self.ends[direction.index()];
            match tools.pool.receive(&end.tun) {
                Ok(Received::Packet(packet, gso)) => {
                    // Not before the read: it may have arrived since, and would leave early.
                    let now = tools.clock.now();
                    bytes += packet.ip().len();
                    self.offer(direction, now, packet, &gso);
                    if bytes > TURN_BYTES || deadline.is_some_and(|deadline| deadline <= now) {
                        return;
                    }
                }
                Ok(Received::Invalid) => self.directions[direction.index()].refused_packets += 1,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    end.readable = false;
                    end.removed |= matches!(errno, Errno::BADFD | Errno::NODEV);
                    return;
                }
            }
        }
    }

    fn offer(&mut self, direction: LinkDirection, now: Timestamp, packet: Rc<PacketBuffer>, gso: &GsoPacket) {
        self.directions[direction.index()].count(gso);
        let whole = gso.whole();
        let flow = match self.directions[direction.index()].pipe.model().queue_discipline {
            Discipline::FqCoDel => packet_flow(packet.ip()),
            _ => PacketFlow::default(),
        };
        let traffic = &self.directions[direction.index()];
        // The pipe compares the mean segment with the MTU; no segment is longer than the first.
        let first = gso.ip_bytes(Run { first: 0, count: 1 });
        let oversized = first > traffic.pipe.model().mtu_bytes;
        if whole.count == 1 || (self.recorder.is_none() && !oversized && traffic.passes_whole()) {
            return self.put(direction, now, Piece { packet, run: whole }, gso, flow);
        }
        for segment in 0..whole.count {
            let run = Run { first: segment, count: 1 };
            self.put(direction, now, Piece { packet: Rc::clone(&packet), run }, gso, flow);
        }
    }

    fn put(
        &mut self,
        direction: LinkDirection,
        now: Timestamp,
        piece: Piece,
        gso: &GsoPacket,
        flow: PacketFlow,
    ) {
        if let Some(recorder) = &mut self.recorder {
            recorder.enter(direction, now, piece.clone());
        }
        let packet = PipePacket {
            ip_bytes: gso.ip_bytes(piece.run),
            segments: piece.run.count,
            ecn: gso.ecn(),
            flow,
            payload: piece,
        };
        self.directions[direction.index()].pipe.offer(now, packet);
    }

    pub(super) fn serve(&mut self, direction: LinkDirection, now: Timestamp, tools: &mut Tools<'_>) -> bool {
        let mut waiting: Option<Departure> = None;
        for _ in 0..TURN_PACKETS {
            loop {
                let Some(outcome) = self.directions[direction.index()].pipe.poll(now) else {
                    if let Some(last) = waiting {
                        self.leave(direction, last, tools);
                    }
                    return false;
                };
                let Outcome { packet: PipePacket { payload: piece, .. }, number, fate, .. } = outcome;
                let Fate::Delivered(delivery) = fate else {
                    self.note(direction, number, Note::Dropped(fate), tools);
                    tools.pool.put(piece.packet);
                    continue;
                };
                let next = Departure { piece, number, delivery };
                let Some(mut before) = waiting.take() else {
                    waiting = Some(next);
                    continue;
                };
                let due = next.delivery.due;
                let joined = if self.recorder.is_none() { before.join(next) } else { Err(next) };
                match joined {
                    Ok(piece) => {
                        tools.joined.push((due, piece.run.count));
                        tools.pool.put(piece.packet);
                        waiting = Some(before);
                    }
                    Err(next) => {
                        waiting = Some(next);
                        self.leave(direction, before, tools);
                        break;
                    }
                }
            }
        }
        if let Some(last) = waiting {
            self.leave(direction, last, tools);
        }
        true
    }

    fn leave(&mut self, direction: LinkDirection, departure: Departure, tools: &mut Tools<'_>) {
        let at = tools.clock.now();
        tools.left_at = at;
        let packets = departure.piece.run.count;
        let end = &mut self.ends[1 - direction.index()];
        let written = if end.removed { Written::Removed } else { tools.outlet.write(&end.tun, &departure) };
        end.removed |= written == Written::Removed;
        let traffic = &mut self.directions[direction.index()];
        let mut first = packets;
        for (due, count) in tools.joined.drain(..) {
            traffic.lateness.add(at.duration_since(due), u64::from(count));
            first -= count;
        }
        traffic.lateness.add(at.duration_since(departure.delivery.due), u64::from(first));
        let refused = written != Written::Taken;
        if refused {
            traffic.refused_packets += u64::from(packets);
        }
        let note = Note::Left { at, delivery: departure.delivery, refused };
        self.note(direction, departure.number, note, tools);
        tools.pool.put(departure.piece.packet);
    }

    fn note(&mut self, direction: LinkDirection, number: u64, note: Note, tools: &mut Tools<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note(direction, number, note, &mut tools.pool);
        }
    }
}

#[derive(Debug)]
pub(super) struct Direction {
    pub(super) pipe: Pipe<Piece>,
    pub(super) lateness: Histogram,
    pub(super) refused_packets: u64,
    /// The model as set, without the changes of a schedule.
    model: LinkModel,
    following: bool,
    series: Vec<QueueSample>,
    /// Length of the IP packet → wire packets offered. The size of the largest IP packet limits the number of entries.
    offered_sizes: BTreeMap<u32, u64>,
}

impl Direction {
    pub(super) fn new(model: LinkModel, seed: u64, now: Timestamp) -> Self {
        let mut direction = Self {
            pipe: Pipe::new(model.clone(), seed, now),
            lateness: Histogram::new(),
            refused_packets: 0,
            model,
            following: false,
            series: Vec::new(),
            offered_sizes: BTreeMap::new(),
        };
        direction.sample(now);
        direction
    }

    pub(super) fn restart(&mut self, seed: u64, now: Timestamp) {
        let condition = self.pipe.condition();
        *self = Self::new(self.model.clone(), seed, now);
        self.pipe.set_condition(now, condition);
    }

    pub(super) fn change(&mut self, now: Timestamp, change: &LinkChange) {
        self.pipe.change(now, change);
        change.apply(&mut self.model);
    }

    pub(super) fn follow(&mut self, now: Timestamp, schedule: ChangeSchedule) {
        self.pipe.follow(now, schedule);
        self.following = true;
    }

    pub(super) fn passes_whole(&self) -> bool {
        !self.following && passes_whole(&self.model)
    }

    pub(super) fn count(&mut self, gso: &GsoPacket) {
        let last = gso.segments().saturating_sub(1);
        let bytes = |segment| gso.ip_bytes(Run { first: segment, count: 1 });
        if last > 0 {
            *self.offered_sizes.entry(bytes(0)).or_insert(0) += u64::from(last);
        }
        *self.offered_sizes.entry(bytes(last)).or_insert(0) += 1;
    }

    pub(super) fn sample(&mut self, now: Timestamp) -> bool {
        let statistics = self.pipe.statistics();
        let sample = QueueSample {
            at: now,
            queue_bytes: statistics.queue_bytes,
            queue_packets: statistics.queue_packets,
            offered_bytes: statistics.offered_bytes,
            delivered_bytes: statistics.delivered_bytes,
            dropped_packets: statistics.dropped_packets.values().sum(),
            rate_bps: self.pipe.rate_bps(now),
            loss: self.pipe.loss(now),
            delay: self.pipe.base_delay(now),
        };
        let changed = self.series.last().is_none_or(|last| QueueSample { at: now, ..*last } != sample);
        if changed {
            self.series.push(sample);
        }
        changed
    }

    pub(super) fn report(&self) -> DirectionReport {
        DirectionReport {
            statistics: self.pipe.statistics().clone(),
            lateness: self.lateness.lateness(),
            refused_packets: self.refused_packets,
            overrun_packets: 0,
            series: self.series.clone(),
            offered_sizes: self.offered_sizes.clone(),
        }
    }
}

/// Above this rate, a GSO packet (64 KiB) takes less than 0.25 ms.
const FAST_BPS: u64 = 2_000_000_000;

/// Whether GSO packets can pass unsegmented, as one packet that counts all its wire packets: there are no random
/// effects, the rate is unlimited or so high that a GSO packet is short, the queue neither counts packets nor measures
/// their sojourn time, and neither a policer nor a limit of packets in flight drops some of its wire packets.
pub(super) fn passes_whole(model: &LinkModel) -> bool {
    let coarse_queue = !matches!(model.queue, QueueLimit::Packets(_))
        && matches!(model.queue_discipline, Discipline::DropTail | Discipline::DropHead);
    let fast = match model.rate {
        RateModel::Unlimited => true,
        RateModel::Constant(bps) => bps > FAST_BPS && coarse_queue,
        RateModel::Steps(_) | RateModel::Opportunities(_) | RateModel::Trains(_) => false,
    };
    fast && model.loss == LossModel::Independent(0.0)
        && model.jitter.is_zero()
        && model.duplicate == 0.0
        && model.corrupt == 0.0
        && model.reorder_share == 0.0
        && model.policer.is_none()
        && model.in_flight_limit == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_link::PolicerModel;
    use std::time::Duration;

    #[test]
    fn models_that_treat_single_packets_have_gso_packets_cut() {
        let wire = LinkModel::default;
        let bytes = QueueLimit::Bytes(1_000_000);
        let packets = QueueLimit::Packets(1_000);
        let cases = [
            (true, wire()),
            (true, LinkModel { rate: RateModel::Constant(10_000_000_000), queue: bytes, ..wire() }),
            (true, LinkModel { rate: RateModel::Constant(10_000_000_000), ..wire() }),
            (false, LinkModel { rate: RateModel::Constant(10_000_000_000), queue: packets, ..wire() }),
            (false, LinkModel { rate: RateModel::Constant(1_000_000_000), queue: bytes, ..wire() }),
            (false, LinkModel { loss: LossModel::Independent(0.001), ..wire() }),
            (false, LinkModel { duplicate: 0.001, ..wire() }),
            (false, LinkModel { corrupt: 0.001, ..wire() }),
            (false, LinkModel { jitter: Duration::from_millis(1), ..wire() }),
            (false, LinkModel { reorder_share: 0.01, ..wire() }),
            (false, LinkModel { policer: Some(PolicerModel { rate_bps: 1_000, burst_bytes: 1 }), ..wire() }),
            (false, LinkModel { in_flight_limit: 1_000, ..wire() }),
            (
                false,
                LinkModel {
                    rate: RateModel::Constant(10_000_000_000),
                    queue: bytes,
                    queue_discipline: Discipline::FqCoDel,
                    ..wire()
                },
            ),
        ];
        for (whole, model) in cases {
            assert_eq!(passes_whole(&model), whole, "{model:?}");
        }
    }
}
