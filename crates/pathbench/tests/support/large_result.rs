//! A result of many runs over two paths, with the lines that runs of ten seconds have.

use pathbench_record::delivery::DeliveryLine;
use pathbench_record::direction::Direction;
use pathbench_record::directory::ResultWriter;
use pathbench_record::document::{PathRecord, ResultDocument, RunRecord};
use pathbench_record::event::{Event, EventKind, EventSource};
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use pathbench_record::summary::summarise;
use pathbench_record::transport::Transport;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

const PATHS: [&str; 2] = ["eth", "wlan"];
const RUN_MS: u32 = 10_000;

/// Writes a finished result of `runs` runs to `directory`, with numbers that differ from run to run.
pub(crate) fn write(directory: &Path, runs: u32) -> Result<(), String> {
    let mut writer = ResultWriter::create(directory).map_err(|error| error.to_string())?;
    let mut document = ResultDocument::default();
    "large".clone_into(&mut document.scenario.name);
    for number in 0..runs {
        let (transport, label) =
            if number % 2 == 0 { (Transport::Tcp, "tcp") } else { (Transport::Mptcp, "mptcp") };
        let id = format!("{:02}-{label}-r{}", number + 1, number / 2 + 1);
        let (samples, deliveries) = (samples(&id, number), deliveries(&id, number));
        let delivered: u64 = deliveries.iter().map(|line| line.bytes).sum();
        let written = writer.append(&samples).and_then(|()| writer.append(&deliveries));
        written.and_then(|()| writer.append(&events(&id))).map_err(|error| error.to_string())?;
        document.runs.push(RunRecord {
            transport,
            label: label.to_owned(),
            pattern: "throughput".to_owned(),
            repetition: number / 2 + 1,
            valid: true,
            completed: true,
            goodput_mbps: Some(delivered as f64 * 8.0 / f64::from(RUN_MS) / 1000.0),
            stall_ms: Some(f64::from(number % 7)),
            delivered_bytes: delivered,
            paths: PATHS.map(|name| path(name, delivered / 2)).to_vec(),
            id,
            ..RunRecord::default()
        });
    }
    document.summary.groups = summarise(&document.runs);
    writer.finish(&document).map(drop).map_err(|error| error.to_string())
}

fn path(name: &str, bytes: u64) -> PathRecord {
    PathRecord { name: name.to_owned(), bytes_delivered: bytes, share: 0.5, ..PathRecord::default() }
}

fn samples(run: &str, number: u32) -> Vec<Sample> {
    let address = |host: u8| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 83, 0, host)), 4433);
    let mut samples = Vec::new();
    for t_ms in (0..RUN_MS).step_by(100) {
        for (subflow, path) in PATHS.into_iter().enumerate() {
            for side in [Side::Client, Side::Server] {
                let bytes = u64::from(t_ms) * (500 + u64::from(number % 50));
                samples.push(Sample {
                    run: run.to_owned(),
                    t_ms: f64::from(t_ms) + 0.125,
                    host: if side == Side::Client { "client" } else { "server" }.to_owned(),
                    side,
                    stream: 0,
                    path: path.to_owned(),
                    figures: PathFigures {
                        subflow: subflow as u32 + 1,
                        state: PathState::Open,
                        bytes_sent: if side == Side::Client { bytes + 14_480 } else { 0 },
                        bytes_acked: if side == Side::Client { bytes } else { 0 },
                        bytes_received: if side == Side::Server { bytes } else { 0 },
                        srtt_ms: 20.0 + f64::from(t_ms % 700) / 37.0,
                        rttvar_ms: 1.0 + f64::from(t_ms % 300) / 41.0,
                        rto_ms: 220.0,
                        cwnd_bytes: 14_480 + u64::from(t_ms % 3000) * 10,
                        mss_bytes: 1448,
                        pmtu_bytes: 1500,
                        ..PathFigures::new(address(1), address(2))
                    },
                });
            }
        }
    }
    samples
}

fn deliveries(run: &str, number: u32) -> Vec<DeliveryLine> {
    let line = |t_ms: u32| DeliveryLine {
        run: run.to_owned(),
        direction: Direction::Upload,
        t_ms: f64::from(t_ms),
        bytes: 10_000 + u64::from((t_ms + number * 37) % 1000),
    };
    (0..RUN_MS).step_by(10).map(line).collect()
}

fn events(run: &str) -> Vec<Event> {
    let event = |t_ms: f64, kind: EventKind| Event {
        run: run.to_owned(),
        t_ms,
        source: EventSource::Scenario,
        host: "client".to_owned(),
        kind,
        path: Some("wlan".to_owned()),
        due_ms: Some(t_ms),
        detail: serde_json::Map::new(),
    };
    vec![event(3000.0, EventKind::Down), event(7000.0, EventKind::Up)]
}
