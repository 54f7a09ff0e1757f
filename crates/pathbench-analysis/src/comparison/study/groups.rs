//! Groups of runs, and the pairs of groups to compare.

use crate::comparison::figure::figures_of;
use pathbench_record::document::{RunRecord, Variant};
use pathbench_record::summary::{figure, order_of_variants};
use pathbench_record::transport::Transport;
use std::collections::{BTreeMap, HashMap};

/// With a matrix of one key and up to so many values, each is compared with each.
const FEW_VARIANTS: usize = 6;
/// Groups, and pairs of groups, that are looked at; further pairs are counted only.
const MOST_PAIRS: usize = 1000;

/// The valid runs of one label and pattern in one variant, by repetition.
pub(crate) struct Group<'a> {
    pub(crate) variant: &'a Variant,
    pub(crate) label: &'a str,
    pub(crate) pattern: &'a str,
    transport: Transport,
    is_multipath: bool,
    pub(crate) runs: BTreeMap<u32, &'a RunRecord>,
}

impl Group<'_> {
    pub(super) fn values(&self, name: &str) -> Vec<f64> {
        let values = self.runs.values().filter_map(|run| figure(run, name));
        values.filter(|value| value.is_finite()).collect()
    }
}

pub(super) struct Groups<'a> {
    /// By variant and pattern, and in them single-path labels first, tcp before quic.
    groups: Vec<Group<'a>>,
}

impl<'a> Groups<'a> {
    pub(super) fn from_runs(runs: &'a [RunRecord]) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let mut index: HashMap<(String, &str, &str), usize> = HashMap::new();
        for run in runs {
            let variant = serde_json::to_string(&run.variant).unwrap_or_default();
            let at = *index.entry((variant, &run.label, &run.pattern)).or_insert_with(|| {
                groups.push(Group {
                    variant: &run.variant,
                    label: &run.label,
                    pattern: &run.pattern,
                    transport: run.transport,
                    is_multipath: false,
                    runs: BTreeMap::new(),
                });
                groups.len() - 1
            });
            let group = &mut groups[at];
            group.is_multipath |= run.multipath.requested || run.transport.is_multipath();
            if run.valid {
                group.runs.entry(run.repetition).or_insert(run);
            }
        }
        groups.retain(|group| !group.runs.is_empty());
        groups.sort_by(|a, b| {
            let rest = |group: &Group<'a>| (group.pattern, group.is_multipath, group.transport, group.label);
            order_of_variants(a.variant, b.variant).then_with(|| rest(a).cmp(&rest(b)))
        });
        groups.truncate(MOST_PAIRS);
        Self { groups }
    }

    /// Baseline and candidate of each comparison; `wanted` receives the number of all, by all figures of their pattern.
    pub(super) fn pairs<'b>(&'b self, wanted: &mut u64) -> Vec<(&'b Group<'a>, &'b Group<'a>)> {
        let mut pairs = Vec::new();
        let mut add = |baseline: &'b Group<'a>, candidate: &'b Group<'a>| {
            *wanted += figures_of(candidate.pattern).len() as u64;
            if pairs.len() < MOST_PAIRS {
                pairs.push((baseline, candidate));
            }
        };
        let same = |a: &Group, b: &Group| a.variant == b.variant && a.pattern == b.pattern;
        for together in self.groups.chunk_by(same) {
            let at = together.iter().take_while(|group| !group.is_multipath).count();
            let (single, multipath) = together.split_at(at);
            for (position, candidate) in multipath.iter().enumerate() {
                let family = |one: &&Group| one.transport.is_quic() == candidate.transport.is_quic();
                let has_family = single.iter().any(|one| family(&one));
                let baselines = single.iter().filter(|one| !has_family || family(one));
                baselines.chain(&multipath[..position]).for_each(|baseline| add(baseline, candidate));
            }
        }
        let mut columns: BTreeMap<(&str, Transport, &str), Vec<&'b Group<'a>>> = BTreeMap::new();
        for group in &self.groups {
            columns.entry((group.pattern, group.transport, group.label)).or_default().push(group);
        }
        for variants in columns.values() {
            let one_key = variants.iter().all(|group| group.variant.len() == 1);
            let baselines = if one_key && variants.len() <= FEW_VARIANTS { variants.len() } else { 1 };
            for (position, baseline) in variants.iter().take(baselines).enumerate() {
                variants[position + 1..].iter().for_each(|candidate| add(baseline, candidate));
            }
        }
        pairs
    }

    /// Groups of the same variant, label and pattern in both.
    pub(super) fn common<'b>(&'b self, other: &'b Self) -> Vec<(&'b Group<'a>, &'b Group<'a>)> {
        let same =
            |a: &Group, b: &Group| a.variant == b.variant && a.label == b.label && a.pattern == b.pattern;
        let mut found = Vec::new();
        for one in self.groups.iter().take(MOST_PAIRS) {
            found.extend(other.groups.iter().find(|group| same(one, group)).map(|group| (one, group)));
        }
        found
    }
}
