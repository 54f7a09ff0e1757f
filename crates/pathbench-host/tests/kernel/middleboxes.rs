//! Middleboxes between real MPTCP sockets: what each does to a connection, by the counters of both ends.

use crate::fixture::{Host, message_arrives, wait_until};
use crate::routers::{Connection, FAMILIES, Routed, v4};
use libtest_mimic::Failed;
use pathbench_host::counters::KernelCounters;
use pathbench_host::firewall::{Middlebox, RouterRules};
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits, PathManager};
use pathbench_host::sysctl;
use pathbench_record::network::IpNet;
use pathbench_testkit::{TrialOutcome, ensure, tests};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

tests!(
    mp_capable_is_stripped_dropped_or_reset,
    mp_join_is_stripped_dropped_or_reset,
    add_addr_is_stripped,
    dss_is_stripped,
    payload_is_rewritten_with_a_correct_checksum,
    udp_is_dropped_and_tcp_passes,
    middleboxes_replace_each_other_and_their_counters_continue,
);

const MTU: u32 = 1500;
const LIMITS: MptcpLimits = MptcpLimits { subflows: 2, add_addr_accepted: 2 };

/// Client and server of MPTCP with a second address each, and a router with this middlebox between them.
struct Lab {
    routed: Routed,
    middlebox: Middlebox,
}

struct Pair {
    client: Socket,
    server: Socket,
    /// Joins need it until the end.
    listener: Socket,
}

impl Lab {
    fn new(name: &str) -> Result<Self, Failed> {
        let mut routed = Routed::new(MTU, MTU)?;
        for (link, host) in [(0, &mut routed.client), (1, &mut routed.server)] {
            let index = host.index("pbt-r")?;
            host.socket.add_address(index, IpNet::new(v4(link, 2), 24)?)?;
            host.namespace.run_in(|| sysctl::write("net.mptcp.blackhole_timeout", "0"))??;
            PathManager::open_in(&host.namespace)?.set_limits(&LIMITS)?;
        }
        let mut lab = Self { routed, middlebox: Middlebox::DropUdp };
        lab.apply(name)?;
        Ok(lab)
    }

    fn apply(&mut self, name: &str) -> TrialOutcome {
        self.middlebox =
            Middlebox::from_name(name).ok_or_else(|| Failed::from(format!("no middlebox {name}")))?;
        let rules = RouterRules { middlebox: vec![self.middlebox], ..RouterRules::default() };
        Ok(self.routed.firewall.apply(&rules)?)
    }

    fn treated(&mut self) -> Result<u64, Failed> {
        let counters = self.routed.firewall.counters()?.middlebox;
        Ok(counters.iter().find(|(one, _)| *one == self.middlebox).map_or(0, |(_, packets)| *packets))
    }

    /// A connection of MPTCP sockets.
    fn connect(&self, timeout: Duration) -> Result<io::Result<Pair>, Failed> {
        let open = |host: &Host| host.namespace.run_in(mptcp_socket);
        let (listener, client) = (open(&self.routed.server)??, open(&self.routed.client)??);
        listener.bind(&SockAddr::from(SocketAddr::new(v4(1, 1), 0)))?;
        listener.listen(8)?;
        listener.set_nonblocking(true)?;
        if let Err(error) = client.connect_timeout(&listener.local_addr()?, timeout) {
            return Ok(Err(error));
        }
        let mut server = None;
        wait_until(Duration::from_secs(5), || {
            server = listener.accept().ok();
            Ok(server.is_some())
        })?;
        let (server, _) = server.ok_or_else(|| Failed::from("nothing was accepted"))?;
        server.set_nonblocking(false)?;
        Ok(Ok(Pair { client, server, listener }))
    }

    /// A connection over which a message has passed in both directions.
    fn established(&self) -> Result<Pair, Failed> {
        let Pair { mut client, mut server, listener } = self.connect(Duration::from_secs(10))??;
        for socket in [&client, &server] {
            socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        }
        client.write_all(b"hello")?;
        server.read_exact(&mut [0; 5])?;
        server.write_all(b"world")?;
        client.read_exact(&mut [0; 5])?;
        Ok(Pair { client, server, listener })
    }

    /// The client's endpoint opens a subflow from its second address.
    fn with_join(&self) -> Result<Pair, Failed> {
        let flags = EndpointFlags { subflow: true, ..EndpointFlags::default() };
        endpoint(&self.routed.client, 0, flags)?;
        self.established()
    }

    /// Waits until these counters of client and server are above 0, and asserts that the others are 0.
    fn counters(&self, above: &[(End, &str)], zero: &[(End, &str)]) -> TrialOutcome {
        let count = |(end, name): &(End, &str)| {
            let host = if *end == Client { &self.routed.client } else { &self.routed.server };
            let counters = host.namespace.run_in(KernelCounters::read)??;
            Ok::<_, Failed>(counters.get(&format!("MPTcpExt.{name}")).unwrap_or_default())
        };
        let middlebox = self.middlebox.name();
        for one in above {
            let is_above = wait_until(Duration::from_secs(10), || Ok(count(one)? > 0))?;
            ensure!(is_above, "{middlebox}: {one:?} is 0");
        }
        for one in zero {
            ensure!(count(one)? == 0, "{middlebox}: {one:?} is {}", count(one)?);
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Client,
    Server,
}
use End::{Client, Server};

fn mptcp_socket() -> io::Result<Socket> {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::from(libc::IPPROTO_MPTCP)))
}

/// Makes the second address of the host on `link` an endpoint.
fn endpoint(host: &Host, link: u8, flags: EndpointFlags) -> TrialOutcome {
    let endpoint = MptcpEndpoint { address: v4(link, 2), port: None, id: None, interface: None, flags };
    Ok(PathManager::open_in(&host.namespace)?.add_endpoint(&endpoint)?)
}

/// After fallback, an accepted socket is one of TCP.
fn fell_back(pair: &Pair) -> io::Result<bool> {
    Ok(pair.server.protocol()? == Some(Protocol::TCP))
}

fn mp_capable_is_stripped_dropped_or_reset() -> TrialOutcome {
    let fallback = (Client, "MPCapableFallbackSYNACK");
    let received = (Server, "MPCapableSYNRX");
    let mut lab = Lab::new("strip-mp-capable")?;
    ensure!(fell_back(&lab.established()?)? && lab.treated()? == 1, "{}", lab.treated()?);
    lab.counters(&[fallback], &[received])?;

    let mut lab = Lab::new("strip-mp-capable-syn-ack")?;
    lab.established()?;
    ensure!(lab.treated()? == 1, "{}", lab.treated()?);
    lab.counters(&[fallback, received], &[])?;

    let mut lab = Lab::new("drop-mp-capable")?;
    ensure!(fell_back(&lab.established()?)? && lab.treated()? >= 1, "{}", lab.treated()?);
    lab.counters(&[], &[received])?;

    let mut lab = Lab::new("drop-mp-capable-syn-ack")?;
    let refused = lab.connect(Duration::from_millis(1500))?.err().map(|error| error.kind());
    ensure!(refused == Some(io::ErrorKind::TimedOut) && lab.treated()? >= 1, "{refused:?}");
    lab.counters(&[received], &[])?;

    let mut lab = Lab::new("reset-mp-capable")?;
    let refused = lab.connect(Duration::from_secs(10))?.err().map(|error| error.kind());
    ensure!(refused == Some(io::ErrorKind::ConnectionRefused) && lab.treated()? == 1, "{refused:?}");
    lab.counters(&[], &[received])
}

fn mp_join_is_stripped_dropped_or_reset() -> TrialOutcome {
    let (sent, reset) = ((Client, "MPJoinSynTx"), (Client, "MPRstTx"));
    let (received, answered) = ((Server, "MPJoinSynRx"), (Client, "MPJoinSynAckRx"));
    for (name, above, zero) in [
        ("strip-mp-join", vec![sent, reset], vec![received]),
        ("strip-mp-join-syn-ack", vec![sent, reset, received], vec![]),
        ("drop-mp-join", vec![sent], vec![received, answered]),
        ("reset-mp-join", vec![sent], vec![received, answered]),
    ] {
        let mut lab = Lab::new(name)?;
        let pair = lab.with_join()?;
        let met = wait_until(Duration::from_secs(10), || Ok(lab.treated()? >= 1))?;
        ensure!(met && !fell_back(&pair)?, "{name}: {}", lab.treated()?);
        lab.counters(&above, &zero)?;
    }
    Ok(())
}

fn add_addr_is_stripped() -> TrialOutcome {
    let mut lab = Lab::new("strip-add-addr")?;
    let flags = EndpointFlags { signal: true, ..EndpointFlags::default() };
    endpoint(&lab.routed.server, 1, flags)?;
    let _pair = lab.established()?;
    let met = wait_until(Duration::from_secs(10), || Ok(lab.treated()? >= 1))?;
    ensure!(met, "no ADD_ADDR was seen");
    lab.counters(
        &[(Server, "AddAddrTx")],
        &[(Client, "AddAddr"), (Server, "EchoAdd"), (Client, "MPJoinSynTx")],
    )
}

/// The server cannot map data without a DSS, and resets a subflow while there is another one.
fn dss_is_stripped() -> TrialOutcome {
    let mut lab = Lab::new("drop-udp")?;
    let Pair { mut client, server: _server, listener: _listener } = lab.with_join()?;
    lab.counters(&[(Server, "MPJoinAckRx")], &[(Server, "MPRstTx")])?;
    lab.apply("strip-dss")?;
    client.write_all(&vec![7; 100_000])?;
    lab.counters(&[(Server, "MPRstTx")], &[])?;
    ensure!(lab.treated()? >= 1, "no DSS was seen");
    Ok(())
}

fn payload_is_rewritten_with_a_correct_checksum() -> TrialOutcome {
    const BYTES: usize = 100_000;
    let mut lab = Lab::new("rewrite-payload")?;
    for address in FAMILIES {
        let Connection { mut client, mut server } = lab.routed.connect(address)?;
        server.set_read_timeout(Some(Duration::from_secs(5)))?;
        client.write_all(&vec![b'a'; BYTES])?;
        let mut arrived = vec![0; BYTES];
        // TCP accepts the segments, or it would wait for retransmissions for ever.
        server.read_exact(&mut arrived)?;
        let rewritten = arrived.windows(4).filter(|bytes| bytes == b"XXXX").count();
        ensure!(rewritten > 0, "nothing was rewritten to {}", address(1, 1));
        ensure!(arrived.iter().all(|byte| b"aX".contains(byte)), "other bytes have changed");
        server.write_all(b"short messages pass")?;
        let mut short = [0; 19];
        client.read_exact(&mut short)?;
        ensure!(&short == b"short messages pass", "{short:?}");
    }
    ensure!(lab.treated()? >= 2, "{}", lab.treated()?);
    let counters = lab.routed.server.namespace.run_in(KernelCounters::read)??;
    ensure!(counters.get("Tcp.InCsumErrors").unwrap_or_default() == 0, "a checksum is wrong");
    Ok(())
}

fn udp_is_dropped_and_tcp_passes() -> TrialOutcome {
    let mut lab = Lab::new("drop-udp")?;
    for address in FAMILIES {
        let Routed { client, server, .. } = &lab.routed;
        ensure!(!message_arrives(client, address(0, 1), server, address(1, 1))?, "UDP passes");
        lab.routed.connect(address)?;
    }
    ensure!(lab.treated()? == 2, "{}", lab.treated()?);
    ensure!(!fell_back(&lab.established()?)?, "MPTCP does not pass");
    Ok(())
}

fn middleboxes_replace_each_other_and_their_counters_continue() -> TrialOutcome {
    let mut lab = Lab::new("strip-mp-capable")?;
    ensure!(fell_back(&lab.established()?)?, "no fallback");
    lab.apply("drop-udp")?;
    ensure!(!fell_back(&lab.established()?)?, "MP_CAPABLE is still stripped");
    lab.apply("strip-mp-capable")?;
    ensure!(fell_back(&lab.established()?)? && lab.treated()? == 2, "{}", lab.treated()?);
    lab.routed.firewall.apply(&RouterRules::default())?;
    ensure!(!fell_back(&lab.established()?)? && lab.treated()? == 2, "{}", lab.treated()?);
    Ok(())
}
