//! The comparison over repetitions: runs of one label and pattern in one variant, and links over all runs.

mod mobility;

pub use mobility::{max_delay_pairs, summarise_mobility};

use crate::datagram::DatagramFigures;
use crate::direction::Direction;
use crate::document::{Group, LinkMeasurement, LinkRecord, OneWayDelay, ResultDocument, RunRecord, Variant};
use crate::response::ProbeKind;
use crate::statistics::{distribution, median};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Computes links, groups and mobility of `document` from its runs.
pub fn summarise_document(document: &mut ResultDocument) {
    measure_links(&mut document.links, &document.runs);
    document.summary.groups = summarise(&document.runs);
    document.summary.mobility = summarise_mobility(&document.runs);
}

/// Groups `runs` by variant, label and pattern, in the order of first appearance.
///
/// Only valid runs count in the figures and shares. A figure's `n` counts the runs with that figure: it is less than
/// `valid` if some runs have none (a run without recovery has no `recovery_ms`). Warm-up runs belong to no group.
pub fn summarise(runs: &[RunRecord]) -> Vec<Group> {
    let mut members: Vec<Vec<&RunRecord>> = Vec::new();
    for run in runs.iter().filter(|run| !run.warm_up) {
        let same = |group: &&mut Vec<&RunRecord>| {
            group.first().is_some_and(|first| {
                first.label == run.label && first.pattern == run.pattern && first.variant == run.variant
            })
        };
        match members.iter_mut().find(same) {
            Some(group) => group.push(run),
            None => members.push(vec![run]),
        }
    }
    members.iter().filter_map(|members| group(members)).collect()
}

fn group(members: &[&RunRecord]) -> Option<Group> {
    let first = members.first()?;
    let valid: Vec<&RunRecord> = members.iter().copied().filter(|run| run.valid).collect();
    let count = |condition: fn(&RunRecord) -> bool| {
        u32::try_from(valid.iter().filter(|run| condition(run)).count()).unwrap_or(u32::MAX)
    };
    Some(Group {
        variant: first.variant.clone(),
        label: first.label.clone(),
        pattern: first.pattern.clone(),
        runs: u32::try_from(members.len()).unwrap_or(u32::MAX),
        valid: count(|_| true),
        completed: count(|run| run.completed),
        multipath_used: count(|run| run.multipath.used),
        figures: FIGURES
            .iter()
            .filter_map(|&(name, of_run)| {
                let values: Vec<f64> = valid.iter().filter_map(|run| of_run(run)).collect();
                Some((name.to_owned(), distribution(&values)?))
            })
            .collect(),
        shares: shares(&valid),
        jains_index: None,
    })
}

/// The figure of a run by its name in `summary.groups[].figures`.
pub fn figure(run: &RunRecord, name: &str) -> Option<f64> {
    let (_, of_run) = FIGURES.iter().find(|(known, _)| *known == name)?;
    of_run(run)
}

/// The names of all figures that are compared over repetitions.
pub fn figure_names() -> impl Iterator<Item = &'static str> {
    FIGURES.iter().map(|(name, _)| *name)
}

/// Variants in the order of their values, key after key: numbers before words, 9 before 10.
pub fn order_of_variants(a: &Variant, b: &Variant) -> Ordering {
    let of_values = a.iter().zip(b).map(|((key, one), (other_key, other))| {
        key.cmp(other_key).then_with(|| {
            let (one, other) = (value_text(one), value_text(other));
            leading_number(&one).total_cmp(&leading_number(&other)).then_with(|| one.cmp(&other))
        })
    });
    of_values.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn leading_number(text: &str) -> f64 {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(text.len());
    text[..end].parse().unwrap_or(f64::INFINITY)
}

type Figure = fn(&RunRecord) -> Option<f64>;

/// The figures of a run that are compared over repetitions, by their field's name.
const FIGURES: [(&str, Figure); 30] = [
    ("goodput_mbps", |run| run.goodput_mbps),
    ("stall_ms", |run| run.stall_ms),
    ("recovery_ms", |run| run.recovery_ms),
    ("dip", |run| run.dip),
    ("failback_ms", |run| run.failback_ms),
    ("hung_ms", |run| run.hung_ms),
    ("handshake_ms", |run| run.handshake_ms),
    ("fct_ms", |run| run.fct_ms),
    ("ping_ms", |run| run.ping.as_ref()?.median_ms),
    ("delay_p50_ms", |run| Some(run.delay_ms.as_ref()?.p50)),
    ("delay_p95_ms", |run| Some(run.delay_ms.as_ref()?.p95)),
    ("delay_max_ms", |run| Some(run.delay_ms.as_ref()?.max)),
    ("delay_max_upload_ms", |run| run.max_delay_ms(Direction::Upload)),
    ("delay_max_download_ms", |run| run.max_delay_ms(Direction::Download)),
    ("handover_sent_ms", |run| run.handover.as_ref()?.duration_sent_ms),
    ("handover_received_ms", |run| run.handover.as_ref()?.duration_received_ms),
    ("self_idle_p50_ms", |run| run.responsiveness.as_ref()?.idle(ProbeKind::Own, |delay| delay.p50_ms)),
    ("self_idle_p95_ms", |run| run.responsiveness.as_ref()?.idle(ProbeKind::Own, |delay| delay.p95_ms)),
    ("self_loaded_p50_ms", |run| run.responsiveness.as_ref()?.loaded(ProbeKind::Own, |delay| delay.p50_ms)),
    ("self_loaded_p95_ms", |run| run.responsiveness.as_ref()?.loaded(ProbeKind::Own, |delay| delay.p95_ms)),
    ("foreign_idle_p50_ms", |run| {
        run.responsiveness.as_ref()?.idle(ProbeKind::Foreign, |delay| delay.p50_ms)
    }),
    ("foreign_idle_p95_ms", |run| {
        run.responsiveness.as_ref()?.idle(ProbeKind::Foreign, |delay| delay.p95_ms)
    }),
    ("foreign_loaded_p50_ms", |run| {
        run.responsiveness.as_ref()?.loaded(ProbeKind::Foreign, |delay| delay.p50_ms)
    }),
    ("foreign_loaded_p95_ms", |run| {
        run.responsiveness.as_ref()?.loaded(ProbeKind::Foreign, |delay| delay.p95_ms)
    }),
    ("path_increase_p95_ms", |run| run.responsiveness.as_ref()?.path_increase_p95_ms()),
    ("rpm", |run| run.responsiveness.as_ref()?.least_rpm()),
    ("datagram_loss", |run| worst_of_datagrams(run, |figures| figures.loss)),
    ("datagram_jitter_ms", |run| worst_of_datagrams(run, |figures| figures.jitter_ms)),
    ("datagram_late_share", |run| worst_of_datagrams(run, |figures| figures.late_share)),
    ("datagram_gap_ms", |run| worst_of_datagrams(run, |figures| figures.longest_gap_ms)),
];

/// The larger figure of the directions of a run of datagrams.
fn worst_of_datagrams(run: &RunRecord, figure: fn(&DatagramFigures) -> Option<f64>) -> Option<f64> {
    run.datagrams.values().filter_map(|record| figure(&record.all)).max_by(f64::total_cmp)
}

/// Path → median share; the share is zero in a run without the path.
fn shares(runs: &[&RunRecord]) -> BTreeMap<String, f64> {
    let names: BTreeSet<&str> =
        runs.iter().flat_map(|run| &run.paths).map(|path| path.name.as_str()).collect();
    names
        .into_iter()
        .filter_map(|name| {
            let share = |run: &&RunRecord| -> f64 {
                run.paths.iter().filter(|path| path.name == name).map(|path| path.share).sum()
            };
            let values: Vec<f64> = runs.iter().map(share).collect();
            Some((name.to_owned(), median(&values)?))
        })
        .collect()
}

/// Sets each link's `measured` to the medians over the runs of its variant, valid or not; a link without measurement
/// has none.
pub fn measure_links(links: &mut [LinkRecord], runs: &[RunRecord]) {
    for link in links {
        let of_variant =
            |run: &&RunRecord| link.variant.iter().all(|(key, value)| run.variant.get(key) == Some(value));
        let measured = runs.iter().filter(of_variant).flat_map(|run| &run.links);
        let measured: Vec<&LinkMeasurement> =
            measured.filter(|one| one.name == link.name).filter_map(|one| one.measured.as_ref()).collect();
        link.measured = median_measurement(&measured);
    }
}

fn median_measurement(measured: &[&LinkMeasurement]) -> Option<LinkMeasurement> {
    let of = |figure: fn(&LinkMeasurement) -> Option<f64>| {
        let values: Vec<f64> = measured.iter().filter_map(|one| figure(one)).collect();
        median(&values)
    };
    Some(LinkMeasurement {
        forward_bps: of(|one| one.forward_bps.map(|bps| bps as f64)).map(|bps| bps.round() as u64),
        reverse_bps: of(|one| one.reverse_bps.map(|bps| bps as f64)).map(|bps| bps.round() as u64),
        rtt_ms: of(|one| Some(one.rtt_ms))?,
        min_rtt_ms: of(|one| Some(one.min_rtt_ms))?,
        forward_mtu_bytes: of(|one| Some(f64::from(one.forward_mtu_bytes)))?.round() as u32,
        reverse_mtu_bytes: of(|one| Some(f64::from(one.reverse_mtu_bytes)))?.round() as u32,
        forward_delay: all_delays(measured.iter().filter_map(|one| one.forward_delay)),
        reverse_delay: all_delays(measured.iter().filter_map(|one| one.reverse_delay)),
        forward_loss: mean(measured.iter().filter_map(|one| one.forward_loss)),
        reverse_loss: mean(measured.iter().filter_map(|one| one.reverse_loss)),
    })
}

/// One-way delays of several measurements: all packets, the smallest, medians of the quantiles, the largest.
fn all_delays(measured: impl Iterator<Item = OneWayDelay>) -> Option<OneWayDelay> {
    let measured: Vec<OneWayDelay> = measured.collect();
    let of = |figure: fn(&OneWayDelay) -> f64| measured.iter().map(figure).collect::<Vec<f64>>();
    Some(OneWayDelay {
        packets: measured.iter().map(|one| one.packets).fold(0, u32::saturating_add),
        min_ms: of(|one| one.min_ms).into_iter().reduce(f64::min)?,
        p50_ms: median(&of(|one| one.p50_ms))?,
        p95_ms: median(&of(|one| one.p95_ms))?,
        max_ms: of(|one| one.max_ms).into_iter().reduce(f64::max)?,
    })
}

/// Each measurement contains few losses: their mean estimates the probability, their median does not.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
