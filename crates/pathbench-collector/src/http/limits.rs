//! The bounds of a client over time: requests a second; results, bytes and new agents a day.

use crate::refusal::Refusal;
use pathbench_record::network::Client;
use pathbench_record::time::Timestamp;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;

/// Clients that are remembered; beyond them, those with full buckets are forgotten first.
const MOST_CLIENTS: usize = 65_536;

/// A token bucket for each client: an IPv4 address or an IPv6 /64.
#[derive(Debug)]
pub struct RateLimit {
    /// Per second; 0 for no limit.
    rate: f64,
    burst: f64,
    buckets: Mutex<HashMap<Client, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Timestamp,
}

impl RateLimit {
    pub fn new(rate: u32) -> Self {
        let rate = f64::from(rate);
        Self { rate, burst: rate * 4.0, buckets: Mutex::new(HashMap::new()) }
    }

    /// As many in a day, at any time of it.
    pub fn daily(most: u64) -> Self {
        const DAY_S: f64 = 86_400.0;
        let burst = most as f64;
        Self { rate: burst / DAY_S, burst, buckets: Mutex::new(HashMap::new()) }
    }

    /// Takes a request of `address` at the monotonic time `now`, or returns the time until the next one.
    pub fn take(&self, address: IpAddr, now: Timestamp) -> Result<(), Duration> {
        self.take_many(Client::from(address), 1, now)
    }

    /// Gives back some of those that `client` took.
    pub fn give_back(&self, client: Client, count: u64) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get_mut(&client) {
            bucket.tokens = (bucket.tokens + count as f64).min(self.burst);
        }
    }

    /// Takes all of `count`, or none. More than a burst has its time when the burst is whole.
    pub fn take_many(&self, client: Client, count: u64, now: Timestamp) -> Result<(), Duration> {
        if self.rate == 0.0 {
            return Ok(());
        }
        let count = count as f64;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST_CLIENTS && !buckets.contains_key(&client) {
            let (rate, burst) = (self.rate, self.burst);
            buckets.retain(|_, bucket| bucket.filled(now, rate, burst) < burst);
            if buckets.len() >= MOST_CLIENTS {
                return Err(Duration::from_secs(1));
            }
        }
        let bucket = buckets.entry(client).or_insert(Bucket { tokens: self.burst, at: now });
        bucket.tokens = bucket.filled(now, self.rate, self.burst);
        bucket.at = now;
        let needed = count.min(self.burst);
        if bucket.tokens < needed {
            return Err(Duration::from_secs_f64((needed - bucket.tokens) / self.rate));
        }
        bucket.tokens -= count;
        Ok(())
    }
}

/// The results, bytes and agents that one client may leave in the database in a day.
#[derive(Debug)]
pub struct Quotas {
    results: RateLimit,
    /// Of summaries and raw parts, each with [`RESULT_BYTES`] for its row.
    bytes: RateLimit,
    agents: RateLimit,
}

/// The row of a result with its facts, its indexes and the rest of its page.
const RESULT_BYTES: u64 = 16 << 10;

/// The quota that a client has used up, and the time until it has some again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("your address has submitted its {what} of a day")]
pub struct QuotaUsed {
    what: &'static str,
    pub wait: Duration,
}

impl From<QuotaUsed> for Refusal {
    fn from(used: QuotaUsed) -> Self {
        Self::too_many(&used, used.wait)
    }
}

/// Results and bytes that a client took from its quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    client: Client,
    results: u64,
    bytes: u64,
}

impl Quotas {
    /// Of a client in a day; 0 for no limit.
    pub fn new(results: u64, bytes: u64, agents: u64) -> Self {
        Self {
            results: RateLimit::daily(results),
            bytes: RateLimit::daily(bytes),
            agents: RateLimit::daily(agents),
        }
    }

    /// Takes the place of results with together `bytes`.
    pub fn take(
        &self,
        client: Client,
        (results, bytes): (u64, u64),
        now: Timestamp,
    ) -> Result<Taken, QuotaUsed> {
        let bytes = bytes + results * RESULT_BYTES;
        self.results.take_many(client, results, now).map_err(|wait| QuotaUsed { what: "results", wait })?;
        if let Err(wait) = self.bytes.take_many(client, bytes, now) {
            self.results.give_back(client, results);
            return Err(QuotaUsed { what: "bytes", wait });
        }
        Ok(Taken { client, results, bytes })
    }

    /// Gives back the part of `taken` for results that were not stored.
    pub fn give_back(&self, taken: Taken, not_stored: u64) {
        let Taken { client, results, bytes } = taken;
        self.results.give_back(client, not_stored);
        self.bytes.give_back(client, (bytes * not_stored).checked_div(results).unwrap_or(0));
    }

    /// Takes the place of a new agent.
    pub fn take_agent(&self, client: Client, now: Timestamp) -> Result<(), QuotaUsed> {
        self.agents.take_many(client, 1, now).map_err(|wait| QuotaUsed { what: "new agents", wait })
    }
}

impl Bucket {
    fn filled(&self, now: Timestamp, rate: f64, burst: f64) -> f64 {
        (self.tokens + now.duration_since(self.at).as_secs_f64() * rate).min(burst)
    }
}
