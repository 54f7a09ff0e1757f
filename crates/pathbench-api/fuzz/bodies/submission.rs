//! A line from an untrusted client: rejected, or within every bound.

use super::input::{Input, changed};
use pathbench_api::anonymise::Anonymiser;
use pathbench_api::bounds::{LARGEST_FIGURE, NAME_BYTES, RAW_BYTES, SUMMARY_BYTES};
use pathbench_api::consent::Consent;
use pathbench_api::submission::{Submission, id_time_ms};
use pathbench_api::summary::Summary;
use serde_json::Value;

/// 2026-11-25
const NOW_MS: u64 = 1_795_600_000_000;

const VALID: &str = include_str!("submission.json");

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let line = match input.byte() % 5 {
        0 => input.rest().to_vec(),
        1 | 2 => spliced(&mut input),
        _ => changed(&mut input, valid()).to_string().into_bytes(),
    };
    let Ok(checked) = Submission::check(&line, NOW_MS) else { return };
    let submission = &checked.submission;
    assert!(submission.consent != Consent::None && submission.raw.is_none());
    assert!(id_time_ms(submission.id).is_some_and(|time| time <= NOW_MS + 86_400_000));
    assert!(checked.raw.len() <= RAW_BYTES);
    bounded(&submission.summary);
    let stored = serde_json::to_vec(&submission.summary).expect("JSON");
    // Escapes can be shorter in the line than in what is stored, by a constant factor.
    assert!(stored.len() <= 3 * SUMMARY_BYTES);
    let read: Summary = serde_json::from_slice(&stored).expect("a stored summary can be read");
    bounded(&read);
    let mut anonymous = read;
    Anonymiser::default().summary(&mut anonymous);
    bounded(&anonymous);
    let once = anonymous.clone();
    Anonymiser::default().summary(&mut anonymous);
    assert_eq!(anonymous, once);
}

pub(crate) fn valid() -> Value {
    serde_json::from_str(VALID).expect("JSON")
}

/// The text of a valid line with some bytes replaced by others.
fn spliced(input: &mut Input<'_>) -> Vec<u8> {
    let mut line = valid().to_string().into_bytes();
    for _ in 0..=input.below(4) {
        let at = input.below(line.len());
        let end = (at + input.below(9)).min(line.len());
        let length = input.below(9);
        line.splice(at..end, input.bytes(length).iter().copied());
    }
    line
}

fn bounded(summary: &Summary) {
    let is_figure = |value: &f64| (0.0..=LARGEST_FIGURE).contains(value);
    for group in &summary.groups {
        assert!(group.figures.values().chain(group.shares.values()).all(is_figure));
        let names = group.figures.keys().chain(group.shares.keys()).chain([&group.label, &group.pattern]);
        assert!(names.into_iter().all(|name| (1..=NAME_BYTES).contains(&name.as_str().len())));
    }
    assert!(summary.delay_pairs.iter().all(|pair| is_figure(&pair.mptcp_ms) && is_figure(&pair.mpquic_ms)));
    assert!(summary.handovers.iter().all(|one| one.duration_sent_ms.is_none_or(f64::is_finite)));
    assert!(summary.started_ms <= NOW_MS + 86_400_000);
}
