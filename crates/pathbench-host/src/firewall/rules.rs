//! The `nf_tables` rules of a network namespace as far as they concern MPTCP (`linux/netfilter/nf_tables.h`). The kernel
//! reports rules with `CAP_NET_ADMIN` only.

use super::expression::{
    NFT_EXTHDR_OP_TCPOPT, NFTA_DATA_VALUE, NFTA_DATA_VERDICT, NFTA_EXPR_DATA, NFTA_EXPR_NAME,
};
use super::middlebox::TCPOPT_MPTCP;
use super::ruleset::{
    FirewallError, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_POLICY, NFTA_CHAIN_TABLE, NFTA_RULE_CHAIN,
    NFTA_RULE_EXPRESSIONS, NFTA_RULE_TABLE, number,
};
use crate::netlink::channel::{NetlinkChannel, NetlinkProtocol};
use crate::netlink::message::{Attributes, NETFILTER_HEADER, NetlinkMessage, netfilter_header};
use pathbench_record::file;

const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_RULE_HANDLE: u16 = 3;
const NFTA_EXTHDR_DREG: u16 = 1;
const NFTA_EXTHDR_TYPE: u16 = 2;
const NFTA_EXTHDR_OFFSET: u16 = 3;
const NFTA_EXTHDR_FLAGS: u16 = 5;
const NFTA_EXTHDR_OP: u16 = 6;
const NFTA_EXTHDR_SREG: u16 = 7;
const NFT_EXTHDR_F_PRESENT: u32 = 1;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_IMMEDIATE_DATA: u16 = 2;
/// `NFTA_MATCH_*` and `NFTA_TARGET_*`: an extension of iptables by name, with its structure.
const NFTA_EXTENSION_NAME: u16 = 1;
const NFTA_EXTENSION_INFO: u16 = 3;
const XT_TCP_INV_OPTION: u8 = 8;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirewallRules {
    pub rules: usize,
    /// Base chains with `policy drop`: `inet filter input`.
    pub dropping_chains: Vec<String>,
    /// The rules that remove MPTCP options or drop packets with them.
    pub mptcp: Vec<MptcpRule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MptcpRule {
    /// Family, table and chain as nft(8) prints them: `inet filter forward`.
    pub chain: String,
    pub handle: u64,
    /// The chain's hook is `forward`: the rule concerns the connections of other hosts only.
    pub is_forwarding: bool,
    pub action: MptcpAction,
    /// The MPTCP subtype (RFC 8684, section 3) that it selects; `None`: all.
    pub subtype: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MptcpAction {
    /// Removes the option; the packet passes.
    Strip,
    Drop,
    /// Answers by a reset or an ICMP error.
    Reject,
}

impl FirewallRules {
    /// The rules of the calling thread's network namespace.
    /// Errors: `EPERM` without `CAP_NET_ADMIN` in the namespace; a kernel without `nf_tables`.
    pub fn read() -> Result<Self, FirewallError> {
        let mut channel = NetlinkChannel::open(NetlinkProtocol::NETFILTER).map_err(FirewallError::open)?;
        let list = |kind| NetlinkMessage {
            kind: number(kind),
            payload: netfilter_header(libc::AF_UNSPEC as u8, 0).to_vec(),
        };
        let refused = |error| FirewallError::classify(error, None);
        let request = "list the nf_tables chains";
        let chains =
            channel.dump(request, &list(libc::NFT_MSG_GETCHAIN), BaseChain::parse).map_err(refused)?;
        let mut rules = 0;
        let request = "list the nf_tables rules";
        let mptcp = channel.dump(request, &list(libc::NFT_MSG_GETRULE), |payload| {
            rules += 1;
            MptcpRule::parse(payload)
        });
        let mut mptcp = mptcp.map_err(refused)?;
        for rule in &mut mptcp {
            rule.is_forwarding = chains.iter().any(|chain| chain.name == rule.chain && chain.forwards);
        }
        let dropping = chains.into_iter().filter(|chain| chain.drops).map(|chain| chain.name);
        Ok(Self { mptcp, rules, dropping_chains: dropping.collect() })
    }
}

#[derive(Debug)]
struct BaseChain {
    name: String,
    forwards: bool,
    /// Its policy is drop.
    drops: bool,
}

impl BaseChain {
    /// Parses the chain in an `NFT_MSG_NEWCHAIN` message; `None` for a chain without a hook.
    fn parse(payload: &[u8]) -> Option<Self> {
        let (header, attributes) = Attributes::parse_after_header(payload, NETFILTER_HEADER)?;
        let hook = be32(attributes.nested(NFTA_CHAIN_HOOK)?, NFTA_HOOK_HOOKNUM)?;
        let family = family(header);
        let (table, chain) = (attributes.text(NFTA_CHAIN_TABLE)?, attributes.text(NFTA_CHAIN_NAME)?);
        Some(Self {
            name: format!("{family} {table} {chain}"),
            // Hooks of netdev and arp have other numbers.
            forwards: hook == libc::NF_INET_FORWARD as u32
                && matches!(family, "ip" | "ip6" | "inet" | "bridge"),
            drops: be32(attributes, NFTA_CHAIN_POLICY) == Some(libc::NF_DROP as u32),
        })
    }
}

impl MptcpRule {
    /// Parses the rule in an `NFT_MSG_NEWRULE` message; `None` if it does not concern MPTCP, or lets it pass. The message
    /// does not contain the hook of the chain.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (header, attributes) = Attributes::parse_after_header(payload, NETFILTER_HEADER)?;
        let mut reading = Reading::default();
        for (_, expression) in attributes.nested(NFTA_RULE_EXPRESSIONS)?.iter() {
            let expression = Attributes::new(expression);
            let name = expression.text(NFTA_EXPR_NAME)?;
            reading.take(&name, expression.nested(NFTA_EXPR_DATA).unwrap_or(Attributes::new(&[])));
        }
        let handle =
            attributes.get(NFTA_RULE_HANDLE)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))?;
        let (table, chain) = (attributes.text(NFTA_RULE_TABLE)?, attributes.text(NFTA_RULE_CHAIN)?);
        Some(Self {
            chain: format!("{} {table} {chain}", family(header)),
            handle,
            is_forwarding: false,
            action: reading.action?,
            subtype: reading.subtype,
        })
    }
}

#[derive(Debug, Default)]
struct Reading {
    selects_mptcp: bool,
    /// The value compared next is the byte with the subtype.
    reads_subtype: bool,
    /// The value compared next is the presence of the option.
    reads_presence: bool,
    subtype: Option<u8>,
    action: Option<MptcpAction>,
}

impl Reading {
    fn take(&mut self, name: &str, data: Attributes<'_>) {
        match name {
            "exthdr" => self.take_option(data),
            "cmp" => self.take_comparison(data),
            "immediate" if self.selects_mptcp => {
                let verdict =
                    data.nested(NFTA_IMMEDIATE_DATA).and_then(|data| data.nested(NFTA_DATA_VERDICT));
                if verdict.and_then(|verdict| be32(verdict, NFTA_VERDICT_CODE)) == Some(libc::NF_DROP as u32)
                {
                    self.action.get_or_insert(MptcpAction::Drop);
                }
            }
            "reject" if self.selects_mptcp => {
                self.action.get_or_insert(MptcpAction::Reject);
            }
            "match" => {
                // struct xt_tcp: source and destination ports (8 bytes), option, two masks, inversions.
                let info = data.get(NFTA_EXTENSION_INFO).unwrap_or_default();
                let (option, inverted) = (info.get(8).copied(), info.get(11).copied().unwrap_or(0));
                let is_tcp = data.text(NFTA_EXTENSION_NAME).as_deref() == Some("tcp");
                self.selects_mptcp |=
                    is_tcp && option == Some(TCPOPT_MPTCP) && inverted & XT_TCP_INV_OPTION == 0;
            }
            "target" => self.take_target(data),
            _ => {}
        }
    }

    fn take_option(&mut self, data: Attributes<'_>) {
        if be32(data, NFTA_EXTHDR_OP) != Some(NFT_EXTHDR_OP_TCPOPT)
            || data.u8(NFTA_EXTHDR_TYPE) != Some(TCPOPT_MPTCP)
        {
            (self.reads_subtype, self.reads_presence) = (false, false);
            return;
        }
        match (data.get(NFTA_EXTHDR_DREG), data.get(NFTA_EXTHDR_SREG)) {
            (Some(_), _) => {
                self.reads_presence = be32(data, NFTA_EXTHDR_FLAGS) == Some(NFT_EXTHDR_F_PRESENT);
                // The subtype is the upper half of the third byte.
                self.reads_subtype = !self.reads_presence && be32(data, NFTA_EXTHDR_OFFSET) == Some(2);
                self.selects_mptcp = true;
            }
            // A write into the option makes it invalid.
            (None, _) => {
                self.action.get_or_insert(MptcpAction::Strip);
            }
        }
    }

    fn take_comparison(&mut self, data: Attributes<'_>) {
        let value = data.nested(NFTA_CMP_DATA).and_then(|data| data.u8(NFTA_DATA_VALUE));
        let equal = be32(data, NFTA_CMP_OP) == Some(libc::NFT_CMP_EQ as u32);
        if self.reads_subtype && equal {
            // Some versions of nft(8) shift the value, others the constant.
            self.subtype = value.map(|value| if value > 0xf { value >> 4 } else { value });
        }
        if self.reads_presence && equal == (value == Some(0)) {
            // `tcp option mptcp missing`
            self.selects_mptcp = false;
        }
        (self.reads_subtype, self.reads_presence) = (false, false);
    }

    fn take_target(&mut self, data: Attributes<'_>) {
        let info = data.get(NFTA_EXTENSION_INFO).unwrap_or_default();
        match data.text(NFTA_EXTENSION_NAME).as_deref() {
            // struct xt_tcpoptstrip_target_info: a bit per option, in 32-bit words.
            Some("TCPOPTSTRIP") => {
                let word = info.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
                if word.is_some_and(|word| word & 1 << TCPOPT_MPTCP != 0) {
                    self.action.get_or_insert(MptcpAction::Strip);
                }
            }
            Some("REJECT") if self.selects_mptcp => {
                self.action.get_or_insert(MptcpAction::Reject);
            }
            _ => {}
        }
    }
}

fn be32(attributes: Attributes<'_>, kind: u16) -> Option<u32> {
    attributes.get(kind)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// The family of a table, as nft(8) names it.
fn family(header: &[u8]) -> &'static str {
    match header.first().map(|family| i32::from(*family)) {
        Some(libc::NFPROTO_INET) => "inet",
        Some(libc::NFPROTO_IPV6) => "ip6",
        Some(libc::NFPROTO_ARP) => "arp",
        Some(libc::NFPROTO_NETDEV) => "netdev",
        Some(libc::NFPROTO_BRIDGE) => "bridge",
        _ => "ip",
    }
}

/// The tables of legacy iptables in use (`/proc/net/ip_tables_names`, which root reads); empty where there are none.
pub fn legacy_tables() -> std::io::Result<Vec<String>> {
    let mut tables = Vec::new();
    for family in ["ip", "ip6"] {
        match file::read_text(format!("/proc/thread-self/net/{family}_tables_names"), file::SMALL_FILE_BYTES)
        {
            Ok(text) => {
                tables.extend(text.lines().map(|table| format!("{family} {table}")));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(tables)
}

/// Whether the kernel has `nf_tables`.
/// Errors: `EPERM` without `CAP_NET_ADMIN`.
pub fn has_nf_tables() -> Result<bool, FirewallError> {
    match FirewallRules::read() {
        Ok(_) => Ok(true),
        Err(FirewallError::NoNfTables) => Ok(false),
        Err(error) => Err(error),
    }
}
