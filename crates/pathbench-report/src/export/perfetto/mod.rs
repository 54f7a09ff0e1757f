//! A run as a Perfetto trace: `TrackEvent` packets in protobuf (`protos/perfetto/trace/track_event/*.proto` of Perfetto's source).
//!
//! A process for the application, each path, each link and the events; in it a track per counter. Slices of one track never
//! overlap, because Perfetto nests overlapping slices.

mod encoding;

use crate::run_data::RunData;
use crate::series::{BIN_MS, MARKED_SILENCE_MS};
use encoding::{TraceWriter, Track};
use pathbench_record::delivery::DeliveryLine;
use pathbench_record::document::{LinkSample, RunRecord};
use pathbench_record::end::MessageLine;
use pathbench_record::event::{Event, EventKind, EventSource};
use pathbench_record::sample::{Sample, Side};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the trace of a run.
pub(super) fn write(run: &RunRecord, data: &RunData, file: &mut impl Write) -> io::Result<()> {
    let mut out = TraceWriter::new(file, start_ms(data));
    let application = format!("application: {} {} ({})", run.label, run.pattern, run.id);
    let process = out.process(&application)?;
    for (direction, lines) in group_by_key(&data.deliveries, |line| line.direction) {
        goodput(&mut out, process, direction.name(), &lines)?;
    }
    for (direction, lines) in group_by_key(&data.messages, |line| line.direction) {
        delays(&mut out, process, direction.name(), &lines)?;
    }
    for (path, samples) in group_by_key(&data.samples, |sample| sample.path.clone()) {
        let process = out.process(&format!("path: {path}"))?;
        let key = |sample: &&Sample| (sample.side, sample.stream, sample.figures.subflow);
        for ((side, stream, subflow), samples) in group_by_key(samples, key) {
            let side = if side == Side::Client { "client" } else { "server" };
            let group = out.group(process, &format!("{side}, stream {stream}, subflow {subflow}"))?;
            path_figures(&mut out, group, &samples)?;
        }
        outages(&mut out, process, data.events.iter().filter(|event| event.path.as_ref() == Some(&path)))?;
    }
    for (link, samples) in group_by_key(&data.links, |sample| sample.link.clone()) {
        let process = out.process(&format!("link: {link}"))?;
        for (direction, samples) in group_by_key(samples, |sample| sample.direction) {
            let group = out.group(process, direction.name())?;
            link_figures(&mut out, group, &samples)?;
        }
    }
    if !data.events.is_empty() {
        let process = out.process("events")?;
        for (source, events) in group_by_key(&data.events, |event| source_name(event.source)) {
            let track = out.track(process, source)?;
            for event in events {
                instant(&mut out, track, event)?;
            }
        }
    }
    Ok(())
}

/// The earliest time: Perfetto drops what is before 0.
fn start_ms(data: &RunData) -> f64 {
    let times = data.samples.iter().map(|line| line.t_ms);
    let times = times.chain(data.events.iter().map(|line| line.t_ms));
    let times = times.chain(data.deliveries.iter().map(|line| line.t_ms));
    let times = times.chain(data.messages.iter().map(|line| line.due_ms));
    times.chain(data.links.iter().map(|line| line.t_ms)).fold(0.0, f64::min)
}

/// The items of each key, in the order of the keys.
fn group_by_key<T, K: Ord>(items: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> BTreeMap<K, Vec<T>> {
    let mut groups: BTreeMap<K, Vec<T>> = BTreeMap::new();
    for item in items {
        groups.entry(key(&item)).or_default().push(item);
    }
    groups
}

fn goodput<W: Write>(
    out: &mut TraceWriter<W>,
    process: Track,
    direction: &str,
    lines: &[&DeliveryLine],
) -> io::Result<()> {
    let rate = out.counter(process, &format!("goodput {direction}"), "Mbit/s")?;
    let stalls = out.track(process, &format!("no byte {direction}"))?;
    let mut end_ms: Option<f64> = None;
    for line in lines {
        if let Some(end_ms) = end_ms.filter(|end_ms| line.t_ms > end_ms + BIN_MS / 2.0) {
            out.count(rate, end_ms, 0.0)?;
            if line.t_ms - end_ms >= MARKED_SILENCE_MS {
                out.slice(stalls, "no byte received", [end_ms, line.t_ms])?;
            }
        }
        out.count(rate, line.t_ms, line.bytes as f64 * 8.0 / BIN_MS / 1000.0)?;
        end_ms = Some(line.t_ms + BIN_MS);
    }
    end_ms.map_or(Ok(()), |end_ms| out.count(rate, end_ms, 0.0))
}

fn delays<W: Write>(
    out: &mut TraceWriter<W>,
    process: Track,
    direction: &str,
    lines: &[&MessageLine],
) -> io::Result<()> {
    let delay = out.counter(process, &format!("message delay {direction}, by due time"), "ms")?;
    lines.iter().try_for_each(|line| out.count(delay, line.due_ms, line.delay_ms))
}

fn path_figures<W: Write>(out: &mut TraceWriter<W>, group: Track, samples: &[&Sample]) -> io::Result<()> {
    type Of = fn(&Sample) -> f64;
    let figures: [(&str, &str, Of); 8] = [
        ("cwnd", "bytes", |one| one.figures.cwnd_bytes as f64),
        ("in flight", "bytes", |one| one.figures.in_flight_bytes as f64),
        ("smoothed RTT", "ms", |one| one.figures.srtt_ms),
        ("RTO", "ms", |one| one.figures.rto_ms),
        ("retransmitted", "bytes", |one| one.figures.retransmitted_bytes as f64),
        ("MSS", "bytes", |one| f64::from(one.figures.mss_bytes)),
        ("path MTU", "bytes", |one| f64::from(one.figures.pmtu_bytes)),
        ("backoff", "steps", |one| f64::from(one.figures.backoff)),
    ];
    for (name, unit, of) in figures {
        let counter = out.counter(group, name, unit)?;
        samples.iter().try_for_each(|sample| out.count(counter, sample.t_ms, of(sample)))?;
    }
    let rates: [(&str, Of); 2] = [
        ("sent", |one| one.figures.bytes_sent as f64),
        ("received", |one| one.figures.bytes_received as f64),
    ];
    for (name, of) in rates {
        let counter = out.counter(group, name, "Mbit/s")?;
        let points: Vec<(f64, f64)> = samples.iter().map(|sample| (sample.t_ms, of(sample))).collect();
        differences(out, counter, &points)?;
    }
    Ok(())
}

/// The rate between each two points of a counter of bytes, from the first of them on.
fn differences<W: Write>(out: &mut TraceWriter<W>, counter: Track, points: &[(f64, f64)]) -> io::Result<()> {
    for pair in points.windows(2) {
        let [(from_ms, before), (until_ms, after)] = [pair[0], pair[1]];
        if until_ms > from_ms {
            out.count(counter, from_ms, (after - before).max(0.0) * 8.0 / (until_ms - from_ms) / 1000.0)?;
        }
    }
    points.last().map_or(Ok(()), |(t_ms, _)| out.count(counter, *t_ms, 0.0))
}

fn link_figures<W: Write>(out: &mut TraceWriter<W>, group: Track, samples: &[&LinkSample]) -> io::Result<()> {
    type Of = fn(&LinkSample) -> Option<f64>;
    let figures: [(&str, &str, Of); 5] = [
        ("queue", "bytes", |one| Some(one.queue_bytes as f64)),
        ("dropped", "packets", |one| Some(one.dropped_packets as f64)),
        ("rate in force", "Mbit/s", |one| Some(one.rate_bps? as f64 / 1e6)),
        ("delay in force", "ms", |one| one.delay_ms),
        ("loss in force", "", |one| one.loss),
    ];
    for (name, unit, of) in figures {
        if samples.iter().all(|sample| of(sample).is_none()) {
            continue;
        }
        let counter = out.counter(group, name, unit)?;
        for sample in samples {
            if let Some(value) = of(sample) {
                out.count(counter, sample.t_ms, value)?;
            }
        }
    }
    let counter = out.counter(group, "delivered", "Mbit/s")?;
    let points: Vec<(f64, f64)> = samples.iter().map(|one| (one.t_ms, one.delivered_bytes as f64)).collect();
    differences(out, counter, &points)
}

/// The times in which the scenario keeps the path from working.
fn outages<'a, W: Write>(
    out: &mut TraceWriter<W>,
    process: Track,
    events: impl Iterator<Item = &'a Event>,
) -> io::Result<()> {
    use EventKind::{AddAddress, Blackhole, Down, Outage, RemoveAddress, Restore, Up};
    let begins = |event: &&Event| matches!(event.kind, Down | Blackhole | Outage | RemoveAddress);
    let ends = |event: &&Event| matches!(event.kind, Up | Restore | AddAddress);
    let changes: Vec<&Event> = events
        .filter(|event| event.source == EventSource::Scenario && (begins(event) || ends(event)))
        .collect();
    if !changes.iter().any(begins) {
        return Ok(());
    }
    let track = out.track(process, "outage")?;
    // Of several events in a row that take the path away, the first begins the outage.
    for same in changes.chunk_by(|a, b| begins(a) == begins(b)) {
        if begins(&same[0]) {
            out.begin(track, same[0].kind.name(), same[0].t_ms)?;
        } else if !std::ptr::eq(same[0], changes[0]) {
            out.end(track, same[0].t_ms)?;
        }
    }
    Ok(())
}

fn source_name(source: EventSource) -> &'static str {
    match source {
        EventSource::Scenario => "scenario",
        EventSource::Mptcp => "MPTCP path manager",
        EventSource::Quic => "QUIC",
        EventSource::Link => "links and addresses",
        EventSource::Observer => "observer",
    }
}

fn instant<W: Write>(out: &mut TraceWriter<W>, track: Track, event: &Event) -> io::Result<()> {
    let path = event.path.as_deref().map(|path| ("path", path.to_owned()));
    let detail = event.detail.iter().map(|(key, value)| (key.as_str(), crate::view::value_text(value)));
    let fields: Vec<(&str, String)> =
        [("host", event.host.clone())].into_iter().chain(path).chain(detail).collect();
    let name = match &event.path {
        Some(path) => format!("{} {path}", event.kind.name()),
        None => event.kind.name().to_owned(),
    };
    out.instant(track, &name, event.t_ms, &fields)
}
