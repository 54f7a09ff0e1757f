//! The rules of a router as changes of the table, and what kernel each change needs.

use super::message::{Expression, Hook, Meta, all_rules, base_chain, chain, change, counter, rule, table};
use super::{RouterRules, TooBig};
use crate::netlink::NetlinkError;
use crate::netlink::channel::Change;
use crate::netlink::message::Encoder;
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE};
use rustix::io::Errno;

pub(super) const SENT: &str = "too-big-sent";
pub(super) const SUPPRESSED: &str = "too-big-suppressed";
pub(super) const CLAMPED: &str = "syn-clamped";

const OUTPUT: &str = "too-big";
const VERDICT: &str = "too-big-verdict";
const FORWARD: &str = "clamp-mss";

/// `NF_IP_PRI_FILTER` and `NF_IP_PRI_MANGLE` of `linux/netfilter_ipv4.h`.
const PRIORITY_FILTER: i32 = 0;
const PRIORITY_MANGLE: i32 = -150;
const BURST: u32 = 1;

const NFPROTO_IPV4: u8 = 2;
const NFPROTO_IPV6: u8 = 10;
const ICMPV4_FRAGMENTATION_NEEDED: [u8; 2] = [3, 4];
const ICMPV6_PACKET_TOO_BIG: u8 = 2;
const TCP_FLAGS_OFFSET: u32 = 13;
const TCP_SYN: u8 = 0x02;

/// A change and the options of the kernel's configuration without which it is refused.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) change: Change,
    pub(super) needs: &'static str,
}

pub(super) fn steps(rules: &RouterRules) -> Vec<Step> {
    const TABLES: &str = "CONFIG_NF_TABLES and CONFIG_NF_TABLES_INET";
    const COUNTERS: &str = "CONFIG_NFT_COUNTER and CONFIG_NFT_OBJREF, in nf_tables itself since Linux 5.17";
    let mut steps = Vec::new();
    let mut add = |request, kind, needs, attributes: Encoder| {
        let flags = match kind {
            libc::NFT_MSG_DELRULE => 0,
            // Without, a rule would come before those that are there.
            libc::NFT_MSG_NEWRULE => NLM_F_CREATE | NLM_F_APPEND,
            _ => NLM_F_CREATE,
        };
        steps.push(Step { change: change(request, kind, flags, attributes), needs });
    };
    add("make the firewall's table", libc::NFT_MSG_NEWTABLE, TABLES, table());
    for name in [SENT, SUPPRESSED, CLAMPED] {
        add("make the firewall's counters", libc::NFT_MSG_NEWOBJ, COUNTERS, counter(name));
    }
    for made in [
        base_chain(OUTPUT, Hook::Output, PRIORITY_FILTER),
        base_chain(FORWARD, Hook::Forward, PRIORITY_MANGLE),
        chain(VERDICT),
    ] {
        add("make the firewall's chains", libc::NFT_MSG_NEWCHAIN, TABLES, made);
    }
    add("clear the firewall's rules", libc::NFT_MSG_DELRULE, TABLES, all_rules());
    for made in too_big_messages() {
        add("pick out \"packet too big\" messages", libc::NFT_MSG_NEWRULE, TABLES, rule(OUTPUT, &made));
    }
    for (made, needs) in too_big_verdicts(rules.too_big) {
        let request = "drop or limit \"packet too big\" messages";
        add(request, libc::NFT_MSG_NEWRULE, needs.unwrap_or(COUNTERS), rule(VERDICT, &made));
    }
    if rules.clamp_mss {
        const NEEDS: &str =
            "CONFIG_NFT_RT and CONFIG_NFT_EXTHDR of Linux 4.14, in nf_tables itself since 4.18";
        add("clamp the MSS of forwarded SYNs", libc::NFT_MSG_NEWRULE, NEEDS, rule(FORWARD, &clamp()));
    }
    steps
}

/// The rules that find the messages, for IPv4 and IPv6.
fn too_big_messages() -> [Vec<Expression>; 2] {
    let found = |network, transport: i32, beginning: &[u8]| {
        vec![
            Expression::Meta(Meta::NetworkProtocol),
            Expression::Equals(vec![network]),
            Expression::Meta(Meta::TransportProtocol),
            Expression::Equals(vec![transport as u8]),
            Expression::Transport { offset: 0, bytes: beginning.len() as u32 },
            Expression::Equals(beginning.to_vec()),
            Expression::Jump(VERDICT),
        ]
    };
    [
        found(NFPROTO_IPV4, libc::IPPROTO_ICMP, &ICMPV4_FRAGMENTATION_NEEDED),
        found(NFPROTO_IPV6, libc::IPPROTO_ICMPV6, &[ICMPV6_PACKET_TOO_BIG]),
    ]
}

fn too_big_verdicts(too_big: TooBig) -> Vec<(Vec<Expression>, Option<&'static str>)> {
    let sent = (vec![Expression::Count(SENT)], None);
    let suppress = [Expression::Count(SUPPRESSED), Expression::Drop];
    match too_big {
        TooBig::Sent => vec![sent],
        TooBig::Dropped | TooBig::Limited { per_second: 0 } => vec![(suppress.to_vec(), None)],
        TooBig::Limited { per_second } => {
            let mut beyond = vec![Expression::Beyond { per_second: u64::from(per_second), burst: BURST }];
            beyond.extend(suppress);
            vec![(beyond, Some("CONFIG_NFT_LIMIT")), sent]
        }
    }
}

fn clamp() -> Vec<Expression> {
    vec![
        Expression::Meta(Meta::TransportProtocol),
        Expression::Equals(vec![libc::IPPROTO_TCP as u8]),
        Expression::Transport { offset: TCP_FLAGS_OFFSET, bytes: 1 },
        Expression::Mask(TCP_SYN),
        Expression::Differs(vec![0]),
        Expression::Count(CLAMPED),
        Expression::RouteMss,
        Expression::ToNetworkOrder,
        Expression::LowerMss,
    ]
}

/// A router's rules could not be applied or read.
#[derive(Debug, thiserror::Error)]
pub enum FirewallError {
    #[error(
        "this kernel has no nf_tables, by which routers drop, limit and clamp: it needs CONFIG_NETFILTER, \
         CONFIG_NF_TABLES and CONFIG_NF_TABLES_INET (`modprobe nf_tables` where they are modules)"
    )]
    NoNfTables,
    #[error("this kernel cannot {request} ({errno}): it needs {config}")]
    NotBuilt { request: &'static str, config: &'static str, errno: Errno },
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
            // nfnetlink knows no nf_tables.
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
    use super::super::message::number;
    use super::*;

    fn kinds(rules: &RouterRules) -> Vec<(u16, &'static str)> {
        steps(rules).iter().map(|step| (step.change.message.kind, step.change.request)).collect()
    }

    #[test]
    fn old_rules_go_before_new_ones_come() {
        for too_big in [TooBig::Sent, TooBig::Dropped, TooBig::Limited { per_second: 1 }] {
            let kinds = kinds(&RouterRules { too_big, clamp_mss: true });
            let cleared = kinds.iter().position(|(kind, _)| *kind == number(libc::NFT_MSG_DELRULE)).unwrap();
            let (before, after) = kinds.split_at(cleared);
            assert!(before.iter().all(|(kind, _)| *kind != number(libc::NFT_MSG_NEWRULE)), "{kinds:?}");
            assert!(after[1..].iter().all(|(kind, _)| *kind == number(libc::NFT_MSG_NEWRULE)), "{kinds:?}");
        }
    }

    #[test]
    fn rules_are_as_many_as_asked_for() {
        let rules = |too_big, clamp_mss| {
            let kinds = kinds(&RouterRules { too_big, clamp_mss });
            kinds.iter().filter(|(kind, _)| *kind == number(libc::NFT_MSG_NEWRULE)).count()
        };
        // Two pick out the messages.
        assert_eq!(rules(TooBig::Sent, false), 3);
        assert_eq!(rules(TooBig::Dropped, false), 3);
        assert_eq!(rules(TooBig::Limited { per_second: 10 }, false), 4);
        assert_eq!(rules(TooBig::Limited { per_second: 0 }, true), 4);
    }

    #[test]
    fn rules_stand_in_the_order_they_are_given_in() {
        for step in steps(&RouterRules { too_big: TooBig::Limited { per_second: 5 }, clamp_mss: true }) {
            let appended = step.change.flags & NLM_F_APPEND != 0;
            assert_eq!(appended, step.change.message.kind == number(libc::NFT_MSG_NEWRULE), "{step:?}");
        }
    }

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
