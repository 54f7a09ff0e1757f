//! The configured paths of a client: when each is opened and retried.

use super::state::{CloseReason, PathState};
use crate::options::{LocalInterface, LocalPath};
use pathbench_record::connection::Scheduler;
use pathbench_record::sample::PathState as Stage;
use pathbench_record::time::Timestamp;
use std::net::IpAddr;
use std::time::Duration;

/// Time limit of an opening after its link went down and came up again: its socket may be unusable.
pub(super) const REOPEN_TIMEOUT: Duration = Duration::from_secs(3);
/// The peer's connection ids for further paths arrive a moment after the handshake.
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LAST_RETRY: Duration = Duration::from_secs(3);
/// After a path was established this long, the retry interval starts from the first again.
const PROVED_AFTER: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) path: LocalPath,
    /// Used only when no other path is usable.
    pub(super) backup: bool,
    pub(super) interface: LocalInterface,
    pub(super) retry_at: Timestamp,
    retry_after: Duration,
}

impl Wanted {
    /// With the `backup` scheduler and no path marked as backup, all paths but the first are backups.
    pub(super) fn all(
        paths: &[LocalPath],
        scheduler: &Scheduler,
        interfaces: &[LocalInterface],
    ) -> Vec<Self> {
        let all_but_first =
            matches!(scheduler, Scheduler::Backup { .. }) && paths.iter().all(|path| !path.backup);
        let wanted = paths.iter().enumerate().map(|(index, path)| {
            let interface = interfaces.iter().find(|interface| interface.name == path.interface);
            Self {
                path: path.clone(),
                backup: path.backup || (all_but_first && index > 0),
                interface: interface.cloned().unwrap_or_default(),
                retry_at: Timestamp::default(),
                retry_after: FIRST_RETRY,
            }
        });
        wanted.collect()
    }

    /// The source address, if the interface is up and has a suitable one of the family.
    pub(super) fn source(&self, ipv6: bool) -> Option<IpAddr> {
        self.path.source(&self.interface, ipv6)
    }

    /// Updates the interface's state. Returns whether it lost, and whether it gained, its link or an address.
    pub(super) fn change(&mut self, interface: &LocalInterface, now: Timestamp) -> (bool, bool) {
        let (old, new) = (&self.interface, interface);
        let lacks = |of: &LocalInterface, address: &IpAddr| !of.addresses.contains(address);
        let lost = (old.up && !new.up) || old.addresses.iter().any(|address| lacks(new, address));
        let gained = (!old.up && new.up) || new.addresses.iter().any(|address| lacks(old, address));
        self.interface = interface.clone();
        if lost || gained {
            (self.retry_at, self.retry_after) = (now, FIRST_RETRY);
        }
        (lost, gained)
    }

    /// The path ended or could not be opened: delays the next attempt.
    pub(super) fn put_off(&mut self, established: Option<Timestamp>, now: Timestamp) {
        if established.is_some_and(|since| now.duration_since(since) >= PROVED_AFTER) {
            self.retry_after = FIRST_RETRY;
        }
        self.retry_at = now + self.retry_after;
        self.retry_after = (self.retry_after * 2).min(LAST_RETRY);
    }

    /// When an unanswered opening ends. `None` while the link is down: waiting costs nothing, but closing the path
    /// would use up a path id.
    pub(super) fn opening_ends_at(&self, path: &PathState) -> Option<Timestamp> {
        (path.stage == Stage::Opening && self.interface.up).then(|| path.since + path.patience)
    }

    pub(super) fn reason_to_close(
        &self,
        path: &PathState,
        ipv6: bool,
        now: Timestamp,
    ) -> Option<CloseReason> {
        let own = path.local.ip();
        match path.stage {
            Stage::Opening if self.source(ipv6).is_some_and(|source| source != own) => {
                Some(CloseReason::AddressRemoved)
            }
            Stage::Opening => {
                self.opening_ends_at(path).filter(|end| now >= *end).map(|_| CloseReason::OpenTimeout)
            }
            Stage::Open if !self.interface.up => Some(CloseReason::LinkDown),
            Stage::Open if !self.interface.addresses.contains(&own) => Some(CloseReason::AddressRemoved),
            Stage::Open | Stage::Closed => None,
        }
    }
}
