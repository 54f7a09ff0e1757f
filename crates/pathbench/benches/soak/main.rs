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

use pathbench_testkit::soak::{Load, READING_INTERVAL, Random, check_growth};
use server::{Reading, ServerProcess};
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::process::ExitCode;
use std::time::Duration;

/// Honest and hostile clients, five kinds by turns.
const CLIENTS: u32 = 200;

/// Clients that have many addresses each.
const FLOODING_CLIENTS: u32 = 16;

/// The limits of the server. A network may have half of the tests; the others need the rest at the same time.
const LIMITS: [&str; 6] =
    ["--max-tests", "400", "--max-connections", "2048", "--max-client-bytes-per-day", "1GB"];

/// The longest that the server may take to release the resources of lost clients: a test's patience and the time for
/// its record.
const RELEASE_TIME: Duration = Duration::from_secs(180);

/// Shared by all clients of a soak.
struct Soak {
    server: ServerProcess,
    /// First packets of QUIC clients.
    flights: Vec<Vec<u8>>,
    load: Load,
}

impl Deref for Soak {
    type Target = Load;

    fn deref(&self) -> &Load {
        &self.load
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
    let soak = Soak { server, flights, load: Load::new(time) };
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
        let reading = soak.server.read().inspect_err(|_| soak.end())?;
        if reading.process.at >= next_line {
            next_line = next_line + Duration::from_secs(60);
            println!(
                "{:6.1}  {:6.1}  {:7}  {:11}  {:5}  {:11}",
                reading.process.at.duration_since(soak.begun).as_secs_f64() / 60.0,
                reading.process.rss_bytes / 1e6,
                reading.process.threads,
                reading.process.descriptors,
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
    let Soak { server, load, .. } = soak;
    let mut wrong = load.conclude();
    let rss: Vec<f64> = readings.iter().map(|reading| reading.process.rss_bytes).collect();
    wrong.extend(check_growth(&rss).err());
    let idle = server.wait_until_idle(RELEASE_TIME)?;
    println!("after {:.0} s no test and no connection is left", idle.as_secs_f64());
    server.stop()?;
    if wrong.is_empty() { Ok(()) } else { Err(format!("{} failures:\n{}", wrong.len(), wrong.join("\n"))) }
}
