//! Sizes of packets on a link.

use crate::fixture::{Host, set_int, wait_until};
use libtest_mimic::Failed;
use pathbench_host::netlink::{VethEnd, VethPair};
use pathbench_host::packet_sizes::{PacketTap, SizeCounter, SizeCounterError, SizeCounts};
use pathbench_host::tun::{PacketHeader, Segmentation, Tun};
use pathbench_record::network::IpNet;
use pathbench_testkit::{TrialOutcome, ensure, tests};
use std::collections::BTreeMap;
use std::io::{IoSlice, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

tests!(
    datagrams_are_counted_one_by_one,
    packets_of_a_stream_do_not_exceed_the_mtu,
    udp_gso_packets_count_as_segments,
    every_fragment_is_counted,
    counts_can_be_read_during_counting,
    counting_stops_while_packets_arrive,
    an_interface_may_go_down_and_up,
    missed_packets_are_reported,
    a_tun_device_has_no_link_header,
    uncountable_interfaces_are_rejected,
);

pub(crate) const NAME: &str = "pbt-s";

pub(crate) fn v4(host: u8) -> IpAddr {
    Ipv4Addr::new(10, 8, 0, host).into()
}

fn v6(host: u8) -> IpAddr {
    Ipv6Addr::new(0xfd08, 0, 0, 0, 0, 0, 0, u16::from(host)).into()
}

/// Two hosts with a link.
pub(crate) struct Wire {
    pub(crate) client: Host,
    pub(crate) server: Host,
}

impl Wire {
    pub(crate) fn new(mtu: u32) -> Result<Self, Failed> {
        let mut wire = Self { client: Host::new()?, server: Host::new()? };
        let end = |namespace| VethEnd { name: NAME, namespace, mtu };
        wire.client.socket.create_veth(&VethPair {
            first: end(&wire.client.namespace),
            second: end(&wire.server.namespace),
        })?;
        for (host, number) in [(&mut wire.client, 1), (&mut wire.server, 2)] {
            let index = host.index(NAME)?;
            host.socket.set_up(index)?;
            for (address, prefix) in [(v4(number), 24), (v6(number), 64)] {
                host.socket.add_address(index, IpNet::new(address, prefix)?)?;
            }
        }
        for host in [&mut wire.client, &mut wire.server] {
            host.wait_for_links()?;
        }
        Ok(wire)
    }
}

const HOSTS: [fn(u8) -> IpAddr; 2] = [v4, v6];

/// IP and UDP header.
const fn udp_headers(address: IpAddr) -> usize {
    if address.is_ipv4() { 28 } else { 48 }
}

impl Wire {
    /// Connected sockets of the client and the server.
    pub(crate) fn datagrams(&self, address: fn(u8) -> IpAddr) -> Result<(UdpSocket, UdpSocket), Failed> {
        let bind = |host: &Host, number| host.namespace.run_in(|| UdpSocket::bind((address(number), 0)));
        let (client, server) = (bind(&self.client, 1)??, bind(&self.server, 2)??);
        client.connect(server.local_addr()?)?;
        server.connect(client.local_addr()?)?;
        server.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok((client, server))
    }

    /// The packets during `task`, as counted at the client and at the server.
    fn counted(&self, task: impl FnOnce() -> TrialOutcome) -> Result<[SizeCounts; 2], Failed> {
        let start = |host: &Host| SizeCounter::start(&host.namespace, NAME);
        let counters = [start(&self.client)?, start(&self.server)?];
        task()?;
        Ok(counters.map(SizeCounter::stop))
    }

    /// Sends this many bytes from the client to the server over a TCP connection.
    pub(crate) fn transfer(&self, address: fn(u8) -> IpAddr, bytes: usize) -> TrialOutcome {
        let listener = self.server.namespace.run_in(|| TcpListener::bind((address(2), 0)))??;
        let to = listener.local_addr()?;
        let mut client = self.client.namespace.run_in(|| TcpStream::connect(to))??;
        let mut server = listener.accept()?.0;
        server.set_read_timeout(Some(Duration::from_secs(10)))?;
        std::thread::scope(|scope| {
            // The receiver detects a failure.
            scope.spawn(move || client.write_all(&vec![7; bytes]));
            Ok(server.read_exact(&mut vec![0; bytes])?)
        })
    }
}

fn packets(counts: &BTreeMap<u32, u64>, length: usize) -> u64 {
    counts.get(&(length as u32)).copied().unwrap_or(0)
}

fn datagrams_are_counted_one_by_one() -> TrialOutcome {
    const SIZES: [(usize, u64); 4] = [(0, 3), (101, 500), (702, 50), (1400, 70)];
    let wire = Wire::new(1500)?;
    for address in HOSTS {
        let (client, server) = wire.datagrams(address)?;
        let [sent, received] = wire.counted(|| {
            for (size, count) in SIZES {
                for _ in 0..count {
                    client.send(&vec![0; size])?;
                    ensure!(server.recv(&mut [0; 2000])? == size, "another datagram came");
                }
            }
            server.send(&[0; 303])?;
            Ok(())
        })?;
        ensure!((sent.missed_packets, received.missed_packets) == (0, 0), "{sent:?} {received:?}");
        for (size, count) in SIZES {
            let length = size + udp_headers(address(1));
            ensure!(packets(&sent.sent, length) == count, "{count} of {length}, client: {sent:?}");
            ensure!(
                packets(&received.received, length) == count,
                "{count} of {length}, server: {received:?}"
            );
        }
        let back = 303 + udp_headers(address(1));
        ensure!(packets(&sent.received, back) == 1 && packets(&sent.sent, back) == 0, "{sent:?}");
        ensure!(packets(&received.sent, back) == 1 && packets(&received.received, back) == 0, "{received:?}");
    }
    Ok(())
}

fn every_fragment_is_counted() -> TrialOutcome {
    let wire = Wire::new(1500)?;
    let (client, server) = wire.datagrams(v4)?;
    let [sent, _] = wire.counted(|| {
        client.send(&[0; 4000])?;
        ensure!(server.recv(&mut [0; 5000])? == 4000, "another datagram came");
        Ok(())
    })?;
    ensure!(packets(&sent.sent, 1500) == 2 && packets(&sent.sent, 4008 - 2 * 1480 + 20) == 1, "{sent:?}");
    Ok(())
}

fn packets_of_a_stream_do_not_exceed_the_mtu() -> TrialOutcome {
    const BYTES: usize = 20_000_000;
    for (mtu, address, headers) in
        [(1500, v4 as fn(u8) -> _, 52), (1500, v6, 72), (9000, v4, 52), (9000, v6, 72)]
    {
        let mut wire = Wire::new(mtu)?;
        let index = wire.client.index(NAME)?;
        let before = wire.client.socket.statistics(index)?.tx_packets;
        let [client, server] = wire.counted(|| wire.transfer(address, BYTES))?;
        let handed = wire.client.socket.statistics(index)?.tx_packets - before;
        for counts in [&client.sent, &client.received, &server.sent, &server.received] {
            ensure!(counts.keys().all(|length| *length <= mtu), "MTU {mtu}: {counts:?}");
        }
        ensure!((client.missed_packets, server.missed_packets) == (0, 0), "{client:?} {server:?}");
        let (all, full) = (client.sent.values().sum::<u64>(), packets(&client.sent, mtu as usize));
        let carried: u64 =
            client.sent.iter().map(|(length, count)| u64::from(length.saturating_sub(headers)) * count).sum();
        // All bytes are counted; other packets and retransmissions are few.
        ensure!((BYTES..BYTES * 11 / 10).contains(&(carried as usize)), "MTU {mtu}: {carried}: {client:?}");
        ensure!(full > all / 2, "MTU {mtu}: {client:?}");
        ensure!(full == packets(&server.received, mtu as usize), "MTU {mtu}: {client:?} {server:?}");
        // Otherwise the counter has seen no GSO packets.
        ensure!(handed < all / 2, "MTU {mtu}: {handed} packets were handed over for {all}");
    }
    Ok(())
}

fn udp_gso_packets_count_as_segments() -> TrialOutcome {
    const UDP_SEGMENT: i32 = 103;
    let wire = Wire::new(1500)?;
    for address in HOSTS {
        let (client, server) = wire.datagrams(address)?;
        set_int(&client, libc::IPPROTO_UDP, UDP_SEGMENT, 1200)?;
        let [sent, received] = wire.counted(|| {
            for _ in 0..5 {
                client.send(&[0; 10 * 1200 + 301])?;
                for expected in std::iter::repeat_n(1200, 10).chain([301]) {
                    ensure!(server.recv(&mut [0; 2000])? == expected, "another datagram came");
                }
            }
            Ok(())
        })?;
        for counts in [&sent.sent, &received.received] {
            let headers = udp_headers(address(1));
            let seen = (packets(counts, 1200 + headers), packets(counts, 301 + headers));
            ensure!(seen == (50, 5), "{counts:?}");
        }
    }
    Ok(())
}

fn counts_can_be_read_during_counting() -> TrialOutcome {
    let wire = Wire::new(1500)?;
    let (client, _server) = wire.datagrams(v4)?;
    let counter = SizeCounter::start(&wire.server.namespace, NAME)?;
    for expected in 1..=3 {
        client.send(&[0; 500])?;
        let seen =
            wait_until(Duration::from_secs(2), || Ok(packets(&counter.so_far().received, 528) == expected))?;
        ensure!(seen, "{expected} expected: {:?}", counter.so_far());
    }
    ensure!(packets(&counter.stop().received, 528) == 3, "the end forgot something");
    Ok(())
}

fn counting_stops_while_packets_arrive() -> TrialOutcome {
    let wire = Wire::new(1500)?;
    let (client, server) = wire.datagrams(v4)?;
    let (sent, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut datagram = [0; 500];
            while !done.load(Ordering::Relaxed) {
                let number = sent.fetch_add(1, Ordering::Relaxed);
                datagram[..8].copy_from_slice(&number.to_ne_bytes());
                if client.send(&datagram).is_err() {
                    return;
                }
            }
        });
        let end = || -> TrialOutcome {
            let counter = SizeCounter::start(&wire.server.namespace, NAME)?;
            // The following datagram has not been sent yet.
            let (first, mut arrived, mut datagram) = (sent.load(Ordering::Relaxed), 0, [0; 500]);
            while arrived < first + 1000 {
                server.recv(&mut datagram)?;
                arrived = datagram.first_chunk().map_or(0, |number| u64::from_ne_bytes(*number));
            }
            let begun = Instant::now();
            let sizes = counter.stop();
            let took = begun.elapsed();
            let known = packets(&sizes.received, 528) + sizes.missed_packets;
            ensure!(known > arrived - first, "{known} since {first}, {arrived} has arrived: {sizes:?}");
            // Stopping takes 50 ms. A wait for an idle interval would never end.
            ensure!(took < Duration::from_secs(2), "{took:?}");
            Ok(())
        };
        let outcome = end();
        done.store(true, Ordering::Relaxed);
        outcome
    })
}

fn an_interface_may_go_down_and_up() -> TrialOutcome {
    let mut wire = Wire::new(1500)?;
    let (client, server) = wire.datagrams(v4)?;
    let index = wire.server.index(NAME)?;
    let counter = SizeCounter::start(&wire.server.namespace, NAME)?;
    for round in 0..2 {
        if round > 0 {
            wire.server.socket.set_down(index)?;
            wire.server.socket.set_up(index)?;
        }
        // After that, the kernel resolves the neighbour again, which may delay or drop the first datagram.
        let arrives = wait_until(Duration::from_secs(5), || {
            client.send(&[0; 20])?;
            Ok(server.recv(&mut [0; 2000]).is_ok())
        })?;
        ensure!(arrives, "nothing arrives in round {round}");
        for _ in 0..10 {
            client.send(&[0; 500])?;
            while server.recv(&mut [0; 2000])? != 500 {}
        }
    }
    let sizes = counter.stop();
    ensure!(packets(&sizes.received, 528) == 20, "{sizes:?}");
    Ok(())
}

fn missed_packets_are_reported() -> TrialOutcome {
    const SENT: u64 = 40_000;
    let wire = Wire::new(1500)?;
    let (client, server) = wire.datagrams(v4)?;
    let mut tap = PacketTap::open(&wire.client.namespace, NAME)?;
    for _ in 0..SENT {
        // The server's buffer is too small for all datagrams, but all have crossed the link.
        client.send(&[0; 500])?;
    }
    let mut sizes = SizeCounts::default();
    tap.collect(&mut sizes);
    let counted = packets(&sizes.sent, 528);
    ensure!(counted > SENT / 10 && sizes.missed_packets > SENT / 10, "{sizes:?}");
    let reported = counted + sizes.missed_packets;
    // Other packets may have crossed.
    ensure!((SENT..SENT + 20).contains(&reported), "{reported}: {sizes:?}");
    // The ring has free blocks again.
    let missed = sizes.missed_packets;
    drop(server);
    for _ in 0..100 {
        // The server answers with ICMP "port unreachable".
        while client.send(&[0; 600]).is_err() {}
    }
    tap.finish(&mut sizes);
    ensure!(packets(&sizes.sent, 628) == 100 && sizes.missed_packets == missed, "{missed} before, {sizes:?}");
    Ok(())
}

fn a_tun_device_has_no_link_header() -> TrialOutcome {
    let mut host = Host::new()?;
    let tun = Tun::create(&host.namespace, NAME, 1500)?;
    host.socket.set_up(tun.index())?;
    host.socket.add_address(tun.index(), IpNet::new(v4(1), 24)?)?;
    let counter = SizeCounter::start(&host.namespace, NAME)?;
    let socket = host.namespace.run_in(|| UdpSocket::bind((v4(1), 0)))??;
    socket.send_to(&[0; 500], (v4(2), 9))?;
    // 2500 bytes of TCP to another host, in segments of 1000.
    let mut packet = vec![0; 40 + 2500];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&2540_u16.to_be_bytes());
    (packet[8], packet[9], packet[32]) = (64, libc::IPPROTO_TCP as u8, 5 << 4);
    packet[12..20].copy_from_slice(&[10, 8, 0, 2, 10, 8, 0, 3]);
    let header = PacketHeader {
        checksum: Some((20, 16)),
        segmentation: Some(Segmentation::TcpV4),
        header_bytes: 40,
        segment_bytes: 1000,
        ..PacketHeader::default()
    };
    tun.write(&[IoSlice::new(&header.to_bytes()), IoSlice::new(&packet)])?;
    let sizes = counter.stop();
    ensure!(sizes.sent == BTreeMap::from([(528, 1)]), "{sizes:?}");
    ensure!(sizes.received == BTreeMap::from([(540, 1), (1040, 2)]), "{sizes:?}");
    ensure!(sizes.missed_packets == 0, "{sizes:?}");
    Ok(())
}

fn uncountable_interfaces_are_rejected() -> TrialOutcome {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let wire = Wire::new(1500)?;
    let absent = SizeCounter::start(&wire.client.namespace, "pbt-none").err();
    let named = matches!(&absent, Some(error @ SizeCounterError::Netlink(_)) if error.to_string().contains("pbt-none"));
    ensure!(named, "{absent:?}");
    // In a temporary thread, because it drops capabilities.
    let forbidden = wire.client.namespace.run_in(|| -> Result<_, Failed> {
        let mut held = capabilities(None)?;
        held.effective.remove(CapabilitySet::NET_RAW);
        set_capabilities(None, held)?;
        Ok(SizeCounter::start(&wire.client.namespace, NAME).err())
    })??;
    let Some(forbidden) = forbidden else { return Err("the kernel did not mind".into()) };
    ensure!(forbidden.is_host_unable() && forbidden.to_string().contains("CAP_NET_RAW"), "{forbidden}");
    Ok(())
}
