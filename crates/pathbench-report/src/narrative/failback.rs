//! The return to a path that came back, in sentences.

use super::event;
use crate::list::distinct;
use crate::quantity::{self, counted, duration};
use crate::view::GroupView;
use pathbench_record::document::{FailbackAbsence, FailbackRecord};

/// One sentence for each event that brought a path back.
pub(super) fn details(group: &GroupView) -> Vec<String> {
    let all: Vec<&FailbackRecord> = group.valid_runs().flat_map(|run| &run.failbacks).collect();
    let events = distinct(all.iter().map(|one| (one.kind.name(), one.path.as_str())));
    events
        .into_iter()
        .filter_map(|(kind, path)| {
            let of_event: Vec<&FailbackRecord> =
                all.iter().copied().filter(|one| one.kind.name() == kind && one.path == path).collect();
            sentence(&of_event, path)
        })
        .collect()
}

fn sentence(all: &[&FailbackRecord], path: &str) -> Option<String> {
    let event = event::in_words(&all.first()?.kind, Some(path));
    let returned: Vec<f64> = all.iter().filter_map(|one| one.failback_ms).collect();
    let absent = |reason| all.iter().filter(|one| one.reason == Some(reason)).count();
    let of_all = |count: usize| {
        if count == all.len() {
            String::new()
        } else {
            format!(" ({count} of {})", counted(all.len(), "time"))
        }
    };
    let mut parts = Vec::new();
    if let Some(after) = quantity::spread(&returned, duration) {
        parts.push(format!("{path} carried its share again {after} after {event}{}", of_all(returned.len())));
    }
    for (reason, words) in [
        (
            FailbackAbsence::NotNeeded,
            "carried no share after this, because the application offered too little to need it",
        ),
        (FailbackAbsence::NeverReturned, "did not carry its share again, although it was needed"),
    ] {
        let count = absent(reason);
        if count > 0 {
            parts.push(format!("{event}; {path} {words}{}", of_all(count)));
        }
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}
