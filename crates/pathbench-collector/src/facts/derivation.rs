//! The facts of a summary.

use super::bucket::Bucket;
use super::layout::{
    FactNames, Facts, FamilyFact, GAIN_PATTERNS, GAIN_TRANSPORTS, Handover, KINDS, MEASURES, MOST_NETWORKS,
    PairFact, Reach, figure_index, gain_index, reach_shift,
};
use pathbench_api::anonymise::Anonymiser;
use pathbench_api::consent::Consent;
use pathbench_api::digest::Digest;
use pathbench_api::name::Name;
use pathbench_api::summary::{Best, GroupSummary, ReachabilitySummary, Summary};
use pathbench_record::document::UnreachableBecause;
use pathbench_record::statistics::median;
use pathbench_record::transport::Transport;
use std::collections::BTreeSet;

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
                let single = per_variant(groups, single, pattern, "goodput_mbps");
                let of_variant = |(variant, value): (Option<&Name>, f64)| {
                    let (_, base) = single.iter().find(|(one, base)| *one == variant && *base > 0.0)?;
                    Some(value / base)
                };
                let all = per_variant(groups, multipath, pattern, "goodput_mbps").into_iter();
                let ratios: Vec<f64> = all.filter_map(of_variant).collect();
                self.gains[gain_index(index, number)] = Bucket::from_option(median(&ratios));
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

/// Of each variant the figure of the best label. A bulk or throughput figure of a multipath transport counts only if
/// all valid runs of its group used several paths: the figure of a connection that fell back is one of a single path.
fn per_variant<'a>(
    groups: &'a [GroupSummary],
    transport: Transport,
    pattern: &str,
    figure: &str,
) -> Vec<(Option<&'a Name>, f64)> {
    let best = if figure == "goodput_mbps" { Best::Highest } else { Best::Lowest };
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
