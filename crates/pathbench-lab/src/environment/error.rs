//! Errors of building and changing a lab.

use crate::agent::AgentError;
use std::io;
use thiserror::Error;

pub type Result<T = (), E = EnvironmentError> = std::result::Result<T, E>;

pub(super) type ErrorSource = Box<dyn std::error::Error + Send + Sync>;

/// A lab could not be built or changed.
#[derive(Debug, Error)]
pub enum EnvironmentError {
    /// Something failed at a host, a router or a link.
    #[error("{context}: {source}")]
    Failed { context: String, source: ErrorSource },
    /// Like [`Self::Failed`], but this host lacks the capability: a retry cannot help.
    #[error("{context}: {source}")]
    Unable { context: String, source: ErrorSource },
    #[error("the lab's links were made but did not come up within five seconds; is the machine overloaded?")]
    NotRunning,
    #[error("host `{node}`: {source}")]
    Agent { node: String, source: AgentError },
    #[error("link `{link}` asks for {what}, {why}")]
    Unsupported { link: String, what: String, why: String },
    #[error("the lab has no host `{name}`; its hosts are {known}")]
    NoSuchNode { name: String, known: String },
    #[error("cannot start `{program}` in host `{node}`: {source}")]
    Spawn { program: String, node: String, source: io::Error },
}

impl EnvironmentError {
    /// Whether a new attempt to build the lab may succeed.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Agent { .. } | Self::NotRunning)
    }

    /// Whether this host lacks a capability: a retry cannot help.
    pub const fn is_incapable(&self) -> bool {
        matches!(self, Self::Unsupported { .. } | Self::Unable { .. })
    }
}

pub(crate) fn failure_at<E: Into<ErrorSource>>(
    context: impl Into<String>,
) -> impl FnOnce(E) -> EnvironmentError {
    let context = context.into();
    move |source| EnvironmentError::Failed { context, source: source.into() }
}

/// A failure at `context`: [`EnvironmentError::Unable`] if `is_unable` is true for the error.
pub(super) fn refusal_at<E: Into<ErrorSource>>(
    context: String,
    is_unable: impl FnOnce(&E) -> bool,
) -> impl FnOnce(E) -> EnvironmentError {
    move |error| {
        if is_unable(&error) {
            EnvironmentError::Unable { context, source: error.into() }
        } else {
            EnvironmentError::Failed { context, source: error.into() }
        }
    }
}
