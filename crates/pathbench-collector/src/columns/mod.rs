//! Dimensions and figures of all results in memory, as a struct of arrays: every filter and every figure is a scan.
//!
//! Rows are in the order of their sequence numbers. About 170 bytes a result. The columns have a bound in memory: beyond it
//! the oldest results are left out, at the start as well.

mod dimension;
mod disclosure;
mod filter;
mod grouping;
mod histogram;
mod names;

pub use dimension::Dimension;
pub use disclosure::LEAST_AGENTS;
use disclosure::{Disclosure, Disclosures};
pub use filter::{Filter, RowSelection};
pub use grouping::{Member, Members, Period};
pub use histogram::BucketHistogram;
pub use names::KeySet;
use names::{Keys, Names, People};

use crate::facts::{
    Bucket, Facts, FamilyFact, GAINS, Handover, MEASURES, PairFact, Reach, SecondPath, TRANSPORTS, decode,
};
use crate::store::ResultChange;
use crate::viewer::Viewer;
use pathbench_api::Uuid;
use pathbench_api::consent::Consent;
use pathbench_api::summary::Mode;
use pathbench_record::network::AddressFamily;
use pathbench_record::statistics::median;
use pathbench_record::transport::Transport;
use std::collections::{BTreeMap, HashSet};

/// Operators and networks of a row; more are not counted.
const PAIR: usize = 2;

/// Deleted rows stay until they are this part of all rows.
const MOST_DELETED: usize = 8;

#[derive(Debug, Clone, Default)]
struct DimensionNames {
    server: Names,
    operator: Names,
    experiment: Names,
    scenario: Names,
    kernel: Names,
}

/// Rows that are left out at once: this part of all.
const LEFT_OUT: usize = 8;

/// Memory of the columns, unless the operator sets another.
pub const COLUMN_BYTES: usize = 512 << 20;

/// Of a row, and of an item: as much again is free where a column has grown, and while it grows.
const ROW_BYTES: usize = 3
    * (size_of::<u64>()
        + size_of::<Uuid>()
        + 6 * size_of::<u32>()
        + 6 * size_of::<u16>()
        + 7
        + (MEASURES.len() * TRANSPORTS + GAINS) * size_of::<Bucket>());
const ITEM_BYTES: usize = 3 * (size_of::<Handover>() + size_of::<u32>());

#[derive(Debug, Clone)]
struct MemoryLimit {
    bytes: usize,
}

impl Default for MemoryLimit {
    fn default() -> Self {
        Self { bytes: COLUMN_BYTES }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Columns {
    most: MemoryLimit,
    left_out: u64,
    names: DimensionNames,
    disclosures: Disclosures,
    agents: Keys<Uuid>,
    networks: Keys<u64>,
    sources: Keys<u64>,
    sequence: Vec<u64>,
    id: Vec<Uuid>,
    started_s: Vec<u32>,
    agent: Vec<u32>,
    source: Vec<u32>,
    network: Vec<[u32; PAIR]>,
    server: Vec<u16>,
    experiment: Vec<u16>,
    scenario: Vec<u16>,
    kernel: Vec<u16>,
    operator: Vec<[u16; PAIR]>,
    mode: Vec<Mode>,
    kinds: Vec<u8>,
    transports: Vec<u8>,
    public: Vec<bool>,
    deleted: Vec<bool>,
    figures: BucketColumns<{ MEASURES.len() * TRANSPORTS }>,
    gains: BucketColumns<GAINS>,
    second_path: Vec<SecondPath>,
    reachability: Vec<u32>,
    handovers: Rows<Handover>,
    delay_pairs: Rows<PairFact>,
    family_pairs: Rows<FamilyFact>,
    deletions: usize,
    last_sequence: u64,
    unreadable: u64,
}

/// Items of which most rows have none, in the order of the rows.
#[derive(Debug, Clone)]
struct Rows<T> {
    row: Vec<u32>,
    item: Vec<T>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { row: Vec::new(), item: Vec::new() }
    }
}

impl<T: Copy> Rows<T> {
    fn add(&mut self, row: usize, items: &[T]) {
        self.row.extend(items.iter().map(|_| row as u32));
        self.item.extend(items);
    }

    fn selected<'a>(&'a self, selection: &'a RowSelection) -> impl Iterator<Item = &'a T> {
        let pairs = self.row.iter().zip(&self.item);
        pairs.filter(|(row, _)| selection.has(**row as usize)).map(|(_, item)| item)
    }

    /// `new_rows` has the new row of each kept row.
    fn compact(&mut self, new_rows: &[Option<u32>]) {
        let kept = self.row.iter().map(|row| new_rows[*row as usize]);
        let (row, item) = kept.zip(&self.item).filter_map(|(row, item)| Some((row?, *item))).unzip();
        (self.row, self.item) = (row, item);
    }
}

/// The columns of all figures, or of all gains.
#[derive(Debug, Clone)]
struct BucketColumns<const N: usize>(Vec<Vec<Bucket>>);

impl<const N: usize> Default for BucketColumns<N> {
    fn default() -> Self {
        Self(vec![Vec::new(); N])
    }
}

impl<const N: usize> BucketColumns<N> {
    fn add(&mut self, row: [Bucket; N]) {
        self.0.iter_mut().zip(row).for_each(|(column, bucket)| column.push(bucket));
    }
}

impl Columns {
    /// Columns of at most this memory, names and keys apart.
    pub fn with_memory(most_bytes: usize) -> Self {
        Self { most: MemoryLimit { bytes: most_bytes }, ..Self::default() }
    }

    /// Memory of the rows and their items, at most.
    pub fn bytes(&self) -> usize {
        let items = self.handovers.item.len() + self.delay_pairs.item.len() + self.family_pairs.item.len();
        self.len() * ROW_BYTES + items * ITEM_BYTES
    }

    /// The oldest results, for which there was no memory; a count of results, some of which can be deleted meanwhile.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Leaves out the oldest rows.
    fn leave_out_oldest(&mut self) {
        let count = self.len().div_ceil(LEFT_OUT);
        for deleted in self.deleted.iter_mut().take(count) {
            self.left_out += u64::from(!*deleted);
            *deleted = true;
        }
        self.compact();
        self.recount_people();
    }

    /// Rows, deleted ones included.
    pub fn len(&self) -> usize {
        self.sequence.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sequence.is_empty()
    }

    /// Results that are not deleted.
    pub fn results(&self) -> usize {
        self.len() - self.deletions
    }

    /// Those that everybody may see.
    pub fn public_results(&self) -> usize {
        self.public.iter().zip(&self.deleted).filter(|(public, deleted)| **public && !**deleted).count()
    }

    /// Sequence number of the last change.
    pub const fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// Results whose facts another version wrote, or that are damaged; they have no row.
    pub const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Applies changes in the order of their sequence numbers; those that were applied before have no effect.
    pub fn apply(&mut self, changes: &[ResultChange]) {
        let mut deleted = HashSet::new();
        for change in changes {
            let (ResultChange::Added { sequence, .. } | ResultChange::Deleted { sequence, .. }) = change;
            if *sequence <= self.last_sequence {
                continue;
            }
            self.last_sequence = *sequence;
            match change {
                ResultChange::Deleted { id, .. } => {
                    deleted.insert(*id);
                }
                ResultChange::Added { sequence, id, agent, consent, facts, .. } => match decode(facts) {
                    Ok(facts) => self.add(*sequence, (*id, *agent, *consent), &facts),
                    Err(_) => self.unreadable += 1,
                },
            }
        }
        if !deleted.is_empty() {
            self.delete(&deleted);
        }
    }

    fn add(&mut self, sequence: u64, (id, agent, consent): (Uuid, Uuid, Consent), facts: &Facts) {
        if self.bytes() >= self.most.bytes {
            self.leave_out_oldest();
        }
        let row = self.len();
        let mut operators = [0; PAIR];
        for (number, name) in operators.iter_mut().zip(&facts.names.operators) {
            *number = self.names.operator.number(name);
        }
        let mut networks = [0; PAIR];
        for (number, hash) in networks.iter_mut().zip(&facts.networks) {
            *number = self.networks.number(*hash);
        }
        let (agent, source) = (self.agents.number(agent), self.sources.number(facts.source));
        let server = self.names.server.number(&facts.names.server);
        if consent == Consent::Public {
            self.disclosures.insert(server, &operators, agent, source);
        }
        self.sequence.push(sequence);
        self.id.push(id);
        self.started_s.push(u32::try_from(facts.started_ms / 1000).unwrap_or(u32::MAX));
        self.agent.push(agent);
        self.source.push(source);
        self.network.push(networks);
        self.server.push(server);
        self.experiment.push(self.names.experiment.number(&facts.names.experiment));
        self.scenario.push(self.names.scenario.number(&facts.names.scenario));
        self.kernel.push(self.names.kernel.number(&facts.names.kernel));
        self.operator.push(operators);
        self.mode.push(facts.mode);
        self.kinds.push(facts.kinds);
        self.transports.push(facts.transports);
        self.public.push(consent == Consent::Public);
        self.deleted.push(false);
        self.figures.add(facts.figures);
        self.gains.add(facts.gains);
        self.second_path.push(facts.second_path);
        self.reachability.push(facts.reachability);
        self.handovers.add(row, &facts.handovers);
        self.delay_pairs.add(row, &facts.delay_pairs);
        self.family_pairs.add(row, &facts.family_pairs);
    }

    /// One scan for all of a batch: deletions are rare, and a table of ids would take a third of the memory.
    fn delete(&mut self, ids: &HashSet<Uuid>) {
        for row in 0..self.len() {
            if !self.deleted[row] && ids.contains(&self.id[row]) {
                self.deleted[row] = true;
                self.deletions += 1;
            }
        }
        if self.deletions > self.len() / MOST_DELETED {
            self.compact();
        }
        self.recount_people();
    }

    fn compact(&mut self) {
        let mut next = 0;
        let new_row = |deleted: &bool| {
            let row = (!deleted).then_some(next);
            next += u32::from(!deleted);
            row
        };
        let deleted = std::mem::take(&mut self.deleted);
        let new_rows: Vec<Option<u32>> = deleted.iter().map(new_row).collect();
        retain(&mut self.sequence, &deleted);
        retain(&mut self.id, &deleted);
        retain(&mut self.started_s, &deleted);
        retain(&mut self.agent, &deleted);
        retain(&mut self.source, &deleted);
        retain(&mut self.network, &deleted);
        retain(&mut self.operator, &deleted);
        for column in [&mut self.server, &mut self.experiment, &mut self.scenario, &mut self.kernel] {
            retain(column, &deleted);
        }
        retain(&mut self.mode, &deleted);
        retain(&mut self.kinds, &deleted);
        retain(&mut self.transports, &deleted);
        retain(&mut self.public, &deleted);
        self.figures.0.iter_mut().chain(&mut self.gains.0).for_each(|column| retain(column, &deleted));
        retain(&mut self.second_path, &deleted);
        retain(&mut self.reachability, &deleted);
        self.handovers.compact(&new_rows);
        self.delay_pairs.compact(&new_rows);
        self.family_pairs.compact(&new_rows);
        self.deleted = vec![false; self.sequence.len()];
        self.deletions = 0;
    }

    /// Up to `limit` sequence numbers below `before`, from the newest.
    pub fn newest(&self, selection: &RowSelection, before: Option<u64>, limit: usize) -> Vec<u64> {
        let end = before.map_or(self.len(), |before| self.sequence.partition_point(|one| *one < before));
        selection.descending(end).take(limit).map(|row| self.sequence[row]).collect()
    }

    /// A column of figures.
    pub fn figure(&self, measure: usize, transport: Transport) -> &[Bucket] {
        &self.figures.0[crate::facts::figure_index(measure, transport)]
    }

    /// A column of gains, by [`crate::facts::gain_index`].
    pub fn gain(&self, index: usize) -> &[Bucket] {
        &self.gains.0[index]
    }

    /// Results of a gain's pattern and transport, and those of them that used several paths.
    pub fn second_path(&self, selection: &RowSelection, gain: usize) -> (u64, u64) {
        let (mut measured, mut used) = (0, 0);
        selection.for_each_of(&self.second_path, |one| {
            measured += u64::from(one.measured >> gain & 1);
            used += u64::from(one.used >> gain & 1);
        });
        (measured, used)
    }

    /// The median of a column's values for each agent that has any: one vote each.
    pub fn medians_by_agent(&self, selection: &RowSelection, column: &[Bucket]) -> Vec<f64> {
        let mut by_agent: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        selection.for_each(|row| {
            if let Some(value) = column[row].value() {
                by_agent.entry(self.agent[row]).or_default().push(value);
            }
        });
        by_agent.values().filter_map(|values| median(values)).collect()
    }

    pub fn handovers<'a>(&'a self, selection: &'a RowSelection) -> impl Iterator<Item = &'a Handover> {
        self.handovers.selected(selection)
    }

    pub fn delay_pairs<'a>(&'a self, selection: &'a RowSelection) -> impl Iterator<Item = &'a PairFact> {
        self.delay_pairs.selected(selection)
    }

    pub fn family_pairs<'a>(&'a self, selection: &'a RowSelection) -> impl Iterator<Item = &'a FamilyFact> {
        self.family_pairs.selected(selection)
    }

    pub fn reach(&self, row: usize, transport: Transport, family: AddressFamily) -> Reach {
        Reach::from_bits(self.reachability[row], transport, family)
    }

    pub fn mode(&self, row: usize) -> Mode {
        self.mode[row]
    }

    /// Unix time of the first and the last start, in seconds.
    pub fn span_s(&self, selection: &RowSelection) -> Option<(u32, u32)> {
        let mut span: Option<(u32, u32)> = None;
        selection.for_each_of(&self.started_s, |at| {
            span = Some(span.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
        });
        span
    }

    /// Numbers of distinct agents, and of distinct networks of clients.
    pub fn distinct(&self, selection: &RowSelection) -> (u64, u64) {
        let (mut agents, mut networks) = (KeySet::default(), KeySet::default());
        selection.for_each_of(&self.agent, |agent| agents.insert(agent));
        selection
            .for_each_of(&self.network, |pair| pair.into_iter().for_each(|network| networks.insert(network)));
        (agents.count(), networks.count())
    }

    /// The number of people behind the selected rows, as far as it is certain: distinct agents, which a client can invent,
    /// and distinct sources, which one agent can have several of.
    pub fn people(&self, selection: &RowSelection) -> u64 {
        let mut people = People::default();
        selection.for_each(|row| people.insert(self.agent[row], self.source[row]));
        people.count()
    }

    pub fn histogram(&self, selection: &RowSelection, column: &[Bucket]) -> BucketHistogram {
        let mut histogram = BucketHistogram::default();
        selection.for_each_of(column, |bucket| histogram.add(bucket));
        histogram
    }

    /// Changes when a name becomes public, or private again.
    pub const fn disclosure_version(&self) -> u64 {
        self.disclosures.version
    }

    fn disclosure_of(&self, dimension: Dimension) -> Option<(&Names, &Disclosure)> {
        match dimension {
            Dimension::Server => Some((&self.names.server, &self.disclosures.server)),
            Dimension::Operator => Some((&self.names.operator, &self.disclosures.operator)),
            _ => None,
        }
    }

    /// Whether the viewer may see this name of a dimension. A name without a row is hidden: a result is in the database
    /// before its row is here.
    pub fn shows(&self, viewer: Viewer, dimension: Dimension, name: &str) -> bool {
        let Some((names, disclosure)) = self.disclosure_of(dimension).filter(|_| viewer == Viewer::Everybody)
        else {
            return true;
        };
        names.find(name).is_some_and(|number| disclosure.is_public(number))
    }

    /// For each number of a name whether the viewer may see it.
    fn retain_shown(&self, viewer: Viewer, dimension: Dimension, found: &mut [bool]) {
        if let Some((_, disclosure)) = self.disclosure_of(dimension).filter(|_| viewer == Viewer::Everybody) {
            (0..).zip(found).for_each(|(number, found)| *found &= disclosure.is_public(number));
        }
    }

    /// The names of servers that everybody may see.
    pub fn public_servers(&self) -> impl Iterator<Item = &str> {
        self.disclosures.server.public().map(|number| self.names.server.text(number))
    }

    /// Counts the people anew: rows are gone.
    fn recount_people(&mut self) {
        let mut new = Disclosures::default();
        for row in 0..self.len() {
            if self.public[row] && !self.deleted[row] {
                new.insert(self.server[row], &self.operator[row], self.agent[row], self.source[row]);
            }
        }
        self.disclosures.replace(new);
    }
}

fn retain<T>(column: &mut Vec<T>, deleted: &[bool]) {
    let mut deleted = deleted.iter();
    column.retain(|_| deleted.next().is_none_or(|deleted| !deleted));
    column.shrink_to_fit();
}
