//! Packets captured on an interface.

use crate::fixture::Host;
use crate::packet_sizes::{NAME, Wire, v4};
use libtest_mimic::Failed;
use pathbench_host::namespace::NetNamespace;
use pathbench_host::packet_capture::{PacketCapture, PacketCaptureError};
use pathbench_host::tun::Tun;
use pathbench_record::network::IpNet;
use pathbench_testkit::{TrialOutcome, ensure, tests};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, SystemTime};

tests!(
    every_packet_is_captured_with_its_lengths,
    packets_are_truncated_to_the_snap_length,
    packets_on_loopback_are_captured_once,
    gso_packets_are_captured_unsegmented,
    a_tun_device_has_raw_packets,
    dropped_packets_are_counted,
    the_end_of_an_interface_ends_its_capture,
    interfaces_that_cannot_be_captured_are_rejected,
);

/// More than any packet has.
const ALL_BYTES: u32 = 262_144;
const LINKTYPE_ETHERNET: u16 = 1;
const LINKTYPE_RAW: u16 = 101;
/// Ethernet, IPv4 and UDP.
const HEADERS: usize = 14 + 20 + 8;

struct Captured {
    time_ns: u64,
    bytes: Vec<u8>,
    original_length: u32,
}

fn open(namespace: &NetNamespace, interface: &str, snap_bytes: u32) -> Result<PacketCapture, Failed> {
    Ok(namespace.run_in(|| PacketCapture::open(interface, snap_bytes))??)
}

/// The packets so far, after a call of `receive`, so that both functions pass packets.
fn packets(capture: &mut PacketCapture) -> Result<Vec<Captured>, Failed> {
    let mut all = Vec::new();
    let mut take = |time_ns, bytes: &[u8], original_length| {
        all.push(Captured { time_ns, bytes: bytes.to_owned(), original_length });
    };
    let received = capture.receive(Duration::from_millis(10), &mut take)?;
    capture.finish(&mut take);
    ensure!(received <= all.len(), "{received} of {}", all.len());
    Ok(all)
}

/// UDP packets of IPv4 on Ethernet.
fn udp(packets: &[Captured]) -> impl Iterator<Item = &Captured> {
    packets.iter().filter(|packet| {
        packet.bytes.get(12..14) == Some(&[8, 0]) && packet.bytes.get(23) == Some(&(libc::IPPROTO_UDP as u8))
    })
}

fn now_ns() -> Result<u64, Failed> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos() as u64)
}

fn every_packet_is_captured_with_its_lengths() -> TrialOutcome {
    const SIZES: [(usize, u64); 3] = [(101, 500), (702, 50), (1400, 700)];
    let wire = Wire::new(1500)?;
    let (client, server) = wire.datagrams(v4)?;
    let mut captures =
        [open(&wire.client.namespace, NAME, ALL_BYTES)?, open(&wire.server.namespace, NAME, ALL_BYTES)?];
    let begun_ns = now_ns()?;
    for (size, count) in SIZES {
        for _ in 0..count {
            client.send(&vec![size as u8; size])?;
            ensure!(server.recv(&mut [0; 2000])? == size, "another datagram came");
        }
    }
    server.send(&[9; 303])?;
    client.recv(&mut [0; 2000])?;
    let ended_ns = now_ns()?;
    for capture in &mut captures {
        ensure!(capture.link_type() == LINKTYPE_ETHERNET, "{}", capture.link_type());
        let received = packets(capture)?;
        ensure!(capture.take_dropped() == 0, "packets were dropped");
        let mut counts = BTreeMap::new();
        for packet in udp(&received) {
            let payload = packet.bytes.get(HEADERS..).unwrap_or_default();
            *counts.entry(payload.len()).or_insert(0_u64) += 1;
            ensure!(packet.original_length as usize == packet.bytes.len(), "{}", packet.original_length);
            let expected = if payload.len() == 303 { 9 } else { payload.len() as u8 };
            ensure!(payload.iter().all(|byte| *byte == expected), "another payload of {}", payload.len());
            ensure!((begun_ns..=ended_ns).contains(&packet.time_ns), "{} in {begun_ns}…", packet.time_ns);
        }
        let expected: BTreeMap<usize, u64> = SIZES.into_iter().chain([(303, 1)]).collect();
        ensure!(counts == expected, "{counts:?}");
        ensure!(received.is_sorted_by_key(|packet| packet.time_ns), "not in order of time");
    }
    Ok(())
}

fn packets_are_truncated_to_the_snap_length() -> TrialOutcome {
    let wire = Wire::new(1500)?;
    let (client, server) = wire.datagrams(v4)?;
    let mut capture = open(&wire.server.namespace, NAME, 60)?;
    for size in [10, 1000] {
        client.send(&vec![0; size])?;
        server.recv(&mut [0; 2000])?;
    }
    let captured = packets(&mut capture)?;
    let lengths: Vec<_> =
        udp(&captured).map(|packet| (packet.bytes.len(), packet.original_length as usize)).collect();
    ensure!(lengths == [(HEADERS + 10, HEADERS + 10), (60, HEADERS + 1000)], "{lengths:?}");
    Ok(())
}

fn packets_on_loopback_are_captured_once() -> TrialOutcome {
    let host = Host::new()?;
    let mut capture = open(&host.namespace, "lo", ALL_BYTES)?;
    ensure!(capture.link_type() == LINKTYPE_ETHERNET, "{}", capture.link_type());
    let socket = host.namespace.run_in(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)))??;
    for _ in 0..20 {
        socket.send_to(&[0; 500], socket.local_addr()?)?;
        socket.recv(&mut [0; 2000])?;
    }
    let captured = packets(&mut capture)?;
    let lengths: Vec<_> = captured.iter().map(|packet| packet.bytes.len()).collect();
    ensure!(lengths == [HEADERS + 500; 20], "{lengths:?}");
    Ok(())
}

fn gso_packets_are_captured_unsegmented() -> TrialOutcome {
    const BYTES: usize = 2_000_000;
    let wire = Wire::new(1500)?;
    let mut capture = open(&wire.client.namespace, NAME, ALL_BYTES)?;
    wire.transfer(v4, BYTES)?;
    let captured = packets(&mut capture)?;
    ensure!(capture.take_dropped() == 0, "packets were dropped");
    let largest = captured.iter().map(|packet| packet.original_length).max();
    ensure!(largest.is_some_and(|bytes| bytes > 4000), "{largest:?}");
    let all: usize = captured.iter().map(|packet| packet.bytes.len()).sum();
    ensure!(all > BYTES, "{all}");
    Ok(())
}

fn a_tun_device_has_raw_packets() -> TrialOutcome {
    let mut host = Host::new()?;
    let tun = Tun::create(&host.namespace, NAME, 1500)?;
    host.socket.set_up(tun.index())?;
    host.socket.add_address(tun.index(), IpNet::new(v4(1), 24)?)?;
    let mut capture = open(&host.namespace, NAME, ALL_BYTES)?;
    ensure!(capture.link_type() == LINKTYPE_RAW, "{}", capture.link_type());
    let socket = host.namespace.run_in(|| UdpSocket::bind((v4(1), 0)))??;
    socket.send_to(&[0; 500], (v4(2), 9))?;
    let captured = packets(&mut capture)?;
    let is_sent = |packet: &&Captured| packet.bytes.first() == Some(&0x45) && packet.original_length == 528;
    ensure!(captured.iter().filter(is_sent).count() == 1, "{} packets", captured.len());
    Ok(())
}

fn dropped_packets_are_counted() -> TrialOutcome {
    const SENT: usize = 40_000;
    let wire = Wire::new(1500)?;
    let (client, _server) = wire.datagrams(v4)?;
    let mut capture = open(&wire.client.namespace, NAME, ALL_BYTES)?;
    for _ in 0..SENT {
        client.send(&[0; 1400])?;
    }
    let captured = packets(&mut capture)?;
    let (captured, dropped) = (captured.len(), capture.take_dropped() as usize);
    ensure!(captured > SENT / 10 && dropped > SENT / 10, "{captured} captured, {dropped} dropped");
    // Other packets may have crossed.
    ensure!((SENT..SENT + 20).contains(&(captured + dropped)), "{captured} captured, {dropped} dropped");
    ensure!(capture.take_dropped() == 0, "counted again");
    Ok(())
}

fn the_end_of_an_interface_ends_its_capture() -> TrialOutcome {
    let mut wire = Wire::new(1500)?;
    let mut capture = open(&wire.server.namespace, NAME, ALL_BYTES)?;
    let index = wire.server.index(NAME)?;
    wire.server.socket.set_down(index)?;
    wire.server.socket.set_up(index)?;
    let mut receive = || capture.receive(Duration::from_millis(200), |_, _, _| {});
    for _ in 0..5 {
        receive()?;
    }
    wire.server.socket.delete_link(index)?;
    let removed = (0..20).find_map(|_| receive().err());
    let named = matches!(&removed, Some(error @ PacketCaptureError::Removed { .. }) if error.to_string().contains(NAME));
    ensure!(named, "{removed:?}");
    Ok(())
}

fn interfaces_that_cannot_be_captured_are_rejected() -> TrialOutcome {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let wire = Wire::new(1500)?;
    let open = |name| PacketCapture::open(name, ALL_BYTES).err();
    let absent = wire.client.namespace.run_in(|| open("pbt-none"))?;
    let named = matches!(&absent, Some(error @ PacketCaptureError::Netlink(_)) if error.to_string().contains("pbt-none"));
    ensure!(named, "{absent:?}");
    // In a temporary thread, because it drops capabilities.
    let forbidden = wire.client.namespace.run_in(|| -> Result<_, Failed> {
        let mut held = capabilities(None)?;
        held.effective.remove(CapabilitySet::NET_RAW);
        set_capabilities(None, held)?;
        Ok(open(NAME))
    })??;
    let Some(forbidden) = forbidden else { return Err("the kernel did not mind".into()) };
    let text = forbidden.to_string();
    ensure!(forbidden.is_host_unable() && text.contains("CAP_NET_RAW") && text.contains("setcap"), "{text}");
    Ok(())
}
