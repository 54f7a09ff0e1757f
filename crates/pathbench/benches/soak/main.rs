//! The test server under 216 clients over loopback, honest and hostile ones at the same time.
//!
//! `cargo bench --bench soak [-- SECONDS]` (1800 by default). It ends with an error when an honest test fails, when the
//! server's memory grows after the first sixth of the time, when a slot is still taken at the end, or when the server
//! does not stop with exit code 0.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the benchmark prints its results")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod flood;
mod honest;
mod hostile;
mod server;

use pathbench_record::statistics::median;
use pathbench_record::time::{Clock as _, Timestamp};
use pathbench_testkit::MonotonicClock;
use server::{Reading, ServerProcess};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Honest and hostile clients, five kinds by turns.
const CLIENTS: u32 = 200;

/// Clients that have many addresses each.
const FLOODING_CLIENTS: u32 = 16;

/// The limits of the server. A network may have half of the tests; the others need the rest at the same time.
const LIMITS: [&str; 6] =
    ["--max-tests", "400", "--max-connections", "2048", "--max-client-bytes-per-day", "3G"];

/// How often the server's memory is read.
const READING_INTERVAL: Duration = Duration::from_secs(5);

/// The longest that the server may take to release the resources of lost clients: a test's patience and the time for
/// its record.
const RELEASE_TIME: Duration = Duration::from_secs(180);

/// Memory is flat when the last sixth's median exceeds the second sixth's by no more than this share...
const GROWTH_SHARE: f64 = 0.10;

/// ...and by no more than this, which an allocator's fragmentation can explain.
const GROWTH_BYTES: f64 = 8e6;

/// Shared by all clients of a soak.
struct Soak {
    server: ServerProcess,
    /// First packets of QUIC clients.
    flights: Vec<Vec<u8>>,
    begun: Timestamp,
    ends: Timestamp,
    over: AtomicBool,
    counts: Mutex<BTreeMap<String, u64>>,
    failures: Mutex<Vec<String>>,
}

impl Soak {
    fn runs(&self) -> bool {
        !self.over.load(Ordering::Relaxed) && MonotonicClock.now() < self.ends
    }

    /// Sleeps, but not beyond the end.
    fn pause(&self, time: Duration) {
        let now = MonotonicClock.now();
        MonotonicClock.sleep_until((now + time).min(self.ends));
    }

    fn count(&self, what: &str) {
        let mut counts = self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *counts.entry(what.to_owned()).or_default() += 1;
    }

    fn fail(&self, what: String) {
        eprintln!("FAILED: {what}");
        self.failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(what);
    }
}

/// Pseudo-random numbers (xorshift64*), so that a soak can be repeated.
struct Random(u64);

impl Random {
    fn of(client: u32) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (u64::from(client) << 32 | 1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn milliseconds(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.below(range.end - range.start))
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// Honest clients have a network each; the hostile ones of a kind share one.
fn address_of(client: u32) -> Ipv4Addr {
    match client % 5 {
        _ if client >= CLIENTS => Ipv4Addr::new(127, 9, 0, (client - CLIENTS + 1) as u8),
        0 | 1 => Ipv4Addr::new(127, 1, client as u8, 1),
        kind => Ipv4Addr::new(127, kind as u8, 0, (client / 5 + 1) as u8),
    }
}

fn main() -> ExitCode {
    let seconds = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(1800);
    match soak(Duration::from_secs(seconds)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn soak(time: Duration) -> Result<(), String> {
    let server = ServerProcess::start(&LIMITS)?;
    let flights = flood::first_flights(&server.fingerprint)?;
    let begun = MonotonicClock.now();
    let soak = Soak {
        server,
        flights,
        begun,
        ends: begun + time,
        over: AtomicBool::new(false),
        counts: Mutex::default(),
        failures: Mutex::default(),
    };
    let readings = std::thread::scope(|scope| {
        for client in 0..CLIENTS + FLOODING_CLIENTS {
            let soak = &soak;
            scope.spawn(move || match client % 5 {
                _ if client >= CLIENTS => flood::run(soak, client),
                0 | 1 => honest::run(soak, client),
                2 => hostile::garbage(soak, client),
                3 => hostile::half_open(soak, client),
                _ => hostile::dribble(soak, client),
            });
        }
        watch(&soak)
    })?;
    conclude(soak, &readings)
}

/// Reads the server's memory and load until the end; a line a minute.
fn watch(soak: &Soak) -> Result<Vec<Reading>, String> {
    println!("minute  RSS MB  threads  descriptors  tests  connections");
    let mut readings: Vec<Reading> = Vec::new();
    let mut next_line = soak.begun;
    while soak.runs() {
        let reading = soak.server.read().inspect_err(|_| soak.over.store(true, Ordering::Relaxed))?;
        if reading.at >= next_line {
            next_line = next_line + Duration::from_secs(60);
            println!(
                "{:6.1}  {:6.1}  {:7}  {:11}  {:5}  {:11}",
                reading.at.duration_since(soak.begun).as_secs_f64() / 60.0,
                reading.rss_bytes / 1e6,
                reading.threads,
                reading.descriptors,
                reading.tests,
                reading.connections
            );
        }
        readings.push(reading);
        soak.pause(READING_INTERVAL);
    }
    Ok(readings)
}

fn conclude(soak: Soak, readings: &[Reading]) -> Result<(), String> {
    let Soak { server, counts, failures, .. } = soak;
    for (what, count) in counts.into_inner().unwrap_or_default() {
        println!("{count:8}  {what}");
    }
    let mut wrong = failures.into_inner().unwrap_or_default();
    let sixth = |index: usize| {
        let part = readings.len() / 6;
        let rss: Vec<f64> =
            readings.iter().skip(index * part).take(part).map(|reading| reading.rss_bytes).collect();
        median(&rss).unwrap_or_default()
    };
    let (second, last) = (sixth(1), sixth(5));
    println!(
        "RSS median of the second sixth {:.1} MB, of the last {:.1} MB; peak {:.1} MB",
        second / 1e6,
        last / 1e6,
        readings.iter().map(|reading| reading.rss_bytes).fold(0.0, f64::max) / 1e6
    );
    if last - second > (second * GROWTH_SHARE).max(GROWTH_BYTES) {
        wrong.push(format!("memory grows: {:.1} MB after the first sixth", (last - second) / 1e6));
    }
    let idle = server.wait_until_idle(RELEASE_TIME)?;
    println!("after {:.0} s no test and no connection is left", idle.as_secs_f64());
    server.stop()?;
    if wrong.is_empty() { Ok(()) } else { Err(format!("{} failures:\n{}", wrong.len(), wrong.join("\n"))) }
}
