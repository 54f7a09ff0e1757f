//! Whether multipath was used, and if not, why.
//!
//! Pure: evidence in, verdict out. Counter names are those of `/proc/net/netstat` (net/mptcp/mib.c).

mod input;
mod one_path;
mod quic;

pub use input::{PathDelivery, QuicPaths, USED_SHARE, UnopenedConnection, VerdictInput};
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
    let is_opened = input.unopened.is_none();
    let negotiated = input.requested && is_opened && input.negotiation == Negotiation::Negotiated;
    let really = negotiated && used.len() >= 2;
    let reason = if !input.requested {
        "multipath was not requested".to_owned()
    } else if let Some(unopened) = &input.unopened {
        unopened.words()
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
        subflows_attempted: input.subflows_attempted,
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
        FallbackReason::BeforeHandshake => format!("the connection is plain TCP: {}", handshake(input)),
        FallbackReason::InMidLife => format!("fell back to plain TCP in mid-connection: {}", mid_life(input)),
    }
}

/// The end of the suspension, which the kernel begins when it detects a black hole for MPTCP.
const RESUME: &str = "as root, `sysctl net.mptcp.blackhole_timeout=0` ends the suspension at once and switches the detection off, \
                      and writing the value in force ends it once";

fn handshake(input: &VerdictInput) -> String {
    if input.rose("MPCapableSYNTXDisabled") {
        return format!(
            "the kernel sent the SYN without MP_CAPABLE, because an earlier connection found SYNs with MP_CAPABLE dropped on \
             the path; outgoing MPTCP is suspended in the whole network namespace for net.mptcp.blackhole_timeout (3600 s \
             by default, longer after further detections); {RESUME}"
        );
    }
    if input.rose("MPCapableSYNTXDrop") || input.rose("Blackhole") {
        let consequence = if input.rose("Blackhole") {
            format!(
                "; the kernel regards this as an MPTCP black hole, and later connections of this network namespace do not \
                 ask for MPTCP either, for 3600 s by default; {RESUME}"
            )
        } else {
            String::new()
        };
        return format!(
            "SYNs with MP_CAPABLE were dropped on the path to the peer while a later SYN without it was answered: a \
             firewall or middlebox blocks MPTCP (TCP option 30), or the path lost every packet until then{consequence}"
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
    if matches!(input.negotiation, Negotiation::FellBack { reason: FallbackReason::BeforeHandshake }) {
        return "the kernel sent the SYN without MP_CAPABLE, as it does while MPTCP is suspended after a black hole for MPTCP \
                (net.mptcp.blackhole_timeout) or while a bind or an option of the socket excludes MPTCP"
            .to_owned();
    }
    "the peer did not answer MP_CAPABLE: its program listens on a plain TCP socket, its kernel has no MPTCP or has \
     net.mptcp.enabled=0, or a middlebox removes TCP option 30"
        .to_owned()
}

fn mid_life(input: &VerdictInput) -> String {
    // The first data without the option shows that the last packet of the handshake had lost it.
    const AT_FIRST_DATA: &str = "an end agreed, and the other end's first packets after that had no MPTCP option, so a middlebox \
                                 strips TCP option 30";
    let known = MID_LIFE.iter().find(|(counter, _)| input.any_rose(&[counter])).map(|(_, meaning)| *meaning);
    let at_first_data = || input.any_rose(&["MPCapableDataFallback"]).then_some(AT_FIRST_DATA);
    known.or_else(at_first_data).unwrap_or("the counters of this host show no cause").to_owned()
}
