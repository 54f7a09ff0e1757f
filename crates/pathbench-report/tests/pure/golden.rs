//! The output for known results, byte for byte. `PATHBENCH_BLESS=1 cargo test` rewrites it; review the difference.

use crate::parts::Parts;
use crate::synthetic;
use pathbench_record::file::OpenDirectory;
use pathbench_report::terminal::{Style, mtu, mtu_change, summary, trace};
use pathbench_report::{FigureFormat, ResultSet, export, html};
use std::fs;
use std::path::{Path, PathBuf};

fn holds(name: &str, found: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pure/golden").join(name);
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

/// The page without scripts, data blocks, styles and their hashes, which would differ with every change of a script.
fn markup(set: &ResultSet) -> String {
    let page = html::report(std::slice::from_ref(set));
    let parts = Parts::of(&page);
    let (_, markup) = parts.rest.split_once("<meta charset").unwrap_or_default();
    parts.styles.iter().fold(markup.to_owned(), |markup, style| markup.replace(style, ""))
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
    holds("mtu.html", &markup(&synthetic::examined()));
    holds("probing-80.txt", &plain(&synthetic::probing(), 80));
}

#[test]
fn captures() {
    let document = synthetic::traced();
    holds("trace-80.txt", &trace(&document, Style { colour: false, width: 80 }));
    holds("trace-120-colour.txt", &trace(&document, Style { colour: true, width: 120 }));
    let out = tempfile::tempdir().expect("a directory");
    let written =
        pathbench_report::trace::write(&document, &[], out.path(), FigureFormat::Svg).expect("files");
    let stored = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let page = stored(&written.html);
    let (_, page) = page.split_once("<body>").expect("a body");
    holds("trace.html", page);
    holds("trace-throughput.svg", &stored(&out.path().join("connection-0-throughput.svg")));
    holds("trace-segment-sizes.svg", &stored(&out.path().join("connection-0-segment-sizes.svg")));
}

#[test]
fn time_sequence_graphs() {
    let (document, lines) = (synthetic::traced(), synthetic::sequences());
    let out = tempfile::tempdir().expect("a directory");
    let written = pathbench_report::trace::write(&document, &lines, out.path(), FigureFormat::Svg);
    let is_graph = |file: &&PathBuf| file.to_string_lossy().contains("-sequence-");
    let drawn = written.expect("files").figures;
    let graphs: Vec<_> = drawn.iter().filter(is_graph).collect();
    assert_eq!(graphs, [&out.path().join("connection-0-sequence-download.svg")]);
    holds("trace-sequence.svg", &fs::read_to_string(graphs[0]).unwrap_or_default());
    let files =
        export::write_xplot(&document, &lines, &OpenDirectory::open(out.path()).expect("a directory"))
            .expect("files");
    let names: Vec<_> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
    assert_eq!(
        names,
        [
            "connection-0-data-download.xpl",
            "connection-0-subflow-0-download.xpl",
            "connection-0-subflow-1-download.xpl",
            "connection-77-data-download.xpl"
        ]
    );
    holds("trace-data.xpl", &fs::read_to_string(&files[0]).unwrap_or_default());
}

#[test]
fn figures_of_packet_sizes() {
    let probing = synthetic::probing();
    for (file, set, name) in [
        ("probing-mtu.svg", &probing, "mtu-tcp-mtu-probing-1-wlan-icmp-off"),
        ("probing-packet-sizes.svg", &probing, "packet-sizes-tcp-mtu-probing-1-wlan-icmp-off"),
        ("probing-matrix.svg", &probing, "matrix"),
        ("shrink-mtu.svg", &synthetic::shrink(), "mtu"),
    ] {
        holds(file, &synthetic::drawn(set, name).unwrap_or_default());
    }
}

#[test]
fn figures() {
    let (failover, handover, walk) = (synthetic::failover(), synthetic::handover(), synthetic::walk());
    for (file, set, name) in [
        ("failover-timeline.svg", &failover, "timeline"),
        ("failover-comparison.svg", &failover, "comparison"),
        ("suite-overview.svg", &synthetic::suite(), "overview"),
        ("handover-delay.svg", &handover, "delay"),
        ("handover-distribution.svg", &handover, "distribution"),
        ("walk-mobility.svg", &walk, "mobility"),
        ("walk-links.svg", &walk, "links"),
    ] {
        holds(file, &synthetic::drawn(set, name).unwrap_or_default());
    }
}

#[test]
fn report() {
    holds("failover.html", &markup(&synthetic::failover()));
}

#[test]
fn the_same_result_gives_the_same_bytes() {
    let [first, second] = [synthetic::study(), synthetic::study()];
    assert_eq!(html::report(&[first]), html::report(&[second]));
}
