//! A result directory from an untrusted source: from its files to metrics, the summary in a terminal, and the
//! report. No panic, no command for the terminal, and an end in reasonable time.

use super::input::{Input, changed};
use pathbench_analysis::binning::{ByteCurve, FirstAndLast};
use pathbench_analysis::metrics::PathHistory;
use pathbench_analysis::metrics::{PathCurves, handover, unified_mss};
use pathbench_record::directory::{ResultDirectory, RunLines};
use pathbench_record::sample::Side;
use pathbench_record::summary::{summarise, summarise_mobility};
use pathbench_record::text::is_deceptive;
use pathbench_record::time::Timestamp;
use pathbench_report::terminal::{Style, summary};
use pathbench_report::{ResultSet, figures, html};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The results that inputs are changes of, by file.
macro_rules! golden {
    ($directory:literal: $($file:literal),*) => {
        &[$(($file, include_str!(concat!("../../../pathbench-record/tests/golden/", $directory, "/", $file)))),*]
    };
}

type Files = &'static [(&'static str, &'static str)];

const GOLDEN: [Files; 4] = [
    golden!("v1": "run.json", "delivery.jsonl", "events.jsonl", "samples.jsonl"),
    golden!("v1-emulated": "run.json", "delivery.jsonl", "events.jsonl", "links.jsonl", "messages.jsonl",
        "probes.jsonl", "samples.jsonl"),
    golden!("v1-messages": "run.json", "delivery.jsonl", "events.jsonl", "messages.jsonl", "samples.jsonl"),
    golden!("v1-mtu": "run.json"),
];

/// Lines that one line is copied into.
const COPIES: usize = 200;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let golden = GOLDEN[input.below(GOLDEN.len())];
    let directory = directory();
    for (name, _) in GOLDEN.into_iter().flatten() {
        let _ = fs::remove_file(directory.join(name));
    }
    for (name, text) in golden {
        let text = match (input.byte() % 16, *name) {
            // As it is.
            (0..=5, _) => (*text).to_owned().into_bytes(),
            (6, _) => continue,
            (7, _) => input.bytes(200).to_vec(),
            (_, "run.json") => {
                let document = serde_json::from_str(text).expect("JSON");
                changed(&mut input, document).to_string().into_bytes()
            }
            _ => lines(&mut input, text),
        };
        fs::write(directory.join(name), text).expect("a temporary file");
    }
    read(&directory);
}

/// A directory of this process, in memory where the host has that.
pub(crate) fn directory() -> PathBuf {
    let parent = Path::new("/dev/shm");
    let parent = if parent.is_dir() { parent.to_owned() } else { std::env::temp_dir() };
    let directory = parent.join(format!("pathbench-fuzz-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a temporary directory");
    directory
}

/// Lines of JSON, some changed, copied, or replaced by something else.
fn lines(input: &mut Input<'_>, text: &str) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
    for _ in 0..input.below(4) {
        let at = input.below(lines.len());
        let Some(line) = lines.get(at).cloned() else { break };
        match input.byte() % 6 {
            0 => lines[at] = input.bytes(60).to_vec(),
            1 => lines.extend(vec![line; input.below(COPIES)]),
            _ => {
                let document = serde_json::from_slice(&line).unwrap_or(Value::Null);
                lines[at] = changed(input, document).to_string().into_bytes();
            }
        }
    }
    lines.join(&b'\n')
}

fn read(directory: &Path) {
    let Ok(result) = ResultDirectory::open(directory) else { return };
    let Ok((mut set, _)) = ResultSet::read(result) else { return };
    measure(&set);
    show(&set);
    // And with the summary computed from the runs.
    set.document.summary.groups = summarise(&set.document.runs);
    set.document.summary.mobility = summarise_mobility(&set.document.runs);
    show(&set);
}

fn measure(set: &ResultSet) {
    for run in &set.document.runs {
        if let Ok(lines) = set.lines.of_run(&run.id) {
            measure_run(&lines);
            let _ = unified_mss::apply(&unified_mss::from_samples(&lines.samples, &run.id));
        }
    }
}

fn measure_run(lines: &RunLines) {
    let zero = Timestamp::from_nanos(1 << 40);
    let curve = ByteCurve::from_lines(&lines.deliveries, zero, FirstAndLast::default());
    assert!(curve.bytes_between(zero, Timestamp::from_nanos(u64::MAX)) >= 0.0);
    let paths = PathCurves::from_samples(&lines.samples, zero, |figures| figures.bytes_received);
    let _ = paths.growth(zero, Timestamp::from_nanos(u64::MAX));
    for side in [Side::Client, Side::Server] {
        let history = PathHistory { samples: &lines.samples, events: &lines.events, side, backups: &[] };
        let _ = handover(&history);
    }
}

fn show(set: &ResultSet) {
    let text = summary(set, Style { colour: false, width: 80 });
    assert!(!text.contains(|character| character != '\n' && is_deceptive(character)), "{text:?}");
    let one = std::slice::from_ref(set);
    let page = html::report(one);
    assert!(!page.contains(|character| character != '\n' && is_deceptive(character)));
    for block in page.split("<script type=\"application/json\"").skip(1) {
        let json = block.split_once('>').and_then(|(_, rest)| rest.split_once("</script>"));
        assert!(json.is_some_and(|(json, _)| serde_json::from_str::<Value>(json).is_ok()), "{block}");
    }
    for figure in figures(one).concat() {
        let svg = figure.svg.to_string();
        assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
    }
}
