//! Names as numbers: each column holds a bounded number of distinct ones.

use std::collections::HashMap;
use std::hash::Hash;

/// The number of an absent name.
pub(super) const NONE: u16 = 0;

/// The number of all names beyond [`MOST_NAMES`].
pub(super) const OTHER: u16 = 1;

/// Distinct names of a dimension.
pub(super) const MOST_NAMES: usize = 4096;

/// Distinct agents or networks; all beyond count as one.
pub(super) const MOST_KEYS: usize = 1 << 20;

#[derive(Debug, Clone)]
pub(super) struct Names {
    texts: Vec<String>,
    numbers: HashMap<String, u16>,
}

impl Default for Names {
    fn default() -> Self {
        Self { texts: vec![String::new(), "other".to_owned()], numbers: HashMap::new() }
    }
}

impl Names {
    pub(super) fn number(&mut self, text: &str) -> u16 {
        if text.is_empty() {
            return NONE;
        }
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        if self.texts.len() >= MOST_NAMES {
            return OTHER;
        }
        let number = self.texts.len() as u16;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    pub(super) fn find(&self, text: &str) -> Option<u16> {
        self.numbers.get(text).copied()
    }

    /// Numbers in use.
    pub(super) fn count_numbers(&self) -> usize {
        self.texts.len()
    }

    pub(super) fn text(&self, number: u16) -> &str {
        self.texts.get(usize::from(number)).map_or("", String::as_str)
    }

    /// For each number whether its name contains `wanted`, which is in lower case.
    pub(super) fn containing(&self, wanted: &str) -> Vec<bool> {
        self.texts.iter().map(|text| !text.is_empty() && text.to_lowercase().contains(wanted)).collect()
    }
}

/// Numbers of keys that are only counted; 0 is no key.
#[derive(Debug, Clone)]
pub(super) struct Keys<K>(HashMap<K, u32>);

impl<K> Default for Keys<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Keys<K> {
    pub(super) fn number(&mut self, key: K) -> u32 {
        let next = self.0.len() as u32 + 1;
        if self.0.len() >= MOST_KEYS {
            return self.0.get(&key).copied().unwrap_or(next);
        }
        *self.0.entry(key).or_insert(next)
    }

    pub(super) fn find(&self, key: &K) -> Option<u32> {
        self.0.get(key).copied()
    }
}

/// A set of numbers of keys.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    words: Vec<u64>,
    count: u64,
}

impl KeySet {
    #[inline]
    pub fn insert(&mut self, number: u32) {
        if number == 0 {
            return;
        }
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.count += u64::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }
}

/// The agents and the sources of rows.
#[derive(Debug, Clone, Default)]
pub(super) struct People {
    agents: KeySet,
    sources: KeySet,
}

impl People {
    #[inline]
    pub(super) fn insert(&mut self, agent: u32, source: u32) {
        self.agents.insert(agent);
        self.sources.insert(source);
    }

    pub(super) fn count(&self) -> u64 {
        self.agents.count().min(self.sources.count())
    }
}
