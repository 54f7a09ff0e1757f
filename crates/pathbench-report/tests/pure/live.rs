//! The live view as text.

use pathbench_analysis::metrics::live::{ProbeFigures, State, TestFigures};
use pathbench_record::direction::Direction;
use pathbench_record::end::MessageRecord;
use pathbench_record::kernel_event::WifiNetwork;
use pathbench_record::time::Timestamp;
use pathbench_report::terminal::live::{Names, line, lines};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

const LASTED: Duration = Duration::from_millis(2400);

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

fn carried(bytes: [u64; 2]) -> BTreeMap<IpAddr, u64> {
    BTreeMap::from([([192, 0, 2, 1].into(), bytes[0]), ([192, 0, 2, 2].into(), bytes[1])])
}

fn figures() -> ([TestFigures; 2], [ProbeFigures; 2]) {
    let mut mptcp = TestFigures::new("mptcp".to_owned(), Duration::from_millis(100));
    let arrivals = [(0, 1020), (1, 1120), (2, 1350)];
    let messages = [message(0, Some(1045)), message(1, Some(2400)), message(2, Some(2400)), message(3, None)];
    mptcp.add(&messages, arrivals.map(|(sequence, ms)| (sequence, at(ms))), false);
    mptcp.transferred(at(1000), carried([1_000, 0]));
    mptcp.transferred(at(2400), carried([4_000, 1_000]));
    let mut lte = ProbeFigures::new("lte".to_owned());
    lte.add(Some(Duration::from_millis(61)));
    let mut wlan = ProbeFigures::new("wlan".to_owned());
    wlan.add(None);
    wlan.add(None);
    let mut broken = TestFigures::new("mpquic".to_owned(), Duration::from_millis(100));
    broken.state = State::Over(Some("the connection hung".to_owned()));
    ([mptcp, broken], [wlan, lte])
}

fn names(show: impl Fn(&Names<'_>)) {
    let of_address = |at: IpAddr| if at == IpAddr::from([192, 0, 2, 1]) { "wlan" } else { "lte" }.to_owned();
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
        let ([first, second], probes) = figures();
        let lines = lines(LASTED, &[&first, &second], &probes, names, at(2400));
        assert_eq!(lines[0], "0:02   Ctrl-C ends the tests");
        let lines = &lines[1..];
        // The fourth message has waited since 1300 ms; the server's request 3 was due at 1320 ms.
        assert_eq!(
            lines[0],
            "mptcp   up  1.20 s max  1.30 s   down ≈ 1.08 s max ≈ 1.08 s   wlan 75 %, lte 25 %"
        );
        assert_eq!(lines[1], "mpquic  over: the connection hung");
        assert_eq!(lines[2], "wlan    rtt no answer max       -   lost 2     home  −67 dBm  87 Mbit/s");
        assert_eq!(lines[3].trim_end(), "lte     rtt   61.0 ms max 61.0 ms   lost 0");
        assert!(lines.iter().all(|line| line.chars().count() < 100), "{lines:#?}");
    });
}

#[test]
fn without_a_terminal_it_is_one_line() {
    names(|names| {
        let ([first, second], probes) = figures();
        let line = line(LASTED, &[&first, &second], &probes, names, at(2400));
        assert_eq!(
            line,
            "0:02: mptcp up 1.20 s (max 1.30 s), down ≈ 1.08 s (max ≈ 1.08 s), wlan 75 %, lte 25 %; mpquic over; \
             wlan no answer; lte 61.0 ms"
        );
    });
}

#[test]
fn shares_are_of_the_latest_bytes_only() {
    let mut test = TestFigures::new("mptcp".to_owned(), Duration::from_millis(100));
    for second in 0..10_u64 {
        let bytes = [1_000 * second.min(5), 500 * second.saturating_sub(5)];
        test.transferred(at(second * 1000), carried(bytes));
    }
    assert_eq!(test.shares(), [(IpAddr::from([192, 0, 2, 2]), 1.0)]);
    test.transferred(at(9_100), carried([5_000, 2_000]));
    test.transferred(at(12_000), carried([5_000, 2_000]));
    assert_eq!(test.shares(), []);
}
