//! Every kind of diagnosis on synthetic series, and on series recorded from a kernel.

mod absences;
mod initial_path;
mod outages;
mod path_mtu;
mod properties;
mod recorded;
mod silences;
mod unused_paths;

use pathbench_analysis::diagnosis::{DiagnosisInput, MOST_SILENCES, SHORTEST_SILENCE_MS, diagnose};
use pathbench_analysis::mptcp_setup::LocalSetup;
use pathbench_analysis::verdict::{PathDelivery, VerdictInput, multipath_verdict};
use pathbench_record::connection::Negotiation;
use pathbench_record::document::{DiagnosisKind, PathDiagnosis};
use pathbench_record::event::{Event, EventSource};
use pathbench_record::kernel_event::MptcpEvent;
use pathbench_record::network::ClientPath;
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use pathbench_record::transport::Transport;
use std::net::{IpAddr, SocketAddr};

const ETH: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const WLAN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, 1));
const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

/// A run over `eth` and `wlan`, of which `eth` carried everything by default.
struct Case {
    transport: Transport,
    senders: Vec<Side>,
    planned: Vec<ClientPath>,
    samples: Vec<Sample>,
    events: Vec<Event>,
    connection: VerdictInput,
}

fn planned(name: &str, address: IpAddr) -> ClientPath {
    ClientPath {
        name: name.to_owned(),
        interface: format!("{name}0"),
        addresses: vec![address],
        backup: None,
        mtu_bytes: Some(9000),
    }
}

impl Case {
    fn of(transport: Transport, samples: Vec<Sample>) -> Self {
        let delivered = |name: &str| {
            samples.iter().rev().find(|sample| sample.path == name).map(|sample| PathDelivery {
                name: name.to_owned(),
                delivered_bytes: sample.figures.bytes_acked,
                last: Some(sample.figures.clone()),
                stage: None,
            })
        };
        let eth =
            PathDelivery { name: "eth".to_owned(), delivered_bytes: 30_000_000, ..PathDelivery::default() };
        let connection = VerdictInput {
            requested: transport.is_multipath(),
            negotiation: if transport.is_multipath() {
                Negotiation::Negotiated
            } else {
                Negotiation::NotAsked
            },
            paths: [Some(eth).filter(|_| transport.is_multipath()), delivered("wlan")]
                .into_iter()
                .flatten()
                .collect(),
            ..VerdictInput::default()
        };
        let both = vec![planned("eth", ETH), planned("wlan", WLAN)];
        Self {
            transport,
            senders: vec![Side::Client],
            planned: if transport.is_multipath() { both } else { vec![planned("wlan", WLAN)] },
            samples,
            events: Vec::new(),
            connection,
        }
    }

    fn with_event(mut self, event: Event) -> Self {
        self.events.push(event);
        self
    }

    fn diagnoses(&self) -> Vec<PathDiagnosis> {
        diagnose(&DiagnosisInput {
            transport: self.transport,
            server: Some("lab.example"),
            senders: &self.senders,
            planned: &self.planned,
            samples: &self.samples,
            events: &self.events,
            connection: &self.connection,
        })
    }

    /// The only diagnosis, which is of `wlan`.
    #[track_caller]
    fn only(&self) -> PathDiagnosis {
        let mut found = self.diagnoses();
        found.retain(|diagnosis| diagnosis.path == "wlan");
        assert_eq!(found.len(), 1, "{found:#?}");
        found.remove(0)
    }

    #[track_caller]
    fn has_none(&self) {
        let found: Vec<PathDiagnosis> =
            self.diagnoses().into_iter().filter(|diagnosis| diagnosis.path == "wlan").collect();
        assert!(found.is_empty(), "{found:#?}");
    }
}

fn figures(subflow: u32) -> PathFigures {
    PathFigures {
        subflow,
        state: PathState::Open,
        srtt_ms: 5.0,
        mss_bytes: 8948,
        pmtu_bytes: 9000,
        cwnd_bytes: 89_480,
        packets_received: Some(4),
        ..PathFigures::new(SocketAddr::new(WLAN, 40_000), SocketAddr::new(SERVER, 4433))
    }
}

fn sample(t_ms: f64, figures: PathFigures) -> Sample {
    pathbench_testkit::sample(t_ms, Side::Client, "wlan", figures)
}

fn event(source: EventSource, t_ms: f64, kind: &str, path: &str) -> Event {
    Event {
        run: "01".to_owned(),
        t_ms,
        source,
        host: "client".to_owned(),
        kind: kind.into(),
        path: Some(path.to_owned()),
        due_ms: None,
        detail: serde_json::Map::new(),
    }
}

/// An event of the scenario that sets one key.
fn set(t_ms: f64, path: &str, key: &str, value: impl Into<serde_json::Value>) -> Event {
    let mut event = event(EventSource::Scenario, t_ms, "set", path);
    event.detail.insert(key.to_owned(), value.into());
    event
}

/// A subflow's series, sampled every 100 ms, as a sender makes it. All sizes are payload.
#[derive(Debug, Clone)]
struct Series {
    samples: Vec<Sample>,
    now: PathFigures,
    t_ms: f64,
    /// When the retransmission timer expires next.
    resend_ms: f64,
}

const INTERVAL_MS: f64 = 100.0;

impl Series {
    /// A subflow after its handshake and the first acknowledged bytes.
    fn new() -> Self {
        Self::on_subflow(1, 0.0)
    }

    fn on_subflow(subflow: u32, t_ms: f64) -> Self {
        let now = PathFigures { bytes_sent: 245, bytes_acked: 245, ..figures(subflow) };
        Self { samples: vec![sample(t_ms, now.clone())], now, t_ms, resend_ms: 0.0 }
    }

    fn step(&mut self) {
        self.t_ms += INTERVAL_MS;
        self.samples.push(sample(self.t_ms, self.now.clone()));
    }

    fn until(mut self, t_ms: f64, change: impl Fn(&mut PathFigures)) -> Self {
        while self.t_ms < t_ms {
            change(&mut self.now);
            self.step();
        }
        self
    }

    /// Data is sent and acknowledged.
    fn flowing(self, until_ms: f64) -> Self {
        self.until(until_ms, |now| {
            now.bytes_sent += 375_000;
            now.bytes_acked = now.bytes_sent - now.retransmitted_bytes - 20 * u64::from(now.mss_bytes);
            now.backoff = 0;
            now.packets_received = now.packets_received.map(|received| received + 20);
        })
    }

    /// Nothing to send.
    fn idle(self, until_ms: f64) -> Self {
        self.until(until_ms, |now| now.bytes_acked = now.bytes_sent - now.retransmitted_bytes)
    }

    /// `outstanding` more bytes are sent; no acknowledgement arrives, and the timer expires at 200, 600, 1400 ms, ….
    fn stuck(mut self, until_ms: f64, outstanding: u64) -> Self {
        self.now.bytes_sent += outstanding;
        self.resend_ms = self.t_ms + 200.0;
        self.still_stuck(until_ms)
    }

    fn still_stuck(mut self, until_ms: f64) -> Self {
        while self.t_ms < until_ms {
            if self.t_ms >= self.resend_ms {
                self.now.backoff += 1;
                self.resend_ms = self.t_ms + 200.0 * f64::from(1 << self.now.backoff.min(9));
                self.now.bytes_sent += u64::from(self.now.mss_bytes);
                self.now.retransmitted_bytes += u64::from(self.now.mss_bytes);
                self.now.cwnd_bytes = u64::from(self.now.mss_bytes);
            }
            self.step();
        }
        self
    }

    fn changed(mut self, change: impl Fn(&mut PathFigures)) -> Self {
        change(&mut self.now);
        self
    }

    fn closed(self) -> Self {
        let until_ms = self.t_ms + INTERVAL_MS;
        self.until(until_ms, |now| now.state = PathState::Closed)
    }

    fn mptcp(self) -> Case {
        Case::of(Transport::Mptcp, self.samples)
    }

    fn tcp(self) -> Case {
        Case::of(Transport::Tcp, self.samples)
    }
}

/// The diagnosis has this kind, and its texts contain these words.
#[track_caller]
fn check(found: &PathDiagnosis, kind: DiagnosisKind, because: &[&str], remedy: &[&str]) {
    assert_eq!(found.kind, kind, "{found:#?}");
    for (text, words) in [(&found.because, because), (&found.remedy, remedy)] {
        for word in words {
            assert!(text.contains(word), "`{word}` is missing in `{text}`");
        }
    }
    assert!(!found.remedy.contains('\n') && !found.because.is_empty());
}
