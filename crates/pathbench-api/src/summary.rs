//! The summary of a result: what a collector's figures are computed from, in at most a few kilobytes.

use crate::bounds::{EARLIEST_MS, FIGURES, GROUPS, ITEMS, LARGEST_FIGURE};
use crate::name::Name;
use pathbench_record::direction::Direction;
use pathbench_record::document::{HandoverReason, ResultDocument, RunRecord, UnreachableBecause};
use pathbench_record::network::AddressFamily;
use pathbench_record::statistics::median;
use pathbench_record::summary::max_delay_pairs;
use pathbench_record::transport::{Transport, TransportLabel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    pub mode: Mode,
    /// Name of the scenario; `test` or `roam` outside the lab.
    pub scenario: Name,
    /// Start of the command, Unix time in milliseconds.
    pub started_ms: u64,
    /// Version of Pathbench.
    pub version: Name,
    /// `uname -r`.
    pub kernel: Name,
    /// `uname -m`.
    pub machine: Name,
    /// Name of the tested server; absent in the lab.
    pub server: Option<Name>,
    /// The collector's experiment that this result belongs to.
    pub experiment: Option<Name>,
    /// The networks of the client's paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<Network>,
    /// All repetitions of one transport and pattern; in the lab, of one variant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSummary>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reachability: Vec<ReachabilitySummary>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handovers: Vec<HandoverSummary>,
    /// Largest message delays of mptcp and mpquic in the same repetition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delay_pairs: Vec<DelayPair>,
    /// Flow completion times of the same transfer over IPv4 and IPv6.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub family_pairs: Vec<FamilyPair>,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// `pathbench test`
    Stable,
    /// `pathbench roam`
    Mobile,
    /// `pathbench lab run`
    Lab,
    /// Any other command with a result.
    Other,
}

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum NetworkKind {
    Ethernet,
    Wifi,
    Cellular,
    /// A link of the lab.
    Emulated,
    Other,
}

/// The network of one path.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    pub path: Name,
    pub kind: NetworkKind,
    /// As the owner of the agent names it.
    pub operator: Option<Name>,
    /// The client's address; in the anonymous form its /24 or /48.
    pub prefix: Option<Name>,
}

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupSummary {
    /// `mptcp`, `tcp@wlan`.
    pub label: Name,
    pub pattern: Name,
    /// Values of the matrix, joined; absent without a matrix.
    pub variant: Option<Name>,
    pub runs: u32,
    pub valid: u32,
    pub completed: u32,
    pub multipath_used: u32,
    /// Name of a figure as in `run.json` → its median over the valid runs.
    pub figures: BTreeMap<Name, f64>,
    /// Path → median of its share.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<Name, f64>,
}

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReachabilitySummary {
    pub transport: Transport,
    pub family: AddressFamily,
    pub port: u16,
    pub reachable: bool,
    pub rtt_ms: Option<f64>,
    pub error_kind: Option<UnreachableBecause>,
}

#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandoverSummary {
    pub transport: Transport,
    pub reason: HandoverReason,
    /// Negative: abrupt.
    pub duration_sent_ms: Option<f64>,
    /// Negative: abrupt.
    pub duration_received_ms: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayPair {
    pub direction: Direction,
    pub mptcp_ms: f64,
    pub mpquic_ms: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FamilyPair {
    pub transport: Transport,
    pub ipv4_ms: f64,
    pub ipv6_ms: f64,
}

impl GroupSummary {
    /// The transport of the label.
    pub fn transport(&self) -> Option<Transport> {
        self.label.as_str().parse::<TransportLabel>().ok().map(|label| label.transport)
    }

    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(figure, _)| figure.as_str() == name).map(|(_, value)| *value)
    }
}

/// The parts of a summary that the result itself does not hold.
#[derive(Debug, Clone, Default)]
pub struct SummaryContext {
    /// Unix time of the start, in milliseconds.
    pub started_ms: u64,
    pub experiment: Option<Name>,
    pub networks: Vec<Network>,
    pub family_pairs: Vec<FamilyPair>,
    /// Of the same test over the other IP version.
    pub other_reachability: Vec<ReachabilitySummary>,
}

impl Summary {
    pub fn from_document(document: &ResultDocument, context: SummaryContext) -> Self {
        let mode = match document.scenario.name.as_str() {
            "test" => Mode::Stable,
            "roam" => Mode::Mobile,
            _ if !document.links.is_empty() => Mode::Lab,
            _ => Mode::Other,
        };
        let server = document.servers.iter().find(|server| server.chosen);
        let server =
            server.map(|server| Name::nearest(server.name.as_deref().unwrap_or(server.address.as_str())));
        let mut networks = context.networks;
        if mode == Mode::Lab {
            networks = emulated_networks(&document.runs);
        }
        networks.truncate(ITEMS);
        let mut reachability = reachability(document);
        reachability.extend(context.other_reachability);
        reachability.truncate(ITEMS);
        Self {
            mode,
            scenario: Name::nearest(&document.scenario.name),
            started_ms: context.started_ms,
            version: Name::nearest(&document.host.pathbench),
            kernel: Name::nearest(&document.host.kernel),
            machine: Name::nearest(&document.host.machine),
            server,
            experiment: context.experiment,
            networks,
            groups: groups(document),
            reachability,
            handovers: handovers(&document.runs),
            delay_pairs: delay_pairs(&document.runs),
            family_pairs: context.family_pairs,
        }
    }

    /// The median of a figure of the unbound transport, or of its best path.
    pub fn figure(&self, transport: Transport, pattern: &str, name: &str, best: Best) -> Option<f64> {
        let groups = self.groups.iter().filter(|group| {
            group.valid > 0 && group.pattern.as_str() == pattern && group.transport() == Some(transport)
        });
        let values = groups.filter_map(|group| group.figure(name));
        match best {
            Best::Highest => values.reduce(f64::max),
            Best::Lowest => values.reduce(f64::min),
        }
    }

    /// Checks every bound; `latest_ms` is the latest possible start.
    pub fn check(&self, latest_ms: u64) -> Result<(), String> {
        let too_many = |list: &str, found: usize, most: usize| {
            if found > most {
                Err(format!("`{list}` has {found} entries; at most {most} are accepted"))
            } else {
                Ok(())
            }
        };
        if self.started_ms > latest_ms {
            return Err("`started_ms` lies in the future".to_owned());
        }
        if self.started_ms < EARLIEST_MS {
            return Err("`started_ms` lies before 2020".to_owned());
        }
        too_many("groups", self.groups.len(), GROUPS)?;
        too_many("networks", self.networks.len(), ITEMS)?;
        too_many("reachability", self.reachability.len(), ITEMS)?;
        too_many("handovers", self.handovers.len(), ITEMS)?;
        too_many("delay_pairs", self.delay_pairs.len(), ITEMS)?;
        too_many("family_pairs", self.family_pairs.len(), ITEMS)?;
        for group in &self.groups {
            too_many("figures", group.figures.len(), FIGURES)?;
            too_many("shares", group.shares.len(), FIGURES)?;
            if group.transport().is_none() {
                return Err(format!("`label` is `{}`: it must begin with a transport", group.label));
            }
        }
        let figures =
            self.groups.iter().flat_map(|group| group.figures.values().chain(group.shares.values()));
        let delays = self.delay_pairs.iter().flat_map(|pair| [&pair.mptcp_ms, &pair.mpquic_ms]);
        let families = self.family_pairs.iter().flat_map(|pair| [&pair.ipv4_ms, &pair.ipv6_ms]);
        let rtts = self.reachability.iter().filter_map(|one| one.rtt_ms.as_ref());
        if !figures
            .chain(delays)
            .chain(families)
            .chain(rtts)
            .all(|value| (0.0..=LARGEST_FIGURE).contains(value))
        {
            return Err("a figure is not between 0 and 1e12".to_owned());
        }
        let durations =
            self.handovers.iter().flat_map(|one| [one.duration_sent_ms, one.duration_received_ms]).flatten();
        if durations.into_iter().any(|value| !value.is_finite() || value.abs() > LARGEST_FIGURE) {
            return Err("a duration of a handover is not between -1e12 and 1e12".to_owned());
        }
        Ok(())
    }
}

/// Which of several paths' figures is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Best {
    Highest,
    Lowest,
}

fn emulated_networks(runs: &[RunRecord]) -> Vec<Network> {
    let mut names: Vec<&str> =
        runs.iter().flat_map(|run| &run.paths).map(|path| path.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let network = |name: &str| Network {
        path: Name::nearest(name),
        kind: NetworkKind::Emulated,
        operator: None,
        prefix: None,
    };
    names.into_iter().map(network).collect()
}

fn groups(document: &ResultDocument) -> Vec<GroupSummary> {
    let plain = |value: f64| value.is_finite() && (0.0..=LARGEST_FIGURE).contains(&value);
    let of_group = |group: &pathbench_record::document::Group| {
        let values: Vec<String> = group
            .variant
            .values()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        let figures = group.figures.iter().filter(|(_, found)| plain(found.median));
        let shares = group.shares.iter().filter(|(_, share)| plain(**share));
        GroupSummary {
            label: Name::nearest(&group.label),
            pattern: Name::nearest(&group.pattern),
            variant: (!values.is_empty()).then(|| Name::nearest(&values.join(" "))),
            runs: group.runs,
            valid: group.valid,
            completed: group.completed,
            multipath_used: group.multipath_used,
            figures: figures.take(FIGURES).map(|(name, found)| (Name::nearest(name), found.median)).collect(),
            shares: shares.take(FIGURES).map(|(name, share)| (Name::nearest(name), *share)).collect(),
        }
    };
    document.summary.groups.iter().take(GROUPS).map(of_group).collect()
}

/// Which transports reached the server.
pub fn reachability(document: &ResultDocument) -> Vec<ReachabilitySummary> {
    let summary = |one: &pathbench_record::document::Reachability| ReachabilitySummary {
        transport: one.transport,
        family: one.family,
        port: one.port,
        reachable: one.reachable,
        rtt_ms: one.rtt_ms.filter(|rtt| rtt.is_finite() && *rtt >= 0.0),
        error_kind: one.error_kind,
    };
    document.reachability.iter().take(ITEMS).map(summary).collect()
}

fn handovers(runs: &[RunRecord]) -> Vec<HandoverSummary> {
    let of_run = |run: &RunRecord| {
        let handover = run.handover.as_ref().filter(|_| run.valid)?;
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        Some(HandoverSummary {
            transport: run.transport,
            reason: handover.reason,
            duration_sent_ms: finite(handover.duration_sent_ms),
            duration_received_ms: finite(handover.duration_received_ms),
        })
    };
    runs.iter().filter_map(of_run).take(ITEMS).collect()
}

fn delay_pairs(runs: &[RunRecord]) -> Vec<DelayPair> {
    let runs: Vec<&RunRecord> = runs.iter().collect();
    let of_direction = |direction| {
        let pairs = max_delay_pairs(&runs, direction).into_iter();
        pairs.map(move |[mptcp_ms, mpquic_ms]| DelayPair { direction, mptcp_ms, mpquic_ms })
    };
    Direction::BOTH.into_iter().flat_map(of_direction).take(ITEMS).collect()
}

/// The pairs of flow completion times of two results of the same test, one over each IP version.
pub fn family_pairs(ipv4: &ResultDocument, ipv6: &ResultDocument) -> Vec<FamilyPair> {
    let completion = |document: &ResultDocument, transport| {
        let fitting = |run: &&RunRecord| run.valid && run.completed && run.transport == transport;
        let times: Vec<f64> = document.runs.iter().filter(fitting).filter_map(|run| run.fct_ms).collect();
        median(&times).filter(|time| *time > 0.0)
    };
    let pair = |transport| {
        let (ipv4_ms, ipv6_ms) = (completion(ipv4, transport)?, completion(ipv6, transport)?);
        Some(FamilyPair { transport, ipv4_ms, ipv6_ms })
    };
    Transport::ALL.into_iter().filter_map(pair).collect()
}
