//! Comparisons in the terminal and the page.

use pathbench_analysis::comparison;
use pathbench_record::document::{ResultDocument, RunRecord};
use pathbench_record::file::OpenDirectory;
use pathbench_record::transport::Transport;
use pathbench_report::export::{ExportFormat, write};
use pathbench_report::terminal::{Style, summary};
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
