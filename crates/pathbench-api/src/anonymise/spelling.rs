//! Spellings of addresses without their usual separators: numbers, hexadecimal digits, UUIDs with a link-layer address.

use super::prefix::{REMOVED, prefix};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The longest token with an address: 32 hexadecimal digits, or a UUID.
const LONGEST: usize = 36;

/// The smallest address that a lone number spells, 1.0.0.0; smaller numbers are figures.
const SMALLEST_ADDRESS: u32 = 1 << 24;

/// Words behind a figure.
const UNITS: [&str; 16] = [
    "b", "bytes", "bits", "bit", "kib", "mib", "ns", "us", "ms", "s", "packets", "segments", "events",
    "times", "hz", "samples",
];

/// An address at the begin of `rest`, behind which a word ended: its length in characters, and its replacement. A UUID is
/// replaced by itself.
pub(super) fn found_at(rest: &[(char, char)]) -> Option<(usize, String)> {
    let token: String =
        rest.iter().map(|(_, one)| *one).take_while(char::is_ascii_alphanumeric).take(LONGEST).collect();
    if !token.starts_with(|one: char| one.is_ascii_hexdigit()) {
        return None;
    }
    let next = rest.get(token.len()).map(|(_, one)| *one);
    if matches!(next, Some('.' | ':' | '-' | '_' | ' '))
        && let Some(found) = grouped(rest)
    {
        return Some(found);
    }
    if next.is_some_and(|next| next.is_alphanumeric() || next == '.' && is_digit_at(rest, token.len() + 1)) {
        return None;
    }
    alone(&token, &rest[token.len()..]).map(|replacement| (token.len(), replacement))
}

fn is_digit_at(rest: &[(char, char)], index: usize) -> bool {
    rest.get(index).is_some_and(|(_, one)| one.is_ascii_digit())
}

/// A token without separators.
fn alone(token: &str, after: &[(char, char)]) -> Option<String> {
    let (digits, is_marked) = match token.strip_prefix("0x").or_else(|| token.strip_prefix("0X")) {
        Some(digits) => (digits, true),
        None => (token, false),
    };
    let is_hexadecimal = !digits.is_empty() && digits.bytes().all(|one| one.is_ascii_hexdigit());
    if !is_hexadecimal {
        return None;
    }
    let is_decimal = !is_marked && digits.bytes().all(|one| one.is_ascii_digit());
    match digits.len() {
        7 | 8 if is_marked => ipv4(u32::from_str_radix(digits, 16).ok()?),
        // As `inet_aton` reads it.
        9..=12 if is_decimal && digits.starts_with('0') => ipv4(u32::from_str_radix(digits, 8).ok()?),
        8..=10 if !is_marked && is_decimal && !has_unit(after) => ipv4(digits.parse().ok()?),
        12 => Some(REMOVED.to_owned()),
        16 if digits[6..10].eq_ignore_ascii_case("fffe") => Some(REMOVED.to_owned()),
        32 => {
            let address = Ipv6Addr::from(u128::from_str_radix(digits, 16).ok()?);
            // Global unicast, unique local, link-local: as in /proc/net/if_inet6. Others are digests.
            let is_unicast =
                matches!(address.segments()[0], 0x2000..=0x3fff | 0xfc00..=0xfdff | 0xfe80..=0xfebf);
            is_unicast.then(|| prefix(address.into()))
        }
        _ => None,
    }
}

fn ipv4(value: u32) -> Option<String> {
    (value >= SMALLEST_ADDRESS).then(|| prefix(Ipv4Addr::from(value).into()))
}

/// Whether a unit follows: `104857600 bytes`.
fn has_unit(after: &[(char, char)]) -> bool {
    let word: String = after
        .iter()
        .skip_while(|(_, one)| *one == ' ')
        .map(|(_, one)| one.to_ascii_lowercase())
        .take_while(char::is_ascii_alphanumeric)
        .take(9)
        .collect();
    UNITS.contains(&word.as_str())
}

/// Groups of digits between separators of one kind.
fn grouped(rest: &[(char, char)]) -> Option<(usize, String)> {
    let text: String = rest
        .iter()
        .take(LONGEST + 12)
        .map(|(_, one)| *one)
        .take_while(|one| one.is_ascii_alphanumeric() || matches!(one, '.' | ':' | '-' | '_' | ' '))
        .collect();
    if !text.is_ascii() {
        return None;
    }
    uuid(&text).or_else(|| link_layer(&text)).or_else(|| numbers(&text)).or_else(|| kernel_table(&text))
}

/// Whether no letter or digit follows the first `length` bytes.
fn ends_at(text: &str, length: usize) -> bool {
    text.as_bytes().get(length).is_none_or(|next| !next.is_ascii_alphanumeric())
}

/// A UUID stays, unless a link-layer address is in it (RFC 9562, sections 5.1, 5.2 and 5.6).
fn uuid(text: &str) -> Option<(usize, String)> {
    let uuid = text.get(..LONGEST).filter(|_| ends_at(text, LONGEST))?;
    let is_form = uuid.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    let has_address = matches!(uuid.as_bytes().get(14), Some(b'1' | b'2' | b'6'));
    is_form.then(|| (LONGEST, if has_address { REMOVED.to_owned() } else { uuid.to_owned() }))
}

/// Six or eight bytes: `aa.bb.cc.dd.ee.ff`, `aa bb cc dd ee ff`, `aabb-ccdd-eeff`, `aabbcc-ddeeff`, `a:b:c:d:e:f`.
fn link_layer(text: &str) -> Option<(usize, String)> {
    const FORMS: [(usize, usize); 6] = [(8, 2), (6, 2), (4, 4), (3, 4), (2, 6), (2, 8)];
    for separator in ['.', ':', '-', '_', ' '] {
        for (groups, digits) in FORMS {
            let length = groups * (digits + 1) - 1;
            let Some(candidate) = text.get(..length).filter(|_| ends_at(text, length)) else { continue };
            let is_group =
                |part: &str| part.len() == digits && part.bytes().all(|one| one.is_ascii_hexdigit());
            // Columns of numbers are no address, and groups of an IPv6 address go with it.
            let is_plain = separator == ' ' || digits > 2 && separator != '.';
            let has_letter = candidate.bytes().any(|one| one.is_ascii_alphabetic());
            let follows = text[length..].starts_with(separator) && separator != ' ' && separator != '.';
            if candidate.split(separator).all(is_group)
                && candidate.split(separator).count() == groups
                && (!is_plain || has_letter)
                && !follows
                && !(separator == ':' && digits > 2 && digits < 6)
            {
                return Some((length, REMOVED.to_owned()));
            }
        }
    }
    // Without leading zeros.
    let end = text.find(|one: char| !one.is_ascii_hexdigit() && one != ':').unwrap_or(text.len());
    let short = &text[..end];
    let is_byte = |part: &str| matches!(part.len(), 1 | 2);
    (short.split(':').count() == 6 && short.split(':').all(is_byte) && ends_at(text, end))
        .then(|| (end, REMOVED.to_owned()))
}

/// Up to four numbers between dots, of which one is octal or hexadecimal, as `inet_aton` reads them.
fn numbers(text: &str) -> Option<(usize, String)> {
    let end = text.find(|one: char| !one.is_ascii_alphanumeric() && one != '.').unwrap_or(text.len());
    let dotted = text[..end].trim_end_matches('.');
    let mut parts = Vec::new();
    let mut is_marked = false;
    for part in dotted.split('.') {
        let (digits, radix) = match part.strip_prefix("0x").or_else(|| part.strip_prefix("0X")) {
            Some(digits) => (digits, 16),
            None if part.len() > 3 && part.starts_with('0') => (part, 8),
            None => (part, 10),
        };
        is_marked |= radix != 10;
        parts.push(u32::from_str_radix(digits, radix).ok().filter(|_| part.len() <= 12)?);
    }
    let (last, first) = parts.split_last()?;
    if !is_marked || first.is_empty() || first.len() > 3 || first.iter().any(|part| *part > 255) {
        return None;
    }
    let value =
        first.iter().zip([24, 16, 8]).map(|(part, shift)| part << shift).fold(0, |all, part| all | part);
    Some((dotted.len(), prefix(Ipv4Addr::from(value | last).into())))
}

/// An address and a port in the byte order of the host, as in /proc/net/tcp: `070200C0:01BB`.
fn kernel_table(text: &str) -> Option<(usize, String)> {
    const FORMS: [usize; 2] = [8, 32];
    FORMS.into_iter().find_map(|digits| {
        let length = digits + 5;
        let candidate = text.get(..length).filter(|_| ends_at(text, length))?;
        let is_form = candidate
            .bytes()
            .enumerate()
            .all(|(index, byte)| if index == digits { byte == b':' } else { byte.is_ascii_hexdigit() });
        is_form.then(|| (length, REMOVED.to_owned()))
    })
}
