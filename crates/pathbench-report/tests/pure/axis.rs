//! The axis of goodput over time: one burst does not set its scale, and windows above it have their value.

use crate::parts::Parts;
use crate::synthetic;
use pathbench_report::terminal::{Style, summary};
use pathbench_report::{ResultSet, html};
use serde_json::Value;

/// Deliveries of mptcp at 1.88 Gbit/s, of which some wait behind a gap and arrive at once.
fn with_burst(mut set: ResultSet) -> ResultSet {
    let lines = &mut set.lines.held.deliveries;
    for line in
        lines.iter_mut().filter(|line| line.run.contains("mptcp") && (5000.0..5010.0).contains(&line.t_ms))
    {
        line.bytes *= 150;
    }
    set
}

fn without_links(mut set: ResultSet) -> ResultSet {
    set.document.links.clear();
    for run in &mut set.document.runs {
        run.links.clear();
    }
    set
}

fn timeline(set: &ResultSet) -> String {
    synthetic::drawn(set, "timeline").expect("a figure")
}

/// Whether an axis has a tick with this number.
fn has_tick(figure: &str, number: &str) -> bool {
    figure.contains(&format!(">{number}</text>"))
}

/// The ends of the axes of all runs in the page.
fn explorer_limits(set: &ResultSet) -> Vec<f64> {
    let page = html::report(std::slice::from_ref(set));
    let index: Value = serde_json::from_str(Parts::of(&page).blocks[0]).expect("data");
    let runs = index["runs"].as_array().expect("runs");
    runs.iter().filter_map(|run| run["goodput"]["limit_mbps"].as_f64()).collect()
}

#[test]
fn one_burst_does_not_set_the_axis_of_the_figure_and_has_its_value() {
    for set in [with_burst(synthetic::failover()), without_links(with_burst(synthetic::failover()))] {
        let figure = timeline(&set);
        assert!(figure.contains("beyond the axis, with its value"), "{figure}");
        assert!(figure.contains("A triangle marks a window beyond the axis"));
        assert!(
            figure.contains(" Gbit/s at 5.05 s</title></polygon>"),
            "the mark has the value and the time"
        );
        for number in ["5.0", "10.0", "20", "30", "50"] {
            assert!(!has_tick(&figure, number), "{number}");
        }
        // Without links the axis ends at a percentile, which is no round value.
        assert!(set.document.links.is_empty() || has_tick(&figure, "1.0"));
    }
    assert!(!timeline(&synthetic::failover()).contains("beyond the axis"));
}

#[test]
fn one_burst_does_not_set_the_axis_of_the_explorer() {
    let limits = explorer_limits(&with_burst(synthetic::failover()));
    assert_eq!(limits.len(), 9);
    // Each run: the links that it used, with space for the cut of the windows.
    assert!(limits.iter().all(|limit| (1099.0..1101.0).contains(limit) || (2199.0..2201.0).contains(limit)));
    let limits = explorer_limits(&without_links(with_burst(synthetic::failover())));
    assert!(limits.len() == 9 && limits.iter().all(|limit| *limit < 5000.0), "{limits:?}");
}

#[test]
fn one_burst_does_not_set_the_full_height_in_the_terminal() {
    for set in [with_burst(synthetic::failover()), without_links(with_burst(synthetic::failover()))] {
        let text = summary(&set, Style { colour: false, width: 100 });
        let heading = text.lines().find(|line| line.starts_with("Timeline")).expect("a timeline");
        let (height, above) = heading.split_once(", ↑ above it, at most ").expect(heading);
        let number = |text: &str| text.split(' ').find_map(|word| word.parse::<f64>().ok()).expect(heading);
        assert!(height.ends_with(" Gbit/s") && number(height) < 5.0, "{heading}");
        assert!(
            number(above) > 5.0 && text.lines().any(|line| line.contains("mptcp") && line.contains('↑')),
            "{text}"
        );
    }
    let text = summary(&synthetic::failover(), Style { colour: false, width: 100 });
    assert!(!text.contains('↑'));
}
