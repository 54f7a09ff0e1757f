//! Reports in memory, and the raw parts that they are made of.

use crate::support::demo::{Demo, ManualClock, newest, packed};
use crate::support::synthetic::Campaign;
use bytes::Bytes;
use pathbench_api::Uuid;
use pathbench_api::anonymise::Anonymiser;
use pathbench_collector::columns::Filter;
use pathbench_collector::reader::report;
use pathbench_collector::reader::unpacked::{Effort, UnpackError, Unpacked};
use pathbench_collector::task::Cancellation;
use pathbench_collector::viewer::Viewer;
use std::sync::Arc;
use std::time::Duration;

/// Reports that are kept.
const MOST_REPORTS: usize = 8;

/// A report of this age is made again.
const AGE: Duration = Duration::from_secs(300);

const SECOND: Duration = Duration::from_secs(1);

/// Whether both are one page in memory.
fn is_same(one: &Bytes, other: &Bytes) -> bool {
    one.as_ptr() == other.as_ptr()
}

#[tokio::test]
async fn the_least_recently_used_report_goes_and_old_ones_expire() {
    let clock = Arc::new(ManualClock::default());
    // Every other result has a raw part.
    let demo = Demo::with_clock(Campaign::default(), 2 * (MOST_REPORTS as u64 + 1), clock.clone());
    let results = newest(&demo.reader, &Filter::new(Viewer::Operator), usize::MAX);
    let ids: Vec<Uuid> = results.iter().filter(|one| one.raw.is_some()).map(|one| one.id).collect();
    let get = async |index: usize| report::page(&demo.reader, Viewer::Operator, ids[index]).await.unwrap();
    let mut first = Vec::new();
    for index in 0..MOST_REPORTS {
        first.push(get(index).await);
    }
    clock.advance(SECOND);
    assert!(is_same(&get(0).await, &first[0]));
    let last = get(MOST_REPORTS).await;
    assert!(is_same(&get(0).await, &first[0]));
    assert!(!is_same(&get(1).await, &first[1]));
    clock.advance(AGE.saturating_sub(SECOND));
    assert!(!is_same(&get(0).await, &first[0]));
    assert!(is_same(&get(MOST_REPORTS).await, &last));
}

/// A file of a few kilobytes becomes millions of lines, and none has a text whose characters count.
#[test]
fn lines_without_text_are_work() {
    let unpacked = |lines: usize, effort| {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("events.jsonl"), "\n".repeat(lines)).unwrap();
        let raw = packed(place.path(), "");
        Unpacked::from_raw(&raw, Some(Anonymiser::default()), effort, &Cancellation::default())
    };
    assert_eq!(unpacked(10_000, Effort::Light).unwrap().bytes(), 10_000);
    let many = unpacked(2 << 20, Effort::Light);
    assert!(matches!(many, Err(UnpackError::Heavy)), "{many:?}");
}
