//! The rule of three: everybody sees the name of an operator or a server if enough people have public results with it.

use super::names::{Names, OTHER};
use super::{Columns, Dimension};
use crate::viewer::Viewer;

/// People behind a name, or in a group, that everybody may see.
pub const LEAST_AGENTS: u64 = 3;

/// The first distinct numbers of keys; 0 is no key.
#[derive(Debug, Clone, Copy, Default)]
struct FirstKeys([u32; LEAST_AGENTS as usize]);

impl FirstKeys {
    fn insert(&mut self, key: u32) {
        if self.0.contains(&key) {
            return;
        }
        if let Some(free) = self.0.iter_mut().find(|one| **one == 0) {
            *free = key;
        }
    }

    const fn is_full(&self) -> bool {
        self.0[LEAST_AGENTS as usize - 1] != 0
    }
}

/// The first agents and sources with a name.
#[derive(Debug, Clone, Copy, Default)]
struct FirstPeople {
    agents: FirstKeys,
    sources: FirstKeys,
}

impl FirstPeople {
    const fn are_enough(&self) -> bool {
        self.agents.is_full() && self.sources.is_full()
    }
}

/// The first people with each name of a dimension, by the number of the name.
#[derive(Debug, Clone, Default)]
struct Disclosure(Vec<FirstPeople>);

impl Disclosure {
    /// Whether the name has become public.
    fn insert(&mut self, name: u16, agent: u32, source: u32) -> bool {
        // Of the names beyond the table nobody knows how many people have each.
        if name <= OTHER {
            return false;
        }
        let index = usize::from(name);
        if self.0.len() <= index {
            self.0.resize(index + 1, FirstPeople::default());
        }
        let people = &mut self.0[index];
        let was_public = people.are_enough();
        people.agents.insert(agent);
        people.sources.insert(source);
        people.are_enough() && !was_public
    }

    fn is_public(&self, name: u16) -> bool {
        self.0.get(usize::from(name)).is_some_and(FirstPeople::are_enough)
    }

    fn public(&self) -> impl Iterator<Item = u16> {
        (0..).zip(&self.0).filter(|(_, people)| people.are_enough()).map(|(name, _)| name)
    }
}

/// The names that everybody may see, and a number that changes with them.
#[derive(Debug, Clone, Default)]
pub(super) struct Disclosures {
    server: Disclosure,
    operator: Disclosure,
    version: u64,
}

impl Disclosures {
    /// A public result with these names.
    pub(super) fn insert(&mut self, server: u16, operators: &[u16], agent: u32, source: u32) {
        let mut is_new = self.server.insert(server, agent, source);
        for operator in operators {
            is_new |= self.operator.insert(*operator, agent, source);
        }
        self.version += u64::from(is_new);
    }
}

impl Columns {
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
    pub(super) fn retain_shown(&self, viewer: Viewer, dimension: Dimension, found: &mut [bool]) {
        if let Some((_, disclosure)) = self.disclosure_of(dimension).filter(|_| viewer == Viewer::Everybody) {
            (0..).zip(found).for_each(|(number, found)| *found &= disclosure.is_public(number));
        }
    }

    /// The names of servers that everybody may see.
    pub fn public_servers(&self) -> impl Iterator<Item = &str> {
        self.disclosures.server.public().map(|number| self.names.server.text(number))
    }

    /// Counts the people anew: rows are gone.
    pub(super) fn recount_people(&mut self) {
        let mut new = Disclosures::default();
        for row in 0..self.len() {
            if self.public[row] && !self.deleted[row] {
                new.insert(self.server[row], &self.operator[row], self.agent[row], self.source[row]);
            }
        }
        let old = &self.disclosures;
        let is_same =
            new.server.public().eq(old.server.public()) && new.operator.public().eq(old.operator.public());
        new.version = old.version + u64::from(!is_same);
        self.disclosures = new;
    }
}
