//! The summary of a path's probes.

use pathbench_analysis::metrics::probes;
use pathbench_record::document::ProbeLine;

fn line(path: &str, sequence: u32, rtt_ms: Option<f64>) -> ProbeLine {
    ProbeLine { t_ms: 100.0 * f64::from(sequence), path: path.to_owned(), sequence, rtt_ms, error: None }
}

#[test]
fn a_fading_network_is_silent_between_its_answers() {
    let answers =
        [Some(20.0), Some(24.0), None, None, Some(180.0), None, Some(22.0), None].into_iter().zip(0..);
    let mut lines: Vec<ProbeLine> =
        answers.map(|(rtt_ms, sequence)| line("wlan", sequence, rtt_ms)).collect();
    lines.push(line("lte", 0, Some(60.0)));
    let record = probes("wlan", &lines);
    assert_eq!((record.sent, record.answered), (8, 4));
    assert_eq!((record.p50_ms, record.max_ms), (Some(23.0), Some(180.0)));
    // From the answer to the second probe, at 124 ms, to that to the fifth, at 580 ms.
    assert_eq!(record.longest_silence_ms, Some(456.0));
}

#[test]
fn silence_at_the_begin_and_at_the_end_counts() {
    let only = |answers: &[Option<f64>]| -> Option<f64> {
        let lines: Vec<ProbeLine> =
            answers.iter().zip(0..).map(|(rtt_ms, sequence)| line("wlan", sequence, *rtt_ms)).collect();
        probes("wlan", &lines).longest_silence_ms
    };
    assert_eq!(only(&[None, None, None]), Some(200.0));
    assert_eq!(only(&[None, None, Some(10.0)]), Some(210.0));
    assert_eq!(only(&[Some(10.0), None, None, None]), Some(290.0));
    assert_eq!(only(&[]), None);
}
