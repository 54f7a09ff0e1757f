//! Messages of `nf_tables` as `linux/netfilter/nf_tables.h` lays them out. All numbers in them are in network byte order.

use crate::netlink::channel::{Change, netfilter_header};
use crate::netlink::message::{Encoder, Message};

/// `NFNL_SUBSYS_NFTABLES` of linux/netfilter/nfnetlink.h.
pub(super) const SUBSYSTEM: u8 = 10;
/// `NFPROTO_INET`: IPv4 and IPv6.
const FAMILY: u8 = 1;
pub(super) const TABLE: &str = "pathbench";

pub(super) const fn number(kind: i32) -> u16 {
    (SUBSYSTEM as u16) << 8 | kind as u16
}

const NFTA_TABLE_NAME: u16 = 1;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_PRIORITY: u16 = 2;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_VERDICT_CHAIN: u16 = 2;
pub(super) const NFTA_OBJ_TABLE: u16 = 1;
pub(super) const NFTA_OBJ_NAME: u16 = 2;
const NFTA_OBJ_TYPE: u16 = 3;
pub(super) const NFTA_OBJ_DATA: u16 = 4;
pub(super) const NFTA_COUNTER_PACKETS: u16 = 2;
const NFT_OBJECT_COUNTER: u32 = 1;
/// The register that all expressions here use, and that in which verdicts go.
const REGISTER: u32 = 1;
const VERDICT_REGISTER: u32 = 0;

fn message(kind: i32, attributes: Encoder) -> Message {
    let header = Encoder::after(&netfilter_header(FAMILY, 0)).into_bytes();
    Message { kind: number(kind), payload: [header, attributes.into_bytes()].concat() }
}

pub(super) fn change(request: &'static str, kind: i32, flags: u16, attributes: Encoder) -> Change {
    Change { request, flags, message: message(kind, attributes) }
}

pub(super) fn table() -> Encoder {
    Encoder::default().text(NFTA_TABLE_NAME, TABLE)
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Hook {
    Forward = 2,
    Output = 3,
}

pub(super) fn base_chain(name: &str, hook: Hook, priority: i32) -> Encoder {
    let hook =
        Encoder::default().be32(NFTA_HOOK_HOOKNUM, hook as u32).be32(NFTA_HOOK_PRIORITY, priority as u32);
    chain(name)
        .nested(NFTA_CHAIN_HOOK, hook)
        .be32(NFTA_CHAIN_POLICY, libc::NF_ACCEPT as u32)
        .text(NFTA_CHAIN_TYPE, "filter")
}

pub(super) fn chain(name: &str) -> Encoder {
    Encoder::default().text(NFTA_CHAIN_TABLE, TABLE).text(NFTA_CHAIN_NAME, name)
}

pub(super) fn counter(name: &str) -> Encoder {
    Encoder::default()
        .text(NFTA_OBJ_TABLE, TABLE)
        .text(NFTA_OBJ_NAME, name)
        .be32(NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER)
        .nested(NFTA_OBJ_DATA, Encoder::default())
}

pub(super) fn all_rules() -> Encoder {
    Encoder::default().text(NFTA_RULE_TABLE, TABLE)
}

pub(super) fn rule(chain: &str, expressions: &[Expression]) -> Encoder {
    let list = expressions.iter().fold(Encoder::default(), |list, expression| expression.encode(list));
    all_rules().text(NFTA_RULE_CHAIN, chain).nested(NFTA_RULE_EXPRESSIONS, list)
}

pub(super) fn list_counters() -> Message {
    let selection = Encoder::default().text(NFTA_OBJ_TABLE, TABLE).be32(NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER);
    message(libc::NFT_MSG_GETOBJ, selection)
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Meta {
    /// `NFPROTO_IPV4` or `NFPROTO_IPV6`, in one byte.
    NetworkProtocol = 15,
    TransportProtocol = 16,
}

#[derive(Debug, Clone)]
pub(super) enum Expression {
    Meta(Meta),
    Transport {
        offset: u32,
        bytes: u32,
    },
    Mask(u8),
    Equals(Vec<u8>),
    Differs(Vec<u8>),
    Beyond {
        per_second: u64,
        burst: u32,
    },
    Count(&'static str),
    /// Loads the MSS for the smaller of the MTUs of the routes to the packet's destination and its source.
    RouteMss,
    /// From host to network byte order, 16 bits.
    ToNetworkOrder,
    /// Puts 16 bits in the place of the TCP option's value, where there is such an option and its value is larger.
    LowerMss,
    Drop,
    Jump(&'static str),
}

impl Expression {
    fn encode(&self, list: Encoder) -> Encoder {
        let (name, data) = self.parts();
        let element = Encoder::default().text(NFTA_EXPR_NAME, name).nested(NFTA_EXPR_DATA, data);
        list.nested(NFTA_LIST_ELEM, element)
    }

    fn parts(&self) -> (&'static str, Encoder) {
        const NFT_RT_TCPMSS: u32 = 3;
        const NFT_EXTHDR_OP_TCPOPT: u32 = 1;
        const TCPOPT_MSS: u8 = 2;
        let new = Encoder::default;
        match self {
            // dreg, key
            Self::Meta(key) => ("meta", new().be32(1, REGISTER).be32(2, *key as u32)),
            // dreg, base, offset, len
            Self::Transport { offset, bytes } => {
                let base = libc::NFT_PAYLOAD_TRANSPORT_HEADER as u32;
                ("payload", new().be32(1, REGISTER).be32(2, base).be32(3, *offset).be32(4, *bytes))
            }
            // sreg, dreg, len, mask, xor
            Self::Mask(mask) => {
                let data = new().be32(1, REGISTER).be32(2, REGISTER).be32(3, 1);
                ("bitwise", data.nested(4, value(&[*mask])).nested(5, value(&[0])))
            }
            Self::Equals(bytes) => ("cmp", comparison(libc::NFT_CMP_EQ, bytes)),
            Self::Differs(bytes) => ("cmp", comparison(libc::NFT_CMP_NEQ, bytes)),
            // rate, unit (seconds), burst, type (packets), flags (what is beyond the rate goes on)
            Self::Beyond { per_second, burst } => {
                let flags = libc::NFT_LIMIT_F_INV as u32;
                let rate = new().be64(1, *per_second).be64(2, 1).be32(3, *burst);
                ("limit", rate.be32(4, libc::NFT_LIMIT_PKTS as u32).be32(5, flags))
            }
            // imm_type, imm_name
            Self::Count(name) => ("objref", new().be32(1, NFT_OBJECT_COUNTER).text(2, name)),
            // dreg, key
            Self::RouteMss => ("rt", new().be32(1, REGISTER).be32(2, NFT_RT_TCPMSS)),
            // sreg, dreg, op, len, size
            Self::ToNetworkOrder => {
                let operation = libc::NFT_BYTEORDER_HTON as u32;
                let data = new().be32(1, REGISTER).be32(2, REGISTER).be32(3, operation);
                ("byteorder", data.be32(4, 2).be32(5, 2))
            }
            // type, offset, len, op, sreg
            Self::LowerMss => {
                let option = new().u8(2, TCPOPT_MSS).be32(3, 2).be32(4, 2);
                ("exthdr", option.be32(6, NFT_EXTHDR_OP_TCPOPT).be32(7, REGISTER))
            }
            Self::Drop => ("immediate", verdict(new().be32(NFTA_VERDICT_CODE, libc::NF_DROP as u32))),
            Self::Jump(chain) => {
                let jump = new().be32(NFTA_VERDICT_CODE, libc::NFT_JUMP as u32);
                ("immediate", verdict(jump.text(NFTA_VERDICT_CHAIN, chain)))
            }
        }
    }
}

fn value(bytes: &[u8]) -> Encoder {
    Encoder::default().bytes(NFTA_DATA_VALUE, bytes)
}

fn comparison(operator: i32, bytes: &[u8]) -> Encoder {
    Encoder::default().be32(1, REGISTER).be32(2, operator as u32).nested(3, value(bytes))
}

fn verdict(verdict: Encoder) -> Encoder {
    let data = Encoder::default().nested(NFTA_DATA_VERDICT, verdict);
    Encoder::default().be32(1, VERDICT_REGISTER).nested(2, data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::Attributes;

    #[test]
    fn a_limit_is_in_network_byte_order_and_matches_what_is_beyond() {
        let bytes = Expression::Beyond { per_second: 10, burst: 1 }.encode(Encoder::default()).into_bytes();
        let element = Attributes::new(&bytes).nested(NFTA_LIST_ELEM).unwrap();
        assert_eq!(element.text(NFTA_EXPR_NAME).as_deref(), Some("limit"));
        let data = element.nested(NFTA_EXPR_DATA).unwrap();
        let values: Vec<_> = data.iter().map(|(kind, value)| (kind, value.to_vec())).collect();
        assert_eq!(
            values,
            [
                (1, vec![0, 0, 0, 0, 0, 0, 0, 10]),
                (2, vec![0, 0, 0, 0, 0, 0, 0, 1]),
                (3, vec![0, 0, 0, 1]),
                (4, vec![0, 0, 0, 0]),
                (5, vec![0, 0, 0, 1]),
            ]
        );
    }

    #[test]
    fn a_jump_names_its_chain() {
        let bytes = Expression::Jump("elsewhere").encode(Encoder::default()).into_bytes();
        let data = Attributes::new(&bytes).nested(NFTA_LIST_ELEM).unwrap().nested(NFTA_EXPR_DATA).unwrap();
        assert_eq!(data.get(1), Some([0; 4].as_slice()), "the verdict's register");
        let verdict = data.nested(2).unwrap().nested(NFTA_DATA_VERDICT).unwrap();
        assert_eq!(verdict.get(NFTA_VERDICT_CODE), Some((-3_i32).to_be_bytes().as_slice()));
        assert_eq!(verdict.text(NFTA_VERDICT_CHAIN).as_deref(), Some("elsewhere"));
    }
}
