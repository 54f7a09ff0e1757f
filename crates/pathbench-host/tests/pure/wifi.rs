//! Wi-Fi interfaces and stations in nl80211 messages.

use pathbench_host::netlink::message::Encoder;
use pathbench_host::wifi::{WifiInterface, parse_station};
use pathbench_record::kernel_event::WifiNetwork;
use proptest::prelude::*;

// linux/nl80211.h
const ATTR_IFINDEX: u16 = 3;
const ATTR_IFNAME: u16 = 4;
const ATTR_IFTYPE: u16 = 5;
const ATTR_MAC: u16 = 6;
const ATTR_STA_INFO: u16 = 21;
const ATTR_WIPHY_FREQ: u16 = 38;
const ATTR_SSID: u16 = 52;
const STA_INFO_SIGNAL: u16 = 7;
const STA_INFO_TX_BITRATE: u16 = 8;
const STA_INFO_SIGNAL_AVG: u16 = 13;
const STA_INFO_RX_BITRATE: u16 = 14;
const RATE_INFO_BITRATE: u16 = 1;
const RATE_INFO_BITRATE32: u16 = 5;
const IFTYPE_STATION: u32 = 2;
const IFTYPE_P2P_CLIENT: u32 = 8;

/// Equivalent to `iw dev`: an associated interface, with further attributes that are ignored.
fn interface(kind: u32, ssid: Option<&[u8]>) -> Vec<u8> {
    Encoder::with_header(&[7, 1, 0, 0])
        .u32(ATTR_IFINDEX, 3)
        .text(ATTR_IFNAME, "wlan0")
        .u32(1, 0)
        .u32(ATTR_IFTYPE, kind)
        .bytes(ATTR_MAC, &[2, 0, 0, 0, 0, 1])
        .u32(ATTR_WIPHY_FREQ, 5180)
        .add_optional(ssid, |to, ssid| to.bytes(ATTR_SSID, ssid))
        .into_bytes()
}

/// Equivalent to `iw dev wlan0 station dump`.
fn station(information: Encoder) -> Vec<u8> {
    Encoder::with_header(&[19, 1, 0, 0])
        .u32(ATTR_IFINDEX, 3)
        .bytes(ATTR_MAC, &[0x00, 0x1a, 0x2b, 0x3c, 0x4d, 0x5e])
        .nested(ATTR_STA_INFO, information)
        .into_bytes()
}

#[test]
fn an_associated_interface_names_its_network() {
    let found = WifiInterface::parse(&interface(IFTYPE_STATION, Some("café-5G".as_bytes()))).unwrap();
    let network = found.network.unwrap();
    assert_eq!((found.index, found.name.as_str()), (3, "wlan0"));
    assert_eq!((network.ssid.as_deref(), network.frequency_mhz), (Some("café-5G"), Some(5180)));
}

#[test]
fn an_interface_without_a_network_is_not_associated() {
    assert_eq!(WifiInterface::parse(&interface(IFTYPE_STATION, None)).unwrap().network, None);
    assert_eq!(WifiInterface::parse(&interface(IFTYPE_STATION, Some(b""))).unwrap().network, None);
    // SSIDs are arbitrary bytes.
    let odd = WifiInterface::parse(&interface(IFTYPE_P2P_CLIENT, Some(&[b'a', 0, 0xff]))).unwrap();
    assert_eq!(odd.network.unwrap().ssid.as_deref(), Some("a\0\u{fffd}"));
}

#[test]
fn access_points_and_monitors_join_no_network() {
    for kind in [3, 6] {
        assert_eq!(WifiInterface::parse(&interface(kind, Some(b"mine"))), None);
    }
}

#[test]
fn a_station_has_signal_and_rates() {
    let information = Encoder::default()
        .u8(STA_INFO_SIGNAL, (-71i8).cast_unsigned())
        .u8(STA_INFO_SIGNAL_AVG, (-67i8).cast_unsigned())
        .nested(STA_INFO_TX_BITRATE, Encoder::default().u16(RATE_INFO_BITRATE, 866))
        .nested(
            STA_INFO_RX_BITRATE,
            Encoder::default().u16(RATE_INFO_BITRATE, 0).u32(RATE_INFO_BITRATE32, 96_078),
        );
    let found = parse_station(&station(information)).unwrap();
    assert_eq!(found.bssid.unwrap().to_string(), "00:1a:2b:3c:4d:5e");
    assert_eq!(found.signal_dbm, Some(-67));
    assert_eq!((found.tx_bps, found.rx_bps), (Some(86_600_000), Some(9_607_800_000)));
}

#[test]
fn values_that_a_driver_does_not_report_are_absent() {
    let found = parse_station(&station(Encoder::default().u8(STA_INFO_SIGNAL, 0))).unwrap();
    let known = WifiNetwork { bssid: found.bssid, ..WifiNetwork::default() };
    assert!(found.bssid.is_some());
    assert_eq!(found, known);
    assert_eq!(parse_station(&[19, 1, 0]), None);
}

proptest! {
    /// Truncated or with any byte changed: absent or well-formed, never a panic.
    #[test]
    fn malformed_answers_do_not_panic(cut in 0usize..120, at in 0usize..120, byte: u8) {
        let rate = Encoder::default().bytes(RATE_INFO_BITRATE32, &[1, 2, 3, 4]);
        let rates = Encoder::default().nested(STA_INFO_TX_BITRATE, rate);
        for mut payload in [interface(IFTYPE_STATION, Some(b"name")), station(rates)] {
            if let Some(changed) = payload.get_mut(at) {
                *changed = byte;
            }
            payload.truncate(cut);
            let _ = WifiInterface::parse(&payload);
            let _ = parse_station(&payload);
        }
    }
}
