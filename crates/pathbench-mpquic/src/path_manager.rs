//! Which paths a client opens, closes and holds back. Pure: events and time in, actions out.
//!
//! A path is opened as soon as its interface is up and has an address, given up when opening takes too long, and
//! tried again with back-off. It is closed at once when its link or address goes, for noq sends again what was
//! in flight only after that; but never the last one, for that would end the connection. The server has
//! [`PeerPaths`](super::peer_paths::PeerPaths) instead: it cannot open paths and follows the client's word.
//!
//! The client's statuses (`PATH_STATUS_AVAILABLE`, `PATH_STATUS_BACKUP`) are its own opinion. What the server says in
//! return is not echoed but avoided: two ends that follow each other would never come back.

mod local;

use super::options::LocalPath;
use local::{Local, Stage};
use noq_proto::PathId;
use pathbench_record::connection::Scheduler;
use pathbench_record::time::Timestamp;
use std::net::IpAddr;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathManagerOptions {
    /// A path that is not validated by then is closed and tried again. Long, for each try uses up a path id for good
    /// (noq replaces the ids only of paths that it has heard of), and noq itself asks again every two seconds.
    pub(crate) open_timeout: Duration,
    /// As above, from when a link is back that went down meanwhile: its socket may be none any more.
    pub(crate) reopen_timeout: Duration,
    pub(crate) first_retry: Duration,
    pub(crate) last_retry: Duration,
    /// A path established this long has proved itself: the next retry is the first again.
    pub(crate) proved_after: Duration,
}

impl Default for PathManagerOptions {
    fn default() -> Self {
        Self {
            open_timeout: Duration::from_secs(600),
            reopen_timeout: Duration::from_secs(3),
            first_retry: Duration::from_millis(25),
            last_retry: Duration::from_secs(3),
            proved_after: Duration::from_secs(3),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    LinkDown,
    AddressRemoved,
    OpenTimeout,
    Silent,
}

impl CloseReason {
    /// A clause that completes "the path was closed because".
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::LinkDown => "the interface went down",
            Self::AddressRemoved => "the local address was removed",
            Self::OpenTimeout => "the peer did not answer on it in time",
            Self::Silent => "nothing was heard on it while another path was heard",
        }
    }
}

/// Something happened to a path, a link or an address. `local` is the index of a wanted path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathInput {
    /// The interface is up and has a carrier.
    LinkUp {
        interface: String,
    },
    /// It is down, has no carrier, or is gone.
    LinkDown {
        interface: String,
    },
    AddressAdded {
        interface: String,
        address: IpAddr,
    },
    AddressRemoved {
        interface: String,
        address: IpAddr,
    },
    /// `PathAction::Open` was begun as this path; also for the path of the handshake, [`PathId::ZERO`].
    Opened {
        local: usize,
        path: PathId,
    },
    /// `PathAction::Open` could not even be begun (no connection ids yet, no socket).
    OpenFailed {
        local: usize,
    },
    /// The path is validated. Also for [`PathId::ZERO`] when the handshake is complete.
    Established {
        path: PathId,
    },
    /// noq abandoned it, whoever wished so.
    Abandoned {
        path: PathId,
    },
    /// noq would not close it: it was the last one.
    CloseRefused {
        path: PathId,
    },
    /// Heartbeats: nothing heard for some time.
    Silent {
        path: PathId,
    },
    Heard {
        path: PathId,
    },
    /// Heartbeats: silent for too long.
    Dead {
        path: PathId,
    },
    /// The peer changed its status of the path.
    RemoteStatus {
        path: PathId,
        backup: bool,
    },
    /// The `backup` scheduler turns to the backup paths (`Board::trouble` is some), or back.
    BackupNeeded(bool),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathAction {
    /// `Connection::open_path` from this address with status Available, whatever its role: only a *change* of
    /// the status is signalled. To be answered with `Opened` or `OpenFailed`.
    Open {
        local: usize,
        address: IpAddr,
    },
    /// `Connection::close_path`. To be answered with `CloseRefused` if it was the last one.
    Close {
        path: PathId,
        reason: CloseReason,
    },
    SetStatus {
        path: PathId,
        backup: bool,
    },
    SetRole {
        path: PathId,
        backup: bool,
        weight: u32,
    },
    SetSuspended {
        path: PathId,
        suspended: bool,
    },
    SetAvoided {
        path: PathId,
        avoided: bool,
    },
}

#[derive(Debug)]
pub(crate) struct PathManager {
    options: PathManagerOptions,
    ipv6: bool,
    locals: Vec<Local>,
    backup_needed: bool,
}

impl PathManager {
    /// A manager for the paths `wanted` to a server that is reached by IPv6 (`ipv6`) or IPv4.
    ///
    /// Nothing is up until it is told so, which is for when the handshake is complete; the first `Open` of the path
    /// that the handshake took is to be answered with `Opened` and `Established`. With the `backup` scheduler and
    /// no path marked as backup, all but the first are.
    pub(crate) fn new(
        wanted: &[LocalPath],
        scheduler: &Scheduler,
        ipv6: bool,
        options: PathManagerOptions,
    ) -> Self {
        let all_but_first =
            matches!(scheduler, Scheduler::Backup { .. }) && wanted.iter().all(|path| !path.backup);
        let locals = wanted.iter().enumerate().map(|(index, wanted)| {
            Local::new(wanted, wanted.backup || (all_but_first && index > 0), &options)
        });
        Self { options, ipv6, locals: locals.collect(), backup_needed: false }
    }

    pub(crate) fn handle(&mut self, input: &PathInput, now: Timestamp) -> Vec<PathAction> {
        match input {
            PathInput::LinkUp { interface } => self.link(interface, true, now),
            PathInput::LinkDown { interface } => self.link(interface, false, now),
            PathInput::AddressAdded { interface, address } => self.address(interface, *address, true, now),
            PathInput::AddressRemoved { interface, address } => self.address(interface, *address, false, now),
            PathInput::Opened { local, path } => self.opened(*local, *path, now),
            PathInput::OpenFailed { local } => self.open_failed(*local, now),
            PathInput::Established { path } => self.established(*path, now),
            PathInput::Abandoned { path } => {
                let options = self.options;
                if let Some(local) = self.of(*path) {
                    local.end(now, &options);
                }
            }
            PathInput::CloseRefused { path } => self.close_refused(*path),
            PathInput::Silent { path } => self.heard(*path, true, false),
            PathInput::Heard { path } => self.heard(*path, false, false),
            PathInput::Dead { path } => self.heard(*path, true, true),
            PathInput::RemoteStatus { path, backup } => {
                if let Some(local) = self.of(*path) {
                    local.remote_backup = *backup;
                }
            }
            PathInput::BackupNeeded(needed) => self.backup_needed = *needed,
        }
        self.poll(now)
    }

    pub(crate) fn poll(&mut self, now: Timestamp) -> Vec<PathAction> {
        let mut actions = Vec::new();
        self.close(now, &mut actions);
        self.open(now, &mut actions);
        self.tell(&mut actions);
        actions
    }

    /// When [`PathManager::poll`] is due.
    pub(crate) fn next_timeout(&self) -> Option<Timestamp> {
        let due = |local: &Local| match local.stage {
            Stage::Idle { retry_at } if local.source(self.ipv6).is_some() => Some(retry_at),
            Stage::Requested { since, .. } => Some(since + self.options.open_timeout),
            Stage::Opening { since, .. } if local.up && local.closing.is_none() => {
                Some(since + local.patience)
            }
            _ => None,
        };
        self.locals.iter().filter_map(due).min()
    }

    fn of(&mut self, path: PathId) -> Option<&mut Local> {
        self.locals.iter_mut().find(|local| local.path() == Some(path))
    }

    fn on(&mut self, interface: &str) -> impl Iterator<Item = &mut Local> {
        self.locals.iter_mut().filter(move |local| local.wanted.interface == interface)
    }

    fn link(&mut self, interface: &str, up: bool, now: Timestamp) {
        let options = self.options;
        for local in self.on(interface) {
            if up
                && !local.up
                && let Stage::Opening { since, .. } = &mut local.stage
            {
                *since = now;
                local.patience = options.reopen_timeout;
            }
            local.up = up;
            local.retry_at_once(options.first_retry, now);
        }
    }

    fn address(&mut self, interface: &str, address: IpAddr, added: bool, now: Timestamp) {
        let first_retry = self.options.first_retry;
        for local in self.on(interface) {
            local.addresses.retain(|known| *known != address);
            if added {
                local.addresses.push(address);
                local.retry_at_once(first_retry, now);
            }
        }
    }

    fn opened(&mut self, local: usize, path: PathId, now: Timestamp) {
        let (ipv6, patience) = (self.ipv6, self.options.open_timeout);
        let Some(local) = self.locals.get_mut(local) else { return };
        let from = match local.stage {
            Stage::Requested { from, .. } => Some(from),
            _ => local.source(ipv6),
        };
        local.begin(Stage::Opening { path, since: now, from });
        local.patience = patience;
    }

    fn open_failed(&mut self, local: usize, now: Timestamp) {
        let options = self.options;
        if let Some(local) = self.locals.get_mut(local)
            && matches!(local.stage, Stage::Requested { .. })
        {
            local.end(now, &options);
        }
    }

    fn established(&mut self, path: PathId, now: Timestamp) {
        for local in &mut self.locals {
            local.refused = false;
        }
        if let Some(local) = self.of(path)
            && let Stage::Opening { from, .. } = local.stage
        {
            local.stage = Stage::Established { path, since: now, from };
        }
    }

    fn close_refused(&mut self, path: PathId) {
        if let Some(local) = self.of(path)
            && let Stage::Closing { since, from, .. } = local.stage
        {
            local.stage = Stage::Established { path, since, from };
            local.refused = true;
        }
    }

    fn heard(&mut self, path: PathId, silent: bool, dead: bool) {
        if let Some(local) = self.of(path) {
            local.silent = silent;
            local.dead = dead;
        }
    }

    fn close(&mut self, now: Timestamp, actions: &mut Vec<PathAction>) {
        let ipv6 = self.ipv6;
        for local in &mut self.locals {
            local.closing = local.reason_to_close(ipv6, now);
        }
        for index in 0..self.locals.len() {
            let Some((path, reason)) = self.closable(index) else { continue };
            let Some(local) = self.locals.get_mut(index) else { continue };
            if let Stage::Opening { since, from, .. } | Stage::Established { since, from, .. } = local.stage {
                local.stage = Stage::Closing { path, since, from };
                actions.push(PathAction::Close { path, reason });
            }
        }
    }

    fn closable(&self, index: usize) -> Option<(PathId, CloseReason)> {
        let local = self.locals.get(index)?;
        let reason = local.closing.filter(|_| !local.refused)?;
        let others = || self.locals.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, other)| other);
        let allowed = match local.stage {
            // noq keeps count of paths that are being opened, too: an established one is left in any case.
            Stage::Opening { .. } => others().any(|other| matches!(other.stage, Stage::Established { .. })),
            Stage::Established { .. } => others().any(Local::is_healthy),
            _ => false,
        };
        local.path().filter(|_| allowed).map(|path| (path, reason))
    }

    fn open(&mut self, now: Timestamp, actions: &mut Vec<PathAction>) {
        let options = self.options;
        for (index, local) in self.locals.iter_mut().enumerate() {
            if let Stage::Requested { since, .. } = local.stage
                && now >= since + options.open_timeout
            {
                local.end(now, &options);
            }
            if let (Stage::Idle { retry_at }, Some(from)) = (local.stage, local.source(self.ipv6))
                && now >= retry_at
            {
                local.stage = Stage::Requested { since: now, from };
                actions.push(PathAction::Open { local: index, address: from });
            }
        }
    }

    fn tell(&mut self, actions: &mut Vec<PathAction>) {
        let preferred = self.locals.iter().any(|local| local.is_healthy() && !local.backup);
        for local in &mut self.locals {
            let Stage::Established { path, .. } = local.stage else { continue };
            let held_back = local.silent || local.closing.is_some();
            let backup = held_back || (local.backup && preferred && !self.backup_needed);
            if !std::mem::replace(&mut local.told.role, true) {
                let weight = local.wanted.weight;
                actions.push(PathAction::SetRole { path, backup: local.backup, weight });
            }
            if std::mem::replace(&mut local.told.suspended, held_back) != held_back {
                actions.push(PathAction::SetSuspended { path, suspended: held_back });
            }
            if std::mem::replace(&mut local.told.backup, backup) != backup {
                actions.push(PathAction::SetStatus { path, backup });
                // What the server said it said of our former word.
                local.remote_backup = false;
            }
            // The server repeats our own word; what it says beyond that is its own.
            let avoided = local.remote_backup && !backup;
            if std::mem::replace(&mut local.told.avoided, avoided) != avoided {
                actions.push(PathAction::SetAvoided { path, avoided });
            }
        }
    }
}

#[cfg(test)]
mod tests;
