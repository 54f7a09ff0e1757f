//! What emulated links tell of a run: records, lines of `links.jsonl`, and whether they kept their times.

use pathbench_emulator::plane::{DirectionReport, Lateness, LinkReport};
use pathbench_record::direction::LinkDirection;
use pathbench_record::document::{EmulatedDirection, EmulationRecord, LatenessRecord, LinkSample, RunLink};
use pathbench_record::time::Timestamp;
use std::time::Duration;

pub(super) fn record(links: &mut [RunLink], reports: &[(String, LinkReport)]) {
    for (name, report) in reports {
        if let Some(link) = links.iter_mut().find(|link| link.name == *name) {
            let [forward, reverse] = &report.directions;
            // Of the same moment as the rest of the report: a last packet may pass between two readings.
            link.forward_bytes = Some(forward.statistics.delivered_bytes);
            link.reverse_bytes = Some(reverse.statistics.delivered_bytes);
            link.emulation =
                Some(EmulationRecord { forward: direction(forward), reverse: direction(reverse) });
        }
    }
}

fn direction(report: &DirectionReport) -> EmulatedDirection {
    let counted = &report.statistics;
    EmulatedDirection {
        offered_packets: counted.offered_packets,
        offered_bytes: counted.offered_bytes,
        delivered_packets: counted.delivered_packets,
        delivered_bytes: counted.delivered_bytes,
        dropped_packets: counted
            .dropped_packets
            .iter()
            .map(|(cause, packets)| (cause.name().to_owned(), *packets))
            .collect(),
        marked_packets: counted.marked_packets,
        corrupted_packets: counted.corrupted_packets,
        duplicated_packets: counted.duplicated_packets,
        reordered_packets: counted.reordered_packets,
        arq_retransmissions: counted.arq_retransmissions,
        largest_queue_bytes: counted.largest_queue_bytes,
        refused_packets: report.refused_packets,
        lateness_ms: lateness(&report.lateness),
    }
}

fn lateness(lateness: &Lateness) -> LatenessRecord {
    LatenessRecord {
        p50: ms(lateness.p50),
        p90: ms(lateness.p90),
        p99: ms(lateness.p99),
        p999: ms(lateness.p999),
        max: ms(lateness.max),
    }
}

/// The lines of `links.jsonl`, for a run whose clock begins at `origin`.
pub(super) fn samples(run: &str, origin: Timestamp, reports: &[(String, LinkReport)]) -> Vec<LinkSample> {
    let mut samples = Vec::new();
    for (name, report) in reports {
        for (direction, report) in LinkDirection::BOTH.into_iter().zip(&report.directions) {
            samples.extend(report.series.iter().map(|sample| LinkSample {
                run: run.to_owned(),
                t_ms: sample.at.ms_from(origin),
                link: name.clone(),
                direction,
                queue_bytes: sample.queue_bytes,
                queue_packets: sample.queue_packets,
                offered_bytes: sample.offered_bytes,
                delivered_bytes: sample.delivered_bytes,
                dropped_packets: sample.dropped_packets,
                rate_bps: sample.rate_bps,
                loss: sample.loss,
                delay_ms: Some(ms(sample.delay)),
            }));
        }
    }
    samples.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
    samples
}

/// Why a run does not count: the links at which more than one packet in a hundred left later than `tolerance`.
pub(super) fn too_late(tolerance: Duration, reports: &[(String, LinkReport)]) -> Vec<String> {
    let late = |(name, report): &(String, LinkReport)| {
        let p99 = report.directions.iter().map(|direction| direction.lateness.p99).max()?;
        (p99 > tolerance).then(|| {
            format!(
                "link {name}: one packet in a hundred left {:.3} ms or more after its time, tolerance is {} ms: \
                 is the machine overloaded?",
                ms(p99),
                ms(tolerance)
            )
        })
    };
    reports.iter().filter_map(late).collect()
}

/// What else there is to know of emulated links, in words. An interface of the links that `went_down` dropped what was
/// sent over it meanwhile, as it should.
pub(super) fn notes(reports: &[(String, LinkReport)], went_down: &[&str]) -> Vec<String> {
    let of_link = |(name, report): &(String, LinkReport)| {
        let capture = report.capture_error.as_ref();
        let capture = capture.map(|error| format!("the capture of link {name} is not complete: {error}"));
        let overrun: u64 = report.directions.iter().map(|direction| direction.overrun_packets).sum();
        let overrun = (overrun > 0 && !went_down.contains(&name.as_str())).then(|| {
            format!(
                "link {name} lost {overrun} packets before they came to its model: they were sent faster than this \
                 machine could take them"
            )
        });
        [capture, overrun]
    };
    reports.iter().flat_map(of_link).flatten().collect()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_off_when_one_packet_in_a_hundred_is_late() {
        let late = |ms| Lateness { p99: Duration::from_millis(ms), ..Lateness::default() };
        let mut report = LinkReport::default();
        report.directions[1].lateness = late(11);
        let reports = [("lte".to_owned(), report)];
        assert_eq!(too_late(Duration::from_millis(11), &reports), Vec::<String>::new());
        assert_eq!(notes(&reports, &[]), Vec::<String>::new());
        let reasons = too_late(Duration::from_millis(10), &reports);
        assert!(reasons[0].starts_with("link lte: one packet in a hundred left 11.000 ms"), "{reasons:?}");
        let mut report = LinkReport { capture_error: Some("disk full".to_owned()), ..LinkReport::default() };
        report.directions[0].overrun_packets = 3;
        let reports = [("lte".to_owned(), report)];
        assert_eq!(notes(&reports, &["lte"]).len(), 1);
        let notes = notes(&reports, &[]);
        assert!(
            notes[0].ends_with("lte is not complete: disk full") && notes[1].contains("lost 3 packets"),
            "{notes:?}"
        );
    }
}
