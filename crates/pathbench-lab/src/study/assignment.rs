//! What the client, the server and the assembly of one run are told: pure functions of the plan.

use super::setting;
use crate::agent::ServePlan;
use crate::assembly::RunSetting;
use crate::scenario::{Link, PatternPlan, VariantPlan};
use pathbench_record::transport::{Transport, TransportLabel};
use pathbench_traffic::client::ClientPlan;
use pathbench_traffic::protocol::TestId;
use pathbench_transport::{CertificateFingerprint, LocalPath, QuicOptions, Security, SocketOptions, Trust};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// How long a connection may take to open.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// One run: a variant, a transport and a pattern.
#[derive(Debug)]
pub(super) struct Assignment<'a> {
    pub(super) id: String,
    pub(super) plan: &'a VariantPlan,
    pub(super) label: &'a TransportLabel,
    pub(super) pattern: &'a PatternPlan,
    pub(super) sample_interval: Duration,
    /// Where qlogs go, where they are wanted.
    pub(super) qlog: Option<PathBuf>,
}

/// Where the connection starts, and where to.
struct Start {
    local: IpAddr,
    interface: String,
    remote: IpAddr,
}

impl Assignment<'_> {
    fn transport(&self) -> Transport {
        self.label.transport
    }

    fn is_quic(&self) -> bool {
        matches!(self.transport(), Transport::Quic | Transport::Mpquic)
    }

    /// Whether what travels is encrypted, so that the server needs a certificate.
    pub(super) fn is_encrypted(&self) -> bool {
        self.is_quic() || self.plan.run.tls
    }

    /// The client's links, the one that the connection starts on first: the one it is bound to, else the first.
    fn client_links(&self) -> Vec<(&Link, usize)> {
        let mut links: Vec<_> = self.plan.topology.links_of(&self.plan.run.client).collect();
        // Stable: the others stay in file order.
        links.sort_by_key(|(link, _)| self.label.path.as_ref().is_some_and(|name| *name != link.name));
        links
    }

    /// The client's address on the first link and the server's address to connect to: on the same link where
    /// both are on it, else the server's first of the family.
    fn start(&self) -> Option<Start> {
        let run = &self.plan.run;
        let (link, end) = self.client_links().into_iter().next()?;
        let local = link.ends[end].address(run.family)?;
        let far = &link.ends[1 - end];
        let remote = if far.node == run.server {
            far.address(run.family)?
        } else {
            let mut of_server = self.plan.topology.links_of(&run.server);
            of_server.find_map(|(link, end)| link.ends[end].address(run.family))?
        };
        Some(Start { local, interface: link.ends[end].interface.clone(), remote })
    }

    /// The server's address that the client connects to; `None` where an end has none of the family.
    pub(super) fn server_address(&self) -> Option<IpAddr> {
        self.start().map(|start| start.remote)
    }

    /// What the server's agent is to serve.
    pub(super) fn serve_plan(&self, remote: IpAddr) -> ServePlan {
        let any: IpAddr = if remote.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
        ServePlan {
            transport: self.transport(),
            address: SocketAddr::new(any, 0),
            socket: self.socket_options(),
            quic: self.quic_options(),
            encrypted: self.is_encrypted(),
            sample_interval: self.sample_interval,
        }
    }

    fn socket_options(&self) -> SocketOptions {
        let run = &self.plan.run;
        let (congestion, send_buffer_bytes, receive_buffer_bytes) = match self.pattern {
            PatternPlan::Iperf(iperf) => {
                (&iperf.congestion, iperf.send_buffer_bytes, iperf.receive_buffer_bytes)
            }
            _ => (&run.socket.congestion, None, None),
        };
        let congestion = if self.is_quic() { &run.quic.congestion } else { congestion };
        SocketOptions {
            congestion: congestion.clone(),
            send_buffer_bytes,
            receive_buffer_bytes,
            ..SocketOptions::default()
        }
    }

    /// What QUIC takes at either end; its paths are the client's.
    fn quic_options(&self) -> QuicOptions {
        let quic = &self.plan.run.quic;
        QuicOptions {
            paths: Vec::new(),
            scheduler: quic.scheduler.clone(),
            heartbeat: quic.heartbeat,
            silence: quic.silence,
            qlog: self.qlog.clone(),
            ..QuicOptions::default()
        }
    }

    /// The paths of an mpquic connection.
    fn local_paths(&self) -> Vec<LocalPath> {
        let of_link = |(link, end): (&Link, usize)| {
            let address = link.ends[end].address(self.plan.run.family)?;
            let interface = link.ends[end].interface.clone();
            Some(LocalPath { interface, address: Some(address), backup: link.backup, weight: link.weight })
        };
        self.client_links().into_iter().filter_map(of_link).collect()
    }

    /// How long the application waits without progress before it gives up.
    pub(super) fn patience(&self) -> Duration {
        match self.pattern {
            PatternPlan::Iperf(iperf) => iperf.patience,
            _ => self.plan.run.socket.patience,
        }
    }

    /// What the client's agent is to do; `fingerprint` is that of the server's certificate, where it has one.
    pub(super) fn client_plan(
        &self,
        server: SocketAddr,
        fingerprint: Option<CertificateFingerprint>,
    ) -> Option<ClientPlan> {
        let start = self.start()?;
        let security = match fingerprint.filter(|_| self.is_encrypted()) {
            Some(fingerprint) => Security::Tls(Trust::Fingerprint(fingerprint)),
            None => Security::Clear,
        };
        let paths = if self.transport() == Transport::Mpquic { self.local_paths() } else { Vec::new() };
        // Binding a multipath socket to an interface would bind its further paths to it, too.
        let bound = !self.transport().is_multipath();
        let parameters = self.pattern.parameters();
        Some(ClientPlan {
            local: Some(start.local),
            interface: bound.then_some(start.interface),
            socket: self.socket_options(),
            security,
            quic: QuicOptions { paths, ..self.quic_options() },
            sample_interval: self.sample_interval,
            patience: self.patience(),
            connect_timeout: CONNECT_TIMEOUT,
            ..ClientPlan::new(self.transport(), server, test_id(&self.id), parameters)
        })
    }

    /// What the assembly of the run has to know.
    pub(super) fn setting(&self) -> RunSetting {
        let mut setting = setting::of_plan(self.plan, self.pattern, self.pattern.parameters());
        let run = &self.plan.run;
        if self.is_quic()
            && let Ok(quic) = serde_json::to_value(&run.quic)
        {
            setting.asked.insert("quic".to_owned(), quic);
        }
        if run.tls && !self.is_quic() {
            setting.asked.insert("tls".to_owned(), true.into());
        }
        setting
    }
}

/// Within a lab nobody guesses ids; the run's own name makes the test easy to find.
fn test_id(run: &str) -> TestId {
    let mut bytes = [0; 16];
    for (byte, letter) in bytes.iter_mut().zip(run.bytes().rev()) {
        *byte = letter;
    }
    TestId(bytes)
}
