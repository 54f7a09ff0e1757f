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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firewall::ruleset::steps;
    use crate::firewall::{RouterRules, TooBig};

    fn refusal(errno: Errno) -> NetlinkError {
        NetlinkError::Refused { request: "try".to_owned(), errno, kernel_message: None }
    }

    #[test]
    fn what_the_kernel_lacks_is_named() {
        let rules = RouterRules { too_big: TooBig::Limited { per_second: 10 }, clamp_mss: true };
        let lacks = |request: &str, errno, option: &str| {
            let steps = steps(&rules);
            let named = steps.iter().any(|step| {
                let error = FirewallError::refused(refusal(errno), Some(step));
                assert!(error.is_host_unable(), "{error}");
                error.to_string().contains(request) && error.to_string().contains(option)
            });
            assert!(named, "no step names {option}");
        };
        lacks("make the firewall's table", Errno::AFNOSUPPORT, "CONFIG_NF_TABLES_INET");
        lacks("make the firewall's counters", Errno::NOENT, "CONFIG_NFT_OBJREF");
        lacks("drop or limit", Errno::NOENT, "CONFIG_NFT_LIMIT");
        lacks("clamp the MSS", Errno::OPNOTSUPP, "CONFIG_NFT_EXTHDR");
        lacks("clamp the MSS", Errno::NOENT, "CONFIG_NFT_RT");
    }

    #[test]
    fn a_kernel_without_nf_tables_is_told_from_a_wrong_request() {
        let source = std::io::Error::from_raw_os_error(libc::EPROTONOSUPPORT);
        let error = FirewallError::open(NetlinkError::Open { protocol: "netfilter", source });
        assert!(matches!(error, FirewallError::NoNfTables), "{error}");
        let error = FirewallError::refused(refusal(Errno::OPNOTSUPP), None);
        assert!(matches!(error, FirewallError::NoNfTables), "{error}");
        assert!(error.is_host_unable() && error.to_string().contains("CONFIG_NF_TABLES"));
        let steps = steps(&RouterRules::default());
        let error = FirewallError::refused(refusal(Errno::INVAL), steps.first());
        assert!(!error.is_host_unable(), "{error}");
        let error = FirewallError::refused(refusal(Errno::PERM), None);
        assert!(error.is_host_unable() && error.to_string().contains("CAP_NET_ADMIN"), "{error}");
    }
}
