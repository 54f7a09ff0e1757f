//! The names of metrics.

use pathbench_collector::metrics::METRICS;

#[test]
fn names_follow_the_conventions() {
    assert!(METRICS.is_sorted_by_key(|one| one.name));
    for one in METRICS {
        assert!(one.name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()), "{}", one.name);
        assert!(
            !["_total", "_info", "_count"].iter().any(|suffix| one.name.ends_with(suffix)),
            "{}",
            one.name
        );
        assert!(one.help.ends_with('.'), "{}", one.name);
        assert!(!one.labels.contains(&"le"), "{}", one.name);
    }
}
