//! Limits of a host in labs: the remedies of `check` are executed.

use crate::support::standing::{Lab, SERVER};
use crate::support::{binary, finish};
use serde_json::Value;

/// The level and the remedy of `check`'s finding about buffers.
fn buffers(lab: &Lab) -> (String, Vec<String>) {
    let program = binary();
    let finished = finish(&mut lab.exec("client", &[program.to_str().unwrap(), "check", "--json", SERVER]));
    let document: Value = serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished:#?}"));
    let mut findings = document["findings"].as_array().unwrap().iter();
    let found = findings.find(|one| one["id"] == "tcp-buffers").unwrap_or_else(|| panic!("{document:#}"));
    assert!(findings.all(|one| one["id"] != "tcp-buffers"), "measured or assumed, not both: {document:#}");
    let steps = found["remedy"].as_array().into_iter().flatten();
    (
        found["level"].as_str().unwrap().to_owned(),
        steps.map(|step| step.as_str().unwrap().to_owned()).collect(),
    )
}

#[test]
fn buffers_that_the_remedy_enlarges_are_in_order() {
    let lab = Lab::of_shipped("broken-small-buffers", &[]);
    let _server = lab.serve(&["--open"]);
    let (level, remedy) = buffers(&lab);
    assert!(level == "problem" && !remedy.is_empty(), "{level} {remedy:?}");
    for step in remedy {
        finish(&mut lab.exec("client", &["sh", "-c", &step])).expect(0);
    }
    assert_eq!(buffers(&lab), ("ok".to_owned(), Vec::new()));
}
