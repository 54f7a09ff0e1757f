//! Texts and documents with addresses and names: neither is left, and a second application changes nothing.

use super::input::Input;
use pathbench_api::anonymise::{Anonymiser, REMOVED};
use serde_json::json;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

const SEPARATORS: [&str; 24] = [
    "", " ", ":", "/", ".", "-", "]", "[", "%", "a", "g", "0", "/24", "/48", "::", "\n", "\u{200b}", "wlan0",
    "e", "=", ",", "std::", "ä", "１",
];

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut anonymiser = Anonymiser::default();
    let mut names = Vec::new();
    for _ in 0..input.below(4) {
        let length = input.below(12);
        let name = String::from_utf8_lossy(input.bytes(length)).into_owned();
        anonymiser.learn(&json!({ "ssid": name }));
        names.push(name);
    }
    let text = text(&mut input, &names);
    let once = anonymiser.text(&text);
    no_address(&once, &text);
    let mut document = json!({ "notes": [text], "ssid": names, (text.as_str()): 1 });
    anonymiser.apply(&mut document);
    for left in document["notes"][0]
        .as_str()
        .into_iter()
        .chain(document.as_object().expect("an object").keys().map(String::as_str))
    {
        no_address(left, &text);
    }
    // A network named `ssid` takes the key away.
    assert!(document.get("ssid").is_none_or(|value| value == REMOVED));
    if names.is_empty() {
        assert_eq!(anonymiser.text(&once), once, "{text:?}");
    }
    for name in names.iter().filter(|name| is_plain(name)) {
        assert!(!without_removed(&once).contains(name.as_str()), "{name:?} in {once:?} of {text:?}");
    }
    assert!(once.len() <= 24 * text.len() + 100, "{once:?}");
}

/// A name that no anonymous form holds a part of, and no character that is left out.
fn is_plain(name: &str) -> bool {
    name.chars().count() >= 3
        && name.chars().all(|one| matches!(one, 'h'..='z' | 'G'..='Z' | ' ' | '\''))
        && !REMOVED.contains(name)
}

fn without_removed(text: &str) -> String {
    text.replace(REMOVED, "\0")
}

fn text(input: &mut Input<'_>, names: &[String]) -> String {
    let mut text = String::new();
    while !input.is_empty() && text.len() < 400 {
        let kind = input.byte() % 8;
        let _ = match kind {
            0 => write!(text, "{}", v4(input)),
            1 => write!(text, "{}", v6(input)),
            2 => {
                let mac: [u8; 6] = std::array::from_fn(|_| input.byte());
                let separator = if input.byte().is_multiple_of(2) { ":" } else { "-" };
                text.write_str(&mac.map(|byte| format!("{byte:02x}")).join(separator))
            }
            3 => text.write_str(&v4(input).octets().map(|octet| octet.to_string()).join("-")),
            4 => {
                let length = input.below(8);
                text.write_str(&String::from_utf8_lossy(input.bytes(length)))
            }
            5 => text.write_str(names.get(input.below(4)).map_or("", String::as_str)),
            _ => text.write_str(SEPARATORS[input.below(SEPARATORS.len())]),
        };
        text.push_str(SEPARATORS[input.below(SEPARATORS.len())]);
    }
    text
}

fn v4(input: &mut Input<'_>) -> Ipv4Addr {
    Ipv4Addr::from(std::array::from_fn::<u8, 4, _>(|_| input.byte()))
}

fn v6(input: &mut Input<'_>) -> Ipv6Addr {
    Ipv6Addr::from(std::array::from_fn::<u16, 8, _>(|_| {
        if input.byte().is_multiple_of(2) { 0 } else { u16::from_le_bytes([input.byte(), input.byte()]) }
    }))
}

/// A search of its own for what is left: words of digits and dots with four octets, of hexadecimal digits and colons that
/// are an IPv6 address beyond /48.
fn no_address(anonymous: &str, text: &str) {
    let rest = without_prefixes(anonymous);
    let is_v4 = |one: char| one.is_ascii_digit() || one == '.';
    for (at, word) in words(&rest, is_v4) {
        let parts: Vec<&str> = word.split('.').collect();
        let octet = |part: &&str| (1..=3).contains(&part.len()) && part.parse::<u8>().is_ok();
        for (index, window) in parts.windows(4).enumerate() {
            let is_network =
                index + 4 == parts.len() && window[3] == "0" && rest[at + word.len()..].starts_with('\0');
            assert!(is_network || !window.iter().all(octet), "{window:?} in {anonymous:?} of {text:?}");
        }
    }
    let is_v6 = |one: char| one.is_ascii_hexdigit() || one == ':';
    for (at, word) in words(&rest, is_v6) {
        let is_alone = |one: Option<char>| one.is_none_or(|one| !one.is_alphanumeric() && one != '.');
        // `/24a0:…` continues a group.
        if !is_alone(rest[at + word.len()..].chars().next()) || rest[..at].ends_with('\0') {
            continue;
        }
        if let Ok(address) = word.parse::<Ipv6Addr>() {
            assert!(address.segments()[3..] == [0; 5], "{address} in {anonymous:?} of {text:?}");
        }
        let is_byte = |part: &str| part.len() == 2 && part != "::";
        let parts: Vec<&str> = word.split(':').collect();
        assert!(parts.len() != 6 || !parts.iter().all(|part| is_byte(part)), "{word} of {text:?}");
    }
}

/// `/24`, `/40` (of 6to4) and `/48` as one character, where they are not the begin of a longer number.
fn without_prefixes(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = ["/24", "/40", "/48"].iter().find_map(|prefix| rest.strip_prefix(prefix));
        if let Some(after) = after.filter(|after| !after.starts_with(|next: char| next.is_ascii_digit())) {
            out.push('\0');
            rest = after;
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

fn words(text: &str, is_part: impl Fn(char) -> bool + Copy) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut from = 0;
    while let Some(begin) = text[from..].find(is_part).map(|at| from + at) {
        let end = text[begin..].find(|one| !is_part(one)).map_or(text.len(), |at| begin + at);
        words.push((begin, &text[begin..end]));
        from = end;
    }
    words
}
