//! The anonymous form of a result: what everybody may read of it.
//!
//! It works on the text of every string, keys included, because addresses are not only in fields for addresses: events,
//! notes, error messages and traces hold them too. IPv4 addresses become their /24 and IPv6 addresses their /48; a
//! prefix may still identify a household, which `GET /v1/privacy` says. Names of Wi-Fi networks and link-layer addresses
//! go, wherever the same result repeats them. Applying it twice changes nothing more.

use crate::name::Name;
use crate::summary::Summary;
use pathbench_record::network::network;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const IPV4_PREFIX: u8 = 24;
const IPV6_PREFIX: u8 = 48;

/// Fields whose value identifies a person, a place or a device; it is removed, here and in every other text.
const PERSONAL: [&str; 14] = [
    "ssid",
    "bssid",
    "mac",
    "hostname",
    "host_name",
    "node",
    "latitude",
    "longitude",
    "position",
    "location",
    "imei",
    "imsi",
    "iccid",
    "user",
];

/// Replaces removed text.
pub const REMOVED: &str = "(removed)";

/// Shorter texts are removed from their field only: they are part of too many words.
const SHORTEST_REPEATED: usize = 3;

/// Anonymises the documents of one result. Names that one of them holds are removed from all.
#[derive(Debug, Clone, Default)]
pub struct Anonymiser {
    names: BTreeSet<String>,
}

impl Anonymiser {
    /// Collects the personal names in `value`. Do this for all documents of a result first.
    pub fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    match value {
                        Value::String(text) if is_personal(key) => self.learn_name(text),
                        other => self.learn(other),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            _ => {}
        }
    }

    pub fn learn_name(&mut self, name: &str) {
        if name.chars().count() >= SHORTEST_REPEATED && name != REMOVED {
            self.names.insert(name.to_owned());
        }
    }

    pub fn apply(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                let anonymous = self.text(text);
                *text = anonymous;
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Object(object) => {
                let fields = std::mem::take(object);
                *object =
                    fields.into_iter().map(|(key, value)| self.field(&key, value)).collect::<Map<_, _>>();
            }
            _ => {}
        }
    }

    fn field(&self, key: &str, mut value: Value) -> (String, Value) {
        if is_personal(key) && !value.is_null() {
            value = Value::String(REMOVED.to_owned());
        } else {
            self.apply(&mut value);
        }
        (self.text(key), value)
    }

    /// `text` without personal names and with prefixes instead of addresses.
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for name in &self.names {
            if text.contains(name.as_str()) {
                text = text.replace(name.as_str(), REMOVED);
            }
        }
        addresses(&text)
    }

    pub fn summary(&self, summary: &mut Summary) {
        let name = |name: &mut Name| {
            let anonymous = self.text(name.as_str());
            if anonymous != name.as_str() {
                *name = Name::nearest(&anonymous);
            }
        };
        for one in [&mut summary.scenario, &mut summary.version, &mut summary.kernel, &mut summary.machine] {
            name(one);
        }
        summary.server.iter_mut().chain(summary.experiment.iter_mut()).for_each(name);
        for network in &mut summary.networks {
            name(&mut network.path);
            network.operator.iter_mut().chain(network.prefix.iter_mut()).for_each(name);
        }
        for group in &mut summary.groups {
            name(&mut group.label);
            name(&mut group.pattern);
            group.variant.iter_mut().for_each(name);
            for map in [&mut group.figures, &mut group.shares] {
                let entries = std::mem::take(map).into_iter();
                *map = entries
                    .map(|(mut key, value)| {
                        name(&mut key);
                        (key, value)
                    })
                    .collect();
            }
        }
    }
}

fn is_personal(key: &str) -> bool {
    PERSONAL.iter().any(|personal| key.eq_ignore_ascii_case(personal))
}

/// Prefixes instead of all addresses in `text`, IP and link-layer.
///
/// Digits of other scripts count as digits: `１９２.０.２.７` is an address to a reader.
pub fn addresses(text: &str) -> String {
    let normal: Vec<(char, char)> = text.chars().map(|character| (character, plain(character))).collect();
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    while from < normal.len() {
        let before = from.checked_sub(1).map(|before| normal[before].1);
        let found = match before {
            Some(before) if before.is_ascii_digit() => None,
            // A letter can end a word before an IPv4 address: `a192.0.2.7`.
            Some(before) if before.is_ascii_hexdigit() => {
                found_at(&normal, from).filter(|(_, replacement)| !replacement.contains(':'))
            }
            _ => found_at(&normal, from),
        };
        if let Some((length, replacement)) = found {
            out.push_str(&replacement);
            from += length;
        } else {
            out.push(normal[from].0);
            from += 1;
        }
    }
    out
}

/// Full-width forms and other decimal digits as ASCII.
fn plain(character: char) -> char {
    match character {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(character) - 0xfee0).unwrap_or(character),
        '\u{3002}' | '\u{ff61}' => '.',
        '\u{0660}'..='\u{0669}' => digit(character, 0x0660),
        '\u{06f0}'..='\u{06f9}' => digit(character, 0x06f0),
        '\u{0966}'..='\u{096f}' => digit(character, 0x0966),
        _ => character,
    }
}

fn digit(character: char, zero: u32) -> char {
    char::from_digit(u32::from(character) - zero, 10).unwrap_or(character)
}

/// The longest address that begins at `from`: its length in characters, and what replaces it.
fn found_at(text: &[(char, char)], from: usize) -> Option<(usize, String)> {
    // An IPv6 address with an embedded IPv4 address has at most 45 characters.
    const LONGEST: usize = 45;
    let rest = &text[from..];
    if !rest.first().is_some_and(|(_, first)| first.is_ascii_hexdigit() || *first == ':') {
        return None;
    }
    let is_part = |&&(_, character): &&(char, char)| {
        character.is_ascii_hexdigit() || matches!(character, '.' | ':' | '-')
    };
    let length = rest.iter().take(LONGEST).take_while(is_part).count();
    let candidate: String = rest[..length].iter().map(|(_, character)| *character).collect();
    (2..=candidate.len()).rev().find_map(|length| {
        // What follows must not continue a number: 192.0.2.77 is not 192.0.2.7 and a digit.
        let next = rest.get(length).map(|(_, next)| *next);
        // And `d::` of `std::net` is no address.
        let is_word = candidate[..length].contains("::") && next.is_some_and(char::is_alphanumeric);
        if is_word || next.is_some_and(|next| next.is_ascii_hexdigit()) {
            return None;
        }
        let prefix = prefix_length(&rest[length..]);
        // `::` alone is no address of a host; `::/48` is the anonymous form of one.
        if &candidate[..length] == "::" && prefix == 0 {
            return None;
        }
        replacement(&candidate[..length]).map(|replacement| (length + prefix, replacement))
    })
}

/// The length of `/24` after an address: a prefix that is cut again stays as it is, and a longer one is cut.
fn prefix_length(rest: &[(char, char)]) -> usize {
    if rest.first().is_none_or(|(_, slash)| *slash != '/') {
        return 0;
    }
    let digits = rest[1..].iter().take_while(|(_, digit)| digit.is_ascii_digit()).count();
    if digits == 0 { 0 } else { digits + 1 }
}

fn replacement(text: &str) -> Option<String> {
    if let Some(address) = ipv4(text) {
        return Some(network(IpAddr::V4(address), IPV4_PREFIX, IPV6_PREFIX).to_string());
    }
    if text.matches(':').count() >= 2
        && let Ok(address) = text.parse::<Ipv6Addr>()
    {
        return Some(ipv6(address));
    }
    is_link_layer(text).then(|| REMOVED.to_owned())
}

/// An IPv4 address may hide in the last 32 bits (RFC 4291, section 2.5.5; RFC 6052).
fn ipv6(address: Ipv6Addr) -> String {
    network(IpAddr::V6(address), IPV4_PREFIX, IPV6_PREFIX).to_string()
}

/// Four decimal numbers between dots or hyphens (as in `ip-192-0-2-7`), leading zeros allowed.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let separator = if text.contains('.') { '.' } else { '-' };
    let mut octets = [0; 4];
    let mut parts = text.split(separator);
    for octet in &mut octets {
        let part = parts.next().filter(|part| (1..=3).contains(&part.len()))?;
        *octet = part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten()?;
    }
    parts.next().is_none().then(|| octets.into())
}

/// Six bytes in hexadecimal between colons or hyphens.
fn is_link_layer(text: &str) -> bool {
    let separator = if text.contains(':') { ':' } else { '-' };
    let is_byte = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split(separator).count() == 6 && text.split(separator).all(is_byte)
}
