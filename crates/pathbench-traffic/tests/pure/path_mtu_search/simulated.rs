//! A path and a server on a simulated clock, for the tests of `Finder` and `Watch`.

use pathbench_record::network::AddressFamily;
use pathbench_record::statistics::SplitMix64;
use pathbench_record::time::Timestamp;
use pathbench_traffic::datagram::{
    DatagramClient as _, DatagramKind, DatagramMessage, DatagramResponder, Unsent,
};
use pathbench_traffic::path_mtu::{
    Finder, MtuBounds, MtuEvent, PathMtuFound, SessionParameters, Watch, WatchPace,
};
use pathbench_traffic::server::Access;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The ICMP report of the router before the narrow link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Icmp {
    Silent,
    Honest,
    /// Always this MTU.
    Wrong(u32),
}

/// One direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leg {
    /// MTU of the sending host's interface.
    pub(crate) interface_bytes: u32,
    /// MTU of the narrowest link.
    pub(crate) mtu_bytes: u32,
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
    /// Rate in bits per second before the narrowest link, and its queue.
    pub(crate) rate_bps: u64,
    pub(crate) queue_bytes: u64,
    /// Thousandths of the packets that are lost or duplicated.
    pub(crate) loss_permille: u32,
    pub(crate) duplicate_permille: u32,
}

impl Leg {
    pub(crate) fn plain(mtu_bytes: u32, delay: Duration) -> Self {
        Self {
            interface_bytes: 9000,
            mtu_bytes,
            delay,
            jitter: Duration::ZERO,
            rate_bps: 100_000_000,
            queue_bytes: 200_000,
            loss_permille: 0,
            duplicate_permille: 0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    ToServer(Vec<u8>),
    ToClient(Vec<u8>),
    Icmp(u32, Vec<u8>),
}

pub(crate) struct Simulation {
    pub(crate) now: Timestamp,
    pub(crate) family: AddressFamily,
    pub(crate) up: Leg,
    pub(crate) down: Leg,
    pub(crate) icmp: Icmp,
    /// The server answers only hellos.
    pub(crate) answers_hello_only: bool,
    responder: DatagramResponder,
    random: SplitMix64,
    events: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    count: u64,
    free_at: [Timestamp; 2],
    sent_bytes: u64,
    /// The path MTU in the server's kernel, from ICMP.
    server_kernel_mtu: Option<u32>,
}

pub(crate) const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));

impl Simulation {
    pub(crate) fn new(family: AddressFamily, up: Leg, down: Leg, icmp: Icmp, seed: u64) -> Self {
        let now = Timestamp::from_nanos(5_000_000_000);
        Self {
            now,
            family,
            up,
            down,
            icmp,
            answers_hello_only: false,
            responder: DatagramResponder::new(Access::Open, 8, now),
            random: SplitMix64::new(seed),
            events: BinaryHeap::new(),
            count: 0,
            free_at: [now; 2],
            sent_bytes: 0,
            server_kernel_mtu: None,
        }
    }

    pub(crate) fn session_parameters(&self) -> SessionParameters {
        SessionParameters { session: 77, token: None, family: self.family }
    }

    /// Bytes sent in both directions.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    fn client(&self) -> SocketAddr {
        match self.family {
            AddressFamily::Ipv4 => SocketAddr::from(([192, 0, 2, 1], 40_000)),
            AddressFamily::Ipv6 => "[2001:db8::1]:40000".parse().unwrap(),
        }
    }

    fn permille(&mut self, permille: u32) -> bool {
        self.random.draw_below(1000) < permille as usize
    }

    /// Sends a datagram. Error: the MTU of the sending interface if the packet exceeds it.
    fn put(&mut self, upwards: bool, payload: &[u8]) -> Result<(), u32> {
        let leg = if upwards { self.up } else { self.down };
        let size = self.family.udp_packet_bytes(payload.len());
        if size > leg.interface_bytes {
            return Err(leg.interface_bytes);
        }
        self.sent_bytes += u64::from(size);
        let free_at = self.free_at[usize::from(upwards)];
        let backlog = free_at.duration_since(self.now).as_nanos() as u64 * leg.rate_bps / 8_000_000_000;
        if backlog > 0 && backlog + u64::from(size) > leg.queue_bytes {
            return Ok(());
        }
        let serialised = Duration::from_nanos(u64::from(size) * 8_000_000_000 / leg.rate_bps);
        let through = free_at.max(self.now) + serialised;
        self.free_at[usize::from(upwards)] = through;
        if size > leg.mtu_bytes {
            let reported = match self.icmp {
                Icmp::Silent => return Ok(()),
                Icmp::Honest => leg.mtu_bytes,
                Icmp::Wrong(reported) => reported,
            };
            if upwards {
                let quoted = payload[..payload.len().min(64)].to_vec();
                self.schedule(through + leg.delay, Event::Icmp(reported, quoted));
            } else if reported < size {
                self.server_kernel_mtu = Some(reported);
            }
            return Ok(());
        }
        if self.permille(leg.loss_permille) {
            return Ok(());
        }
        let copies = 1 + u64::from(self.permille(leg.duplicate_permille));
        for _ in 0..copies {
            let jitter = leg.jitter.mul_f64(self.random.draw_below(1000) as f64 / 1000.0);
            let event =
                if upwards { Event::ToServer(payload.to_vec()) } else { Event::ToClient(payload.to_vec()) };
            self.schedule(through + leg.delay + jitter, event);
        }
        Ok(())
    }

    fn schedule(&mut self, at: Timestamp, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, event)));
    }

    fn serve(&mut self, payload: &[u8]) {
        let kind = DatagramMessage::decode(payload).map(|message| message.kind);
        if self.answers_hello_only && kind != Some(DatagramKind::Hello) {
            return;
        }
        let client = self.client();
        let kernel_mtu = self.server_kernel_mtu.or(Some(self.down.interface_bytes));
        let Some(answer) = self.responder.answer(self.now, client, payload, || kernel_mtu) else { return };
        if let Err(limit) = self.put(false, &answer)
            && let Some(other) = DatagramResponder::too_long(&answer, Some(limit))
        {
            self.put(false, &other).unwrap();
        }
    }

    /// Sends a client's datagram.
    pub(crate) fn send(&mut self, payload: &[u8]) -> Result<(), Unsent> {
        self.put(true, payload).map_err(|limit| Unsent::TooLong { limit_bytes: Some(limit) })
    }

    /// Advances to the next event or to `due`, and delivers the client's datagrams.
    pub(crate) fn step(&mut self, due: Timestamp, mut take: impl FnMut(Timestamp, Arrived)) {
        let next = self.events.peek().map_or(due, |Reverse((at, ..))| (*at).min(due));
        self.now = self.now.max(next);
        while let Some(Reverse((at, ..))) = self.events.peek()
            && *at <= self.now
        {
            let Some(Reverse((_, _, event))) = self.events.pop() else { break };
            match event {
                Event::ToServer(payload) => self.serve(&payload),
                Event::ToClient(payload) => take(self.now, Arrived::Datagram(payload)),
                Event::Icmp(reported, quoted) => take(self.now, Arrived::Icmp(reported, quoted)),
            }
        }
    }

    /// Runs an examination to its end. `meanwhile` may change the path.
    pub(crate) fn find(
        &mut self,
        bounds: MtuBounds,
        mut meanwhile: impl FnMut(&mut Self, Duration),
    ) -> PathMtuFound {
        let start = self.now;
        let mut finder = Finder::new(self.now, self.session_parameters(), bounds);
        let mut turns = 0;
        loop {
            turns += 1;
            assert!(turns < 100_000, "no end of it: {finder:?}");
            meanwhile(self, self.now.duration_since(start));
            while let Some(outgoing) = finder.poll(self.now) {
                if let Err(why) = self.send(&outgoing.payload) {
                    finder.not_sent(self.now, outgoing.sequence, why);
                }
            }
            if finder.is_over() {
                break;
            }
            self.step(finder.due(), |now, arrived| match arrived {
                Arrived::Datagram(payload) => finder.received(now, &payload),
                Arrived::Icmp(reported, quoted) => finder.icmp(now, ROUTER, reported, &quoted),
            });
        }
        finder.result(self.now)
    }
}

impl Simulation {
    /// Runs a watch for `time`; returns its events with their times.
    pub(crate) fn watch(
        &mut self,
        pace: WatchPace,
        time: Duration,
        mut meanwhile: impl FnMut(&mut Self, Duration),
    ) -> Vec<(Duration, MtuEvent)> {
        let start = self.now;
        let mut watch = Watch::new(self.now, self.session_parameters(), MtuBounds::default(), pace);
        let (mut events, mut turns) = (Vec::new(), 0);
        while self.now.duration_since(start) < time {
            turns += 1;
            assert!(turns < 1_000_000, "it does not sleep: {watch:?}");
            meanwhile(self, self.now.duration_since(start));
            while let Some(outgoing) = watch.poll(self.now) {
                if let Err(why) = self.send(&outgoing.payload) {
                    watch.not_sent(self.now, outgoing.sequence, why);
                }
            }
            events.extend(
                std::iter::from_fn(|| watch.take_event())
                    .map(|event| (self.now.duration_since(start), event)),
            );
            // At most 10 ms, so that `meanwhile` changes the path in time.
            let due = watch.due().min(self.now + Duration::from_millis(10));
            self.step(due, |now, arrived| match arrived {
                Arrived::Datagram(payload) => watch.received(now, &payload),
                Arrived::Icmp(reported, quoted) => watch.icmp(now, ROUTER, reported, &quoted),
            });
        }
        events
    }
}

/// An event for a client.
pub(crate) enum Arrived {
    Datagram(Vec<u8>),
    Icmp(u32, Vec<u8>),
}
