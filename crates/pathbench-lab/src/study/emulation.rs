//! Figures of links in a run: records, lines of `links.jsonl`, and lateness beyond its tolerance.

use crate::environment::LinkCounters;
use crate::scenario::{LinkPlan, TopologyPlan};
use pathbench_analysis::attribution::CarriedBytes;
use pathbench_emulator::plane::{DirectionReport, LinkReport};
use pathbench_record::direction::LinkDirection;
use pathbench_record::document::{EmulatedDirection, EmulationRecord, LatenessRecord, LinkSample, RunLink};
use pathbench_record::text::duration;
use pathbench_record::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

type Counted = (String, LinkCounters);

pub(super) fn record(links: &mut [RunLink], counted: &[Counted], packet_sizes: bool) {
    for link in links {
        let Some((_, counters)) = counted.iter().find(|(name, _)| *name == link.name) else { continue };
        [link.forward_bytes, link.reverse_bytes] = counters.delivered_bytes.map(Some);
        link.emulation = counters.emulated.as_ref().map(|report| {
            let [forward, reverse] = report.directions.each_ref().map(direction);
            EmulationRecord { forward, reverse }
        });
        link.packet_sizes = counters.packet_sizes.clone().filter(|_| packet_sizes);
    }
}

/// The bytes that the links of `client` carried, by its interface.
pub(super) fn carried(
    topology: &TopologyPlan,
    client: &str,
    counted: &[Counted],
) -> BTreeMap<String, CarriedBytes> {
    let of_link = |(link, end): (&LinkPlan, usize)| {
        let (_, counters) = counted.iter().find(|(name, _)| *name == link.name)?;
        let [from_client, to_client] = [counters.delivered_bytes[end], counters.delivered_bytes[1 - end]];
        Some((link.ends[end].interface.clone(), CarriedBytes { from_client, to_client, only_of_run: true }))
    };
    topology.links_of(client).filter_map(of_link).collect()
}

fn emulated_links(counted: &[Counted]) -> impl Iterator<Item = (&str, &LinkReport)> {
    counted.iter().filter_map(|(name, counters)| Some((name.as_str(), counters.emulated.as_ref()?)))
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
        lateness_ms: LatenessRecord {
            p50: ms(report.lateness.p50),
            p90: ms(report.lateness.p90),
            p99: ms(report.lateness.p99),
            p999: ms(report.lateness.p999),
            max: ms(report.lateness.max),
        },
    }
}

/// The lines of `links.jsonl`, for a run whose clock begins at `origin`.
pub(super) fn samples(run: &str, origin: Timestamp, counted: &[Counted]) -> Vec<LinkSample> {
    let mut samples = Vec::new();
    for (name, report) in emulated_links(counted) {
        for (direction, report) in LinkDirection::BOTH.into_iter().zip(&report.directions) {
            samples.extend(report.series.iter().map(|sample| LinkSample {
                run: run.to_owned(),
                t_ms: sample.at.ms_from(origin),
                link: name.to_owned(),
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

/// Reasons why a run is invalid: the links on which more than 1 % of packets were later than `tolerance`.
pub(super) fn too_late(tolerance: Duration, counted: &[Counted]) -> Vec<String> {
    let late = |(name, report): (&str, &LinkReport)| {
        let p99 = report.directions.iter().map(|direction| direction.lateness.p99).max()?;
        (p99 > tolerance).then(|| {
            format!(
                "link {name}: one packet in a hundred left {} or more after its due time, tolerance is {}: \
                 is the machine overloaded?",
                duration(p99),
                duration(tolerance)
            )
        })
    };
    emulated_links(counted).filter_map(late).collect()
}

/// Notes on emulated links. Omits links in `went_down`, because an interface that is down drops packets.
pub(super) fn notes(counted: &[Counted], went_down: &[&str]) -> Vec<String> {
    let of_link = |(name, report): (&str, &LinkReport)| {
        let capture = report.capture_error.as_ref();
        let capture = capture.map(|error| format!("the capture of link {name} is not complete: {error}"));
        let overrun: u64 = report.directions.iter().map(|direction| direction.overrun_packets).sum();
        let overrun = (overrun > 0 && !went_down.contains(&name)).then(|| {
            format!(
                "link {name} lost {overrun} packets before its model: they were sent faster than this machine could read \
                 them"
            )
        });
        [capture, overrun]
    };
    emulated_links(counted).flat_map(of_link).flatten().collect()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_emulator::plane::Lateness;

    #[test]
    fn a_run_is_off_when_one_packet_in_a_hundred_is_late() {
        let counted =
            |report| [("lte".to_owned(), LinkCounters { emulated: Some(report), ..LinkCounters::default() })];
        let late = |ms| Lateness { p99: Duration::from_millis(ms), ..Lateness::default() };
        let mut report = LinkReport::default();
        report.directions[1].lateness = late(11);
        let reports = counted(report);
        assert_eq!(too_late(Duration::from_millis(11), &reports), Vec::<String>::new());
        assert_eq!(notes(&reports, &[]), Vec::<String>::new());
        let reasons = too_late(Duration::from_millis(10), &reports);
        assert!(reasons[0].starts_with("link lte: one packet in a hundred left 11 ms"), "{reasons:?}");
        let mut report = LinkReport { capture_error: Some("disk full".to_owned()), ..LinkReport::default() };
        report.directions[0].overrun_packets = 3;
        let reports = counted(report);
        assert_eq!(notes(&reports, &["lte"]).len(), 1);
        let notes = notes(&reports, &[]);
        assert!(
            notes[0].ends_with("lte is not complete: disk full") && notes[1].contains("lost 3 packets"),
            "{notes:?}"
        );
    }
}
