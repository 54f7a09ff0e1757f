//! The lines of `events.jsonl` from the notifications of kernels.

use crate::assembly_any_record::setting;
use pathbench_analysis::assembly::{Evidence, LinesSoFar, Notification, SeenEvent, WifiChange, WifiSighting};
use pathbench_record::event::{Event, EventKind, EventSource};
use pathbench_record::kernel_event::{Bssid, LinkChange, LinkEvent, MptcpEvent, WifiNetwork};
use pathbench_record::pattern::ThroughputParameters;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::{Transport, TransportLabel};
use serde_json::{Map, Value, json};

/// The event of a notification that `node` sent 2.5 ms after the origin.
fn event_of(node: &str, what: Notification) -> Event {
    let setting = setting(ThroughputParameters::default().into());
    let label = TransportLabel { transport: Transport::Mptcp, path: None };
    let mut evidence = Evidence::new("r".to_owned(), &setting, &label, 1);
    let at = Timestamp::from_nanos(3_500_000);
    evidence.notifications = vec![SeenEvent { at, node: node.to_owned(), what }];
    let mut events = LinesSoFar::from_evidence(&evidence, Timestamp::from_nanos(1_000_000)).events;
    assert_eq!(events.len(), 1);
    events.remove(0)
}

fn expected(source: EventSource, kind: EventKind, path: Option<&str>, detail: Map<String, Value>) -> Event {
    let (run, host, path) = ("r".to_owned(), "client".to_owned(), path.map(str::to_owned));
    Event { run, t_ms: 2.5, source, host, kind, path, due_ms: None, detail }
}

fn object(json: &Value) -> Map<String, Value> {
    json.as_object().unwrap().clone()
}

#[test]
fn an_event_of_an_interface_has_its_path_and_its_address_or_mtu() {
    for (change, kind, detail) in [
        (
            LinkChange::AddressRemoved("10.0.1.1/24".parse().unwrap()),
            EventKind::AddressRemoved,
            json!({ "address": "10.0.1.1/24" }),
        ),
        (
            LinkChange::AddressAdded("2001:db8::1/64".parse().unwrap()),
            EventKind::AddressAdded,
            json!({ "address": "2001:db8::1/64" }),
        ),
        (LinkChange::Mtu(1_400), EventKind::Mtu, json!({ "mtu_bytes": 1_400 })),
        (LinkChange::CarrierDown, EventKind::CarrierDown, json!({})),
    ] {
        let reported = LinkEvent { index: 3, name: Some("path1".to_owned()), change };
        let event = event_of("client", Notification::Link(reported));
        assert_eq!(event, expected(EventSource::Link, kind, Some("path1"), object(&detail)));
    }
    let elsewhere = LinkEvent { index: 3, name: Some("path1".to_owned()), change: LinkChange::Up };
    assert_eq!(event_of("router", Notification::Link(elsewhere)).path, None);
}

#[test]
fn an_event_of_wifi_has_the_network_and_rates_in_mbit_per_second() {
    let network = WifiNetwork {
        ssid: Some("home".to_owned()),
        bssid: Some(Bssid([2, 0, 0, 0, 0, 0x1a])),
        frequency_mhz: Some(5_180),
        signal_dbm: Some(-60),
        tx_bps: Some(866_700_000),
        rx_bps: None,
    };
    let detail = json!({
        "ssid": "home", "bssid": "02:00:00:00:00:1a", "frequency_mhz": 5_180, "signal_dbm": -60, "tx_mbps": 866.7,
    });
    for (change, source, kind) in [
        (WifiChange::Joined, EventSource::Link, EventKind::WifiJoined),
        (WifiChange::Moved, EventSource::Link, EventKind::WifiMoved),
        (WifiChange::Signal, EventSource::Observer, EventKind::WifiSignal),
    ] {
        let sighting = WifiSighting { interface: "path0".to_owned(), change, network: Some(network.clone()) };
        let event = event_of("client", Notification::Wifi(sighting));
        assert_eq!(event, expected(source, kind, Some("path0"), object(&detail)));
    }
    let left = WifiSighting { interface: "path0".to_owned(), change: WifiChange::Left, network: None };
    let event = event_of("client", Notification::Wifi(left));
    assert_eq!(event, expected(EventSource::Link, EventKind::WifiLeft, Some("path0"), Map::new()));
}

/// RFC 8684, section 3.6: reason 5 of `MP_TCPRST` is unacceptable performance, `error` is the kernel's `errno`.
#[test]
fn an_event_of_the_path_manager_has_its_addresses_and_the_reason_of_a_reset() {
    let reported = MptcpEvent {
        kind: EventKind::SubClosed,
        token: Some(0x00ab_cdef),
        local: Some(([10, 0, 1, 1], 50_000).into()),
        remote: Some(([10, 0, 9, 1], 4_433).into()),
        local_id: Some(1),
        backup: Some(true),
        error: Some(110),
        reset_reason: Some(5),
        interface_index: Some(3),
        ..MptcpEvent::default()
    };
    let event = event_of("client", Notification::Mptcp(reported));
    let detail = json!({
        "token": "00abcdef", "local": "10.0.1.1:50000", "remote": "10.0.9.1:4433", "local_id": 1, "backup": true,
        "error": 110, "reset_reason": 5, "interface_index": 3,
    });
    assert_eq!(event, expected(EventSource::Mptcp, EventKind::SubClosed, Some("path1"), object(&detail)));
}
