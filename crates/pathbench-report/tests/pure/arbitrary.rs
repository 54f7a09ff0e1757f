//! Reports of damaged results: NaN, negative and infinite times, broken references.

use crate::parts::Parts;
use crate::synthetic;
use pathbench_record::direction::Direction;
use pathbench_record::document::{Distribution, PacketSizes, PingRecord, RunRecord};
use pathbench_record::event::EventSource;
use pathbench_record::sample::{PathState, Side};
use pathbench_record::summary::{summarise, summarise_mobility};
use pathbench_record::transport::Transport;
use pathbench_report::terminal::{Style, summary, trace};
use pathbench_report::{FigureFormat, ResultSet, figures, html, narrative, raster};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use unicode_width::UnicodeWidthStr;

fn odd_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -50.0..12_000.0_f64,
        1 => any::<f64>(),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, -0.0]),
    ]
}

fn maybe_odd() -> impl Strategy<Value = Option<f64>> {
    prop::option::of(odd_number())
}

fn odd_name() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["eth", "wlan", "tcp", "mptcp", "tcp@eth", "", "路径", "<b>&"])
            .prop_map(str::to_owned),
        ".{0,40}",
    ]
}

#[derive(Debug, Clone)]
struct Odd {
    numbers: Vec<f64>,
    options: Vec<Option<f64>>,
    names: Vec<String>,
    counters: Vec<u64>,
    flags: Vec<bool>,
}

impl Odd {
    fn number(&self, at: usize) -> f64 {
        self.numbers[at % self.numbers.len()]
    }

    fn option(&self, at: usize) -> Option<f64> {
        self.options[at % self.options.len()]
    }

    fn name(&self, at: usize) -> String {
        self.names[at % self.names.len()].clone()
    }

    fn counter(&self, at: usize) -> u64 {
        self.counters[at % self.counters.len()]
    }

    fn flag(&self, at: usize) -> bool {
        self.flags[at % self.flags.len()]
    }
}

fn odd() -> impl Strategy<Value = Odd> {
    (
        prop::collection::vec(odd_number(), 5..23),
        prop::collection::vec(maybe_odd(), 5..17),
        prop::collection::vec(odd_name(), 3..11),
        prop::collection::vec(prop_oneof![0..9_000_000_u64, any::<u64>()], 3..13),
        prop::collection::vec(any::<bool>(), 3..19),
    )
        .prop_map(|(numbers, options, names, counters, flags)| Odd {
            numbers,
            options,
            names,
            counters,
            flags,
        })
}

fn disturb_run(run: &mut RunRecord, odd: &Odd, at: usize) {
    run.valid = odd.flag(at);
    run.completed = odd.flag(at + 1);
    run.label = odd.name(at);
    run.goodput_mbps = odd.option(at);
    run.hung_ms = odd.option(at + 1);
    run.stall_ms = odd.option(at + 2);
    run.recovery_ms = odd.option(at + 3);
    run.dip = odd.option(at + 4);
    run.multipath.used = odd.flag(at + 2);
    for (index, path) in run.paths.iter_mut().enumerate() {
        path.name = odd.name(at + index);
        path.share = odd.number(at + index);
        path.rtt_ms = odd.number(at + index + 1);
        path.bytes_delivered = odd.counter(at + index);
        path.retransmitted_bytes = odd.counter(at + index + 1);
    }
    for impact in &mut run.impacts {
        impact.kind = odd.name(at + 2).into();
        impact.at_ms = odd.number(at);
        impact.dip = odd.option(at);
        impact.stall_ms = odd.option(at + 1);
    }
    for phase in &mut run.phases {
        (phase.from_ms, phase.to_ms, phase.goodput_mbps) =
            (odd.number(at), odd.number(at + 1), odd.number(at + 2));
    }
    if odd.flag(at + 3) {
        run.directions.clear();
    }
}

/// The failover result with every tenth number, name and flag replaced by an odd value.
fn disturbed(odd: &Odd) -> ResultSet {
    let mut set = synthetic::failover();
    // Only the first repetition, which makes the test three times as fast.
    set.document.runs.truncate(3);
    let first = |run: &str| run.ends_with("-r1");
    set.lines.held.samples.retain(|line| first(&line.run));
    set.lines.held.events.retain(|line| first(&line.run));
    set.lines.held.deliveries.retain(|line| first(&line.run));
    for (at, run) in set.document.runs.iter_mut().enumerate() {
        disturb_run(run, odd, at);
    }
    for (at, line) in set.lines.held.deliveries.iter_mut().enumerate().filter(|(at, _)| odd.flag(*at)) {
        line.t_ms = odd.number(at);
        line.bytes = odd.counter(at);
        line.direction = if odd.flag(at + 1) { Direction::Upload } else { Direction::Download };
    }
    for (at, sample) in set.lines.held.samples.iter_mut().enumerate().filter(|(at, _)| odd.flag(*at)) {
        sample.t_ms = odd.number(at);
        sample.path = odd.name(at);
        sample.side = if odd.flag(at + 1) { Side::Client } else { Side::Server };
        sample.figures.bytes_received = odd.counter(at);
        sample.figures.bytes_acked = odd.counter(at + 1);
        sample.figures.rto_ms = odd.number(at + 1);
        sample.figures.backoff = odd.counter(at) as u32;
        sample.figures.state = if odd.flag(at + 2) { PathState::Closed } else { PathState::Opening };
    }
    for (at, event) in set.lines.held.events.iter_mut().enumerate() {
        event.t_ms = odd.number(at);
        event.kind = if odd.flag(at) { odd.name(at).into() } else { event.kind.clone() };
        event.path = Some(odd.name(at + 1)).filter(|_| odd.flag(at + 1));
        event.source = if odd.flag(at + 2) { EventSource::Scenario } else { EventSource::Mptcp };
    }
    disturb_document(&mut set, odd);
    set
}

fn disturb_document(set: &mut ResultSet, odd: &Odd) {
    for (at, link) in set.document.links.iter_mut().enumerate() {
        link.name = odd.name(at + 3);
        link.requested.forward.delay_ms = odd.option(at);
        link.requested.reverse.rate_bps = Some(odd.counter(at));
        link.tolerance = odd.number(at);
        link.measured = link.measured.take().filter(|_| odd.flag(at));
        if let Some(measured) = &mut link.measured {
            measured.rtt_ms = odd.number(at + 1);
            measured.reverse_bps = None;
        }
    }
    for (at, group) in set.document.summary.groups.iter_mut().enumerate() {
        group.label = odd.name(at);
        let of = |at: usize| Distribution {
            n: odd.counter(at) as u32,
            median: odd.number(at),
            min: odd.number(at + 1),
            max: odd.number(at + 2),
            ci95: odd.flag(at).then(|| [odd.number(at + 3), odd.number(at + 4)]),
        };
        for (index, name) in ["goodput_mbps", "stall_ms", "recovery_ms", "dip"].into_iter().enumerate() {
            group.figures.insert(name.to_owned(), of(at + index));
        }
        group.shares.insert(odd.name(at), odd.number(at));
    }
    set.document.scenario.name = odd.name(1);
    set.document.scenario.description = odd.name(2);
    set.document.summary.notes.clone_from(&odd.names);
}

/// The handover result with message figures replaced by odd values.
fn disturbed_messages(odd: &Odd) -> ResultSet {
    let mut set = synthetic::handover();
    set.document.runs.truncate(5);
    for (at, run) in set.document.runs.iter_mut().enumerate() {
        disturb_run(run, odd, at);
        run.pattern = if odd.flag(at + 5) { odd.name(at + 2) } else { run.pattern.clone() };
        run.fct_ms = odd.option(at + 2);
        run.handshake_ms = odd.option(at + 3);
        run.ping = odd.flag(at + 4).then(|| PingRecord {
            sent: odd.counter(at) as u32,
            lost: odd.counter(at + 1) as u32,
            median_ms: odd.option(at),
            min_ms: odd.option(at + 1),
            max_ms: odd.option(at + 2),
            rtts_ms: odd.numbers.clone(),
        });
        for delay in
            run.delay_ms.iter_mut().chain(run.directions.iter_mut().filter_map(|one| one.delay_ms.as_mut()))
        {
            (delay.messages, delay.unacknowledged) = (odd.counter(at + 2) as u32, odd.counter(at + 3) as u32);
            (delay.p50, delay.p95, delay.max) = (odd.number(at), odd.number(at + 1), odd.number(at + 2));
        }
        run.touched_by = vec![odd.name(at)];
        run.encrypted = odd.flag(at);
    }
    for (at, line) in set.lines.held.messages.iter_mut().enumerate().filter(|(at, _)| odd.flag(*at)) {
        line.due_ms = odd.number(at);
        line.delay_ms = odd.number(at + 1);
        line.unacknowledged = odd.flag(at + 1);
    }
    set.document.summary.groups = summarise(&set.document.runs);
    set.document.servers = synthetic::suite().document.servers;
    for (at, server) in set.document.servers.iter_mut().enumerate() {
        (server.address, server.ping_ms, server.name) =
            (odd.name(at), odd.option(at), Some(odd.name(at + 1)));
    }
    set
}

/// The walk with figures of handovers, links and delays replaced by odd values.
fn disturbed_walk(odd: &Odd) -> ResultSet {
    let mut set = synthetic::walk();
    set.document.runs.truncate(6);
    for (at, run) in set.document.runs.iter_mut().enumerate() {
        run.repetition = 1 + odd.counter(at) as u32 % 2;
        run.handover = run.handover.take().filter(|_| odd.flag(at));
        if let Some(handover) = &mut run.handover {
            (handover.from, handover.to) = (odd.name(at), odd.name(at + 1));
            (handover.began_ms, handover.srtt_ms, handover.rto_ms) =
                (odd.number(at), odd.number(at + 1), odd.number(at + 2));
            (handover.duration_sent_ms, handover.duration_received_ms) = (odd.option(at), odd.option(at + 1));
            handover.remark = Some(odd.name(at + 2));
        }
        for (index, one) in run.directions.iter_mut().filter_map(|one| one.delay_ms.as_mut()).enumerate() {
            one.max = odd.number(at + index);
        }
        for emulation in run.links.iter_mut().filter_map(|link| link.emulation.as_mut()) {
            emulation.forward.dropped_packets.insert(odd.name(at), odd.counter(at));
            emulation.forward.offered_packets = odd.counter(at + 1);
            emulation.reverse.lateness_ms.p99 = odd.number(at);
        }
    }
    for (at, line) in set.lines.held.links.iter_mut().enumerate().filter(|(at, _)| odd.flag(*at)) {
        line.t_ms = odd.number(at);
        (line.queue_bytes, line.delivered_bytes) = (odd.counter(at), odd.counter(at + 1));
        line.dropped_packets = odd.counter(at + 2);
        (line.rate_bps, line.loss) = (Some(odd.counter(at)).filter(|_| odd.flag(at + 1)), odd.option(at));
    }
    set.document.summary.groups = summarise(&set.document.runs);
    set.document.summary.mobility = summarise_mobility(&set.document.runs);
    set
}

/// The study of path MTUs with sizes, diagnoses and an examination replaced by odd values.
fn disturbed_sizes(odd: &Odd) -> ResultSet {
    let mut set = synthetic::probing();
    set.document.runs.retain(|run| run.repetition == 1 && run.transport != Transport::Quic);
    set.document.runs.truncate(8);
    let kept: Vec<String> = set.document.runs.iter().map(|run| run.id.clone()).collect();
    set.lines.held.samples.retain(|line| kept.contains(&line.run));
    set.lines.held.deliveries.retain(|line| kept.contains(&line.run));
    for (at, run) in set.document.runs.iter_mut().enumerate() {
        for (index, link) in run.links.iter_mut().enumerate().filter(|(index, _)| odd.flag(at + index)) {
            link.name = odd.name(at + index);
            let sizes = odd.counters.iter().map(|one| (*one as u32, one.rotate_left(7)));
            link.packet_sizes = Some(PacketSizes {
                forward: sizes.clone().collect(),
                reverse: if odd.flag(at) { sizes.collect() } else { BTreeMap::new() },
                missed_packets: odd.counter(index),
            });
        }
        for one in &mut run.diagnoses {
            (one.path, one.because, one.remedy) = (odd.name(at), odd.name(at + 1), odd.name(at + 2));
            (one.from_ms, one.to_ms) = (odd.option(at), odd.option(at + 1));
        }
        if odd.flag(at + 1) {
            run.variant.insert(odd.name(at), json!(odd.number(at)));
        }
    }
    for (at, sample) in set.lines.held.samples.iter_mut().enumerate().filter(|(at, _)| odd.flag(*at)) {
        sample.t_ms = odd.number(at);
        let figures = &mut sample.figures;
        (figures.mss_bytes, figures.pmtu_bytes) = (odd.counter(at) as u32, odd.counter(at + 1) as u32);
        (figures.retransmitted_bytes, figures.cwnd_bytes) = (odd.counter(at + 2), odd.counter(at));
        (figures.backoff, figures.srtt_ms) = (odd.counter(at + 1) as u32, odd.number(at + 1));
        figures.state = if odd.flag(at + 2) { PathState::Closed } else { PathState::Open };
    }
    set.document.summary.groups = summarise(&set.document.runs);
    let mut record = synthetic::examination();
    // Commands are never truncated, regardless of their length.
    record.steps.clear();
    for (at, path) in record.paths.iter_mut().enumerate() {
        (path.name, path.local, path.remote) = (odd.name(at), odd.name(at + 1), odd.name(at + 2));
        path.upload.mtu_bytes = odd.flag(at).then(|| odd.counter(at) as u32);
        (path.upload.confidence, path.upload.loss, path.upload.rtt_ms) =
            (odd.option(at), odd.option(at + 1), odd.option(at + 2));
        path.advice = vec![odd.name(at)];
        if let Some(kernel) = &mut path.kernel {
            (kernel.destination, kernel.cached_expires_s) = (odd.name(at), odd.option(at));
        }
    }
    for (at, change) in record.changes.iter_mut().enumerate() {
        (change.path, change.t_ms) = (odd.name(at), odd.number(at));
    }
    set.document.mtu = Some(record);
    set
}

/// The page is complete, no figure contains NaN or infinity, and no line of the summary is too wide.
fn is_reported(set: &ResultSet) -> Result<(), TestCaseError> {
    let (page, figures) = html::page(std::slice::from_ref(set));
    prop_assert!(page.ends_with("</html>"));
    for block in Parts::of(&page).blocks {
        prop_assert!(serde_json::from_str::<Value>(block).is_ok(), "{block}");
    }
    let mut rasterised = BTreeSet::new();
    for figure in figures.concat().into_iter().rev() {
        let text = figure.svg.to_string();
        prop_assert!(!text.contains("NaN") && !text.contains("inf\""), "no number that is none");
        // Only three kinds: rasterising takes longest.
        let kind = figure.name.split('-').next().map(str::to_owned);
        if rasterised.len() < 3 && rasterised.insert(kind) {
            prop_assert!(raster::png(&figure.svg, 0.2).is_ok());
        }
    }
    let text = summary(set, Style { colour: false, width: 80 });
    for line in text.lines() {
        prop_assert!(line.width() <= 80, "{} columns: {line}", line.width());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn odd_sizes_are_reported_without_a_panic(odd in odd()) {
        is_reported(&disturbed_sizes(&odd))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn odd_walks_are_reported_without_a_panic(odd in odd()) {
        is_reported(&disturbed_walk(&odd))?;
    }

    #[test]
    fn odd_messages_are_reported_without_a_panic(odd in odd()) {
        is_reported(&disturbed_messages(&odd))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn everything_is_reported_without_a_panic(odd in odd()) {
        let set = disturbed(&odd);
        let stories = narrative::stories(&set);
        prop_assert!(stories.iter().all(|story| !story.headline.is_empty()));
        is_reported(&set)?;
    }

    #[test]
    fn no_line_is_wider_than_the_terminal(odd in odd(), width in 0..200_usize) {
        let text = summary(&disturbed(&odd), Style { colour: false, width });
        for line in text.lines() {
            prop_assert!(line.width() <= width.max(Style::LEAST_WIDTH), "{} columns: {line}", line.width());
        }
    }
}

#[test]
fn odd_results_are_reported() {
    let mut one_sample = synthetic::aggregate(1, false);
    one_sample.lines.held.samples.truncate(1);
    one_sample.lines.held.deliveries.truncate(1);
    let mut no_lines = synthetic::failover();
    (no_lines.lines.held.samples, no_lines.lines.held.events, no_lines.lines.held.deliveries) =
        (Vec::new(), Vec::new(), Vec::new());
    let sets = [
        synthetic::nothing("empty", ""),
        one_sample,
        no_lines,
        synthetic::forty_labels(),
        synthetic::all_invalid(),
        synthetic::silence(),
    ];
    for set in &sets {
        let text = summary(set, Style { colour: false, width: 80 });
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        let figures = figures(std::slice::from_ref(set)).concat();
        assert!(figures.iter().any(|one| one.name.starts_with("comparison")));
        for figure in figures {
            assert!(raster::png(&figure.svg, 0.5).is_ok(), "{}", figure.name);
        }
    }
    let has = |set: &ResultSet, name: &str| {
        figures(std::slice::from_ref(set))[0].iter().any(|one| one.name == name)
    };
    assert!(has(&sets[0], "timeline"), "also where there is no run");
    assert!(has(&sets[5], "overview"), "several patterns");
    assert!(has(&sets[5], "delay-interactive"), "also without a message");
    assert!(has(&sets[5], "distribution-ping"), "also without an answer");
    assert!(html::report(&sets).contains("Comparison of 6 results"));
    assert!(html::report(&[]).contains("There is nothing to report."));
}

/// Replaces the number at the `wanted`th place of `value`; the count of numbers so far.
fn replace_number(value: &mut Value, wanted: usize, by: &Value, seen: &mut usize) {
    match value {
        Value::Number(_) => {
            if *seen == wanted {
                *value = by.clone();
            }
            *seen += 1;
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_number(item, wanted, by, seen)),
        Value::Object(fields) => fields.values_mut().for_each(|item| replace_number(item, wanted, by, seen)),
        _ => {}
    }
}

#[test]
fn every_number_of_a_trace_can_be_odd() {
    let whole = serde_json::to_value(synthetic::traced()).unwrap();
    let mut count = 0;
    replace_number(&mut whole.clone(), usize::MAX, &Value::Null, &mut count);
    assert!(count > 200, "{count}");
    let out = tempfile::tempdir().unwrap();
    let mut drawn = 0;
    for wanted in 0..count {
        for odd in [json!(u64::MAX), json!(1e308), json!(-1e308), json!(0), json!(1e-300)] {
            let mut document = whole.clone();
            replace_number(&mut document, wanted, &odd, &mut 0);
            // Not every field takes every number.
            let Ok(document) = serde_json::from_value(document) else { continue };
            let text = trace(&document, Style { colour: false, width: 80 });
            // Filters are never truncated.
            let long = text.lines().find(|line| line.width() > 80 && !line.contains("filter:"));
            assert_eq!(long, None, "{odd} at {wanted}");
            if wanted % 7 == 0 {
                pathbench_report::trace::write(&document, &[], out.path(), FigureFormat::Svg).unwrap();
                drawn += 1;
            }
        }
    }
    assert!(drawn > 50, "{drawn}");
}
