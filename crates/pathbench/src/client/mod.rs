//! This host as the client of tests: which server, by which ways, over which transports, and a test's plan.

mod access;
pub(crate) mod address;
pub(crate) mod approach;
pub(crate) mod clocks;
pub(crate) mod mptcp;
pub(crate) mod network;
pub(crate) mod parameters;
mod ping;
mod reachability;
mod selection;
pub(crate) mod ways;

pub(crate) use access::{AccessArgs, FamilyArgs};

use crate::clock::MonotonicClock;
use crate::random;
use pathbench_lab::assembly::ClientPath;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_traffic::client::{ClientOutcome, ClientPlan, Unobserved, run_client};
use pathbench_traffic::pattern::PatternParameters;
use pathbench_traffic::protocol::TestId;
use pathbench_transport::{
    CertificateFingerprint, LocalPath, QuicOptions, Scheduler, Security, SocketOptions, Trust,
};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

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
