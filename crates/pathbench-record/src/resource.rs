//! The resources of one end of a test: the CPU time of its threads, and the limits of its TCP buffers.

use serde::{Deserialize, Serialize};

/// Name of the limits of receive buffers.
pub const RECEIVE_BUFFERS: &str = "net.ipv4.tcp_rmem";
/// Name of the limits of send buffers.
pub const SEND_BUFFERS: &str = "net.ipv4.tcp_wmem";

/// The three values of `net.ipv4.tcp_rmem` and `net.ipv4.tcp_wmem` in bytes: smallest, initial and largest buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferLimits {
    pub receive: [u64; 3],
    pub send: [u64; 3],
}

impl BufferLimits {
    /// The limits in the values of both settings; `None` if either has another form.
    pub fn parse(receive: &str, send: &str) -> Option<Self> {
        let values = |text: &str| -> Option<[u64; 3]> {
            let numbers: Vec<u64> =
                text.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
            numbers.try_into().ok()
        };
        Some(Self { receive: values(receive)?, send: values(send)? })
    }

    /// The largest receive window: half of a buffer, the rest is the overhead of packets (`tcp_adv_win_scale` 1).
    pub const fn window_bytes(&self) -> u64 {
        self.receive[2] / 2
    }

    /// The command that makes the receive window hold this product, unless it does.
    pub fn receive_step(&self, product: u64) -> Option<String> {
        (self.window_bytes() < product).then(|| step(RECEIVE_BUFFERS, self.receive, product))
    }

    /// The command that makes the send buffer hold this product, unless it does.
    pub fn send_step(&self, product: u64) -> Option<String> {
        (self.send[2] < product).then(|| step(SEND_BUFFERS, self.send, product))
    }
}

fn step(key: &str, [smallest, initial, _]: [u64; 3], product: u64) -> String {
    let needed = product.saturating_mul(2).checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX);
    // The kernel keeps these limits as `int`.
    let needed = needed.min(i32::MAX as u64);
    format!("sysctl -w {key}='{smallest} {initial} {needed}'")
}

/// CPU time of one thread during its part of a test (`/proc/PID/task/TID/schedstat`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// Time on a CPU.
    pub ran_us: u64,
    /// Time in which the thread was ready and other threads had the CPUs.
    pub waited_us: u64,
    /// Length of the part.
    pub measured_us: u64,
}

impl ThreadUse {
    /// Fraction of the time in which the thread ran, and in which it was ready but did not run.
    pub fn shares(&self) -> [f64; 2] {
        let whole = self.measured_us.max(1) as f64;
        [self.ran_us, self.waited_us].map(|part| (part as f64 / whole).min(1.0))
    }
}

/// CPU time of all threads of a test at one end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuUse {
    pub ran_us: u64,
    /// The thread that ran or was ready to run for the largest fraction of its time.
    pub busiest: ThreadUse,
    /// Part of the CPU time of this end's machine that its hypervisor gave to other machines; absent where unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_percent: Option<u32>,
}

impl CpuUse {
    /// `None` without a thread.
    pub fn from_threads(threads: &[ThreadUse]) -> Option<Self> {
        let single = |&busiest: &ThreadUse| Self { ran_us: busiest.ran_us, busiest, stolen_percent: None };
        threads.iter().map(single).reduce(Self::and)
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let demand = |one: &Self| one.busiest.shares().iter().sum::<f64>();
        let busiest = if demand(&other) > demand(&self) { other.busiest } else { self.busiest };
        let stolen_percent = self.stolen_percent.max(other.stolen_percent);
        Self { ran_us: self.ran_us.saturating_add(other.ran_us), busiest, stolen_percent }
    }
}
