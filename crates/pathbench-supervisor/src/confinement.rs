//! Which processes restrict themselves by Landlock. The kernel does not report it, so each `landlock_restrict_self` of the
//! tree is noted; descendants inherit the restriction.

use pathbench_host::process::Ancestry;
use std::collections::HashSet;

/// Beyond it every process counts as confined.
const MOST_PROCESSES: usize = 4096;
/// Longest line of ancestors that is followed.
const MOST_ANCESTORS: usize = 1024;

/// The confined processes of a tree. It errs on the safe side: a child that was forked before its parent restricted
/// itself, and an orphan of unknown ancestors, count as confined.
#[derive(Debug, Clone, Default)]
pub(crate) struct Confinement {
    processes: HashSet<u32>,
    is_full: bool,
}

impl Confinement {
    /// Notes that a process restricts itself.
    pub(crate) fn add(&mut self, process: u32) {
        if self.processes.len() >= MOST_PROCESSES {
            self.is_full = true;
        } else {
            self.processes.insert(process);
        }
    }

    /// Notes that an unknown process restricts itself: every process counts as confined from now on.
    pub(crate) fn add_unknown(&mut self) {
        self.is_full = true;
    }

    /// Whether any process is confined.
    pub(crate) fn is_in_use(&self) -> bool {
        self.is_full || !self.processes.is_empty()
    }

    /// Whether the process of `thread` may be confined. `root` is the first process of the tree, `ancestry` looks up a
    /// process.
    pub(crate) fn includes(
        &self,
        thread: u32,
        root: u32,
        ancestry: impl Fn(u32) -> Option<Ancestry>,
    ) -> bool {
        if self.is_full || self.processes.is_empty() {
            return self.is_full;
        }
        let mut at = thread;
        for _ in 0..MOST_ANCESTORS {
            // A process that has ended meanwhile makes no socket.
            let Some(found) = ancestry(at) else { return true };
            if self.processes.contains(&found.process) {
                return true;
            }
            if found.process == root {
                return false;
            }
            at = found.parent;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: u32 = 10;

    /// 10 is the root, 11 its child, 12 the child of 11, 13 a thread of 12; 20 is an orphan.
    fn tree(thread: u32) -> Option<Ancestry> {
        let (process, parent) = match thread {
            10 => (10, 5),
            11 => (11, 10),
            12 | 13 => (12, 11),
            14 => (14, 10),
            20 => (20, 5),
            5 => (5, 1),
            1 => (1, 0),
            _ => return None,
        };
        Some(Ancestry { process, parent })
    }

    #[test]
    fn the_restriction_is_inherited() {
        let mut confinement = Confinement::default();
        for thread in [10, 11, 12, 13, 14, 20, 99] {
            assert!(!confinement.includes(thread, ROOT, tree), "{thread}");
        }
        confinement.add(11);
        for (thread, expected) in
            [(10, false), (11, true), (12, true), (13, true), (14, false), (20, true), (99, true)]
        {
            assert_eq!(confinement.includes(thread, ROOT, tree), expected, "{thread}");
        }
        confinement.add(10);
        assert!(confinement.includes(14, ROOT, tree));
    }

    #[test]
    fn the_set_is_bounded_and_a_full_one_includes_everything() {
        let mut confinement = Confinement::default();
        (100..100 + 2 * MOST_PROCESSES as u32).for_each(|process| confinement.add(process));
        assert_eq!(confinement.processes.len(), MOST_PROCESSES);
        assert!(confinement.includes(14, ROOT, tree));
    }
}
