//! The reports of a server to a collector, which offers it to agents: address, certificate, load. A failed report is
//! logged and never ends the server.

use super::arguments::CollectorReportArgs;
use super::log::ServerLog;
use pathbench_agent::client::{CollectorClient, CollectorError};
use pathbench_api::check_in::{HEARTBEAT_S, ServerReport};
use pathbench_api::name::Name;
use pathbench_api::token::{Audience, TokenKey};
use pathbench_program::exit::Failure;
use pathbench_program::random;
use pathbench_record::time::SharedClock;
use pathbench_record::transport::Transport;
use pathbench_traffic::server::Server;
use pathbench_transport::ServerIdentity;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(HEARTBEAT_S as u64);
/// Validity of the credential: one report.
const VALIDITY: Duration = Duration::from_secs(120);
/// A failure that lasts is logged once in this many reports.
const LOGGED: u32 = 30;

/// The server in its reports, without its load.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) addresses: Vec<(Transport, SocketAddr)>,
    pub(super) quic_ports: Vec<u16>,
    /// Agents trust a certificate by its fingerprint; one of a public CA is pinned as well.
    pub(super) identity: Arc<ServerIdentity>,
}

/// Reports until it is dropped.
pub(super) struct Heartbeat {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Reporter {
    collector: CollectorClient,
    path: String,
    name: Name,
    key: TokenKey,
    description: Description,
    server: Weak<Server>,
    log: Arc<ServerLog>,
    clock: SharedClock,
}

impl Heartbeat {
    /// `None` without a collector, or without the key for the credential.
    pub(super) fn start(
        args: &CollectorReportArgs,
        key: Option<TokenKey>,
        description: Description,
        server: &Arc<Server>,
        log: &Arc<ServerLog>,
        clock: &SharedClock,
    ) -> Result<Option<Self>, Failure> {
        let (Some(address), Some(name), Some(key)) = (&args.collector, &args.collector_name, key) else {
            return Ok(None);
        };
        let collector = CollectorClient::new(address.clone(), None, args.collector_ca.as_deref())?;
        let reporter = Reporter {
            collector: match args.collector_fingerprint {
                Some(fingerprint) => collector.pinned(fingerprint)?,
                None => collector,
            },
            path: format!("/v1/servers/{name}"),
            name: name.clone(),
            key,
            description,
            server: Arc::downgrade(server),
            log: Arc::clone(log),
            clock: Arc::clone(clock),
        };
        let (stop, stopped) = channel();
        let thread = thread::Builder::new()
            .name("heartbeat".to_owned())
            .spawn(move || reporter.run(&stopped))
            .map_err(Failure::failed)?;
        Ok(Some(Self { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A request to a silent collector would delay the end of the server.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _panicked = thread.join();
        }
    }
}

impl Reporter {
    fn run(&self, stopped: &Receiver<()>) {
        let mut failures = 0_u32;
        while let Some(server) = self.server.upgrade() {
            let report = self.report(&server);
            drop(server);
            match report {
                Ok(()) if failures > 0 => {
                    failures = 0;
                    self.log.notice(&format!("the collector at {} answers again", self.collector.address));
                }
                Ok(()) => {}
                Err(problem) => {
                    if failures.is_multiple_of(LOGGED) {
                        self.log.notice(&problem);
                    }
                    failures = failures.saturating_add(1);
                }
            }
            match stopped.recv_timeout(INTERVAL) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn report(&self, server: &Server) -> Result<(), String> {
        let status = server.status();
        let Description { addresses, quic_ports, identity } = &self.description;
        let report = ServerReport {
            address: addresses.first().map(|(_, address)| address.to_string()).unwrap_or_default(),
            quic_ports: quic_ports.clone(),
            fingerprint: Some(identity.fingerprint().to_string()),
            transports: transports(addresses),
            tests: u32::try_from(status.tests).unwrap_or(u32::MAX),
            max_tests: u32::try_from(status.max_tests).unwrap_or(u32::MAX),
            draining: status.draining || !status.failed.is_empty(),
            version: Name::nearest(env!("CARGO_PKG_VERSION")),
        };
        let token = self
            .key
            .mint(Audience::Server, &self.name, random::bytes(), self.clock.unix_seconds(), VALIDITY)
            .map_err(|error| error.to_string())?;
        self.collector
            .with_token(token)
            .put(&self.path, &report)
            .map_err(|error: CollectorError| format!("not reported to the collector: {error}"))
    }
}

fn transports(addresses: &[(Transport, SocketAddr)]) -> Vec<Transport> {
    let serves = |transport: &Transport| {
        addresses.iter().any(|(listener, _)| {
            listener == transport
                || matches!(
                    (listener, transport),
                    (Transport::Mptcp, Transport::Tcp) | (Transport::Mpquic, Transport::Quic)
                )
        })
    };
    Transport::ALL.into_iter().filter(serves).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multipath_listeners_serve_one_path_as_well() {
        let at = SocketAddr::from(([127, 0, 0, 1], 4433));
        assert_eq!(transports(&[(Transport::Mptcp, at), (Transport::Mpquic, at)]), Transport::ALL);
        assert_eq!(transports(&[(Transport::Tcp, at)]), [Transport::Tcp]);
    }
}
