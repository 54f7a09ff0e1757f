//! Comparisons in the terminal and the page.

use pathbench_analysis::comparison;
use pathbench_record::direction::Direction;
use pathbench_record::document::{DirectionRecord, PathRecord, ResultDocument, RunRecord};
use pathbench_record::file::OpenDirectory;
use pathbench_record::transport::Transport;
use pathbench_report::export::{ExportFormat, write};
use pathbench_report::terminal::{Style, brief, summary};
use pathbench_report::{LineSource, ResultSet, html, narrative};

/// `repetitions` runs of mptcp and tcp@eth with a common drift; mptcp has `factor` times the goodput.
fn set(repetitions: u32, factor: f64, noise: f64) -> ResultSet {
    let run = |label: &str, repetition: u32, goodput: f64| RunRecord {
        id: format!("{repetition:02}-{label}"),
        transport: if label == "mptcp" { Transport::Mptcp } else { Transport::Tcp },
        label: label.to_owned(),
        pattern: "throughput".to_owned(),
        repetition,
        valid: true,
        completed: true,
        goodput_mbps: Some(goodput),
        ..RunRecord::default()
    };
    let mut document = ResultDocument::default();
    for repetition in 1..=repetitions {
        let drift = 90.0 + f64::from(repetition);
        let noise = if repetition % 2 == 0 { 1.0 + noise } else { 1.0 / (1.0 + noise) };
        document.runs.push(run("tcp@eth", repetition, drift));
        document.runs.push(run("mptcp", repetition, drift * factor * noise));
    }
    for run in &mut document.runs {
        run.multipath.requested = run.label == "mptcp";
        run.multipath.used = run.multipath.requested;
    }
    document.summary.groups = pathbench_record::summary::summarise(&document.runs);
    comparison::complete(&mut document);
    ResultSet { document, lines: LineSource::default(), directory: None }
}

/// Upload over wlan, lte and both; every run has the paths of its label.
fn paths_alone_and_together(repetitions: u32, used: bool) -> ResultSet {
    let mut document = ResultDocument::default();
    for repetition in 1..=repetitions {
        for (label, goodput, paths) in [
            ("tcp@wlan", 40.0, &["wlan"][..]),
            ("tcp@lte", 20.0, &["lte"]),
            ("mptcp", 54.0, &["wlan", "lte"]),
        ] {
            let is_multipath = label == "mptcp";
            let mut run = RunRecord {
                id: format!("{repetition:02}-{label}"),
                transport: if is_multipath { Transport::Mptcp } else { Transport::Tcp },
                label: label.to_owned(),
                pattern: "throughput".to_owned(),
                repetition,
                valid: true,
                completed: true,
                goodput_mbps: Some(goodput),
                directions: vec![DirectionRecord {
                    direction: Direction::Upload,
                    goodput_mbps: Some(goodput),
                    delivered_bytes: 1,
                    stall_ms: None,
                    delay_ms: None,
                }],
                paths: paths
                    .iter()
                    .map(|name| PathRecord { name: (*name).to_owned(), ..PathRecord::default() })
                    .collect(),
                ..RunRecord::default()
            };
            run.multipath.requested = is_multipath;
            run.multipath.negotiated = is_multipath;
            run.multipath.used = is_multipath && used;
            document.runs.push(run);
        }
    }
    comparison::summarise_runs(&mut document);
    ResultSet { document, lines: LineSource::default(), directory: None }
}

/// Text of the terminal on one line.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_headline_is_the_first_line_of_terminal_page_and_brief() {
    for (repetitions, used, answer) in [
        (6, true, "✓ mptcp: upload 1.35 × tcp@wlan (95 %: 1.35 ×)."),
        (1, true, "· mptcp: upload 1.35 × tcp@wlan (1 pair, no interval; at least 6 decide)."),
        (3, false, "✗ mptcp: no gain, because only one path was used."),
    ] {
        let set = paths_alone_and_together(repetitions, used);
        for width in [40, 80, 200] {
            let style = Style { width, colour: false };
            for text in [summary(&set, style), brief(&set, style)] {
                assert!(joined(&text).starts_with(answer), "{text}");
            }
        }
        let page = html::report(std::slice::from_ref(&set));
        let (title, answer) = (page.find("<h1").unwrap(), page.find("class=\"headline\"").unwrap());
        assert!(answer < title);
    }
}

#[test]
fn a_path_that_was_not_measured_alone_is_named_and_no_gain_is() {
    let mut set = paths_alone_and_together(6, true);
    set.document.runs.retain(|run| run.label != "tcp@lte");
    comparison::summarise_runs(&mut set.document);
    let text = joined(&brief(&set, Style { width: 200, colour: false }));
    assert!(text.starts_with("· mptcp: gain unknown, because lte was not measured alone."), "{text}");
}

#[test]
fn brief_has_the_verdict_and_problems_only() {
    let mut set = paths_alone_and_together(6, true);
    let style = Style { width: 100, colour: false };
    let text = brief(&set, style);
    assert!(text.contains("Was multipath used?") && text.lines().count() < 8, "{text}");
    set.document.runs[2].valid = false;
    set.document.runs[2].invalid_because = vec!["the link lost its carrier".to_owned()];
    comparison::summarise_runs(&mut set.document);
    assert!(brief(&set, style).contains("the link lost its carrier"));
}

fn section_of(set: &ResultSet) -> String {
    let text = summary(set, Style { width: 200, colour: false });
    let page = html::report(std::slice::from_ref(set));
    let section = text.split("Comparisons").nth(1).unwrap_or_default().to_owned();
    assert!(page.contains("Comparisons"), "the page lacks the section");
    section
}

#[test]
fn a_difference_has_its_ratio_interval_and_pairs() {
    let section = section_of(&set(12, 1.92, 0.01));
    assert!(section.contains("mptcp gives 1.92 × the goodput of tcp@eth (95 % CI 1."), "{section}");
    assert!(section.contains("12 pairs): different"), "{section}");
}

#[test]
fn a_headline_claims_no_difference_that_the_pairs_cannot_tell() {
    let set = set(8, 1.06, 0.2);
    assert!(section_of(&set).contains("cannot tell; about "));
    let stories = narrative::stories(&set);
    let mptcp = stories.iter().find(|story| story.label == "mptcp").map(|story| story.headline.clone());
    assert!(mptcp.is_some_and(|headline| headline.ends_with("not distinguishable from tcp@eth")));
}

#[test]
fn few_pairs_name_the_number_that_a_comparison_needs() {
    let section = section_of(&set(3, 1.92, 0.01));
    assert!(
        section.contains("3 pairs cannot tell a difference: a comparison needs 6 repetitions"),
        "{section}"
    );
}

#[test]
fn a_narrow_interval_keeps_its_width() {
    let section = section_of(&set(12, 1.92, 0.0005));
    assert!(section.contains("(95 % CI 1.9190 to 1.9210, 12 pairs): different"), "{section}");
}

#[test]
fn markdown_has_the_interval_below_each_median() {
    let out = tempfile::tempdir().unwrap();
    let text = |repetitions: u32| {
        write(
            &[set(repetitions, 1.92, 0.01)],
            ExportFormat::Markdown,
            &OpenDirectory::open(out.path()).unwrap(),
        )
        .unwrap();
        std::fs::read_to_string(out.path().join("summary.md")).unwrap()
    };
    assert!(text(8).contains("| 94.5 Mbit/s<br>95 % CI 91.0–98.0 |"), "{}", text(8));
    assert!(text(4).contains("| 92.5 Mbit/s<br>range 91.0–94.0 |"), "{}", text(4));
}
