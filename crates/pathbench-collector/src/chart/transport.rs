//! Figures by transport.

use super::document::{Chart, Meta};
use super::scene::Scene;
use super::shape::{Group, Unit, VOTES, course, quartiles, votes_by_transport};
use crate::columns::{BucketHistogram, Dimension};
use crate::facts::measure;
use pathbench_record::transport::Transport;
use pathbench_report::plot::Hue;

const MULTIPATH: &str =
    "Figures of multipath transports are from results in which several paths carried data.";
const BARS: &str = "Tick: median; bar: the middle half.";

/// Pattern, and its name in charts.
const PATTERNS: [(&str, &str); 4] = [
    ("throughput-download", "download"),
    ("throughput-upload", "upload"),
    ("throughput", "throughput"),
    ("bulk", "bulk"),
];

fn series(scene: &Scene) -> Vec<(&'static str, Hue)> {
    scene.transports.iter().map(|transport| (transport.name(), Hue::Transport(*transport))).collect()
}

fn group(scene: &Scene, (pattern, name): (&str, &str), figure: &str) -> Option<Group> {
    let measure = measure(pattern, figure)?;
    let of = |transport: &Transport| {
        scene.columns.histogram(&scene.selection, scene.columns.figure(measure, *transport))
    };
    let values: Vec<BucketHistogram> = scene.transports.iter().map(of).collect();
    Some(Group::new(name, values))
}

fn by_pattern(scene: &Scene, meta: Meta, unit: Unit, patterns: &[(&str, &str)], figure: &str) -> Chart {
    let groups: Vec<Group> = patterns.iter().filter_map(|pattern| group(scene, *pattern, figure)).collect();
    quartiles(meta.caption(BARS), (unit, "Pattern"), &series(scene), &groups, None)
}

pub(super) fn goodput(scene: &Scene, meta: Meta) -> Chart {
    let words = "Goodput: bytes delivered to the receiving application per second; of single-path transports on their \
                 best path; one median a result and pattern.";
    let meta = meta.caption(words).caption(MULTIPATH).x("goodput");
    by_pattern(scene, meta, Unit::Mbps, &PATTERNS, "goodput_mbps")
}

pub(super) fn stall(scene: &Scene, meta: Meta) -> Chart {
    let words = "Stall: the longest time without a byte for the receiving application while the sender has data \
                 outstanding; one median a result and pattern.";
    let meta = meta.caption(words).caption(MULTIPATH).x("stall");
    by_pattern(scene, meta, Unit::Milliseconds, &PATTERNS, "stall_ms")
}

pub(super) fn completion_time(scene: &Scene, meta: Meta) -> Chart {
    let words = "Flow completion time (FCT): from the opening of the connection to the last verified byte of a bulk transfer. It \
                 includes the handshake; one median a result.";
    let meta = meta.caption(words).caption(MULTIPATH).x("flow completion time");
    by_pattern(scene, meta, Unit::Milliseconds, &[("bulk", "bulk")], "fct_ms")
}

/// The maximum delays of a transport in both directions.
const DELAYS: [(&str, &str); 2] = [("delay_max_upload_ms", "upload"), ("delay_max_download_ms", "download")];

pub(super) fn max_delay(scene: &Scene, meta: Meta) -> Chart {
    let words = "Delay of a message of the interactive pattern, from the moment it was due to its acknowledgement; the \
                 maximum of each run, one median a result.";
    let of = |(figure, name)| group(scene, ("interactive", name), figure);
    let groups: Vec<Group> = DELAYS.into_iter().filter_map(of).collect();
    let meta = meta.caption(words).caption(BARS).x("maximum delay");
    quartiles(meta, (Unit::Milliseconds, "Direction"), &series(scene), &groups, None)
}

pub(super) fn max_delay_by_kind(scene: &Scene, meta: Meta) -> Chart {
    let measure = measure("interactive", "delay_max_ms").unwrap_or_default();
    let columns: Vec<_> =
        scene.transports.iter().map(|one| vec![scene.columns.figure(measure, *one)]).collect();
    let groups = Group::by_dimension(scene, Dimension::Kind, &columns);
    let words = "The larger of both directions. A result with networks of several kinds counts in each.";
    let meta = meta.caption(words).caption(BARS).x("maximum delay");
    quartiles(meta, (Unit::Milliseconds, "Network"), &series(scene), &groups, None)
}

pub(super) fn delay_under_load(scene: &Scene, meta: Meta) -> Chart {
    let words = "Increase of the 95th percentile of the round-trip time of UDP datagrams on the path from idle to the phase of \
                 load with the largest one; of single-path transports on their best path.";
    let meta = meta.caption(words).caption(VOTES).x("increase of the delay");
    let measure = measure("responsiveness", "path_increase_p95_ms").unwrap_or_default();
    votes_by_transport(scene, meta, Unit::Milliseconds, measure)
}

pub(super) fn rpm(scene: &Scene, meta: Meta) -> Chart {
    let words = "Round trips per minute (RPM) under load, after draft-ietf-ippm-responsiveness-08; the lowest of the phases \
                 of load, of single-path transports on their best path.";
    let meta = meta.caption(words).caption(VOTES).x("round trips per minute");
    let measure = measure("responsiveness", "rpm").unwrap_or_default();
    votes_by_transport(scene, meta, Unit::Rpm, measure)
}

pub(super) fn goodput_over_time(scene: &Scene, meta: Meta) -> Chart {
    let meta = meta.caption("Download goodput.").caption(MULTIPATH);
    let measure = measure("throughput-download", "goodput_mbps").unwrap_or_default();
    let series = scene.transports.iter().map(|transport| {
        (transport.name(), Hue::Transport(*transport), vec![scene.columns.figure(measure, *transport)])
    });
    course(scene, meta, Unit::Mbps, series.collect())
}
