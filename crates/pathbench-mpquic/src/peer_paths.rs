//! Which paths a server holds back or gives up. Pure, the counterpart of [`super::path_manager`].
//!
//! A server follows the client's statuses, as noq does not by itself, and adds what its own heartbeats say.

use super::path_manager::{CloseReason, PathAction, PathInput};
use noq_proto::{PathId, PathStatus};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each told by somebody else")]
struct Path {
    /// The client wants it used only when no other is usable.
    backup: bool,
    silent: bool,
    dead: bool,
    refused: bool,
    told_role: bool,
    told_suspended: bool,
    told_backup: bool,
}

#[derive(Debug, Default)]
pub(crate) struct KeptOff(BTreeSet<PathId>);

impl KeptOff {
    /// Takes in a status that the peer tells; whether it is another one than before. noq hands on each that arrives, and
    /// a peer repeats what has not changed.
    pub(crate) fn change(&mut self, path: PathId, status: PathStatus) -> bool {
        match status {
            PathStatus::Backup => self.0.insert(path),
            PathStatus::Available => self.0.remove(&path),
        }
    }

    pub(crate) fn forget(&mut self, path: PathId) {
        self.0.remove(&path);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The paths that a client has opened to this server, by one connection.
#[derive(Debug, Default)]
pub(crate) struct PeerPaths {
    paths: BTreeMap<PathId, Path>,
    backup_needed: bool,
}

impl PeerPaths {
    /// Takes in what happened, and says what is to be done now. Links, addresses and openings are the client's.
    pub(crate) fn handle(&mut self, input: &PathInput) -> Vec<PathAction> {
        match input {
            PathInput::Established { path } => {
                self.paths.entry(*path).or_default();
                for path in self.paths.values_mut() {
                    path.refused = false;
                }
            }
            PathInput::Abandoned { path } => {
                self.paths.remove(path);
            }
            PathInput::CloseRefused { path } => self.change(*path, |path| path.refused = true),
            PathInput::Silent { path } => self.change(*path, |path| path.silent = true),
            PathInput::Heard { path } => self.change(*path, |path| (path.silent, path.dead) = (false, false)),
            PathInput::Dead { path } => self.change(*path, |path| (path.silent, path.dead) = (true, true)),
            PathInput::RemoteStatus { path, backup } => self.change(*path, |path| {
                path.backup = *backup;
                path.told_role = false;
            }),
            PathInput::BackupNeeded(needed) => self.backup_needed = *needed,
            PathInput::LinkUp { .. }
            | PathInput::LinkDown { .. }
            | PathInput::AddressAdded { .. }
            | PathInput::AddressRemoved { .. }
            | PathInput::Opened { .. }
            | PathInput::OpenFailed { .. } => {}
        }
        self.actions()
    }

    fn change(&mut self, path: PathId, change: impl FnOnce(&mut Path)) {
        if let Some(path) = self.paths.get_mut(&path) {
            change(path);
        }
    }

    fn actions(&mut self) -> Vec<PathAction> {
        let mut actions = Vec::new();
        let heard = self.paths.values().any(|path| !path.silent);
        let preferred = self.paths.values().any(|path| !path.silent && !path.backup);
        for (&path, state) in &mut self.paths {
            if !std::mem::replace(&mut state.told_role, true) {
                actions.push(PathAction::SetRole { path, backup: state.backup, weight: 1 });
            }
            if std::mem::replace(&mut state.told_suspended, state.silent) != state.silent {
                actions.push(PathAction::SetSuspended { path, suspended: state.silent });
            }
            let backup = state.silent || (state.backup && preferred && !self.backup_needed);
            if std::mem::replace(&mut state.told_backup, backup) != backup {
                actions.push(PathAction::SetStatus { path, backup });
            }
            if state.dead && heard && !state.refused {
                // Until it is refused or abandoned, it is not asked for again.
                state.refused = true;
                actions.push(PathAction::Close { path, reason: CloseReason::Silent });
            }
        }
        actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PathId = PathId::ZERO;

    fn b() -> PathId {
        PathId::from(1_u32)
    }

    fn two_paths() -> PeerPaths {
        let mut paths = PeerPaths::default();
        for path in [A, b()] {
            let actions = paths.handle(&PathInput::Established { path });
            assert_eq!(actions, [PathAction::SetRole { path, backup: false, weight: 1 }]);
        }
        paths
    }

    #[test]
    fn the_clients_status_is_followed_both_ways() {
        let mut paths = two_paths();
        let path = b();
        for backup in [true, false] {
            let actions = paths.handle(&PathInput::RemoteStatus { path, backup });
            assert_eq!(
                actions,
                [PathAction::SetRole { path, backup, weight: 1 }, PathAction::SetStatus { path, backup }]
            );
        }
    }

    #[test]
    fn a_backup_is_available_when_nothing_else_is_heard() {
        let mut paths = two_paths();
        let _ = paths.handle(&PathInput::RemoteStatus { path: b(), backup: true });
        let actions = paths.handle(&PathInput::Silent { path: A });
        assert!(actions.contains(&PathAction::SetSuspended { path: A, suspended: true }), "{actions:?}");
        assert!(actions.contains(&PathAction::SetStatus { path: A, backup: true }), "{actions:?}");
        assert!(actions.contains(&PathAction::SetStatus { path: b(), backup: false }), "{actions:?}");
    }

    #[test]
    fn a_dead_path_is_closed_once_and_only_while_another_is_heard() {
        let mut paths = two_paths();
        let close = |path| PathAction::Close { path, reason: CloseReason::Silent };
        let _ = paths.handle(&PathInput::Silent { path: b() });
        assert!(
            !paths.handle(&PathInput::Dead { path: A }).contains(&close(A)),
            "the other is silent as well"
        );
        assert!(paths.handle(&PathInput::Heard { path: b() }).contains(&close(A)));
        let _ = paths.handle(&PathInput::CloseRefused { path: A });
        assert!(!paths.handle(&PathInput::Dead { path: A }).contains(&close(A)), "it was refused");
        let again = paths.handle(&PathInput::Established { path: PathId::from(2_u32) });
        assert!(again.contains(&close(A)), "{again:?}");
    }

    #[test]
    fn a_path_that_is_gone_is_not_spoken_of() {
        let mut paths = two_paths();
        let _ = paths.handle(&PathInput::Abandoned { path: A });
        for input in
            [PathInput::Silent { path: A }, PathInput::Dead { path: A }, PathInput::Heard { path: A }]
        {
            assert_eq!(paths.handle(&input), []);
        }
    }
}
