//! The rule of three: everybody sees the name of an operator or a server if enough people have public results with it.

use super::names::OTHER;

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
pub(super) struct Disclosure(Vec<FirstPeople>);

impl Disclosure {
    /// Whether the name has become public.
    fn insert(&mut self, name: u16, agent: u32, source: u32) -> bool {
        // The number of people behind each name beyond the table is unknown.
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

    pub(super) fn is_public(&self, name: u16) -> bool {
        self.0.get(usize::from(name)).is_some_and(FirstPeople::are_enough)
    }

    pub(super) fn public(&self) -> impl Iterator<Item = u16> {
        (0..).zip(&self.0).filter(|(_, people)| people.are_enough()).map(|(name, _)| name)
    }
}

/// The names that everybody may see, and a number that changes with them.
#[derive(Debug, Clone, Default)]
pub(super) struct Disclosures {
    pub(super) server: Disclosure,
    pub(super) operator: Disclosure,
    pub(super) version: u64,
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

    /// These names instead: counted anew after rows are gone.
    pub(super) fn replace(&mut self, new: Self) {
        let is_same =
            new.server.public().eq(self.server.public()) && new.operator.public().eq(self.operator.public());
        let version = self.version + u64::from(!is_same);
        *self = Self { version, ..new };
    }
}
