//! Filters, and the results that pass them.

use super::names::{NONE, OTHER};
use super::{Columns, Dimension};
use crate::facts::KINDS;
use crate::viewer::Viewer;
use pathbench_api::Uuid;
use pathbench_api::summary::{Mode, NetworkKind};
use pathbench_record::transport::Transport;

/// A result passes if it fits every field that is set; `None` and empty lists fit every result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Filter {
    pub viewer: Viewer,
    /// Results with a valid run of any of them.
    pub transports: Vec<Transport>,
    pub server: Option<String>,
    pub kind: Option<NetworkKind>,
    pub operator: Option<String>,
    pub experiment: Option<String>,
    pub scenario: Option<String>,
    pub mode: Option<Mode>,
    /// Honoured for the operator only: an agent's id connects all its results.
    pub agent: Option<Uuid>,
    /// Unix time of the start, in seconds.
    pub since_s: Option<u32>,
    pub until_s: Option<u32>,
    /// Part of any name, in any case.
    pub text: Option<String>,
}

impl Filter {
    pub const fn new(viewer: Viewer) -> Self {
        Self {
            viewer,
            transports: Vec::new(),
            server: None,
            kind: None,
            operator: None,
            experiment: None,
            scenario: None,
            mode: None,
            agent: None,
            since_s: None,
            until_s: None,
            text: None,
        }
    }
}

/// A set of rows, one bit each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowSelection {
    words: Vec<u64>,
    count: usize,
}

impl RowSelection {
    pub const fn len(&self) -> usize {
        self.count
    }

    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub fn has(&self, row: usize) -> bool {
        self.words.get(row / 64).is_some_and(|word| word & (1 << (row % 64)) != 0)
    }

    #[inline]
    pub fn for_each(&self, mut visit: impl FnMut(usize)) {
        for (index, &word) in self.words.iter().enumerate() {
            let first = index * 64;
            if word == u64::MAX {
                (first..first + 64).for_each(&mut visit);
                continue;
            }
            let mut rest = word;
            while rest != 0 {
                visit(first + rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
    }

    /// The values of a column in the selected rows.
    #[inline]
    pub fn for_each_of<T: Copy>(&self, column: &[T], mut visit: impl FnMut(T)) {
        for (&word, values) in self.words.iter().zip(column.chunks(64)) {
            if word == u64::MAX {
                for value in values {
                    visit(*value);
                }
                continue;
            }
            let mut rest = word;
            while rest != 0 {
                if let Some(value) = values.get(rest.trailing_zeros() as usize) {
                    visit(*value);
                }
                rest &= rest - 1;
            }
        }
    }

    /// Rows below `end`, from the last.
    pub fn descending(&self, end: usize) -> impl Iterator<Item = usize> {
        let words = self.words.iter().enumerate().take(end.div_ceil(64)).rev();
        let rows = words.flat_map(|(index, &word)| {
            let bits = (0..64_usize).rev().filter(move |bit| word & (1 << bit) != 0);
            bits.map(move |bit| index * 64 + bit)
        });
        rows.skip_while(move |row| *row >= end)
    }
}

/// The number that rows must have: of a name that no row has, none fits.
fn wanted(number: Option<u16>) -> u16 {
    number.unwrap_or(u16::MAX)
}

impl Columns {
    pub fn select(&self, filter: &Filter) -> RowSelection {
        let mut words = vec![0_u64; self.len().div_ceil(64)];
        let mut count = 0;
        let passes = Passes::new(self, filter);
        for (index, word) in words.iter_mut().enumerate() {
            let rows = index * 64..(index * 64 + 64).min(self.len());
            *word = rows.enumerate().fold(0, |word, (bit, row)| word | u64::from(passes.row(row)) << bit);
            count += word.count_ones() as usize;
        }
        RowSelection { words, count }
    }

    /// The results of `selection` with this mode.
    pub fn of_mode(&self, selection: &RowSelection, mode: Mode) -> RowSelection {
        let mut words = vec![0_u64; selection.words.len()];
        let mut count = 0;
        selection.for_each(|row| {
            if self.mode[row] == mode {
                words[row / 64] |= 1 << (row % 64);
                count += 1;
            }
        });
        RowSelection { words, count }
    }
}

/// A filter with the numbers of its names.
struct Passes<'a> {
    columns: &'a Columns,
    is_operator: bool,
    transports: u8,
    kinds: u8,
    server: Option<u16>,
    operator: Option<u16>,
    experiment: Option<u16>,
    scenario: Option<u16>,
    mode: Option<Mode>,
    agent: Option<u32>,
    since_s: u32,
    until_s: u32,
    text: Option<[Vec<bool>; 5]>,
}

impl<'a> Passes<'a> {
    fn new(columns: &'a Columns, filter: &Filter) -> Self {
        let is_operator = filter.viewer == Viewer::Operator;
        let bits = Transport::ALL.into_iter().zip(0..).filter(|(one, _)| filter.transports.contains(one));
        let number = |names: &super::Names, wanted_name: &Option<String>| {
            wanted_name.as_ref().map(|name| wanted(names.find(name)))
        };
        // A name that the viewer may not see is that of no row.
        let shown = |dimension, names: &super::Names, wanted_name: &Option<String>| {
            let is_shown =
                wanted_name.as_ref().is_none_or(|name| columns.shows(filter.viewer, dimension, name));
            if is_shown { number(names, wanted_name) } else { Some(u16::MAX) }
        };
        let names = &columns.names;
        let text = filter.text.as_ref().map(|text| text.to_lowercase());
        Self {
            columns,
            is_operator,
            transports: bits.map(|(_, bit)| 1 << bit).sum(),
            kinds: filter
                .kind
                .and_then(|kind| KINDS.iter().position(|one| *one == kind))
                .map_or(0, |bit| 1 << bit),
            server: shown(Dimension::Server, &names.server, &filter.server),
            operator: shown(Dimension::Operator, &names.operator, &filter.operator),
            experiment: number(&names.experiment, &filter.experiment),
            scenario: number(&names.scenario, &filter.scenario),
            mode: filter.mode,
            agent: filter
                .agent
                .filter(|_| is_operator)
                .map(|id| columns.agents.find(&id).unwrap_or(u32::MAX)),
            since_s: filter.since_s.unwrap_or(0),
            until_s: filter.until_s.unwrap_or(u32::MAX),
            text: text.map(|text| {
                let all = [&names.server, &names.operator, &names.experiment, &names.scenario, &names.kernel];
                let mut found = all.map(|one| one.containing(&text));
                columns.retain_shown(filter.viewer, Dimension::Server, &mut found[0]);
                columns.retain_shown(filter.viewer, Dimension::Operator, &mut found[1]);
                found
            }),
        }
    }

    #[inline]
    fn row(&self, row: usize) -> bool {
        let columns = self.columns;
        let fits = |wanted: Option<u16>, column: &[u16]| wanted.is_none_or(|wanted| column[row] == wanted);
        (self.is_operator || columns.public[row])
            && !columns.deleted[row]
            && columns.started_s[row] >= self.since_s
            && columns.started_s[row] <= self.until_s
            && (self.transports == 0 || columns.transports[row] & self.transports != 0)
            && (self.kinds == 0 || columns.kinds[row] & self.kinds != 0)
            && fits(self.server, &columns.server)
            && fits(self.experiment, &columns.experiment)
            && fits(self.scenario, &columns.scenario)
            && self.operator.is_none_or(|wanted| columns.operator[row].contains(&wanted))
            && self.mode.is_none_or(|mode| columns.mode[row] == mode)
            && self.agent.is_none_or(|agent| columns.agent[row] == agent)
            && self.text.as_ref().is_none_or(|tables| self.text_row(tables, row))
    }

    fn text_row(
        &self,
        [server, operator, experiment, scenario, kernel]: &[Vec<bool>; 5],
        row: usize,
    ) -> bool {
        let columns = self.columns;
        let has = |table: &[bool], number: u16| {
            number != NONE && number != OTHER && table.get(usize::from(number)).is_some_and(|found| *found)
        };
        has(server, columns.server[row])
            || columns.operator[row].iter().any(|number| has(operator, *number))
            || has(experiment, columns.experiment[row])
            || has(scenario, columns.scenario[row])
            || has(kernel, columns.kernel[row])
    }
}
