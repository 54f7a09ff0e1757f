//! The bytes that a server transfers in a day, for one client and for all.

use super::options::ServerLimits;
use pathbench_record::network::Client;
use pathbench_record::text::duration;
use pathbench_record::time::Timestamp;
use std::collections::HashMap;
use std::time::Duration;

/// A day begins with the first test that is counted in it.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Clients whose bytes are counted one by one. Beyond that, the client with the fewest bytes is forgotten.
const MOST_CLIENTS: usize = 16_384;

#[derive(Debug, Clone, Copy)]
struct DayCount {
    since: Timestamp,
    bytes: u64,
}

impl DayCount {
    fn is_over(self, now: Timestamp) -> bool {
        now.duration_since(self.since) >= DAY
    }
}

/// The quota is exceeded, for this long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QuotaExceeded {
    pub(super) message: String,
    pub(super) wait: Duration,
}

/// The bytes of ended tests since the beginning of the day. Bytes of the limits that are not set are not counted.
#[derive(Debug)]
pub(super) struct DailyBytes {
    most: Option<u64>,
    most_per_client: Option<u64>,
    all: Option<DayCount>,
    clients: HashMap<Client, DayCount>,
}

impl DailyBytes {
    pub(super) fn new(limits: &ServerLimits) -> Self {
        Self {
            most: limits.max_bytes_per_day,
            most_per_client: limits.max_client_bytes_per_day,
            all: None,
            clients: HashMap::new(),
        }
    }

    /// Whether a client may begin a test while the running ones have transferred `running` bytes: its own, and all.
    pub(super) fn check(
        &self,
        now: Timestamp,
        client: Client,
        running: (u64, u64),
    ) -> Result<(), QuotaExceeded> {
        let own = self.clients.get(&client).copied();
        exceeds("this client has", self.most_per_client, own, running.0, now)?;
        exceeds("its clients have", self.most, self.all, running.1, now)
    }

    pub(super) fn charge(&mut self, now: Timestamp, client: Client, bytes: u64) {
        if self.most.is_some() {
            add(self.all.get_or_insert(DayCount { since: now, bytes: 0 }), now, bytes);
        }
        if self.most_per_client.is_none() || bytes == 0 {
            return;
        }
        if !self.clients.contains_key(&client) && self.clients.len() >= MOST_CLIENTS {
            self.clients.retain(|_, count| !count.is_over(now));
            let least = self.clients.iter().min_by_key(|(_, count)| count.bytes).map(|(client, _)| *client);
            if let Some(least) = least.filter(|_| self.clients.len() >= MOST_CLIENTS) {
                self.clients.remove(&least);
            }
        }
        add(self.clients.entry(client).or_insert(DayCount { since: now, bytes: 0 }), now, bytes);
    }
}

fn add(count: &mut DayCount, now: Timestamp, bytes: u64) {
    if count.is_over(now) {
        *count = DayCount { since: now, bytes: 0 };
    }
    count.bytes = count.bytes.saturating_add(bytes);
}

fn exceeds(
    who: &str,
    most: Option<u64>,
    count: Option<DayCount>,
    running: u64,
    now: Timestamp,
) -> Result<(), QuotaExceeded> {
    let Some(most) = most else { return Ok(()) };
    let count = count.filter(|count| !count.is_over(now)).unwrap_or(DayCount { since: now, bytes: 0 });
    let bytes = count.bytes.saturating_add(running);
    if bytes < most {
        return Ok(());
    }
    let wait = (count.since + DAY).duration_since(now);
    let message = format!(
        "{who} transferred {bytes} bytes in this day; this server allows {most}; try again in {}",
        duration(wait)
    );
    Err(QuotaExceeded { message, wait })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    const HOUR: u64 = 3600;

    fn time_at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000_000 + seconds * 1_000_000_000)
    }

    fn client(number: u16) -> Client {
        Client::from(IpAddr::from([0x2001, 0xdb8, number, 1, 0, 0, 0, 1]))
    }

    fn quota(most: Option<u64>, most_per_client: Option<u64>) -> DailyBytes {
        DailyBytes::new(&ServerLimits {
            max_bytes_per_day: most,
            max_client_bytes_per_day: most_per_client,
            ..ServerLimits::default()
        })
    }

    #[test]
    fn a_client_waits_for_the_end_of_its_day() {
        let mut quota = quota(None, Some(1000));
        quota.charge(time_at(0), client(1), 600);
        quota.charge(time_at(HOUR), client(1), 399);
        assert_eq!(quota.check(time_at(HOUR), client(1), (0, 0)), Ok(()));
        let refusal =
            quota.check(time_at(HOUR), client(1), (1, 0)).expect_err("bytes of running tests count");
        assert_eq!(refusal.wait, Duration::from_secs(23 * HOUR));
        assert!(refusal.message.contains("this client has transferred 1000 bytes"), "{}", refusal.message);
        assert!(refusal.message.contains("try again in 23 h"), "{}", refusal.message);
        assert_eq!(quota.check(time_at(HOUR), client(2), (0, 5000)), Ok(()), "another client");
        assert_eq!(quota.check(time_at(24 * HOUR), client(1), (0, 0)), Ok(()), "the next day");
        quota.charge(time_at(25 * HOUR), client(1), 1000);
        let refusal = quota.check(time_at(26 * HOUR), client(1), (0, 0)).expect_err("the next day's limit");
        assert_eq!(refusal.wait, Duration::from_secs(23 * HOUR));
    }

    #[test]
    fn many_clients_share_the_quota_of_the_server() {
        let mut quota = quota(Some(1000), None);
        (0..10).for_each(|number| quota.charge(time_at(0), client(number), 100));
        let refusal = quota.check(time_at(60), client(11), (0, 0)).expect_err("the server's limit");
        assert!(refusal.message.contains("its clients have transferred 1000 bytes"), "{}", refusal.message);
        assert!(quota.clients.is_empty(), "no quota per client, no count");
    }

    #[test]
    fn the_memory_of_clients_is_bounded_and_keeps_those_with_the_most_bytes() {
        let mut quota = quota(None, Some(1000));
        quota.charge(time_at(0), client(0), 1000);
        for number in 1..=20_000 {
            quota.charge(time_at(1), client(number), 1);
        }
        assert_eq!(quota.clients.len(), MOST_CLIENTS);
        assert!(
            quota.check(time_at(2), client(0), (0, 0)).is_err(),
            "the count of the client at its limit is kept"
        );
    }
}
