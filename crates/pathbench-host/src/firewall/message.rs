//! Messages of `nf_tables` as `linux/netfilter/nf_tables.h` lays them out. All numbers in them are in network byte order.

use crate::netlink::attribute::nested_attribute;
use crate::netlink::batch::{Change, netfilter_payload};
use netlink_packet_core::{DefaultNla, NetlinkSerializable};

/// `NFNL_SUBSYS_NFTABLES` of linux/netfilter/nfnetlink.h.
pub(super) const SUBSYSTEM: u8 = 10;
/// `NFPROTO_INET`: IPv4 and IPv6.
const FAMILY: u8 = 1;
/// The table that is ours.
pub(super) const TABLE: &str = "pathbench";

/// `enum nf_tables_msg_types`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    NewTable = 0,
    DelTable = 2,
    NewChain = 3,
    NewRule = 6,
    DelRule = 8,
    NewObject = 18,
    GetObject = 19,
}

impl Kind {
    pub(super) const fn number(self) -> u16 {
        (SUBSYSTEM as u16) << 8 | self as u16
    }
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

fn word(kind: u16, value: u32) -> DefaultNla {
    DefaultNla::new(kind, value.to_be_bytes().to_vec())
}

fn double_word(kind: u16, value: u64) -> DefaultNla {
    DefaultNla::new(kind, value.to_be_bytes().to_vec())
}

fn text(kind: u16, value: &str) -> DefaultNla {
    DefaultNla::new(kind, [value.as_bytes(), &[0]].concat())
}

/// A change of our table.
pub(super) fn change(request: &'static str, kind: Kind, flags: u16, attributes: &[DefaultNla]) -> Change {
    Change { request, kind: kind.number(), flags, payload: netfilter_payload(FAMILY, 0, attributes) }
}

/// What names the table.
pub(super) fn table() -> Vec<DefaultNla> {
    vec![text(NFTA_TABLE_NAME, TABLE)]
}

/// Where packets come to a chain: `enum nf_inet_hooks`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hook {
    Forward = 2,
    Output = 3,
}

/// A chain that packets come to at a hook, and pass where nothing else is said.
pub(super) fn base_chain(name: &str, hook: Hook, priority: i32) -> Vec<DefaultNla> {
    const NF_ACCEPT: u32 = 1;
    let hook = [word(NFTA_HOOK_HOOKNUM, hook as u32), word(NFTA_HOOK_PRIORITY, priority as u32)];
    vec![
        text(NFTA_CHAIN_TABLE, TABLE),
        text(NFTA_CHAIN_NAME, name),
        nested_attribute(NFTA_CHAIN_HOOK, &hook),
        word(NFTA_CHAIN_POLICY, NF_ACCEPT),
        text(NFTA_CHAIN_TYPE, "filter"),
    ]
}

/// A chain that rules jump to.
pub(super) fn chain(name: &str) -> Vec<DefaultNla> {
    vec![text(NFTA_CHAIN_TABLE, TABLE), text(NFTA_CHAIN_NAME, name)]
}

/// A counter that rules count in.
pub(super) fn counter(name: &str) -> Vec<DefaultNla> {
    vec![
        text(NFTA_OBJ_TABLE, TABLE),
        text(NFTA_OBJ_NAME, name),
        word(NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER),
        nested_attribute(NFTA_OBJ_DATA, &[]),
    ]
}

/// All rules of the table.
pub(super) fn all_rules() -> Vec<DefaultNla> {
    vec![text(NFTA_RULE_TABLE, TABLE)]
}

/// A rule at the end of a chain.
pub(super) fn rule(chain: &str, expressions: &[Expression]) -> Vec<DefaultNla> {
    let list: Vec<_> = expressions.iter().map(Expression::attribute).collect();
    vec![
        text(NFTA_RULE_TABLE, TABLE),
        text(NFTA_RULE_CHAIN, chain),
        nested_attribute(NFTA_RULE_EXPRESSIONS, &list),
    ]
}

/// Asks for all counters of the table.
#[derive(Debug, Clone)]
pub(super) struct ListCounters;

impl ListCounters {
    fn payload() -> Vec<u8> {
        let attributes = [text(NFTA_OBJ_TABLE, TABLE), word(NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER)];
        netfilter_payload(FAMILY, 0, &attributes)
    }
}

impl NetlinkSerializable for ListCounters {
    fn message_type(&self) -> u16 {
        Kind::GetObject.number()
    }

    fn buffer_len(&self) -> usize {
        Self::payload().len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.iter_mut().zip(Self::payload()).for_each(|(place, byte)| *place = byte);
    }
}

/// What a packet is asked for, by `enum nft_meta_keys`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Meta {
    /// `NFPROTO_IPV4` or `NFPROTO_IPV6`, in one byte.
    NetworkProtocol = 15,
    /// `IPPROTO_…`, in one byte.
    TransportProtocol = 16,
}

/// One step of a rule. A comparison that fails ends it; the register is one for all.
#[derive(Debug, Clone)]
pub(super) enum Expression {
    /// Loads a property of the packet.
    Meta(Meta),
    /// Loads bytes from behind the IP header.
    Transport { offset: u32, bytes: u32 },
    /// Keeps those bits of the first byte that are set here.
    Mask(u8),
    /// Goes on when what was loaded begins with these bytes.
    Equals(Vec<u8>),
    /// Goes on when what was loaded differs from these bytes.
    Differs(Vec<u8>),
    /// Goes on with packets beyond this rate.
    Beyond { per_second: u64, burst: u32 },
    /// Counts the packet in an object of this name.
    Count(&'static str),
    /// Loads the MSS for the smaller of the MTUs of the routes to the packet's destination and its source.
    RouteMss,
    /// From host to network byte order, 16 bits.
    ToNetworkOrder,
    /// Puts 16 bits in the place of the TCP option's value, where there is such an option and its value is larger.
    LowerMss,
    /// Drops the packet.
    Drop,
    /// Goes through a chain.
    Jump(&'static str),
}

impl Expression {
    fn attribute(&self) -> DefaultNla {
        let (name, data) = self.parts();
        nested_attribute(
            NFTA_LIST_ELEM,
            &[text(NFTA_EXPR_NAME, name), nested_attribute(NFTA_EXPR_DATA, &data)],
        )
    }

    /// Name and attributes. The numbers are those of `enum nft_…_attributes` of each expression.
    fn parts(&self) -> (&'static str, Vec<DefaultNla>) {
        const NFT_PAYLOAD_TRANSPORT_HEADER: u32 = 2;
        const NFT_CMP_EQ: u32 = 0;
        const NFT_CMP_NEQ: u32 = 1;
        const NFT_RT_TCPMSS: u32 = 3;
        const NFT_BYTEORDER_HTON: u32 = 1;
        const NFT_EXTHDR_OP_TCPOPT: u32 = 1;
        const TCPOPT_MSS: u8 = 2;
        const NF_DROP: u32 = 0;
        const NFT_JUMP: u32 = -3_i32 as u32;
        match self {
            // dreg, key
            Self::Meta(key) => ("meta", vec![word(1, REGISTER), word(2, *key as u32)]),
            // dreg, base, offset, len
            Self::Transport { offset, bytes } => (
                "payload",
                vec![
                    word(1, REGISTER),
                    word(2, NFT_PAYLOAD_TRANSPORT_HEADER),
                    word(3, *offset),
                    word(4, *bytes),
                ],
            ),
            // sreg, dreg, len, mask, xor
            Self::Mask(mask) => (
                "bitwise",
                vec![
                    word(1, REGISTER),
                    word(2, REGISTER),
                    word(3, 1),
                    nested_attribute(4, &[value(&[*mask])]),
                    nested_attribute(5, &[value(&[0])]),
                ],
            ),
            Self::Equals(bytes) => ("cmp", comparison(NFT_CMP_EQ, bytes)),
            Self::Differs(bytes) => ("cmp", comparison(NFT_CMP_NEQ, bytes)),
            Self::Beyond { per_second, burst } => ("limit", limit(*per_second, *burst)),
            // imm_type, imm_name
            Self::Count(name) => ("objref", vec![word(1, NFT_OBJECT_COUNTER), text(2, name)]),
            // dreg, key
            Self::RouteMss => ("rt", vec![word(1, REGISTER), word(2, NFT_RT_TCPMSS)]),
            // sreg, dreg, op, len, size
            Self::ToNetworkOrder => (
                "byteorder",
                vec![
                    word(1, REGISTER),
                    word(2, REGISTER),
                    word(3, NFT_BYTEORDER_HTON),
                    word(4, 2),
                    word(5, 2),
                ],
            ),
            // type, offset, len, op, sreg
            Self::LowerMss => (
                "exthdr",
                vec![
                    DefaultNla::new(2, vec![TCPOPT_MSS]),
                    word(3, 2),
                    word(4, 2),
                    word(6, NFT_EXTHDR_OP_TCPOPT),
                    word(7, REGISTER),
                ],
            ),
            Self::Drop => ("immediate", verdict(&[word(NFTA_VERDICT_CODE, NF_DROP)])),
            Self::Jump(chain) => {
                ("immediate", verdict(&[word(NFTA_VERDICT_CODE, NFT_JUMP), text(NFTA_VERDICT_CHAIN, chain)]))
            }
        }
    }
}

fn value(bytes: &[u8]) -> DefaultNla {
    DefaultNla::new(NFTA_DATA_VALUE, bytes.to_vec())
}

/// sreg, op, data
fn comparison(operator: u32, bytes: &[u8]) -> Vec<DefaultNla> {
    vec![word(1, REGISTER), word(2, operator), nested_attribute(3, &[value(bytes)])]
}

/// rate, unit (seconds), burst, type (packets), flags (what is beyond the rate goes on)
fn limit(per_second: u64, burst: u32) -> Vec<DefaultNla> {
    const NFT_LIMIT_PKTS: u32 = 0;
    const NFT_LIMIT_F_INV: u32 = 1;
    vec![
        double_word(1, per_second),
        double_word(2, 1),
        word(3, burst),
        word(4, NFT_LIMIT_PKTS),
        word(5, NFT_LIMIT_F_INV),
    ]
}

/// dreg, data
fn verdict(attributes: &[DefaultNla]) -> Vec<DefaultNla> {
    let data = nested_attribute(NFTA_DATA_VERDICT, attributes);
    vec![word(1, VERDICT_REGISTER), nested_attribute(2, &[data])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute::Attributes;

    #[test]
    fn a_limit_is_in_network_byte_order_and_matches_what_is_beyond() {
        let attribute = Expression::Beyond { per_second: 10, burst: 1 }.attribute();
        let bytes = crate::netlink::attribute::emitted(&[attribute]);
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
        let bytes = crate::netlink::attribute::emitted(&[Expression::Jump("elsewhere").attribute()]);
        let data = Attributes::new(&bytes).nested(NFTA_LIST_ELEM).unwrap().nested(NFTA_EXPR_DATA).unwrap();
        assert_eq!(data.get(1), Some([0; 4].as_slice()), "the verdict's register");
        let verdict = data.nested(2).unwrap().nested(NFTA_DATA_VERDICT).unwrap();
        assert_eq!(verdict.get(NFTA_VERDICT_CODE), Some((-3_i32).to_be_bytes().as_slice()));
        assert_eq!(verdict.text(NFTA_VERDICT_CHAIN).as_deref(), Some("elsewhere"));
    }
}
