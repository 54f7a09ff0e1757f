//! Addresses in texts: IPv4 and IPv6 become prefixes, link-layer addresses are removed, also from names of interfaces.

use super::prefix::{REMOVED, prefix};
use super::spelling;
use super::work::Work;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether an address, a name of a host or a path can be in `text`: most names are letters only.
pub(super) fn is_possible_in(text: &str) -> bool {
    /// The shortest address of letters and hyphens, `a--b-c-d`, has eight characters.
    const SHORTEST: usize = 6;
    let mut run = 0;
    !text.is_ascii()
        || text.bytes().any(|byte| {
            run = if matches!(byte, b'a'..=b'f' | b'A'..=b'F' | b'-' | b'_' | b' ') { run + 1 } else { 0 };
            run >= SHORTEST || matches!(byte, b'0'..=b'9' | b':' | b'.' | b'/' | b'\\')
        })
}

/// One pass over `text`; `number` tells the names of interfaces of one result apart.
pub(super) fn replaced(text: &str, number: impl Fn(&str) -> Option<usize>, work: &mut Work<'_>) -> String {
    let normal: Vec<(char, char)> = text.chars().map(|character| (character, plain(character))).collect();
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    while from < normal.len() {
        if let Some(name) = interface_at(&normal[from..]) {
            out.push_str(&name[..KIND]);
            out.push_str(REMOVED);
            out.extend(number(&name).map(|number| number.to_string()));
            from += name.len();
            continue;
        }
        let before = from.checked_sub(1).map(|before| normal[before].0);
        let is_begin = before.is_none_or(|before| !before.is_alphanumeric());
        let spelled = if is_begin { spelling::found_at(&normal[from..]) } else { None };
        let found = match before {
            _ if spelled.is_some() => spelled,
            Some(before) if before.is_ascii_digit() => None,
            // A letter can end a word before an IPv4 address: `a192.0.2.7`.
            before => {
                found_at(&normal[from..], before.is_some_and(|before| before.is_ascii_hexdigit()), work)
            }
        };
        if !work.spend(1) {
            return REMOVED.to_owned();
        }
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

/// Characters of `enx`.
const KIND: usize = 3;
/// A name with the six bytes of a link-layer address.
const INTERFACE: usize = KIND + 12;

/// Whether it is the name that systemd gives an interface by its link-layer address: `enx0a1b2c3d4e5f`
/// (systemd.net-naming-scheme(7)).
fn is_interface(name: &str) -> bool {
    name.len() == INTERFACE
        && ["enx", "ibx", "slx", "wlx", "wwx"].iter().any(|kind| name.starts_with(kind))
        && name[KIND..].bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn interface_at(rest: &[(char, char)]) -> Option<String> {
    if rest.len() < INTERFACE || !rest[KIND - 1].1.eq_ignore_ascii_case(&'x') {
        return None;
    }
    let name: String = rest[..INTERFACE].iter().map(|(_, one)| one.to_ascii_lowercase()).collect();
    is_interface(&name).then_some(name)
}

/// The names of interfaces with a link-layer address in `text`.
pub(super) fn interfaces(text: &str) -> impl Iterator<Item = String> {
    text.match_indices(['x', 'X']).filter_map(|(at, _)| {
        let begin = (at + 1).checked_sub(KIND)?;
        text.get(begin..begin + INTERFACE).map(str::to_ascii_lowercase).filter(|name| is_interface(name))
    })
}

/// Full-width forms and other decimal digits as ASCII.
pub(super) fn plain(character: char) -> char {
    match character {
        '\0'..='\u{7f}' => character,
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(character) - 0xfee0).unwrap_or(character),
        '\u{3002}' | '\u{ff61}' | '\u{2024}' => '.',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2236}' | '\u{a789}' => ':',
        '\u{1d7ce}'..='\u{1d7ff}' => digit((u32::from(character) - 0x1d7ce) % 10),
        _ => {
            // The first digit of scripts with decimal digits (general category Nd).
            const ZEROS: [u32; 14] = [
                0x0660, 0x06f0, 0x07c0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6,
                0x0d66, 0x0e50, 0x0ed0,
            ];
            let code = u32::from(character);
            ZEROS
                .iter()
                .find(|zero| (**zero..**zero + 10).contains(&code))
                .map_or(character, |zero| digit(code - zero))
        }
    }
}

fn digit(value: u32) -> char {
    char::from_digit(value, 10).unwrap_or('0')
}

/// A part of the text that can be an address, and the number of each separator in it.
#[derive(Debug, Clone, Copy, Default)]
struct Shape {
    colons: usize,
    dots: usize,
    hyphens: usize,
    has_gap: bool,
}

/// The longest address at the begin of `rest`: its length in characters, and what replaces it.
fn found_at(rest: &[(char, char)], is_after_letter: bool, work: &mut Work<'_>) -> Option<(usize, String)> {
    // The nibbles of an IPv6 address in the reverse zone of the DNS, with dots (RFC 3596, section 2.5).
    const LONGEST: usize = 63;
    // With `::` at an end. More separators, also of an embedded IPv4 address, are none of an address.
    const MOST_SEPARATORS: usize = 8;
    if !rest.first().is_some_and(|(_, first)| first.is_ascii_hexdigit() || *first == ':') {
        return None;
    }
    let (mut candidate, mut shape, mut ends) = (String::new(), Shape::default(), Vec::new());
    for (index, (_, character)) in rest.iter().take(LONGEST).enumerate() {
        match character {
            ':' => shape.colons += 1,
            '.' => shape.dots += 1,
            '-' => shape.hyphens += 1,
            _ if character.is_ascii_hexdigit() => {}
            _ => break,
        }
        shape.has_gap |= candidate.ends_with(*character) && matches!(character, ':' | '-');
        candidate.push(*character);
        let is_address =
            shape.colons.max(shape.hyphens) <= MOST_SEPARATORS && (shape.colons == 0 || shape.dots <= 3);
        if !is_address {
            break;
        }
        let next = rest.get(index + 1).map(|(next, _)| *next);
        if may_end(candidate.len(), shape, next) {
            ends.push((candidate.len(), shape));
        }
    }
    work.spend(candidate.len());
    ends.into_iter().rev().find_map(|(length, shape)| {
        work.spend(length);
        let next = rest.get(length).map(|(next, _)| *next);
        let text = &candidate[..length];
        let replacement = replacement(text, shape, next, is_after_letter)?;
        let zone = if shape.colons >= 2 { zone_length(&rest[length..]) } else { 0 };
        let prefix = zone + prefix_length(&rest[length + zone..], &replacement);
        // `::` alone is no address of a host; `::/48` is the anonymous form of one.
        (text != "::" || prefix > 0).then_some((length + prefix, replacement))
    })
}

/// Whether an address of `length` characters can have this shape and end before `next`. 192.0.2.77 is not 192.0.2.7 and a
/// digit.
fn may_end(length: usize, shape: Shape, next: Option<char>) -> bool {
    let Shape { colons, dots, hyphens, has_gap } = shape;
    let is_ipv4 = colons == 0 && dots.max(hyphens) == 3 && length <= 15;
    let is_ipv6 = colons == 7 || (colons == 6 && dots == 3) || (colons >= 2 && has_gap);
    let is_hyphenated = colons + dots == 0 && (hyphens == 7 || (hyphens >= 4 && has_gap));
    let is_link_layer =
        matches!((length, colons.max(hyphens)), (17, 5) | (23, 7)) || (length == 14 && dots == 2);
    let is_reverse = length >= 23 && dots * 2 + 1 == length;
    match next {
        Some(next) if next.is_ascii_digit() => false,
        // `192.0.2.7dev`
        Some(next) if next.is_ascii_hexdigit() => is_ipv4,
        _ => is_ipv4 || is_ipv6 || is_hyphenated || is_link_layer || is_reverse,
    }
}

/// Whether an IPv6 address ends `text`.
pub(super) fn ends_with_ipv6(text: &[char]) -> bool {
    const LONGEST: usize = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255".len();
    let end: String = text[text.len().saturating_sub(LONGEST)..].iter().map(|one| plain(*one)).collect();
    end.char_indices().any(|(from, _)| end[from..].parse::<Ipv6Addr>().is_ok())
}

/// The length of a zone's number in `%30` after an address, which can be read as an encoded digit.
fn zone_length(rest: &[(char, char)]) -> usize {
    if rest.first().is_none_or(|(_, percent)| *percent != '%') {
        return 0;
    }
    let digits = rest[1..].iter().take_while(|(_, one)| one.is_ascii_hexdigit()).count();
    if digits >= 2 { 1 + digits } else { 0 }
}

/// The length of `/24` after an address: a prefix that is cut again stays as it is, and a longer one is cut.
fn prefix_length(rest: &[(char, char)], replacement: &str) -> usize {
    if rest.first().is_none_or(|(_, slash)| *slash != '/') {
        return 0;
    }
    let digits: String = rest[1..].iter().map(|(digit, _)| *digit).take_while(char::is_ascii_digit).collect();
    let is_own = replacement.rsplit_once('/').is_some_and(|(_, own)| own == digits);
    let next = rest.get(digits.len() + 1).map(|(next, _)| *next);
    // A netmask or another address follows.
    let is_other = next.is_some_and(|next| next.is_ascii_hexdigit() || matches!(next, '.' | ':' | '-'));
    if is_own || ((1..=3).contains(&digits.len()) && !is_other) { digits.len() + 1 } else { 0 }
}

fn replacement(text: &str, shape: Shape, next: Option<char>, is_after_letter: bool) -> Option<String> {
    if let Some(address) = ipv4(text) {
        return Some(prefix(address.into()));
    }
    if is_after_letter || next.is_some_and(|next| next.is_ascii_hexdigit()) {
        return None;
    }
    // `d::` of `std::net` is no address.
    let is_word = shape.colons < 3 && next.is_some_and(char::is_alphanumeric);
    if shape.colons >= 2
        && !is_word
        && let Ok(address) = text.parse::<Ipv6Addr>()
    {
        return Some(prefix(address.into()));
    }
    if is_link_layer(text) || is_reverse(text) {
        return Some(REMOVED.to_owned());
    }
    // As in `2001-db8-1-2--3.ipv6-literal.net`.
    if shape.hyphens >= 4
        && shape.colons == 0
        && let Ok(address) = text.replace('-', ":").parse::<Ipv6Addr>()
    {
        return Some(prefix(address.into()));
    }
    None
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

/// Six or eight bytes in hexadecimal between colons or hyphens, or three groups of two bytes between dots.
fn is_link_layer(text: &str) -> bool {
    let (separator, digits) = match () {
        () if text.contains(':') => (':', 2),
        () if text.contains('-') => ('-', 2),
        () => ('.', 4),
    };
    let is_group = |part: &str| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let groups = text.split(separator).count();
    (matches!(groups, 6 | 8) == (digits == 2))
        && (digits == 2 || groups == 3)
        && text.split(separator).all(is_group)
}

/// At least 12 nibbles between dots.
fn is_reverse(text: &str) -> bool {
    let is_nibble = |part: &str| part.len() == 1 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.len() >= 23 && text.split('.').all(is_nibble)
}
