//! The parameters of client, server and assembly in one run: pure functions of the plan.

use crate::agent::ServePlan;
use crate::scenario::{LinkPlan, PatternPlan, TopologyPlan, VariantPlan};
use pathbench_analysis::assembly::{ClientPath, RunSetting};
use pathbench_analysis::mptcp_setup::LocalSetup;
use pathbench_record::connection::Scheduler;
use pathbench_record::end::TestId;
use pathbench_record::mptcp::MptcpEndpoint;
use pathbench_record::mptcp::remedy::PathManagerState;
use pathbench_record::network::{AddressFamily, IpNet};
use pathbench_record::transport::{Transport, TransportLabel};
use pathbench_traffic::client::{ClientPlan, PathProbes, PathToProbe};
use pathbench_transport::{CertificateFingerprint, LocalPath, QuicOptions, Security, SocketOptions, Trust};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Time limit for opening a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// One run: a variant, a transport and a pattern.
#[derive(Debug)]
pub struct RunAssignment<'a> {
    pub id: String,
    pub plan: &'a VariantPlan,
    pub label: &'a TransportLabel,
    pub pattern: &'a PatternPlan,
    pub sample_interval: Duration,
    pub qlog: Option<PathBuf>,
}

struct Start {
    local: IpAddr,
    interface: String,
    remote: IpAddr,
}

impl RunAssignment<'_> {
    fn transport(&self) -> Transport {
        self.label.transport
    }

    /// Whether the connection is encrypted, so that the server needs a certificate.
    pub fn is_encrypted(&self) -> bool {
        self.transport().is_quic() || self.plan.run.tls
    }

    /// The client's links. The link of the first subflow is the first: the bound link, else the first in the file.
    fn client_links(&self) -> Vec<(&LinkPlan, usize)> {
        let mut links: Vec<_> = self.plan.topology.links_of(&self.plan.run.client).collect();
        // Stable: the others stay in file order.
        links.sort_by_key(|(link, _)| self.label.path.as_ref().is_some_and(|name| *name != link.name));
        links
    }

    /// The client's address on the first link, and the server's address to connect to: its address at the end of the
    /// same path, else its first address of the family.
    fn start(&self) -> Option<Start> {
        let run = &self.plan.run;
        let (link, end) = self.client_links().into_iter().next()?;
        let local = link.ends[end].address(run.family)?;
        let (far, far_end) = self.plan.topology.far_end_of(link, &run.client)?;
        let far = &far.ends[far_end];
        let remote = if far.node == run.server {
            far.address(run.family)?
        } else {
            let mut of_server = self.plan.topology.links_of(&run.server);
            of_server.find_map(|(link, end)| link.ends[end].address(run.family))?
        };
        Some(Start { local, interface: link.ends[end].interface.clone(), remote })
    }

    /// The server's address to which the client connects; `None` if an end has no address of the family.
    pub fn server_address(&self) -> Option<IpAddr> {
        self.start().map(|start| start.remote)
    }

    pub fn serve_plan(&self, remote: IpAddr) -> ServePlan {
        let any: IpAddr = if remote.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
        ServePlan {
            transport: self.transport(),
            address: SocketAddr::new(any, 0),
            socket: self.socket_options(),
            quic: self.quic_options(),
            // The datagrams of udp arrive at a port of QUIC, which needs a certificate.
            encrypted: self.is_encrypted() || self.transport() == Transport::Udp,
            answers_probes: matches!(self.pattern, PatternPlan::Responsiveness(_)),
            sample_interval: self.sample_interval,
        }
    }

    fn socket_options(&self) -> SocketOptions {
        let run = &self.plan.run;
        let (congestion, send_buffer_bytes, receive_buffer_bytes) = match self.pattern {
            PatternPlan::Throughput(throughput) => {
                (&throughput.congestion, throughput.send_buffer_bytes, throughput.receive_buffer_bytes)
            }
            _ => (&run.socket.congestion, None, None),
        };
        let congestion = if self.transport().is_quic() { &run.quic.congestion } else { congestion };
        SocketOptions {
            congestion: congestion.clone(),
            send_buffer_bytes,
            receive_buffer_bytes,
            ..SocketOptions::default()
        }
    }

    fn quic_options(&self) -> QuicOptions {
        let quic = &self.plan.run.quic;
        QuicOptions {
            paths: Vec::new(),
            scheduler: quic.scheduler.clone(),
            heartbeat: quic.heartbeat,
            silence: quic.silence,
            qlog: self.qlog.clone(),
        }
    }

    /// The paths of UDP probes to the server's address `server`: the bound one, or all of a multipath transport.
    fn path_probes(&self, server: SocketAddr) -> PathProbes {
        let most = if self.transport().is_multipath() { usize::MAX } else { 1 };
        let of_link = |(link, end): (&LinkPlan, usize)| {
            let local = link.ends[end].address(self.plan.run.family)?;
            let interface = Some(link.ends[end].interface.clone());
            Some(PathToProbe { name: link.name.clone(), interface, local: Some(local) })
        };
        let paths = self.client_links().into_iter().filter_map(of_link).take(most).collect();
        PathProbes { server, paths }
    }

    fn local_paths(&self) -> Vec<LocalPath> {
        let of_link = |(link, end): (&LinkPlan, usize)| {
            let address = link.ends[end].address(self.plan.run.family)?;
            let interface = link.ends[end].interface.clone();
            Some(LocalPath { interface, address: Some(address), backup: link.backup, weight: link.weight })
        };
        self.client_links().into_iter().filter_map(of_link).collect()
    }

    /// The time without progress after which the application gives up.
    pub fn patience(&self) -> Duration {
        match self.pattern {
            PatternPlan::Throughput(throughput) => throughput.patience,
            _ => self.plan.run.socket.patience,
        }
    }

    /// The client's plan. `fingerprint` is the fingerprint of the server's certificate, if any, and `probed` the server's
    /// address for UDP probes.
    pub fn client_plan(
        &self,
        server: SocketAddr,
        fingerprint: Option<CertificateFingerprint>,
        probed: Option<SocketAddr>,
    ) -> Option<ClientPlan> {
        let start = self.start()?;
        let security = match fingerprint.filter(|_| self.is_encrypted()) {
            Some(fingerprint) => Security::Tls(Trust::Fingerprint(fingerprint)),
            None => Security::Clear,
        };
        let paths = match self.transport() {
            Transport::Mpquic => self.local_paths(),
            // A flow on each path, or on the bound one.
            Transport::Udp => {
                let most = if self.label.path.is_some() { 1 } else { usize::MAX };
                self.local_paths().into_iter().take(most).collect()
            }
            _ => Vec::new(),
        };
        // Binding a multipath socket to an interface would also bind its other paths to that interface.
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
            path_probes: probed.map(|probed| self.path_probes(probed)),
            ..ClientPlan::new(self.transport(), server, test_id(&self.id), parameters)
        })
    }

    pub fn setting(&self) -> RunSetting {
        let mut setting = setting_of(self.plan, self.pattern);
        if self.transport().is_quic() {
            self.ask_of_quic(&mut setting.asked);
        } else if self.plan.run.tls {
            setting.asked.insert("tls".to_owned(), true.into());
        }
        setting
    }

    /// `[run.quic]` without the keys that have their defaults.
    fn ask_of_quic(&self, asked: &mut Map<String, Value>) {
        let quic = &self.plan.run.quic;
        let usual = QuicOptions::default();
        let mut put = |key: &str, value: Option<Value>| {
            // The kernel's congestion control is not QUIC's.
            asked.remove(key);
            if let Some(value) = value {
                asked.insert(key.to_owned(), value);
            }
        };
        let ms = |time: Duration| Value::from(time.as_secs_f64() * 1e3);
        put("congestion", quic.congestion.clone().map(Value::from));
        put("heartbeat_ms", (quic.heartbeat != usual.heartbeat).then(|| ms(quic.heartbeat)));
        put("silence_ms", (quic.silence != usual.silence).then(|| ms(quic.silence)));
        if self.transport() == Transport::Mpquic {
            put("scheduler", Some(quic.scheduler.name().into()));
            if let Scheduler::Backup { srtt_above, rto_above } = quic.scheduler {
                put("srtt_above_ms", Some(ms(srtt_above)));
                put("rto_above_ms", Some(ms(rto_above)));
            }
        }
    }
}

/// The test id contains the run's name, so that the test is easy to find. Ids in a lab need not be unguessable.
fn test_id(run: &str) -> TestId {
    let mut bytes = [0; 16];
    for (byte, letter) in bytes.iter_mut().zip(run.bytes().rev()) {
        *byte = letter;
    }
    TestId(bytes)
}

fn setting_of(plan: &VariantPlan, pattern: &PatternPlan) -> RunSetting {
    let (topology, run) = (&plan.topology, &plan.run);
    let paths = topology.links_of(&run.client).map(|(link, end)| ClientPath {
        name: link.name.clone(),
        interface: link.ends[end].interface.clone(),
        addresses: link.ends[end].addresses.iter().map(IpNet::addr).collect(),
        backup: Some(link.backup),
        mtu_bytes: Some(link.mtu_bytes()),
    });
    let ends = topology.links.iter().flat_map(|link| link.ends.iter().map(move |end| (link, end)));
    RunSetting {
        variant: plan.variant.clone(),
        client: run.client.clone(),
        server: run.server.clone(),
        server_address: None,
        pattern: pattern.name().to_owned(),
        parameters: pattern.parameters(),
        asked: asked_of(pattern).unwrap_or_default(),
        paths: paths.collect(),
        other_interfaces: Vec::new(),
        far_interfaces: ends
            .filter(|(_, end)| end.node != run.client)
            .map(|(link, end)| {
                let path = topology.path_of(&link.name).to_owned();
                [end.node.clone(), end.interface.clone(), path]
            })
            .collect(),
        mptcp: mptcp(topology, &run.client, &run.server, run.family),
        scheduler: run.quic.scheduler.clone(),
        // The links themselves have the shapers of a lab.
        shapers: Vec::new(),
    }
}

/// The values of the pattern's parameters in the scenario.
fn asked_of(pattern: &PatternPlan) -> Option<Map<String, Value>> {
    let plan = serde_json::to_value(pattern).ok()?;
    // The plan contains one object: its parameters, under its kind.
    let mut asked = plan.as_object()?.values().next()?.as_object()?.clone();
    asked.shift_remove("named_by_direction");
    Some(asked)
}

fn mptcp(topology: &TopologyPlan, client: &str, server: &str, family: AddressFamily) -> Option<LocalSetup> {
    let node = topology.node(client)?;
    let owned = || {
        let ends = topology.links_of(client).map(|(link, end)| &link.ends[end]);
        ends.filter_map(|end| Some((end.address(family)?, end.interface.clone())))
    };
    let endpoints = node.mptcp.endpoints.iter();
    // The kernel numbers the endpoints in the order in which they are added.
    let known = (1..).zip(&node.mptcp.endpoints).map(|(id, plan)| MptcpEndpoint {
        address: plan.address,
        port: None,
        id: Some(id),
        interface: None,
        flags: plan.flags,
    });
    Some(LocalSetup {
        subflow_limit: node.mptcp.limits.subflows,
        add_addr_accepted_limit: node.mptcp.limits.add_addr_accepted,
        other_path_manager: None,
        endpoints: endpoints
            .filter(|endpoint| endpoint.flags.opens_subflows())
            .map(|endpoint| endpoint.address)
            .collect(),
        path_manager: PathManagerState {
            limits: Some(node.mptcp.limits),
            endpoints: known.collect(),
            ..PathManagerState::default()
        },
        devices: owned().collect(),
        addresses: owned().map(|(address, _)| address).collect(),
        initial: None,
        peer_subflow_limit: topology.node(server).map(|server| server.mptcp.limits.subflows),
        source_routes: BTreeMap::new(),
    })
}
