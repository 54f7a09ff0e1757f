//! A result put in order for showing: the lines of each run, the groups, and the run that stands for a group.

use crate::ResultSet;
use crate::palette::Paths;
use crate::pattern::{Kind, Pattern, bound_mark};
use pathbench_record::direction::Direction;
use pathbench_record::document::{Distribution, Group, LinkSample, RunRecord, Variant};
use pathbench_record::event::{DeliveryLine, Event, EventSource};
use pathbench_record::message::MessageLine;
use pathbench_record::sample::Sample;
use pathbench_record::transport::{Transport, TransportLabel};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

/// Times beyond this (eleven days) are taken for damaged records and left out of pictures.
pub(crate) const LATEST_MS: f64 = 1e9;

/// What was recorded of one run; each list is ordered by time and holds only times between 0 and [`LATEST_MS`].
#[derive(Debug, Default)]
pub(crate) struct RunData<'a> {
    pub(crate) samples: Vec<&'a Sample>,
    pub(crate) events: Vec<&'a Event>,
    pub(crate) deliveries: Vec<&'a DeliveryLine>,
    pub(crate) messages: Vec<&'a MessageLine>,
    pub(crate) links: Vec<&'a LinkSample>,
}

impl<'a> RunData<'a> {
    pub(crate) fn scenario_events(&self) -> impl Iterator<Item = &'a Event> + '_ {
        self.events.iter().copied().filter(|event| event.source == EventSource::Scenario)
    }
}

/// All repetitions of one label and pattern in one variant, with what the document says of them together.
#[derive(Debug)]
pub(crate) struct GroupView<'a> {
    pub(crate) variant: &'a Variant,
    pub(crate) label: &'a str,
    pub(crate) pattern: Pattern<'a>,
    /// Whether the result has other patterns as well, so that the name of this one's has to be said.
    pub(crate) among_patterns: bool,
    pub(crate) runs: Vec<&'a RunRecord>,
    pub(crate) summary: Option<&'a Group>,
}

impl<'a> GroupView<'a> {
    /// The label, with its pattern where there are several, and its variant where there is one.
    pub(crate) fn name(&self) -> String {
        name_of(self.label, self.said_pattern(), self.variant)
    }

    pub(crate) fn said_pattern(&self) -> Option<&'a str> {
        self.among_patterns.then_some(self.pattern.name)
    }

    pub(crate) fn figure(&self, name: &str) -> Option<&'a Distribution> {
        self.summary.and_then(|group| group.figures.get(name)).filter(|found| found.median.is_finite())
    }

    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        self.figure(name).map(|found| found.median)
    }

    /// `≥ ` where the figure is a lower bound: some of the messages it rests on were never acknowledged.
    pub(crate) fn bound_mark(&self, name: &str) -> &'static str {
        let delays = self.valid_runs().filter_map(|run| run.delay_ms.as_ref());
        delays.map(|delay| bound_mark(delay, name)).find(|mark| !mark.is_empty()).unwrap_or_default()
    }

    pub(crate) fn transport(&self) -> Option<Transport> {
        let of_label = || Some(self.label.parse::<TransportLabel>().ok()?.transport);
        self.runs.first().map(|run| run.transport).or_else(of_label)
    }

    pub(crate) fn valid_runs(&self) -> impl Iterator<Item = &'a RunRecord> + '_ {
        self.runs.iter().copied().filter(|run| run.valid)
    }

    pub(crate) fn valid(&self) -> u32 {
        self.valid_runs().count() as u32
    }

    pub(crate) fn completed(&self) -> u32 {
        self.valid_runs().filter(|run| run.completed).count() as u32
    }

    /// The run that is shown for the group: the valid run whose main figure is the median (bytes delivered
    /// where a run has none), the lower one of two; the first run when none is valid.
    pub(crate) fn representative(&self) -> Option<&'a RunRecord> {
        let mut valid: Vec<&RunRecord> = self.valid_runs().collect();
        valid.sort_by(|a, b| {
            let main = |run: &RunRecord| self.pattern.main_figure(run).unwrap_or(-1.0);
            main(a).total_cmp(&main(b)).then(a.delivered_bytes.cmp(&b.delivered_bytes))
        });
        let middle = valid.len().saturating_sub(1) / 2;
        valid.get(middle).copied().or_else(|| self.runs.first().copied())
    }

    pub(crate) fn is_quic(&self) -> bool {
        matches!(self.transport(), Some(Transport::Quic | Transport::Mpquic))
    }

    pub(crate) fn is_multipath(&self) -> bool {
        self.runs.iter().any(|run| run.multipath.requested || run.transport.is_multipath())
    }
}

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
        for message in set.messages.iter().filter(|line| is_shown(line.due_ms)) {
            data.entry(&message.run).or_default().messages.push(message);
        }
        for sample in set.links.iter().filter(|line| is_shown(line.t_ms)) {
            data.entry(&sample.run).or_default().links.push(sample);
        }
        for lines in data.values_mut() {
            lines.links.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
            lines.messages.sort_by(|a, b| a.due_ms.total_cmp(&b.due_ms));
            lines.samples.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
            lines.events.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
            lines.deliveries.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
        }
        Self { set, paths, groups: groups(set), data, nothing: RunData::default() }
    }

    pub(crate) fn data(&self, run: &RunRecord) -> &RunData<'a> {
        self.data.get(run.id.as_str()).unwrap_or(&self.nothing)
    }

    pub(crate) fn variants(&self) -> Vec<&'a Variant> {
        let mut variants: Vec<&Variant> = Vec::new();
        for group in &self.groups {
            if !variants.contains(&group.variant) {
                variants.push(group.variant);
            }
        }
        variants
    }

    /// Labels in their variants, in the order of their groups, whatever the pattern.
    pub(crate) fn labels(&self) -> Vec<(&'a Variant, &'a str)> {
        let mut labels: Vec<(&Variant, &str)> = Vec::new();
        for group in &self.groups {
            if !labels.contains(&(group.variant, group.label)) {
                labels.push((group.variant, group.label));
            }
        }
        labels
    }

    pub(crate) fn patterns(&self) -> Vec<Pattern<'a>> {
        let mut patterns: Vec<Pattern> = Vec::new();
        for group in &self.groups {
            if !patterns.contains(&group.pattern) {
                patterns.push(group.pattern);
            }
        }
        patterns
    }

    pub(crate) fn of_pattern<'b, 'p>(
        &'b self,
        pattern: Pattern<'p>,
    ) -> impl Iterator<Item = &'b GroupView<'a>> + use<'a, 'b, 'p> {
        self.groups.iter().filter(move |group| group.pattern == pattern)
    }

    pub(crate) fn has_messages_of(&self, kind: Kind) -> bool {
        let runs =
            self.groups.iter().filter(|group| group.pattern.kind == kind).flat_map(|group| &group.runs);
        runs.into_iter().any(|run| !self.data(run).messages.is_empty())
    }

    /// The directions in which data flowed or was meant to, in order; of one pattern, or of all.
    pub(crate) fn directions_of(&self, pattern: Option<&str>) -> Vec<Direction> {
        let runs = || {
            let runs = self.set.document.runs.iter();
            runs.filter(|run| pattern.is_none_or(|pattern| pattern == run.pattern))
        };
        let recorded = runs().flat_map(|run| &run.directions).map(|one| one.direction);
        let mut found: BTreeSet<Direction> = recorded.collect();
        if pattern.is_none() {
            found.extend(self.set.deliveries.iter().map(|line| line.direction));
        }
        found.into_iter().collect()
    }
}

fn is_shown(t_ms: f64) -> bool {
    // Also false for what is no number.
    (-1e4..=LATEST_MS).contains(&t_ms)
}

/// The groups in the summary's order, then those that only the runs know; in a reader's order where there are many
/// kinds of them.
fn groups(set: &ResultSet) -> Vec<GroupView<'_>> {
    let mut groups: Vec<GroupView> = Vec::new();
    for group in &set.document.summary.groups {
        groups.push(GroupView {
            variant: &group.variant,
            label: &group.label,
            pattern: Pattern::named(&group.pattern),
            among_patterns: false,
            runs: Vec::new(),
            summary: Some(group),
        });
    }
    for run in &set.document.runs {
        let same = |group: &&mut GroupView| {
            *group.variant == run.variant && group.label == run.label && group.pattern.name == run.pattern
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.runs.push(run),
            None => groups.push(GroupView {
                variant: &run.variant,
                label: &run.label,
                pattern: Pattern::named(&run.pattern),
                among_patterns: false,
                runs: vec![run],
                summary: None,
            }),
        }
    }
    let several = groups.windows(2).any(|pair| pair[0].pattern != pair[1].pattern);
    for group in &mut groups {
        group.among_patterns = several;
    }
    let variants = groups.windows(2).any(|pair| pair[0].variant != pair[1].variant);
    if several || variants || groups.iter().any(GroupView::is_quic) {
        put_in_order(&mut groups);
    }
    groups
}

/// Runs are made in random order; where there is much to compare, that is no order for a reader: variants by their
/// values, key after key; transports from tcp to mpquic, patterns from ping to interactive.
fn put_in_order(groups: &mut [GroupView<'_>]) {
    groups.sort_by(|a, b| {
        let rest = |group: &GroupView| {
            (group.transport(), group.label.to_owned(), group.pattern.rank(), group.pattern.name.to_owned())
        };
        order(a.variant, b.variant).then_with(|| rest(a).cmp(&rest(b)))
    });
}

/// The order of two variants: by the value of the first key in which they differ.
fn order(a: &Variant, b: &Variant) -> Ordering {
    let of_values = a.iter().zip(b).map(|((key, one), (other_key, other))| {
        key.cmp(other_key).then_with(|| {
            let (one, other) = (value_text(one), value_text(other));
            leading_number(&one).total_cmp(&leading_number(&other)).then_with(|| one.cmp(&other))
        })
    });
    of_values.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// The number with which a value begins (`50mbit`, `1400`); words come after all numbers.
fn leading_number(text: &str) -> f64 {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(text.len());
    text[..end].parse().unwrap_or(f64::INFINITY)
}

/// `mptcp`, `mptcp · ping` where there are several patterns, `mptcp · wlan.icmp=off` where there is a variant.
pub(crate) fn name_of(label: &str, pattern: Option<&str>, variant: &Variant) -> String {
    let variant = (!variant.is_empty()).then(|| variant_text(variant));
    let parts = [Some(label.to_owned()), pattern.map(str::to_owned), variant];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// A JSON value as a person writes it: strings without quotes.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What was changed on the command line, as it is written there: an option of the command, or a key of the scenario.
pub(crate) fn override_text(key: &str, value: &Value) -> String {
    match value {
        _ if !key.starts_with("--") => format!("--set {key}={}", value_text(value)),
        Value::Bool(true) => key.to_owned(),
        Value::Array(values) => {
            let each: Vec<String> =
                values.iter().map(|value| format!("{key} {}", value_text(value))).collect();
            each.join(" ")
        }
        value => format!("{key} {}", value_text(value)),
    }
}

/// `tcp_mtu_probing=2, wlan.icmp=off`: keys shortened to what tells them apart for a reader.
pub(crate) fn variant_text(variant: &Variant) -> String {
    let parts: Vec<String> =
        variant.iter().map(|(key, value)| format!("{}={}", short_key(key), value_text(value))).collect();
    parts.join(", ")
}

/// A scenario key without the part that a reader can do without.
pub(crate) fn short_key(key: &str) -> &str {
    let sysctl = key.split_once(".sysctl.").and_then(|(_, name)| name.rsplit('.').next());
    sysctl.or_else(|| key.strip_prefix("path.")).or_else(|| key.strip_prefix("run.")).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_ordered_by_numbers_then_words() {
        let of = |probing: u32, icmp: &str| {
            Variant::from([("a".to_owned(), probing.into()), ("b".to_owned(), icmp.into())])
        };
        let mut variants = vec![of(10, "on"), of(2, "on"), of(2, "off"), of(2, "10/s")];
        variants.sort_by(order);
        assert_eq!(variants, [of(2, "10/s"), of(2, "off"), of(2, "on"), of(10, "on")]);
    }

    #[test]
    fn keys_are_shortened_for_readers() {
        assert_eq!(short_key("host.client.sysctl.net.ipv4.tcp_mtu_probing"), "tcp_mtu_probing");
        assert_eq!(short_key("path.wlan.icmp"), "wlan.icmp");
        assert_eq!(short_key("run.iperf.streams"), "iperf.streams");
        assert_eq!(short_key("seed"), "seed");
    }
}
