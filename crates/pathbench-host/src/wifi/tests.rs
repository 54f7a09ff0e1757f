use super::*;
use proptest::prelude::*;

/// As `iw dev` shows it: an interface that is associated, with attributes among them that are not read.
fn interface(kind: u32, ssid: Option<&[u8]>) -> Vec<u8> {
    Encoder::after(&[7, 1, 0, 0])
        .u32(ATTR_IFINDEX, 3)
        .text(ATTR_IFNAME, "wlan0")
        .u32(1, 0)
        .u32(ATTR_IFTYPE, kind)
        .bytes(ATTR_MAC, &[2, 0, 0, 0, 0, 1])
        .u32(ATTR_WIPHY_FREQ, 5180)
        .with(ssid, |to, ssid| to.bytes(ATTR_SSID, ssid))
        .into_bytes()
}

/// As `iw dev wlan0 station dump` shows it.
fn station(information: Encoder) -> Vec<u8> {
    Encoder::after(&[19, 1, 0, 0])
        .u32(ATTR_IFINDEX, 3)
        .bytes(ATTR_MAC, &[0x00, 0x1a, 0x2b, 0x3c, 0x4d, 0x5e])
        .nested(ATTR_STA_INFO, information)
        .into_bytes()
}

#[test]
fn an_associated_interface_names_its_network() {
    let found = parse_interface(&interface(IFTYPE_STATION, Some("café-5G".as_bytes()))).unwrap();
    let network = found.network.unwrap();
    assert_eq!((found.index, found.name.as_str()), (3, "wlan0"));
    assert_eq!((network.ssid.as_deref(), network.frequency_mhz), (Some("café-5G"), Some(5180)));
}

#[test]
fn an_interface_without_a_network_is_not_associated() {
    assert_eq!(parse_interface(&interface(IFTYPE_STATION, None)).unwrap().network, None);
    assert_eq!(parse_interface(&interface(IFTYPE_STATION, Some(b""))).unwrap().network, None);
    // Names are bytes, whatever they mean.
    let odd = parse_interface(&interface(IFTYPE_P2P_CLIENT, Some(&[b'a', 0, 0xff]))).unwrap();
    assert_eq!(odd.network.unwrap().ssid.as_deref(), Some("a\0\u{fffd}"));
}

#[test]
fn access_points_and_monitors_join_no_network() {
    for kind in [3, 6] {
        assert_eq!(parse_interface(&interface(kind, Some(b"mine"))), None);
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
fn what_a_driver_does_not_report_is_absent() {
    let found = parse_station(&station(Encoder::default().u8(STA_INFO_SIGNAL, 0))).unwrap();
    let known = WifiNetwork { bssid: found.bssid, ..WifiNetwork::default() };
    assert!(found.bssid.is_some());
    assert_eq!(found, known);
    assert_eq!(parse_station(&[19, 1, 0]), None);
}

proptest! {
    #[test]
    fn any_bytes(payload: Vec<u8>) {
        let _ = parse_interface(&payload);
        let _ = parse_station(&payload);
    }

    /// Cut anywhere, and with any byte changed: absent or well-formed, never a panic.
    #[test]
    fn garbled_answers(cut in 0usize..120, at in 0usize..120, byte: u8) {
        let rate = Encoder::default().bytes(RATE_INFO_BITRATE32, &[1, 2, 3, 4]);
        let rates = Encoder::default().nested(STA_INFO_TX_BITRATE, rate);
        for mut payload in [interface(IFTYPE_STATION, Some(b"name")), station(rates)] {
            if let Some(changed) = payload.get_mut(at) {
                *changed = byte;
            }
            payload.truncate(cut);
            let _ = parse_interface(&payload);
            let _ = parse_station(&payload);
        }
    }
}
