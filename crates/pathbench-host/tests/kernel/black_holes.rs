//! The recovery of live MPTCP connections from a black hole.

use crate::fixture::{Lab, v4, v6, wait_until, wire_name};
use libtest_mimic::Failed;
use pathbench_host::change::Applier;
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits, PathManager};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::Route;
use pathbench_host::path_mtu::{HostPath, LiveConnection, PathObserver, is_stuck, plan};
use pathbench_host::qdisc::Shaper;
use pathbench_host::sysctl;
use pathbench_record::network::IpNet;
use pathbench_testkit::{TrialOutcome, ensure, tests};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::time::{Duration, Instant};

tests!(
    a_subflow_of_an_endpoint_recovers_v4,
    a_subflow_of_an_endpoint_recovers_v6,
    the_first_subflow_recovers_without_an_endpoint,
    the_first_subflow_recovers_with_an_endpoint,
    the_only_subflow_is_not_closed,
    a_subflow_recovers_after_a_long_time,
);

/// MTU of the hosts and of all links except the narrow one.
const WIDE: u32 = 9000;
/// MTU of the bridge of the second path; it drops larger packets silently.
const NARROW: u32 = 1500;
const RATE_BPS: u64 = 30_000_000;

/// The addresses and endpoints of the connection.
#[derive(Debug, Clone, Copy)]
struct Layout {
    address: fn(u8, u8) -> IpAddr,
    /// The path of the connection's first subflow.
    first: u8,
    /// Paths whose client addresses are endpoints.
    endpoints: &'static [u8],
    /// Doublings of the retransmission timer before the remedy.
    backoff: u32,
}

fn a_subflow_of_an_endpoint_recovers_v4() -> TrialOutcome {
    recovers(Layout { address: v4, first: 0, endpoints: &[1], backoff: 1 })
}

fn a_subflow_of_an_endpoint_recovers_v6() -> TrialOutcome {
    recovers(Layout { address: v6, first: 0, endpoints: &[1], backoff: 1 })
}

fn the_first_subflow_recovers_without_an_endpoint() -> TrialOutcome {
    recovers(Layout { address: v4, first: 1, endpoints: &[0], backoff: 1 })
}

fn the_first_subflow_recovers_with_an_endpoint() -> TrialOutcome {
    recovers(Layout { address: v4, first: 1, endpoints: &[0, 1], backoff: 1 })
}

/// The kernel would not reopen the only subflow after a close; the subflow recovers at its next retransmission.
fn the_only_subflow_is_not_closed() -> TrialOutcome {
    recovers(Layout { address: v4, first: 1, endpoints: &[], backoff: 1 })
}

/// After that time the kernel treats the subflow as stale, and notifies the peer over the other subflow.
fn a_subflow_recovers_after_a_long_time() -> TrialOutcome {
    recovers(Layout { address: v4, first: 0, endpoints: &[1], backoff: 4 })
}

/// Two paths at 30 Mbit/s; the second is a black hole for packets larger than 1500 bytes.
fn lab(layout: Layout) -> Result<Lab, Failed> {
    let shaper = Shaper::new(RATE_BPS, WIDE, 400_000);
    let mut lab = Lab::new(&[Some(shaper.clone()), Some(shaper)])?;
    for path in [0, 1] {
        for host in [&mut lab.client, &mut lab.server] {
            let index = host.index(&wire_name(path))?;
            host.socket.set_mtu(index, WIDE)?;
            // A bridge forwards GSO packets of any length.
            host.socket.set_gso(index, 65_536, 1)?;
        }
        let (near, far) = (lab.port(path, 1)?, lab.port(path, 2)?);
        lab.fabric.socket.set_mtu(near, WIDE)?;
        lab.fabric.socket.set_mtu(far, if path == 0 { WIDE } else { NARROW })?;
    }
    let address = layout.address;
    let far = IpNet::new(address(0, 0), if address(0, 0).is_ipv4() { 24 } else { 64 })?;
    let interface = Some(lab.client.index(&wire_name(1))?);
    let route = Route { gateway: Some(address(1, 2)), interface, table: 101, ..Route::new(far) };
    lab.client.socket.add_route(&route)?;
    // Both ends count a replacement of the first subflow as a further one.
    for (host, subflows) in [(&lab.client, 1), (&lab.server, 2)] {
        host.namespace.run_in(|| sysctl::write("net.ipv4.tcp_mtu_probing", "0"))??;
        PathManager::open_in(&host.namespace)?.set_limits(&MptcpLimits { subflows, add_addr_accepted: 0 })?;
    }
    let flags = EndpointFlags { subflow: true, ..EndpointFlags::default() };
    for path in layout.endpoints {
        let interface = Some(lab.client.index(&wire_name(*path))?);
        let endpoint =
            MptcpEndpoint { address: address(*path, 1), port: None, id: Some(path + 4), interface, flags };
        PathManager::open_in(&lab.client.namespace)?.add_endpoint(&endpoint)?;
    }
    Ok(lab)
}

fn mptcp_socket(namespace: &NetNamespace, like: IpAddr) -> Result<Socket, Failed> {
    let domain = if like.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    Ok(namespace.run_in(|| Socket::new(domain, Type::STREAM, Some(Protocol::MPTCP)))??)
}

fn recovers(layout: Layout) -> TrialOutcome {
    let lab = lab(layout)?;
    let address = layout.address;
    let listener = mptcp_socket(&lab.server.namespace, address(0, 2))?;
    listener.bind(&SocketAddr::new(address(0, 2), 0).into())?;
    listener.listen(8)?;
    let client = mptcp_socket(&lab.client.namespace, address(0, 2))?;
    client.set_tcp_congestion(b"reno")?;
    client.bind(&SocketAddr::new(address(layout.first, 1), 0).into())?;
    client.connect(&listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    // The client joins further subflows after the first DATA_ACK. The large packets that follow may never get one.
    for (mut from, mut to) in [(&client, &server), (&server, &client)] {
        from.write_all(&[7])?;
        to.read_exact(&mut [0])?;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| drain(&server));
        scope.spawn(|| pump(&client));
        let outcome = remedied(&lab, layout);
        // Both threads may be blocked.
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        outcome
    })
}

fn pump(mut socket: &Socket) {
    let data = vec![7; 64 * 1024];
    while socket.write_all(&data).is_ok() {}
}

fn drain(mut socket: &Socket) {
    let mut data = vec![0; 256 * 1024];
    while matches!(socket.read(&mut data), Ok(length) if length > 0) {}
}

fn remedied(lab: &Lab, layout: Layout) -> TrialOutcome {
    let path =
        HostPath { local: (layout.address)(1, 1), interface: wire_name(1), server: (layout.address)(0, 2) };
    let mut observer = PathObserver::open_in(&lab.client.namespace)?;
    let stuck = wait_until_stuck(&mut observer, &path, layout.backoff)?;
    ensure!(stuck.subflow.is_some_and(|own| (own.local_id == 0) == (layout.first == 1)), "{stuck:?}");
    let state = observer.state(&path)?;
    let alone = layout.endpoints.is_empty();
    ensure!(state.siblings.len() == if alone { 1 } else { 2 }, "{state:?}");
    let plan = plan(&state, NARROW, std::slice::from_ref(&stuck))?;
    ensure!((plan.steps.len() == 1) == alone, "{plan:?}");

    let directory = tempfile::tempdir()?;
    let mut remedy = lab.client.namespace.run_in(|| Applier::open(&directory.path().join("journal")))??;
    let begun = Instant::now();
    remedy.apply(&plan)?;
    let before = if alone { stuck.bytes_acked } else { 0 };
    let carries =
        |live: &LiveConnection| (live.cookie == stuck.cookie) == alone && live.bytes_acked > before + 100_000;
    let mut seen = Vec::new();
    let out = wait_until(Duration::from_secs(20), || {
        seen = observer.connections(&path)?;
        Ok(seen.iter().any(carries))
    })?;
    let took = begun.elapsed();
    ensure!(out, "{plan:?}\nled to {seen:?}");
    let live = seen.iter().find(|live| carries(live)).ok_or("it has gone again")?;
    ensure!((1400..=1460).contains(&live.mss_bytes) && live.pmtu_bytes == NARROW, "{live:?}");
    // The refresh takes less than 1 s; the rest is for a machine that is taken away meanwhile.
    ensure!(alone || took < Duration::from_secs(3), "it took {took:?}");
    let report = remedy.undo(false)?;
    ensure!(report.is_complete(), "{report:?}");
    Ok(())
}

fn wait_until_stuck(
    observer: &mut PathObserver,
    path: &HostPath,
    backoff: u32,
) -> Result<LiveConnection, Failed> {
    let mut earlier: Vec<LiveConnection> = Vec::new();
    let mut found = None;
    let stuck = wait_until(Duration::from_secs(30), || {
        std::thread::sleep(Duration::from_millis(200));
        let later = observer.connections(path)?;
        let is_stuck = |live: &&LiveConnection| earlier.iter().any(|before| is_stuck(before, live, NARROW));
        found = later.iter().filter(|live| live.backoff >= backoff).find(is_stuck).cloned();
        earlier = later;
        Ok(found.is_some())
    })?;
    ensure!(stuck, "nothing is stuck: {earlier:?}");
    found.ok_or_else(|| "nothing is stuck".into())
}
