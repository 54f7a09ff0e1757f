//! The MTU of a path and the evidence for it, in sentences.

use crate::quantity::{NONE, counted, duration, percent};
use pathbench_record::document::{
    ConnectionMtu, DirectionMtu, KernelPathState, MtuChange, MtuEvidence, MtuRecord, MtuStep, PathMtu,
};
use pathbench_record::text::duration_s;

pub(crate) fn size(bytes: Option<u32>) -> String {
    bytes.map_or(NONE.to_owned(), |bytes| bytes.to_string())
}

pub(crate) fn in_short(path: &PathMtu) -> String {
    match (path.upload.mtu_bytes, path.download.mtu_bytes) {
        (Some(up), Some(down)) if up == down => format!("{up} up and down"),
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
            let router = found.reported_by.as_deref().unwrap_or("a router");
            match found.reported_bytes {
                Some(reported) if reported != mtu => {
                    format!("ICMP from {router} reports {reported}, but probes{lost} found {mtu}")
                }
                _ => format!("ICMP from {router}; probes{lost} did not pass"),
            }
        }
        Some(MtuEvidence::DroppedSilently) => {
            format!(
                "probes{lost} were dropped silently (no ICMP): a black hole for path MTU discovery by ICMP"
            )
        }
        Some(MtuEvidence::Interface) => "MTU of the sending interface".to_owned(),
        Some(MtuEvidence::Bounded) => "the search ended at its bounds; larger packets may pass".to_owned(),
    }
}

/// Confidence, loss, RTT and effort: `confidence > 99.9 %`, `loss 2.1 %`, `RTT 4.10 ms`, `38 probes in 610 ms`.
pub(crate) fn circumstances(found: &DirectionMtu) -> Vec<String> {
    let has_confidence = matches!(found.evidence, Some(MtuEvidence::Icmp | MtuEvidence::DroppedSilently));
    let confidence = found.confidence.filter(|_| has_confidence);
    let confidence = confidence.map(|one| format!("confidence {}", certainty(one)));
    let loss = found.loss.filter(|loss| *loss > 0.0).map(|loss| format!("loss {}", percent(loss)));
    let rtt = found.rtt_ms.map(|rtt| format!("RTT {}", duration(rtt)));
    let effort = (found.probes > 0)
        .then(|| format!("{} in {}", counted(found.probes, "probe"), duration(found.duration_ms)));
    [confidence, loss, rtt, effort].into_iter().flatten().collect()
}

/// A probability close to 1, never rounded up to 100 %.
pub(crate) fn certainty(probability: f64) -> String {
    if !probability.is_finite() {
        return NONE.to_owned();
    }
    let percent = probability.clamp(0.0, 1.0) * 100.0;
    if percent > 99.9 { "> 99.9 %".to_owned() } else { format!("{:.1} %", (percent * 10.0).floor() / 10.0) }
}

pub(crate) fn in_force(kernel: &KernelPathState) -> u32 {
    let of_route = kernel.route_mtu_bytes.unwrap_or(kernel.interface_mtu_bytes);
    match kernel.cached_mtu_bytes {
        Some(cached) if !kernel.route_mtu_locked => cached,
        _ => of_route,
    }
}

pub(crate) fn route_state(kernel: &KernelPathState, interface: &str) -> String {
    let rule = kernel.rule_priority.map_or(String::new(), |priority| format!("rule {priority} → "));
    let gateway = kernel.gateway.as_deref().map_or(String::new(), |gateway| format!(" via {gateway}"));
    let route = format!("{rule}table {}: {}{gateway}", kernel.table, kernel.destination);
    let of_route = kernel
        .route_mtu_bytes
        .map(|bytes| format!("route mtu {}{bytes}", if kernel.route_mtu_locked { "lock " } else { "" }));
    let cached = kernel.cached_mtu_bytes.map(|bytes| {
        let expires = kernel.cached_expires_s.map(|seconds| format!(", expires in {}", duration_s(seconds)));
        format!("cached path MTU {bytes}{}", expires.unwrap_or_default())
    });
    let of_interface = format!("{interface} has {}", kernel.interface_mtu_bytes);
    let parts = [Some(route), of_route, cached, Some(of_interface)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

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

pub(crate) fn change(change: &MtuChange) -> String {
    let to = match (change.from_bytes, change.to_bytes) {
        (_, None) => "no packet passes".to_owned(),
        (None, Some(to)) => format!("{to} bytes pass again"),
        (Some(from), Some(to)) => format!("{from} → {to}"),
    };
    format!("{} {}: {to}", change.path, change.direction)
}

pub(crate) fn of_steps(steps: &[MtuStep]) -> String {
    let done = steps.iter().filter(|step| step.done).count();
    match done {
        0 => "not done; --apply runs them".to_owned(),
        _ if done == steps.len() => "done; --undo reverts them".to_owned(),
        _ => format!("{done} of {} done; --undo reverts them", steps.len()),
    }
}

pub(crate) fn headline(record: &MtuRecord) -> String {
    let paths = record.paths.iter().map(|path| format!("{} {}", path.name, in_short(path)));
    let text = paths.collect::<Vec<_>>().join("; ");
    if text.is_empty() { "no path was examined".to_owned() } else { text }
}
