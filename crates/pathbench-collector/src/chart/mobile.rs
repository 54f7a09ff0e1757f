//! Section IV of the `MultipathTester` paper (De Coninck and Bonaventure, 2019): handovers and delays of mobile runs.

use super::document::{Chart, Meta};
use super::scene::Scene;
use super::shape::{Curve, Unit, counts, distributions, percent};
use super::table::{Cell, DataTable};
use crate::columns::BucketHistogram;
use crate::facts::{Bucket, PairFact, REASONS, measure};
use pathbench_api::summary::Mode;
use pathbench_record::direction::Direction;
use pathbench_record::document::HandoverReason;
use pathbench_record::transport::Transport;
use pathbench_report::plot::{Axis, Hue, Marks, Plot, PlotSeries};
use std::collections::BTreeSet;

const MULTIPATH: [Transport; 2] = [Transport::Mptcp, Transport::Mpquic];

/// Points of a scatter chart; more hide each other.
const MOST_POINTS: usize = 400;

/// Buckets that share a point of a scatter chart: 6 % in each direction.
const COARSE: u16 = 4;

const fn words(reason: HandoverReason) -> &'static str {
    match reason {
        HandoverReason::RttThreshold => "Smoothed RTT over 600 ms",
        HandoverReason::UnderRto => "In retransmission timeout",
        HandoverReason::RtoThreshold => "RTO over 1500 ms",
        HandoverReason::Other => "Other",
    }
}

pub(super) fn reasons(scene: &Scene, meta: Meta) -> Chart {
    let mobile = scene.columns.of_mode(&scene.selection, Mode::Mobile);
    let mut found = [[0_u64; REASONS.len()]; MULTIPATH.len()];
    for one in scene.columns.handovers(&mobile) {
        let reason = REASONS.iter().position(|reason| *reason == one.reason);
        let transport = MULTIPATH.iter().position(|transport| *transport == one.transport);
        if let (Some(reason), Some(transport)) =
            (reason, transport.filter(|index| scene.shows(MULTIPATH[*index])))
        {
            found[transport][reason] += 1;
        }
    }
    let all: u64 = found.iter().flatten().sum();
    let row = |(index, reason): (usize, &HandoverReason)| {
        let counts = MULTIPATH.iter().zip(found).filter(|(_, counts)| counts[index] > 0);
        let detail: Vec<String> = counts.map(|(one, counts)| format!("{one} {}", counts[index])).collect();
        (words(*reason).to_owned(), detail.join(" · "), found.iter().map(|counts| counts[index]).sum())
    };
    let rows: Vec<(String, String, u64)> = REASONS.iter().enumerate().map(row).collect();
    let caption = "Table I of the MultipathTester paper: the state of the first path at the first byte sent on the \
                   second, in mobile results; the first condition that held. Choose a transport to see one only.";
    counts(
        meta.caption(caption).x("handovers").counting("handovers"),
        "Reason",
        (all, all),
        if all > 0 { &rows } else { &[] },
    )
}

pub(super) fn durations(scene: &Scene, meta: Meta) -> Chart {
    let mobile = scene.columns.of_mode(&scene.selection, Mode::Mobile);
    let mut found = vec![[BucketHistogram::default(), BucketHistogram::default()]; MULTIPATH.len()];
    for one in scene.columns.handovers(&mobile) {
        if let Some(index) = MULTIPATH.iter().position(|transport| *transport == one.transport) {
            found[index][0].add(one.received);
            found[index][1].add(one.sent);
        }
    }
    let curves = MULTIPATH.into_iter().zip(found).filter(|(transport, _)| scene.shows(*transport));
    let curves = curves.flat_map(|(transport, [received, sent])| {
        let curve = |what: &str, values| {
            Curve::new(&format!("{transport}, {what}"), Hue::Transport(transport), values)
        };
        [curve("last received", received), curve("last sent", sent).dashed()]
    });
    let meta = meta
        .caption(
            "Figure 6 of the MultipathTester paper: last activity on the first path (received or sent) after the first \
             data on the second, in mobile results. Negative: the first path had stopped before (abrupt).",
        )
        .x("duration");
    distributions(meta, Unit::SignedMilliseconds, curves.collect(), Some(0.0))
}

pub(super) fn delays(scene: &Scene, meta: Meta) -> Chart {
    let mobile = scene.columns.of_mode(&scene.selection, Mode::Mobile);
    let figures = [("delay_max_upload_ms", "upload"), ("delay_max_download_ms", "download")];
    let mut curves = Vec::new();
    for transport in MULTIPATH.into_iter().filter(|one| scene.shows(*one)) {
        for (figure, direction) in figures {
            let Some(measure) = measure("interactive", figure) else { continue };
            let column = scene.columns.figure(measure, transport);
            let values = scene.columns.histogram(&mobile, column);
            let curve = Curve::new(&format!("{transport}, {direction}"), Hue::Transport(transport), values);
            curves.push(if direction == "download" { curve.dashed() } else { curve });
        }
    }
    let meta = meta
        .caption(
            "Figure 7 of the MultipathTester paper, for both multipath transports: the maximum delay of a message in each \
             mobile result.",
        )
        .x("maximum delay (logarithmic)");
    distributions(meta, Unit::Milliseconds, curves, None)
}

pub(super) fn ratio(scene: &Scene, meta: Meta) -> Chart {
    let mobile = scene.columns.of_mode(&scene.selection, Mode::Mobile);
    let mut found = [BucketHistogram::default(), BucketHistogram::default()];
    for pair in scene.columns.delay_pairs(&mobile) {
        found[usize::from(pair.direction == Direction::Download)].add(pair.mptcp.ratio_to(pair.mpquic));
    }
    let [upload, download] = found;
    let curves = vec![
        Curve::new("upload", Hue::Upload, upload),
        Curve::new("download", Hue::Download, download).dashed(),
    ];
    let meta = meta
        .caption("Figure 8a of the MultipathTester paper: maximum delays of the same repetition of a mobile result.")
        .x("mptcp ÷ mpquic (logarithmic)")
        .corners("left of 1: mptcp is faster", "right of 1: mpquic is faster");
    distributions(meta, Unit::Ratio, curves, Some(1.0))
}

/// Pairs in the same coarse cell share a point; evenly thinned if there are still too many.
fn points(pairs: &[&PairFact]) -> Vec<(f64, f64)> {
    let coarse = |bucket: Bucket| bucket.0 / COARSE * COARSE + COARSE / 2;
    let cells: BTreeSet<(u16, u16)> =
        pairs.iter().map(|one| (coarse(one.mptcp), coarse(one.mpquic))).collect();
    let each = cells.len().div_ceil(MOST_POINTS).max(1);
    let value = |bits| Bucket(bits).value();
    cells.into_iter().step_by(each).filter_map(|(x, y)| Some((value(x)?, value(y)?))).collect()
}

pub(super) fn scatter(scene: &Scene, meta: Meta) -> Chart {
    let mobile = scene.columns.of_mode(&scene.selection, Mode::Mobile);
    let is_drawn = |pair: &&PairFact| [pair.mptcp, pair.mpquic].iter().all(|one| one.index() > 1);
    let pairs: Vec<&PairFact> = scene.columns.delay_pairs(&mobile).filter(is_drawn).collect();
    let values = || pairs.iter().flat_map(|pair| [pair.mptcp, pair.mpquic]);
    let ends = values().min().zip(values().max());
    let ends = ends.and_then(|(low, high)| low.value().zip(high.value()));
    let mut data = DataTable::new([
        ("direction", "Direction"),
        ("mptcp_ms", "Multipath TCP"),
        ("mpquic_ms", "Multipath QUIC"),
    ]);
    let mut table =
        DataTable::new([("direction", "Direction"), ("pairs", "Pairs"), ("mptcp_slower", "mptcp slower")]);
    let mut series = Vec::new();
    for (direction, hue) in [(Direction::Upload, Hue::Upload), (Direction::Download, Hue::Download)] {
        let of: Vec<&PairFact> = pairs.iter().copied().filter(|pair| pair.direction == direction).collect();
        if of.is_empty() {
            continue;
        }
        let slower = of.iter().filter(|pair| pair.mptcp > pair.mpquic).count() as f64 / of.len() as f64;
        table.rows.push(vec![
            Cell::text(direction.name()),
            Cell::Count(of.len() as u64),
            Cell::Quantity(slower, percent(slower)),
        ]);
        let points = points(&of);
        data.rows.extend(points.iter().map(|(mptcp, mpquic)| {
            vec![Cell::text(direction.name()), Cell::Number(*mptcp), Cell::Number(*mpquic)]
        }));
        let is_dashed = direction == Direction::Download;
        series.push(PlotSeries {
            name: direction.name().to_owned(),
            hue,
            is_dashed,
            marks: Marks::Points(points),
        });
    }
    let axes = ends.map(|(low, high)| (Axis::Milliseconds(low, high), Axis::Milliseconds(low, high)));
    let meta = meta
        .caption("Figure 8b of the MultipathTester paper: maximum delays of the same repetition of a mobile result. Near pairs share a point.")
        .x("mptcp (logarithmic)")
        .counting("pairs")
        .corners("mpquic slower", "mptcp slower");
    let y_title = "mpquic".to_owned();
    let plot = Plot { axes, series, has_diagonal: true, y_title, ..Plot::default() };
    Chart::new(meta, pairs.len() as u64, plot, table).with_data(data)
}
