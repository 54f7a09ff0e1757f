//! The keys of every table, as documented in `docs/scenarios.md`.

use pathbench_link::{Kind, PARAMETERS};

pub(super) const SCENARIO: [&str; 9] =
    ["name", "description", "path", "link", "host", "router", "event", "run", "expect"];
pub(super) const MATRIX: &str = "matrix";
const LINK_KEYS: [&str; 6] = ["backup", "weight", "engine", "tolerance", "capture", "preset"];
pub(super) const HOP: [&str; 3] = ["path_mtu", "icmp", "clamp_mss"];
/// Keys of a router's rules.
pub(super) const RULES: [&str; 2] = ["icmp", "clamp_mss"];

pub(super) fn direction() -> Vec<&'static str> {
    PARAMETERS.iter().filter(|parameter| !parameter.of_link).map(|parameter| parameter.key).collect()
}

/// Link parameters, and what else a path and a link have in common.
fn parameters() -> impl Iterator<Item = &'static str> {
    PARAMETERS.iter().map(|parameter| parameter.key).chain(LINK_KEYS)
}

pub(super) fn path() -> Vec<&'static str> {
    let own = ["upload", "download", "client_address", "server_address"];
    ["name"].into_iter().chain(parameters()).chain(own).chain(HOP).collect()
}

pub(super) fn link() -> Vec<&'static str> {
    ["name", "ends"].into_iter().chain(parameters()).chain(["forward", "reverse"]).collect()
}

pub(super) const END: [&str; 3] = ["node", "interface", "address"];
pub(super) const HOST: [&str; 4] = ["name", "sysctl", "mptcp", "routes"];
pub(super) const ROUTER: [&str; 5] = ["name", "sysctl", "routes", "icmp", "clamp_mss"];
pub(super) const MPTCP: [&str; 3] = ["subflows", "add_addr_accepted", "endpoints"];
pub(super) const ENDPOINT: [&str; 4] = ["path", "link", "address", "flags"];
pub(super) const ROUTE: [&str; 2] = ["to", "via"];
pub(super) fn event() -> Vec<&'static str> {
    let own = ["at", "path", "link", "host", "action", "direction"];
    own.into_iter().chain(change()).chain(FADE).chain(["to"]).collect()
}

/// Keys of an event that only `action = "set"` takes.
pub(crate) fn change() -> Vec<&'static str> {
    PARAMETERS.iter().map(|parameter| parameter.key).chain(HOP).collect()
}

/// Those of an event that only `action = "fade"` takes, beside `to`.
pub(crate) const FADE: [&str; 5] = ["duration", "from_m", "to_m", "speed_mps", "exponent"];
pub(crate) const FADE_TO: [&str; 3] = ["rate", "loss", "delay"];
pub(super) const RUN: [&str; 19] = [
    "transports",
    "pattern",
    "duration",
    "repeat",
    "seed",
    "sample_interval",
    "lateness_tolerance",
    "packet_sizes",
    "client",
    "server",
    "family",
    "tls",
    "congestion",
    "patience",
    "ping",
    "bulk",
    "iperf",
    "interactive",
    "quic",
];
pub(super) const PING: [&str; 6] = ["count", "warm_up", "interval", "request", "response", "timeout"];
pub(super) const BULK: [&str; 3] = ["bytes", "upload", "streams"];
pub(super) const INTERACTIVE: [&str; 4] = ["interval", "request", "response", "linger"];
pub(super) const QUIC: [&str; 7] =
    ["scheduler", "srtt_above", "rto_above", "heartbeat", "silence", "congestion", "qlog"];
pub(super) const IPERF: [&str; 10] = [
    "direction",
    "streams",
    "bytes",
    "rate",
    "omit",
    "congestion",
    "send_buffer",
    "receive_buffer",
    "block",
    "patience",
];
pub(super) const EXPECT: [&str; 2] = ["is", "when"];

/// Every table of a scenario file with the keys that it may have; sysctls, matrix and expectations aside, whose
/// keys are names of other things. The tables are named as in `docs/scenarios.md`.
pub fn known_keys() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut scenario = SCENARIO.to_vec();
    scenario.push(MATRIX);
    let tables = PARAMETERS.iter().filter_map(|parameter| match parameter.kind {
        Kind::Table(fields) => Some((parameter.key, fields.iter().map(|field| field.key).collect())),
        _ => None,
    });
    let mut known = vec![
        ("scenario", scenario),
        ("path", path()),
        ("upload, download, forward, reverse", direction()),
        ("link", link()),
        ("end", END.to_vec()),
        ("host", HOST.to_vec()),
        ("router", ROUTER.to_vec()),
        ("mptcp", MPTCP.to_vec()),
        ("endpoint", ENDPOINT.to_vec()),
        ("route", ROUTE.to_vec()),
        ("event", event()),
        ("to", FADE_TO.to_vec()),
        ("run", RUN.to_vec()),
        ("ping", PING.to_vec()),
        ("bulk", BULK.to_vec()),
        ("iperf", IPERF.to_vec()),
        ("interactive", INTERACTIVE.to_vec()),
        ("quic", QUIC.to_vec()),
        ("expectation", EXPECT.to_vec()),
    ];
    known.extend(tables);
    known
}
