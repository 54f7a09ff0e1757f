//! Calibration over loopback: no shaper there, but the kernel's sockets, offloads and arrival times are real.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod common;

use common::clock;
use pathbench_traffic::calibration::{CalibrationError, CalibrationPlan, CalibrationResponder, calibrate};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

fn loopback(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn measures(near: &str, far: &str) {
    let responder = CalibrationResponder::start(&[loopback(far)], &clock()).unwrap();
    let mut plan = CalibrationPlan::new(loopback(near), responder.addresses()[0], 1500);
    plan.forward_bps = Some(100_000_000);
    plan.backward_bps = Some(50_000_000);
    plan.train = Duration::from_millis(100);
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let link = calibrate(&plan, clock().as_ref()).unwrap();
        // Loopback takes more than 1500 bytes, and the report must say so.
        assert_eq!((link.forward_mtu_bytes, link.backward_mtu_bytes), (1501, 1501));
        assert!(link.min_rtt <= link.rtt && link.rtt < Duration::from_millis(100), "{link:?}");
        forward.push(link.forward_bps.unwrap() as f64 / 100e6);
        backward.push(link.backward_bps.unwrap() as f64 / 50e6);
    }
    // Nothing limits the rate: the train arrives as fast as it is sent, 25 % above what was asked for. A sender
    // that had to wait for a processor sends late and then too fast, so that single trains are off.
    for mut ratios in [forward, backward] {
        ratios.sort_by(f64::total_cmp);
        assert!((0.9..1.5).contains(&ratios[2]), "{ratios:?}");
    }
    responder.stop();
}

#[test]
fn an_unlimited_link_measures_faster_than_asked_over_ipv4() {
    measures("127.0.0.1:0", "127.0.0.1:0");
}

#[test]
fn an_unlimited_link_measures_faster_than_asked_over_ipv6() {
    if UdpSocket::bind("[::1]:0").is_err() {
        // A host without IPv6 must be told, not fail in some other way.
        let plan = CalibrationPlan::new(loopback("[::1]:0"), loopback("[::1]:9"), 1500);
        let error = calibrate(&plan, clock().as_ref()).unwrap_err();
        assert!(matches!(error, CalibrationError::Socket { .. }), "{error}");
        return;
    }
    measures("[::1]:0", "[::1]:0");
}

#[test]
fn an_mtu_smaller_than_asked_is_found_and_unasked_rates_are_not_measured() {
    let responder = CalibrationResponder::start(&[loopback("127.0.0.1:0")], &clock()).unwrap();
    // Loopback's MTU is 65536; an IPv4 packet has at most 65535 bytes.
    let plan = CalibrationPlan::new(loopback("127.0.0.1:0"), responder.addresses()[0], 70_000);
    let link = calibrate(&plan, clock().as_ref()).unwrap();
    assert_eq!((link.forward_mtu_bytes, link.backward_mtu_bytes), (65_535, 65_535));
    assert_eq!((link.forward_bps, link.backward_bps), (None, None));
}

#[test]
fn silence_is_reported_after_a_bounded_time() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let plan = CalibrationPlan::new(loopback("127.0.0.1:0"), nobody.local_addr().unwrap(), 1500);
    let begun = clock().now();
    let error = calibrate(&plan, clock().as_ref()).unwrap_err();
    assert!(matches!(error, CalibrationError::NoAnswer { .. }), "{error}");
    assert!(clock().now().since(begun) < Duration::from_secs(4));
}

/// A message by hand: kind, cookie, values.
fn message(kind: u8, cookie: u64, values: [u64; 5]) -> Vec<u8> {
    let mut bytes = b"PBCL".to_vec();
    bytes.extend([kind, 1, 0, 0]);
    for field in [7, cookie].into_iter().chain(values) {
        bytes.extend(field.to_be_bytes());
    }
    bytes
}

#[test]
fn nothing_is_sent_to_an_address_that_did_not_return_its_cookie() {
    let responder = CalibrationResponder::start(&[loopback("127.0.0.1:0")], &clock()).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(responder.addresses()[0]).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
    let mut buffer = [0; 2000];
    let train = [1, 10_000_000, 20_000_000, 1000, 10_000];
    for kind in [3, 5, 7, 11, 13] {
        for cookie in [0, 1, u64::MAX] {
            socket.send(&message(kind, cookie, train)).unwrap();
        }
    }
    socket.send(b"PBCL").unwrap();
    socket.send(&[0; 1400]).unwrap();
    assert!(socket.recv(&mut buffer).is_err(), "an answer without a cookie");
    // With the cookie the same request is served; the cookie's message is not larger than its request.
    let request = message(1, 0, [0; 5]);
    socket.send(&request).unwrap();
    let length = socket.recv(&mut buffer).unwrap();
    assert!(length <= request.len());
    let cookie = u64::from_be_bytes(buffer[16..24].try_into().unwrap());
    socket.send(&message(11, cookie, train)).unwrap();
    assert_eq!(socket.recv(&mut buffer).unwrap(), 1000);
    // Not so from another port, and not beyond the bounds.
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
    other.send_to(&message(11, cookie, train), responder.addresses()[0]).unwrap();
    assert!(other.recv(&mut buffer).is_err());
}
