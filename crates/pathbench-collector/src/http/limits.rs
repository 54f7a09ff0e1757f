//! The bound of requests per client and time.

use pathbench_record::network::Client;
use pathbench_record::time::Timestamp;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Clients that are remembered; beyond them, those with full buckets are forgotten first.
const MOST_CLIENTS: usize = 65_536;

/// A token bucket for each client: an IPv4 address or an IPv6 /64.
#[derive(Debug)]
pub struct RateLimit {
    /// Requests per second; 0 for no limit.
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

    /// Takes a request of `address` at the monotonic time `now`, or returns the time until the next one.
    pub fn take(&self, address: IpAddr, now: Timestamp) -> Result<(), Duration> {
        if self.rate == 0.0 {
            return Ok(());
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let client = Client::from(address);
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
        if bucket.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.tokens) / self.rate));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

impl Bucket {
    fn filled(&self, now: Timestamp, rate: f64, burst: f64) -> f64 {
        (self.tokens + now.duration_since(self.at).as_secs_f64() * rate).min(burst)
    }
}
