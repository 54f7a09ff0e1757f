//! `report --compare`, `--baseline`, `--fail-if` and `--summary` on results with known effects.

use crate::support::{Finished, Workplace};
use pathbench_record::document::{ResultDocument, RunRecord};
use pathbench_record::summary::summarise;
use pathbench_record::transport::Transport;
use serde_json::Value;

/// Writes the result `name`: `runs` runs of tcp and of mptcp, whose goodput is `mptcp_mbps` with a spread of 2 %.
fn write(work: &Workplace, name: &str, runs: u32, mptcp_mbps: f64, change: impl Fn(&mut ResultDocument)) {
    let mut document = ResultDocument::default();
    "two".clone_into(&mut document.scenario.name);
    "6.18.0".clone_into(&mut document.host.kernel);
    for repetition in 1..=runs {
        // Between −1 and 1, in another order for each transport.
        let position = |step: u32| f64::from(repetition * step % 11) / 5.0 - 1.0;
        for (label, transport, mbps, step) in
            [("tcp", Transport::Tcp, 50.0, 3), ("mptcp", Transport::Mptcp, mptcp_mbps, 7)]
        {
            document.runs.push(RunRecord {
                id: format!("{repetition:02}-{label}"),
                transport,
                label: label.to_owned(),
                pattern: "throughput".to_owned(),
                repetition,
                valid: true,
                completed: true,
                goodput_mbps: Some(mbps * (1.0 + 0.02 * position(step))),
                stall_ms: Some(0.0),
                ..RunRecord::default()
            });
        }
    }
    change(&mut document);
    document.summary.groups = summarise(&document.runs);
    let directory = work.path().join(name);
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("run.json"), serde_json::to_string(&document).unwrap()).unwrap();
    for file in ["samples.jsonl", "events.jsonl", "delivery.jsonl"] {
        std::fs::write(directory.join(file), "").unwrap();
    }
}

/// A baseline of 90 Mbit/s, an equal result, and one with 10 % less.
fn workplace() -> Workplace {
    let work = Workplace::new();
    write(&work, "baseline", 20, 90.0, |_| ());
    write(&work, "equal", 20, 90.2, |_| ());
    write(&work, "slower", 20, 81.0, |document| "6.19.0".clone_into(&mut document.host.kernel));
    work
}

fn report(work: &Workplace, arguments: &[&str]) -> Finished {
    work.run(&[&["report", "--out", "page"], arguments].concat())
}

fn json(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap()
}

/// The comparisons of a figure and label with the first candidate.
fn comparison(document: &Value, label: &str) -> Value {
    let all = document["candidates"][0]["comparisons"].as_array().unwrap();
    let mut found =
        all.iter().filter(|one| one["candidate"]["label"] == *label && one["figure"] == "goodput_mbps");
    found.next().unwrap().clone()
}

#[test]
fn a_loss_of_10_percent_is_found_with_its_size() {
    let work = workplace();
    let finished = report(&work, &["--compare", "baseline", "slower", "--json"]).expect(0);
    let document = json(&finished);
    assert_eq!(document["schema"], "pathbench.comparison/1");
    let found = comparison(&document, "mptcp");
    assert_eq!(found["verdict"], "different", "{found:#}");
    assert_eq!(found["adjusted"], true);
    let interval = [&found["ci95"][0], &found["ci95"][1]].map(|bound| bound.as_f64().unwrap());
    assert!(interval[0] < 0.9 && 0.9 < interval[1] && interval[1] - interval[0] < 0.05, "{interval:?}");
    assert_eq!(comparison(&document, "tcp")["verdict"], "same");
    let differences = document["candidates"][0]["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 1, "{differences:#?}");
    assert_eq!(differences[0]["name"], "kernel");
    assert_eq!([&differences[0]["baseline"], &differences[0]["candidate"]], ["6.18.0", "6.19.0"]);
}

#[test]
fn exchanged_results_have_the_inverse_ratio() {
    let work = workplace();
    let ratio = |first: &str, second: &str| {
        let finished = report(&work, &["--compare", first, second, "--json"]).expect(0);
        comparison(&json(&finished), "mptcp")["ratio"].as_f64().unwrap()
    };
    let product = ratio("baseline", "slower") * ratio("slower", "baseline");
    assert!((product - 1.0).abs() < 1e-9, "{product}");
    assert!((ratio("baseline", "baseline") - 1.0).abs() < 1e-12);
}

#[test]
fn a_condition_decides_the_exit_code() {
    let work = workplace();
    for (candidate, condition, code) in [
        ("slower", "goodput_mbps < -5%", 8),
        ("slower", "mptcp.goodput_mbps < -5%", 8),
        ("slower", "mptcp.goodput_mbps < -5", 8),
        ("slower", "tcp.goodput_mbps < -5%", 0),
        // Beyond the estimate: the loss is 10 %.
        ("slower", "goodput_mbps < -12%", 0),
        ("slower", "goodput_mbps > -15%", 8),
        ("equal", "goodput_mbps < -5%", 0),
        ("equal", "stall_ms > +50", 0),
        ("baseline", "goodput_mbps < -0.1%", 0),
    ] {
        let finished = report(&work, &[candidate, "--baseline", "baseline", "--fail-if", condition]);
        assert_eq!(finished.code, Some(code), "{candidate} {condition}: {finished:#?}");
        let words: Vec<&str> = finished.stdout.split_whitespace().collect();
        assert!(words.contains(&if code == 8 { "fails" } else { "passes" }), "{finished:#?}");
    }
    // One of several is enough, and --compare has a baseline, too.
    let conditions = ["--fail-if", "stall_ms > +50", "--fail-if", "goodput_mbps < -5%"];
    let all = [&["--compare", "baseline", "equal", "slower"][..], &conditions].concat();
    let finished = report(&work, &all).expect(8);
    assert!(finished.stdout.contains("failed in 1 of 8 judgements"), "{finished:#?}");
}

#[test]
fn nothing_passes_without_a_judgement() {
    let work = workplace();
    write(&work, "few", 5, 90.0, |_| ());
    write(&work, "no-mptcp", 20, 90.0, |document| document.runs.retain(|run| run.label == "tcp"));
    write(&work, "invalid", 20, 90.0, |document| {
        document.runs.iter_mut().filter(|run| run.label == "mptcp").for_each(|run| run.valid = false);
    });
    for (arguments, part) in [
        (["few", "baseline", "goodput_mbps < -5%"], "5 valid runs with this figure in few"),
        (["baseline", "few", "goodput_mbps < -5%"], "5 valid runs with this figure in few"),
        (["no-mptcp", "baseline", "goodput_mbps < -5%"], "mptcp · throughput has 0 valid runs"),
        (["invalid", "baseline", "goodput_mbps < -5%"], "mptcp · throughput has 0 valid runs"),
        (["baseline", "no-mptcp", "mptcp.goodput_mbps < -5%"], "it has no `mptcp`, but tcp"),
        (["baseline", "baseline", "fct_ms > 5%"], "its patterns have other figures"),
        (["baseline", "baseline", "stall_ms > 5%"], "is 0, of which there are no percent"),
        (["baseline", "baseline", "goodput < -5%"], "`goodput` is no figure; the figures are: goodput_mbps"),
        (["baseline", "baseline", "goodput_mbps = -5%"], "write for instance `goodput_mbps < -5%`"),
    ] {
        let [candidate, baseline, condition] = arguments;
        let finished = report(&work, &[candidate, "--baseline", baseline, "--fail-if", condition]).expect(2);
        assert!(finished.stderr.contains(part), "{condition}: {finished:#?}");
        assert!(!work.path().join("page").exists(), "{condition}: a report was written");
    }
    let usage = report(&work, &["baseline", "--fail-if", "goodput_mbps < -5%"]).expect(2);
    assert!(usage.stderr.contains("--baseline"), "{usage:#?}");
    let one = report(&work, &["--compare", "baseline"]).expect(2);
    assert!(one.stderr.contains("two results or more"), "{one:#?}");
}

#[test]
fn the_summary_is_markdown_without_markup_from_names() {
    let work = workplace();
    write(&work, "hostile", 20, 81.0, |document| {
        "<img src=x>|@team\n# title".clone_into(&mut document.scenario.name);
        document.runs[0].valid = false;
        document.runs[1].warm_up = true;
        document.runs[1].valid = false;
    });
    let options = ["--fail-if", "mptcp.goodput_mbps < -5%", "--summary", "summary.md"];
    report(&work, &[&["hostile", "--baseline", "baseline"][..], &options].concat()).expect(8);
    let text = std::fs::read_to_string(work.path().join("summary.md")).unwrap();
    assert!(text.starts_with("## Pathbench: two\n\n- **failed**: in 1 of 1 judgement\n"), "{text}");
    assert!(text.contains("| mptcp | goodput | "), "{text}");
    assert!(text.contains("39<br>1 invalid<br>1 warm-up"), "{text}");
    assert!(!text.contains("<img") && !text.contains("\n# title") && !text.contains(" @team"), "{text}");
    let dash = ["equal", "--baseline", "baseline", "--summary", "-"];
    assert!(report(&work, &dash).expect(0).stdout.starts_with("## Pathbench: two\n"));
}

#[test]
fn groups_of_one_result_only_are_listed() {
    let work = workplace();
    write(&work, "no-mptcp", 20, 90.0, |document| document.runs.retain(|run| run.label == "tcp"));
    let finished = report(&work, &["--compare", "baseline", "no-mptcp"]).expect(0);
    assert!(
        finished.stdout.contains("mptcp · throughput has valid runs in 1. and none in 2."),
        "{finished:#?}"
    );
    let page = std::fs::read_to_string(work.path().join("page/report.html")).unwrap();
    assert!(page.contains("has valid runs in 1. and none in 2."));
}
