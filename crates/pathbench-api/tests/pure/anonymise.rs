//! The anonymous form of texts and documents.

use pathbench_api::anonymise::{Anonymiser, REMOVED, Work, addresses};
use proptest::prelude::*;
use serde_json::json;
use std::net::{Ipv4Addr, Ipv6Addr};

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
        ("tcp@enx0a1b2c3d4e5f", "tcp@enx(removed)"),
        ("no route from wlx0A1B2C3D4E5F, wwx0a1b2c3d4e5f", "no route from wlx(removed), wwx(removed)"),
        ("enp3s0f0 enx0a1b2c", "enp3s0f0 enx0a1b2c"),
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

#[test]
fn interfaces_that_are_named_by_their_address_stay_distinct() {
    let (first, second) = ("enx0a1b2c3d4e5f", "enx0a1b2c3d4e60");
    let mut document = json!({ "paths": { (second): 2, (first): 1 }, "label": format!("tcp@{second}") });
    let mut anonymiser = Anonymiser::default();
    anonymiser.learn(&document);
    anonymiser.apply(&mut document);
    let expected =
        json!({ "paths": { "enx(removed)": 1, "enx(removed)2": 2 }, "label": "tcp@enx(removed)2" });
    assert_eq!(document, expected);
    let mut again = Anonymiser::default();
    again.learn(&document);
    again.apply(&mut document);
    assert_eq!(document, expected, "the collector applies it again");
}

/// Regression: a prefix and what is beside it were read as another address when the collector replaced it again.
#[test]
fn a_prefix_that_joins_the_text_beside_it_stays_as_it_is() {
    for (text, expected) in [
        ("0.0-0-0-0a", "0.0.0.0/24.0/24a"),
        ("0::::00::", "::/48::/48::/48"),
        ("7:2001-db8-1-2--3", "7:2001:db8::/48"),
        ("node-192-0-2-7", "node-192.0.2.0/24"),
    ] {
        assert_eq!(addresses(text), expected);
        assert_eq!(addresses(expected), expected);
    }
}

/// Regression: `%30` was decoded, and `10000` is no group of an address.
#[test]
fn a_zone_that_reads_as_an_encoded_digit_hides_no_address() {
    for (text, expected) in [
        ("[2001:db8:7:1::1000%30", "[2001:db8:7::/48"),
        ("from fe80::1234%41/64", "from fe80::/48"),
        ("to 2001:db8:7:1::1000%2530]:80", "to 2001:db8:7::/48]:80"),
        ("at:fe80::1234%eth0", "at:fe80::/48%eth0"),
        ("2001:db8:7:1::%31000", "2001:db8:7::/48"),
        ("2001:db8:7:1::100%30", "2001:db8:7::/48"),
        ("%2%35::1000%30", "%::/48"),
    ] {
        assert_eq!(addresses(text), expected);
        assert_eq!(addresses(expected), expected);
    }
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
    fn no_full_ipv6_address_is_left(segments in any::<[u16; 8]>(), after in "([ ,)\\]%][ -~]{0,6}|%[3-6][0-9a-f][ -~]{0,6})?") {
        let address = Ipv6Addr::from(segments);
        let anonymous = addresses(&format!("[{address}{after}"));
        // 6to4, Teredo, and others; /24 of an IPv4-mapped one.
        let length = match address.segments() {
            [0x2002, ..] => "/40",
            [0x2001, 0, ..] => "/32",
            _ => "/48",
        };
        prop_assert!(anonymous.contains(length) || anonymous.contains("/24"), "{} → {}", address, anonymous);
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

#[test]
fn an_address_before_a_word_is_found() {
    for (text, expected) in [
        ("192.0.2.7dev eth0", "192.0.2.0/24dev eth0"),
        ("192.0.2.7eth0", "192.0.2.0/24eth0"),
        ("2001:db8:1:2::3wlan0", "2001:db8:1::/48wlan0"),
    ] {
        assert_eq!(addresses(text), expected, "{text}");
    }
}

#[test]
fn addresses_in_other_spellings_are_found() {
    for (text, expected) in [
        ("aabb.ccdd.eeff", REMOVED),
        ("aa-bb-cc-dd-ee-ff-00-11", REMOVED),
        // RFC 4291, section 2.2, form 3.
        ("2001:db8:1:2:3:4:192.0.2.7", "2001:db8:1::/48"),
        ("2001:db8:1:2:3:4:5:7", "2001:db8:1::/48"),
        ("2001-db8-1-2-3-4-5-7.ipv6-literal.net", "2001:db8:1::/48.ipv6-literal.net"),
        ("2001-db8-1-2--3.ipv6-literal.net", "2001:db8:1::/48.ipv6-literal.net"),
        ("3.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.0.0.0.1.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", "(removed).ip6.arpa"),
        ("𝟏𝟗𝟐.0.2.𝟕", "192.0.2.0/24"),
        ("192‐0‐2‐7", "192.0.2.0/24"),
        ("192。0｡2․7", "192.0.2.0/24"),
        ("2001∶db8∶1∶2꞉꞉3", "2001:db8:1::/48"),
        ("٢.٠.2.٩", "2.0.2.0/24"),
        ("192.0.2.7/255.255.255.0", "192.0.2.0/24/255.255.255.0/24"),
    ] {
        assert_eq!(addresses(text), expected, "{text}");
    }
    assert_eq!(Anonymiser::default().text("192.0.2.\u{200b}7"), "192.0.2.0/24");
}

#[test]
fn the_longest_of_several_names_goes_as_a_whole() {
    let mut anonymiser = Anonymiser::default();
    anonymiser.learn(&json!({ "ssid": "Anna", "more": { "SSID": ["Anna's home", { "name": "Attic" }] }, "imsi": 262_011_234_567_890_u64 }));
    assert_eq!(
        anonymiser.text("left Anna's home for Attic, 262011234567890"),
        "left (removed) for (removed), (removed)"
    );
}

#[test]
fn names_that_are_part_of_anonymous_forms_do_not_make_texts_grow() {
    let mut anonymiser = Anonymiser::default();
    for name in ["/24", "mov", "(removed) x", "2.0", "::/48"] {
        anonymiser.learn_name(name);
    }
    for text in ["192.0.2.7", "(removed) x", "2001:db8:1:2::3", "172.16.2.7", "mov"] {
        let once = anonymiser.text(text);
        assert_eq!(anonymiser.text(&once), once, "{text}");
    }
}

#[test]
fn a_name_that_is_part_of_an_anonymous_form_does_not_change_it() {
    for (name, text, expected) in [
        ("/24", "192.0.2.7", "192.0.2.0/24"),
        ("::/48", "2001:db8:1:2::3", "2001:db8:1::/48"),
        ("mov", "wlan0 moved", "wlan0 moved"),
        // One character less than a name that goes from every text.
        ("ab", "cable", "cable"),
        ("abl", "cable", "c(removed)e"),
    ] {
        let mut anonymiser = Anonymiser::default();
        anonymiser.learn_name(name);
        assert_eq!(anonymiser.text(text), expected, "{name}");
    }
}

#[test]
fn a_flood_of_names_is_noticed_and_costs_little() {
    let mut anonymiser = Anonymiser::default();
    let names: Vec<_> = (0..200_000).map(|index| json!({ "ssid": format!("net-{index}") })).collect();
    anonymiser.learn(&json!(names));
    assert!(anonymiser.is_full());
    #[expect(clippy::disallowed_methods, reason = "the test measures time")]
    let begin = std::time::Instant::now();
    for text in ["net-199999 ".repeat(10_000), "1:".repeat(50_000), "1.".repeat(50_000)] {
        let _ = anonymiser.text(&text);
    }
    assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn hidden_names_go_as_words_and_leave_the_format() {
    let mut anonymiser = Anonymiser::with_public_servers(["nyc.example:4433".to_owned()]);
    anonymiser.hide("lab");
    anonymiser.hide("lab one");
    anonymiser.hide("Zwergnetz");
    // Parts of the format, and the anonymous form itself.
    for name in ["server", "tcp", "removed", "192.0.2.7:4433", ""] {
        anonymiser.hide(name);
    }
    anonymiser.learn(&json!({ "servers": [
        { "name": "nyc.example" },
        { "name": "keller", "address": "keller.example.net:4433" },
        { "name": "local", "address": "203.0.113.9:1" },
    ] }));
    for (text, expected) in [
        ("the lab, LAB and lab one", "the (removed), (removed) and (removed)"),
        ("label, slab, lab_1 and lab onerous", "label, slab, lab_1 and (removed) onerous"),
        ("ＺＷＥＲＧＮＥＴＺ-2", "(removed)-2"),
        ("netz小zwergnetz網", "netz小(removed)網"),
        ("tcp to nyc.example, not keller.example.net:4433", "tcp to nyc.example, not (removed):4433"),
        ("keller of the local server (removed)", "(removed) of the local server (removed)"),
        ("203.0.113.9", "203.0.113.0/24"),
    ] {
        assert_eq!(anonymiser.text(text), expected);
        assert_eq!(anonymiser.text(expected), expected, "again");
    }
    assert!(!anonymiser.is_full());
}

/// Names that begin in each other at every character, and a text that is one of them: within the bound of the work.
#[test]
fn hidden_names_cost_no_more_than_the_work() {
    let mut anonymiser = Anonymiser::default();
    for length in 2..64 {
        anonymiser.hide(&"a ".repeat(length));
    }
    let mut work = Work::with_limit(1 << 20, &|| false);
    let text = "a ".repeat(200 << 10);
    assert_eq!(anonymiser.text_within(&text, &mut work), REMOVED);
    assert!(work.is_over());
    assert!(anonymiser.text("a a a b").starts_with(REMOVED));
}
