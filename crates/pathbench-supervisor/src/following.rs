//! The thread that follows the connections: snapshots at an interval that depends on their cost, so that they take a
//! tenth of a processor at most while one takes 20 ms or less.

use crate::activity::SocketActivity;
use crate::ledger::{ConnectionLedger, ObservedConnection};
use pathbench_host::egress::EgressLookup;
use pathbench_host::netlink::NetlinkError;
use pathbench_host::sockets::{DestroyedSockets, SocketLister};
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval while sockets are new: a short connection is seen at least once.
const YOUNG: Duration = Duration::from_millis(4);
/// A socket is new for this time.
const YOUTH: Duration = Duration::from_secs(1);
/// Interval while the program has connections.
const BUSY: Duration = Duration::from_millis(20);
/// Interval while the program only listens: nothing else announces an accepted connection.
const LISTENING: Duration = Duration::from_millis(50);
const CALM: Duration = Duration::from_millis(200);
/// A new socket ends a pause within this time.
const SLICE: Duration = Duration::from_millis(5);
/// Pause per time of a snapshot.
const PAUSE_PER_COST: u32 = 9;
/// On a busy machine a snapshot takes long because it waits, which is no reason to see less.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Time for connections to close once the program has ended.
const CLOSING: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct FollowingProgress<'a> {
    pub now: Timestamp,
    pub live: Vec<&'a ObservedConnection>,
    pub ended: Vec<ObservedConnection>,
}

/// Follows the connections of a program in the network namespace of the thread that made it.
#[derive(Debug)]
pub struct Following<'a> {
    clock: &'a dyn Clock,
    activity: &'a Mutex<SocketActivity>,
    lister: SocketLister,
    destroyed: DestroyedSockets,
    egress: EgressLookup,
    ledger: ConnectionLedger,
    is_complete: bool,
}

impl<'a> Following<'a> {
    pub fn new(clock: &'a dyn Clock, activity: &'a Mutex<SocketActivity>) -> Result<Self, NetlinkError> {
        let destroyed = DestroyedSockets::subscribe()?;
        let lister = SocketLister::open()?;
        Ok(Self {
            clock,
            activity,
            lister,
            destroyed,
            egress: EgressLookup::open()?,
            ledger: ConnectionLedger::default(),
            is_complete: true,
        })
    }

    /// Reports progress until `is_over` is set and the connections have closed; returns the ledger, and whether every
    /// snapshot was complete.
    pub fn run(
        mut self,
        is_over: &AtomicBool,
        mut report: impl FnMut(FollowingProgress<'_>),
    ) -> (ConnectionLedger, bool) {
        let mut over_since = None;
        let mut newest = (0, self.clock.now());
        loop {
            let begin = self.clock.now();
            let (pause, created) = self.look(begin, &mut newest);
            let ended = self.ledger.take_ended();
            report(FollowingProgress { now: begin, live: self.ledger.live(), ended });
            if is_over.load(Ordering::Acquire) {
                let since = *over_since.get_or_insert(begin);
                if self.ledger.live().is_empty() || begin.duration_since(since) >= CLOSING {
                    break;
                }
            }
            self.pause(pause, created, is_over);
        }
        self.ledger.end_all();
        let ended = self.ledger.take_ended();
        report(FollowingProgress { now: self.clock.now(), live: Vec::new(), ended });
        (self.ledger, self.is_complete)
    }

    /// Takes a snapshot; returns the pause after it, and the number of sockets created before it.
    fn look(&mut self, begin: Timestamp, newest: &mut (u64, Timestamp)) -> (Duration, u64) {
        let (created, has_ipv6) = {
            let activity = lock(self.activity);
            (activity.sockets_created, activity.has_ipv6)
        };
        if created != newest.0 {
            *newest = (created, begin);
        }
        // Sockets that change all the time make a snapshot fail; the next one may succeed.
        match self.lister.snapshot(has_ipv6) {
            Ok(snapshot) => self.ledger.observe(&snapshot, &mut lock(self.activity), begin),
            Err(_) => self.is_complete = false,
        }
        let egress = &mut self.egress;
        self.ledger.name_interfaces(|local, remote| egress.interface(local, remote));
        // After the snapshot, which shows to which connection a destroyed subflow belonged.
        match self.destroyed.receive() {
            Ok(destroyed) => destroyed.iter().for_each(|socket| self.ledger.destroyed(socket)),
            Err(_) => self.is_complete = false,
        }
        let is_young = created > 0 && begin.duration_since(newest.1) < YOUTH;
        let wanted = match (is_young, self.ledger.is_busy(), self.ledger.has_listeners()) {
            (true, ..) => YOUNG,
            (_, true, _) => BUSY,
            (_, _, true) => LISTENING,
            _ => CALM,
        };
        let cost = self.clock.now().duration_since(begin);
        (wanted.max((cost * PAUSE_PER_COST).min(LONGEST_PAUSE)), created)
    }

    /// Waits for `time`, for the end of the program, or for a new socket if that is less than its share of a processor.
    fn pause(&self, time: Duration, created: u64, is_over: &AtomicBool) {
        let begin = self.clock.now();
        let (soonest, end) = (begin + YOUNG.min(time), begin + time);
        self.clock.sleep_until(soonest);
        while self.clock.now() < end && !is_over.load(Ordering::Acquire) {
            if time <= CALM && lock(self.activity).sockets_created != created {
                return;
            }
            self.clock.sleep_until(end.min(self.clock.now() + SLICE));
        }
    }
}
