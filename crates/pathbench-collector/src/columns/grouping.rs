//! Results by a dimension or by time.

use super::names::{NONE, Names, People};
use super::{Columns, Dimension, RowSelection};
use crate::facts::{KINDS, MODES};
use std::collections::BTreeMap;

/// A value of a dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub results: u64,
    /// Distinct agents, and not more than distinct sources.
    pub agents: u64,
}

/// The values of a dimension with most results, and to which of them rows belong.
#[derive(Debug, Clone)]
pub struct Members {
    dimension: Dimension,
    /// Most results first.
    pub members: Vec<Member>,
    /// Number of a value → position in `members`.
    indexes: Vec<Option<u16>>,
}

/// Rows of equal length in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    pub first_s: u32,
    pub length_s: u32,
    pub count: usize,
}

const DAY_S: u32 = 86_400;

/// Values whose agents are counted, for each value that is shown.
const CANDIDATES: usize = 4;

impl Period {
    /// Days, or as many days each as `most` periods need.
    pub fn covering((first, last): (u32, u32), most: usize) -> Self {
        let (first, last) = (first / DAY_S, last / DAY_S);
        let days = (last - first) as usize + 1;
        let each = [1, 7, 28, 91, 364].into_iter().find(|each| days.div_ceil(*each) <= most);
        let each = each.unwrap_or_else(|| days.div_ceil(most.max(1)));
        Self { first_s: first * DAY_S, length_s: each as u32 * DAY_S, count: days.div_ceil(each) }
    }

    #[inline]
    pub fn index_at(&self, at_s: u32) -> Option<usize> {
        let index = (at_s.checked_sub(self.first_s)? / self.length_s) as usize;
        (index < self.count).then_some(index)
    }

    pub fn start_s(&self, index: usize) -> f64 {
        f64::from(self.first_s) + index as f64 * f64::from(self.length_s)
    }

    pub const fn days(&self) -> u32 {
        self.length_s / DAY_S
    }
}

impl Columns {
    /// Calls `visit` with each selected row and each value that it has of a dimension; absent values are
    /// [`NONE`].
    #[inline]
    fn for_each_value(
        &self,
        selection: &RowSelection,
        dimension: Dimension,
        mut visit: impl FnMut(usize, usize),
    ) {
        let column = match dimension {
            Dimension::Server => &self.server,
            Dimension::Experiment => &self.experiment,
            Dimension::Scenario => &self.scenario,
            Dimension::Kernel => &self.kernel,
            Dimension::Operator => {
                return selection.for_each(|row| {
                    let [one, other] = self.operator[row];
                    visit(row, one.into());
                    if other != one && other != NONE {
                        visit(row, other.into());
                    }
                });
            }
            Dimension::Kind => {
                return selection.for_each(|row| {
                    let mut kinds = self.kinds[row];
                    while kinds != 0 {
                        visit(row, kinds.trailing_zeros() as usize + 1);
                        kinds &= kinds - 1;
                    }
                });
            }
            Dimension::Mode => {
                return selection.for_each(|row| {
                    let mode = MODES.iter().position(|mode| *mode == self.mode[row]);
                    visit(row, mode.map_or(0, |position| position + 1));
                });
            }
        };
        selection.for_each(|row| visit(row, column[row].into()));
    }

    fn names_of(&self, dimension: Dimension) -> Option<&Names> {
        match dimension {
            Dimension::Server => Some(&self.names.server),
            Dimension::Operator => Some(&self.names.operator),
            Dimension::Experiment => Some(&self.names.experiment),
            Dimension::Scenario => Some(&self.names.scenario),
            Dimension::Kernel => Some(&self.names.kernel),
            Dimension::Kind | Dimension::Mode => None,
        }
    }

    fn name_of(&self, dimension: Dimension, value: usize) -> String {
        let above = value.saturating_sub(1);
        match dimension {
            Dimension::Kind => KINDS.get(above).map_or("", |kind| (*kind).into()).to_owned(),
            Dimension::Mode => MODES.get(above).map_or("", |mode| (*mode).into()).to_owned(),
            _ => self.names_of(dimension).map_or("", |names| names.text(value as u16)).to_owned(),
        }
    }

    /// The values of a dimension among the selected rows. A value of fewer than `least_agents` agents is left out.
    pub fn members(
        &self,
        selection: &RowSelection,
        dimension: Dimension,
        (least_agents, most): (u64, usize),
    ) -> Members {
        let results = self.results_by_value(selection, dimension);
        let all = results.len();
        let mut order: Vec<usize> = (0..all).filter(|value| results[*value] > 0).collect();
        order.sort_by_key(|value| (std::cmp::Reverse(results[*value]), *value));
        // Sets of agents are large: only the values with most results get one.
        order.truncate(CANDIDATES * most);
        let agents = self.agents_of(selection, dimension, &order, all);
        let mut chosen: Vec<(usize, u64)> = order.into_iter().zip(agents).collect();
        chosen.retain(|(_, agents)| *agents >= least_agents);
        chosen.truncate(most);
        let mut indexes = vec![None; all];
        chosen.iter().zip(0..).for_each(|((value, _), index)| indexes[*value] = Some(index));
        let member = |(value, agents): &(usize, u64)| Member {
            name: self.name_of(dimension, *value),
            results: results[*value],
            agents: *agents,
        };
        Members { dimension, members: chosen.iter().map(member).collect(), indexes }
    }

    fn results_by_value(&self, selection: &RowSelection, dimension: Dimension) -> Vec<u64> {
        let all = self.names_of(dimension).map_or(KINDS.len().max(MODES.len()) + 1, Names::count_numbers);
        let mut results = vec![0_u64; all];
        self.for_each_value(selection, dimension, |_, value| {
            if let Some(results) = results.get_mut(value) {
                *results += 1;
            }
        });
        results[usize::from(NONE)] = 0;
        results
    }

    /// Values that the selected rows have, without the absent one.
    pub fn distinct_values(&self, selection: &RowSelection, dimension: Dimension) -> usize {
        self.results_by_value(selection, dimension).iter().filter(|results| **results > 0).count()
    }

    /// Sequence numbers of the selected rows by day of their start (days of Unix time), in order.
    pub fn by_day(&self, selection: &RowSelection) -> BTreeMap<u32, Vec<u64>> {
        let mut days: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        selection
            .for_each(|row| days.entry(self.started_s[row] / DAY_S).or_default().push(self.sequence[row]));
        days
    }

    /// The people of each of `values`.
    fn agents_of(
        &self,
        selection: &RowSelection,
        dimension: Dimension,
        values: &[usize],
        all: usize,
    ) -> Vec<u64> {
        let mut indexes = vec![None; all];
        values.iter().enumerate().for_each(|(index, value)| indexes[*value] = Some(index));
        let mut agents = vec![People::default(); values.len()];
        self.for_each_value(selection, dimension, |row, value| {
            if let Some(index) = indexes.get(value).copied().flatten() {
                agents[index].insert(self.agent[row], self.source[row]);
            }
        });
        agents.iter().map(People::count).collect()
    }

    /// Calls `visit` with a row and the position of each of its values in `members`.
    pub fn for_each_member(
        &self,
        selection: &RowSelection,
        members: &Members,
        mut visit: impl FnMut(usize, usize),
    ) {
        self.for_each_value(selection, members.dimension, |row, value| {
            if let Some(index) = members.indexes.get(value).copied().flatten() {
                visit(row, index.into());
            }
        });
    }

    /// Calls `visit` with a row and its period.
    pub fn for_each_period(
        &self,
        selection: &RowSelection,
        period: Period,
        mut visit: impl FnMut(usize, usize),
    ) {
        selection.for_each(|row| {
            if let Some(index) = period.index_at(self.started_s[row]) {
                visit(row, index);
            }
        });
    }
}
