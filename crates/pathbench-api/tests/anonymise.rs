//! The anonymous form of texts and documents.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use pathbench_api::anonymise::{Anonymiser, REMOVED, addresses};
use proptest::prelude::*;
use serde_json::json;
use std::net::{Ipv4Addr, Ipv6Addr};

pathbench_kerneltest::privilege_independent!();

#[test]
fn addresses_become_prefixes_wherever_they_are() {
    for (text, expected) in [
        ("192.0.2.7", "192.0.2.0/24"),
        ("192.0.2.7:4433 refused", "192.0.2.0/24:4433 refused"),
        ("from [2001:db8:1:2::7]:443", "from [2001:db8:1::/48]:443"),
        ("via 2001:db8::1, then 10.0.0.1.", "via 2001:db8::/48, then 10.0.0.0/24."),
        ("192.0.2.7/32 dev eth0", "192.0.2.0/24 dev eth0"),
        ("ip-192-0-2-7.example.net", "ip-192.0.2.0/24.example.net"),
        ("fe80::1%wlan0", "fe80::/48%wlan0"),
        ("::ffff:192.0.2.7", "192.0.2.0/24"),
        ("192.000.002.007", "192.0.2.0/24"),
        ("１９２.０.２.７", "192.0.2.0/24"),
        ("aa:bb:cc:dd:ee:ff", REMOVED),
        ("AA-BB-CC-DD-EE-FF left", "(removed) left"),
        ("a192.0.2.7", "a192.0.2.0/24"),
        // None of these is an address.
        ("6.18.5", "6.18.5"),
        ("12:30:59", "12:30:59"),
        ("1.2.3", "1.2.3"),
        ("300.1.1.1", "300.1.1.1"),
        ("std::net", "std::net"),
        ("2026-11-25T09:00:00Z", "2026-11-25T09:00:00Z"),
    ] {
        assert_eq!(addresses(text), expected, "{text}");
    }
}

#[test]
fn names_of_networks_go_from_every_text() {
    let mut document = json!({
        "events": [{ "detail": { "ssid": "Anna's home", "bssid": "aa:bb:cc:dd:ee:ff", "signal": -60 } }],
        "notes": ["wlan0 left Anna's home at 3 s, 192.0.2.7"],
        "paths": { "192.0.2.7": 1 },
    });
    let mut anonymiser = Anonymiser::default();
    anonymiser.learn(&document);
    anonymiser.apply(&mut document);
    let expected = json!({
        "events": [{ "detail": { "ssid": REMOVED, "bssid": REMOVED, "signal": -60 } }],
        "notes": ["wlan0 left (removed) at 3 s, 192.0.2.0/24"],
        "paths": { "192.0.2.0/24": 1 },
    });
    assert_eq!(document, expected);
}

proptest! {
    #[test]
    fn no_full_ipv4_address_is_left(
        octets in any::<[u8; 4]>(), before in "[ -~]{0,6}[ =,(\\[]", after in "([ ,)\\]:;][ -~]{0,6})?",
    ) {
        let address = Ipv4Addr::from(octets);
        let anonymous = addresses(&format!("{before}{address}{after}"));
        let network = Ipv4Addr::from([octets[0], octets[1], octets[2], 0]);
        let expected = format!("{network}/24");
        prop_assert!(anonymous.contains(&expected), "{} → {}", address, anonymous);
        prop_assert_eq!(&addresses(&anonymous), &anonymous);
    }

    #[test]
    fn no_full_ipv6_address_is_left(segments in any::<[u16; 8]>(), after in "([ ,)\\]%][ -~]{0,6})?") {
        let address = Ipv6Addr::from(segments);
        let anonymous = addresses(&format!("[{address}{after}"));
        prop_assert!(anonymous.contains("/48") || anonymous.contains("/24"), "{} → {}", address, anonymous);
        let whole = format!("{address}{after}");
        prop_assert!(!anonymous.contains(&whole) || address.segments()[3..] == [0; 5]);
        prop_assert_eq!(&addresses(&anonymous), &anonymous);
    }

    #[test]
    fn any_text_can_be_anonymised_twice(text in "\\PC{0,40}") {
        let once = addresses(&text);
        prop_assert_eq!(addresses(&once), once);
    }

    #[test]
    fn any_text_of_addresses_parts_can_be_anonymised_twice(text in "[0-9a-f:./-]{0,40}") {
        let once = addresses(&text);
        prop_assert_eq!(addresses(&once), once);
    }
}
