//! Examinations of loopback, answered by a server on its QUIC port, on the real kernel.

use crate::common::{Everything, clock, server_with_token};
use pathbench_traffic::datagram::{DatagramError, DatagramKind, DatagramMessage, HEADER_BYTES, UdpPath};
use pathbench_traffic::path_mtu::{
    MtuBounds, MtuEvent, MtuPlan, NoMtu, PathMtuFound, SizeEvidence, WatchPace, find_mtu, watch_mtu,
};
use pathbench_traffic::server::ServerLimits;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn plan(server: SocketAddr) -> MtuPlan {
    let path = UdpPath { interface: Some("lo".to_owned()), local: Some(LOCALHOST) };
    MtuPlan { server, token: None, path, bounds: MtuBounds::default() }
}

fn find(plan: &MtuPlan) -> PathMtuFound {
    find_mtu(plan, &clock(), &AtomicBool::new(false)).unwrap()
}

#[test]
fn the_largest_ip_packet_passes_loopback() {
    let everything = Everything::start(ServerLimits::default());
    let found = find(&plan(everything.quic_address()));
    assert_eq!((found.upload.restarts, found.download.restarts), (0, 0));
    for direction in [&found.upload, &found.download] {
        let result = direction.found.as_ref().unwrap();
        // The interface's MTU is one byte larger than the largest IPv4 packet.
        assert_eq!(
            (result.mtu_bytes, &result.evidence),
            (65_535, &SizeEvidence::LocalInterface),
            "{found:#?}"
        );
        assert!((result.confidence - 1.0).abs() < 1e-9);
        let record = direction.to_record();
        assert_eq!((record.mtu_bytes, record.error), (Some(65_535), None));
    }
    everything.server.stop();
}

#[test]
fn a_server_that_requires_a_token_reports_that_and_accepts_it() {
    let (server, address, token) = server_with_token();
    let without = plan(address);
    let found = find(&without);
    for direction in [&found.upload, &found.download] {
        let Err(NoMtu::Refused { reason }) = &direction.found else { panic!("{found:#?}") };
        assert!(reason.contains("--token"), "{reason}");
        assert!(direction.to_record().error.unwrap().contains("--token"));
    }
    let with = MtuPlan { token: Some(token), ..without };
    assert!(find(&with).download.found.is_ok());
    server.drain();
    let Err(NoMtu::Refused { reason }) = find(&with).upload.found else { panic!("it was let in") };
    assert!(reason.contains("shutting down"), "{reason}");
    server.stop();
}

#[test]
fn a_silent_server_a_closed_port_and_a_missing_interface_are_distinguished() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    assert_eq!(find(&plan(address)).upload.found, Err(NoMtu::Silent));
    drop(silent);
    let found = find(&plan(address));
    let Err(NoMtu::Unreachable { reason }) = &found.download.found else { panic!("{found:#?}") };
    assert!(reason.contains("refused") && reason.contains("127.0.0.1"), "{reason}");
    assert!(found.upload.duration < 3000 * MS, "{found:#?}");
    let nowhere = UdpPath { interface: Some("nosuch0".to_owned()), local: None };
    let error = find_mtu(&MtuPlan { path: nowhere, ..plan(address) }, &clock(), &AtomicBool::new(false));
    let error = error.unwrap_err();
    assert!(error.to_string().contains("nosuch0"), "{error}");
    let long = MtuPlan { token: Some("t".repeat(513)), ..plan(address) };
    let error = find_mtu(&long, &clock(), &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, DatagramError::Token { .. }), "{error}");
    let stopped = find_mtu(&plan(address), &clock(), &AtomicBool::new(true)).unwrap();
    assert_eq!(stopped.upload.found, Err(NoMtu::Stopped));
}

#[test]
fn a_watch_reports_its_result_and_stops() {
    let everything = Everything::start(ServerLimits::default());
    let stop = AtomicBool::new(false);
    let mut events = Vec::new();
    let mut sink = |_, event| {
        events.push(event);
        stop.store(true, Ordering::Release);
    };
    watch_mtu(&plan(everything.quic_address()), WatchPace::default(), &clock(), &stop, &mut sink).unwrap();
    let [MtuEvent::Examined(found)] = &events[..] else { panic!("{events:#?}") };
    assert_eq!(found.upload.found.as_ref().unwrap().mtu_bytes, 65_535);
    everything.server.stop();
}

#[test]
fn packets_are_sent_with_the_cookie_of_the_address_only_and_within_a_budget() {
    let everything = Everything::start(ServerLimits::default());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(everything.quic_address()).unwrap();
    socket.set_read_timeout(Some(300 * MS)).unwrap();
    let mut buffer = vec![0; 70_000];
    let mut ask = DatagramMessage::new(DatagramKind::SizeRequest, 9, 1).with_sizes(60_000, 0);
    socket.send(&ask.encode(0)).unwrap();
    assert!(socket.recv(&mut buffer).is_err(), "a packet without a cookie");
    let hello = DatagramMessage::new(DatagramKind::Hello, 9, 0);
    socket.send(&hello.encode(0)).unwrap();
    let length = socket.recv(&mut buffer).unwrap();
    ask.cookie = DatagramMessage::decode(&buffer[..length]).unwrap().cookie;
    let (mut bytes, mut busy) = (0, 0);
    for _ in 0..200 {
        socket.send(&ask.encode(0)).unwrap();
        let Ok(length) = socket.recv(&mut buffer) else { continue };
        match DatagramMessage::decode(&buffer[..length]).unwrap().kind {
            DatagramKind::SizeResponse => {
                assert_eq!(length, 60_000 - 28);
                bytes += length;
            }
            DatagramKind::Busy => {
                assert_eq!(length, HEADER_BYTES);
                busy += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    // The budget is 2 MB at once and 2 MB per second.
    assert!(busy > 0 && bytes >= 1_000_000, "{busy} times busy, {bytes} bytes");
    everything.server.stop();
}
