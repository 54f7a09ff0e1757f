//! A result put in order for showing: the lines of each run, the groups, and the run that stands for a group.

use crate::ResultSet;
use crate::palette::Paths;
use pathbench_record::document::{Distribution, Group, RunRecord, Variant};
use pathbench_record::event::{DeliveryLine, Direction, Event, EventSource};
use pathbench_record::sample::Sample;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// Times beyond this (eleven days) are taken for damaged records and left out of pictures.
pub(crate) const LATEST_MS: f64 = 1e9;

/// What was recorded of one run; each list is ordered by time and holds only times between 0 and [`LATEST_MS`].
#[derive(Debug, Default)]
pub(crate) struct RunData<'a> {
    pub(crate) samples: Vec<&'a Sample>,
    pub(crate) events: Vec<&'a Event>,
    pub(crate) deliveries: Vec<&'a DeliveryLine>,
}

impl<'a> RunData<'a> {
    /// What the scenario did during the run.
    pub(crate) fn scenario_events(&self) -> impl Iterator<Item = &'a Event> + '_ {
        self.events.iter().copied().filter(|event| event.source == EventSource::Scenario)
    }
}

/// All repetitions of one label in one variant, with what the document says of them together.
#[derive(Debug)]
pub(crate) struct GroupView<'a> {
    pub(crate) variant: &'a Variant,
    pub(crate) label: &'a str,
    pub(crate) runs: Vec<&'a RunRecord>,
    pub(crate) summary: Option<&'a Group>,
}

impl<'a> GroupView<'a> {
    /// The label, with its variant where there is one.
    pub(crate) fn name(&self) -> String {
        name_of(self.label, self.variant)
    }

    /// The distribution of a figure over the valid repetitions.
    pub(crate) fn figure(&self, name: &str) -> Option<&'a Distribution> {
        self.summary.and_then(|group| group.figures.get(name)).filter(|found| found.median.is_finite())
    }

    /// Median of a figure over the valid repetitions.
    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        self.figure(name).map(|found| found.median)
    }

    pub(crate) fn valid_runs(&self) -> impl Iterator<Item = &'a RunRecord> + '_ {
        self.runs.iter().copied().filter(|run| run.valid)
    }

    /// Number of valid runs.
    pub(crate) fn valid(&self) -> u32 {
        self.valid_runs().count() as u32
    }

    /// Number of valid runs that completed.
    pub(crate) fn completed(&self) -> u32 {
        self.valid_runs().filter(|run| run.completed).count() as u32
    }

    /// The run that is shown for the group: the valid run of median goodput (bytes delivered where a run has
    /// no goodput), the lower one of two; the first run when none is valid.
    pub(crate) fn representative(&self) -> Option<&'a RunRecord> {
        let mut valid: Vec<&RunRecord> = self.valid_runs().collect();
        valid.sort_by(|a, b| {
            let goodput = |run: &RunRecord| run.goodput_mbps.unwrap_or(-1.0);
            goodput(a).total_cmp(&goodput(b)).then(a.delivered_bytes.cmp(&b.delivered_bytes))
        });
        let middle = valid.len().saturating_sub(1) / 2;
        valid.get(middle).copied().or_else(|| self.runs.first().copied())
    }

    /// Whether the label is of a multipath transport.
    pub(crate) fn is_multipath(&self) -> bool {
        self.runs.iter().any(|run| run.multipath.requested || run.transport.is_multipath())
    }
}

/// A result set with its lines sorted to their runs.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) set: &'a ResultSet,
    pub(crate) paths: Paths,
    pub(crate) groups: Vec<GroupView<'a>>,
    data: HashMap<&'a str, RunData<'a>>,
    nothing: RunData<'a>,
}

impl<'a> View<'a> {
    pub(crate) fn new(set: &'a ResultSet) -> Self {
        Self::with_paths(set, Paths::of(&[set]))
    }

    /// A view whose path colours are shared with other results.
    pub(crate) fn with_paths(set: &'a ResultSet, paths: Paths) -> Self {
        let mut data: HashMap<&str, RunData> = HashMap::new();
        for sample in set.samples.iter().filter(|line| is_shown(line.t_ms)) {
            data.entry(&sample.run).or_default().samples.push(sample);
        }
        for event in set.events.iter().filter(|line| is_shown(line.t_ms)) {
            data.entry(&event.run).or_default().events.push(event);
        }
        for delivery in set.deliveries.iter().filter(|line| is_shown(line.t_ms)) {
            data.entry(&delivery.run).or_default().deliveries.push(delivery);
        }
        for lines in data.values_mut() {
            lines.samples.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
            lines.events.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
            lines.deliveries.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
        }
        Self { set, paths, groups: groups(set), data, nothing: RunData::default() }
    }

    /// What was recorded of `run`.
    pub(crate) fn data(&self, run: &RunRecord) -> &RunData<'a> {
        self.data.get(run.id.as_str()).unwrap_or(&self.nothing)
    }

    /// The variants, in the order of their groups.
    pub(crate) fn variants(&self) -> Vec<&'a Variant> {
        let mut variants: Vec<&Variant> = Vec::new();
        for group in &self.groups {
            if !variants.contains(&group.variant) {
                variants.push(group.variant);
            }
        }
        variants
    }

    /// The directions in which data flowed or was meant to, in order.
    pub(crate) fn directions(&self) -> Vec<Direction> {
        let recorded = self.set.document.runs.iter().flat_map(|run| &run.directions).map(|one| one.direction);
        let delivered = self.set.deliveries.iter().map(|line| line.direction);
        recorded.chain(delivered).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

fn is_shown(t_ms: f64) -> bool {
    // Also false for what is no number.
    (-1e4..=LATEST_MS).contains(&t_ms)
}

/// The groups in the summary's order, then those that only the runs know.
fn groups(set: &ResultSet) -> Vec<GroupView<'_>> {
    let mut groups: Vec<GroupView> = Vec::new();
    for group in &set.document.summary.groups {
        groups.push(GroupView {
            variant: &group.variant,
            label: &group.label,
            runs: Vec::new(),
            summary: Some(group),
        });
    }
    for run in &set.document.runs {
        let found = groups.iter_mut().find(|group| *group.variant == run.variant && group.label == run.label);
        match found {
            Some(group) => group.runs.push(run),
            None => groups.push(GroupView {
                variant: &run.variant,
                label: &run.label,
                runs: vec![run],
                summary: None,
            }),
        }
    }
    groups
}

/// `mptcp`, or `mptcp · wlan.icmp=off` where there is a variant.
pub(crate) fn name_of(label: &str, variant: &Variant) -> String {
    if variant.is_empty() { label.to_owned() } else { format!("{label} · {}", variant_text(variant)) }
}

/// A JSON value as a person writes it: strings without quotes.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `tcp_mtu_probing=2, wlan.icmp=off`: keys shortened to what tells them apart for a reader.
pub(crate) fn variant_text(variant: &Variant) -> String {
    let parts: Vec<String> =
        variant.iter().map(|(key, value)| format!("{}={}", short_key(key), value_text(value))).collect();
    parts.join(", ")
}

/// A scenario key without the part that a reader can do without.
fn short_key(key: &str) -> &str {
    let sysctl = key.split_once(".sysctl.").and_then(|(_, name)| name.rsplit('.').next());
    sysctl.or_else(|| key.strip_prefix("path.")).or_else(|| key.strip_prefix("run.")).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shortened_for_readers() {
        assert_eq!(short_key("host.client.sysctl.net.ipv4.tcp_mtu_probing"), "tcp_mtu_probing");
        assert_eq!(short_key("path.wlan.icmp"), "wlan.icmp");
        assert_eq!(short_key("run.iperf.streams"), "iperf.streams");
        assert_eq!(short_key("seed"), "seed");
    }
}
