//! Why a path became silent: a black hole for large packets, or for all packets.

use super::cause::{Cause, Restored, find_cause};
use super::course::{self, Silence, SmallPackets};
use super::input::DiagnosisInput;
use super::remedy;
use pathbench_record::document::{DiagnosisKind, PathDiagnosis};
use pathbench_record::network::ClientPath;
use pathbench_record::sample::Side;

/// Every path passes packets of this size (RFC 8200, section 5, and IPv4 paths in practice), so their loss is not due
/// to their size.
const ALWAYS_PASSES_BYTES: u64 = 1280;

/// Overhead of a segment: IP and TCP header with timestamps, the minimum.
const HEADERS_BYTES: u64 = 52;

#[derive(Debug, Clone, PartialEq)]
enum Size {
    Ordered {
        words: String,
        mtu_bytes: u32,
        restored: Option<Restored>,
    },
    /// Segments of this smaller size were acknowledged.
    Proven {
        mss_bytes: u32,
    },
    /// No packet of that size ever passed, but the small packets of the handshake did.
    Never,
    SmallOnes,
}

/// The diagnosis of one silence. It covers the whole run if the path had no other silence and carried no other data.
pub(super) fn explain(
    input: &DiagnosisInput<'_>,
    path: &ClientPath,
    side: Side,
    silence: &Silence<'_>,
    is_only: bool,
) -> PathDiagnosis {
    let cause = find_cause(input, path, silence.from_ms, silence.to_ms, silence.first.pmtu_bytes);
    let whole = is_only && silence.is_from_the_start() && silence.to_ms.is_none();
    let diagnosis = |kind, because, remedy| PathDiagnosis {
        path: path.name.clone(),
        side,
        kind,
        from_ms: (!whole).then_some(silence.from_ms.max(0.0)),
        to_ms: silence.to_ms,
        because,
        remedy,
    };
    if let Some(Cause::Gone { words, ordered, restored }) = &cause {
        let used_again = is_used_again(input, path, side, restored.as_ref());
        let waited_ms = restored.as_ref().map(|back| silence.from_ms + silence.length_ms() - back.t_ms);
        let waited_ms = waited_ms.filter(|_| silence.after.is_some() || !used_again);
        let because = format!(
            "{words} took the path away; {}{}",
            signs(silence),
            given_back(restored.as_ref(), silence, used_again)
        );
        let remedy = remedy::taken_away(input, path, *ordered, waited_ms);
        return diagnosis(DiagnosisKind::Stale, because, remedy);
    }
    if let Some(size) = size(cause, silence) {
        let because = black_hole_because(&size, input, path, side, silence);
        let mtu_bytes = match &size {
            Size::Ordered { mtu_bytes, .. } => Some(*mtu_bytes),
            Size::Proven { .. } | Size::Never | Size::SmallOnes => None,
        };
        return diagnosis(
            DiagnosisKind::MtuBlackHole,
            because,
            remedy::black_hole(input, path, side, mtu_bytes),
        );
    }
    let (because, remedy) = stale(input, path, silence);
    diagnosis(DiagnosisKind::Stale, because, remedy)
}

/// Whether the other end received data on the path after it was back: its samples go on where those of a sender that
/// waits for the close do not.
fn is_used_again(
    input: &DiagnosisInput<'_>,
    path: &ClientPath,
    side: Side,
    restored: Option<&Restored>,
) -> bool {
    restored.is_some_and(|back| course::is_heard_after(input.samples, &path.name, side, back.t_ms))
}

/// `used_again`: the other end received data on the path after it was back.
fn given_back(restored: Option<&Restored>, silence: &Silence<'_>, used_again: bool) -> String {
    let Some(back) = restored else { return String::new() };
    let then = if silence.after.is_some() {
        "but nothing was retransmitted before the retransmission timer expired"
    } else if used_again {
        "and data arrived over it again"
    } else {
        "but nothing was acknowledged any more"
    };
    format!("; {} gave it back, {then}", back.words)
}

/// `None` without evidence that packets are dropped because of their size.
fn size(cause: Option<Cause>, silence: &Silence<'_>) -> Option<Size> {
    let before = silence.first.mss_bytes;
    let smaller = silence.after.filter(|after| after.mss_bytes > 0 && after.mss_bytes < before);
    if let Some(after) = smaller.filter(|_| !silence.small_ones_lost) {
        return Some(Size::Proven { mss_bytes: after.mss_bytes });
    }
    if let Some(Cause::Smaller { words, mtu_bytes, restored }) = cause {
        return Some(Size::Ordered { words, mtu_bytes, restored });
    }
    if silence.small_ones_lost || largest_packet_bytes(silence) <= ALWAYS_PASSES_BYTES {
        return None;
    }
    // QUIC probes a path with packets of at most 1200 bytes; they got no answer either.
    if silence.last.path_id.is_some() {
        return (silence.last.black_holes > silence.first.black_holes).then_some(Size::SmallOnes);
    }
    // Segments of the same size passed again, which those that are too large do not.
    if silence.after.is_some() {
        return None;
    }
    match silence.small_packets {
        SmallPackets::Passed => Some(Size::SmallOnes),
        SmallPackets::Lost => None,
        SmallPackets::Unseen => silence.is_from_the_start().then_some(Size::Never),
    }
}

fn largest_packet_bytes(silence: &Silence<'_>) -> u64 {
    silence.segment_bytes() + HEADERS_BYTES
}

fn black_hole_because(
    known: &Size,
    input: &DiagnosisInput<'_>,
    path: &ClientPath,
    side: Side,
    silence: &Silence<'_>,
) -> String {
    let lost = silence.segment_bytes();
    let small = match known {
        Size::Ordered { words, restored, .. } => {
            let used_again = is_used_again(input, path, side, restored.as_ref());
            let back = given_back(restored.as_ref(), silence, used_again);
            format!("{words} made a hop too small for segments of {} bytes{back}", silence.first.mss_bytes)
        }
        Size::Proven { mss_bytes } => format!(
            "segments of {lost} bytes were lost, and those of {mss_bytes} bytes and less were acknowledged at once, \
             which proves it"
        ),
        Size::Never => {
            format!("the small packets of the handshake passed, and no segment of {lost} bytes ever did")
        }
        Size::SmallOnes => format!("small packets passed meanwhile, and no segment of {lost} bytes"),
    };
    format!("{small}; {}; {}", signs(silence), path_mtu_words(path, side, silence))
}

fn signs(silence: &Silence<'_>) -> String {
    let last = silence.last;
    let mut signs = format!(
        "{} outstanding, none acknowledged, {} retransmission {} in a row",
        bytes(silence.outstanding_bytes()),
        silence.backoff,
        if silence.backoff == 1 { "timeout" } else { "timeouts" },
    );
    if last.path_id.is_none() && last.mss_bytes > 0 && last.cwnd_bytes <= u64::from(last.mss_bytes) {
        signs += ", congestion window 1 segment";
    }
    signs
}

fn path_mtu_words(path: &ClientPath, side: Side, silence: &Silence<'_>) -> String {
    let in_force = silence.last.pmtu_bytes;
    if silence.last.path_id.is_some() {
        return "QUIC relies on its own probes, not on ICMP".to_owned();
    }
    let of_interface = path.mtu_bytes.filter(|_| side == Side::Client);
    if in_force < silence.largest_pmtu_bytes {
        format!(
            "a router reported meanwhile that packets are too large, and the path MTU in force fell from {} to \
             {in_force} bytes, but the outstanding data is retransmitted only when its timer expires",
            silence.largest_pmtu_bytes
        )
    } else if of_interface.is_some_and(|mtu_bytes| in_force < mtu_bytes) {
        format!(
            "the path MTU in force is {in_force} bytes, less than the interface's, and may still be too large"
        )
    } else if of_interface == Some(in_force) {
        format!(
            "the path MTU in force is still the interface's, {in_force} bytes: no router reported \
             that packets are too large"
        )
    } else {
        format!(
            "the path MTU in force is still {in_force} bytes: no router reported \
             that packets are too large"
        )
    }
}

fn stale(input: &DiagnosisInput<'_>, path: &ClientPath, silence: &Silence<'_>) -> (String, String) {
    let signs = signs(silence);
    if silence.small_ones_lost {
        let why = format!(
            "{signs}; smaller segments, of {} bytes instead of {}, were lost as well, so their size is not the cause",
            silence.last.mss_bytes, silence.first.mss_bytes
        );
        return (why, remedy::dead(path));
    }
    if largest_packet_bytes(silence) <= ALWAYS_PASSES_BYTES {
        return (
            format!("{signs}; even packets of a size that every path carries were lost"),
            remedy::dead(path),
        );
    }
    if silence.last.path_id.is_some() {
        return (format!("{signs}; probes of 1200 bytes and less were lost as well"), remedy::dead(path));
    }
    let why = match (silence.after, silence.small_packets) {
        (Some(_), _) => format!("{signs}; then packets of the same size passed again"),
        (None, SmallPackets::Lost) => {
            format!("{signs}; small packets were lost meanwhile as well, so their size is not the cause")
        }
        (None, _) => format!(
            "{signs}; it had carried full-sized packets before. Whether only large packets are dropped now is \
             not known"
        ),
    };
    let is_dead = silence.after.is_some() || silence.small_packets == SmallPackets::Lost;
    let remedy = if is_dead { remedy::dead(path) } else { remedy::dead_or_small(input, path) };
    (why, remedy)
}

/// `34.7 kB`, with three digits.
fn bytes(count: u64) -> String {
    let count = count as f64;
    match count {
        _ if count < 1e3 => format!("{count} bytes"),
        _ if count < 1e5 => format!("{:.1} kB", count / 1e3),
        _ if count < 1e6 => format!("{:.0} kB", count / 1e3),
        _ => format!("{:.1} MB", count / 1e6),
    }
}
