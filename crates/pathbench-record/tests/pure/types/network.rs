//! Addresses with their prefix as files have them, clients, and names of servers.

use pathbench_record::network::*;
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

#[test]
fn text_forms() {
    let network: IpNet = "10.0.1.2/24".parse().unwrap();
    assert_eq!(network.trunc().to_string(), "10.0.1.0/24");
    assert_eq!(IpNet::from("fd00::1".parse::<IpAddr>().unwrap()).to_string(), "fd00::1/128");
    assert_eq!("0.0.0.0/0".parse(), Ok(DEFAULT_V4));
    assert_eq!("::/0".parse(), Ok(DEFAULT_V6));
    for wrong in ["", "10.0.0.1/33", "10.0.0.1/", "10.0.0.1/+8", "10.0.0/8", "fd00::/129", "/8", "a/8"] {
        assert!(wrong.parse::<IpNet>().is_err(), "{wrong}");
    }
}

#[test]
fn serialises_as_text() {
    let network: IpNet = serde_json::from_str("\"10.0.1.0/24\"").unwrap();
    assert_eq!(serde_json::to_string(&network).unwrap(), "\"10.0.1.0/24\"");
    assert!(serde_json::from_str::<IpNet>("\"10.0.1.0/99\"").is_err());
}

#[test]
fn mapped_addresses_come_out_as_ipv4() {
    let mapped: SocketAddr = "[::ffff:192.0.2.7]:80".parse().expect("an address");
    assert_eq!(canonical(mapped), "192.0.2.7:80".parse().expect("an address"));
    let v6: SocketAddr = "[2001:db8::1]:80".parse().expect("an address");
    assert_eq!(canonical(v6), v6);
}

#[test]
fn a_client_is_an_ipv4_address_or_an_ipv6_network() {
    let client = |text: &str| Client::from(text.parse::<IpAddr>().unwrap());
    assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::9"));
    assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
    assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
}

#[test]
fn servers_are_read_in_every_usual_form() {
    for (text, host, port) in [
        ("example.net", "example.net", 4433),
        ("example.net:443", "example.net", 443),
        ("192.0.2.7", "192.0.2.7", 4433),
        ("192.0.2.7:6121", "192.0.2.7", 6121),
        ("2001:db8::7", "2001:db8::7", 4433),
        ("[2001:db8::7]", "2001:db8::7", 4433),
        ("[2001:db8::7]:6121", "2001:db8::7", 6121),
    ] {
        let server = ServerName::parse(text, 4433).unwrap();
        assert_eq!((server.host.as_str(), server.port), (host, port), "{text}");
        assert_eq!(server.to_string(), text);
    }
}

#[test]
fn a_text_that_names_no_server_is_rejected_with_the_reason() {
    for (text, words) in [
        ("", "give a name"),
        (":4433", "give a name"),
        ("a b", "give a name"),
        ("http://example.net", "give a name"),
        ("example.net:0", "1 to 65535"),
        ("example.net:70000", "1 to 65535"),
        ("example.net:http", "1 to 65535"),
        ("2001:db8::7:65536", "[ADDRESS]:PORT"),
        ("[2001:db8::7", "[ADDRESS]:PORT"),
        ("[2001:db8::7]4433", "[ADDRESS]:PORT"),
        ("[example.net]:4433", "brackets"),
    ] {
        let error = ServerName::parse(text, 4433).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn text_round_trip(address: IpAddr, prefix in 0u8..=128) {
        if let Ok(network) = IpNet::new(address, prefix) {
            prop_assert_eq!(network.to_string().parse(), Ok(network));
            prop_assert!(network.contains(&address));
            prop_assert!(network.trunc().contains(&address));
        }
    }
}

/// RFC 791 (20 bytes), RFC 8200 (40 bytes), RFC 768 (8 bytes).
#[test]
fn a_packet_has_the_header_of_its_family() {
    for (address, family, name, packet_bytes) in [
        ("192.0.2.7", AddressFamily::Ipv4, "IPv4", 1_228),
        ("2001:db8::7", AddressFamily::Ipv6, "IPv6", 1_248),
        ("::ffff:192.0.2.7", AddressFamily::Ipv4, "IPv4", 1_228),
    ] {
        let found = AddressFamily::from_address(address.parse().unwrap());
        assert_eq!((found, found.name()), (family, name), "{address}");
        assert_eq!(family.udp_packet_bytes(1_200), packet_bytes);
        assert_eq!(family.udp_payload_bytes(packet_bytes), 1_200);
        assert_eq!(family.udp_payload_bytes(27), 0, "less than the headers");
    }
}
