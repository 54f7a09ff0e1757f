//! The output for a known result, byte by byte. `PATHBENCH_BLESS=1 cargo test` writes it anew: look at it then.

mod synthetic;

use pathbench_report::figure::{self, Selection};
use pathbench_report::terminal::{Style, mtu, mtu_change, summary};
use pathbench_report::{ResultSet, html};
use std::fs;
use std::path::PathBuf;

fn holds(name: &str, found: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("PATHBENCH_BLESS").is_some() {
        fs::write(&path, found).expect("the golden file can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let differs = expected.lines().zip(found.lines()).position(|(a, b)| a != b);
    assert!(
        expected == found,
        "{name} differs from line {} on; PATHBENCH_BLESS=1 writes it anew",
        differs.unwrap_or(expected.lines().count().min(found.lines().count())) + 1
    );
}

fn plain(set: &ResultSet, width: usize) -> String {
    summary(set, Style { colour: false, width })
}

#[test]
fn summaries() {
    holds("failover-80.txt", &plain(&synthetic::failover(), 80));
    holds("failover-120.txt", &plain(&synthetic::failover(), 120));
    holds("aggregate-80.txt", &plain(&synthetic::aggregate(6, false), 80));
    holds("invalid-80.txt", &plain(&synthetic::all_invalid(), 80));
    holds("suite-80.txt", &plain(&synthetic::suite(), 80));
    holds("handover-80.txt", &plain(&synthetic::handover(), 80));
    holds("walk-80.txt", &plain(&synthetic::walk(), 80));
    holds("failover-80-colour.txt", &summary(&synthetic::failover(), Style { colour: true, width: 80 }));
}

#[test]
fn path_mtus() {
    let record = synthetic::examination();
    holds("mtu-80.txt", &mtu(&record, Style { colour: false, width: 80 }));
    holds("mtu-120-colour.txt", &mtu(&record, Style { colour: true, width: 120 }));
    assert_eq!(
        mtu_change(&record.changes[0], Style { colour: false, width: 80 }),
        "    12.0 s  wlan0 upload: 9000 → 1500\n"
    );
    holds("mtu.html", &html::report(&[synthetic::examined()]));
    holds("probing-80.txt", &plain(&synthetic::probing(), 80));
}

#[test]
fn figures_of_packet_sizes() {
    let probing = synthetic::probing();
    let variant = probing.document.runs.iter().find(|run| run.id == "off-1-mptcp-r1");
    let selection = Selection { variant: variant.map(|run| run.variant.clone()), ..Selection::default() };
    let drawn = [
        ("probing-mtu.svg", figure::mtu(&probing, &selection)),
        ("probing-packet-sizes.svg", figure::packet_sizes(&probing, &selection)),
        ("probing-matrix.svg", figure::matrix(&probing)),
        ("shrink-mtu.svg", figure::mtu(&synthetic::shrink(), &Selection::default())),
    ];
    for (name, svg) in drawn {
        holds(name, &svg.map(|svg| svg.to_string()).unwrap_or_default());
    }
}

#[test]
fn figures() {
    let failover = synthetic::failover();
    holds("failover-timeline.svg", &figure::timeline(&failover, &Selection::default()).to_string());
    holds("failover-comparison.svg", &figure::comparison(&failover).to_string());
    holds("suite-overview.svg", &figure::overview(&synthetic::suite()).to_string());
    let handover = synthetic::handover();
    holds("handover-delay.svg", &figure::delay(&handover, &Selection::default()).to_string());
    let distribution = figure::distribution(&handover).map(|svg| svg.to_string());
    holds("handover-distribution.svg", &distribution.unwrap_or_default());
    let walk = synthetic::walk();
    let mobility = figure::mobility(&walk).map(|svg| svg.to_string());
    holds("walk-mobility.svg", &mobility.unwrap_or_default());
    let links = figure::links(&walk, &Selection::default()).map(|svg| svg.to_string());
    holds("walk-links.svg", &links.unwrap_or_default());
}

#[test]
fn report() {
    holds("failover.html", &html::report(&[synthetic::failover()]));
}

#[test]
fn the_same_result_gives_the_same_bytes() {
    let [first, second] = [synthetic::study(), synthetic::study()];
    assert_eq!(html::report(&[first]), html::report(&[second]));
}
