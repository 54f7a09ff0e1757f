//! Whether multipath was used, and if not, why.
//!
//! Pure: evidence in, verdict out. Counter names are those of `/proc/net/netstat` (net/mptcp/mib.c).

mod input;
mod one_path;
mod quic;

pub use input::{PathDelivery, QuicPaths, USED_SHARE, VerdictInput};
pub(crate) use input::{is_used, share};
pub(crate) use one_path::{failure_words, joins};
pub(crate) use quic::why_unused;

use pathbench_record::connection::{FallbackReason, Negotiation};
use pathbench_record::document::MultipathRecord;

/// Counter at either end → its meaning. The first increased counter explains the fallback.
const MID_LIFE: &[(&str, &str)] = &[
    (
        "DataCsumErr",
        "data checksums did not match, so a middlebox changes the payload (a proxy, an application gateway)",
    ),
    ("DSSCorruptionFallback", "a data mapping (DSS option) was corrupt, so a middlebox rewrites TCP options"),
    (
        "InfiniteMapTx",
        "this end went over to an infinite mapping after data had arrived that could not be mapped",
    ),
    (
        "InfiniteMapRx",
        "the peer went over to an infinite mapping after data had arrived that could not be mapped",
    ),
    ("MPFailRx", "the peer reported corrupt data (MP_FAIL)"),
    ("MPFailTx", "corrupt data was reported to the peer (MP_FAIL)"),
    ("DSSNoMatchTCP", "data did not match its mapping, so a middlebox splits, joins or rewrites segments"),
    ("DssFallback", "data arrived without its mapping (DSS option), so a middlebox strips TCP options"),
];

/// Judges the evidence. The reason is always set: why multipath was not used, or the proof that it was.
pub fn multipath_verdict(input: &VerdictInput) -> MultipathRecord {
    let total = input.paths.iter().map(|path| path.delivered_bytes).fold(0, u64::saturating_add);
    let used: Vec<&PathDelivery> = input.paths.iter().filter(|path| is_used(path, total)).collect();
    let negotiated = input.requested && input.negotiation == Negotiation::Negotiated;
    let really = negotiated && used.len() >= 2;
    let reason = if !input.requested {
        "multipath was not requested".to_owned()
    } else if let Some(never_opened) = input.never_opened() {
        never_opened
    } else if input.negotiation == Negotiation::NotNegotiated {
        quic::NOT_NEGOTIATED.to_owned()
    } else if !negotiated {
        fallback_reason(input)
    } else if really {
        let shares: Vec<String> =
            used.iter().map(|path| format!("{} {}", path.name, share(path, total))).collect();
        format!("{} paths carried the delivered bytes: {}", used.len(), shares.join(", "))
    } else if let Some(quic) = &input.quic {
        quic::one_path_reason(input, quic, total)
    } else {
        one_path::reason(input, total)
    };
    MultipathRecord {
        requested: input.requested,
        negotiated,
        used: really,
        reason,
        paths_used: used.len() as u32,
        subflows_total: input.subflows_total,
    }
}

/// Why a connection that requested MPTCP is plain TCP.
fn fallback_reason(input: &VerdictInput) -> String {
    let Negotiation::FellBack { reason } = input.negotiation else {
        return "no connection was established, so nothing could be negotiated".to_owned();
    };
    match reason {
        FallbackReason::PeerAskedForPlainTcp => {
            "the connecting end asked for plain TCP, or its MP_CAPABLE option was removed on the path"
                .to_owned()
        }
        FallbackReason::InHandshake => format!("fell back to plain TCP: {}", handshake(input)),
        FallbackReason::InMidLife => format!("fell back to plain TCP in mid-connection: {}", mid_life(input)),
    }
}

fn handshake(input: &VerdictInput) -> String {
    const AGAIN: &str = "`sysctl net.mptcp.blackhole_timeout=0` as root switches MPTCP on again at once";
    if input.rose("MPCapableSYNTXDisabled") {
        return format!(
            "the kernel did not ask for MPTCP, because an earlier connection found SYNs with MP_CAPABLE dropped on the \
             path; outgoing MPTCP is disabled in the whole network namespace for net.mptcp.blackhole_timeout (3600 s by \
             default); {AGAIN}"
        );
    }
    if input.rose("MPCapableSYNTXDrop") || input.rose("Blackhole") {
        let consequence = if input.rose("Blackhole") {
            format!(
                "; the kernel regards the path as an MPTCP black hole, and later connections of this network namespace \
                 do not ask for MPTCP either, for 3600 s by default; {AGAIN}"
            )
        } else {
            String::new()
        };
        return format!(
            "SYNs with MP_CAPABLE were dropped on the path to the peer while a SYN without it was answered: a \
             firewall or middlebox blocks MPTCP (TCP option 30){consequence}"
        );
    }
    for (counter, meaning) in [
        ("MPFallbackTokenInit", "no unused token could be found for the connection"),
        ("MD5SigFallback", "TCP MD5 signatures are in use, which exclude MPTCP"),
        ("SimultConnectFallback", "both ends opened the connection at the same moment"),
    ] {
        if input.any_rose(&[counter]) {
            return meaning.to_owned();
        }
    }
    if input.rose_at_peer("MPCapableFallbackACK") {
        return "the peer agreed, but its answer or our third packet lost the MP_CAPABLE option on the path: a \
                middlebox removes TCP option 30"
            .to_owned();
    }
    if input.any_rose(&["DataCsumErr", "MPCapableDataFallback", "DSSNoMatchTCP", "DssFallback"]) {
        return mid_life(input);
    }
    "the peer did not answer MP_CAPABLE: its program listens on a plain TCP socket, its kernel has no MPTCP or has \
     net.mptcp.enabled=0, or a middlebox removes TCP option 30"
        .to_owned()
}

fn mid_life(input: &VerdictInput) -> String {
    MID_LIFE
        .iter()
        .find(|(counter, _)| input.any_rose(&[counter]))
        .map_or("the counters of this host show no cause", |(_, meaning)| *meaning)
        .to_owned()
}
