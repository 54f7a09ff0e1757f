//! Remedies, in one line each.

use super::cause;
use super::input::{DiagnosisInput, SHORTEST_SILENCE_MS};
use pathbench_record::document::OpeningOutcome;
use pathbench_record::network::ClientPath;
use pathbench_record::sample::Side;
use pathbench_record::transport::Transport;

/// For a path that silently drops packets that are too large.
pub(super) fn black_hole(
    input: &DiagnosisInput<'_>,
    path: &ClientPath,
    side: Side,
    mtu_bytes: Option<u32>,
) -> String {
    let mtu = mtu_bytes.map_or_else(|| "N".to_owned(), |bytes| bytes.to_string());
    let name = &path.name;
    if input.transport.is_quic() {
        return format!(
            "none needed: QUIC found it by itself and goes on over path {name} with smaller packets"
        );
    }
    match side {
        Side::Client => format!(
            "`{}` finds the MTU of path {name} and sets its route's; by hand `ip route change ... dev {} mtu {mtu}` \
             in the path's table, or net.ipv4.tcp_mtu_probing=2, or let ICMP \"packet too big\" pass",
            mtu_command(input, true),
            path.interface
        ),
        Side::Server => format!(
            "on the server, for path {name}: `ip route change ... mtu {mtu}` towards the client, or \
             net.ipv4.tcp_mtu_probing=2, or let ICMP \"packet too big\" pass; `{}` shows the MTU of each direction",
            mtu_command(input, false)
        ),
    }
}

fn mtu_command(input: &DiagnosisInput<'_>, apply: bool) -> String {
    let server = input.server.unwrap_or("SERVER");
    format!("pathbench mtu {server}{}", if apply { " --apply" } else { "" })
}

/// For a path that an event took away. `ordered`: the scenario asked for the event; `waited_ms`: how long the
/// connection did not use the path after it was back. A path that is back at the end of the run is not to be brought
/// back.
pub(super) fn taken_away(
    input: &DiagnosisInput<'_>,
    path: &ClientPath,
    ordered: bool,
    waited_ms: Option<f64>,
) -> String {
    let is_gone = cause::final_interruption(input, path).is_some();
    match waited_ms {
        Some(waited_ms) if waited_ms >= SHORTEST_SILENCE_MS => waits(input, path),
        _ if ordered => ordered_by_scenario(),
        _ if is_gone => gone(path),
        _ => format!("none needed: path {} is back", path.name),
    }
}

pub(super) fn ordered_by_scenario() -> String {
    "none needed: the scenario asks for it".to_owned()
}

fn waits(input: &DiagnosisInput<'_>, path: &ClientPath) -> String {
    if input.transport.is_quic() {
        return format!(
            "none of the network's: path {} was there again before QUIC sent on it again",
            path.name
        );
    }
    format!(
        "bound the retransmission timer, so that path {} is tried sooner when it is back: net.ipv4.tcp_rto_max_ms \
         (Linux 6.15), for example 1000",
        path.name
    )
}

pub(super) fn gone(path: &ClientPath) -> String {
    format!("bring interface {} back: see `ip address show dev {0}`", path.interface)
}

pub(super) fn dead(path: &ClientPath) -> String {
    format!(
        "look at the link of path {}: its signal, `ip -s link show dev {}`, and the network behind it",
        path.name, path.interface
    )
}

pub(super) fn dead_or_small(input: &DiagnosisInput<'_>, path: &ClientPath) -> String {
    format!(
        "look at the link of path {}; `{}` shows whether small packets still pass",
        path.name,
        mtu_command(input, false)
    )
}

/// For a path on which no connection can begin.
pub(super) fn initial_path(input: &DiagnosisInput<'_>, path: &ClientPath, outcome: OpeningOutcome) -> String {
    let other = input.planned.iter().find(|other| other.name != path.name);
    let begin = match other {
        Some(other) => format!(
            "begin on {0}: bind to it (`{1}@{0}`), or give its default route the lower metric",
            other.name, input.transport
        ),
        None => "begin on another path: bind to it, or give its default route the lower metric".to_owned(),
    };
    let repair = match outcome {
        OpeningOutcome::Refused => {
            format!("let the server listen there, and let firewalls pass it on {}", path.name)
        }
        _ => dead(path),
    };
    format!("{begin}; {repair}")
}

pub(super) fn backup(input: &DiagnosisInput<'_>, path: &ClientPath) -> String {
    let address = path.addresses.first().map_or_else(|| "ADDRESS".to_owned(), ToString::to_string);
    if input.transport == Transport::Mptcp {
        format!("none if it is meant as a backup; else `ip mptcp endpoint change {address} nobackup`")
    } else {
        "none if it is meant as a backup; else clear its backup flag, or use another scheduler".to_owned()
    }
}

pub(super) fn no_route(path: &ClientPath) -> String {
    let address = path.addresses.first().map_or_else(|| "ADDRESS".to_owned(), ToString::to_string);
    format!(
        "`ip rule add from {address} table N` and `ip route add default via GATEWAY dev {} table N`",
        path.interface
    )
}

pub(super) fn never_established(input: &DiagnosisInput<'_>, path: &ClientPath) -> String {
    if input.transport == Transport::Mptcp {
        format!(
            "see `ip mptcp limits` and `ip mptcp endpoint` on both hosts, and the firewall rules for joins on {}",
            path.interface
        )
    } else {
        format!("let UDP datagrams of 1200 bytes pass in both directions on {}", path.interface)
    }
}

pub(super) fn not_chosen() -> String {
    "none if the rate is enough; else send longer, or give the sockets larger buffers (net.ipv4.tcp_wmem, tcp_rmem)"
        .to_owned()
}
