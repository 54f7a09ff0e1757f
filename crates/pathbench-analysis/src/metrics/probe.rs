//! What probes say of a network: docs/metrics.md, section Probes.

use pathbench_record::document::{ProbeLine, ProbeRecord};
use pathbench_record::statistics::{median, range};

/// What came of the probes of one path, in the order in which they were sent.
///
/// The longest silence is the longest time in which no answer came: between two answers, from the first probe to the first
/// answer, or from the last answer (the first probe, when there was none) to the last probe.
pub fn probes(path: &str, lines: &[ProbeLine]) -> ProbeRecord {
    let of_path: Vec<&ProbeLine> = lines.iter().filter(|line| line.path == path).collect();
    let rtts_ms: Vec<f64> = of_path.iter().filter_map(|line| line.rtt_ms).collect();
    ProbeRecord {
        path: path.to_owned(),
        sent: count(of_path.len()),
        answered: count(rtts_ms.len()),
        p50_ms: median(&rtts_ms),
        max_ms: range(&rtts_ms).map(|[_, max]| max),
        longest_silence_ms: longest_silence(&of_path),
    }
}

fn longest_silence(lines: &[&ProbeLine]) -> Option<f64> {
    let [begin, end] = range(&lines.iter().map(|line| line.t_ms).collect::<Vec<_>>())?;
    let mut heard: Vec<f64> = lines.iter().filter_map(|line| Some(line.t_ms + line.rtt_ms?)).collect();
    heard.sort_by(f64::total_cmp);
    let moments: Vec<f64> = std::iter::once(begin).chain(heard).collect();
    let last = moments.last().copied().unwrap_or(begin).max(end);
    let nexts = moments.iter().skip(1).copied().chain([last]);
    moments.iter().zip(nexts).map(|(from, to)| to - from).max_by(f64::total_cmp)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
