//! Stored facts, damaged or of another version: rejected, or shown in every chart.

use super::input::{Input, changed};
use super::memory::{MemoryDatabase, MemoryRawStore, new_result};
use super::{NOW_MS, SUBMISSION};
use pathbench_api::submission::Submission;
use pathbench_collector::chart;
use pathbench_collector::columns::{Columns, Filter};
use pathbench_collector::facts::{Source, decode, encode};
use pathbench_collector::reader::{ResultReader, load};
use pathbench_collector::store::Database;
use pathbench_collector::viewer::Viewer;
use pathbench_program::clock::RealClock;
use std::sync::{Arc, RwLock};

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let is_changed = input.byte().is_multiple_of(2);
    let document = serde_json::from_str(SUBMISSION).expect("JSON");
    let document = if is_changed { changed(&mut input, document) } else { document };
    let Ok(checked) = Submission::check(document.to_string().as_bytes(), NOW_MS) else { return };
    let mut facts = encode(&checked, Source(7));
    decode(&facts).expect("facts that were encoded are decoded");
    for _ in 0..input.below(6) {
        let at = input.below(facts.len());
        let end = (at + input.below(4)).min(facts.len());
        let more = input.below(4);
        facts.splice(at..end, input.bytes(more).iter().copied());
    }
    let is_valid = decode(&facts).is_ok();
    let mut result = new_result(&checked, None);
    result.facts = facts;
    let database = Arc::new(MemoryDatabase::default());
    database.insert(&[result]).expect("memory");
    let columns = Arc::new(RwLock::new(Columns::default()));
    let reader = ResultReader::new(
        database.clone(),
        Arc::new(MemoryRawStore::default()),
        columns,
        Arc::new(RealClock),
    );
    load(database.as_ref(), &reader.columns).expect("memory");
    let filter = Filter::new(Viewer::Operator);
    let (all, ..) = reader.newest(&filter, (None, 10));
    assert!(all == 1 || !is_valid);
    let names: Vec<&str> = chart::all().map(|(name, _)| name).collect();
    for chart in reader.charts(&filter, &names) {
        let (svg, _, _) = (chart.svg().to_string(), chart.csv(), chart.json());
        assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{}: {svg}", chart.name);
    }
}
