//! Outages, which drop packets of every size, beside MTU black holes.

use super::*;
use DiagnosisKind::{MtuBlackHole, Stale};

/// The same subflow in another stream.
fn in_stream(series: Series, stream: u32) -> Vec<Sample> {
    series.samples.into_iter().map(|sample| Sample { stream, ..sample }).collect()
}

fn at_server(series: Series) -> Vec<Sample> {
    series.samples.into_iter().map(|sample| Sample { side: Side::Server, ..sample }).collect()
}

/// Small messages, each acknowledged at once.
fn small(series: Series, until_ms: f64) -> Series {
    series.until(until_ms, |now| {
        (now.bytes_sent, now.bytes_acked, now.backoff) = (now.bytes_sent + 758, now.bytes_acked + 758, 0);
    })
}

/// Small messages that are lost: the timer of the sender expires.
fn lost(series: Series, until_ms: f64) -> Series {
    series.stuck(until_ms, 758)
}

#[track_caller]
fn judged(samples: &[Vec<Sample>; 2], kind: DiagnosisKind, because: &[&str]) {
    check(&Case::of(Transport::Mptcp, samples.concat()).only(), kind, because, &[]);
}

/// Regression: bytes of a second stream that were acknowledged before the outage, or after it and before the
/// retransmission timer expired, counted as small packets that passed meanwhile.
#[test]
fn an_outage_is_no_black_hole_for_a_stream_beside_small_messages() {
    let large = || Series::new().flowing(5000.0).stuck(8200.0, 90_000).flowing(10_000.0);
    // The large data was outstanding 100 ms before the outage began.
    let messages = small(lost(small(Series::new(), 5100.0), 8000.0), 10_000.0);
    judged(&[large().samples, in_stream(messages, 1)], Stale, &["the same size passed again"]);
    let messages = lost(small(Series::new(), 5100.0), 8200.0);
    let unending = Series::new().flowing(5000.0).stuck(8200.0, 90_000);
    judged(&[unending.samples, in_stream(messages, 1)], Stale, &["small packets were lost"]);
    // The path is back at 8.0 s and the timer expires later.
    let messages = small(lost(small(Series::new(), 5000.0), 8000.0), 8300.0);
    let waiting = Series::new().flowing(5000.0).stuck(8300.0, 90_000);
    judged(&[waiting.samples, in_stream(messages, 1)], Stale, &[]);
}

#[test]
fn an_outage_of_both_directions_is_no_black_hole() {
    let large = Series::new().flowing(5000.0).stuck(12_000.0, 90_000);
    let peer = lost(small(Series::new(), 5000.0), 12_000.0);
    judged(&[large.samples, at_server(peer)], Stale, &["small packets were lost"]);
}

/// The path is back for 300 ms, and lost again before the large data is retransmitted.
#[test]
fn a_path_that_flaps_is_no_black_hole() {
    for peer in [false, true] {
        let large = Series::new().flowing(5000.0).stuck(14_000.0, 90_000);
        let flaps = lost(small(lost(small(Series::new(), 5000.0), 8000.0), 8300.0), 14_000.0);
        let beside = if peer { at_server(flaps) } else { in_stream(flaps, 1) };
        judged(&[large.samples, beside], Stale, &["small packets were lost"]);
    }
}

#[test]
fn an_outage_just_after_the_handshake_is_no_black_hole() {
    let large = Series::new().stuck(6000.0, 90_000);
    judged(&[large.samples, in_stream(lost(Series::new(), 6000.0), 1)], Stale, &["small packets were lost"]);
    let back = Series::new().stuck(3000.0, 90_000).flowing(6000.0);
    judged(&[back.samples, Vec::new()], Stale, &["the same size passed again"]);
}

#[test]
fn small_messages_that_pass_all_the_time_reveal_the_black_hole() {
    for peer in [false, true] {
        let large = Series::new().flowing(5000.0).stuck(12_000.0, 90_000);
        let messages = small(Series::new(), 12_000.0);
        let beside = if peer { at_server(messages) } else { in_stream(messages, 1) };
        judged(&[large.samples, beside], MtuBlackHole, &["small packets passed"]);
    }
    // One of them is lost on the path, and later ones pass.
    let large = Series::new().flowing(5000.0).stuck(14_000.0, 90_000);
    let messages = small(lost(small(Series::new(), 6000.0), 6600.0), 14_000.0);
    judged(&[large.samples, in_stream(messages, 1)], MtuBlackHole, &["small packets passed"]);
}
