//! One wanted path and how far it is.

use super::{CloseReason, PathManagerOptions};
use crate::options::LocalPath;
use noq_proto::PathId;
use pathbench_record::time::Timestamp;
use std::net::IpAddr;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Idle {
        retry_at: Timestamp,
    },
    Requested {
        since: Timestamp,
        from: IpAddr,
    },
    Opening {
        path: PathId,
        since: Timestamp,
        from: Option<IpAddr>,
    },
    Established {
        path: PathId,
        since: Timestamp,
        from: Option<IpAddr>,
    },
    /// [`PathAction::Close`](super::PathAction::Close) was asked for, and is not confirmed yet.
    Closing {
        path: PathId,
        since: Timestamp,
        from: Option<IpAddr>,
    },
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each told by somebody else")]
pub(super) struct Local {
    pub(super) wanted: LocalPath,
    pub(super) backup: bool,
    pub(super) up: bool,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) stage: Stage,
    pub(super) retry_after: Duration,
    pub(super) patience: Duration,
    pub(super) silent: bool,
    pub(super) dead: bool,
    pub(super) remote_backup: bool,
    pub(super) closing: Option<CloseReason>,
    /// noq would not close it; not asked again until something is established.
    pub(super) refused: bool,
    pub(super) told: Told,
}

/// What was last said about the present path; what noq and the board assume to begin with.
#[derive(Debug, Default, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "one for each thing that can be said")]
pub(super) struct Told {
    pub(super) role: bool,
    pub(super) backup: bool,
    pub(super) suspended: bool,
    pub(super) avoided: bool,
}

impl Local {
    pub(super) fn new(wanted: &LocalPath, backup: bool, options: &PathManagerOptions) -> Self {
        Self {
            wanted: wanted.clone(),
            backup,
            up: false,
            addresses: Vec::new(),
            stage: Stage::Idle { retry_at: Timestamp::default() },
            retry_after: options.first_retry,
            patience: options.open_timeout,
            silent: false,
            dead: false,
            remote_backup: false,
            closing: None,
            refused: false,
            told: Told::default(),
        }
    }

    /// The address to open from, if the interface is up and has one of the right family.
    pub(super) fn source(&self, ipv6: bool) -> Option<IpAddr> {
        let fits = |address: &&IpAddr| match self.wanted.address {
            Some(wanted) => wanted == **address,
            None => LocalPath::may_have(**address, ipv6),
        };
        self.addresses.iter().find(fits).copied().filter(|_| self.up)
    }

    pub(super) fn path(&self) -> Option<PathId> {
        match self.stage {
            Stage::Opening { path, .. } | Stage::Established { path, .. } | Stage::Closing { path, .. } => {
                Some(path)
            }
            Stage::Idle { .. } | Stage::Requested { .. } => None,
        }
    }

    pub(super) fn is_healthy(&self) -> bool {
        matches!(self.stage, Stage::Established { .. }) && !self.silent && self.closing.is_none()
    }

    pub(super) fn reason_to_close(&self, ipv6: bool, now: Timestamp) -> Option<CloseReason> {
        match self.stage {
            Stage::Closing { .. } => self.closing,
            Stage::Idle { .. } | Stage::Requested { .. } => None,
            // Nothing is lost on it while its link is away, but a path id if it is closed.
            Stage::Opening { from, since, .. } => {
                let other = self.source(ipv6).filter(|source| Some(*source) != from);
                let late = (self.up && now >= since + self.patience).then_some(CloseReason::OpenTimeout);
                other.map(|_| CloseReason::AddressRemoved).or(late)
            }
            Stage::Established { .. } if !self.up => Some(CloseReason::LinkDown),
            Stage::Established { from, .. } => {
                let kept = match from {
                    Some(from) => self.addresses.contains(&from),
                    None => self.source(ipv6).is_some(),
                };
                if kept {
                    self.dead.then_some(CloseReason::Silent)
                } else {
                    Some(CloseReason::AddressRemoved)
                }
            }
        }
    }

    pub(super) fn retry_at_once(&mut self, first_retry: Duration, now: Timestamp) {
        self.retry_after = first_retry;
        if let Stage::Idle { retry_at } = &mut self.stage {
            *retry_at = now;
        }
    }

    pub(super) fn begin(&mut self, stage: Stage) {
        self.stage = stage;
        self.silent = false;
        self.dead = false;
        self.remote_backup = false;
        self.closing = None;
        self.refused = false;
        self.told = Told::default();
    }

    /// The path has ended, or did not come to be: the next try is after a wait.
    pub(super) fn end(&mut self, now: Timestamp, options: &PathManagerOptions) {
        let established = if let Stage::Established { since, .. } | Stage::Closing { since, .. } = self.stage
        {
            Some(since)
        } else {
            None
        };
        if established.is_some_and(|since| now.since(since) >= options.proved_after) {
            self.retry_after = options.first_retry;
        }
        self.begin(Stage::Idle { retry_at: now + self.retry_after });
        self.retry_after = (self.retry_after * 2).min(options.last_retry);
    }
}
