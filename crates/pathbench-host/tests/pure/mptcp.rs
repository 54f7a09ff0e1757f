//! Endpoints and events of the MPTCP path manager.

use pathbench_host::mptcp::{
    EndpointFlags, MptcpEndpoint, encode_endpoint, event_kind, parse_endpoint, parse_event,
};
use pathbench_host::netlink::message::Encoder;
use pathbench_record::event::EventKind;
use proptest::prelude::*;
use std::net::IpAddr;

const GENERIC_HEADER: usize = 4;
// linux/mptcp_pm.h
const ATTR_ADDR: u16 = 1;
const ATTR_TOKEN: u16 = 1;
const ATTR_LOC_ID: u16 = 3;
const ATTR_REM_ID: u16 = 4;
const ATTR_SADDR4: u16 = 5;
const ATTR_DADDR4: u16 = 7;
const ATTR_SPORT: u16 = 9;
const ATTR_DPORT: u16 = 10;
const ATTR_BACKUP: u16 = 11;
const ATTR_ERROR: u16 = 12;
const ATTR_FLAGS: u16 = 13;
const ATTR_RESET_REASON: u16 = 16;
const ATTR_SERVER_SIDE: u16 = 18;
const FLAG_SERVER_SIDE: u16 = 1 << 1;

fn event(command: u8) -> Encoder {
    Encoder::with_header(&[command, 1, 0, 0])
}

#[test]
fn a_subflow_that_was_reset() {
    let payload = event(11)
        .u32(ATTR_TOKEN, 0xdead_beef)
        .u8(ATTR_LOC_ID, 2)
        .u8(ATTR_REM_ID, 0)
        .address(ATTR_SADDR4, "10.0.2.1".parse().unwrap())
        .address(ATTR_DADDR4, "10.0.2.2".parse().unwrap())
        .u16(ATTR_SPORT, 40000u16.to_be())
        .u16(ATTR_DPORT, 5201u16.to_be())
        .u8(ATTR_BACKUP, 1)
        .u8(ATTR_ERROR, 110)
        .u32(ATTR_RESET_REASON, 6);
    let event = parse_event(&payload.into_bytes()).unwrap();
    assert_eq!(event.kind, EventKind::SubClosed);
    assert_eq!(event.token, Some(0xdead_beef));
    assert_eq!(event.local, Some("10.0.2.1:40000".parse().unwrap()));
    assert_eq!(event.remote, Some("10.0.2.2:5201".parse().unwrap()));
    assert_eq!((event.local_id, event.remote_id), (Some(2), Some(0)));
    assert_eq!((event.error, event.reset_reason, event.backup), (Some(110), Some(6), Some(true)));
    assert_eq!((event.reset_flags, event.server_side), (None, None));
}

#[test]
fn the_side_is_in_an_attribute_or_in_a_flag() {
    let side = |payload: Encoder| parse_event(&payload.into_bytes()).unwrap().server_side;
    assert_eq!(side(event(1).u8(ATTR_SERVER_SIDE, 1)), Some(true));
    assert_eq!(side(event(1).u8(ATTR_SERVER_SIDE, 0)), Some(false));
    assert_eq!(side(event(1).u16(ATTR_FLAGS, FLAG_SERVER_SIDE)), Some(true));
    assert_eq!(side(event(1)), Some(false));
}

proptest! {
    #[test]
    fn any_bytes(payload: Vec<u8>) {
        prop_assert_eq!(parse_event(&payload).is_some(), payload.len() >= GENERIC_HEADER);
    }

    #[test]
    fn any_attributes(command: u8, attributes: Vec<(u16, Vec<u8>)>) {
        let payload = attributes
            .iter()
            .fold(event(command), |payload, (kind, value)| payload.bytes(kind % 20, value));
        let parsed = parse_event(&payload.into_bytes()).unwrap();
        prop_assert_eq!(parsed.kind, event_kind(command));
    }
}

proptest! {
    #[test]
    fn requests_are_parsed_as_written(
        address: IpAddr, id in 1u8.., port in 1u16.., interface in 1u32.., bits in 0u32..64
    ) {
        let flags = EndpointFlags::from_bits(bits);
        prop_assert_eq!(flags.bits(), bits);
        let endpoint =
            MptcpEndpoint { address, port: Some(port), id: Some(id), interface: Some(interface), flags };
        let payload = Encoder::with_header(&[0; GENERIC_HEADER]).nested(ATTR_ADDR, encode_endpoint(&endpoint));
        prop_assert_eq!(parse_endpoint(&payload.into_bytes()), Some(endpoint));
    }
}
