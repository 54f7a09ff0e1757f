//! The differences between the kernel's path-MTU state and the probes, and the advice that follows. Pure.

use pathbench_record::document::{ConnectionMtu, DirectionMtu, KernelPathState, MtuEvidence, PathMtu};
use pathbench_record::network::{AddressFamily, SMALLEST_IPV6_MTU_BYTES, TCP_HEADER_BYTES};
use pathbench_record::text::duration_s;

/// Confidence required for a change.
const SURE: f64 = 0.99;

/// The MTU that the kernel uses now.
fn kernel_mtu_bytes(kernel: &KernelPathState) -> u32 {
    let of_route = kernel.route_mtu_bytes.unwrap_or(kernel.interface_mtu_bytes);
    match kernel.cached_mtu_bytes {
        Some(cached) if !kernel.route_mtu_locked => cached,
        _ => of_route,
    }
}

/// The MTU for the path's route, or why the route is not changed.
///
/// A route's MTU limits this host's packets and, through the MSS option derived from it, the peers' TCP segments. So
/// the direction with the smaller MTU counts if it drops larger packets silently.
pub fn target_bytes(path: &PathMtu) -> Result<u32, String> {
    let Some(up) = path.upload.mtu_bytes else {
        return Err(format!(
            "{}: its MTU is not known, so nothing is changed: {}",
            path.name,
            path.upload.error.as_deref().unwrap_or("no probe was answered")
        ));
    };
    if !is_settled(&path.upload) {
        return Err(format!(
            "{}: it is not certain enough that nothing larger than {up} passes, so nothing is changed; probe again",
            path.name
        ));
    }
    let target = match path.download.mtu_bytes {
        Some(down) if down < up && is_silent(&path.download) && is_settled(&path.download) => down,
        _ => up,
    };
    if is_v6(path) && target < SMALLEST_IPV6_MTU_BYTES {
        return Err(format!(
            "{}: {target} bytes are less than IPv6 needs ({SMALLEST_IPV6_MTU_BYTES}): no route can be set to that; the network needs \
             the correction",
            path.name
        ));
    }
    Ok(target)
}

/// Whether no larger packet passes, with certainty.
fn is_settled(direction: &DirectionMtu) -> bool {
    match direction.evidence {
        Some(MtuEvidence::Interface) => true,
        Some(MtuEvidence::Icmp | MtuEvidence::DroppedSilently) => {
            direction.confidence.is_some_and(|sure| sure >= SURE)
        }
        Some(MtuEvidence::Bounded) | None => false,
    }
}

/// Whether larger packets are dropped silently (no ICMP).
fn is_silent(direction: &DirectionMtu) -> bool {
    direction.evidence == Some(MtuEvidence::DroppedSilently)
}

/// Whether a direction of the path is a PMTU black hole.
pub fn is_path_silent(path: &PathMtu) -> bool {
    is_silent(&path.upload) || is_silent(&path.download)
}

fn is_v6(path: &PathMtu) -> bool {
    path.local.contains(':')
}

/// Whether the path's route must change so that this host's packets pass. A path whose routers send ICMP needs no
/// change.
pub fn needs_route(path: &PathMtu, kernel: &KernelPathState, target: u32) -> bool {
    let route_mtu_bytes =
        kernel.route_mtu_bytes.unwrap_or(kernel.interface_mtu_bytes).min(kernel.interface_mtu_bytes);
    let no_icmp =
        is_path_silent(path) || kernel.route_mtu_locked || kernel.connections.iter().any(|one| one.stuck);
    // ICMP never reports that a larger packet would pass.
    (route_mtu_bytes > target && no_icmp) || route_mtu_bytes < target
}

/// Whether the kernel's route or a connection needs correction.
pub fn needs_correction(path: &PathMtu, target: u32) -> bool {
    path.kernel.as_ref().is_some_and(|kernel| {
        needs_route(path, kernel, target) || kernel.connections.iter().any(|one| one.stuck)
    })
}

pub fn disagreements(path: &PathMtu) -> Vec<String> {
    let mut words = Vec::new();
    if let (Some(kernel), Some(up)) = (&path.kernel, path.upload.mtu_bytes) {
        words.extend(of_kernel(kernel, &path.upload, up));
        words.extend(kernel.connections.iter().filter_map(|one| of_connection(one, up)));
    }
    words.extend(of_directions(path));
    words
}

fn of_kernel(kernel: &KernelPathState, upload: &DirectionMtu, up: u32) -> Vec<String> {
    let in_use = kernel_mtu_bytes(kernel);
    let mut words = Vec::new();
    if in_use > up {
        let start = format!("the kernel sends packets of up to {in_use} bytes, and {up} pass");
        words.push(match upload.evidence {
            Some(MtuEvidence::Icmp) if kernel.route_mtu_locked => format!(
                "{start}; a router reports it, but the route's MTU is locked: the kernel ignores it, and TCP has a \
                 black hole on this path"
            ),
            Some(MtuEvidence::Icmp) => {
                let router = upload.reported_by.as_deref().unwrap_or("a router");
                format!("{start}; {router} reports it (ICMP), so TCP adapts by itself")
            }
            Some(MtuEvidence::DroppedSilently) => {
                format!("{start}; larger ones are dropped silently (no ICMP): TCP has a black hole on this path")
            }
            _ => start,
        });
    } else if in_use < up {
        words.push(too_small(kernel, in_use, up));
    }
    words
}

fn too_small(kernel: &KernelPathState, in_use: u32, up: u32) -> String {
    let why = if kernel.cached_mtu_bytes == Some(in_use) && !kernel.route_mtu_locked {
        let until = kernel
            .cached_expires_s
            .map_or(String::new(), |seconds| format!(", until that expires in {}", duration_s(seconds)));
        format!("because of an earlier ICMP message{until}")
    } else if kernel.route_mtu_bytes == Some(in_use) {
        "because its route has this MTU".to_owned()
    } else {
        "because its interface has this MTU".to_owned()
    };
    format!("the kernel sends packets of up to {in_use} bytes, {why}, and {up} would pass")
}

/// Size of the timestamps option (RFC 7323), which Linux adds by default, with padding.
const TIMESTAMP_BYTES: u32 = 12;

/// Whether a connection's full-sized packets pass although the path MTU in force is larger, as after MSS clamping in
/// SYNs.
pub fn is_clamped(one: &ConnectionMtu, up: u32) -> bool {
    let family = if one.local.starts_with('[') { AddressFamily::Ipv6 } else { AddressFamily::Ipv4 };
    let bare = one.mss_bytes + family.header_bytes() + TCP_HEADER_BYTES;
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
        return wasted.then(|| format!("{who} uses a path MTU of {}, and {up} would pass", one.pmtu_bytes));
    }
    Some(if is_clamped(one, up) {
        format!(
            "{who} uses a path MTU of {}, but its MSS of {} fits: a router seems to clamp the MSS of SYNs",
            one.pmtu_bytes, one.mss_bytes
        )
    } else {
        format!("{who} uses a path MTU of {}: its first packet larger than {up} is lost", one.pmtu_bytes)
    })
}

fn of_directions(path: &PathMtu) -> Option<String> {
    let (up, down) = (path.upload.mtu_bytes?, path.download.mtu_bytes?);
    let black_hole = "packets of the server may fall into a black hole";
    match (up == down, is_silent(&path.download)) {
        (true, true) if !is_silent(&path.upload) => Some(format!(
            "packets of the server that are larger than {down} are dropped silently: {black_hole}"
        )),
        (true, _) => None,
        (false, true) if down < up => {
            Some(format!("{up} bytes pass to the server, and {down} from it: {black_hole}"))
        }
        (false, _) => Some(format!("{up} bytes pass to the server, and {down} from it")),
    }
}

/// Advice in words; the steps hold the commands. With --apply (`applying`) the changes need no advice.
pub fn advice(path: &PathMtu, server: &str, applying: bool) -> Vec<String> {
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
    let route_mtu_bytes = kernel.route_mtu_bytes.unwrap_or(kernel.interface_mtu_bytes);
    if needs_route(path, kernel, target) {
        let verb = if route_mtu_bytes > target { "lower" } else { "raise" };
        if !applying {
            words.push(format!("{verb} the MTU of the route to {target}: pathbench mtu {server} --apply"));
        }
        if route_mtu_bytes > target && path.upload.mtu_bytes != Some(target) {
            words.push(format!(
                "{target} is what passes from the server: the MSS that this host announces follows from the route's MTU"
            ));
        }
    }
    if kernel.connections.iter().any(|one| one.stuck && one.transport == "tcp") {
        words.push(
            "a stuck plain TCP connection recovers at its next retransmission after the route is corrected, or when it \
             is opened again"
                .to_owned(),
        );
    }
    if is_path_silent(path) {
        words.push(
            "remedy in the network: let ICMP \"fragmentation needed\" (type 3, code 4) and \"packet too big\" (ICMPv6 \
             type 2) pass, or clamp the MSS of SYNs on the router before the narrow link"
                .to_owned(),
        );
    }
    words
}
