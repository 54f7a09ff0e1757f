//! One examination of a path in both directions, sans-IO: time, datagrams and reports of the kernel in; datagrams and
//! the result out.

use super::exchange::{Exchange, FOLLOWER, KERNEL_MTU, ProbeFate, SessionParameters, Settled, Trial};
use super::plan::{DirectionFound, FoundMtu, IcmpReport, MtuBounds, NoMtu, PathMtuFound, SizeEvidence};
use super::search::{Limit, Search, SizeVerdict};
use crate::datagram::{DatagramClient, MOST_PACKET_BYTES, Outgoing, Unsent, floor_bytes, tiny_bytes};
use pathbench_record::direction::Direction;
use pathbench_record::network::AddressFamily;
use pathbench_record::time::Timestamp;
use std::net::IpAddr;
use std::time::Duration;

/// Longest wait for a server that does not answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// ICMP errors after which the path counts as unreachable.
const REFUSALS: u32 = 5;
/// Pause after a trial could not be sent.
const PAUSE: Duration = Duration::from_millis(100);
/// Limit of requests for the path MTU in the server's kernel while it does not answer.
const KERNEL_MTU_REQUESTS: u32 = 4;
const MOST_ICMP: usize = 8;

const FIRST_BYTES: u64 = 12_000;
const LEAST_BYTES: u64 = 3_000;
const MOST_BYTES: u64 = 64 * 1024;
/// Shortest interval between two reductions of the window.
const ONCE: Duration = Duration::from_millis(100);
/// Limits of a packet's queueing delay for the window to grow, and for it to stay unchanged.
const SHORT_QUEUE: Duration = Duration::from_millis(30);
const LONG_QUEUE: Duration = Duration::from_millis(60);

#[derive(Debug)]
struct DirectionSearch {
    direction: Direction,
    search: Search,
    window: ProbeWindow,
    paused_until: Option<Timestamp>,
    /// A tiny packet follows the last trial: its answer shows that the answers to earlier trials are overdue.
    is_followed: bool,
    icmp: Vec<IcmpReport>,
    probes_sent: u32,
    bytes_sent: u64,
    ended: Option<Timestamp>,
}

/// An examination of a path. Run it as a [`crate::datagram::DatagramClient`] until [`Finder::is_over`], then read its
/// result.
#[derive(Debug)]
pub struct Finder {
    start: Timestamp,
    bounds: MtuBounds,
    exchange: Exchange,
    upload: DirectionSearch,
    download: Option<DirectionSearch>,
    download_next: bool,
    kernel_mtu_requests: u32,
    refusals: u32,
    last_refusal: Option<String>,
    over: Option<NoMtu>,
}

impl DirectionSearch {
    fn new(direction: Direction, family: AddressFamily, ceiling_bytes: u32) -> Self {
        Self {
            direction,
            search: Search::new(family, ceiling_bytes),
            window: ProbeWindow::default(),
            paused_until: None,
            is_followed: false,
            icmp: Vec::new(),
            probes_sent: 0,
            bytes_sent: 0,
            ended: None,
        }
    }

    fn next(&self, now: Timestamp, most_bytes: u64, tiny_bytes: u32) -> Option<(Trial, bool)> {
        if self.paused_until.is_some_and(|until| now < until) || self.bytes_sent >= most_bytes {
            return None;
        }
        let (size_bytes, mark) = self.search.next()?;
        let direction = self.direction;
        if self.window.admits(size_bytes) {
            Some((Trial { direction, size_bytes, mark }, true))
        } else {
            let follower = Trial { direction, size_bytes: tiny_bytes, mark: FOLLOWER };
            (!self.is_followed).then_some((follower, false))
        }
    }
}

impl Finder {
    pub fn new(now: Timestamp, parameters: SessionParameters, bounds: MtuBounds) -> Self {
        Self {
            start: now,
            bounds,
            upload: DirectionSearch::new(Direction::Upload, parameters.family, MOST_PACKET_BYTES),
            exchange: Exchange::new(now, parameters, Duration::ZERO),
            download: None,
            download_next: false,
            kernel_mtu_requests: 0,
            refusals: 0,
            last_refusal: None,
            over: None,
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.is_some() || self.is_found() && !self.is_asking()
    }

    fn is_found(&self) -> bool {
        self.download.is_some() && self.searches().all(|one| one.search.verdict.is_some())
    }

    /// Whether the request for the path MTU in the server's kernel is due or unanswered: only at the end, when all ICMP
    /// messages have arrived.
    fn is_asking(&self) -> bool {
        let can_answer = self.download.as_ref().is_some_and(|one| one.search.low.is_some());
        let given_up = self.kernel_mtu_requests >= KERNEL_MTU_REQUESTS && self.exchange.in_flight.is_empty();
        can_answer && self.exchange.server_kernel_mtu.is_none() && !given_up
    }

    pub fn stop(&mut self) {
        if !self.is_over() {
            self.over = Some(NoMtu::Stopped);
        }
    }

    pub fn result(&self, now: Timestamp) -> PathMtuFound {
        let idle =
            DirectionSearch::new(Direction::Download, self.exchange.parameters.family, MOST_PACKET_BYTES);
        PathMtuFound {
            upload: self.found(&self.upload, now),
            download: self.found(self.download.as_ref().unwrap_or(&idle), now),
        }
    }

    pub(super) fn interface_bytes(&self) -> u32 {
        self.upload.search.ceiling
    }

    fn searches(&self) -> impl Iterator<Item = &DirectionSearch> {
        std::iter::once(&self.upload).chain(&self.download)
    }

    fn account(&mut self, now: Timestamp) {
        while let Some(settled) = self.exchange.settled.pop_front() {
            let (trial, fate) = (settled.trial, settled.fate);
            if trial.mark == KERNEL_MTU {
                continue;
            }
            let (one, limit) = match trial.direction {
                Direction::Upload => (&mut self.upload, Limit::Local),
                Direction::Download => {
                    let Some(one) = &mut self.download else { continue };
                    (one, Limit::Peer)
                }
            };
            let is_control = one.search.low.is_some_and(|low| trial.size_bytes <= low);
            one.window.settle(now, &settled, is_control);
            match fate {
                ProbeFate::NotSent => one.paused_until = Some(now + PAUSE),
                ProbeFate::TooLong(_) if trial.direction == Direction::Upload => {
                    one.probes_sent = one.probes_sent.saturating_sub(1);
                    one.bytes_sent = one.bytes_sent.saturating_sub(trial.size_bytes.into());
                }
                _ => {}
            }
            one.search.settle(trial.mark, trial.size_bytes, fate, limit);
        }
    }

    fn check_bounds(&mut self, now: Timestamp) {
        if self.is_over() {
            return;
        }
        let received_at = self.exchange.last_received.unwrap_or(self.start);
        let silent = !self.exchange.has_cookie() && now.duration_since(received_at) >= PATIENCE;
        self.over =
            if let Some(reason) = self.exchange.refusal.as_deref().filter(|_| !self.exchange.has_cookie()) {
                Some(NoMtu::Refused { reason: reason.to_owned() })
            } else if silent || self.exchange.last_received.is_none() && self.refusals >= REFUSALS {
                let reason = self.last_refusal.clone();
                Some(reason.map_or(NoMtu::Silent, |reason| NoMtu::Unreachable { reason }))
            } else if now.duration_since(self.start) >= self.bounds.most_time
                || self.exchange.sent >= self.bounds.most_probes
            {
                Some(NoMtu::Silent)
            } else {
                None
            };
    }

    fn advance(&mut self, now: Timestamp) {
        let most_bytes = self.bounds.most_bytes;
        let mut spent = 0;
        for one in std::iter::once(&mut self.upload).chain(&mut self.download) {
            if one.search.verdict.is_none() && one.search.is_idle() {
                one.search.next_round();
                if one.search.unanswered_rounds > 0 {
                    self.exchange.discard_cookie(now);
                }
            }
            if one.search.verdict.is_some() && one.ended.is_none() {
                one.ended = Some(now);
            }
            let is_stuck = one.bytes_sent >= most_bytes && one.window.is_empty();
            spent += u32::from(is_stuck || one.search.verdict.is_some());
        }
        if self.download.is_none() && self.upload.search.has_sent_ceiling() {
            let (family, ceiling_bytes) = (self.exchange.parameters.family, self.upload.search.ceiling);
            self.download = Some(DirectionSearch::new(Direction::Download, family, ceiling_bytes));
        } else if self.download.is_some() && spent == 2 && !self.is_found() {
            self.over = Some(NoMtu::Stopped);
        }
    }

    fn trial(&mut self, now: Timestamp) -> Option<Outgoing> {
        let (most_bytes, tiny_bytes) = (self.bounds.most_bytes, tiny_bytes(self.exchange.parameters.family));
        for _ in 0..2 {
            self.download_next = !self.download_next;
            let one = if self.download_next { self.download.as_mut() } else { Some(&mut self.upload) };
            let Some(one) = one else { continue };
            if one.paused_until.is_some_and(|until| until <= now) {
                one.paused_until = None;
            }
            let Some((trial, is_planned)) = one.next(now, most_bytes, tiny_bytes) else { continue };
            let outgoing = self.exchange.send(now, trial)?;
            if is_planned {
                one.search.waiting.pop_front();
            }
            one.is_followed = !is_planned;
            one.window.sent(trial.size_bytes);
            one.probes_sent += 1;
            one.bytes_sent += u64::from(trial.size_bytes);
            return Some(outgoing);
        }
        None
    }

    fn found(&self, one: &DirectionSearch, now: Timestamp) -> DirectionFound {
        let search = &one.search;
        let mut icmp = one.icmp.clone();
        let found = self.verdict(one);
        let held = found.as_ref().ok().filter(|found| found.evidence != SizeEvidence::Unsettled);
        for report in &mut icmp {
            report.held = held.is_some_and(|found| found.mtu_bytes == report.mtu_bytes);
        }
        DirectionFound {
            found,
            icmp,
            peer_kernel_bytes: self.server_kernel_mtu(one),
            restarts: search.restarts,
            probes_sent: one.probes_sent,
            bytes_sent: one.bytes_sent,
            duration: one.ended.unwrap_or(now).duration_since(self.start),
            rtt: self.exchange.round_trip.median(),
            loss: search.loss.share(),
        }
    }

    fn verdict(&self, one: &DirectionSearch) -> Result<FoundMtu, NoMtu> {
        let search = &one.search;
        let floor_bytes = floor_bytes(self.exchange.parameters.family);
        let evidence = match search.verdict {
            Some(SizeVerdict::Lost) => SizeEvidence::DroppedSilently,
            Some(SizeVerdict::Limited(Limit::Local)) => SizeEvidence::LocalInterface,
            Some(SizeVerdict::Limited(Limit::Peer)) => SizeEvidence::PeerInterface,
            Some(SizeVerdict::BelowFloor) => return Err(NoMtu::BelowFloor { floor_bytes }),
            Some(SizeVerdict::Unstable) => return Err(NoMtu::Unstable),
            Some(SizeVerdict::Silent) => return Err(self.silence()),
            None if search.low.is_none() && search.restarts > 0 => return Err(NoMtu::Unstable),
            None => SizeEvidence::Unsettled,
        };
        let Some(mtu_bytes) = search.low else {
            return Err(self.over.clone().unwrap_or(NoMtu::Stopped));
        };
        let is_limited = matches!(evidence, SizeEvidence::LocalInterface | SizeEvidence::PeerInterface);
        // A smaller value in the server's kernel is outdated, but no black hole either.
        let kernel_mtu = self.server_kernel_mtu(one).filter(|mtu| *mtu <= mtu_bytes);
        let evidence = match (evidence, one.icmp.iter().find(|report| report.mtu_bytes == mtu_bytes)) {
            (SizeEvidence::DroppedSilently, Some(report)) => {
                SizeEvidence::Icmp { router: report.router, mtu_bytes }
            }
            (SizeEvidence::DroppedSilently, None) => kernel_mtu
                .map_or(SizeEvidence::DroppedSilently, |pmtu_bytes| SizeEvidence::PeerKernel { pmtu_bytes }),
            (evidence, _) => evidence,
        };
        Ok(FoundMtu {
            mtu_bytes,
            evidence,
            smallest_lost_bytes: search.smallest_lost().filter(|_| !is_limited),
            confidence: if is_limited { 1.0 } else { search.confidence() },
        })
    }

    fn server_kernel_mtu(&self, one: &DirectionSearch) -> Option<u32> {
        let is_download = one.direction == Direction::Download;
        self.exchange.server_kernel_mtu.filter(|mtu| is_download && *mtu > 0)
    }

    fn silence(&self) -> NoMtu {
        let answered = self.searches().any(|one| one.search.loss.answered > 0);
        match (&self.last_refusal, answered) {
            (Some(reason), _) => NoMtu::Unreachable { reason: reason.clone() },
            (None, false) if self.exchange.had_cookie => NoMtu::Unanswered,
            _ => NoMtu::Silent,
        }
    }
}

impl DatagramClient for Finder {
    fn poll(&mut self, now: Timestamp) -> Option<Outgoing> {
        self.exchange.expire(now);
        self.account(now);
        self.check_bounds(now);
        if self.is_over() {
            return None;
        }
        if let Some(hello) = self.exchange.hello(now) {
            return Some(hello);
        }
        if !self.exchange.has_cookie() {
            return None;
        }
        self.advance(now);
        if !self.is_found() {
            return self.trial(now);
        }
        if !self.is_asking() || !self.exchange.in_flight.is_empty() {
            return None;
        }
        self.kernel_mtu_requests += 1;
        let size_bytes = tiny_bytes(self.exchange.parameters.family);
        self.exchange.send(now, Trial { direction: Direction::Download, size_bytes, mark: KERNEL_MTU })
    }

    fn due(&self) -> Timestamp {
        let pauses = self.searches().filter_map(|one| one.paused_until);
        let end = self.start + self.bounds.most_time;
        self.exchange.due().into_iter().chain(pauses).chain([end]).min().unwrap_or(end)
    }

    fn received(&mut self, now: Timestamp, datagram: &[u8]) {
        self.exchange.received(now, datagram);
        self.account(now);
    }

    fn not_sent(&mut self, now: Timestamp, sequence: u32, why: Unsent) {
        self.exchange.not_sent(sequence, &why);
        if let Unsent::Failed { reason } = why {
            self.refused(reason);
        }
        self.account(now);
    }

    fn refused(&mut self, reason: String) {
        self.refusals += 1;
        self.last_refusal = Some(reason);
    }

    fn icmp(&mut self, _now: Timestamp, router: IpAddr, mtu_bytes: u32, quoted: &[u8]) {
        // A router may quote only eight bytes (RFC 792), which the kernel has already matched to the socket.
        let known = self.exchange.quoted_size(quoted);
        if known.is_none() && !quoted.is_empty() {
            return;
        }
        let report = IcmpReport { router, mtu_bytes, probe_bytes: known.unwrap_or(0), held: false };
        let icmp = &mut self.upload.icmp;
        let is_new = !icmp.iter().any(|one| one.router == router && one.mtu_bytes == mtu_bytes);
        if is_new && icmp.len() < MOST_ICMP {
            icmp.push(report);
            self.upload.search.hint(mtu_bytes, known.unwrap_or(u32::MAX));
        }
    }
}

/// Limit of the bytes in flight: it grows with answers, and shrinks with losses and queueing delay.
#[derive(Debug)]
pub(super) struct ProbeWindow {
    bytes: u64,
    in_flight_bytes: u64,
    shrunk_at: Option<Timestamp>,
}

impl Default for ProbeWindow {
    fn default() -> Self {
        Self { bytes: FIRST_BYTES, in_flight_bytes: 0, shrunk_at: None }
    }
}

impl ProbeWindow {
    /// Whether a packet of `size` may be sent now; one may always be in flight.
    pub(super) fn admits(&self, size: u32) -> bool {
        self.in_flight_bytes == 0 || self.in_flight_bytes + u64::from(size) <= self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_flight_bytes == 0
    }

    pub(super) fn sent(&mut self, size: u32) {
        self.in_flight_bytes += u64::from(size);
    }

    /// Records the fate of a packet; `control`: its size is known to pass.
    pub(super) fn settle(&mut self, now: Timestamp, settled: &Settled, control: bool) {
        let size = u64::from(settled.trial.size_bytes);
        if settled.fate == ProbeFate::PassedLate {
            return;
        }
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(size);
        match settled.fate {
            ProbeFate::Passed if settled.delayed.is_none_or(|delayed| delayed < SHORT_QUEUE) => {
                self.bytes = (self.bytes + size).min(MOST_BYTES);
            }
            ProbeFate::Passed if settled.delayed.is_some_and(|delayed| delayed > LONG_QUEUE) => {
                self.shrink(now, 7, 8);
            }
            ProbeFate::Lost if control => self.shrink(now, 1, 2),
            _ => {}
        }
    }

    fn shrink(&mut self, now: Timestamp, times: u64, over: u64) {
        if self.shrunk_at.is_none_or(|at| now.duration_since(at) > ONCE) {
            self.bytes = (self.bytes * times / over).max(LEAST_BYTES);
            self.shrunk_at = Some(now);
        }
    }
}
