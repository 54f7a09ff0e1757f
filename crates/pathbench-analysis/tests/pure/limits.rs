//! What limited a run's rate: each limit from figures that show it, and none from those of a healthy transfer.

use crate::clock::record;
use pathbench_analysis::binning::Window;
use pathbench_analysis::comparison::summarise_runs;
use pathbench_analysis::limits::{LimitInput, PathShaper, RequestedBuffers, limits, unexamined};
use pathbench_record::connection::{InForce, Negotiation};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::Direction;
use pathbench_record::document::{
    DirectionRecord, LimitKind, LimitRecord, MultipathRecord, PathRecord, ResultDocument, RunRecord,
};
use pathbench_record::end::{EndRecord, StreamRecord};
use pathbench_record::resource::{BufferLimits, CpuUse, ThreadUse};
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Length of a run and interval of its samples.
const RUN_MS: u64 = 4_000;
const STEP_MS: u64 = 100;
const MSS: u64 = 1_448;
const BUFFERS: BufferLimits =
    BufferLimits { receive: [4_096, 131_072, 6_291_456], send: [4_096, 16_384, 4_194_304] };

fn zero() -> Timestamp {
    record(Side::Client, 1_000, 6_000).started
}

/// A download: the server sends over its subflows, the client's application receives.
struct Run {
    transport: Transport,
    samples: Vec<Sample>,
    client: EndRecord,
    server: EndRecord,
    rate_bps: Option<u64>,
    requested: RequestedBuffers,
    shapers: Vec<PathShaper>,
    direction: Direction,
}

impl Run {
    fn new(transport: Transport) -> Self {
        let end = |side| EndRecord {
            tcp_buffers: (!transport.is_quic()).then_some(BUFFERS),
            ..record(side, 1_000, 6_000)
        };
        Self {
            transport,
            samples: Vec::new(),
            client: end(Side::Client),
            server: end(Side::Server),
            rate_bps: None,
            requested: RequestedBuffers::default(),
            shapers: Vec::new(),
            direction: Direction::Download,
        }
    }

    /// A path that carries `mbps`, with these figures at the sender.
    fn path(mut self, name: &str, mbps: u64, set: impl Fn(u64, &mut PathFigures)) -> Self {
        let subflow = self.samples.iter().map(|one| one.figures.subflow).max().unwrap_or(0) + 1;
        let address = SocketAddr::from(([10, 0, subflow as u8, 1], 4_711));
        for t_ms in (0..=RUN_MS).step_by(STEP_MS as usize) {
            let bytes = mbps * 125 * t_ms;
            let sample = |side, figures| Sample {
                run: "r".to_owned(),
                t_ms: t_ms as f64,
                host: "host".to_owned(),
                side,
                stream: 0,
                path: name.to_owned(),
                figures,
            };
            let mut outgoing = PathFigures {
                subflow,
                state: PathState::Open,
                bytes_sent: bytes,
                mss_bytes: MSS as u32,
                cwnd_bytes: 400_000,
                in_flight_bytes: 390_000,
                not_sent_bytes: 500_000,
                srtt_ms: 40.0,
                delivery_rate_bps: Some(mbps * 1_000_000),
                ..PathFigures::new(address, address)
            };
            if !self.transport.is_quic() {
                outgoing.busy_us = Some(t_ms * 1_000);
                outgoing.receive_window_limited_us = Some(0);
                outgoing.send_buffer_limited_us = Some(0);
                outgoing.send_window_bytes = Some(3_000_000);
            }
            if self.transport == Transport::Mptcp {
                outgoing.connection_unacked_bytes = Some(2_500_000);
            }
            set(t_ms, &mut outgoing);
            let incoming = PathFigures {
                subflow,
                state: PathState::Open,
                bytes_received: bytes,
                ..PathFigures::new(address, address)
            };
            let (sending, receiving) = match self.direction {
                Direction::Download => (Side::Server, Side::Client),
                Direction::Upload => (Side::Client, Side::Server),
            };
            self.samples.extend([sample(sending, outgoing), sample(receiving, incoming)]);
        }
        self
    }

    /// `bytes(ms)` bytes reach the application in each 10 ms.
    fn delivers(mut self, bytes: impl Fn(u64) -> u64) -> Self {
        let mut series = DeliverySeries::starting_at(zero());
        for ms in (0..RUN_MS).step_by(10) {
            series.record(zero() + Duration::from_millis(ms), bytes(ms));
        }
        self.client.deliveries = series;
        self
    }

    fn limits(&self) -> Vec<LimitRecord> {
        self.with_input(limits)
    }

    /// Kind and end of the limits that are not examined.
    fn not_examined(&self) -> Vec<(LimitKind, Option<Side>)> {
        self.with_input(unexamined).iter().map(|one| (one.kind, one.side)).collect()
    }

    fn with_input<T>(&self, find: impl Fn(&LimitInput<'_>) -> T) -> T {
        let interfaces = BTreeMap::from([("eth".to_owned(), "eth0".to_owned())]);
        let (sender, receiver, sending_side) = match self.direction {
            Direction::Download => (&self.server, &self.client, Side::Server),
            Direction::Upload => (&self.client, &self.server, Side::Client),
        };
        find(&LimitInput {
            transport: self.transport,
            direction: self.direction,
            sending_side,
            sender: Some(sender),
            receiver: Some(receiver),
            samples: &self.samples,
            origin: zero(),
            window: Window { from: zero(), until: zero() + Duration::from_millis(RUN_MS) },
            goodput_mbps: Some(8.0),
            rate_bps: self.rate_bps,
            server_rate_bps: None,
            requested: self.requested,
            is_remote: true,
            interfaces: &interfaces,
            shapers: &self.shapers,
        })
    }

    #[track_caller]
    fn first(&self) -> LimitRecord {
        let found = self.limits();
        let first = found.first().unwrap_or_else(|| panic!("no limit")).clone();
        assert!(first.named, "{found:#?}");
        first
    }

    #[track_caller]
    fn assert_nothing_named(&self) {
        let found = self.limits();
        assert!(found.iter().all(|limit| !limit.named), "{found:#?}");
    }
}

fn nothing(_: u64, _: &mut PathFigures) {}

fn stream(receive_buffer_bytes: u64) -> StreamRecord {
    let address = SocketAddr::from(([10, 0, 1, 1], 4_711));
    StreamRecord {
        stream: 0,
        local: address,
        peer: address,
        in_force: InForce {
            protocol: "tcp".to_owned(),
            congestion: "cubic".to_owned(),
            send_buffer_bytes: 0,
            receive_buffer_bytes,
            no_delay: false,
            encryption: None,
        },
        multipath: Negotiation::NotAsked,
        mptcp: None,
        paths: Vec::new(),
        received_bytes: 0,
        sent_bytes: 0,
        completed: true,
        error: None,
        hung_ns: None,
    }
}

/// A subflow without data to send.
fn starve(figures: &mut PathFigures) {
    (figures.in_flight_bytes, figures.not_sent_bytes) = (40_000, 0);
}

fn small(limit: u64) -> BufferLimits {
    BufferLimits { receive: [4_096, 65_536, limit], send: [4_096, 16_384, limit] }
}

fn busiest(ran: u64, waited: u64) -> CpuUse {
    let busiest = ThreadUse { ran_us: ran * 10_000, waited_us: waited * 10_000, measured_us: 1_000_000 };
    CpuUse { ran_us: busiest.ran_us, busiest, stolen_percent: None }
}

#[test]
fn nothing_is_named_where_the_links_limit() {
    for transport in [Transport::Tcp, Transport::Mptcp, Transport::Quic, Transport::Mpquic] {
        let run = Run::new(transport).path("eth", 30, nothing).delivers(|_| 37_500);
        let run = if transport.is_multipath() { run.path("wlan", 20, nothing) } else { run };
        run.assert_nothing_named();
        assert_eq!(run.limits()[0].kind, LimitKind::CongestionWindow, "{transport}");
        // The last subflow of mptcp that the kernel counts as limited by its send buffer all the time.
        let counted = |t_ms: u64, figures: &mut PathFigures| {
            figures.send_buffer_limited_us = Some(t_ms * 1_000);
        };
        if transport == Transport::Mptcp {
            let run = Run::new(transport).path("eth", 30, nothing).path("wlan", 20, counted);
            run.delivers(|_| 62_500).assert_nothing_named();
        }
    }
}

#[test]
fn a_full_receive_window_is_named_with_the_limit_that_the_rate_needs() {
    let full = |_: u64, figures: &mut PathFigures| {
        figures.send_window_bytes = Some(140_000);
        figures.in_flight_bytes = 135_000;
        figures.srtt_ms = 300.0;
    };
    let mut run = Run::new(Transport::Tcp).path("wlan", 4, full);
    run.client.tcp_buffers = Some(small(262_144));
    let first = run.first();
    assert_eq!(
        (first.kind, first.side, first.path.as_deref()),
        (LimitKind::ReceiveWindow, Some(Side::Client), Some("wlan"))
    );
    // The kernel's default: the rate under the limit needs less.
    assert_eq!(first.remedy.as_deref(), Some("sysctl -w net.ipv4.tcp_rmem='4096 65536 6291456'"));
    // A window far below the limit of the buffer is that of a receiver that does not read.
    run.client.tcp_buffers = Some(BUFFERS);
    run.assert_nothing_named();
    // Without the limits there is no remedy to name.
    run.client.tcp_buffers = None;
    run.assert_nothing_named();
}

/// Regression: TCP over a path of 3 Mbit/s at its rate, whose send buffer held the data of a round trip and a queue.
#[test]
fn a_full_buffer_is_no_limit_where_the_links_queue_stands() {
    for (srtt_ms, named) in [(310.0, true), (396.0, false)] {
        let full = |t_ms: u64, figures: &mut PathFigures| {
            (figures.in_flight_bytes, figures.not_sent_bytes) = (149_000, 0);
            (figures.srtt_ms, figures.min_rtt_ms) = (srtt_ms, Some(301.0));
            figures.send_buffer_limited_us = Some(t_ms * 990);
        };
        let mut run = Run::new(Transport::Tcp).path("wlan", 3, full);
        run.server.tcp_buffers = Some(small(262_144));
        let is_named = run.limits().iter().any(|one| one.kind == LimitKind::SendBuffer && one.named);
        assert_eq!(is_named, named, "{srtt_ms}: {:#?}", run.limits());
    }
}

#[test]
fn small_receive_buffers_beside_a_long_slow_path_are_the_limit_of_mptcp() {
    let fast = |_: u64, figures: &mut PathFigures| {
        starve(figures);
        figures.send_window_bytes = Some(146_000);
        figures.connection_unacked_bytes = Some(400_000);
        figures.delivery_rate_bps = Some(57_000_000);
        figures.srtt_ms = 14.0;
    };
    let slow = |_: u64, figures: &mut PathFigures| {
        (figures.in_flight_bytes, figures.cwnd_bytes) = (110_000, 110_000);
        figures.send_window_bytes = Some(104_000);
        figures.connection_unacked_bytes = Some(400_000);
        figures.srtt_ms = 320.0;
    };
    let mut run = Run::new(Transport::Mptcp).path("eth", 7, fast).path("wlan", 1, slow).delivers(|_| 10_000);
    run.client.tcp_buffers = Some(small(262_144));
    let first = run.first();
    assert_eq!((first.kind, first.side), (LimitKind::ReceiveWindow, Some(Side::Client)));
    // 58 Mbit/s at 320 ms are 2.3 MB: four times that, and twice for the overhead, in whole MiB.
    assert_eq!(first.remedy.as_deref(), Some("sysctl -w net.ipv4.tcp_rmem='4096 65536 18874368'"));
}

#[test]
fn a_full_send_buffer_is_named_at_the_sender() {
    for transport in [Transport::Tcp, Transport::Mptcp] {
        let full = |_: u64, figures: &mut PathFigures| {
            starve(figures);
            if figures.connection_unacked_bytes.is_some() {
                figures.connection_unacked_bytes = Some(100_000);
            }
        };
        let mut run = Run::new(transport).path("eth", 8, full).path("wlan", 4, full).delivers(|_| 15_000);
        run.server.tcp_buffers = Some(small(65_536));
        let first = run.first();
        assert_eq!((first.kind, first.side), (LimitKind::SendBuffer, Some(Side::Server)), "{transport}");
        assert!(first.remedy.unwrap().starts_with("sysctl -w net.ipv4.tcp_wmem='4096 16384 "), "{transport}");
        // The same waits are those of the application where it has a rate.
        run.rate_bps = Some(8_100_000);
        assert_eq!(run.first().kind, LimitKind::Application, "{transport}");
    }
}

/// Regression: a sender that waited for its processor on a link without a rate was named as limited by its send buffer.
#[test]
fn a_send_buffer_is_named_only_with_clear_evidence() {
    for (mbps, min_rtt_ms, srtt_ms, held, counted_percent, named) in [
        // Less than a millisecond: the processor decides, in queues of any length.
        (20_000, 0.05, 0.9, 1_500_000, 32, false),
        (20_000, 0.05, 1.5, 1_500_000, 90, false),
        // The largest buffer holds the data of the path, and the kernel counts little.
        (600, 20.0, 20.0, 1_400_000, 32, false),
        (600, 20.0, 20.0, 1_400_000, 60, true),
        // A buffer whose overhead leaves less payload than two bandwidth-delay products.
        (690, 20.0, 20.0, 1_400_000, 40, true),
        (1_000, 20.0, 20.0, 2_000_000, 0, true),
    ] {
        for transport in [Transport::Tcp, Transport::Mptcp] {
            let figures = |t_ms: u64, figures: &mut PathFigures| {
                (figures.in_flight_bytes, figures.not_sent_bytes, figures.cwnd_bytes) = (held, 0, 10_000_000);
                (figures.min_rtt_ms, figures.srtt_ms) = (Some(min_rtt_ms), srtt_ms);
                figures.send_window_bytes = Some(30_000_000);
                figures.send_buffer_limited_us = Some(t_ms * 10 * counted_percent);
                if figures.connection_unacked_bytes.is_some() {
                    figures.connection_unacked_bytes = Some(held);
                }
            };
            let found = Run::new(transport).path("eth", mbps, figures).limits();
            let is_named = found.iter().any(|limit| limit.kind == LimitKind::SendBuffer && limit.named);
            // The kernel's count of a subflow of mptcp runs while data waits, too.
            let expected = named && (transport == Transport::Tcp || counted_percent == 0);
            assert_eq!(is_named, expected, "{transport} {mbps} {srtt_ms} {counted_percent}: {found:#?}");
        }
    }
}

#[test]
fn a_rate_is_the_limit_only_where_it_is_reached() {
    let mut run = Run::new(Transport::Quic).path("eth", 8, |_, figures| starve(figures));
    run.rate_bps = Some(8_000_000);
    assert_eq!(run.first().kind, LimitKind::Application);
    run.rate_bps = Some(40_000_000);
    run.assert_nothing_named();
    // With full links, 8 of 8.5 Mbit/s are their rate.
    let mut full = Run::new(Transport::Quic).path("eth", 8, nothing);
    full.rate_bps = Some(8_500_000);
    full.assert_nothing_named();
    full.rate_bps = Some(8_100_000);
    assert_eq!(full.first().kind, LimitKind::Application);
}

#[test]
fn a_thread_that_ran_or_was_ready_all_the_time_is_the_limit() {
    // Congestion windows with room: full ones show the links as the limit.
    let mut run = Run::new(Transport::Quic).path("eth", 8, |_, figures| starve(figures));
    for (ran, waited, named) in
        [(97, 0, true), (60, 35, true), (30, 55, true), (70, 0, false), (20, 50, false), (20, 75, false)]
    {
        run.server.cpu = Some(busiest(ran, waited));
        let found = run.limits();
        assert_eq!(
            found.iter().any(|one| one.kind == LimitKind::SenderCpu && one.named),
            named,
            "{ran} {waited}: {found:#?}"
        );
    }
    assert!(run.not_examined().contains(&(LimitKind::SenderCpu, Some(Side::Server))), "others had the CPUs");
    let mut full = Run::new(Transport::Quic).path("eth", 8, nothing);
    full.server.cpu = Some(busiest(60, 35));
    full.assert_nothing_named();
    run.server.cpu = None;
    run.client.cpu = Some(busiest(95, 0));
    let first = run.first();
    assert_eq!((first.kind, first.side), (LimitKind::ReceiverCpu, Some(Side::Client)));
    assert_eq!(first.remedy, None);
}

#[test]
fn a_remedy_names_the_size_that_the_run_requests_instead_of_the_kernels_limit() {
    let full = |_: u64, figures: &mut PathFigures| {
        figures.send_window_bytes = Some(60_000);
        figures.in_flight_bytes = 58_000;
        figures.srtt_ms = 100.0;
    };
    let mut run = Run::new(Transport::Tcp).path("eth", 5, full);
    run.requested.receive = Some(65_536);
    run.client.streams = vec![stream(131_072)];
    let first = run.first();
    assert_eq!(first.kind, LimitKind::ReceiveWindow);
    assert!(
        first.because.ends_with("`receive_buffer` of the pattern sets the buffer to 131 kB"),
        "{first:?}"
    );
    let remedy = first.remedy.unwrap();
    assert_eq!(remedy, "set `receive_buffer` of the pattern to \"3MiB\", or leave it out");
    // Of a larger size the kernel granted net.core.rmem_max only.
    run.requested.receive = Some(1 << 20);
    let remedy = run.first().remedy.unwrap();
    assert!(remedy.starts_with("leave out `receive_buffer` of the pattern"), "{remedy}");
    // Without the request, the window is far below the kernel's limit.
    run.requested.receive = None;
    run.assert_nothing_named();
}

#[test]
fn flow_control_that_the_sender_counts_is_the_receive_window_of_quic() {
    for transport in [Transport::Quic, Transport::Mpquic] {
        let waits = |percent: u64| {
            move |t_ms: u64, figures: &mut PathFigures| {
                (figures.in_flight_bytes, figures.not_sent_bytes) = (100_000, 0);
                figures.receive_window_limited_us = Some(t_ms * 10 * percent);
                figures.send_buffer_limited_us = Some(0);
            }
        };
        let mut run = Run::new(transport).path("eth", 30, waits(80)).delivers(|_| 37_500);
        (run.client.cpu, run.server.cpu) = (Some(busiest(20, 0)), Some(busiest(20, 0)));
        let first = run.first();
        assert_eq!((first.kind, first.side), (LimitKind::ReceiveWindow, Some(Side::Client)), "{transport}");
        assert_eq!(first.remedy, None, "the windows are those of the program");
        assert_eq!(run.not_examined(), [(LimitKind::Qdisc, Some(Side::Server))]);
        // A receiver without CPU time does not read.
        run.client.cpu = Some(busiest(95, 0));
        assert_eq!(run.first().kind, LimitKind::ReceiverCpu);
        Run::new(transport).path("eth", 30, waits(10)).delivers(|_| 37_500).assert_nothing_named();
        // A deep queue on every path holds the windows' data: the links carry no more.
        let queued = |t_ms: u64, figures: &mut PathFigures| {
            waits(80)(t_ms, figures);
            (figures.srtt_ms, figures.min_rtt_ms) = (600.0, Some(100.0));
        };
        Run::new(transport).path("eth", 30, queued).delivers(|_| 37_500).assert_nothing_named();
        // A record without the time decides nothing.
        let run = Run::new(transport).path("eth", 30, nothing).delivers(|_| 37_500);
        assert!(run.not_examined().contains(&(LimitKind::ReceiveWindow, Some(Side::Client))));
    }
}

#[test]
fn time_that_the_hypervisor_took_is_no_cpu_limit() {
    let mut run = Run::new(Transport::Quic).path("eth", 8, |_, figures| starve(figures));
    run.server.cpu = Some(CpuUse { stolen_percent: Some(2), ..busiest(97, 0) });
    assert_eq!(run.first().kind, LimitKind::SenderCpu);
    assert!(!run.not_examined().contains(&(LimitKind::SenderCpu, Some(Side::Server))));
    run.server.cpu = Some(CpuUse { stolen_percent: Some(35), ..busiest(97, 0) });
    run.assert_nothing_named();
    assert!(run.not_examined().contains(&(LimitKind::SenderCpu, Some(Side::Server))));
}

#[test]
fn limits_without_figures_are_not_examined() {
    let mut run = Run::new(Transport::Tcp).path("eth", 8, nothing);
    (run.client.cpu, run.server.cpu) = (Some(busiest(20, 0)), Some(busiest(20, 0)));
    run.client.tcp_buffers = None;
    let client = Some(Side::Client);
    let server = Some(Side::Server);
    assert_eq!(run.not_examined(), [(LimitKind::ReceiveWindow, client), (LimitKind::Qdisc, server)]);
    // A transfer shorter than five samples.
    run.samples.truncate(8);
    let buffers = [(LimitKind::ReceiveWindow, client), (LimitKind::SendBuffer, server)];
    assert!(buffers.iter().all(|one| run.not_examined().contains(one)), "{:?}", run.not_examined());
    run.assert_nothing_named();
}

#[test]
fn data_that_waits_for_another_path_is_named() {
    let waits = |_: u64, figures: &mut PathFigures| {
        starve(figures);
        (figures.connection_unacked_bytes, figures.send_window_bytes) = (Some(900_000), Some(1_000_000));
        figures.srtt_ms = 14.0;
    };
    let slow = |_: u64, figures: &mut PathFigures| {
        (figures.connection_unacked_bytes, figures.send_window_bytes) = (Some(900_000), Some(1_000_000));
        figures.srtt_ms = 800.0;
    };
    // Each half second the data before a hole is delivered at once.
    let run = Run::new(Transport::Mptcp).path("eth", 20, waits).path("wlan", 1, slow);
    let run = run.delivers(|ms| if ms % 500 == 490 { 21 * 125 * 500 } else { 0 });
    let first = run.first();
    assert_eq!((first.kind, first.side, first.path), (LimitKind::HeadOfLine, None, None));
    assert!(first.remedy.is_none_or(|remedy| remedy == "make wlan a backup path"));
    // A connection over one path has no data of another path to wait for.
    let alone = Run { transport: Transport::Tcp, ..run };
    assert!(alone.limits().iter().all(|limit| limit.kind != LimitKind::HeadOfLine));
}

#[test]
fn a_shaper_is_named_where_an_upload_has_its_rate() {
    let shaper = |rate_bps| PathShaper { interface: "eth0".to_owned(), kind: "tbf".to_owned(), rate_bps };
    let upload = Run { direction: Direction::Upload, ..Run::new(Transport::Tcp) };
    let mut run = upload.path("eth", 19, nothing);
    run.shapers = vec![shaper(20_000_000)];
    let first = run.first();
    assert_eq!((first.kind, first.path.as_deref()), (LimitKind::Qdisc, Some("eth")));
    assert_eq!(first.remedy, None);
    run.shapers = vec![shaper(50_000_000)];
    run.assert_nothing_named();
    let mut download = Run::new(Transport::Tcp).path("eth", 19, nothing);
    download.shapers = vec![shaper(20_000_000)];
    download.assert_nothing_named();
}

/// A download of this rate, limited by the links of its paths.
fn link_limited(label: &str, mbps: f64, paths: &[&str]) -> RunRecord {
    let direction = DirectionRecord {
        direction: Direction::Download,
        goodput_mbps: Some(mbps),
        delivered_bytes: 1_000_000,
        stall_ms: None,
        delay_ms: None,
    };
    let path = |name: &&str| PathRecord { name: (*name).to_owned(), share: 0.5, ..PathRecord::default() };
    let limit = |name: &&str| LimitRecord {
        direction: Direction::Download,
        kind: LimitKind::CongestionWindow,
        side: None,
        path: Some((*name).to_owned()),
        share: 0.9,
        named: false,
        because: String::new(),
        remedy: None,
    };
    RunRecord {
        transport: label.split('@').next().unwrap().parse().unwrap(),
        label: label.to_owned(),
        pattern: "throughput".to_owned(),
        repetition: 1,
        valid: true,
        completed: true,
        directions: vec![direction],
        multipath: MultipathRecord { used: paths.len() > 1, ..MultipathRecord::default() },
        paths: paths.iter().map(path).collect(),
        limits: paths.iter().map(limit).collect(),
        ..RunRecord::default()
    }
}

#[test]
fn paths_that_are_together_as_fast_as_one_alone_share_a_bottleneck() {
    let cases = [
        ([48.0, 47.0, 44.0], true),
        // Aggregation.
        ([48.0, 47.0, 90.0], false),
        // A slow second path adds little.
        ([48.0, 6.0, 49.0], false),
        // Slower than one path: another limit.
        ([48.0, 47.0, 20.0], false),
    ];
    for ([eth, wlan, together], shared) in cases {
        let runs = vec![
            link_limited("tcp@eth", eth, &["eth"]),
            link_limited("tcp@wlan", wlan, &["wlan"]),
            link_limited("mptcp", together, &["eth", "wlan"]),
        ];
        let mut document = ResultDocument { runs, ..ResultDocument::default() };
        summarise_runs(&mut document);
        let found = document.runs[2].limited_by.as_deref() == Some("shared bottleneck");
        assert_eq!(found, shared, "{eth} {wlan} {together}: {:#?}", document.runs[2].limits);
        let gain = &document.summary.headline.as_ref().unwrap().gains[0];
        assert_eq!(gain.limited_by.is_some(), shared);
        let once = document.runs.clone();
        summarise_runs(&mut document);
        assert_eq!(document.runs, once, "a second summary names it again");
    }
}
