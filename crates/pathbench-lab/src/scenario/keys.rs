//! The keys of every table, as documented in `docs/scenarios.md`.

pub(super) const SCENARIO: [&str; 9] =
    ["name", "description", "path", "link", "host", "router", "event", "run", "expect"];
pub(super) const MATRIX: &str = "matrix";
pub(super) const PATH: [&str; 15] = [
    "name",
    "rate",
    "delay",
    "jitter",
    "loss",
    "queue",
    "upload",
    "download",
    "mtu",
    "backup",
    "weight",
    "engine",
    "tolerance",
    "client_address",
    "server_address",
];
pub(super) const LINK: [&str; 14] = [
    "name",
    "ends",
    "rate",
    "delay",
    "jitter",
    "loss",
    "queue",
    "forward",
    "backward",
    "mtu",
    "backup",
    "weight",
    "engine",
    "tolerance",
];
pub(super) const DIRECTION: [&str; 5] = ["rate", "delay", "jitter", "loss", "queue"];
pub(super) const END: [&str; 3] = ["node", "interface", "address"];
pub(super) const HOST: [&str; 4] = ["name", "sysctl", "mptcp", "routes"];
pub(super) const ROUTER: [&str; 3] = ["name", "sysctl", "routes"];
pub(super) const MPTCP: [&str; 3] = ["subflows", "add_addr_accepted", "endpoints"];
pub(super) const ENDPOINT: [&str; 4] = ["path", "link", "address", "flags"];
pub(super) const ROUTE: [&str; 2] = ["to", "via"];
pub(super) const EVENT: [&str; 10] =
    ["at", "path", "link", "host", "action", "rate", "delay", "loss", "mtu", "queue"];
/// Those of an event that only `action = "set"` takes.
pub(super) const CHANGE: [&str; 5] = ["rate", "delay", "loss", "mtu", "queue"];
pub(super) const RUN: [&str; 17] = [
    "transports",
    "pattern",
    "duration",
    "repeat",
    "seed",
    "sample_interval",
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
#[must_use]
pub fn known_keys() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut scenario = SCENARIO.to_vec();
    scenario.push(MATRIX);
    vec![
        ("scenario", scenario),
        ("path", PATH.to_vec()),
        ("upload, download, forward, backward", DIRECTION.to_vec()),
        ("link", LINK.to_vec()),
        ("end", END.to_vec()),
        ("host", HOST.to_vec()),
        ("router", ROUTER.to_vec()),
        ("mptcp", MPTCP.to_vec()),
        ("endpoint", ENDPOINT.to_vec()),
        ("route", ROUTE.to_vec()),
        ("event", EVENT.to_vec()),
        ("run", RUN.to_vec()),
        ("ping", PING.to_vec()),
        ("bulk", BULK.to_vec()),
        ("iperf", IPERF.to_vec()),
        ("interactive", INTERACTIVE.to_vec()),
        ("quic", QUIC.to_vec()),
        ("expectation", EXPECT.to_vec()),
    ]
}
