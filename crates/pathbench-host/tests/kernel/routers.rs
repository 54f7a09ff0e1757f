//! "Too big" messages of routers, and MSS clamping.

use crate::fixture::{Host, message_arrives, set_int, wait_until};
use libtest_mimic::Failed;
use pathbench_host::counters::KernelCounters;
use pathbench_host::firewall::{Firewall, RouterCounters, RouterRules, TooBigTreatment};
use pathbench_host::netlink::{Route, VethEnd, VethPair};
use pathbench_host::sysctl;
use pathbench_record::network::{DEFAULT_V4, DEFAULT_V6, IpNet};
use pathbench_testkit::{TrialOutcome, ensure, tests};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

tests!(
    messages_are_sent_by_default_and_when_asked_for,
    no_message_leaves_a_router_that_drops_them,
    no_more_messages_leave_than_are_allowed,
    other_errors_pass,
    the_clamp_lowers_the_mss_at_both_ends,
    the_clamp_leaves_a_smaller_size_alone,
    rules_change_while_data_flows,
    rules_replace_each_other_and_counters_continue,
    without_privilege_the_error_names_the_capability,
);

/// MTU of the client's link, and of the router's port to the server.
const NEAR_MTU: u32 = 9000;
const FAR_MTU: u32 = 1500;
/// Exceeds the MTU of the far link.
const LARGE: usize = 3000;

/// Client, router and server, with one link between neighbours.
pub(crate) struct Routed {
    pub(crate) client: Host,
    pub(crate) server: Host,
    pub(crate) firewall: Firewall,
    router: Host,
}

pub(crate) fn v4(link: u8, host: u8) -> IpAddr {
    Ipv4Addr::new(10, 9, link, host).into()
}

pub(crate) fn v6(link: u8, host: u8) -> IpAddr {
    Ipv6Addr::new(0xfd09, 0, 0, u16::from(link), 0, 0, 0, u16::from(host)).into()
}

pub(crate) const FAMILIES: [fn(u8, u8) -> IpAddr; 2] = [v4, v6];
/// Host part of the router's addresses; the other end of each link has 1.
const ROUTER: u8 = 254;

impl Routed {
    /// A router without rules, with a host on each side whose interface has this MTU.
    pub(crate) fn new(client_mtu: u32, server_mtu: u32) -> Result<Self, Failed> {
        let (mut client, mut router, mut server) = (Host::new()?, Host::new()?, Host::new()?);
        router.namespace.run_in(|| {
            sysctl::write("net.ipv4.ip_forward", "1")?;
            sysctl::write("net.ipv6.conf.all.forwarding", "1")
        })??;
        join((&mut client, client_mtu), (&mut router, client_mtu), 0)?;
        join((&mut server, server_mtu), (&mut router, FAR_MTU), 1)?;
        for host in [&mut client, &mut router, &mut server] {
            host.wait_for_links()?;
        }
        // After this, all neighbours are resolved, and no packet is queued.
        for address in FAMILIES {
            let reached = wait_until(Duration::from_secs(10), || {
                message_arrives(&client, address(0, 1), &server, address(1, 1))
            })?;
            ensure!(reached, "{} is not reached", address(1, 1));
        }
        let firewall = Firewall::open_in(&router.namespace)?;
        Ok(Self { client, server, firewall, router })
    }

    fn with_too_big(too_big: TooBigTreatment) -> Result<Self, Failed> {
        let mut routed = Self::new(NEAR_MTU, FAR_MTU)?;
        routed.firewall.apply(&RouterRules { too_big, ..RouterRules::default() })?;
        Ok(routed)
    }

    /// Sends a datagram of this many bytes with "don't fragment"; returns whether the kernel sent it.
    fn send(&self, address: fn(u8, u8) -> IpAddr, bytes: usize) -> Result<bool, Failed> {
        let to = SocketAddr::new(address(1, 1), 9);
        let socket = self.client.namespace.run_in(|| UdpSocket::bind((address(0, 1), 0)))??;
        never_cut(&socket, to.is_ipv6())?;
        Ok(socket.send_to(&vec![0; bytes], to).is_ok())
    }

    /// "Too big" messages received from the router, from the client's counters, IPv4 and IPv6.
    fn too_big_received(&self) -> Result<[u64; 2], Failed> {
        let counters = self.client.namespace.run_in(KernelCounters::read)??;
        let of = |name| counters.get(name).unwrap_or(0) as u64;
        Ok([of("IcmpMsg.InType3"), of("Icmp6InPktTooBigs")])
    }

    /// Waits until the client has received this many messages.
    fn wait_for_too_big(&self, expected: [u64; 2]) -> Result<(), Failed> {
        let heard = wait_until(Duration::from_secs(2), || Ok(self.too_big_received()? == expected))?;
        ensure!(heard, "{expected:?} should be heard, {:?} are", self.too_big_received()?);
        Ok(())
    }

    /// A connection from the client to the server.
    pub(crate) fn connect(&self, address: fn(u8, u8) -> IpAddr) -> Result<Connection, Failed> {
        let listener = self.server.namespace.run_in(|| TcpListener::bind((address(1, 1), 0)))??;
        let to = listener.local_addr()?;
        let client = self.client.namespace.run_in(|| TcpStream::connect(to))??;
        Ok(Connection { client, server: listener.accept()?.0 })
    }
}

pub(crate) struct Connection {
    pub(crate) client: TcpStream,
    pub(crate) server: TcpStream,
}

/// Connects a host to the router by a link with these MTUs, and adds default routes to the router.
fn join((host, mtu): (&mut Host, u32), (router, port_mtu): (&mut Host, u32), link: u8) -> Result<(), Failed> {
    let (name, port) = ("pbt-r", format!("pbt-r{link}"));
    host.socket.create_veth(&VethPair {
        first: VethEnd { name, namespace: &host.namespace, mtu },
        second: VethEnd { name: &port, namespace: &router.namespace, mtu: port_mtu },
    })?;
    for (host, name, number) in [(&mut *host, name, 1), (router, port.as_str(), ROUTER)] {
        let index = host.index(name)?;
        host.socket.set_up(index)?;
        for (address, prefix) in [(v4(link, number), 24), (v6(link, number), 64)] {
            host.socket.add_address(index, IpNet::new(address, prefix)?)?;
        }
    }
    let index = host.index(name)?;
    for (everywhere, gateway) in [(DEFAULT_V4, v4(link, ROUTER)), (DEFAULT_V6, v6(link, ROUTER))] {
        let route = Route { gateway: Some(gateway), interface: Some(index), ..Route::new(everywhere) };
        host.socket.add_route(&route)?;
    }
    Ok(())
}

/// Sends packets larger than the path MTU without fragmentation: only the interface MTU limits them.
fn never_cut(socket: &impl AsRawFd, v6: bool) -> Result<(), Failed> {
    let (level, option, value) = if v6 {
        (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
    } else {
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
    };
    set_int(socket, level, option, value)
}

/// The sending MSS from the peer's announcement: `TCP_MAXSEG` subtracts the timestamp option.
fn largest_segment(stream: &TcpStream) -> Result<u32, Failed> {
    const TIMESTAMPS: u32 = 12;
    Ok(socket2::SockRef::from(stream).tcp_mss()? + TIMESTAMPS)
}

/// IP and TCP header without options.
const fn headers(address: IpAddr) -> u32 {
    if address.is_ipv4() { 40 } else { 60 }
}

fn messages_are_sent_by_default_and_when_asked_for() -> TrialOutcome {
    let mut routed = Routed::new(NEAR_MTU, FAR_MTU)?;
    let counters = routed.firewall.counters()?;
    ensure!(counters == RouterCounters::default(), "{counters:?}");
    for asked in [false, true] {
        if asked {
            routed.firewall.apply(&RouterRules::default())?;
        }
        let before = routed.too_big_received()?;
        for address in FAMILIES {
            for _ in 0..20 {
                ensure!(routed.send(address, LARGE)?, "{} was not sent", address(1, 1));
            }
        }
        routed.wait_for_too_big(before.map(|count| count + 20))?;
    }
    let counters = routed.firewall.counters()?;
    ensure!(counters == RouterCounters { too_big_sent: 40, ..RouterCounters::default() }, "{counters:?}");
    Ok(())
}

fn no_message_leaves_a_router_that_drops_them() -> TrialOutcome {
    for too_big in [TooBigTreatment::Dropped, TooBigTreatment::Limited { per_second: 0 }] {
        let mut routed = Routed::with_too_big(too_big)?;
        for address in FAMILIES {
            for _ in 0..5 {
                ensure!(routed.send(address, LARGE)?, "{} was not sent", address(1, 1));
            }
        }
        ensure!(routed.too_big_received()? == [0, 0], "{:?}", routed.too_big_received()?);
        let counters = routed.firewall.counters()?;
        let expected = RouterCounters { too_big_suppressed: 10, ..RouterCounters::default() };
        ensure!(counters == expected, "{counters:?}");
    }
    Ok(())
}

fn no_more_messages_leave_than_are_allowed() -> TrialOutcome {
    const PER_SECOND: u32 = 50;
    let mut routed = Routed::with_too_big(TooBigTreatment::Limited { per_second: PER_SECOND })?;
    let begun = Instant::now();
    let mut cause = 0;
    while begun.elapsed() < Duration::from_millis(500) {
        for address in FAMILIES {
            ensure!(routed.send(address, LARGE)?, "{} was not sent", address(1, 1));
            cause += 1;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    let most = u64::from(PER_SECOND) * (begun.elapsed().as_millis() as u64) / 1000 + 1;
    let [v4, v6] = routed.too_big_received()?;
    let counters = routed.firewall.counters()?;
    ensure!(v4 + v6 == counters.too_big_sent, "{v4} + {v6} heard, {counters:?}");
    ensure!(counters.too_big_sent + counters.too_big_suppressed == cause, "{counters:?} of {cause}");
    ensure!(counters.too_big_sent <= most, "{counters:?}, {most} at most");
    // A message was due at all times, unless the machine stalled.
    ensure!(counters.too_big_sent >= 5 && counters.too_big_suppressed > 0, "{counters:?} of {cause}");
    Ok(())
}

fn other_errors_pass() -> TrialOutcome {
    // No socket listens on the port: the server's ICMP message reaches the client through the router.
    let routed = Routed::with_too_big(TooBigTreatment::Dropped)?;
    for address in FAMILIES {
        let socket = routed.client.namespace.run_in(|| UdpSocket::bind((address(0, 1), 0)))??;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        socket.connect((address(1, 1), 9))?;
        let reported = wait_until(Duration::from_secs(5), || {
            let error = socket.send(b"anybody?").and_then(|_| socket.recv(&mut [0])).err();
            Ok(error.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused))
        })?;
        ensure!(reported, "ICMP of {} does not pass", address(1, 1));
    }
    Ok(())
}

/// The MSS of connections over both families corresponds to these packet sizes.
fn check_mss(routed: &Routed, by_client: u32, by_server: u32) -> TrialOutcome {
    for address in FAMILIES {
        let connection = routed.connect(address)?;
        let sizes = [largest_segment(&connection.client)?, largest_segment(&connection.server)?];
        let expected = [by_client, by_server].map(|mtu| mtu - headers(address(1, 1)));
        ensure!(sizes == expected, "{sizes:?}, {expected:?} expected to {}", address(1, 1));
    }
    Ok(())
}

fn the_clamp_lowers_the_mss_at_both_ends() -> TrialOutcome {
    // The hosts' interfaces have a large MTU; only the router knows the smaller link MTU.
    let mut routed = Routed::new(NEAR_MTU, NEAR_MTU)?;
    check_mss(&routed, NEAR_MTU, NEAR_MTU)?;
    routed.firewall.apply(&RouterRules {
        too_big: TooBigTreatment::Dropped,
        clamp_mss: true,
        ..RouterRules::default()
    })?;
    check_mss(&routed, FAR_MTU, FAR_MTU)?;
    ensure!(routed.firewall.counters()?.clamped_syns == 4, "{:?}", routed.firewall.counters()?);
    for address in FAMILIES {
        let Connection { client, server } = routed.connect(address)?;
        for (from, to) in [(&client, &server), (&server, &client)] {
            ensure!(transfer(from, to, 1_000_000)?, "data does not get through to {}", address(1, 1));
        }
    }
    routed.firewall.apply(&RouterRules::default())?;
    check_mss(&routed, NEAR_MTU, NEAR_MTU)
}

/// Whether this many bytes arrive within some seconds.
fn transfer(from: &TcpStream, mut to: &TcpStream, bytes: usize) -> Result<bool, Failed> {
    to.set_read_timeout(Some(Duration::from_secs(5)))?;
    let data = vec![7; bytes];
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut from = from;
            from.write_all(&data)
        });
        let arrived = to.read_exact(&mut vec![0; bytes]);
        if arrived.is_err() {
            // The sender may be blocked by a full buffer.
            from.shutdown(std::net::Shutdown::Both)?;
        }
        let sent = sender.join().map_err(|_| Failed::from("the sender panicked"))?;
        Ok(arrived.is_ok() && sent.is_ok())
    })
}

fn the_clamp_leaves_a_smaller_size_alone() -> TrialOutcome {
    const SMALL_MTU: u32 = 1300;
    let mut routed = Routed::new(SMALL_MTU, NEAR_MTU)?;
    routed.firewall.apply(&RouterRules { clamp_mss: true, ..RouterRules::default() })?;
    // In the direction to the client, the smaller of the router's link MTUs applies, too.
    check_mss(&routed, SMALL_MTU, SMALL_MTU)
}

fn rules_change_while_data_flows() -> TrialOutcome {
    let mut routed = Routed::with_too_big(TooBigTreatment::Sent)?;
    let done = AtomicBool::new(false);
    let (client, to) = (&routed.client, SocketAddr::new(v4(1, 1), 9));
    let socket = client.namespace.run_in(|| UdpSocket::bind((v4(0, 1), 0)))??;
    never_cut(&socket, false)?;
    let firewall = &mut routed.firewall;
    let (caused, outcome) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut caused = 0;
            while !done.load(Ordering::Relaxed) {
                caused += u64::from(socket.send_to(&[0; LARGE], to).is_ok());
            }
            caused
        });
        let choices =
            [TooBigTreatment::Dropped, TooBigTreatment::Limited { per_second: 100 }, TooBigTreatment::Sent];
        let mut took = Vec::new();
        let mut change = || -> TrialOutcome {
            for too_big in choices.into_iter().cycle().take(60) {
                let begun = Instant::now();
                firewall.apply(&RouterRules {
                    too_big,
                    clamp_mss: too_big == TooBigTreatment::Sent,
                    ..RouterRules::default()
                })?;
                took.push(begun.elapsed());
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(())
        };
        let outcome = change();
        took.sort();
        eprintln!("rules changed while packets came: {:?} in the median", took.get(30));
        done.store(true, Ordering::Relaxed);
        (sender.join(), outcome)
    });
    outcome?;
    let caused = caused.map_err(|_| Failed::from("the sender panicked"))?;
    let counters = routed.firewall.counters()?;
    // Every packet was processed by exactly one set of rules.
    ensure!(counters.too_big_sent + counters.too_big_suppressed == caused, "{counters:?} of {caused}");
    ensure!(counters.too_big_sent > 0 && counters.too_big_suppressed > 0, "{counters:?} of {caused}");
    routed.wait_for_too_big([counters.too_big_sent, 0])
}

fn rules_replace_each_other_and_counters_continue() -> TrialOutcome {
    let mut routed = Routed::with_too_big(TooBigTreatment::Dropped)?;
    ensure!(routed.send(v4, LARGE)?, "it was not sent");
    // Another handle works independently of the first.
    let mut other = Firewall::open_in(&routed.router.namespace)?;
    other.apply(&RouterRules { clamp_mss: true, ..RouterRules::default() })?;
    ensure!(routed.send(v4, LARGE)? && routed.send(v6, LARGE)?, "they were not sent");
    routed.wait_for_too_big([1, 1])?;
    let counters = routed.firewall.counters()?;
    ensure!((counters.too_big_sent, counters.too_big_suppressed) == (2, 1), "{counters:?}");
    for _ in 0..2 {
        other.remove()?;
        let counters = routed.firewall.counters()?;
        ensure!(counters == RouterCounters::default(), "{counters:?}");
    }
    ensure!(routed.send(v4, LARGE)?, "it was not sent");
    routed.wait_for_too_big([2, 1])
}

fn without_privilege_the_error_names_the_capability() -> TrialOutcome {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let host = Host::new()?;
    // In a temporary thread, because it drops capabilities.
    let error = host.namespace.run_in(|| -> Result<_, Failed> {
        let mut firewall = Firewall::open_in(&host.namespace)?;
        let mut held = capabilities(None)?;
        held.effective.remove(CapabilitySet::NET_ADMIN);
        set_capabilities(None, held)?;
        Ok(firewall.apply(&RouterRules::default()).err())
    })??;
    let Some(error) = error else { return Err("the kernel did not mind".into()) };
    ensure!(error.is_host_unable() && error.to_string().contains("CAP_NET_ADMIN"), "{error}");
    Ok(())
}
