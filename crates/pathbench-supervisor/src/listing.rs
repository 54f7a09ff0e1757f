//! Which TCP sockets of a running process are MPTCP, and the ways to make them so.

use crate::service::{ServiceUnit, UnitFiles};
use pathbench_host::netlink::NetlinkError;
use pathbench_host::process::{
    control_group, executable, is_go_program, network_namespace, own_network_namespace, program_name,
};
use pathbench_host::sockets::{Snapshot, Socket, SocketLister, of_process};
use pathbench_transport::kernel_answers::mptcp_figures;
use serde::Serialize;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum ListingError {
    #[error("no process has the id {process}")]
    NoProcess { process: u32 },
    #[error(
        "the descriptors of process {process} are not readable by this user: run it as root or as the process's user"
    )]
    NotPermitted { process: u32 },
    #[error(
        "process {process} is in another network namespace: run this in it, as root: nsenter --target {process} --net"
    )]
    OtherNetworkNamespace { process: u32 },
    #[error("cannot read the descriptors of process {process}: {source}")]
    Unreadable { process: u32, source: io::Error },
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl ListingError {
    /// Whether another user, or this user in another namespace, could list the sockets.
    pub const fn is_host_unable(&self) -> bool {
        matches!(self, Self::NotPermitted { .. } | Self::OtherNetworkNamespace { .. })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketProtocol {
    Mptcp,
    /// An MPTCP socket whose connection uses TCP.
    FellBack,
    Tcp,
}

impl SocketProtocol {
    pub const fn words(self) -> &'static str {
        match self {
            Self::Mptcp => "MPTCP",
            Self::FellBack => "MPTCP socket, fallen back to TCP",
            Self::Tcp => "plain TCP",
        }
    }
}

/// A connected or listening socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedSocket {
    pub descriptor: u32,
    pub local: SocketAddr,
    /// Absent for a listening socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<SocketAddr>,
    pub protocol: SocketProtocol,
    /// Subflows that are open now.
    pub subflows: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessSockets {
    pub process: u32,
    pub program: String,
    pub sockets: Vec<ListedSocket>,
    /// Ways to make its sockets MPTCP, the most specific first.
    pub ways: Vec<String>,
}

/// The TCP sockets of the process with this id in `/proc`.
pub fn list(process: u32) -> Result<ProcessSockets, ListingError> {
    let descriptors = of_process(process).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ListingError::NoProcess { process },
        io::ErrorKind::PermissionDenied => ListingError::NotPermitted { process },
        _ => ListingError::Unreadable { process, source },
    })?;
    if let (Ok(theirs), Ok(own)) = (network_namespace(process), own_network_namespace())
        && theirs != own
    {
        return Err(ListingError::OtherNetworkNamespace { process });
    }
    let snapshot = SocketLister::open()?.snapshot(true)?;
    let program = program_name(process).unwrap_or_default();
    let service = control_group(process).as_deref().and_then(ServiceUnit::parse);
    let ways = ways(&program, is_go_program(&executable(process)), service.as_ref());
    Ok(ProcessSockets { process, sockets: list_sockets(&descriptors, &snapshot), program, ways })
}

fn list_sockets(descriptors: &[(u32, u32)], snapshot: &Snapshot) -> Vec<ListedSocket> {
    let mut found: Vec<ListedSocket> = descriptors
        .iter()
        .filter_map(|&(descriptor, inode)| {
            let has_inode = |socket: &&Socket| socket.inode == inode;
            let mptcp = snapshot.mptcp.iter().find(has_inode);
            let protocol = match mptcp.map(|socket| mptcp_figures(&socket.info)) {
                None => SocketProtocol::Tcp,
                Some(Some(figures)) if figures.fallback => SocketProtocol::FellBack,
                Some(_) => SocketProtocol::Mptcp,
            };
            let socket = mptcp.or_else(|| snapshot.tcp.iter().find(has_inode))?;
            let subflows =
                snapshot.tcp.iter().filter(|one| one.inode == inode && one.is_subflow && !one.is_listening());
            Some(ListedSocket {
                descriptor,
                local: socket.local,
                remote: (!socket.is_listening()).then_some(socket.remote),
                protocol,
                subflows: subflows.count(),
            })
        })
        .collect();
    found.sort_by_key(|socket| (socket.remote.is_some(), socket.descriptor));
    found
}

/// Options of programs: name, and what to set.
const PROGRAMS: [(&str, &str); 5] = [
    ("curl", "curl 8.9 or newer: the option --mptcp"),
    ("iperf3", "iperf3 3.19 or newer at both ends: the option -m of the client, which the server follows"),
    ("nginx", "nginx, where its version has it: `listen PORT multipath;`"),
    ("haproxy", "haproxy 3.2 or newer: `bind mptcp4@:PORT` and `server NAME mptcp4@ADDRESS:PORT`"),
    ("systemd", "systemd 257 or newer: `SocketProtocol=mptcp` in the section [Socket] of each socket unit"),
];

/// Options of programs: name, and what to set for TCP sockets again.
const PROGRAMS_TO_TCP: [(&str, &str); 5] = [
    ("curl", "curl without the option --mptcp"),
    ("iperf3", "iperf3 without the option -m"),
    ("nginx", "nginx: `listen PORT` without `multipath`"),
    ("haproxy", "haproxy: `ipv4@` instead of `mptcp4@`, `ipv6@` instead of `mptcp6@`"),
    ("systemd", "no `SocketProtocol=mptcp` in the socket units"),
];

/// How the sockets of a program become plain TCP again, for options that MPTCP sockets refuse.
pub fn ways_to_tcp(program: &str, is_go: bool) -> Vec<String> {
    let of_program = PROGRAMS_TO_TCP.iter().filter(|(name, _)| *name == program);
    let mut ways: Vec<String> = of_program.map(|(_, way)| (*way).to_owned()).collect();
    if is_go {
        ways.push(
            "a Go program: GODEBUG=multipathtcp=0 in its environment (without it, listening sockets are MPTCP since Go 1.24)"
                .to_owned(),
        );
    }
    ways.push("start it without `pathbench run` and mptcpize".to_owned());
    ways
}

/// The ways to make the sockets of a program MPTCP. `service` is its systemd service.
pub fn ways(program: &str, is_go: bool, service: Option<&ServiceUnit>) -> Vec<String> {
    let mut ways: Vec<String> =
        PROGRAMS.iter().filter(|(name, _)| *name == program).map(|(_, way)| (*way).to_owned()).collect();
    if is_go {
        ways.push(
            "a Go program: GODEBUG=multipathtcp=1 in its environment (Go 1.21 or newer; listening sockets are MPTCP by \
             default since Go 1.24)"
                .to_owned(),
        );
    }
    if let Some(service) = service {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(Path::to_str).unwrap_or("/usr/local/bin/pathbench");
        ways.extend(service.remedies(&UnitFiles::read(Path::new("/"), service), program));
    }
    ways.push(format!("start it by: pathbench run -- {}", if program.is_empty() { "CMD" } else { program }));
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(inode: u32, remote: &str, is_subflow: bool, info: Vec<u8>) -> Socket {
        let remote: SocketAddr = remote.parse().unwrap();
        let state = if remote.port() == 0 { 10 } else { 1 };
        let local = "10.0.0.1:80".parse().unwrap();
        Socket { local, remote, cookie: u64::from(inode), inode, state, subflow: None, is_subflow, info }
    }

    #[test]
    fn sockets_are_listed_by_their_inode() {
        let fallen_back = [vec![0; 8], vec![1, 0, 0, 0], vec![0; 84]].concat();
        let snapshot = Snapshot {
            mptcp: vec![
                socket(1, "0.0.0.0:0", false, Vec::new()),
                socket(2, "10.0.0.2:9", false, vec![0; 96]),
                socket(3, "10.0.0.3:9", false, fallen_back),
            ],
            tcp: vec![
                socket(1, "0.0.0.0:0", true, Vec::new()),
                socket(2, "10.0.0.2:9", true, Vec::new()),
                socket(2, "10.0.1.2:9", true, Vec::new()),
                socket(3, "10.0.0.3:9", false, Vec::new()),
                socket(4, "10.0.0.4:9", false, Vec::new()),
                socket(5, "10.0.0.5:9", false, Vec::new()),
            ],
        };
        // 9 is no TCP socket; 5 belongs to another process.
        let found = list_sockets(&[(7, 4), (6, 3), (5, 2), (4, 1), (3, 9)], &snapshot);
        let found: Vec<_> = found.iter().map(|one| (one.descriptor, one.protocol, one.subflows)).collect();
        assert_eq!(
            found,
            [
                (4, SocketProtocol::Mptcp, 0),
                (5, SocketProtocol::Mptcp, 2),
                (6, SocketProtocol::FellBack, 0),
                (7, SocketProtocol::Tcp, 0)
            ]
        );
    }

    #[test]
    fn the_ways_fit_the_program() {
        let service = ServiceUnit::parse("0::/system.slice/nginx.service\n");
        let found = ways("nginx", false, service.as_ref());
        assert!(
            found[0].contains("multipath;") && found[1].contains("systemctl edit nginx.service"),
            "{found:?}"
        );
        let back = ways_to_tcp("nginx", false);
        assert!(
            back[0].contains("without `multipath`") && !back.iter().any(|way| way.contains("GODEBUG")),
            "{back:?}"
        );
        assert!(ways_to_tcp("caddy", true)[0].contains("GODEBUG=multipathtcp=0"));
        let found = ways("caddy", true, None);
        assert!(
            found[0].contains("GODEBUG=multipathtcp=1") && found[1].contains("pathbench run -- caddy"),
            "{found:?}"
        );
    }
}
