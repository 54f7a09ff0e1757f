//! MPTCP endpoints, limits and the events of a real connection.

use crate::fixture::{Host, Lab, v4, v6, wire_name};
use libtest_mimic::Failed;
use pathbench_host::counters::KernelCounters;
use pathbench_host::mptcp::{
    EndpointFlags, EventStream, MptcpEndpoint, MptcpError, MptcpLimits, PathManager,
};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::netlink::Route;
use pathbench_record::event::EventKind as Kind;
use pathbench_record::kernel_event::MptcpEvent;
use pathbench_record::network::IpNet;
use pathbench_testkit::{TrialOutcome, ensure, tests};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

tests!(
    endpoints_are_added_changed_and_removed,
    limits_are_read_as_set,
    each_namespace_has_its_own_endpoints,
    a_connection_with_two_subflows_v4,
    a_connection_with_two_subflows_v6,
    lost_events_are_reported,
);

const SUBFLOW: EndpointFlags = EndpointFlags::from_bits(2);

fn endpoint(address: IpAddr, flags: EndpointFlags) -> MptcpEndpoint {
    MptcpEndpoint { address, port: None, id: None, interface: None, flags }
}

fn endpoints_are_added_changed_and_removed() -> TrialOutcome {
    let mut lab = Lab::new(&[None, None])?;
    let index = lab.client.index(&wire_name(1))?;
    let mut manager = PathManager::open_in(&lab.client.namespace)?;
    let first = MptcpEndpoint { interface: Some(index), id: Some(7), ..endpoint(v4(1, 1), SUBFLOW) };
    let signal = EndpointFlags { subflow: false, signal: true, ..SUBFLOW };
    let second = MptcpEndpoint { port: Some(4321), id: Some(9), ..endpoint(v6(1, 1), signal) };
    manager.add_endpoint(&first)?;
    manager.add_endpoint(&second)?;
    manager.add_endpoint(&endpoint(v4(0, 1), SUBFLOW))?;
    let endpoints = manager.endpoints()?;
    ensure!(endpoints.len() == 3, "{endpoints:?}");
    ensure!(endpoints.contains(&first) && endpoints.contains(&second), "{endpoints:?}");
    let again = manager.add_endpoint(&first);
    ensure!(matches!(&again, Err(MptcpError::Netlink(error)) if error.errno().is_some()), "{again:?}");
    let backup = MptcpEndpoint { flags: EndpointFlags { backup: true, ..SUBFLOW }, ..first };
    manager.set_flags(&backup)?;
    ensure!(manager.endpoints()?.contains(&backup), "{:?}", manager.endpoints()?);
    manager.remove_endpoint(7, first.address)?;
    ensure!(manager.endpoints()?.len() == 2, "{:?}", manager.endpoints()?);
    ensure!(manager.remove_endpoint(7, first.address).is_err(), "it was removed twice");
    for endpoint in manager.endpoints()? {
        manager.remove_endpoint(endpoint.id.unwrap_or(0), endpoint.address)?;
    }
    ensure!(manager.endpoints()?.is_empty(), "{:?}", manager.endpoints()?);
    Ok(())
}

fn limits_are_read_as_set() -> TrialOutcome {
    let host = Host::new()?;
    let mut manager = PathManager::open_in(&host.namespace)?;
    let limits = MptcpLimits { subflows: 5, add_addr_accepted: 3 };
    manager.set_limits(&limits)?;
    ensure!(manager.limits()? == limits, "{:?}", manager.limits()?);
    let refused = manager.set_limits(&MptcpLimits { subflows: 1000, ..limits });
    let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(text.starts_with("cannot set the MPTCP limits to subflows 1000"), "{text}");
    ensure!(text.contains("the kernel reports"), "{text}");
    ensure!(manager.limits()? == limits, "{:?}", manager.limits()?);
    Ok(())
}

fn each_namespace_has_its_own_endpoints() -> TrialOutcome {
    let (left, right) = (Host::new()?, Host::new()?);
    PathManager::open_in(&left.namespace)?.add_endpoint(&endpoint(v4(0, 1), SUBFLOW))?;
    ensure!(PathManager::open_in(&right.namespace)?.endpoints()?.is_empty(), "it is in the other one");
    ensure!(PathManager::open()?.endpoints()?.is_empty(), "it is in the outer one");
    Ok(())
}

fn a_connection_with_two_subflows_v4() -> TrialOutcome {
    two_subflows(v4)
}

fn a_connection_with_two_subflows_v6() -> TrialOutcome {
    two_subflows(v6)
}

fn two_subflows(address: fn(u8, u8) -> IpAddr) -> TrialOutcome {
    let mut lab = Lab::new(&[None, None])?;
    let interface = Some(lab.client.index(&wire_name(1))?);
    // Route from the client's second address to the server's first address over path 1.
    let far = IpNet::new(address(0, 0), if address(0, 1).is_ipv4() { 24 } else { 64 })?;
    let route = Route { gateway: Some(address(1, 2)), interface, table: 101, ..Route::new(far) };
    lab.client.socket.add_route(&route)?;
    let mut manager = PathManager::open_in(&lab.client.namespace)?;
    manager.set_limits(&MptcpLimits { subflows: 4, add_addr_accepted: 0 })?;
    manager.add_endpoint(&MptcpEndpoint { id: Some(3), interface, ..endpoint(address(1, 1), SUBFLOW) })?;
    PathManager::open_in(&lab.server.namespace)?
        .set_limits(&MptcpLimits { subflows: 4, add_addr_accepted: 0 })?;

    let mut client_events = EventStream::subscribe_in(&lab.client.namespace)?;
    let mut server_events = EventStream::subscribe_in(&lab.server.namespace)?;
    let before = lab.client.namespace.run_in(KernelCounters::read)??;
    let connection = Connection::open(&lab, address)?;
    let seen = collect(&mut client_events, &Kind::SubEstablished)?;
    let created = find(&seen, &Kind::Created)?;
    ensure!(created.server_side == Some(false) && created.token.is_some(), "{created:?}");
    ensure!(
        created.local == Some(connection.local) && created.remote == Some(connection.remote),
        "{created:?}"
    );
    let established = find(&seen, &Kind::Established)?;
    ensure!(established.token == created.token, "{established:?}");
    let joined = find(&seen, &Kind::SubEstablished)?;
    ensure!(joined.token == created.token && joined.backup == Some(false), "{joined:?}");
    ensure!(joined.local.map(|local| local.ip()) == Some(address(1, 1)), "{joined:?}");
    ensure!(joined.remote == Some(connection.remote), "{joined:?}");
    ensure!(joined.local_id == Some(3) && joined.interface_index == interface, "{joined:?}");

    let of_server = collect(&mut server_events, &Kind::SubEstablished)?;
    ensure!(find(&of_server, &Kind::Created)?.server_side == Some(true), "{of_server:?}");

    let signal = EndpointFlags { subflow: false, signal: true, ..SUBFLOW };
    PathManager::open_in(&lab.server.namespace)?.add_endpoint(&endpoint(address(1, 2), signal))?;
    let announced = find(&collect(&mut client_events, &Kind::Announced)?, &Kind::Announced)?;
    ensure!(announced.remote.map(|remote| remote.ip()) == Some(address(1, 2)), "{announced:?}");
    ensure!(announced.token == created.token && announced.remote_id.is_some(), "{announced:?}");

    manager.remove_endpoint(3, address(1, 1))?;
    let closed = find(&collect(&mut client_events, &Kind::SubClosed)?, &Kind::SubClosed)?;
    ensure!(closed.local == joined.local && closed.token == joined.token, "{closed:?}");
    drop(connection);
    let end = find(&collect(&mut client_events, &Kind::Closed)?, &Kind::Closed)?;
    ensure!(end.token == created.token, "{end:?}");
    let change = KernelCounters::difference(&before, &lab.client.namespace.run_in(KernelCounters::read)??);
    ensure!(change.get("MPTcpExt.MPCapableSYNTX") == Some(&1), "{change:?}");
    ensure!(change.get("MPTcpExt.MPJoinSynAckRx").is_some_and(|joins| *joins >= 1), "{change:?}");
    Ok(())
}

/// An MPTCP connection from the client to the server over path 0 that has carried data.
struct Connection {
    local: SocketAddr,
    remote: SocketAddr,
    /// The listener among them accepts further subflows.
    _sockets: [Socket; 3],
}

impl Connection {
    fn open(lab: &Lab, address: fn(u8, u8) -> IpAddr) -> Result<Self, Failed> {
        let any = if address(0, 2).is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let listener = mptcp_socket(&lab.server.namespace, address(0, 2))?;
        listener.bind(&any.parse::<SocketAddr>()?.into())?;
        listener.listen(8)?;
        let port = listener.local_addr()?.as_socket().map_or(0, |local| local.port());
        let remote = SocketAddr::new(address(0, 2), port);
        let mut client = mptcp_socket(&lab.client.namespace, remote.ip())?;
        client.bind(&SocketAddr::new(address(0, 1), 0).into())?;
        client.connect(&remote.into())?;
        let (mut server, _) = listener.accept()?;
        // The path manager starts with the first acknowledged data.
        client.write_all(b"hello")?;
        let mut text = [0; 5];
        server.read_exact(&mut text)?;
        server.write_all(&text)?;
        client.read_exact(&mut text)?;
        let local = client.local_addr()?.as_socket().ok_or("no local address")?;
        Ok(Self { local, remote, _sockets: [listener, client, server] })
    }
}

fn mptcp_socket(namespace: &NetNamespace, like: IpAddr) -> Result<Socket, Failed> {
    let domain = if like.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    Ok(namespace.run_in(|| Socket::new(domain, Type::STREAM, Some(Protocol::MPTCP)))??)
}

/// The events up to the first event of a kind, within 5 s.
fn collect(stream: &mut EventStream, until: &Kind) -> Result<Vec<MptcpEvent>, Failed> {
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut seen = Vec::new();
    loop {
        seen.extend(stream.receive()?);
        if seen.iter().any(|event| event.kind == *until) {
            return Ok(seen);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        ensure!(!left.is_zero(), "no {until:?} among {seen:?}");
        let timeout = Timespec { tv_sec: 0, tv_nsec: left.as_nanos().min(100_000_000) as i64 };
        poll(&mut [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)], Some(&timeout))?;
    }
}

fn find(events: &[MptcpEvent], kind: &Kind) -> Result<MptcpEvent, Failed> {
    events
        .iter()
        .find(|event| event.kind == *kind)
        .cloned()
        .ok_or_else(|| format!("no {kind:?} in {events:?}").into())
}

fn lost_events_are_reported() -> TrialOutcome {
    let lab = Lab::new(&[None])?;
    let mut events = EventStream::subscribe_in(&lab.client.namespace)?;
    // The kernel's minimum, because the default would require millions of events.
    rustix::net::sockopt::set_socket_recv_buffer_size(events.as_fd(), 1)?;
    for _ in 0..100 {
        drop(Connection::open(&lab, v4)?);
    }
    let seen = events.receive()?;
    ensure!(seen.iter().any(|event| event.kind == Kind::Overrun), "{} events, none lost", seen.len());
    ensure!(seen.iter().any(|event| event.kind == Kind::Created), "not even the first is there");
    Ok(())
}
