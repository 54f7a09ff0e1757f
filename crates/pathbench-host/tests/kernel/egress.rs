//! The interface by which the packets of a connection leave, and the commands that change it.

use crate::fixture::{Lab, v4, v6, wire_name};
use libtest_mimic::Failed;
use pathbench_host::egress::{EgressLookup, bytes_since, interface_bytes};
use pathbench_host::netlink::Route;
use pathbench_host::paths::HostNetwork;
use pathbench_record::network::IpNet;
use pathbench_testkit::{TrialOutcome, ensure, tests};
use socket2::{Domain, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

tests!(
    the_route_decides_and_not_the_address,
    a_bound_socket_leaves_by_its_device,
    the_commands_use_a_free_table_and_the_router_of_the_interface,
);

const FAMILIES: [fn(u8, u8) -> IpAddr; 2] = [v4, v6];

/// A connection from `local`, bound to `device` if given, to `remote`; and its server's end.
fn connect(
    lab: &Lab,
    local: IpAddr,
    remote: IpAddr,
    device: Option<&str>,
) -> Result<(TcpStream, TcpStream), Failed> {
    let listener = lab.server.namespace.run_in(|| TcpListener::bind((remote, 0)))??;
    let to = listener.local_addr()?;
    let client = lab.client.namespace.run_in(|| {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        socket.bind_device(device.map(str::as_bytes))?;
        socket.bind(&SocketAddr::new(local, 0).into())?;
        socket.connect(&to.into())?;
        std::io::Result::Ok(TcpStream::from(socket))
    })??;
    Ok((client, listener.accept()?.0))
}

fn interface(lab: &Lab, stream: &TcpStream) -> Result<Option<String>, Failed> {
    let (local, remote) = (stream.local_addr()?, stream.peer_addr()?);
    Ok(lab
        .client
        .namespace
        .run_in(|| EgressLookup::open().map(|mut lookup| lookup.interface(local, remote)))??)
}

fn the_route_decides_and_not_the_address() -> TrialOutcome {
    for address in FAMILIES {
        let mut lab = Lab::new(&[None, None])?;
        // The table of the second address has no route to the first link, so that the main table decides.
        let (mut client, mut server) = connect(&lab, address(1, 1), address(0, 2), None)?;
        let counted = || lab.client.namespace.run_in(interface_bytes);
        let before = counted()??;
        client.write_all(&vec![0; 50_000])?;
        server.read_exact(&mut vec![0; 50_000])?;
        let carried = bytes_since(&before, &counted()??);
        let sent = |path: u8| carried.get(&wire_name(path)).map_or(0, |bytes| bytes.sent);
        ensure!(sent(0) > 50_000 && sent(1) < 5_000, "{carried:?}");
        let found = interface(&lab, &client)?;
        ensure!(found.as_deref() == Some("pbt-0"), "{found:?}");

        let (index, prefix) =
            (lab.client.index(&wire_name(1))?, if address(0, 2).is_ipv4() { 24 } else { 64 });
        let to = IpNet::new(address(0, 2), prefix)?.trunc();
        let gateway = Some(address(1, 2));
        let route = Route { interface: Some(index), gateway, table: 101, ..Route::new(to) };
        lab.client.socket.add_route(&route)?;
        let found = interface(&lab, &client)?;
        ensure!(found.as_deref() == Some("pbt-1"), "{found:?}");
        let other = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let absent = lab
            .client
            .namespace
            .run_in(|| EgressLookup::open().map(|mut lookup| lookup.interface(other, other)))??;
        ensure!(absent.is_none(), "a connection that does not exist: {absent:?}");
    }
    Ok(())
}

/// The route of its addresses leads elsewhere.
fn a_bound_socket_leaves_by_its_device() -> TrialOutcome {
    let lab = Lab::new(&[None, None])?;
    let (client, _server) = connect(&lab, v4(1, 1), v4(0, 2), Some("pbt-1"))?;
    let found = interface(&lab, &client)?;
    ensure!(found.as_deref() == Some("pbt-1"), "{found:?}");
    Ok(())
}

fn the_commands_use_a_free_table_and_the_router_of_the_interface() -> TrialOutcome {
    let mut lab = Lab::new(&[None, None])?;
    let index = lab.client.index("pbt-1")?;
    let default = pathbench_record::network::DEFAULT_V4;
    let route =
        Route { interface: Some(index), gateway: Some(v4(1, 2)), metric: Some(600), ..Route::new(default) };
    lab.client.socket.add_route(&route)?;
    let routes = lab.client.namespace.run_in(HostNetwork::read)??.source_routes();
    let commands = routes.get(&v4(1, 1)).cloned().unwrap_or_default();
    // The tables 100 and 101 are in use.
    let expected = [
        "ip route add 10.0.1.0/24 dev pbt-1 src 10.0.1.1 table 103",
        "ip route add default via 10.0.1.2 dev pbt-1 table 103",
        "ip rule add from 10.0.1.1 lookup 103",
    ];
    ensure!(commands == expected, "{commands:#?}");
    ensure!(!routes.contains_key(&IpAddr::from([127, 0, 0, 1])), "{routes:#?}");
    Ok(())
}
