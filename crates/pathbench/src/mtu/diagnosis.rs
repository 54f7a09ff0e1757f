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
mod tests {
    use super::*;

    fn way(mtu_bytes: u32, evidence: MtuEvidence) -> DirectionMtu {
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
    fn a_route_is_changed_where_nobody_else_puts_it_right() {
        let with_route = |mtu| KernelBelief { route_mtu_bytes: Some(mtu), ..kernel() };
        let locked = |mtu| KernelBelief { route_mtu_locked: true, ..with_route(mtu) };
        let stuck = KernelBelief { connections: vec![connection(9000, 8948, true)], ..kernel() };
        let learned = KernelBelief { cached_mtu_bytes: Some(1500), ..kernel() };
        for (up, down, kernel, expected) in [
            // A black hole one way or the other.
            (way(1500, Vanished), way(1500, Vanished), kernel(), Some(1500)),
            (way(1500, Vanished), way(9000, Interface), kernel(), Some(1500)),
            (way(9000, Interface), way(1500, Vanished), kernel(), Some(1500)),
            (way(1500, Vanished), way(1400, Vanished), kernel(), Some(1400)),
            // The server's end has a small interface, and its kernel knows.
            (way(9000, Interface), way(1500, Interface), kernel(), None),
            // Put right already.
            (way(1500, Vanished), way(1500, Vanished), with_route(1500), None),
            // ICMP taught a kernel that forgets again.
            (way(1500, Vanished), way(1500, Vanished), learned, Some(1500)),
            // Routers tell one way only.
            (way(1500, Icmp), way(1400, Vanished), kernel(), Some(1400)),
            (way(1400, Vanished), way(1500, Icmp), kernel(), Some(1400)),
            // Routers tell.
            (way(1500, Icmp), way(1500, Icmp), kernel(), None),
            (way(1500, Icmp), way(1500, Icmp), locked(9000), Some(1500)),
            (way(1500, Icmp), way(1500, Icmp), stuck, Some(1500)),
            // What was put right is too little now.
            (way(9000, Interface), way(9000, Interface), with_route(1500), Some(9000)),
            (way(4352, Icmp), way(4352, Icmp), with_route(1500), Some(4352)),
            // Nothing to say.
            (way(9000, Interface), way(9000, Interface), kernel(), None),
            // An interface of 9000 and a route that says more: the interface bounds it.
            (way(9000, Interface), way(9000, Interface), with_route(16000), None),
            // Not sure.
            (way(1500, Bounded), way(1500, Vanished), kernel(), None),
            (
                DirectionMtu { confidence: Some(0.8), ..way(1500, Vanished) },
                way(1500, Vanished),
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
    fn what_is_not_known_is_no_ground_for_a_change() {
        let nothing = DirectionMtu { error: Some("no answer".to_owned()), ..DirectionMtu::default() };
        let why = target_bytes(&path(nothing.clone(), nothing, kernel())).unwrap_err();
        assert!(why.contains("not known") && why.contains("no answer"), "{why}");
        let mut v6 = path(way(1200, Vanished), way(1200, Vanished), kernel());
        v6.local = "2001:db8::1".to_owned();
        assert!(target_bytes(&v6).unwrap_err().contains("1280"));
        v6.upload.mtu_bytes = Some(1280);
        v6.download.mtu_bytes = Some(1280);
        assert_eq!(target_bytes(&v6), Ok(1280));
    }

    #[test]
    fn disagreements_are_said_by_their_names() {
        let route = |mtu| KernelBelief { route_mtu_bytes: Some(mtu), ..kernel() };
        let cached = KernelBelief { cached_mtu_bytes: Some(1400), cached_expires_s: Some(411.7), ..kernel() };
        let with = |one: ConnectionMtu| KernelBelief { connections: vec![one], ..route(1500) };
        for (up, down, kernel, expected) in [
            (
                way(1500, Vanished),
                way(1500, Vanished),
                kernel(),
                vec!["up to 9000 bytes, and 1500 pass", "black hole"],
            ),
            (way(1500, Icmp), way(1500, Icmp), kernel(), vec!["192.0.2.1 says so (ICMP)"]),
            (way(1500, Icmp), way(1500, Vanished), route(1500), vec!["packets of the server", "black hole"]),
            (
                way(1500, Icmp),
                way(1500, Icmp),
                KernelBelief { route_mtu_locked: true, ..route(9000) },
                vec!["locked", "black hole"],
            ),
            (
                way(1500, Vanished),
                way(1500, Vanished),
                cached,
                vec!["up to 1400 bytes", "412 s", "1500 would pass"],
            ),
            (
                way(4352, Vanished),
                way(4352, Vanished),
                route(1500),
                vec!["because its route says so, and 4352 would pass"],
            ),
            (
                way(9000, Interface),
                way(1500, Vanished),
                kernel(),
                vec!["9000 bytes pass to the server, and 1500 from it: what the server sends may fall"],
            ),
            (
                way(1500, Vanished),
                way(1500, Vanished),
                with(connection(9000, 8948, true)),
                vec!["is stuck", "packets of 9000 bytes", "backoff 4"],
            ),
            (
                way(1500, Vanished),
                way(1500, Vanished),
                with(connection(9000, 8948, false)),
                vec!["first packet larger than 1500 is lost"],
            ),
            (way(1500, Vanished), way(1500, Vanished), with(connection(9000, 1448, false)), vec!["clamp"]),
            (way(1500, Vanished), way(1500, Vanished), with(connection(9000, 1460, false)), vec!["clamp"]),
            (
                way(1500, Vanished),
                way(1500, Vanished),
                with(connection(1400, 1348, false)),
                vec!["path MTU of 1400, and 1500 would pass"],
            ),
            (way(1500, Vanished), way(1500, Vanished), with(connection(1500, 1448, false)), vec![]),
            (way(1500, Vanished), way(1500, Vanished), route(1500), vec![]),
            (way(9000, Interface), way(9000, Interface), kernel(), vec![]),
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
