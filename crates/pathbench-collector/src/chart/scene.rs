//! The results that a chart is built from.

use crate::columns::{Columns, Dimension, Filter, LEAST_AGENTS, Period, RowSelection};
use crate::viewer::Viewer;
use pathbench_record::transport::Transport;

/// Groups of a chart.
pub(super) const MOST_GROUPS: usize = 12;

/// Points of a course over time.
const MOST_PERIODS: usize = 60;

/// The results of a filter.
pub struct Scene<'a> {
    pub(super) columns: &'a Columns,
    pub(super) selection: RowSelection,
    pub(super) transports: Vec<Transport>,
    viewer: Viewer,
    pub(super) is_withheld: bool,
}

impl<'a> Scene<'a> {
    pub fn new(columns: &'a Columns, filter: &Filter) -> Self {
        let selection = columns.select(filter);
        let is_named = filter.operator.is_some() || filter.server.is_some() || filter.text.is_some();
        let is_hidden = |dimension, name: &Option<String>| {
            name.as_ref().is_some_and(|name| !columns.shows(filter.viewer, dimension, name))
        };
        // The answer is the same whether a hidden name has results or not.
        let is_withheld = is_hidden(Dimension::Operator, &filter.operator)
            || is_hidden(Dimension::Server, &filter.server)
            || filter.viewer == Viewer::Everybody
                && is_named
                && !selection.is_empty()
                && columns.people(&selection) < LEAST_AGENTS;
        let is_wanted = |one: &Transport| filter.transports.is_empty() || filter.transports.contains(one);
        let transports = Transport::ALL.into_iter().filter(is_wanted).collect();
        Self { columns, selection, transports, viewer: filter.viewer, is_withheld }
    }

    /// The values of a dimension with most results, in alphabetical order.
    pub fn members(&self, dimension: Dimension, most: usize) -> Vec<String> {
        let least = self.least_agents(dimension);
        let members = self.columns.members(&self.selection, dimension, (least, most)).members;
        let mut names: Vec<String> = members.into_iter().map(|one| one.name).collect();
        names.sort();
        names
    }

    pub(super) const fn least_agents(&self, dimension: Dimension) -> u64 {
        match (self.viewer, dimension) {
            (Viewer::Everybody, Dimension::Operator | Dimension::Server) => LEAST_AGENTS,
            _ => 0,
        }
    }

    pub(super) fn shows(&self, transport: Transport) -> bool {
        self.transports.contains(&transport)
    }

    pub(super) fn period(&self) -> Option<Period> {
        Some(Period::covering(self.columns.span_s(&self.selection)?, MOST_PERIODS))
    }
}
