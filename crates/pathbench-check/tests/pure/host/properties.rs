//! Properties of the findings of any host.

use crate::host::facts::healthy;
use crate::host::table::ROWS;
use pathbench_check::finding::{Finding, Level, order};
use pathbench_check::host::findings;
use proptest::prelude::*;

/// The findings of a healthy host with these changes.
fn found(rows: &[usize]) -> Vec<Finding> {
    let mut facts = healthy();
    for row in rows {
        // A change of an object that another change removed.
        let change = ROWS[*row].1;
        let changed = std::panic::catch_unwind(|| {
            let mut changed = facts.clone();
            change(&mut changed);
            changed
        });
        facts = changed.unwrap_or(facts);
    }
    findings(&facts)
}

proptest! {
    #[test]
    fn findings_are_complete_and_ordered(rows in prop::collection::vec(0..ROWS.len(), 0..4)) {
        let found = found(&rows);
        for finding in &found {
            prop_assert!(!finding.found.is_empty(), "{finding:?}");
            match finding.level {
                Level::Ok => prop_assert!(finding.remedy.is_empty() && finding.meaning.is_empty(), "{finding:?}"),
                Level::Problem => prop_assert!(!finding.remedy.is_empty() && !finding.meaning.is_empty(), "{finding:?}"),
                Level::Advice => prop_assert!(!finding.meaning.is_empty(), "{finding:?}"),
                Level::NotExamined => {}
            }
            let level = serde_json::to_value(finding.level).unwrap();
            prop_assert!(level.is_string());
        }
        let mut ordered = found.clone();
        ordered.reverse();
        order(&mut ordered);
        let ids = |findings: &[Finding]| {
            findings.iter().map(|one| (one.level, one.id, one.subject.clone())).collect::<Vec<_>>()
        };
        prop_assert_eq!(ids(&found), ids(&ordered));
    }
}
