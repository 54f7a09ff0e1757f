//! A link at work: what its devices hand over goes into its pipes, and what its pipes let go goes to its devices.

use super::direction::Direction;
use super::outlet::{Departure, Outlet, Written};
use super::packet::{Handed, Piece, Pool, Received};
use super::recorder::{Note, Recorder};
use super::{LinkReport, PlaneError, PlaneLink};
use crate::packet::{Fate, Outcome, Packet};
use crate::pipe::Condition;
use crate::segmentation::{Handover, Run};
use pathbench_host::tun::Tun;
use pathbench_record::direction::LinkDirection;
use pathbench_record::time::{Clock, Timestamp};
use rustix::io::Errno;
use std::rc::Rc;

/// Most that is read from one device, or written of one pipe, before the others have their turn.
const TURN_PACKETS: usize = 64;
const TURN_BYTES: usize = 256 << 10;

/// What all links use.
pub(super) struct Tools<'clock> {
    pub(super) clock: &'clock dyn Clock,
    pub(super) pool: Pool,
    pub(super) outlet: Outlet,
    /// When a packet left last.
    pub(super) left_at: Timestamp,
    /// When those packets were due that leave with one before them, and how many.
    pub(super) joined: Vec<(Timestamp, u32)>,
}

/// One end of a link.
#[derive(Debug)]
pub(super) struct End {
    pub(super) tun: Tun,
    /// Whether there may be something to read.
    pub(super) readable: bool,
    /// Whether the interface is gone.
    pub(super) gone: bool,
    /// The kernel's count of overruns when the link began.
    overruns_before: u64,
}

impl End {
    /// The kernel counts them from when the device was made. The counters of an interface that is gone are gone with it.
    fn overruns(&mut self) -> u64 {
        self.tun.statistics().map_or(0, |counters| counters.tx_dropped)
    }
}

/// A link at work.
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
        let ends = ends.map(|tun| End { tun, readable: true, gone: false, overruns_before: 0 });
        let [forward, reverse] = models;
        let directions = [Direction::new(forward, seeds[0], now), Direction::new(reverse, seeds[1], now)];
        Ok(Self { ends, directions, recorder })
    }

    pub(super) fn direction(&mut self, way: LinkDirection) -> &mut Direction {
        &mut self.directions[way.index()]
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

    pub(super) fn set_condition(&mut self, condition: Condition, now: Timestamp) {
        for direction in &mut self.directions {
            direction.set_condition(now, condition);
        }
    }

    /// Takes samples; says whether anything has changed since those before.
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

    /// When a pipe has something to do next.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.directions.iter().filter_map(|direction| direction.pipe.next_deadline()).min()
    }

    /// Reads what a device has for one way, until there is nothing, the turn is over, or `deadline` has passed. The
    /// first packet has arrived by the time `called`.
    pub(super) fn receive(
        &mut self,
        way: LinkDirection,
        called: Timestamp,
        deadline: Option<Timestamp>,
        tools: &mut Tools<'_>,
    ) {
        let mut bytes = 0;
        for turn in 0..TURN_PACKETS {
            let end = &mut self.ends[way.index()];
            match tools.pool.receive(&end.tun) {
                Ok(Received::Packet(packet, handover)) => {
                    let now = if turn == 0 { called } else { tools.clock.now() };
                    bytes += packet.ip().len();
                    self.offer(way, now, packet, &handover);
                    if bytes > TURN_BYTES || deadline.is_some_and(|deadline| deadline <= now) {
                        return;
                    }
                }
                Ok(Received::Nonsense) => self.directions[way.index()].refused_packets += 1,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    end.readable = false;
                    end.gone |= matches!(errno, Errno::BADFD | Errno::NODEV);
                    return;
                }
            }
        }
    }

    /// Puts into a pipe what was handed over: whole, or a wire packet at a time.
    fn offer(&mut self, way: LinkDirection, now: Timestamp, packet: Rc<Handed>, handover: &Handover) {
        self.directions[way.index()].count(handover);
        let whole = handover.whole();
        let direction = &self.directions[way.index()];
        // The pipe compares the mean of a lump with the MTU; the first segment is as long as any.
        let first = handover.ip_bytes(Run { first: 0, count: 1 });
        let oversized = first > direction.pipe.model().mtu_bytes;
        if whole.count == 1 || (self.recorder.is_none() && !oversized && direction.passes_whole()) {
            return self.put(way, now, Piece { packet, run: whole }, handover);
        }
        for segment in 0..whole.count {
            let run = Run { first: segment, count: 1 };
            self.put(way, now, Piece { packet: Rc::clone(&packet), run }, handover);
        }
    }

    fn put(&mut self, way: LinkDirection, now: Timestamp, piece: Piece, handover: &Handover) {
        if let Some(recorder) = &mut self.recorder {
            recorder.enter(way, now, piece.clone());
        }
        let packet = Packet {
            ip_bytes: handover.ip_bytes(piece.run),
            segments: piece.run.count,
            ecn: handover.ecn(),
            payload: piece,
        };
        self.directions[way.index()].pipe.offer(now, packet);
    }

    /// Lets leave what is due on one way; says whether the turn was over before everything had left.
    pub(super) fn serve(&mut self, way: LinkDirection, now: Timestamp, tools: &mut Tools<'_>) -> bool {
        let mut waiting: Option<Departure> = None;
        for _ in 0..TURN_PACKETS {
            loop {
                let Some(outcome) = self.directions[way.index()].pipe.poll(now) else {
                    if let Some(last) = waiting {
                        self.leave(way, last, tools);
                    }
                    return false;
                };
                let Outcome { packet: Packet { payload: piece, .. }, number, fate, .. } = outcome;
                let Fate::Delivered(delivery) = fate else {
                    self.note(way, number, Note::Dropped(fate), tools);
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
                        self.leave(way, before, tools);
                        break;
                    }
                }
            }
        }
        if let Some(last) = waiting {
            self.leave(way, last, tools);
        }
        true
    }

    /// A packet leaves.
    fn leave(&mut self, way: LinkDirection, departure: Departure, tools: &mut Tools<'_>) {
        let at = tools.clock.now();
        tools.left_at = at;
        let packets = departure.piece.run.count;
        let end = &mut self.ends[1 - way.index()];
        let written = if end.gone { Written::Gone } else { tools.outlet.write(&end.tun, &departure) };
        end.gone |= written == Written::Gone;
        let direction = &mut self.directions[way.index()];
        let mut first = packets;
        for (due, count) in tools.joined.drain(..) {
            direction.lateness.add(at.since(due), u64::from(count));
            first -= count;
        }
        direction.lateness.add(at.since(departure.delivery.due), u64::from(first));
        let refused = written != Written::Taken;
        if refused {
            direction.refused_packets += u64::from(packets);
        }
        let note = Note::Left { at, delivery: departure.delivery, refused };
        self.note(way, departure.number, note, tools);
        tools.pool.put(departure.piece.packet);
    }

    fn note(&mut self, way: LinkDirection, number: u64, note: Note, tools: &mut Tools<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note(way, number, note, &mut tools.pool);
        }
    }
}
