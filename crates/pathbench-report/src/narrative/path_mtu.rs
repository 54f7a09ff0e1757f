//! What was found out about the MTU of a path, in sentences.

use crate::quantity::{NONE, counted, duration, percent};
use pathbench_record::document::{
    ConnectionMtu, DirectionMtu, KernelBelief, MtuChange, MtuEvidence, MtuRecord, MtuStep, PathMtu,
};

pub(crate) fn size(bytes: Option<u32>) -> String {
    bytes.map_or(NONE.to_owned(), |bytes| bytes.to_string())
}

/// Both directions in few words: `1500 up, 9000 down`; one number where they are the same.
pub(crate) fn in_short(path: &PathMtu) -> String {
    match (path.upload.mtu_bytes, path.download.mtu_bytes) {
        (Some(up), Some(down)) if up == down => format!("{up} both ways"),
        (None, None) => "not found".to_owned(),
        (up, down) => format!("{} up, {} down", size(up), size(down)),
    }
}

pub(crate) fn evidence(found: &DirectionMtu) -> String {
    if let Some(error) = &found.error {
        return error.clone();
    }
    let Some(mtu) = found.mtu_bytes else { return "no probe was answered".to_owned() };
    let lost = found.smallest_lost_bytes.map_or(String::new(), |lost| format!(" of {lost} bytes"));
    match found.evidence {
        None => "a probe of this size was answered".to_owned(),
        Some(MtuEvidence::Icmp) => {
            let router = found.said_by.as_deref().unwrap_or("a router");
            match found.said_bytes {
                Some(said) if said != mtu => {
                    format!("{router} said {said} (ICMP), but probes{lost} found {mtu}")
                }
                _ => format!("{router} said so (ICMP), and probes{lost} did not pass"),
            }
        }
        Some(MtuEvidence::Vanished) => {
            format!(
                "probes{lost} were dropped silently (no ICMP): a black hole for path MTU discovery by ICMP"
            )
        }
        Some(MtuEvidence::Interface) => "the sending interface takes nothing larger".to_owned(),
        Some(MtuEvidence::Bounded) => "the search ended at its bounds; larger packets may pass".to_owned(),
    }
}

/// How sure that is, and what it took: `> 99.9 % sure`, `loss 2.1 %`, `RTT 4.10 ms`, `38 probes in 610 ms`.
pub(crate) fn circumstances(found: &DirectionMtu) -> Vec<String> {
    let vanished = matches!(found.evidence, Some(MtuEvidence::Icmp | MtuEvidence::Vanished));
    let sure = found.confidence.filter(|_| vanished).map(|sure| format!("{} sure", certainty(sure)));
    let loss = found.loss.filter(|loss| *loss > 0.0).map(|loss| format!("loss {}", percent(loss)));
    let rtt = found.rtt_ms.map(|rtt| format!("RTT {}", duration(rtt)));
    let effort = (found.probes > 0)
        .then(|| format!("{} in {}", counted(found.probes, "probe"), duration(found.duration_ms)));
    [sure, loss, rtt, effort].into_iter().flatten().collect()
}

/// A probability close to 1, never rounded up to certainty.
pub(crate) fn certainty(probability: f64) -> String {
    if !probability.is_finite() {
        return NONE.to_owned();
    }
    let percent = probability.clamp(0.0, 1.0) * 100.0;
    if percent > 99.9 { "> 99.9 %".to_owned() } else { format!("{:.1} %", (percent * 10.0).floor() / 10.0) }
}

pub(crate) fn in_force(kernel: &KernelBelief) -> u32 {
    let of_route = kernel.route_mtu_bytes.unwrap_or(kernel.interface_mtu_bytes);
    match kernel.cached_mtu_bytes {
        Some(cached) if !kernel.route_mtu_locked => cached,
        _ => of_route,
    }
}

pub(crate) fn route_state(kernel: &KernelBelief, interface: &str) -> String {
    let rule = kernel.rule_priority.map_or(String::new(), |priority| format!("rule {priority} → "));
    let gateway = kernel.gateway.as_deref().map_or(String::new(), |gateway| format!(" via {gateway}"));
    let route = format!("{rule}table {}: {}{gateway}", kernel.table, kernel.destination);
    let of_route = kernel
        .route_mtu_bytes
        .map(|bytes| format!("route mtu {}{bytes}", if kernel.route_mtu_locked { "lock " } else { "" }));
    let cached = kernel.cached_mtu_bytes.map(|bytes| {
        let expires = kernel.cached_expires_s.map(|seconds| format!(", expires in {seconds:.0} s"));
        format!("cached path MTU {bytes}{}", expires.unwrap_or_default())
    });
    let of_interface = format!("{interface} has {}", kernel.interface_mtu_bytes);
    let parts = [Some(route), of_route, cached, Some(of_interface)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// What a live connection sends with: `pmtu 9000, mss 8948, backoff 5, stuck`.
pub(crate) fn connection(one: &ConnectionMtu) -> String {
    let mut parts = vec![format!("pmtu {}", one.pmtu_bytes), format!("mss {}", one.mss_bytes)];
    if one.backoff > 0 {
        parts.push(format!("backoff {}", one.backoff));
    }
    if one.stuck {
        parts.push("stuck".to_owned());
    }
    parts.join(", ")
}

/// A change that was seen while watching: `wlan upload: 9000 → 1500`.
pub(crate) fn change(change: &MtuChange) -> String {
    let to = match (change.from_bytes, change.to_bytes) {
        (_, None) => "nothing passes any more".to_owned(),
        (None, Some(to)) => format!("{to} passes again"),
        (Some(from), Some(to)) => format!("{from} → {to}"),
    };
    format!("{} {}: {to}", change.path, change.direction)
}

pub(crate) fn of_steps(steps: &[MtuStep]) -> String {
    let done = steps.iter().filter(|step| step.done).count();
    match done {
        0 => "not done; --apply does them".to_owned(),
        _ if done == steps.len() => "done; --undo takes them back".to_owned(),
        _ => format!("{done} of {} done; --undo takes them back", steps.len()),
    }
}

pub(crate) fn headline(record: &MtuRecord) -> String {
    let paths = record.paths.iter().map(|path| format!("{} {}", path.name, in_short(path)));
    let text = paths.collect::<Vec<_>>().join("; ");
    if text.is_empty() { "no path was examined".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certainty_is_never_rounded_up() {
        assert_eq!(certainty(0.999_6), "> 99.9 %");
        assert_eq!(certainty(0.998_9), "99.8 %");
        assert_eq!(certainty(0.5), "50.0 %");
        assert_eq!(certainty(f64::NAN), NONE);
    }

    #[test]
    fn what_the_kernel_would_send_with() {
        let kernel = KernelBelief { interface_mtu_bytes: 9000, ..KernelBelief::default() };
        assert_eq!(in_force(&kernel), 9000);
        let of_route = KernelBelief { route_mtu_bytes: Some(4000), ..kernel };
        assert_eq!(in_force(&of_route), 4000);
        let cached = KernelBelief { cached_mtu_bytes: Some(1500), ..of_route };
        assert_eq!(in_force(&cached), 1500);
        assert_eq!(in_force(&KernelBelief { route_mtu_locked: true, ..cached }), 4000);
    }
}
