//! A generator of disguises: secrets in any spelling, anywhere in a result, of which the anonymous form holds nothing.

use pathbench_api::anonymise::{Anonymiser, REMOVED, Work};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::net::Ipv6Addr;

/// A spelling of a secret, and the parts of it that must be gone.
type Disguise = (String, Vec<String>);

fn wide(text: &str) -> String {
    let wide = |one: char| match one {
        '!'..='~' => char::from_u32(u32::from(one) + 0xfee0).unwrap(),
        other => other,
    };
    text.chars().map(wide).collect()
}

fn invisible(text: &str) -> String {
    text.chars().flat_map(|one| [one, '\u{200b}']).collect()
}

/// Every character that is no letter, or every one, percent-encoded.
fn percent_encoded(text: &str, whole: bool) -> String {
    let encoded = |one: char| match one {
        '!'..='~' if whole || !one.is_ascii_alphabetic() => format!("%{:02x}", u32::from(one)),
        other => other.to_string(),
    };
    text.chars().map(encoded).collect()
}

/// The text itself, in capitals, in full width, with characters that no reader sees, percent-encoded once and twice.
fn dressed(text: String, dress: u8) -> String {
    match dress % 7 {
        0 => text,
        1 => text.to_uppercase().replace("0X", "0x"),
        2 => wide(&text),
        3 => invisible(&text),
        4 => percent_encoded(&text, false),
        5 => percent_encoded(&text, true).to_uppercase(),
        _ => percent_encoded(&percent_encoded(&text, false), false),
    }
}

fn ipv4(octets: [u8; 4], spelling: u8) -> Disguise {
    let [a, b, c, d] = octets;
    let value = u32::from_be_bytes(octets);
    let (hidden, [c2, d2]) = (format!("{a}.{b}.{c}.{d}"), [c, d]);
    let text = match spelling % 13 {
        0 => hidden.clone(),
        1 => format!("{a}-{b}-{c}-{d}"),
        2 => format!("{a:03}.{b:03}.{c:03}.{d:03}"),
        3 => value.to_string(),
        4 => format!("0x{value:08x}"),
        5 => format!("0{value:o}"),
        6 => format!("0{a:03o}.0{b:03o}.0{c:03o}.0{d:03o}"),
        7 => format!("0x{a:02x}.0x{b:02x}.0x{c:02x}.0x{d:02x}"),
        8 => format!("0x{a:x}.{}", value & 0xff_ffff),
        9 => format!("::ffff:{hidden}"),
        10 => format!("2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1"),
        11 => format!("64:ff9b::{a:x}{b:02x}:{c:x}{d:02x}"),
        _ => format!("{d2}.{c2}.{b}.{a}.in-addr.arpa"),
    };
    (text.clone(), vec![text, hidden])
}

fn ipv6(segments: [u16; 8], spelling: u8) -> Disguise {
    let address = Ipv6Addr::from(segments);
    let groups = segments.map(|one| format!("{one:04x}"));
    let text = match spelling % 5 {
        0 => address.to_string(),
        1 => groups.join(":"),
        2 => groups.join("-"),
        3 => groups.concat(),
        _ => groups.concat().chars().rev().map(String::from).collect::<Vec<_>>().join(".") + ".ip6.arpa",
    };
    (text.clone(), vec![text, groups[4..].join(":"), groups[4..].concat(), address.to_string()])
}

fn link_layer(bytes: [u8; 6], spelling: u8) -> Disguise {
    let bytes = bytes.map(|byte| format!("{byte:02x}"));
    let by = |length: usize| bytes.chunks(length).map(<[String]>::concat).collect::<Vec<_>>();
    let text = match spelling % 11 {
        0 => by(1).join(":"),
        1 => by(1).join("-"),
        2 => by(1).join("."),
        3 => by(1).join(" "),
        4 => by(2).join("."),
        5 => by(2).join("-"),
        6 => by(3).join("-"),
        7 => by(6).concat(),
        8 => format!("0x{}", by(6).concat()),
        9 => by(1).join("_"),
        _ => format!("enx{}", by(6).concat()),
    };
    (text.clone(), vec![text, by(6).concat(), by(3)[1].clone()])
}

fn host(name: &str, spelling: u8) -> Disguise {
    let text = match spelling % 5 {
        0 => format!("{name}.fritz.box"),
        1 => format!("{name}.local"),
        2 => format!("{name}.dip0.isp.example"),
        3 => format!("/home/{name}/scenario.toml"),
        _ => format!("C:\\Users\\{name}\\x"),
    };
    (text.clone(), vec![text, name.to_owned()])
}

/// Secrets whose parts no anonymous form holds by chance: no octet of zero, nothing shared.
fn disguise() -> impl Strategy<Value = Disguise> {
    let octets =
        (16_u8..=223, 100_u8..=255, 100_u8..=255, 100_u8..=255).prop_map(|(a, b, c, d)| [a, b, c, d]);
    // Global addresses outside of 6to4 and Teredo.
    let segments = any::<[u16; 8]>().prop_map(|mut all| {
        all[0] = 0x2a00 | all[0] & 0xff;
        all.map(|one| one | 0x1000)
    });
    let bytes = any::<[u8; 6]>().prop_map(|all| all.map(|one| one | 0xa0));
    prop_oneof![
        (octets, any::<u8>()).prop_map(|(octets, spelling)| ipv4(octets, spelling)),
        (segments, any::<u8>()).prop_map(|(segments, spelling)| ipv6(segments, spelling)),
        (bytes, any::<u8>()).prop_map(|(bytes, spelling)| link_layer(bytes, spelling)),
        ("[g-z]{3}-[g-z]{5}", any::<u8>()).prop_map(|(name, spelling)| host(&name, spelling)),
    ]
}

const BESIDE: [&str; 8] = ["", " ", "(", "[", "=", "\"", ", ", "\n"];

/// A result with `text` at one of its places, and figures.
fn document(place: u8, text: &str) -> Value {
    let mut document = json!({
        "scenario": { "name": "test", "origin": "/home/anna/x.toml" },
        "runs": [{ "goodput_mbps": 93.25, "bytes": 3_221_225_991_u64, "paths": [{ "name": "wlan", "local": "-" }] }],
        "events": [{ "at_ms": 12.5, "detail": { "text": "-" } }],
        "notes": ["-"],
    });
    match place % 6 {
        0 => document["scenario"]["name"] = json!(text),
        1 => document["runs"][0]["paths"][0]["local"] = json!(text),
        2 => document["events"][0]["detail"]["text"] = json!(text),
        3 => document["notes"][0] = json!(text),
        4 => document["scenario"]["origin"] = json!(text),
        _ => document["events"][0]["detail"][text] = json!(1),
    }
    document
}

/// The anonymous form of the value, which is that of its text.
fn anonymous(mut document: Value) -> Value {
    let text = document.to_string();
    let (mut anonymiser, mut out) = (Anonymiser::default(), Vec::new());
    anonymiser.learn(&document);
    anonymiser.apply(&mut document);
    let mut of_text = Anonymiser::default();
    of_text.learn_json(text.as_bytes(), &mut Work::unlimited()).unwrap();
    of_text.copy_json(text.as_bytes(), &mut out, &mut Work::unlimited()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), document);
    document
}

/// Without full width, invisible characters, percent-encoding and capitals, as a reader would search.
fn searched(document: &Value) -> String {
    let narrow = |one: char| match one {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(one) - 0xfee0).unwrap(),
        other => other,
    };
    let text = document.to_string().replace('\u{200b}', "");
    let mut text = text.chars().map(narrow).collect::<String>().to_lowercase();
    // Twice encoded.
    for _ in 0..2 {
        for code in '!'..='~' {
            text = text.replace(&percent_encoded(&code.to_string(), true), &code.to_string());
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn nothing_of_a_disguise_is_left(
        (text, secrets) in disguise(), dress in any::<u8>(), place in any::<u8>(), left in 0..8_usize, right in 0..8_usize,
    ) {
        let text = format!("{}{}{}", BESIDE[left], dressed(text, dress), BESIDE[right]);
        let once = anonymous(document(place, &text));
        let found = searched(&once);
        for secret in secrets {
            prop_assert!(!found.contains(&secret.to_lowercase()), "{secret} of {text:?} in {once}");
        }
        prop_assert_eq!(&anonymous(once.clone()), &once, "of {:?}", text);
        prop_assert_eq!(&once["runs"][0]["goodput_mbps"], 93.25);
        prop_assert_eq!(&once["runs"][0]["bytes"], 3_221_225_991_u64);
        prop_assert_eq!(&once["events"][0]["at_ms"], 12.5);
    }

    #[test]
    fn a_learnt_name_is_found_in_any_case(name in "[g-zG-Z]{4,12}", dress in any::<u8>()) {
        let text = format!("no answer from {}", dressed(name.clone(), dress));
        let once = anonymous(json!({ "host": { "hostname": name }, "notes": [text] }));
        prop_assert!(!searched(&once).contains(&name.to_lowercase()), "{}", once);
    }
}

#[test]
fn no_digits_of_a_code_that_is_encoded_itself_are_taken_for_an_address() {
    let text = "3a001edabcdabdb01000100010001000";
    for times in 1..=4 {
        let encoded = (0..times).fold(text.to_owned(), |text, _| percent_encoded(&text, false));
        let once = anonymous(json!({ "notes": [encoded] }));
        assert_eq!(once, json!({ "notes": ["3a00:1eda:bcda::/48"] }), "{times}");
    }
}

#[test]
fn addresses_in_a_prefix_are_cut_further() {
    for (text, expected) in [
        ("2002:c000:207:1::1", "2002:c000:200::/40"),
        ("2001:0:c000:207:8000:63bf:3fff:fdd2", "2001::/32"),
        ("64:ff9b::192.0.2.7", "64:ff9b::/48"),
        ("::ffff:c000:207", "192.0.2.0/24"),
        ("http://3221225991/", "http://192.0.2.0/24/"),
        ("020000010", "020000010"),
    ] {
        assert_eq!(Anonymiser::default().text(text), expected, "{text}");
    }
}

#[test]
fn a_built_in_scenario_keeps_its_origin() {
    let document =
        json!({ "scenario": { "origin": "builtin", "text": "builtin" }, "user": null, "position": [1.5, 2] });
    let expected =
        json!({ "scenario": { "origin": "builtin", "text": "builtin" }, "user": null, "position": REMOVED });
    assert_eq!(anonymous(document), expected);
}

#[test]
fn texts_that_hold_no_secret_stay() {
    let mut anonymiser = Anonymiser::default();
    anonymiser
        .learn(&json!({ "servers": [{ "name": "nyc.example.net", "address": "nyc.example.net:4433" }] }));
    for text in [
        "6.18.5-amd64",
        "0.1.0",
        "net.ipv4.tcp_congestion_control",
        "net.mptcp.enabled",
        "run.json",
        "europe.example",
        "no answer from nyc.example.net",
        "sent 104857600 bytes",
        "2026-11-25T09:00:00Z",
        "01890a5d-ac96-774b-bcce-b302099a8057",
        "tcp@wlan",
        "throughput-download",
        "0x1f",
        "42.5% of 10",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ] {
        assert_eq!(anonymiser.text(text), text);
    }
}

/// Names with one long common beginning, as many and as long as an anonymiser accepts.
fn flood(names: usize) -> Anonymiser {
    let mut anonymiser = Anonymiser::default();
    (0..names).for_each(|index| anonymiser.learn_name(&format!("{}{index:04}", "ga".repeat(30))));
    assert!(!anonymiser.is_full());
    anonymiser
}

/// Texts that are the beginning of something everywhere.
const BEGINS: [&str; 6] = ["ga", "1:", "1.", "ab-", "a.", "/home/a"];

#[test]
fn the_work_of_the_anonymiser_is_linear_in_the_text_whatever_the_names_are() {
    for begin in BEGINS {
        let spent = |names: usize, bytes: usize| {
            let mut work = Work::with_limit(u64::MAX, &|| false);
            let _ = flood(names).text_within(&begin.repeat(bytes / begin.len()), &mut work);
            u64::MAX - work.left()
        };
        let (one, long, many) = (spent(1, 20_000), spent(1, 200_000), spent(1_000, 200_000));
        assert!(long <= 11 * one, "{begin}: {one} → {long}");
        assert!(many <= long + long / 10, "{begin}: {long} → {many} with 1,000 names");
        assert!(long <= 200_000 * 8 * 100, "{begin}: {long}");
    }
}

/// The counted work is the time: the same number of characters never takes much longer with more names.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures time")]
fn the_time_of_the_anonymiser_does_not_grow_with_the_names() {
    let text = "ga".repeat(50_000);
    let time = |anonymiser: &Anonymiser| {
        let _ = anonymiser.text("x");
        let once = || {
            let begun = std::time::Instant::now();
            let _ = anonymiser.text(&text);
            begun.elapsed()
        };
        (0..3).map(|_| once()).min().unwrap()
    };
    let (few, many) = (time(&flood(2)), time(&flood(1_000)));
    assert!(many < 10 * few, "{few:?} with 2 names, {many:?} with 1,000");
}

#[test]
fn work_ends_at_its_bound_and_when_it_is_cancelled_and_then_shows_nothing() {
    let text = "ga 192.0.2.7 ".repeat(10_000);
    let anonymiser = flood(10);
    let asked = std::cell::Cell::new(0);
    let cancelled = || {
        asked.set(asked.get() + 1);
        asked.get() > 1
    };
    for mut work in [Work::with_limit(50_000, &|| false), Work::with_limit(u64::MAX, &cancelled)] {
        assert_eq!(anonymiser.text_within(&text, &mut work), REMOVED);
        assert!(work.is_over());
        let mut rest = json!({ "a": "192.0.2.7" });
        anonymiser.apply_within(&mut rest, &mut work);
        assert_eq!(rest.to_string(), json!({ REMOVED: REMOVED }).to_string());
    }
}
