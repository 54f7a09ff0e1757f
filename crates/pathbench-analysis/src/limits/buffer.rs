//! The largest TCP buffer of a run: that of the kernel's tuning, or of the size that the run requests; and its remedy.

use super::input::LimitInput;
use pathbench_record::end::EndRecord;
use pathbench_record::resource::BufferLimits;

/// Under a limit, the rate and the RTT are lower bounds: the paths do not show their rates, and queues are not full.
const MARGIN: f64 = 4.0;
/// At least so many times the present limit, because a limited connection does not show the rate of its paths.
const GROWTH: u64 = 8;
/// The kernel's largest receive buffer where nothing is configured, on machines with more than 768 MiB (`tcp_init` in
/// net/ipv4/tcp.c scales it by memory; 32 MiB since Linux 6.16).
const DEFAULT_RECEIVE_BYTES: u64 = 6 << 20;
/// As above, of send buffers.
const DEFAULT_SEND_BYTES: u64 = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Receive,
    Send,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer {
    kind: Kind,
    /// The kernel's overhead included.
    pub(super) largest: u64,
    requested: Option<u64>,
    limits: BufferLimits,
}

/// The receiver's buffer.
pub(super) fn receive(input: &LimitInput<'_>) -> Option<Buffer> {
    Buffer::new(Kind::Receive, input.receiver?, input.requested.receive)
}

/// The sender's buffer.
pub(super) fn send(input: &LimitInput<'_>) -> Option<Buffer> {
    Buffer::new(Kind::Send, input.sender?, input.requested.send)
}

/// The bandwidth-delay product in bytes.
pub(super) fn product(rate_bps: f64, rtt_ms: f64) -> u64 {
    (MARGIN * rate_bps / 8e3 * rtt_ms) as u64
}

impl Buffer {
    fn new(kind: Kind, end: &EndRecord, requested: Option<u64>) -> Option<Self> {
        let limits = end.tcp_buffers?;
        let largest = match (kind, requested) {
            (Kind::Receive, None) => limits.receive[2],
            (Kind::Send, None) => limits.send[2],
            // The kernel's word: net.core.rmem_max and wmem_max limit the requested size.
            (Kind::Receive, Some(_)) => end.streams.first()?.in_force.receive_buffer_bytes,
            (Kind::Send, Some(_)) => end.streams.first()?.in_force.send_buffer_bytes,
        };
        Some(Self { kind, largest, requested, limits })
    }

    const fn option(&self) -> &'static str {
        match self.kind {
            Kind::Receive => "receive_buffer",
            Kind::Send => "send_buffer",
        }
    }

    /// The setting and its value.
    pub(super) fn words(&self) -> String {
        let kilobytes = self.largest as f64 / 1e3;
        match (self.requested, self.kind) {
            (Some(_), _) => {
                format!("`{}` of the pattern sets the buffer to {kilobytes:.0} kB", self.option())
            }
            (None, Kind::Receive) => format!("net.ipv4.tcp_rmem limits the buffer to {kilobytes:.0} kB"),
            (None, Kind::Send) => format!("net.ipv4.tcp_wmem limits the buffer to {kilobytes:.0} kB"),
        }
    }

    /// The step after which the buffer holds the product, with room for the rate that the limit hides.
    pub(super) fn remedy(&self, product: u64) -> Option<String> {
        let present = self.largest.saturating_mul(GROWTH) / 2;
        let default = match self.kind {
            Kind::Receive => DEFAULT_RECEIVE_BYTES,
            Kind::Send => DEFAULT_SEND_BYTES,
        };
        let product = product.max(present).max(default / 2);
        match (self.requested, self.kind) {
            // Without the option, the kernel tunes the buffer up to its limit.
            (Some(_), _) => Some(self.requested_step(product)),
            (None, Kind::Receive) => self.limits.receive_step(product),
            (None, Kind::Send) => self.limits.send_step(product),
        }
    }

    fn requested_step(&self, product: u64) -> String {
        let mebibytes = product.div_ceil(1 << 20);
        let is_cut = self.requested.is_some_and(|bytes| self.largest < bytes.saturating_mul(2));
        if is_cut {
            let limit = if self.kind == Kind::Receive { "net.core.rmem_max" } else { "net.core.wmem_max" };
            format!("leave out `{}` of the pattern, whose size {limit} limits", self.option())
        } else {
            format!("set `{}` of the pattern to \"{mebibytes}MiB\", or leave it out", self.option())
        }
    }
}
