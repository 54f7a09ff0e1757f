//! A result prepared for display: the lines of each run, the groups, and the representative run of each group.

use crate::list::distinct;
use crate::pattern::{Figure, Kind, Pattern, bound_mark};
use crate::quantity::ratio;
use crate::restoration::{Restoration, restorations};
use crate::result_set::{LineSource, Paths, ResultSet};
use crate::run_data::RunData;
use pathbench_record::direction::Direction;
use pathbench_record::directory::RunLines;
use pathbench_record::document::{Distribution, Group, LinkRecord, RunRecord, Variant, Verdict};
use pathbench_record::summary::order_of_variants;
use pathbench_record::transport::{Transport, TransportLabel};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

/// Bytes of lines (in their files) of the runs that a view keeps.
const KEPT_BYTES: u64 = 16 << 20;

/// Runs with few lines that a view keeps.
const KEPT_RUNS: usize = 512;

/// The runs used last.
#[derive(Default)]
struct Kept {
    /// With their bytes; the one used last is at the end.
    runs: VecDeque<(String, u64, Rc<RunData>)>,
    bytes: u64,
}

impl Kept {
    fn get(&mut self, run: &str) -> Option<Rc<RunData>> {
        let index = self.runs.iter().rposition(|(id, ..)| id == run)?;
        let found = self.runs.remove(index)?;
        let data = Rc::clone(&found.2);
        self.runs.push_back(found);
        Some(data)
    }

    fn insert(&mut self, run: &str, bytes: u64, data: &Rc<RunData>) {
        self.bytes += bytes;
        self.runs.push_back((run.to_owned(), bytes, Rc::clone(data)));
        while self.runs.len() > 1 && (self.bytes > KEPT_BYTES || self.runs.len() > KEPT_RUNS) {
            self.bytes -= self.runs.pop_front().map_or(0, |(_, bytes, _)| bytes);
        }
    }
}

pub(crate) struct GroupView<'a> {
    pub(crate) variant: &'a Variant,
    pub(crate) label: &'a str,
    pub(crate) pattern: Pattern<'a>,
    pub(crate) among_patterns: bool,
    pub(crate) runs: Vec<&'a RunRecord>,
    pub(crate) summary: Option<&'a Group>,
}

impl<'a> GroupView<'a> {
    pub(crate) fn name(&self) -> String {
        name_of(self.label, self.said_pattern(), self.variant)
    }

    pub(crate) fn said_pattern(&self) -> Option<&'a str> {
        self.among_patterns.then_some(self.pattern.name)
    }

    pub(crate) fn figure(&self, name: &str) -> Option<&'a Distribution> {
        self.summary.and_then(|group| group.figures.get(name)).filter(|found| found.median.is_finite())
    }

    /// The figure of each valid run.
    pub(crate) fn values(&self, figure: &Figure) -> Vec<f64> {
        let values = self.valid_runs().filter_map(|run| (figure.of_run)(run));
        values.filter(|value| value.is_finite() && (0.0..1e12).contains(value)).collect()
    }

    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        self.figure(name).map(|found| found.median)
    }

    /// `≥ ` if the figure is a lower bound because some of its messages were never acknowledged.
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

    /// Of the valid runs: lost and all pings, or messages without acknowledgement and all messages.
    pub(crate) fn lost_and_all(&self) -> (u32, u32) {
        let of_run = |run: &RunRecord| match self.pattern.kind {
            Kind::Ping => run.ping.as_ref().map(|ping| (ping.lost, ping.sent)),
            Kind::Interactive => run.delay_ms.as_ref().map(|delay| (delay.unacknowledged, delay.messages)),
            Kind::Throughput | Kind::Bulk | Kind::Responsiveness | Kind::Datagrams => None,
        };
        let counts = self.valid_runs().filter_map(of_run);
        counts.fold((0, 0), |sums, (lost, all)| (lost.saturating_add(sums.0), all.saturating_add(sums.1)))
    }

    /// The run that represents the group: the valid run whose main figure (bytes delivered if a run has none) is the
    /// median, the lower one of two. If no run is valid, the first run.
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

pub(crate) struct View<'a> {
    pub(crate) set: &'a ResultSet,
    pub(crate) paths: Paths,
    pub(crate) groups: Vec<GroupView<'a>>,
    kept: RefCell<Kept>,
    /// The runs of a result in memory.
    held: HashMap<&'a str, Rc<RunData>>,
}

impl<'a> View<'a> {
    pub(crate) fn new(set: &'a ResultSet) -> Self {
        Self::with_paths(set, Paths::from_sets(&[set]))
    }

    pub(crate) fn with_paths(set: &'a ResultSet, paths: Paths) -> Self {
        Self { set, paths, groups: groups(set), kept: RefCell::default(), held: held(&set.lines) }
    }

    /// One of each result. They share the path colours.
    pub(crate) fn of_all(sets: &'a [ResultSet]) -> Vec<Self> {
        let paths = Paths::from_sets(&sets.iter().collect::<Vec<_>>());
        sets.iter().map(|set| Self::with_paths(set, paths.clone())).collect()
    }

    /// The lines of the run. They are read again if many other runs were used since.
    pub(crate) fn data(&self, run: &RunRecord) -> Rc<RunData> {
        if let Some(data) = self.held.get(run.id.as_str()) {
            return Rc::clone(data);
        }
        let mut kept = self.kept.borrow_mut();
        if let Some(data) = kept.get(&run.id) {
            return data;
        }
        let data = Rc::new(RunData::from_lines(self.set.lines.of_run_or_none(&run.id)));
        kept.insert(&run.id, self.set.lines.bytes(&run.id), &data);
        self.set.lines.restorations(run, || restorations(run, &data));
        data
    }

    /// The returns of paths in the run; they are found when its lines are read first.
    pub(crate) fn restorations(&self, run: &RunRecord) -> Vec<Restoration> {
        self.set.lines.restorations(run, || restorations(run, &self.data(run)))
    }

    /// The links in the variant of `run`.
    pub(crate) fn links_of<'b>(
        &self,
        run: &'b RunRecord,
    ) -> impl Iterator<Item = &'a LinkRecord> + use<'a, 'b> {
        self.set.document.links.iter().filter(|link| is_of_variant(link, run))
    }

    pub(crate) fn variants(&self) -> Vec<&'a Variant> {
        distinct(self.groups.iter().map(|group| group.variant))
    }

    pub(crate) fn labels(&self) -> Vec<(&'a Variant, &'a str)> {
        distinct(self.groups.iter().map(|group| (group.variant, group.label)))
    }

    pub(crate) fn patterns(&self) -> Vec<Pattern<'a>> {
        distinct(self.groups.iter().map(|group| group.pattern))
    }

    /// The best label on one path in the same variant and pattern, and the ratio of this group's figure to that
    /// label's.
    pub(crate) fn best_single_path(&self, group: &GroupView<'a>, figure: &str) -> Option<(&'a str, f64)> {
        let own = group.median(figure).filter(|_| group.is_multipath())?;
        let others = self.single_paths(group).into_iter();
        let figures =
            others.filter_map(|one| Some((one.label, one.median(figure).filter(|one| *one > 0.0)?)));
        let by_figure = |a: &(&str, f64), b: &(&str, f64)| a.1.total_cmp(&b.1);
        let best = if figure == "fct_ms" { figures.min_by(by_figure) } else { figures.max_by(by_figure) };
        best.map(|(label, best)| (label, own / best))
    }

    /// This group against the best label on one path: the ratio, unless the pairs of runs cannot tell or show the same.
    /// Fewer pairs than a verdict needs leave the ratio of the medians.
    pub(crate) fn against_single_path(
        &self,
        group: &GroupView<'a>,
        figure: &str,
        effect: impl Fn(&str, &str) -> String,
    ) -> Option<String> {
        let (label, medians) = self.best_single_path(group, figure)?;
        let comparisons = self.set.document.summary.comparisons.iter();
        let judged = comparisons.filter(|one| one.ci95.is_some()).find(|one| {
            let same = one.pattern == group.pattern.name && one.figure == figure;
            same && [&one.baseline, &one.candidate].map(|side| &side.variant) == [group.variant; 2]
                && one.baseline.label == label
                && one.candidate.label == group.label
        });
        Some(match judged.map(|one| (one.verdict, one.ratio)) {
            Some((Verdict::Same, _)) => format!("the same as {label} within the margin"),
            Some((Verdict::CannotTell, _)) => format!("not distinguishable from {label}"),
            Some((Verdict::Different, Some(found))) => effect(&ratio(found), label),
            _ => effect(&ratio(medians), label),
        })
    }

    /// The single-path groups to compare this group with, if all their runs completed: those of its own family (quic
    /// for mpquic, tcp for mptcp) if there are any, so that only the second path differs.
    fn single_paths(&self, group: &GroupView<'a>) -> Vec<&GroupView<'a>> {
        let others: Vec<&GroupView> = self
            .of_pattern(group.pattern)
            .filter(|one| one.variant == group.variant && !one.is_multipath())
            .filter(|one| one.valid() > 0 && one.completed() == one.valid())
            .collect();
        let family: Vec<&GroupView> =
            others.iter().copied().filter(|one| one.is_quic() == group.is_quic()).collect();
        if family.is_empty() { others } else { family }
    }

    pub(crate) fn of_pattern<'b, 'p>(
        &'b self,
        pattern: Pattern<'p>,
    ) -> impl Iterator<Item = &'b GroupView<'a>> + use<'a, 'b, 'p> {
        self.groups.iter().filter(move |group| group.pattern == pattern)
    }

    pub(crate) fn directions_of(&self, pattern: Option<&str>) -> Vec<Direction> {
        let runs = self.set.document.runs.iter();
        let runs = runs.filter(|run| pattern.is_none_or(|pattern| pattern == run.pattern));
        let recorded = runs.flat_map(|run| &run.directions).map(|one| one.direction);
        recorded.collect::<BTreeSet<Direction>>().into_iter().collect()
    }
}

fn held(lines: &LineSource) -> HashMap<&str, Rc<RunData>> {
    let mut runs: HashMap<&str, RunLines> = HashMap::new();
    let held = &lines.held;
    held.samples.iter().for_each(|one| runs.entry(&one.run).or_default().samples.push(one.clone()));
    held.events.iter().for_each(|one| runs.entry(&one.run).or_default().events.push(one.clone()));
    held.deliveries.iter().for_each(|one| runs.entry(&one.run).or_default().deliveries.push(one.clone()));
    held.messages.iter().for_each(|one| runs.entry(&one.run).or_default().messages.push(one.clone()));
    held.datagrams.iter().for_each(|one| runs.entry(&one.run).or_default().datagrams.push(one.clone()));
    held.links.iter().for_each(|one| runs.entry(&one.run).or_default().links.push(one.clone()));
    runs.into_iter().map(|(run, lines)| (run, Rc::new(RunData::from_lines(lines)))).collect()
}

/// Whether the link has its parameters in the variant of `run`.
pub(crate) fn is_of_variant(link: &LinkRecord, run: &RunRecord) -> bool {
    link.variant.iter().all(|(key, value)| run.variant.get(key) == Some(value))
}

fn groups<'a>(set: &'a ResultSet) -> Vec<GroupView<'a>> {
    let group = |variant, label, pattern, summary| GroupView {
        variant,
        label,
        pattern: Pattern::named(pattern),
        among_patterns: false,
        runs: Vec::new(),
        summary,
    };
    let summaries = set.document.summary.groups.iter();
    let mut groups: Vec<GroupView> =
        summaries.map(|one| group(&one.variant, &one.label, &one.pattern, Some(one))).collect();
    for run in &set.document.runs {
        let same = |group: &GroupView| {
            *group.variant == run.variant && group.label == run.label && group.pattern.name == run.pattern
        };
        let known = groups.iter().position(same).unwrap_or_else(|| {
            groups.push(group(&run.variant, &run.label, &run.pattern, None));
            groups.len() - 1
        });
        groups[known].runs.push(run);
    }
    let several = groups.windows(2).any(|pair| pair[0].pattern != pair[1].pattern);
    for group in &mut groups {
        group.among_patterns = several;
    }
    let variants = groups.windows(2).any(|pair| pair[0].variant != pair[1].variant);
    if several || variants || groups.iter().any(GroupView::is_quic) {
        // The run order is random. For display, variants are sorted by their values, key after key; transports from
        // tcp to mpquic, patterns from ping to interactive.
        groups.sort_by(|a, b| {
            let rest = |group: &GroupView<'a>| {
                (group.transport(), group.label, group.pattern.rank(), group.pattern.name)
            };
            order_of_variants(a.variant, b.variant).then_with(|| rest(a).cmp(&rest(b)))
        });
    }
    groups
}

/// `mptcp`; `mptcp · ping` if there are several patterns; `mptcp · wlan.icmp=off` if there is a variant.
pub(crate) fn name_of(label: &str, pattern: Option<&str>, variant: &Variant) -> String {
    let variant = (!variant.is_empty()).then(|| variant_text(variant));
    let parts = [Some(label.to_owned()), pattern.map(str::to_owned), variant];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

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

/// The variant with short keys: `tcp_mtu_probing=2, wlan.icmp=off`.
pub(crate) fn variant_text(variant: &Variant) -> String {
    let parts: Vec<String> =
        variant.iter().map(|(key, value)| format!("{}={}", short_key(key), value_text(value))).collect();
    parts.join(", ")
}

pub(crate) fn short_key(key: &str) -> &str {
    let sysctl = key.split_once(".sysctl.").and_then(|(_, name)| name.rsplit('.').next());
    sysctl.or_else(|| key.strip_prefix("path.")).or_else(|| key.strip_prefix("run.")).unwrap_or(key)
}
