//! The live view of tests that run in parallel.

use pathbench_analysis::assembly::{WifiChange, WifiSighting};
use pathbench_analysis::metrics::live::{ProbeFigures, State, TestFigures};
use pathbench_record::kernel_event::WifiNetwork;
use pathbench_record::text::duration_ms;
use pathbench_record::time::Timestamp;
use std::net::IpAddr;
use std::time::Duration;

#[derive(Clone, Copy)]
pub struct Names<'a> {
    /// Maps a local address to its path.
    pub of_address: &'a dyn Fn(IpAddr) -> String,
    /// Maps a path to the network of its Wi-Fi interface.
    pub wifi_of: &'a dyn Fn(&str) -> Option<WifiNetwork>,
}

/// The time, then a line per transport, then a line per path.
pub fn lines(
    lasted: Duration,
    tests: &[&TestFigures],
    probes: &[ProbeFigures],
    names: &Names<'_>,
    now: Timestamp,
) -> Vec<String> {
    let head = format!("{}   Ctrl-C ends the tests", clock(lasted));
    let tests = tests.iter().map(|test| test_line(test, names, now));
    std::iter::once(head).chain(tests).chain(probes.iter().map(|probe| probe_line(probe, names))).collect()
}

/// The live view in one line.
pub fn line(
    lasted: Duration,
    tests: &[&TestFigures],
    probes: &[ProbeFigures],
    names: &Names<'_>,
    now: Timestamp,
) -> String {
    let mut parts: Vec<String> = Vec::new();
    for test in tests {
        let words = match &test.state {
            State::Connecting => "connecting".to_owned(),
            State::Closing => "fetching the server's record".to_owned(),
            State::Over(_) => "over".to_owned(),
            State::Running => {
                let [up, up_max, down, down_max] = delays(test, now);
                let shares = shares(test, names);
                format!("up {up} (max {up_max}), down ≈ {down} (max ≈ {down_max}), {shares}")
            }
        };
        parts.push(format!("{} {words}", test.name));
    }
    parts.extend(probes.iter().map(|probe| format!("{} {}", probe.name, answer(probe))));
    format!("{}: {}", clock(lasted), parts.join("; "))
}

/// `1:07`.
pub fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

/// A change of the Wi-Fi connection; `None` if only the signal changed.
pub fn wifi_words(sighting: &WifiSighting) -> Option<String> {
    let interface = &sighting.interface;
    let name = sighting.network.as_ref().and_then(|network| network.ssid.clone()).unwrap_or_default();
    match sighting.change {
        WifiChange::Joined => Some(format!("{interface} joined the Wi-Fi `{name}`")),
        WifiChange::Left => Some(format!("{interface} left its Wi-Fi")),
        WifiChange::Moved => Some(format!("{interface} moved to another access point of `{name}`")),
        WifiChange::Signal => None,
    }
}

fn test_line(test: &TestFigures, names: &Names<'_>, now: Timestamp) -> String {
    let name = &test.name;
    match &test.state {
        State::Connecting => format!("{name:<7} connecting"),
        State::Closing => format!("{name:<7} over; fetching the server's record"),
        State::Over(None) => format!("{name:<7} over"),
        State::Over(Some(why)) => format!("{name:<7} over: {why}"),
        State::Running => {
            let [up, up_max, down, down_max] = delays(test, now);
            let shares = shares(test, names);
            format!("{name:<7} up {up:>7} max {up_max:>7}   down ≈{down:>7} max ≈{down_max:>7}   {shares}")
        }
    }
}

/// Current and maximum delay of uploads and downloads. The delays of downloads are estimates, see `RequestDelay`.
fn delays(test: &TestFigures, now: Timestamp) -> [String; 4] {
    [
        test.upload.now(now),
        test.upload.longest(now),
        test.download.now(now),
        test.download.longest().max(test.download.now(now)),
    ]
    .map(delay)
}

fn shares(test: &TestFigures, names: &Names<'_>) -> String {
    let shares = test.shares();
    if shares.is_empty() {
        return "no data arrives".to_owned();
    }
    let share =
        |(local, share): (IpAddr, f64)| format!("{} {:.0} %", (names.of_address)(local), share * 100.0);
    shares.into_iter().map(share).collect::<Vec<_>>().join(", ")
}

fn probe_line(probe: &ProbeFigures, names: &Names<'_>) -> String {
    let wifi = (names.wifi_of)(&probe.name).map(|network| wifi(&network)).unwrap_or_default();
    let (name, answer, longest) = (&probe.name, answer(probe), delay(probe.longest));
    format!("{name:<7} rtt {answer:>9} max {longest:>7}   lost {:<5} {wifi}", probe.lost)
}

fn answer(probe: &ProbeFigures) -> String {
    if probe.unanswered > 1 { "no answer".to_owned() } else { delay(probe.latest) }
}

fn wifi(network: &WifiNetwork) -> String {
    let mbps = |bps: u64| format!("{:.0} Mbit/s", bps as f64 / 1e6);
    let parts = [
        network.ssid.clone(),
        network.signal_dbm.map(|dbm| format!("{dbm} dBm").replace('-', "−")),
        network.tx_bps.map(mbps),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

fn delay(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| duration_ms(time.as_secs_f64() * 1e3))
}
