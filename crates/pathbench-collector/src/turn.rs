//! Turns at work that few can do at a time: shared fairly between clients, by the time that they have used.
//!
//! One client has a part of the turns at the same time, so that a turn is free for others. Of those who wait, the client
//! with the fewest turns is next, then the one that used the least time of late.

use pathbench_record::network::Client;
use pathbench_record::time::{SharedClock, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Used time counts half after this time.
const HALF_LIFE: Duration = Duration::from_secs(10);

/// Requests that wait; of one client, [`MOST_WAITING_OF_CLIENT`].
const MOST_WAITING: usize = 2048;
const MOST_WAITING_OF_CLIENT: usize = 256;

/// Clients that are remembered. The time of those that used least is forgotten first.
const MOST_CLIENTS: usize = 4096;

/// The turns of one kind of work.
#[derive(Debug)]
pub struct Turns {
    most: usize,
    most_of_client: usize,
    clock: SharedClock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    clients: HashMap<Client, Usage>,
    /// In the order of their arrival.
    waiting: Vec<Waiting>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    taken: usize,
    waiting: usize,
    used_s: f64,
    at: Timestamp,
}

#[derive(Debug)]
struct Waiting {
    client: Client,
    turn: oneshot::Sender<ClientTurn>,
}

impl Usage {
    /// The used time with its decay.
    fn used_s(&self, now: Timestamp) -> f64 {
        let halves = now.duration_since(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.used_s * (-halves).exp2()
    }
}

impl State {
    /// Removes those that wait for nothing any more.
    fn sweep(&mut self) {
        let clients = &mut self.clients;
        self.waiting.retain(|one| {
            let is_gone = one.turn.is_closed();
            if is_gone && let Some(usage) = clients.get_mut(&one.client) {
                usage.waiting -= 1;
            }
            !is_gone
        });
    }
}

/// A turn, given back on drop.
#[derive(Debug)]
pub struct ClientTurn {
    turns: Arc<Turns>,
    client: Client,
    begun: Timestamp,
}

/// No turn in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTurn;

impl Turns {
    pub fn new(most: usize, most_of_client: usize, clock: SharedClock) -> Arc<Self> {
        Arc::new(Self { most, most_of_client, clock, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn of `client`, which waits for at most `patience`.
    pub async fn take(self: &Arc<Self>, client: Client, patience: Duration) -> Result<ClientTurn, NoTurn> {
        let receiver = {
            let mut state = self.state();
            state.sweep();
            let usage = state.clients.get(&client).copied().unwrap_or_default();
            if state.waiting.len() >= MOST_WAITING || usage.waiting >= MOST_WAITING_OF_CLIENT {
                return Err(NoTurn);
            }
            let (turn, receiver) = oneshot::channel();
            state.waiting.push(Waiting { client, turn });
            state.clients.entry(client).or_default().waiting += 1;
            receiver
        };
        self.grant();
        match tokio::time::timeout(patience, receiver).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(NoTurn),
        }
    }

    /// Gives the free turns to those who wait.
    fn grant(self: &Arc<Self>) {
        while let Some((waiting, turn)) = self.next() {
            // A receiver that has gone meanwhile drops its turn, which is free again.
            drop(waiting.turn.send(turn));
        }
    }

    fn next(self: &Arc<Self>) -> Option<(Waiting, ClientTurn)> {
        let now = self.clock.now();
        let mut state = self.state();
        if state.taken >= self.most {
            return None;
        }
        state.sweep();
        let of = |one: &Waiting| state.clients.get(&one.client).copied().unwrap_or_default();
        let may = |(_, one): &(usize, &Waiting)| of(one).taken < self.most_of_client;
        let rank = |one: &Waiting| {
            let usage = of(one);
            (usage.taken, usage.used_s(now))
        };
        let candidates = state.waiting.iter().enumerate().filter(may);
        let next = candidates.min_by(|(_, one), (_, other)| {
            let ((taken, used_s), (other_taken, other_used_s)) = (rank(one), rank(other));
            taken.cmp(&other_taken).then(used_s.total_cmp(&other_used_s))
        });
        let index = next.map(|(index, _)| index)?;
        let waiting = state.waiting.remove(index);
        state.taken += 1;
        let usage = state.clients.entry(waiting.client).or_default();
        usage.taken += 1;
        usage.waiting -= 1;
        let turn = ClientTurn { turns: Arc::clone(self), client: waiting.client, begun: now };
        Some((waiting, turn))
    }

    fn give_back(self: &Arc<Self>, client: Client, begun: Timestamp) {
        let now = self.clock.now();
        let mut state = self.state();
        state.taken -= 1;
        if let Some(usage) = state.clients.get_mut(&client) {
            usage.taken -= 1;
            usage.used_s = usage.used_s(now) + now.duration_since(begun).as_secs_f64();
            usage.at = now;
        }
        if state.clients.len() > MOST_CLIENTS {
            forget(&mut state.clients, now);
        }
        drop(state);
        self.grant();
    }
}

/// Forgets the idle clients that used less than the median of the idle ones.
fn forget(clients: &mut HashMap<Client, Usage>, now: Timestamp) {
    let is_idle = |usage: &Usage| usage.taken + usage.waiting == 0;
    let mut used: Vec<f64> =
        clients.values().filter(|usage| is_idle(usage)).map(|usage| usage.used_s(now)).collect();
    used.sort_by(f64::total_cmp);
    let Some(median) = used.get(used.len() / 2).copied() else { return };
    clients.retain(|_, usage| !is_idle(usage) || usage.used_s(now) > median);
}

impl Drop for ClientTurn {
    fn drop(&mut self) {
        self.turns.give_back(self.client, self.begun);
    }
}
