//! The order of a study's runs: seeded, in blocks of repetitions, the same for every process of the study.

use crate::scenario::ScenarioPlan;
use pathbench_record::document::Shard;
use pathbench_record::statistics::SplitMix64;
use pathbench_record::transport::TransportLabel;

/// Separates the random order of warm-up runs, so that they do not change the order of the others.
const WARM_UP_SEED: u64 = 0x7761_726d_2d75_7000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledRun {
    pub variant: usize,
    pub label: TransportLabel,
    /// Index of the pattern in the variant's plan.
    pub pattern: usize,
    /// From 1; warm-up repetitions count separately.
    pub repetition: u32,
    /// Index in the order of the whole study, from 1; warm-up runs count separately.
    pub number: u32,
    pub warm_up: bool,
}

/// Runs that are made together: warm-up blocks come before the others, each in the order of repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    is_measured: bool,
    repetition: u32,
}

impl Block {
    /// Whether the runs are warm-up runs, and their repetition.
    pub const fn parts(self) -> (bool, u32) {
        (!self.is_measured, self.repetition)
    }
}

/// Runs that take about as long: scenario, variant, label and pattern.
pub type RunKind = (usize, usize, String, usize);

impl ScheduledRun {
    pub const fn block(&self) -> Block {
        Block { is_measured: !self.warm_up, repetition: self.repetition }
    }

    pub fn kind(&self, scenario: usize) -> RunKind {
        (scenario, self.variant, self.label.to_string(), self.pattern)
    }

    /// The id of the run in the whole study: `02-mptcp-r1`. Every shard makes the warm-up runs: `w02-mptcp-r1-s3`.
    pub fn id(&self, pattern: Option<&str>, shard: Option<Shard>) -> String {
        let pattern = pattern.map(|name| format!("-{name}")).unwrap_or_default();
        let rest = format!("{:02}-{}{pattern}-r{}", self.number, self.label, self.repetition);
        match shard {
            _ if !self.warm_up => rest,
            None => format!("w{rest}"),
            Some(shard) => format!("w{rest}-s{}", shard.number),
        }
    }
}

/// The parameters of the order besides the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOrder {
    pub repeat: u32,
    pub warm_up: u32,
    pub seed: u64,
    pub shard: Option<Shard>,
}

/// The order of all runs: every repetition runs each variant, label and pattern once, shuffled by the seed. `variants`
/// contains the labels of each variant, and the number of patterns that each label runs. A shard has the warm-up runs
/// and the runs of its repetitions.
///
/// In each repetition the compared transports run close together in time, so that a slow drift of the machine affects
/// all of them; the shuffle prevents one transport from always being the first.
pub fn schedule(variants: &[(&[TransportLabel], usize)], course: &RunOrder) -> Vec<ScheduledRun> {
    let mut runs = blocks(variants, course.warm_up, course.seed ^ WARM_UP_SEED, true);
    let measured = blocks(variants, course.repeat, course.seed, false);
    let is_ours = |run: &ScheduledRun| course.shard.is_none_or(|shard| shard.has(run.repetition));
    runs.extend(measured.into_iter().filter(is_ours));
    runs
}

pub(super) fn order_of(plan: &ScenarioPlan, shard: Option<Shard>) -> Vec<ScheduledRun> {
    let variants: Vec<_> = plan
        .variants
        .iter()
        .map(|variant| (variant.run.labels.as_slice(), variant.run.patterns.len()))
        .collect();
    schedule(&variants, &RunOrder { repeat: plan.repeat, warm_up: plan.warm_up, seed: plan.seed, shard })
}

pub fn run_ids(plan: &ScenarioPlan, shard: Option<Shard>) -> Vec<String> {
    order_of(plan, shard).iter().map(|run| run_id(plan, run, shard)).collect()
}

pub(super) fn run_id(plan: &ScenarioPlan, scheduled: &ScheduledRun, shard: Option<Shard>) -> String {
    let patterns = &plan.variants[scheduled.variant].run.patterns;
    let pattern = (patterns.len() > 1).then(|| patterns[scheduled.pattern].name());
    scheduled.id(pattern, shard)
}

fn blocks(
    variants: &[(&[TransportLabel], usize)],
    repeat: u32,
    seed: u64,
    warm_up: bool,
) -> Vec<ScheduledRun> {
    let mut random = SplitMix64::new(seed);
    let mut runs: Vec<ScheduledRun> = Vec::new();
    for repetition in 1..=repeat {
        let begin = runs.len();
        for (variant, (labels, patterns)) in variants.iter().enumerate() {
            for label in *labels {
                let run = |pattern| {
                    let label = label.clone();
                    ScheduledRun { variant, label, pattern, repetition, number: 0, warm_up }
                };
                runs.extend((0..*patterns).map(run));
            }
        }
        let block = &mut runs[begin..];
        for last in (1..block.len()).rev() {
            block.swap(last, random.draw_below(last + 1));
        }
    }
    for (number, run) in (1..).zip(&mut runs) {
        run.number = number;
    }
    runs
}

/// One order over several scenarios, as pairs of scenario and index in its order. In each repetition the runs of all
/// scenarios alternate at random; the order of each scenario's runs, and thus their ids, are those of the scenario alone.
pub fn interleave(orders: &[Vec<ScheduledRun>], seed: u64) -> Vec<(usize, usize)> {
    let mut random = SplitMix64::new(seed);
    let mut next = vec![0; orders.len()];
    let mut merged = Vec::new();
    loop {
        let upcoming = orders.iter().zip(&next).filter_map(|(order, &index)| order.get(index));
        let Some(block) = upcoming.map(ScheduledRun::block).min() else { return merged };
        let left = |(order, &index): (&Vec<ScheduledRun>, &usize)| {
            order[index..].iter().take_while(|run| run.block() == block).count()
        };
        let mut left: Vec<usize> = orders.iter().zip(&next).map(left).collect();
        // A scenario's chance is its share of the runs left, so that every order of the block is equally likely.
        while let total @ 1.. = left.iter().sum::<usize>() {
            let mut drawn = random.draw_below(total);
            for scenario in 0..orders.len() {
                if drawn < left[scenario] {
                    merged.push((scenario, next[scenario]));
                    next[scenario] += 1;
                    left[scenario] -= 1;
                    break;
                }
                drawn -= left[scenario];
            }
        }
    }
}
