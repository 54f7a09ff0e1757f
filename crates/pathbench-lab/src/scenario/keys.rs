//! The keys of every table, as documented in `docs/scenarios.md`.

pub(super) const SCENARIO: [&str; 9] =
    ["name", "description", "path", "link", "host", "router", "event", "run", "expect"];
pub(super) const MATRIX: &str = "matrix";
/// What describes one direction of a link.
pub(super) const DIRECTION: [&str; 21] = [
    "rate",
    "delay",
    "jitter",
    "loss",
    "queue",
    "rate_steps",
    "rate_trace",
    "rate_trace_format",
    "delay_trace",
    "jitter_distribution",
    "reorder",
    "burst_loss",
    "loss_bursts",
    "loss_trace",
    "duplicate",
    "corrupt",
    "queue_discipline",
    "queue_target",
    "queue_interval",
    "ecn",
    "arq",
];
/// What describes a link beside its model.
const WIRE: [&str; 7] = ["preset", "mtu", "backup", "weight", "engine", "tolerance", "capture"];
/// What describes the middle of a path.
pub(super) const HOP: [&str; 3] = ["path_mtu", "icmp", "clamp_mss"];
/// What describes a router beside its forwarding.
pub(super) const RULES: [&str; 2] = ["icmp", "clamp_mss"];
pub(super) const PATH: [&str; 36] = join(
    &["name"],
    &DIRECTION,
    &["upload", "download"],
    &join::<12>(&WIRE, &["client_address", "server_address"], &HOP, &[]),
);
pub(super) const LINK: [&str; 32] = join(&["name", "ends"], &DIRECTION, &["forward", "reverse"], &WIRE);
pub(super) const BURST_LOSS: [&str; 4] = ["to_bad", "to_good", "loss_bad", "loss_good"];
pub(super) const LOSS_BURSTS: [&str; 3] = ["period", "length", "loss"];
pub(super) const ARQ: [&str; 2] = ["retries", "pause"];
pub(super) const END: [&str; 3] = ["node", "interface", "address"];
pub(super) const HOST: [&str; 4] = ["name", "sysctl", "mptcp", "routes"];
pub(super) const ROUTER: [&str; 5] = join(&["name", "sysctl", "routes"], &RULES, &[], &[]);
pub(super) const MPTCP: [&str; 3] = ["subflows", "add_addr_accepted", "endpoints"];
pub(super) const ENDPOINT: [&str; 4] = ["path", "link", "address", "flags"];
pub(super) const ROUTE: [&str; 2] = ["to", "via"];
pub(super) const EVENT: [&str; 37] =
    join(&["at", "path", "link", "host", "action", "direction"], &CHANGE, &FADE, &["to"]);
/// Those of an event that only `action = "set"` takes.
pub(crate) const CHANGE: [&str; 25] = join(&DIRECTION, &["mtu"], &HOP, &[]);
/// Those of a direction that name files, and what is said of a file.
pub(super) const TRACES: [&str; 4] = ["rate_trace", "rate_trace_format", "delay_trace", "loss_trace"];
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
    vec![
        ("scenario", scenario),
        ("path", PATH.to_vec()),
        ("upload, download, forward, reverse", DIRECTION.to_vec()),
        ("burst_loss", BURST_LOSS.to_vec()),
        ("loss_bursts", LOSS_BURSTS.to_vec()),
        ("arq", ARQ.to_vec()),
        ("link", LINK.to_vec()),
        ("end", END.to_vec()),
        ("host", HOST.to_vec()),
        ("router", ROUTER.to_vec()),
        ("mptcp", MPTCP.to_vec()),
        ("endpoint", ENDPOINT.to_vec()),
        ("route", ROUTE.to_vec()),
        ("event", EVENT.to_vec()),
        ("to", FADE_TO.to_vec()),
        ("run", RUN.to_vec()),
        ("ping", PING.to_vec()),
        ("bulk", BULK.to_vec()),
        ("iperf", IPERF.to_vec()),
        ("interactive", INTERACTIVE.to_vec()),
        ("quic", QUIC.to_vec()),
        ("expectation", EXPECT.to_vec()),
    ]
}

/// Four lists in one.
const fn join<const N: usize>(
    first: &[&'static str],
    second: &[&'static str],
    third: &[&'static str],
    fourth: &[&'static str],
) -> [&'static str; N] {
    let lists = [first, second, third, fourth];
    let mut joined = [""; N];
    let (mut list, mut index, mut length) = (0, 0, 0);
    while list < lists.len() {
        if index < lists[list].len() {
            joined[length] = lists[list][index];
            (index, length) = (index + 1, length + 1);
        } else {
            (list, index) = (list + 1, 0);
        }
    }
    assert!(length == N, "the lists have as many keys as the joined one");
    joined
}
