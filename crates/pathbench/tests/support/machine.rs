//! The machine outside all labs, to compare its state before and after a test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Sysctls that are counters and change by themselves.
const COUNTERS: [&str; 1] = ["nf_conntrack_count"];

/// Interfaces and network settings of the test's own network namespace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    interfaces: BTreeSet<String>,
    sysctls: BTreeMap<PathBuf, String>,
}

impl Machine {
    pub(crate) fn now() -> Self {
        let mut sysctls = BTreeMap::new();
        read_tree(Path::new("/proc/sys/net"), &mut sysctls);
        assert!(sysctls.len() > 100, "there should be more than {} readable sysctls", sysctls.len());
        Self { interfaces: interfaces(&fs::read_to_string("/proc/self/net/dev").unwrap()), sysctls }
    }
}

/// The names in a `/proc/net/dev`.
pub(crate) fn interfaces(table: &str) -> BTreeSet<String> {
    table.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned()).collect()
}

/// Every setting that this user can read.
fn read_tree(directory: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_tree(&path, found);
        } else if !COUNTERS.iter().any(|counter| path.ends_with(counter))
            && let Ok(value) = fs::read_to_string(&path)
        {
            found.insert(path, value);
        }
    }
}
