//! The limits of TCP's automatic buffers beside a bandwidth-delay product.

use crate::facts::HostFacts;
use pathbench_record::text::{plain, scaled};

pub(crate) const RECEIVE: &str = "net.ipv4.tcp_rmem";
pub(crate) const SEND: &str = "net.ipv4.tcp_wmem";

/// The three values of `net.ipv4.tcp_rmem` and `net.ipv4.tcp_wmem` in bytes: smallest, initial and largest buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferLimits {
    pub receive: [u64; 3],
    pub send: [u64; 3],
}

impl BufferLimits {
    /// `None` if they could not be read.
    pub fn from_facts(facts: &HostFacts) -> Option<Self> {
        let values = |key: &str| -> Option<[u64; 3]> {
            let words = facts.setting(key)?.split_ascii_whitespace();
            let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            numbers.try_into().ok()
        };
        Some(Self { receive: values(RECEIVE)?, send: values(SEND)? })
    }

    /// The largest receive window: half of a buffer, the rest is the overhead of packets (`tcp_adv_win_scale` 1).
    pub const fn window_bytes(&self) -> u64 {
        self.receive[2] / 2
    }

    /// The command that makes the receive window hold this product, unless it does.
    pub fn receive_step(&self, product: u64) -> Option<String> {
        (self.window_bytes() < product).then(|| step(RECEIVE, self.receive, product))
    }

    /// The command that makes the send buffer hold this product, unless it does.
    pub fn send_step(&self, product: u64) -> Option<String> {
        (self.send[2] < product).then(|| step(SEND, self.send, product))
    }
}

fn step(key: &str, [smallest, initial, _]: [u64; 3], product: u64) -> String {
    let needed = product.saturating_mul(2).checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX);
    // The kernel keeps these limits as `int`.
    let needed = needed.min(i32::MAX as u64);
    format!("sysctl -w {key}='{smallest} {initial} {needed}'")
}

pub(crate) fn in_bytes(bytes: u64) -> String {
    plain(&scaled(bytes as f64, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB")]))
}

pub(crate) fn rate(bps: u64) -> String {
    plain(&scaled(bps as f64, &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")]))
}
