//! The kernel's protocol counters (MIB) of a network namespace, for example `MPTcpExt.MPJoinSynTx`.

use pathbench_record::file;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Counters of a network namespace by name: `group.counter` from `netstat` and `snmp` (`MPTcpExt.MPCapableSYNTX`,
/// `Tcp.RetransSegs`), the name in the file from `snmp6` (`Ip6InReceives`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelCounters {
    values: BTreeMap<String, i64>,
}

/// The counters could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the kernel's counters from {}: {source}", path.display())]
pub struct CountersError {
    pub path: PathBuf,
    pub source: std::io::Error,
}

impl KernelCounters {
    /// All counters of the calling thread's network namespace.
    pub fn read() -> Result<Self, CountersError> {
        let read = |name: &str| {
            let path = PathBuf::from("/proc/thread-self/net").join(name);
            file::read_text(&path, file::SMALL_FILE_BYTES).map_err(|source| CountersError { path, source })
        };
        let mut counters = Self::default();
        counters.take_table(&read("netstat")?);
        counters.take_table(&read("snmp")?);
        match read("snmp6") {
            Ok(text) => counters.take_list(&text),
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(counters)
    }

    /// The value of one counter; `None` when this kernel does not have it.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.values.get(name).copied()
    }

    /// Names and values in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.values.iter().map(|(name, value)| (name.as_str(), *value))
    }

    pub fn difference(before: &Self, after: &Self) -> BTreeMap<String, i64> {
        let changed = after.values.iter().filter_map(|(name, value)| {
            let change = value.wrapping_sub(before.get(name).unwrap_or(0));
            (change != 0).then(|| (name.clone(), change))
        });
        changed.collect()
    }

    /// Parses counters in the format of `/proc/net/netstat` and `/proc/net/snmp`.
    pub fn take_table(&mut self, text: &str) {
        let mut lines = text.lines();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let (Some((group, names)), Some((same, values))) =
                (names.split_once(':'), values.split_once(':'))
            else {
                continue;
            };
            if group != same {
                continue;
            }
            for (name, value) in names.split_ascii_whitespace().zip(values.split_ascii_whitespace()) {
                self.take(format!("{group}.{name}"), value);
            }
        }
    }

    /// Parses counters in the format of `/proc/net/snmp6`.
    pub fn take_list(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            if let (Some(name), Some(value)) = (words.next(), words.next()) {
                self.take(name.to_owned(), value);
            }
        }
    }

    /// Some files contain unsigned 64-bit counters; values above `i64::MAX` wrap to `i64::MIN`.
    fn take(&mut self, name: String, value: &str) {
        let value = value.parse::<i64>().or_else(|_| value.parse::<u64>().map(|value| value as i64));
        if let Ok(value) = value {
            self.values.insert(name, value);
        }
    }
}
