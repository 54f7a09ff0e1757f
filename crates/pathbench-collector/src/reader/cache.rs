//! A small cache in memory; the least recently used entry goes first.

use pathbench_record::time::Timestamp;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Cache<K, V> {
    most: usize,
    /// Key, time of creation, value; the least recently used first.
    entries: Mutex<Vec<(K, Timestamp, Arc<V>)>>,
}

impl<K: Eq + Hash, V> Cache<K, V> {
    pub(super) const fn new(most: usize) -> Self {
        Self { most, entries: Mutex::new(Vec::new()) }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<(K, Timestamp, Arc<V>)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of `key` if it is younger than `age`.
    pub(super) fn get(&self, key: &K, now: Timestamp, age: Duration) -> Option<Arc<V>> {
        let mut entries = self.entries();
        let index = entries.iter().position(|(one, _, _)| one == key)?;
        let entry = entries.remove(index);
        if now.duration_since(entry.1) >= age {
            return None;
        }
        let value = Arc::clone(&entry.2);
        entries.push(entry);
        Some(value)
    }

    pub(super) fn clear(&self) {
        self.entries().clear();
    }

    pub(super) fn put(&self, key: K, now: Timestamp, value: Arc<V>) {
        let mut entries = self.entries();
        entries.retain(|(one, _, _)| *one != key);
        if entries.len() >= self.most {
            entries.remove(0);
        }
        entries.push((key, now, value));
    }
}
