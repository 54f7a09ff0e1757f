//! The facts of a summary.

use super::bucket::Bucket;
use super::layout::{
    FactNames, Facts, FamilyFact, GAIN_PATTERNS, GAIN_TRANSPORTS, Handover, KINDS, MEASURES, MOST_NETWORKS,
    PairFact, Reach, SecondPath, figure_index, gain_index, measure, reach_shift,
};
use pathbench_api::anonymise::Anonymiser;
use pathbench_api::consent::Consent;
use pathbench_api::digest::Digest;
use pathbench_api::name::Name;
use pathbench_api::summary::{Best, GroupSummary, ReachabilitySummary, Summary};
use pathbench_record::document::UnreachableBecause;
use pathbench_record::statistics::median;
use pathbench_record::transport::Transport;
use std::collections::{BTreeMap, BTreeSet};

impl Facts {
    /// For everybody with names and networks in the anonymous form; nothing else of the facts is text.
    pub fn from_summary(summary: &Summary, consent: Consent) -> Self {
        let anonymiser = (consent == Consent::Public).then(Anonymiser::default);
        let shown = |name: &Name, form: fn(&Anonymiser, &mut Name)| {
            let mut shown = name.clone();
            if let Some(anonymiser) = &anonymiser {
                form(anonymiser, &mut shown);
            }
            shown.to_string()
        };
        let text = |name: &Name| shown(name, Anonymiser::name);
        let optional =
            |name: &Option<Name>, form| name.as_ref().map_or(String::new(), |name| shown(name, form));
        let operators: BTreeSet<String> =
            summary.networks.iter().filter_map(|one| one.operator.as_ref()).map(text).collect();
        let prefixes = summary.networks.iter().filter_map(|one| one.prefix.as_ref());
        let prefixes: BTreeSet<u64> = prefixes.map(|prefix| hash(&text(prefix))).collect();
        let mut facts = Self { mode: summary.mode, started_ms: summary.started_ms, ..Self::default() };
        facts.names = FactNames {
            server: optional(&summary.server, Anonymiser::server_name),
            experiment: optional(&summary.experiment, Anonymiser::name),
            scenario: text(&summary.scenario),
            kernel: text(&summary.kernel),
            operators: operators.into_iter().take(MOST_NETWORKS).collect(),
        };
        facts.networks = prefixes.into_iter().take(MOST_NETWORKS).collect();
        for network in &summary.networks {
            let bit = KINDS.iter().position(|kind| *kind == network.kind).unwrap_or(KINDS.len() - 1);
            facts.kinds |= 1 << bit;
        }
        facts.add_groups(&summary.groups);
        summary.reachability.iter().for_each(|one| facts.add_reachability(one));
        facts.handovers = summary
            .handovers
            .iter()
            .map(|one| Handover {
                transport: one.transport,
                reason: one.reason,
                sent: Bucket::from_option(one.duration_sent_ms),
                received: Bucket::from_option(one.duration_received_ms),
            })
            .collect();
        facts.delay_pairs = summary
            .delay_pairs
            .iter()
            .map(|one| PairFact {
                direction: one.direction,
                mptcp: Bucket::from_value(one.mptcp_ms),
                mpquic: Bucket::from_value(one.mpquic_ms),
            })
            .collect();
        facts.family_pairs = summary
            .family_pairs
            .iter()
            .map(|one| FamilyFact {
                transport: one.transport,
                ipv4: Bucket::from_value(one.ipv4_ms),
                ipv6: Bucket::from_value(one.ipv6_ms),
            })
            .collect();
        facts
    }

    fn add_groups(&mut self, groups: &[GroupSummary]) {
        for (transport, bit) in Transport::ALL.into_iter().zip(0..) {
            let is_valid = |group: &GroupSummary| group.transport() == Some(transport) && group.valid > 0;
            self.transports |= u8::from(groups.iter().any(is_valid)) << bit;
            for (index, (pattern, figure)) in MEASURES.into_iter().enumerate() {
                let values = per_variant(groups, transport, pattern, figure);
                let values: Vec<f64> = values.into_iter().map(|(_, value)| value).collect();
                self.figures[figure_index(index, transport)] = Bucket::from_option(median(&values));
            }
        }
        for (index, pattern) in GAIN_PATTERNS.into_iter().enumerate() {
            for (number, (multipath, single)) in GAIN_TRANSPORTS.into_iter().enumerate() {
                let index = gain_index(index, number);
                let of_pattern = |transport| {
                    let is_of = move |group: &&GroupSummary| {
                        group.valid > 0
                            && group.pattern.as_str() == pattern
                            && group.transport() == Some(transport)
                    };
                    groups.iter().filter(is_of).collect::<Vec<_>>()
                };
                let (together, alone) = (of_pattern(multipath), of_pattern(single));
                let is_used = together.iter().all(|group| group.multipath_used >= group.valid);
                self.second_path.measured |= u8::from(!together.is_empty()) << index;
                self.second_path.used |= u8::from(!together.is_empty() && is_used) << index;
                let of_variant = |(variant, value): (Option<&Name>, f64)| {
                    let is_of = |group: &&&GroupSummary| group.variant.as_ref() == variant;
                    let together: Vec<_> = together.iter().filter(is_of).copied().collect();
                    let alone: Vec<_> = alone.iter().filter(is_of).copied().collect();
                    Some(value / best_of_all_paths(&together, &alone)?)
                };
                let all = per_variant(groups, multipath, pattern, "goodput_mbps").into_iter();
                let ratios: Vec<f64> = all.filter_map(of_variant).collect();
                self.gains[index] = Bucket::from_option(median(&ratios));
            }
        }
    }

    /// One port that answers is enough; of several errors the first counts.
    fn add_reachability(&mut self, one: &ReachabilitySummary) {
        let found = match (one.reachable, one.error_kind) {
            (true, _) => Reach::Reachable,
            (false, Some(UnreachableBecause::Timeout)) => Reach::Timeout,
            (false, Some(UnreachableBecause::NoRoute)) => Reach::NoRoute,
            (false, Some(UnreachableBecause::Refused)) => Reach::Refused,
            (false, _) => Reach::Other,
        };
        let known = Reach::from_bits(self.reachability, one.transport, one.family);
        if known == Reach::Untested || found == Reach::Reachable {
            let shift = reach_shift(one.transport, one.family);
            self.reachability = self.reachability & !(15 << shift) | (found as u32) << shift;
        }
    }
}

/// The goodput of the best single path; `None` unless each of several paths was measured alone.
fn best_of_all_paths(together: &[&GroupSummary], alone: &[&GroupSummary]) -> Option<f64> {
    let path_of = |group: &GroupSummary| {
        let named = group.label.as_str().split_once('@').map(|(_, path)| path.to_owned());
        named.or_else(|| group.shares.keys().next().map(ToString::to_string))
    };
    let shares = together.iter().chain(alone).flat_map(|group| group.shares.keys().map(ToString::to_string));
    let paths: BTreeSet<String> = shares.chain(alone.iter().filter_map(|group| path_of(group))).collect();
    let complete = alone.iter().filter(|group| group.completed > 0);
    let measured: BTreeMap<String, f64> = complete
        .filter_map(|group| Some((path_of(group)?, group.figure("goodput_mbps").filter(|mbps| *mbps > 0.0)?)))
        .collect();
    let all = paths.len() > 1 && paths.iter().all(|path| measured.contains_key(path));
    all.then(|| measured.into_values().reduce(f64::max)).flatten()
}

impl SecondPath {
    /// Earlier collectors kept the goodput of a multipath transport only if all its runs used several paths.
    pub(super) fn from_figures(facts: &Facts) -> Self {
        let mut bits = 0;
        for (index, pattern) in GAIN_PATTERNS.into_iter().enumerate() {
            for (number, (multipath, _)) in GAIN_TRANSPORTS.into_iter().enumerate() {
                let figure = measure(pattern, "goodput_mbps").map(|index| figure_index(index, multipath));
                let is_there = figure.is_some_and(|index| facts.figures[index].is_present());
                bits |= u8::from(is_there) << gain_index(index, number);
            }
        }
        Self { measured: bits, used: bits }
    }
}

/// Of each variant the figure of the best label. A bulk or throughput figure of a multipath transport counts only if
/// all valid runs of its group used several paths: the figure of a connection that fell back is one of a single path.
fn per_variant<'a>(
    groups: &'a [GroupSummary],
    transport: Transport,
    pattern: &str,
    figure: &str,
) -> Vec<(Option<&'a Name>, f64)> {
    let best = if matches!(figure, "goodput_mbps" | "rpm") { Best::Highest } else { Best::Lowest };
    let needs_paths = transport.is_multipath() && GAIN_PATTERNS.contains(&pattern);
    let mut found: Vec<(Option<&Name>, f64)> = Vec::new();
    for group in groups {
        let is_wanted = group.valid > 0
            && group.pattern.as_str() == pattern
            && group.transport() == Some(transport)
            && (!needs_paths || group.multipath_used >= group.valid);
        let Some(value) = is_wanted.then(|| group.figure(figure)).flatten() else { continue };
        let variant = group.variant.as_ref();
        match found.iter_mut().find(|(one, _)| *one == variant) {
            None => found.push((variant, value)),
            Some((_, known)) if best == Best::Highest => *known = known.max(value),
            Some((_, known)) => *known = known.min(value),
        }
    }
    found
}

fn hash(text: &str) -> u64 {
    let Digest(bytes) = Digest::compute(text.as_bytes());
    bytes.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}
