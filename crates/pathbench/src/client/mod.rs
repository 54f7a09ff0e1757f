//! This host as the client of tests: which server, by which ways, over which transports, and a test's plan.

use crate::clock::MonotonicClock;
use crate::random;
use pathbench_analysis::assembly::{ClientPath, ClockOffset};
use pathbench_record::connection::Scheduler;
use pathbench_record::direction::DataDirection;
use pathbench_record::end::EndRecord;
use pathbench_record::pattern::{Amount, IperfParameters, PatternParameters};
use pathbench_record::test_id::TestId;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{ClientOutcome, ClientPlan, Unobserved, run_client};
use pathbench_transport::{CertificateFingerprint, LocalPath, QuicOptions, Security, SocketOptions, Trust};
use serde_json::{Map, Value, json};
pub(crate) use server::{AccessArgs, FamilyArgs};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(crate) mod discovery;
pub(crate) mod mptcp;
pub(crate) mod network;
pub(crate) mod paths;
mod reachability;
pub(crate) mod server;

/// All transports, single-path ones before the multipath ones that share their way.
pub(crate) const TRANSPORTS: [Transport; 4] =
    [Transport::Tcp, Transport::Mptcp, Transport::Quic, Transport::Mpquic];

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A run ends as not completed after this long without progress.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the user asks of every test.
#[derive(Debug, Clone)]
pub(crate) struct Wishes {
    pub(crate) fingerprint: Option<CertificateFingerprint>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) token: Option<String>,
    pub(crate) tls: bool,
    pub(crate) scheduler: Scheduler,
    pub(crate) congestion: Option<String>,
    /// Whether single-path transports are bound to the first way's interface.
    pub(crate) bind: bool,
}

/// A server at one address, and the ways there.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// The name in its certificate.
    pub(crate) host: String,
    /// The one to start on first; may be empty, where only the kernel knows.
    pub(crate) ways: Vec<ClientPath>,
}

/// This host as the client of tests.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wishes: Wishes,
}

impl Client {
    /// One that wishes what the command line says.
    pub(crate) fn wishing(
        access: &AccessArgs,
        scheduler: Scheduler,
        congestion: Option<String>,
        bind: bool,
    ) -> Self {
        let AccessArgs { fingerprint, ca, token, tls, quic_ports: _ } = access.clone();
        let wishes = Wishes { fingerprint, ca, token, tls, scheduler, congestion, bind };
        Self { clock: Arc::new(MonotonicClock), wishes }
    }

    /// A test of `parameters` against `target`.
    pub(crate) fn plan(
        &self,
        transport: Transport,
        target: &Target,
        parameters: PatternParameters,
    ) -> ClientPlan {
        let wishes = &self.wishes;
        let first = target.ways.first();
        let local = first.and_then(|way| way.addresses.first().copied());
        // Binding an mptcp socket to an interface would bind its further subflows to it, too.
        let interface =
            (wishes.bind && !transport.is_multipath()).then(|| first.map(|way| way.interface.clone()));
        ClientPlan {
            local: local.filter(|local| local.is_ipv4() == target.address.is_ipv4()),
            interface: interface.flatten(),
            socket: SocketOptions {
                congestion: wishes.congestion.as_deref().map(|name| known_as(transport, name).to_owned()),
                ..SocketOptions::default()
            },
            security: self.security(transport, &target.host),
            quic: QuicOptions {
                paths: target.ways.iter().map(local_path).collect(),
                scheduler: wishes.scheduler.clone(),
                ..QuicOptions::default()
            },
            token: wishes.token.clone(),
            patience: PATIENCE,
            connect_timeout: CONNECT_TIMEOUT,
            ..ClientPlan::new(transport, target.address, TestId(random::bytes()), parameters)
        }
    }

    /// Runs a short test in this thread.
    pub(crate) fn run_unwatched(
        &self,
        transport: Transport,
        target: &Target,
        parameters: PatternParameters,
        timeout: Duration,
    ) -> ClientOutcome {
        let plan = ClientPlan {
            connect_timeout: timeout,
            patience: timeout,
            ..self.plan(transport, target, parameters)
        };
        run_client(&plan, &self.clock, &Unobserved)
    }

    /// Whether a transport is encrypted, and what the server is known by.
    pub(crate) fn security(&self, transport: Transport, host: &str) -> Security {
        if !is_quic(transport) && !self.wishes.tls {
            return Security::Clear;
        }
        let name = host.to_owned();
        Security::Tls(match (&self.wishes.fingerprint, &self.wishes.ca) {
            (Some(fingerprint), _) => Trust::Fingerprint(*fingerprint),
            (None, Some(file)) => Trust::Authorities { file: file.clone(), name },
            (None, None) => Trust::Public { name },
        })
    }
}

fn local_path(way: &ClientPath) -> LocalPath {
    LocalPath {
        interface: way.interface.clone(),
        address: way.addresses.first().copied(),
        backup: way.backup.unwrap_or(false),
        weight: 1,
    }
}

/// The kernel and the QUIC library call the same algorithms by different names.
fn known_as(transport: Transport, congestion: &str) -> &str {
    match (congestion, is_quic(transport)) {
        ("reno", true) => "newreno",
        ("bbr", true) => "bbr3",
        ("newreno", false) => "reno",
        ("bbr3", false) => "bbr",
        _ => congestion,
    }
}

/// Whether it runs over UDP.
pub(crate) const fn is_quic(transport: Transport) -> bool {
    matches!(transport, Transport::Quic | Transport::Mpquic)
}

/// Bytes each way of the exchange that tells how far the clocks of both ends are apart.
const CLOCK_BYTES: u64 = 1000;
const CLOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Compares both clocks by a few bytes both ways over a transport that works.
pub(crate) fn compare_clocks(client: &Client, transport: Transport, target: &Target) -> Option<ClockOffset> {
    let both = IperfParameters {
        direction: DataDirection::Both,
        amount: Amount::Bytes(CLOCK_BYTES),
        ..IperfParameters::default()
    };
    let outcome = client.run_unwatched(transport, target, both.into(), CLOCK_TIMEOUT);
    ClockOffset::of_records(&outcome.client, outcome.server.as_ref()?)
}

/// What is known of both clocks by now.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clocks {
    offset: Option<ClockOffset>,
}

impl Clocks {
    /// As it was compared, where it could be.
    pub(crate) const fn differing_by(offset: Option<ClockOffset>) -> Self {
        Self { offset }
    }

    /// Learns from a comparison, or from the records of a test.
    pub(crate) fn learn(&mut self, of_this: Option<ClockOffset>) {
        self.offset = match (self.offset, of_this) {
            (Some(known), Some(of_this)) => Some(known.and(of_this)),
            (known, of_this) => of_this.or(known),
        };
    }

    /// The server's record with its times on the client's clock, and what a reader should know of them.
    pub(crate) fn on_clients(
        &mut self,
        client: &EndRecord,
        server: EndRecord,
    ) -> (EndRecord, Option<String>) {
        self.learn(ClockOffset::of_records(client, &server));
        let offset = self.offset.filter(|offset| offset.suits(client, &server));
        let note = match offset {
            None => Some(
                "the clocks of both ends could not be compared: the server's times are counted from the moment at \
                 which the connection was open"
                    .to_owned(),
            ),
            Some(offset) if !offset.may_be_none() => Some(format!(
                "the server's clock is another one: its times are right to ±{:.2} ms",
                offset.uncertainty().as_secs_f64() * 1e3
            )),
            Some(_) => None,
        };
        let offset = offset.unwrap_or_else(|| ClockOffset::of_starts(client, &server));
        (offset.apply(server), note)
    }
}

/// The parameters of the pattern of this name in results, as the user knows them.
pub(crate) fn asked_parameters(name: &str, parameters: &PatternParameters) -> Map<String, Value> {
    let ms = |time: Duration| json!(time.as_secs_f64() * 1e3);
    let asked = match parameters {
        PatternParameters::Ping(ping) => json!({
            "count": ping.count,
            "warm_up": ping.warm_up,
            "interval_ms": ms(ping.interval),
            "request_bytes": ping.request_bytes,
            "response_bytes": ping.response_bytes,
            "timeout_ms": ms(ping.timeout),
        }),
        PatternParameters::Bulk(bulk) => json!({ "bytes": bulk.bytes, "streams": bulk.streams }),
        PatternParameters::Iperf(iperf) => json!({
            "direction": name.trim_start_matches("iperf-"),
            "streams": iperf.streams,
            "duration_ms": parameters.nominal_duration().map(ms),
            "omit_ms": ms(iperf.omit),
        }),
        PatternParameters::Interactive(interactive) => json!({
            "duration_ms": ms(interactive.duration),
            "interval_ms": ms(interactive.interval),
            "request_bytes": interactive.request_bytes,
            "response_bytes": interactive.response_bytes,
            "linger_ms": ms(interactive.linger),
        }),
    };
    match asked {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The scheduler of mpquic of this name.
pub(crate) fn scheduler(name: &str) -> Result<Scheduler, String> {
    let known = [Scheduler::LowestRtt, Scheduler::RoundRobin, Scheduler::Weighted, Scheduler::backup()];
    let names: Vec<&str> = known.iter().map(Scheduler::name).collect();
    let refusal = format!("`{name}` is not a scheduler; known are {}", names.join(", "));
    known.into_iter().find(|scheduler| scheduler.name() == name).ok_or(refusal)
}
