//! Handing out the records of tests: bounded in time, in number and in bytes.

use super::session::{end_in_order, refuse};
use super::{Client, Shared};
use crate::protocol::{Fetch, Frame, Refusal, RefusalCode, VERSION};
use crate::stream::{Channel, Wait, lock};
use pathbench_record::test_id::TestId;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

/// Records that are handed out at the same time, to one client and to all.
pub(super) const MOST_PER_CLIENT: usize = 4;
pub(super) const MOST: usize = 32;

/// How long the end of a test that a client gave up may take before the client is asked to come again.
const END_TIMEOUT: Duration = Duration::from_secs(2);
const END_INTERVAL: Duration = Duration::from_millis(5);

/// A client that reads its record more slowly than this is cut off.
const LEAST_BYTES_PER_SECOND: u64 = 64 * 1024;

/// How soon a client that is turned away for now may come again.
const COME_AGAIN_MS: u64 = 1000;

#[derive(Debug, Default)]
pub(super) struct FetchSlots {
    held: Mutex<HashMap<Client, usize>>,
}

#[derive(Debug)]
struct FetchSlot<'a> {
    slots: &'a FetchSlots,
    client: Client,
}

impl FetchSlots {
    fn acquire(&self, client: Client) -> Option<FetchSlot<'_>> {
        let mut held = lock(&self.held);
        if held.values().sum::<usize>() >= MOST {
            return None;
        }
        let own = held.entry(client).or_default();
        if *own >= MOST_PER_CLIENT {
            return None;
        }
        *own += 1;
        Some(FetchSlot { slots: self, client })
    }
}

impl Drop for FetchSlot<'_> {
    fn drop(&mut self) {
        let mut held = lock(&self.slots.held);
        if let Some(own) = held.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.client);
            }
        }
    }
}

pub(super) fn serve_fetch(shared: &Shared, channel: &mut Channel<'_>, fetch: Fetch) {
    if fetch.version != VERSION {
        let message = format!("it speaks version {VERSION} of the test protocol");
        return refuse(shared, channel, Refusal::new(RefusalCode::Unsupported, message, None));
    }
    let clock = shared.clock.as_ref();
    let deadline = clock.now() + END_TIMEOUT;
    let waits = || fetch.end_test && clock.now() < deadline && !channel.connection().is_aborted();
    while shared.registry.is_running(fetch.test) == Some(true) && waits() {
        shared.registry.end(fetch.test);
        clock.sleep_until(clock.now() + END_INTERVAL);
    }
    match shared.registry.is_running(fetch.test) {
        None => {
            if channel.write(&Frame::NotFound, &mut shared.handshake_wait()).is_ok() {
                end_in_order(channel);
            }
        }
        Some(true) => {
            refuse(
                shared,
                channel,
                turn_away("the test still runs; its record is complete with it", COME_AGAIN_MS),
            );
        }
        Some(false) => match hand_out(shared, channel, fetch.test) {
            Ok(()) => end_in_order(channel),
            Err(Some(refusal)) => refuse(shared, channel, refusal),
            Err(None) => {}
        },
    }
}

/// Writes the record of a test that is over; the error is a refusal, where it makes sense to write one.
fn hand_out(shared: &Shared, channel: &Channel<'_>, test: TestId) -> Result<(), Option<Refusal>> {
    let Some(_slot) = shared.fetches.acquire(Client::from(channel.connection().peer_addr().ip())) else {
        return Err(Some(turn_away("it hands out as many records as it does at a time", COME_AGAIN_MS)));
    };
    let now = shared.clock.now();
    let json = shared
        .registry
        .hand_out(now, test)
        .map_err(|again_ms| Some(turn_away("it has handed this record out many times already", again_ms)))?;
    let time = Duration::from_secs(json.len() as u64 / LEAST_BYTES_PER_SECOND);
    let patience = shared.options.limits.handshake_timeout;
    let mut wait = Wait::within(now, patience + time, "take the record").or_silence(patience);
    channel.write_record(&json, &mut wait).map_err(|_| None)
}

fn turn_away(message: &str, retry_after_ms: u64) -> Refusal {
    Refusal::new(RefusalCode::Busy, message, Some(retry_after_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn one_client_and_all_together_have_so_many_fetches_and_give_them_back() {
        let slots = FetchSlots::default();
        let client = |last| Client::from(std::net::IpAddr::from(Ipv4Addr::new(192, 0, 2, last)));
        let own: Vec<_> = (0..MOST_PER_CLIENT).filter_map(|_| slots.acquire(client(1))).collect();
        assert_eq!(own.len(), MOST_PER_CLIENT);
        assert!(slots.acquire(client(1)).is_none());
        let others: Vec<_> = (2..100).filter_map(|last| slots.acquire(client(last))).collect();
        assert_eq!(own.len() + others.len(), MOST);
        drop(own);
        assert!(slots.acquire(client(1)).is_some());
        drop(others);
        assert!(lock(&slots.held).is_empty());
    }
}
