//! Names of hosts and home directories in texts.

use super::address::plain;
use super::prefix::REMOVED;
use super::work::Work;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// The longest name of a host (RFC 1035, section 2.3.4), with a port.
pub(super) const LONGEST: usize = 253 + 6;

/// Last labels of names that exist in a private network only (RFC 6762, appendix G; RFC 8375; routers of households).
const PRIVATE: [&str; 11] = [
    "local",
    "localdomain",
    "lan",
    "home",
    "internal",
    "intranet",
    "private",
    "corp",
    "box",
    "arpa",
    "localnet",
];

/// Directories below which each user has one.
const HOMES: [&str; 2] = ["home", "users"];

/// Sysctls are no hosts: `net.ipv4.tcp`.
const SYSCTLS: [&str; 5] = ["ipv4", "ipv6", "core", "mptcp", "netfilter"];

/// Names that identify no person, host or network, and that are part of the format of results.
const GENERIC: [&str; 22] = [
    "localhost",
    "client",
    "server",
    "root",
    "host",
    "test",
    "pathbench",
    "other",
    "local",
    "path",
    "tcp",
    "mptcp",
    "quic",
    "mpquic",
    "ping",
    "bulk",
    "wifi",
    "ethernet",
    "cellular",
    "emulated",
    "mobile",
    "stable",
];

/// Whether a name identifies nobody and is part of other texts, such as the names of fields.
pub fn is_generic(name: &str) -> bool {
    GENERIC.contains(&name)
}

/// `HOST` of `HOST:PORT`, where it is no IPv6 address.
pub fn host_part(server: &str) -> Option<&str> {
    server.split_once(':').filter(|(_, port)| !port.contains(':')).map(|(host, _)| host)
}

/// Whether the name of a server, with or without a port, is an address.
pub fn is_address(server: &str) -> bool {
    let is_ipv4 = host_part(server).unwrap_or(server).parse::<Ipv4Addr>().is_ok();
    is_ipv4 || server.starts_with('[') || server.matches(':').count() > 1
}

/// The name of a server without its port, in lower case.
pub(super) fn normal(name: &str) -> String {
    let with_port = name.rsplit_once(':').filter(|(_, port)| port.bytes().all(|one| one.is_ascii_digit()));
    let host = with_port.map_or(name, |(host, _)| host);
    host.chars().map(|one| plain(one).to_ascii_lowercase()).collect::<String>().trim_matches('.').to_owned()
}

/// `text` without names of hosts, other than `servers`, and without paths in home directories.
pub(super) fn removed(text: &str, servers: &BTreeSet<String>, work: &mut Work<'_>) -> String {
    if !text.contains(|one| matches!(plain(one), '.' | '/' | '\\')) {
        return text.to_owned();
    }
    let normal: Vec<(char, char)> = text.chars().map(|one| (one, plain(one).to_ascii_lowercase())).collect();
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    while from < normal.len() {
        let rest = &normal[from..];
        let (kept, removed) = found_at(rest, servers);
        if !work.spend(kept + removed) {
            return REMOVED.to_owned();
        }
        out.extend(rest[..kept].iter().map(|(one, _)| *one));
        if removed > 0 {
            out.push_str(REMOVED);
        }
        from += kept + removed;
    }
    out
}

/// Characters at the begin of `rest` that stay, and those behind them that go; at least one.
fn found_at(rest: &[(char, char)], servers: &BTreeSet<String>) -> (usize, usize) {
    if is_part(rest[0].1) {
        let length = rest.iter().take_while(|(_, one)| is_part(*one)).count();
        return if is_personal_host(&rest[..length], servers) { (0, length) } else { (length, 0) };
    }
    home_at(rest).unwrap_or((1, 0))
}

const fn is_part(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_')
}

fn is_personal_host(token: &[(char, char)], servers: &BTreeSet<String>) -> bool {
    if token.len() > LONGEST {
        return token.iter().any(|(_, one)| *one == '.');
    }
    let name: String = token.iter().map(|(_, one)| *one).collect();
    let name = name.trim_matches('.');
    let labels: Vec<&str> = name.split('.').collect();
    let Some(last) = labels.last().filter(|_| labels.len() >= 2) else { return false };
    if servers.contains(name) || labels.iter().any(|label| label.is_empty()) {
        return false;
    }
    if PRIVATE.contains(last) {
        return true;
    }
    let is_domain = last.len() >= 2 && last.bytes().all(|one| one.is_ascii_alphabetic());
    let is_sysctl = labels[0] == "net" && SYSCTLS.contains(&labels[1]);
    labels.len() >= 3 && (is_domain || last.starts_with("xn--")) && !is_sysctl && !name.contains('_')
}

/// `/home/` stays, and the rest of the path goes.
fn home_at(rest: &[(char, char)]) -> Option<(usize, usize)> {
    let is_slash = |index: usize| rest.get(index).is_some_and(|(_, one)| matches!(one, '/' | '\\'));
    let home = HOMES.iter().find(|home| {
        let length = home.len();
        is_slash(0) && is_slash(length + 1) && rest[1..=length].iter().map(|(_, one)| *one).eq(home.chars())
    })?;
    let kept = home.len() + 2;
    let is_end = |one: char| {
        one.is_whitespace() || matches!(one, '"' | '\'' | '`' | ':' | ',' | ';' | '(' | ')' | '<' | '>')
    };
    let removed = rest[kept..].iter().take_while(|(one, _)| !is_end(*one)).count();
    (removed > 0).then_some((kept, removed))
}
