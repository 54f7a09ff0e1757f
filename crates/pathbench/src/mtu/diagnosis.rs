//! The differences between the kernel's path-MTU state and the probes, and the advice that follows. Pure.

use pathbench_record::document::{ConnectionMtu, DirectionMtu, KernelBelief, MtuEvidence, PathMtu};

/// Confidence that a change requires.
const SURE: f64 = 0.99;

/// The smallest MTU of an IPv6 route (RFC 8200, section 5).
const SMALLEST_V6_BYTES: u32 = 1280;

/// The MTU that the kernel would send with now.
pub(super) fn kernel_mtu_bytes(kernel: &KernelBelief) -> u32 {
    let of_route = kernel.route_mtu_bytes.unwrap_or(kernel.interface_mtu_bytes);
    match kernel.cached_mtu_bytes {
        Some(cached) if !kernel.route_mtu_locked => cached,
        _ => of_route,
    }
}

/// The MTU for the path's route, or why the route is not changed.
///
/// A route's MTU bounds what this host sends, and what it tells its peers to send, because TCP's MSS option follows from it.
/// So the smaller direction counts where it drops larger packets silently.
pub(super) fn target_bytes(path: &PathMtu) -> Result<u32, String> {
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
    if is_v6(path) && target < SMALLEST_V6_BYTES {
        return Err(format!(
            "{}: {target} bytes are less than IPv6 needs ({SMALLEST_V6_BYTES}): no route can be set to that; the network needs \
             the correction",
            path.name
        ));
    }
    Ok(target)
}

/// Whether it is certain that nothing larger passes.
fn is_settled(direction: &DirectionMtu) -> bool {
    match direction.evidence {
        Some(MtuEvidence::Interface) => true,
        Some(MtuEvidence::Icmp | MtuEvidence::Vanished) => {
            direction.confidence.is_some_and(|sure| sure >= SURE)
        }
        Some(MtuEvidence::Bounded) | None => false,
    }
}

/// Whether larger packets are dropped silently (no ICMP).
fn is_silent(direction: &DirectionMtu) -> bool {
    direction.evidence == Some(MtuEvidence::Vanished)
}

/// Whether a direction of the path is a PMTU black hole.
pub(super) fn is_path_silent(path: &PathMtu) -> bool {
    is_silent(&path.upload) || is_silent(&path.download)
}

fn is_v6(path: &PathMtu) -> bool {
    path.local.contains(':')
}

/// Whether the path's route has to be changed so that what this host sends gets through: a path whose routers send ICMP
/// needs no change.
pub(super) fn needs_route(path: &PathMtu, kernel: &KernelBelief, target: u32) -> bool {
    let route_says =
        kernel.route_mtu_bytes.unwrap_or(kernel.interface_mtu_bytes).min(kernel.interface_mtu_bytes);
    let no_icmp =
        is_path_silent(path) || kernel.route_mtu_locked || kernel.connections.iter().any(|one| one.stuck);
    // No router reports that a larger packet would pass.
    (route_says > target && no_icmp) || route_says < target
}

pub(super) fn disagreements(path: &PathMtu) -> Vec<String> {
    let mut words = Vec::new();
    if let (Some(kernel), Some(up)) = (&path.kernel, path.upload.mtu_bytes) {
        words.extend(of_kernel(kernel, &path.upload, up));
        words.extend(kernel.connections.iter().filter_map(|one| of_connection(one, up)));
    }
    words.extend(of_directions(path));
    words
}

fn of_kernel(kernel: &KernelBelief, upload: &DirectionMtu, up: u32) -> Vec<String> {
    let in_use = kernel_mtu_bytes(kernel);
    let mut words = Vec::new();
    if in_use > up {
        let start = format!("the kernel sends packets of up to {in_use} bytes, and {up} pass");
        words.push(match upload.evidence {
            Some(MtuEvidence::Icmp) if kernel.route_mtu_locked => format!(
                "{start}; a router says so, but the route's MTU is locked: the kernel ignores it, and TCP has a \
                 black hole on this path"
            ),
            Some(MtuEvidence::Icmp) => {
                let router = upload.said_by.as_deref().unwrap_or("a router");
                format!("{start}; {router} says so (ICMP), so TCP adapts by itself")
            }
            Some(MtuEvidence::Vanished) => {
                format!("{start}; larger ones are dropped silently (no ICMP): TCP has a black hole on this path")
            }
            _ => start,
        });
    } else if in_use < up {
        words.push(too_small(kernel, in_use, up));
    }
    words
}

fn too_small(kernel: &KernelBelief, in_use: u32, up: u32) -> String {
    let why = if kernel.cached_mtu_bytes == Some(in_use) && !kernel.route_mtu_locked {
        let until = kernel
            .cached_expires_s
            .map_or(String::new(), |seconds| format!(", until that expires in {seconds:.0} s"));
        format!("because of an earlier ICMP message{until}")
    } else if kernel.route_mtu_bytes == Some(in_use) {
        "because its route says so".to_owned()
    } else {
        "because its interface has this MTU".to_owned()
    };
    format!("the kernel sends packets of up to {in_use} bytes, {why}, and {up} would pass")
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

/// Advice; the commands are in the steps. With --apply (`applying`) the changes need no advice.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn direction(mtu_bytes: u32, evidence: MtuEvidence) -> DirectionMtu {
        DirectionMtu {
            mtu_bytes: Some(mtu_bytes),
            evidence: Some(evidence),
            said_by: (evidence == Icmp).then(|| "192.0.2.1".to_owned()),
            said_bytes: (evidence == Icmp).then_some(mtu_bytes),
            smallest_lost_bytes: Some(mtu_bytes + 1),
            confidence: Some(0.9999),
            ..DirectionMtu::default()
        }
    }

    /// A kernel with an interface of 9000 and no better knowledge.
    fn kernel() -> KernelBelief {
        KernelBelief { interface_mtu_bytes: 9000, table: 1001, ..KernelBelief::default() }
    }

    fn path(upload: DirectionMtu, download: DirectionMtu, kernel: KernelBelief) -> PathMtu {
        PathMtu {
            name: "wlan".to_owned(),
            interface: "wlan".to_owned(),
            local: "10.83.1.1".to_owned(),
            remote: "10.83.0.2:4433".to_owned(),
            upload,
            download,
            kernel: Some(kernel),
            ..PathMtu::default()
        }
    }

    fn connection(pmtu_bytes: u32, mss_bytes: u32, stuck: bool) -> ConnectionMtu {
        ConnectionMtu {
            transport: "mptcp".to_owned(),
            local: "10.83.1.1:40000".to_owned(),
            remote: "10.83.0.2:4433".to_owned(),
            pmtu_bytes,
            mss_bytes,
            backoff: u32::from(stuck) * 4,
            stuck,
        }
    }

    use MtuEvidence::{Bounded, Icmp, Interface, Vanished};

    #[test]
    fn a_route_is_changed_where_icmp_does_not_correct_it() {
        let with_route = |mtu| KernelBelief { route_mtu_bytes: Some(mtu), ..kernel() };
        let locked = |mtu| KernelBelief { route_mtu_locked: true, ..with_route(mtu) };
        let stuck = KernelBelief { connections: vec![connection(9000, 8948, true)], ..kernel() };
        let learned = KernelBelief { cached_mtu_bytes: Some(1500), ..kernel() };
        for (up, down, kernel, expected) in [
            // A black hole in one direction or both.
            (direction(1500, Vanished), direction(1500, Vanished), kernel(), Some(1500)),
            (direction(1500, Vanished), direction(9000, Interface), kernel(), Some(1500)),
            (direction(9000, Interface), direction(1500, Vanished), kernel(), Some(1500)),
            (direction(1500, Vanished), direction(1400, Vanished), kernel(), Some(1400)),
            // The server's end has a small interface, and its kernel knows.
            (direction(9000, Interface), direction(1500, Interface), kernel(), None),
            // Put right already.
            (direction(1500, Vanished), direction(1500, Vanished), with_route(1500), None),
            // ICMP taught a kernel that forgets again.
            (direction(1500, Vanished), direction(1500, Vanished), learned, Some(1500)),
            // Routers send ICMP in one direction only.
            (direction(1500, Icmp), direction(1400, Vanished), kernel(), Some(1400)),
            (direction(1400, Vanished), direction(1500, Icmp), kernel(), Some(1400)),
            // Routers send ICMP.
            (direction(1500, Icmp), direction(1500, Icmp), kernel(), None),
            (direction(1500, Icmp), direction(1500, Icmp), locked(9000), Some(1500)),
            (direction(1500, Icmp), direction(1500, Icmp), stuck, Some(1500)),
            // What was put right is too little now.
            (direction(9000, Interface), direction(9000, Interface), with_route(1500), Some(9000)),
            (direction(4352, Icmp), direction(4352, Icmp), with_route(1500), Some(4352)),
            // Nothing to say.
            (direction(9000, Interface), direction(9000, Interface), kernel(), None),
            // An interface of 9000 and a route that says more: the interface bounds it.
            (direction(9000, Interface), direction(9000, Interface), with_route(16000), None),
            // Not sure.
            (direction(1500, Bounded), direction(1500, Vanished), kernel(), None),
            (
                DirectionMtu { confidence: Some(0.8), ..direction(1500, Vanished) },
                direction(1500, Vanished),
                kernel(),
                None,
            ),
        ] {
            let path = path(up, down, kernel.clone());
            let target = target_bytes(&path).ok().filter(|target| needs_route(&path, &kernel, *target));
            assert_eq!(target, expected, "{path:#?}");
            // Advice and deed agree.
            let advises =
                |applying| advice(&path, "server", applying).iter().any(|words| words.contains("--apply"));
            assert_eq!(advises(false), expected.is_some(), "{path:#?}");
            assert!(!advises(true), "what is being done is advised: {path:#?}");
        }
    }

    #[test]
    fn an_unknown_mtu_changes_nothing() {
        let nothing = DirectionMtu { error: Some("no answer".to_owned()), ..DirectionMtu::default() };
        let why = target_bytes(&path(nothing.clone(), nothing, kernel())).unwrap_err();
        assert!(why.contains("not known") && why.contains("no answer"), "{why}");
        let mut v6 = path(direction(1200, Vanished), direction(1200, Vanished), kernel());
        v6.local = "2001:db8::1".to_owned();
        assert!(target_bytes(&v6).unwrap_err().contains("1280"));
        v6.upload.mtu_bytes = Some(1280);
        v6.download.mtu_bytes = Some(1280);
        assert_eq!(target_bytes(&v6), Ok(1280));
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn disagreements_are_named() {
        let route = |mtu| KernelBelief { route_mtu_bytes: Some(mtu), ..kernel() };
        let cached = KernelBelief { cached_mtu_bytes: Some(1400), cached_expires_s: Some(411.7), ..kernel() };
        let with = |one: ConnectionMtu| KernelBelief { connections: vec![one], ..route(1500) };
        for (up, down, kernel, expected) in [
            (
                direction(1500, Vanished),
                direction(1500, Vanished),
                kernel(),
                vec!["up to 9000 bytes, and 1500 pass", "black hole"],
            ),
            (direction(1500, Icmp), direction(1500, Icmp), kernel(), vec!["192.0.2.1 says so (ICMP)"]),
            (
                direction(1500, Icmp),
                direction(1500, Vanished),
                route(1500),
                vec!["packets of the server", "black hole"],
            ),
            (
                direction(1500, Icmp),
                direction(1500, Icmp),
                KernelBelief { route_mtu_locked: true, ..route(9000) },
                vec!["locked", "black hole"],
            ),
            (
                direction(1500, Vanished),
                direction(1500, Vanished),
                cached,
                vec!["up to 1400 bytes", "412 s", "1500 would pass"],
            ),
            (
                direction(4352, Vanished),
                direction(4352, Vanished),
                route(1500),
                vec!["because its route says so, and 4352 would pass"],
            ),
            (
                direction(9000, Interface),
                direction(1500, Vanished),
                kernel(),
                vec!["9000 bytes pass to the server, and 1500 from it: packets of the server may fall"],
            ),
            (
                direction(1500, Vanished),
                direction(1500, Vanished),
                with(connection(9000, 8948, true)),
                vec!["is stuck", "packets of 9000 bytes", "backoff 4"],
            ),
            (
                direction(1500, Vanished),
                direction(1500, Vanished),
                with(connection(9000, 8948, false)),
                vec!["first packet larger than 1500 is lost"],
            ),
            (
                direction(1500, Vanished),
                direction(1500, Vanished),
                with(connection(9000, 1448, false)),
                vec!["clamp"],
            ),
            (
                direction(1500, Vanished),
                direction(1500, Vanished),
                with(connection(9000, 1460, false)),
                vec!["clamp"],
            ),
            (
                direction(1500, Vanished),
                direction(1500, Vanished),
                with(connection(1400, 1348, false)),
                vec!["path MTU of 1400, and 1500 would pass"],
            ),
            (
                direction(1500, Vanished),
                direction(1500, Vanished),
                with(connection(1500, 1448, false)),
                vec![],
            ),
            (direction(1500, Vanished), direction(1500, Vanished), route(1500), vec![]),
            (direction(9000, Interface), direction(9000, Interface), kernel(), vec![]),
        ] {
            let path = path(up, down, kernel);
            let words = disagreements(&path).join("\n");
            assert_eq!(words.is_empty(), expected.is_empty(), "{words}");
            for text in expected {
                assert!(words.contains(text), "`{text}` is not in `{words}`");
            }
        }
    }

    #[test]
    fn a_clamped_mss_is_told_from_one_that_is_about_to_lose_packets() {
        for (local, mss, up, expected) in [
            ("10.0.0.1:1", 1448, 1500, true),
            ("10.0.0.1:1", 1460, 1500, true),
            // With time stamps, its packets have 1504 bytes.
            ("10.0.0.1:1", 1452, 1500, false),
            ("[2001:db8::1]:1", 1428, 1500, true),
            ("[2001:db8::1]:1", 1440, 1500, true),
            ("[2001:db8::1]:1", 1448, 1500, false),
        ] {
            let one = ConnectionMtu { local: local.to_owned(), ..connection(9000, mss, false) };
            assert_eq!(is_clamped(&one, up), expected, "{local} {mss}");
        }
        assert!(!is_clamped(&connection(1500, 1448, false), 1500), "nothing has to be clamped");
    }
}
