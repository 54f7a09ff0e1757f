//! A small cache in memory; the least recently used entry goes first.

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Cache<K, V> {
    most: usize,
    /// Key, time of creation, value; the least recently used first.
    entries: Mutex<Vec<(K, Duration, Arc<V>)>>,
}

impl<K: Eq + Hash, V> Cache<K, V> {
    pub(super) const fn new(most: usize) -> Self {
        Self { most, entries: Mutex::new(Vec::new()) }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<(K, Duration, Arc<V>)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of `key` if it is younger than `age`.
    pub(super) fn get(&self, key: &K, now: Duration, age: Duration) -> Option<Arc<V>> {
        let mut entries = self.entries();
        let index = entries.iter().position(|(one, _, _)| one == key)?;
        let entry = entries.remove(index);
        if now.saturating_sub(entry.1) >= age {
            return None;
        }
        let value = Arc::clone(&entry.2);
        entries.push(entry);
        Some(value)
    }

    pub(super) fn clear(&self) {
        self.entries().clear();
    }

    pub(super) fn put(&self, key: K, now: Duration, value: Arc<V>) {
        let mut entries = self.entries();
        entries.retain(|(one, _, _)| *one != key);
        if entries.len() >= self.most {
            entries.remove(0);
        }
        entries.push((key, now, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_goes_and_old_ones_expire() {
        let cache = Cache::new(2);
        let at = Duration::from_secs;
        cache.put("a", at(0), Arc::new(1));
        cache.put("b", at(1), Arc::new(2));
        assert_eq!(cache.get(&"a", at(1), at(5)).as_deref(), Some(&1));
        cache.put("c", at(2), Arc::new(3));
        assert_eq!(cache.get(&"b", at(2), at(5)), None);
        assert_eq!(cache.get(&"a", at(5), at(5)), None);
        assert_eq!(cache.get(&"c", at(5), at(5)).as_deref(), Some(&3));
    }
}
