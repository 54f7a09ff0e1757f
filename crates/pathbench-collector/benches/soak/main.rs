//! The collector under 40 clients over loopback, honest and hostile ones at the same time.
//!
//! `cargo bench -p pathbench-collector --bench soak [-- SECONDS]` (1800 by default), `-- routes` for the table of peaks
//! alone. It ends with an error when an honest answer is lost or wrong, when the collector's memory exceeds its bounds or
//! grows while the results are as many as before, or when the collector does not stop with exit code 0.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the benchmark prints its results"
)]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod client;
mod garbage;
mod honest;
mod hostile;
mod routes;
#[path = "../../tests/support/mod.rs"]
mod support;

use client::HttpClient;
use pathbench_api::Uuid;
use pathbench_api::submission::new_id;
use pathbench_program::clock::RealClock;
use pathbench_record::time::WallClock as _;
use pathbench_testkit::soak::{Load, ProcessReading, READING_INTERVAL, check_growth};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use support::costly::{bomb, largest, poison};
use support::process::{Collector, line, random};

const HONEST_CLIENTS: u32 = 16;
const HOSTILE_CLIENTS: u32 = 24;

/// Results that cost the anonymiser the most.
const POISONED: usize = 24;

/// The patience of honest clients: the machine does other work.
const PATIENCE: Duration = Duration::from_secs(60);

/// Of honest requests.
const LONGEST_P95: Duration = Duration::from_secs(5);

/// Of 10 minutes. In the first sixth of a shorter soak the caches and the allocator still fill.
const LEAST_READINGS: usize = 120;

/// For database and raw parts together.
const DISK_BYTES: u64 = 3_000_000_000;

/// The bounds of the collector's memory, in MiB, and of what a client may store in a day.
struct Bounds {
    bodies: u64,
    answers: u64,
    columns: u64,
    client_storage: u64,
}

const BOUNDS: Bounds = Bounds { bodies: 256, answers: 256, columns: 512, client_storage: 128 };

/// Of the allocator of glibc, which keeps freed memory in each: mallopt(3).
const ARENAS: &str = "MALLOC_ARENA_MAX";

/// The writer's queue, which has no option.
const QUEUE_MIB: u64 = 128;

impl Bounds {
    /// The sum that docs/collect.md states.
    fn bytes(&self) -> f64 {
        ((self.bodies + self.answers + self.columns + QUEUE_MIB) << 20) as f64
    }

    fn words(&self) -> Vec<String> {
        let options = [
            ("--body-memory", self.bodies),
            ("--answer-memory", self.answers),
            ("--column-memory", self.columns),
            ("--client-storage", self.client_storage),
        ];
        let options = options.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_string()]);
        std::iter::once("--open".to_owned()).chain(options).collect()
    }
}

/// Shared by all clients of a soak.
struct Soak {
    load: Load,
    bomb: Vec<u8>,
    poisoned: Vec<Uuid>,
    /// Of agents and submissions.
    tokens: Vec<String>,
}

/// The time in the ids of new results.
fn unix_ms() -> u64 {
    RealClock.unix_ms()
}

impl Deref for Soak {
    type Target = Load;

    fn deref(&self) -> &Load {
        &self.load
    }
}

fn main() -> ExitCode {
    let is_routes = std::env::args().any(|argument| argument == "routes");
    let seconds = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(1800);
    let soaked = if is_routes { Ok(()) } else { soak(Duration::from_secs(seconds)) };
    let measured = routes::measure(&BOUNDS);
    match (soaked, measured) {
        (Ok(()), Ok(())) => ExitCode::SUCCESS,
        (soaked, measured) => {
            soaked.err().into_iter().chain(measured.err()).for_each(|message| eprintln!("{message}"));
            ExitCode::FAILURE
        }
    }
}

/// A collector with the environment that the unit for systemd has.
fn start(bounds: &Bounds, place: &Path) -> Collector {
    let words = bounds.words();
    println!("{ARENAS}=2 pathbench-collector {}", words.join(" "));
    let options: Vec<&str> = words.iter().map(String::as_str).collect();
    Collector::start_with(place, &options, &[(ARENAS, "2".to_owned())])
}

/// Every client has an address and a /24 of its own.
fn client(collector: &Collector, network: u8, number: u32) -> Result<HttpClient, String> {
    let address: SocketAddr = collector.address().parse().map_err(|_| "the collector has no address")?;
    let local = Ipv4Addr::new(127, network, number as u8, 1);
    Ok(HttpClient { collector: address, local, patience: PATIENCE })
}

fn soak(time: Duration) -> Result<(), String> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let collector = start(&BOUNDS, place.path());
    let poisoned = submit_poison(&collector)?;
    let token = |arguments: &[&str]| collector.command(arguments).trim().to_owned();
    let tokens =
        vec![token(&["token", "--submit"]), token(&["token", "--name", "an-agent"]), "garbage".to_owned()];
    fill(&collector)?;
    let soak = Soak { load: Load::new(time), bomb: bomb(), poisoned, tokens };
    let readings = std::thread::scope(|scope| -> Result<Vec<ProcessReading>, String> {
        let soak = &soak;
        for number in 0..HONEST_CLIENTS {
            let http = client(&collector, 10, number)?;
            scope.spawn(move || honest::run(soak, number, http));
        }
        for number in 0..HOSTILE_CLIENTS {
            let http = client(&collector, 20, number)?;
            scope.spawn(move || hostile::run(soak, number, http));
        }
        watch(soak, &collector).inspect_err(|_| soak.end())
    })?;
    conclude(&soak, collector, &readings)
}

/// Results whose raw parts cost the anonymiser the most.
fn submit_poison(collector: &Collector) -> Result<Vec<Uuid>, String> {
    let raw = poison();
    let some = (0..POISONED).map(|_| {
        let mut one = largest(Some(&raw));
        one.id = new_id(unix_ms(), &random());
        one
    });
    let some: Vec<_> = some.collect();
    for one in &some {
        let answer = collector.submit(&[line(one)]);
        if answer.status != 201 {
            return Err(format!("the collector takes no poison: {}", answer.text()));
        }
    }
    Ok(some.into_iter().map(|one| one.id).collect())
}

/// The clients that submit the largest summaries use up their quotas, so that the data set is constant afterwards.
fn fill(collector: &Collector) -> Result<(), String> {
    for number in hostile::SUBMITTING {
        let http = client(collector, 20, number)?;
        let mut results = 0;
        loop {
            match hostile::submit_largest(&http, 8) {
                Ok(201) => results += 8,
                Ok(429) => break,
                other => return Err(format!("the largest summaries: {other:?}")),
            }
        }
        println!("hostile client {number} has its quota: {results} results with the largest summaries");
    }
    Ok(())
}

/// Reads the collector's resources until the end; a line a minute.
fn watch(soak: &Soak, collector: &Collector) -> Result<Vec<ProcessReading>, String> {
    println!("minute  RSS MB  peak MB  threads  descriptors  disk MB  honest answers");
    let mut readings: Vec<ProcessReading> = Vec::new();
    let mut next_line = soak.begun;
    while soak.runs() {
        let reading = ProcessReading::of_process(collector.pid().unsigned_abs())?;
        let disk_bytes = disk_bytes(&collector.dir);
        if reading.at >= next_line {
            next_line = next_line + Duration::from_secs(60);
            println!(
                "{:6.1}  {:6.1}  {:7.1}  {:7}  {:11}  {:7.1}  {:14}",
                reading.at.duration_since(soak.begun).as_secs_f64() / 60.0,
                reading.rss_bytes / 1e6,
                reading.peak_bytes / 1e6,
                reading.threads,
                reading.descriptors,
                disk_bytes as f64 / 1e6,
                soak.timed()
            );
        }
        if disk_bytes > DISK_BYTES {
            return Err(format!("{disk_bytes} bytes of disk are used"));
        }
        readings.push(reading);
        soak.pause(READING_INTERVAL);
    }
    Ok(readings)
}

/// The bytes of the files below a directory; some are deleted meanwhile.
fn disk_bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

fn conclude(soak: &Soak, collector: Collector, readings: &[ProcessReading]) -> Result<(), String> {
    let peak_bytes = ProcessReading::of_process(collector.pid().unsigned_abs())?.peak_bytes;
    let mut wrong = soak.conclude();
    let rss: Vec<f64> = readings.iter().map(|reading| reading.rss_bytes).collect();
    wrong.extend(check_growth(&rss).err().filter(|_| readings.len() >= LEAST_READINGS));
    let (bound_bytes, p95) = (BOUNDS.bytes(), soak.p95());
    println!(
        "peak {:.1} MB of {:.1} MB that the bounds add up to; p95 of honest requests {:.2} s",
        peak_bytes / 1e6,
        bound_bytes / 1e6,
        p95.as_secs_f64()
    );
    if peak_bytes > bound_bytes {
        wrong.push("the collector's memory exceeds its bounds".to_owned());
    }
    if p95 > LONGEST_P95 {
        wrong.push(format!("the p95 of honest requests is {:.1} s", p95.as_secs_f64()));
    }
    match collector.stop() {
        Some(0) => println!("the collector ends with exit code 0 at SIGTERM"),
        code => wrong.push(format!("the collector ends with {code:?} at SIGTERM")),
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{} failures, at last: {:?}", wrong.len(), wrong.last()))
    }
}
