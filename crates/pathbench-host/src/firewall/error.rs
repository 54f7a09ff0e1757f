//! Why a router's rules could not be had.

use super::ruleset::Step;
use crate::netlink::NetlinkError;
use rustix::io::Errno;

/// A router's rules could not be applied or read.
#[derive(Debug, thiserror::Error)]
pub enum FirewallError {
    /// The kernel has no `nf_tables` at all.
    #[error(
        "this kernel has no nf_tables, by which routers drop, limit and clamp: it needs CONFIG_NETFILTER, \
         CONFIG_NF_TABLES and CONFIG_NF_TABLES_INET (`modprobe nf_tables` where they are modules)"
    )]
    NoNfTables,
    /// The kernel's `nf_tables` lacks a part.
    #[error("this kernel cannot {request} ({errno}): it needs {config}")]
    NotBuilt {
        /// What was asked, in words.
        request: &'static str,
        /// The options of its configuration that it lacks.
        config: &'static str,
        /// What it said.
        errno: Errno,
    },
    /// The request failed.
    #[error(transparent)]
    Netlink(NetlinkError),
}

impl FirewallError {
    /// Whether this host cannot do it at all, for want of a part of the kernel or of permission.
    #[must_use]
    pub fn is_host_unable(&self) -> bool {
        match self {
            Self::NoNfTables | Self::NotBuilt { .. } => true,
            Self::Netlink(error) => matches!(error.errno(), Some(Errno::PERM | Errno::ACCESS)),
        }
    }

    /// What it means that no socket could be had.
    pub(super) fn open(error: NetlinkError) -> Self {
        match error {
            // CONFIG_NETFILTER_NETLINK, without which there is no nf_tables.
            NetlinkError::Open { source, .. }
                if Errno::from_io_error(&source) == Some(Errno::PROTONOSUPPORT) =>
            {
                Self::NoNfTables
            }
            error => Self::Netlink(error),
        }
    }

    /// What it means that the kernel did not do `step`, or anything at all.
    pub(super) fn refused(error: NetlinkError, step: Option<&Step>) -> Self {
        match (error.errno(), step) {
            // nfnetlink finds nobody for nf_tables' messages.
            (Some(Errno::OPNOTSUPP | Errno::INVAL), None) => Self::NoNfTables,
            // A chain or an expression whose name it does not know; or one that cannot do this yet.
            (Some(errno @ (Errno::NOENT | Errno::OPNOTSUPP | Errno::AFNOSUPPORT)), Some(step)) => {
                Self::NotBuilt { request: step.change.request, config: step.needs, errno }
            }
            _ => Self::Netlink(error),
        }
    }
}
