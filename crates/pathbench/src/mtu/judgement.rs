//! Where the kernel and the probes disagree, and what follows from it, in words. Pure.

use pathbench_record::document::{ConnectionMtu, DirectionMtu, KernelBelief, MtuEvidence, PathMtu};

/// Less sure than this, nothing is changed for it.
const SURE: f64 = 0.99;

/// The smallest MTU of an IPv6 route (RFC 8200, section 5).
const SMALLEST_V6_BYTES: u32 = 1280;

/// The MTU that the kernel would send with now.
pub(super) fn believed_bytes(kernel: &KernelBelief) -> u32 {
    let of_route = kernel.route_mtu_bytes.unwrap_or(kernel.interface_mtu_bytes);
    match kernel.cached_mtu_bytes {
        Some(cached) if !kernel.route_mtu_locked => cached,
        _ => of_route,
    }
}

/// The MTU to give the path's route, or why it is left alone.
///
/// A route's MTU bounds what this host sends, and what it tells its peers to send, for TCP's MSS option follows from it.
/// So where the other direction is the smaller one, and silent about it, that one counts.
pub(super) fn target_bytes(path: &PathMtu) -> Result<u32, String> {
    let Some(up) = path.upload.mtu_bytes else {
        return Err(format!(
            "{}: its MTU is not known, and nothing is changed for it: {}",
            path.name,
            path.upload.error.as_deref().unwrap_or("no probe was answered")
        ));
    };
    if !is_settled(&path.upload) {
        return Err(format!(
            "{}: that nothing larger than {up} passes is not sure enough to change anything for it; probe again",
            path.name
        ));
    }
    let target = match path.download.mtu_bytes {
        Some(down) if down < up && is_silent(&path.download) && is_settled(&path.download) => down,
        _ => up,
    };
    if is_v6(path) && target < SMALLEST_V6_BYTES {
        return Err(format!(
            "{}: {target} bytes are less than IPv6 needs ({SMALLEST_V6_BYTES}): no route can say so; the network has to be \
             put right",
            path.name
        ));
    }
    Ok(target)
}

/// Whether it is known that nothing larger passes.
fn is_settled(way: &DirectionMtu) -> bool {
    match way.evidence {
        Some(MtuEvidence::Interface) => true,
        Some(MtuEvidence::Icmp | MtuEvidence::Vanished) => way.confidence.is_some_and(|sure| sure >= SURE),
        Some(MtuEvidence::Bounded) | None => false,
    }
}

/// Whether larger packets vanish without a word.
fn is_silent(way: &DirectionMtu) -> bool {
    way.evidence == Some(MtuEvidence::Vanished)
}

/// Whether anybody who waits for ICMP waits in vain on this path, at this end or at the server's.
pub(super) fn is_path_silent(path: &PathMtu) -> bool {
    is_silent(&path.upload) || is_silent(&path.download)
}

fn is_v6(path: &PathMtu) -> bool {
    path.local.contains(':')
}

/// Whether the path's route has to be changed so that what this host sends gets through: a path whose routers tell is
/// left to them.
pub(super) fn needs_route(path: &PathMtu, kernel: &KernelBelief, target: u32) -> bool {
    let route_says =
        kernel.route_mtu_bytes.unwrap_or(kernel.interface_mtu_bytes).min(kernel.interface_mtu_bytes);
    let nobody_tells =
        is_path_silent(path) || kernel.route_mtu_locked || kernel.connections.iter().any(|one| one.stuck);
    // One that says less than passes is always put right: no router tells of that.
    (route_says > target && nobody_tells) || route_says < target
}

/// What the kernel and the probes disagree about.
pub(super) fn disagreements(path: &PathMtu) -> Vec<String> {
    let mut words = Vec::new();
    if let (Some(kernel), Some(up)) = (&path.kernel, path.upload.mtu_bytes) {
        words.extend(of_belief(kernel, &path.upload, up));
        words.extend(kernel.connections.iter().filter_map(|one| of_connection(one, up)));
    }
    words.extend(of_directions(path));
    words
}

fn of_belief(kernel: &KernelBelief, upload: &DirectionMtu, up: u32) -> Vec<String> {
    let believed = believed_bytes(kernel);
    let mut words = Vec::new();
    if believed > up {
        let start = format!("the kernel sends packets of up to {believed} bytes, and {up} pass");
        words.push(match upload.evidence {
            Some(MtuEvidence::Icmp) if kernel.route_mtu_locked => format!(
                "{start}; a router says so, but the route's MTU is locked: the kernel does not listen, and TCP has a \
                 black hole on this path"
            ),
            Some(MtuEvidence::Icmp) => {
                let router = upload.said_by.as_deref().unwrap_or("a router");
                format!("{start}; {router} says so (ICMP) to whoever sends more, so TCP finds out by itself")
            }
            Some(MtuEvidence::Vanished) => {
                format!("{start}; larger ones vanish without a word: TCP has a black hole on this path")
            }
            _ => start,
        });
    } else if believed < up {
        words.push(too_small(kernel, believed, up));
    }
    words
}

fn too_small(kernel: &KernelBelief, believed: u32, up: u32) -> String {
    let why = if kernel.cached_mtu_bytes == Some(believed) && !kernel.route_mtu_locked {
        let until = kernel
            .cached_expires_s
            .map_or(String::new(), |seconds| format!(", until it forgets that in {seconds:.0} s"));
        format!("because ICMP once told it so{until}")
    } else if kernel.route_mtu_bytes == Some(believed) {
        "because its route says so".to_owned()
    } else {
        "because its interface takes no more".to_owned()
    };
    format!("the kernel sends packets of up to {believed} bytes, {why}, and {up} would pass")
}

/// IP and TCP headers without options, and the time stamps that Linux adds unless told otherwise (RFC 7323).
const fn headers_bytes(is_v6: bool) -> u32 {
    if is_v6 { 60 } else { 40 }
}
const TIMESTAMP_BYTES: u32 = 12;

/// Whether a connection's full-sized packets pass, although the path MTU in force is larger: what a clamp of the MSS
/// in SYNs does.
fn is_clamped(one: &ConnectionMtu, up: u32) -> bool {
    let bare = one.mss_bytes + headers_bytes(one.local.starts_with('['));
    one.pmtu_bytes > up && (bare + TIMESTAMP_BYTES <= up || bare == up)
}

fn of_connection(one: &ConnectionMtu, up: u32) -> Option<String> {
    let who = format!("the {} connection {} → {}", one.transport, one.local, one.remote);
    if one.stuck {
        return Some(format!(
            "{who} is stuck: it sends packets of {} bytes again and again (backoff {}), and {up} pass",
            one.pmtu_bytes, one.backoff
        ));
    }
    if one.pmtu_bytes <= up {
        let wasted = one.pmtu_bytes < up;
        return wasted
            .then(|| format!("{who} goes by a path MTU of {}, and {up} would pass", one.pmtu_bytes));
    }
    Some(if is_clamped(one, up) {
        format!(
            "{who} goes by a path MTU of {}, but its MSS of {} fits: somebody seems to clamp the MSS of SYNs",
            one.pmtu_bytes, one.mss_bytes
        )
    } else {
        format!("{who} goes by a path MTU of {}: its first packet larger than {up} is lost", one.pmtu_bytes)
    })
}

fn of_directions(path: &PathMtu) -> Option<String> {
    let (up, down) = (path.upload.mtu_bytes?, path.download.mtu_bytes?);
    let black_hole = "what the server sends may fall into a black hole on its way here";
    match (up == down, is_silent(&path.download)) {
        (true, true) if !is_silent(&path.upload) => Some(format!(
            "packets of the server that are larger than {down} vanish without a word: {black_hole}"
        )),
        (true, _) => None,
        (false, true) if down < up => {
            Some(format!("{up} bytes pass to the server, and {down} from it: {black_hole}"))
        }
        (false, _) => Some(format!("{up} bytes pass to the server, and {down} from it")),
    }
}

/// What to do, in words; the commands stand in the steps. What `--apply` is `applying` at the moment needs no advice.
pub(super) fn advice(path: &PathMtu, server: &str, applying: bool) -> Vec<String> {
    let mut words = Vec::new();
    let Some(kernel) = &path.kernel else { return words };
    let target = match target_bytes(path) {
        Ok(target) => target,
        Err(why) => {
            if path.upload.mtu_bytes.is_some() {
                words.push(why);
            }
            return words;
        }
    };
    let route_says = kernel.route_mtu_bytes.unwrap_or(kernel.interface_mtu_bytes);
    if needs_route(path, kernel, target) {
        let verb = if route_says > target { "lower" } else { "raise" };
        if !applying {
            words.push(format!("{verb} the MTU of the route to {target}: pathbench mtu {server} --apply"));
        }
        if route_says > target && path.upload.mtu_bytes != Some(target) {
            words.push(format!(
                "{target} is what passes from the server: the MSS that this host tells it follows from the route's MTU"
            ));
        }
    }
    if kernel.connections.iter().any(|one| one.stuck && one.transport == "tcp") {
        words.push(
            "a plain TCP connection that is stuck goes on at its next retransmission after the route is right, or is \
             opened anew"
                .to_owned(),
        );
    }
    if is_path_silent(path) {
        words.push(
            "the network's own remedy: let ICMP \"fragmentation needed\" (type 3, code 4) and \"packet too big\" (ICMPv6 \
             type 2) pass, or clamp the MSS of SYNs on the router before the narrow link"
                .to_owned(),
        );
    }
    words
}

#[cfg(test)]
mod tests;
