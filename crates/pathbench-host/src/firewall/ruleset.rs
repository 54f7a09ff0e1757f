//! The rules of a router as changes of its table, and the kernel version that each change requires. The messages follow
//! `linux/netfilter/nf_tables.h`; all numbers in them are in network byte order.

use super::expression::{
    COUNTERS, NFT_EXTHDR_OP_TCPOPT, NFT_OBJECT_COUNTER, REGISTER, TCP_SYN, compare, count, expression, jump,
    mask_register, meta, numbers, rate_above, tcp_flags, transport_header, verdict,
};
use super::middlebox::Middlebox;
use crate::netlink::NetlinkError;
use crate::netlink::message::{Encoder, NetlinkChange, NetlinkMessage, netfilter_header};
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub(super) const SUBSYSTEM: u8 = libc::NFNL_SUBSYS_NFTABLES as u8;
pub(super) const TABLE: &str = "pathbench";

const NFTA_TABLE_NAME: u16 = 1;
pub(super) const NFTA_CHAIN_TABLE: u16 = 1;
pub(super) const NFTA_CHAIN_NAME: u16 = 3;
pub(super) const NFTA_CHAIN_HOOK: u16 = 4;
pub(super) const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_TYPE: u16 = 7;
pub(super) const NFTA_RULE_TABLE: u16 = 1;
pub(super) const NFTA_RULE_CHAIN: u16 = 2;
pub(super) const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_LIST_ELEM: u16 = 1;
pub(super) const NFTA_OBJ_TABLE: u16 = 1;
pub(super) const NFTA_OBJ_NAME: u16 = 2;
const NFTA_OBJ_TYPE: u16 = 3;
pub(super) const NFTA_OBJ_DATA: u16 = 4;
pub(super) const NFTA_COUNTER_PACKETS: u16 = 2;
const NFT_RT_TCPMSS: u32 = 3;
const TCPOPT_MSS: u8 = 2;

pub(super) const SENT: &str = "too-big-sent";
pub(super) const SUPPRESSED: &str = "too-big-suppressed";
pub(super) const CLAMPED: &str = "syn-clamped";

const OUTPUT: &str = "too-big";
const VERDICT: &str = "too-big-verdict";
const FORWARD: &str = "clamp-mss";
const MIDDLEBOX: &str = "middlebox";

const ICMPV4_FRAGMENTATION_NEEDED: [u8; 2] = [3, 4];
const ICMPV6_PACKET_TOO_BIG: u8 = 2;

/// The type of a message (`NFT_MSG_*`) in netlink.
pub const fn number(kind: i32) -> u16 {
    (SUBSYSTEM as u16) << 8 | kind as u16
}

fn message(kind: i32, attributes: Encoder) -> NetlinkMessage {
    let header = Encoder::with_header(&netfilter_header(libc::NFPROTO_INET as u8, 0)).into_bytes();
    NetlinkMessage { kind: number(kind), payload: [header, attributes.into_bytes()].concat() }
}

/// The fate of the router's own messages about packets that are too big for the next link: ICMP "fragmentation needed"
/// and `ICMPv6` "packet too big". Forwarded messages always pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum TooBigTreatment {
    #[default]
    Sent,
    /// Sends at most this many per second, IPv4 and IPv6 together, evenly spaced: a message leaves if the previous one
    /// left at least 1 s / `per_second` ago. 0 drops all.
    Limited { per_second: u32 },
    /// Drops all messages: the router is a black hole for packets that are too big.
    Dropped,
}

/// The rules of a router. The default is the kernel's behaviour without rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct RouterRules {
    pub too_big: TooBigTreatment,
    /// Whether it lowers the MSS option of forwarded SYNs to fit the MTUs of its routes to both ends.
    pub clamp_mss: bool,
    /// The treatment of forwarded packets, in this order.
    pub middlebox: Vec<Middlebox>,
}

/// The changes that replace a table's rules by `rules`, in order.
pub fn changes(rules: &RouterRules) -> Vec<NetlinkChange> {
    const TABLES: &str = "CONFIG_NF_TABLES and CONFIG_NF_TABLES_INET";
    let mut changes = Vec::new();
    let mut add = |request, kind, needs, attributes: Encoder| {
        let flags = match kind {
            libc::NFT_MSG_DELRULE => 0,
            // Without this flag the kernel inserts a rule before the existing ones.
            libc::NFT_MSG_NEWRULE => NLM_F_CREATE | NLM_F_APPEND,
            _ => NLM_F_CREATE,
        };
        changes.push(NetlinkChange { request, needs, flags, message: message(kind, attributes) });
    };
    add("make the firewall's table", libc::NFT_MSG_NEWTABLE, TABLES, table());
    let own = rules.middlebox.iter().map(|middlebox| middlebox.name());
    for name in [SENT, SUPPRESSED, CLAMPED].into_iter().chain(own) {
        let counter = counters().text(NFTA_OBJ_NAME, name).nested(NFTA_OBJ_DATA, Encoder::default());
        add("make the firewall's counters", libc::NFT_MSG_NEWOBJ, COUNTERS, counter);
    }
    for made in [
        base_chain(OUTPUT, libc::NF_INET_LOCAL_OUT, libc::NF_IP_PRI_FILTER),
        base_chain(FORWARD, libc::NF_INET_FORWARD, libc::NF_IP_PRI_MANGLE),
        base_chain(MIDDLEBOX, libc::NF_INET_FORWARD, libc::NF_IP_PRI_FILTER),
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
    for (made, needs) in rules.middlebox.iter().map(|middlebox| middlebox.rule()) {
        add("act as a middlebox", libc::NFT_MSG_NEWRULE, needs, rule(MIDDLEBOX, &made));
    }
    changes
}

pub(super) fn removal(request: &'static str) -> NetlinkChange {
    NetlinkChange { request, needs: "", flags: 0, message: message(libc::NFT_MSG_DELTABLE, table()) }
}

pub(super) fn list_counters() -> NetlinkMessage {
    message(libc::NFT_MSG_GETOBJ, counters())
}

fn table() -> Encoder {
    Encoder::default().text(NFTA_TABLE_NAME, TABLE)
}

fn counters() -> Encoder {
    Encoder::default().text(NFTA_OBJ_TABLE, TABLE).be32(NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER)
}

fn chain(name: &str) -> Encoder {
    Encoder::default().text(NFTA_CHAIN_TABLE, TABLE).text(NFTA_CHAIN_NAME, name)
}

fn base_chain(name: &str, hook: i32, priority: i32) -> Encoder {
    chain(name)
        .nested(NFTA_CHAIN_HOOK, numbers(&[hook as u32, priority as u32]))
        .be32(NFTA_CHAIN_POLICY, libc::NF_ACCEPT as u32)
        .text(NFTA_CHAIN_TYPE, "filter")
}

fn all_rules() -> Encoder {
    Encoder::default().text(NFTA_RULE_TABLE, TABLE)
}

fn rule(chain: &str, expressions: &[Encoder]) -> Encoder {
    let list = expressions
        .iter()
        .fold(Encoder::default(), |list, expression| list.nested(NFTA_LIST_ELEM, expression.clone()));
    all_rules().text(NFTA_RULE_CHAIN, chain).nested(NFTA_RULE_EXPRESSIONS, list)
}

fn too_big_messages() -> [Vec<Encoder>; 2] {
    let found = |network: i32, transport: i32, beginning: &[u8]| {
        vec![
            meta(libc::NFT_META_NFPROTO),
            compare(libc::NFT_CMP_EQ, &[network as u8]),
            meta(libc::NFT_META_L4PROTO),
            compare(libc::NFT_CMP_EQ, &[transport as u8]),
            transport_header(0, beginning.len() as u32),
            compare(libc::NFT_CMP_EQ, beginning),
            jump(VERDICT),
        ]
    };
    [
        found(libc::NFPROTO_IPV4, libc::IPPROTO_ICMP, &ICMPV4_FRAGMENTATION_NEEDED),
        found(libc::NFPROTO_IPV6, libc::IPPROTO_ICMPV6, &[ICMPV6_PACKET_TOO_BIG]),
    ]
}

fn too_big_verdicts(too_big: TooBigTreatment) -> Vec<(Vec<Encoder>, Option<&'static str>)> {
    let sent = (vec![count(SENT)], None);
    let dropped = verdict(numbers(&[libc::NF_DROP as u32]));
    match too_big {
        TooBigTreatment::Sent => vec![sent],
        TooBigTreatment::Dropped | TooBigTreatment::Limited { per_second: 0 } => {
            vec![(vec![count(SUPPRESSED), dropped], None)]
        }
        TooBigTreatment::Limited { per_second } => {
            vec![(vec![rate_above(per_second), count(SUPPRESSED), dropped], Some("CONFIG_NFT_LIMIT")), sent]
        }
    }
}

/// Lowers the MSS in SYNs to the smaller of the MTUs of the routes to the packet's destination and source.
fn clamp() -> Vec<Encoder> {
    let new = Encoder::default;
    vec![
        meta(libc::NFT_META_L4PROTO),
        compare(libc::NFT_CMP_EQ, &[libc::IPPROTO_TCP as u8]),
        tcp_flags(),
        mask_register(TCP_SYN),
        compare(libc::NFT_CMP_NEQ, &[0]),
        count(CLAMPED),
        // dreg, key
        expression("rt", numbers(&[REGISTER, NFT_RT_TCPMSS])),
        // sreg, dreg, op, len, size
        expression("byteorder", numbers(&[REGISTER, REGISTER, libc::NFT_BYTEORDER_HTON as u32, 2, 2])),
        // type, offset, len, op, sreg: written if the option exists and its value is larger.
        expression(
            "exthdr",
            new().u8(2, TCPOPT_MSS).be32(3, 2).be32(4, 2).be32(6, NFT_EXTHDR_OP_TCPOPT).be32(7, REGISTER),
        ),
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
    /// Whether this host cannot apply any rules, because a kernel feature or permission is missing.
    pub fn is_host_unable(&self) -> bool {
        match self {
            Self::NoNfTables | Self::NotBuilt { .. } => true,
            Self::Netlink(error) => error.lacks_privilege(),
        }
    }

    /// Classifies the failure to open a socket.
    pub fn open(error: NetlinkError) -> Self {
        match error {
            // CONFIG_NETFILTER_NETLINK, which nf_tables requires.
            NetlinkError::Open { source, .. }
                if Errno::from_io_error(&source) == Some(Errno::PROTONOSUPPORT) =>
            {
                Self::NoNfTables
            }
            error => Self::Netlink(error),
        }
    }

    /// Classifies the kernel's refusal of `change`, or of the whole transaction.
    pub fn classify(error: NetlinkError, change: Option<&NetlinkChange>) -> Self {
        match (error.errno(), change) {
            // nfnetlink has no nf_tables subsystem.
            (Some(Errno::OPNOTSUPP | Errno::INVAL), None) => Self::NoNfTables,
            // The kernel lacks a chain or an expression of this name, or one of its features.
            (Some(errno @ (Errno::NOENT | Errno::OPNOTSUPP | Errno::AFNOSUPPORT)), Some(change)) => {
                Self::NotBuilt { request: change.request, config: change.needs, errno }
            }
            _ => Self::Netlink(error),
        }
    }
}
