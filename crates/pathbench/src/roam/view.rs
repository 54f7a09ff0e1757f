//! The text of the live view. Pure.

use super::figures::{Figures, ProbeFigures, State, TestFigures};
use pathbench_analysis::assembly::{WifiChange, WifiSighting};
use pathbench_record::kernel_event::WifiNetwork;
use pathbench_record::time::Timestamp;
use std::net::IpAddr;
use std::time::Duration;

pub(super) struct Names<'a> {
    /// The path of a local address.
    pub(super) of_address: &'a dyn Fn(IpAddr) -> String,
    /// What a path's interface is connected to.
    pub(super) wifi_of: &'a dyn Fn(&str) -> Option<WifiNetwork>,
}

/// The time, then a line per transport, then a line per path.
pub(super) fn lines(figures: &Figures, names: &Names<'_>, now: Timestamp) -> Vec<String> {
    let head = format!("{}   Ctrl-C ends the tests", clock(now.since(figures.begun)));
    let tests = figures.tests.iter().map(|test| test_line(test, names, now));
    std::iter::once(head)
        .chain(tests)
        .chain(figures.probes.iter().map(|probe| probe_line(probe, names)))
        .collect()
}

/// The same in one line.
pub(super) fn line(figures: &Figures, names: &Names<'_>, now: Timestamp) -> String {
    let mut parts: Vec<String> = Vec::new();
    for test in &figures.tests {
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
    for probe in &figures.probes {
        parts.push(format!("{} {}", probe.name, answer(probe)));
    }
    format!("{}: {}", clock(now.since(figures.begun)), parts.join("; "))
}

/// `1:07`.
pub(super) fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

/// What changed about the Wi-Fi; `None` where only the signal did.
pub(super) fn wifi_words(sighting: &WifiSighting) -> Option<String> {
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

/// Now and at most, up and down. The download's delays are estimates, see `RequestDelay`.
fn delays(test: &TestFigures, now: Timestamp) -> [String; 4] {
    [
        test.upload.now(now),
        test.upload.longest(now),
        test.download.now(now),
        test.download.longest().max(test.download.now(now)),
    ]
    .map(duration)
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
    let (name, answer, longest) = (&probe.name, answer(probe), duration(probe.longest));
    format!("{name:<7} rtt {answer:>9} max {longest:>7}   lost {:<5} {wifi}", probe.lost)
}

fn answer(probe: &ProbeFigures) -> String {
    if probe.unanswered > 1 { "no answer".to_owned() } else { duration(probe.latest) }
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

/// `0.4 ms`, `45 ms`, `2.31 s`.
fn duration(time: Option<Duration>) -> String {
    match time {
        None => "-".to_owned(),
        Some(time) if time < Duration::from_millis(10) => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        Some(time) if time < Duration::from_secs(1) => format!("{:.0} ms", time.as_secs_f64() * 1e3),
        Some(time) => format!("{:.2} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::test::Fresh;
    use super::*;
    use pathbench_record::direction::Direction;
    use pathbench_record::end::MessageRecord;
    use pathbench_traffic::client::{PathProgress, Progress};
    use pathbench_traffic::messages::Arrival;
    use pathbench_traffic::probe::{ProbeOutcome, ProbeSample};

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    fn message(sequence: u32, acknowledged: Option<u64>) -> MessageRecord {
        let acknowledged = acknowledged.map(at);
        let due = at(1000 + 100 * u64::from(sequence));
        MessageRecord {
            flow: Direction::Upload,
            sequence,
            due,
            sent: Some(due),
            acknowledged,
            answered: acknowledged,
        }
    }

    fn progress(ms: u64, bytes: [u64; 2]) -> Progress {
        let path = |(host, bytes): (u8, u64)| PathProgress {
            local: [192, 0, 2, host].into(),
            remote: [198, 51, 100, 7].into(),
            acknowledged_bytes: bytes,
            received_bytes: 0,
        };
        let paths = [(1, bytes[0]), (2, bytes[1])].into_iter().map(path).collect();
        Progress { at: at(ms), sent_bytes: 0, received_bytes: 0, paths }
    }

    fn figures() -> Figures {
        let mut mptcp = TestFigures::new("mptcp".to_owned(), Duration::from_millis(100));
        let arrivals = [(0, 1020), (1, 1120), (2, 1350)];
        mptcp.add(&Fresh {
            at: at(1400),
            messages: vec![
                message(0, Some(1045)),
                message(1, Some(2400)),
                message(2, Some(2400)),
                message(3, None),
            ],
            arrivals: arrivals.map(|(sequence, ms)| Arrival { sequence, at: at(ms) }).to_vec(),
            samples: Vec::new(),
            path_events: Vec::new(),
            is_exchanged: false,
            so_far: None,
        });
        mptcp.transferred(&progress(1000, [1_000, 0]));
        mptcp.transferred(&progress(2400, [4_000, 1_000]));
        let mut lte = ProbeFigures::new("lte".to_owned());
        let probe = |sequence, outcome| ProbeSample { path: 1, sequence, sent_at: at(0), outcome };
        lte.add(&probe(0, ProbeOutcome::Answered { rtt: Duration::from_millis(61) }));
        let mut wlan = ProbeFigures::new("wlan".to_owned());
        for sequence in 0..2 {
            wlan.add(&probe(sequence, ProbeOutcome::Lost));
        }
        let mut broken = TestFigures::new("mpquic".to_owned(), Duration::from_millis(100));
        broken.state = State::Over(Some("the connection hung".to_owned()));
        Figures { begun: at(0), tests: vec![mptcp, broken], probes: vec![wlan, lte] }
    }

    fn names(show: impl Fn(&Names<'_>)) {
        let of_address =
            |at: IpAddr| if at == IpAddr::from([192, 0, 2, 1]) { "wlan" } else { "lte" }.to_owned();
        let network = WifiNetwork {
            ssid: Some("home".to_owned()),
            signal_dbm: Some(-67),
            tx_bps: Some(86_600_000),
            ..WifiNetwork::default()
        };
        let wifi_of = |name: &str| (name == "wlan").then(|| network.clone());
        show(&Names { of_address: &of_address, wifi_of: &wifi_of });
    }

    #[test]
    fn the_view_has_a_line_per_transport_and_a_line_per_path() {
        names(|names| {
            let lines = lines(&figures(), names, at(2400));
            assert_eq!(lines[0], "0:02   Ctrl-C ends the tests");
            let lines = &lines[1..];
            // The fourth message waits since 1300 ms; the server's request 3 was to come at 1320 ms.
            assert_eq!(
                lines[0],
                "mptcp   up  1.20 s max  1.30 s   down ≈ 1.08 s max ≈ 1.08 s   wlan 75 %, lte 25 %"
            );
            assert_eq!(lines[1], "mpquic  over: the connection hung");
            assert_eq!(lines[2], "wlan    rtt no answer max       -   lost 2     home  −67 dBm  87 Mbit/s");
            assert_eq!(lines[3].trim_end(), "lte     rtt     61 ms max   61 ms   lost 0");
            assert!(lines.iter().all(|line| line.chars().count() < 100), "{lines:#?}");
        });
    }

    #[test]
    fn without_a_terminal_it_is_one_line() {
        names(|names| {
            let line = line(&figures(), names, at(2400));
            assert_eq!(
                line,
                "0:02: mptcp up 1.20 s (max 1.30 s), down ≈ 1.08 s (max ≈ 1.08 s), wlan 75 %, lte 25 %; mpquic over; \
                 wlan no answer; lte 61 ms"
            );
        });
    }

    #[test]
    fn shares_are_of_the_latest_bytes_only() {
        let mut test = TestFigures::new("mptcp".to_owned(), Duration::from_millis(100));
        for second in 0..10 {
            test.transferred(&progress(
                second * 1000,
                [1_000 * second.min(5), 500 * second.saturating_sub(5)],
            ));
        }
        assert_eq!(test.shares(), [(IpAddr::from([192, 0, 2, 2]), 1.0)]);
        test.transferred(&progress(9_100, [5_000, 2_000]));
        test.transferred(&progress(12_000, [5_000, 2_000]));
        assert_eq!(test.shares(), []);
    }
}
