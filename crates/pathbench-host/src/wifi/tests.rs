use super::*;
use proptest::prelude::*;

/// An attribute as it lies in a message: length, kind, value, padding to four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// As `iw dev` shows it: an interface that is associated, with attributes among them that nobody here reads.
fn interface(kind: u32, ssid: Option<&[u8]>) -> Vec<u8> {
    let mut payload = vec![7, 1, 0, 0];
    payload.extend(attribute(ATTR_IFINDEX, &3u32.to_ne_bytes()));
    payload.extend(attribute(ATTR_IFNAME, b"wlan0\0"));
    payload.extend(attribute(1, &0u32.to_ne_bytes()));
    payload.extend(attribute(ATTR_IFTYPE, &kind.to_ne_bytes()));
    payload.extend(attribute(ATTR_MAC, &[2, 0, 0, 0, 0, 1]));
    payload.extend(attribute(ATTR_WIPHY_FREQ, &5180u32.to_ne_bytes()));
    payload.extend(ssid.map(|ssid| attribute(ATTR_SSID, ssid)).unwrap_or_default());
    payload
}

/// As `iw dev wlan0 station dump` shows it.
fn station(information: &[Vec<u8>]) -> Vec<u8> {
    let mut payload = vec![19, 1, 0, 0];
    payload.extend(attribute(ATTR_IFINDEX, &3u32.to_ne_bytes()));
    payload.extend(attribute(ATTR_MAC, &[0x00, 0x1a, 0x2b, 0x3c, 0x4d, 0x5e]));
    payload.extend(attribute(ATTR_STA_INFO, &information.concat()));
    payload
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
fn a_station_tells_signal_and_rates() {
    let found = parse_station(&station(&[
        attribute(STA_INFO_SIGNAL, &[(-71i8).cast_unsigned()]),
        attribute(STA_INFO_SIGNAL_AVG, &[(-67i8).cast_unsigned()]),
        attribute(STA_INFO_TX_BITRATE, &attribute(RATE_INFO_BITRATE, &866u16.to_ne_bytes())),
        attribute(
            STA_INFO_RX_BITRATE,
            &[
                attribute(RATE_INFO_BITRATE, &[0, 0]),
                attribute(RATE_INFO_BITRATE32, &96_078u32.to_ne_bytes()),
            ]
            .concat(),
        ),
    ]))
    .unwrap();
    assert_eq!(found.bssid.unwrap().to_string(), "00:1a:2b:3c:4d:5e");
    assert_eq!(found.signal_dbm, Some(-67));
    assert_eq!((found.tx_bps, found.rx_bps), (Some(86_600_000), Some(9_607_800_000)));
}

#[test]
fn what_a_driver_does_not_tell_is_absent() {
    let found = parse_station(&station(&[attribute(STA_INFO_SIGNAL, &[0])])).unwrap();
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
        let rates = attribute(STA_INFO_TX_BITRATE, &attribute(RATE_INFO_BITRATE32, &[1, 2, 3, 4]));
        for mut payload in [interface(IFTYPE_STATION, Some(b"name")), station(&[rates])] {
            if let Some(changed) = payload.get_mut(at) {
                *changed = byte;
            }
            payload.truncate(cut);
            let _ = parse_interface(&payload);
            let _ = parse_station(&payload);
        }
    }
}
