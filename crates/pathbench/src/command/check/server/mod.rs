//! Probes a server and each path to it: TCP, MPTCP, UDP, path MTU and a transfer over all paths. `pathbench-check` derives
//! the findings.

mod datagrams;
mod hops;
mod other;
mod prober;
mod serving;
mod transfer;
mod window;

pub(super) use prober::ProbedServer;
pub(super) use serving::serving_sockets;

use crate::arguments::ServerArguments;
use crate::live::LiveOutput;
use crate::progress::ProgressDisplay;
use pathbench_check::buffers::buffer_limits;
use pathbench_check::facts::HostFacts;
use pathbench_check::server::facts::{
    ClientEnd, Ending, MptcpProbe, PathProbe, ServerFacts, ServerKind, Transfer,
};
use pathbench_host::netlink::InterfaceAddress;
use pathbench_host::paths::{HostNetwork, ProbedPath};
use pathbench_program::exit::Failure;
use pathbench_record::network::AddressFamily;
use pathbench_record::time::{SharedClock, WallClock};
use pathbench_transport::{CertificateFingerprint, mptcp_available};
use prober::ServerProber;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use transfer::TcpProbe;

/// Paths that are examined; further ones would exceed the budget of time.
const MOST_PATHS: usize = 6;
/// Initial paths of the transfers over all paths: each path is joined by at least one of them.
const MOST_TRANSFERS: usize = 2;
/// Further attempts on a path that was refused beside another one, and the pause before each.
const REFUSED_ATTEMPTS: u32 = 3;
const REFUSED_PAUSE: Duration = Duration::from_millis(300);

/// Probes the server over every path.
pub(super) fn probe(
    target: &ProbedServer,
    arguments: &ServerArguments,
    quic_ports: &[u16],
    fingerprint: Option<CertificateFingerprint>,
    host: &HostFacts,
    clock: &SharedClock,
) -> Result<ServerFacts, Failure> {
    let began = clock.now();
    let prober = ServerProber {
        arguments,
        quic_ports,
        fingerprint,
        target,
        clock: Arc::<dyn WallClock>::clone(clock),
        progress: ProgressDisplay::new(false, LiveOutput::default()),
        began,
    };
    prober.run(host)
}

impl ServerProber<'_> {
    fn run(&self, host: &HostFacts) -> Result<ServerFacts, Failure> {
        let network = HostNetwork::read().map_err(Failure::failed)?;
        let interfaces = &self.arguments.interfaces;
        let (mut paths, mut left_out) = match network.probed_paths(interfaces, &self.target.servers) {
            Ok(found) => found,
            Err(message) if interfaces.is_empty() => (Vec::new(), vec![message]),
            Err(message) => return Err(Failure::bad_input(message)),
        };
        if paths.len() > MOST_PATHS {
            left_out.push(format!(
                "{} paths lead to the server; the first {MOST_PATHS} were examined",
                paths.len()
            ));
            paths.truncate(MOST_PATHS);
        }
        let names: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
        self.progress.line(format_args!("examining {} over {}", self.target.name, names.join(", ")));
        let mut facts = ServerFacts {
            server: self.target.name.to_string(),
            kind: ServerKind::Pathbench,
            no_mptcp: mptcp_available().err().map(|unavailable| unavailable.to_string()),
            path_manager: host.path_manager(),
            other_family: self.other_family(host, &paths),
            paths: Vec::new(),
            transfers: Vec::new(),
            buffers: buffer_limits(host),
            closes_listener: false,
            left_out,
        };
        let unproven = self.prove_identity(&mut paths, host)?;
        thread::scope(|scope| {
            let datagrams = scope.spawn(|| self.datagrams(&paths, host));
            let examined = self.examine(&mut facts, &paths, host);
            let datagrams =
                datagrams.join().map_err(|_| Failure::failed("a thread of the probes panicked"))?;
            for (path, (udp, mtu)) in facts.paths.iter_mut().zip(datagrams) {
                (path.udp, path.mtu) = (udp, mtu);
            }
            examined
        })?;
        if facts.kind == ServerKind::Pathbench {
            self.transfers(&mut facts);
        }
        self.trace_hops(&mut facts);
        facts.paths.extend(unproven);
        Ok(facts)
    }

    /// Lets the server prove its identity on each path, where the user gave its fingerprint. Removes the paths on which it
    /// cannot be reached for that, and returns their probes.
    fn prove_identity(
        &self,
        paths: &mut Vec<ProbedPath>,
        host: &HostFacts,
    ) -> Result<Vec<PathProbe>, Failure> {
        let Some(fingerprint) = self.fingerprint else { return Ok(Vec::new()) };
        let (mut proven, mut unproven) = (Vec::new(), Vec::new());
        for path in paths.drain(..) {
            match self.authenticate(&path, fingerprint)? {
                Ending::Complete => proven.push(path),
                ending => {
                    self.progress.line(format_args!("{}: TLS: {}", path.name, ending.message()));
                    unproven.push(path_probe(&path, host, ending));
                }
            }
        }
        *paths = proven;
        Ok(unproven)
    }

    /// TCP and the handshake of MPTCP on each path.
    fn examine(
        &self,
        facts: &mut ServerFacts,
        paths: &[ProbedPath],
        host: &HostFacts,
    ) -> Result<(), Failure> {
        let probes = self.over_tcp(paths)?;
        let speaks = |expected| probes.iter().any(|probe| probe.speaks == Some(expected));
        if speaks(false) && !speaks(true) {
            facts.kind = ServerKind::Other;
        }
        let source_routes = HostNetwork::read().unwrap_or_default().source_routes();
        for (path, probe) in paths.iter().zip(probes) {
            let is_other = facts.kind == ServerKind::Pathbench && probe.speaks == Some(false);
            let ending = match probe.ending {
                Ending::Complete if is_other => {
                    Ending::Failed("another server answers on this path".to_owned())
                }
                ending => ending,
            };
            let source_route = source_routes.get(&path.local).cloned().unwrap_or_default();
            facts.paths.push(PathProbe {
                source_route,
                rates: probe.rates,
                ..path_probe(path, host, ending)
            });
        }
        if facts.no_mptcp.is_some() {
            return Ok(());
        }
        for index in 0..facts.paths.len() {
            let path = facts.paths[index].clone();
            if matches!(path.tcp, Ending::NotConnected(_) | Ending::Reset(_)) {
                continue;
            }
            if !self.has_time() {
                facts.left_out.push(format!("MPTCP over {} was not examined: the time was over", path.name));
                continue;
            }
            self.progress.line(format_args!("{}: MPTCP", path.name));
            let probe = match facts.kind {
                ServerKind::Pathbench => Some(self.handshake(&facts.paths, &path)),
                ServerKind::Other => self.other_server(facts, index),
            };
            facts.paths[index].mptcp = probe;
        }
        Ok(())
    }

    /// Plain TCP over each path, two at a time: a server runs two tests of a client at the same time.
    fn over_tcp(&self, paths: &[ProbedPath]) -> Result<Vec<TcpProbe>, Failure> {
        let mut probes = Vec::new();
        for two in paths.chunks(2) {
            let results: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = two.iter().map(|path| scope.spawn(|| self.tcp(path))).collect();
                threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
            });
            for result in results {
                probes.push(result.map_err(|_| Failure::failed("a thread of the probes panicked"))??);
            }
        }
        self.repeat_refused(paths, &mut probes)?;
        let sound = paths.iter().zip(&probes).find(|(_, probe)| probe.ending.is_complete());
        if let Some(path) = sound.map(|(path, _)| path) {
            for probe in &mut probes {
                self.look_at_server(probe, path);
            }
        }
        for (path, probe) in paths.iter().zip(&probes) {
            self.progress.line(format_args!("{}: TCP: {}", path.name, probe.ending.message()));
        }
        Ok(probes)
    }

    /// Repeats what was refused while another path had a connection: a server whose listener closes while it serves one
    /// refuses the other, which is no matter of the path.
    fn repeat_refused(&self, paths: &[ProbedPath], probes: &mut [TcpProbe]) -> Result<(), Failure> {
        let is_refused = |probe: &TcpProbe| matches!(probe.ending, Ending::Reset(_));
        if probes.iter().all(is_refused) {
            return Ok(());
        }
        for (path, probe) in paths.iter().zip(probes) {
            for _ in 0..REFUSED_ATTEMPTS {
                if !is_refused(probe) || !self.has_time() {
                    break;
                }
                self.clock.sleep_until(self.clock.now() + REFUSED_PAUSE);
                *probe = self.tcp(path)?;
            }
        }
        Ok(())
    }

    /// A transfer over all paths from each of the first paths on which MPTCP works.
    fn transfers(&self, facts: &mut ServerFacts) {
        let works = |path: &PathProbe| {
            let ends = |mptcp: &MptcpProbe| matches!(mptcp.ending, Ending::Complete | Ending::Altered(_));
            path.mptcp.as_ref().is_some_and(|mptcp| mptcp.client == ClientEnd::Mptcp && ends(mptcp))
        };
        let initial: Vec<usize> =
            (0..facts.paths.len()).filter(|index| works(&facts.paths[*index])).collect();
        for index in initial.into_iter().take(MOST_TRANSFERS) {
            let path = &facts.paths[index];
            if !self.has_time() {
                let left_out =
                    format!("the transfer that begins on {} was not made: the time was over", path.name);
                facts.left_out.push(left_out);
                continue;
            }
            self.progress.line(format_args!("{}: a transfer over all paths", path.name));
            let mut probe = self.all_paths(&facts.paths, path);
            probe.plain = self.plain_to_failed_joins(&facts.paths, path, &probe);
            facts.transfers.push(Transfer { initial: index, probe });
        }
    }

    /// Interfaces that could be paths in the family that the server lacks, and have no path to it.
    fn other_family(&self, host: &HostFacts, paths: &[ProbedPath]) -> Vec<(String, AddressFamily)> {
        let families = [AddressFamily::Ipv4, AddressFamily::Ipv6].into_iter();
        let lacks = families.filter(|family| {
            !self.target.servers.iter().any(|at| AddressFamily::from_address(at.ip()) == *family)
        });
        let is_wanted = |name: &str| {
            let named = &self.arguments.interfaces;
            (named.is_empty() || named.iter().any(|one| one == name))
                && !paths.iter().any(|path| path.interface == name)
        };
        let interfaces =
            lacks.flat_map(|family| host.paths(family).into_iter().map(move |path| (path, family)));
        interfaces
            .filter(|(path, _)| is_wanted(&path.link.name))
            .map(|(path, family)| (path.link.name.clone(), family))
            .collect()
    }
}

/// A path of which only plain TCP was probed.
fn path_probe(path: &ProbedPath, host: &HostFacts, tcp: Ending) -> PathProbe {
    let own = host.assigned(path.local);
    let is_in_subnet = |one: &&InterfaceAddress| {
        own.is_some_and(|own| own.index == one.index && own.network.trunc() == one.network.trunc())
    };
    let of_subnet = host.network.addresses.iter().filter(is_in_subnet);
    let addresses: Vec<IpAddr> = of_subnet.map(|one| one.network.addr()).collect();
    let endpoints = host.endpoints.as_deref().unwrap_or_default();
    let flags = || {
        let of_path = |at: IpAddr| at == path.local || addresses.contains(&at);
        endpoints.iter().filter(move |endpoint| of_path(endpoint.address)).map(|endpoint| endpoint.flags)
    };
    PathProbe {
        name: path.name.clone(),
        interface: path.interface.clone(),
        local: path.local,
        server: path.server,
        backup: flags().any(|flags| flags.backup),
        has_endpoint: flags().any(|flags| flags.subflow || flags.fullmesh),
        is_tunnel: own.is_some_and(|own| host.is_tunnel(own.index)),
        addresses: addresses.clone(),
        tcp,
        rates: None,
        mptcp: None,
        udp: Vec::new(),
        mtu: None,
        hops: None,
        source_route: Vec::new(),
    }
}
