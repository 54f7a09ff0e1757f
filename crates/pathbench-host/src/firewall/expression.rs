//! The expressions of rules (`linux/netfilter/nf_tables.h`), and the features that they require.

use crate::netlink::message::Encoder;

pub(super) const NFTA_EXPR_NAME: u16 = 1;
pub(super) const NFTA_EXPR_DATA: u16 = 2;
pub(super) const NFTA_DATA_VALUE: u16 = 1;
pub(super) const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CHAIN: u16 = 2;
/// The register of all expressions in this file except verdicts.
pub(super) const REGISTER: u32 = 1;
const VERDICT_REGISTER: u32 = 0;
const TCP_FLAGS_OFFSET: u32 = 13;
pub(super) const TCP_SYN: u8 = 0x02;
pub(super) const COUNTERS: &str =
    "CONFIG_NFT_COUNTER and CONFIG_NFT_OBJREF, in nf_tables itself since Linux 5.17";
const BURST: u32 = 1;
pub(super) const NFT_EXTHDR_OP_TCPOPT: u32 = 1;
pub(super) const NFT_OBJECT_COUNTER: u32 = 1;

pub(super) fn tcp_flags() -> Encoder {
    transport_header(TCP_FLAGS_OFFSET, 1)
}

/// Keeps these bits of the register's first byte. Attributes: sreg, dreg, len, mask, xor.
pub(super) fn mask_register(mask: u8) -> Encoder {
    let byte = numbers(&[REGISTER, REGISTER, 1]);
    expression("bitwise", byte.nested(4, value(&[mask])).nested(5, value(&[0])))
}

pub(super) fn expression(name: &str, data: Encoder) -> Encoder {
    Encoder::default().text(NFTA_EXPR_NAME, name).nested(NFTA_EXPR_DATA, data)
}

/// Attributes 1, 2 and so on.
pub(super) fn numbers(values: &[u32]) -> Encoder {
    (1..).zip(values).fold(Encoder::default(), |to, (kind, value)| to.be32(kind, *value))
}

pub(super) fn value(bytes: &[u8]) -> Encoder {
    Encoder::default().bytes(NFTA_DATA_VALUE, bytes)
}

/// dreg, key
pub(super) fn meta(key: i32) -> Encoder {
    expression("meta", numbers(&[REGISTER, key as u32]))
}

/// dreg, base, offset, len
pub(super) fn transport_header(offset: u32, bytes: u32) -> Encoder {
    expression("payload", numbers(&[REGISTER, libc::NFT_PAYLOAD_TRANSPORT_HEADER as u32, offset, bytes]))
}

/// sreg, op, data
pub(super) fn compare(operator: i32, bytes: &[u8]) -> Encoder {
    expression("cmp", numbers(&[REGISTER, operator as u32]).nested(3, value(bytes)))
}

/// Matches packets above this rate. Attributes: rate, unit (seconds), burst, type, flags.
pub fn rate_above(per_second: u32) -> Encoder {
    let rate = Encoder::default().be64(1, per_second.into()).be64(2, 1).be32(3, BURST);
    let (packets, inverted) = (libc::NFT_LIMIT_PKTS as u32, libc::NFT_LIMIT_F_INV as u32);
    expression("limit", rate.be32(4, packets).be32(5, inverted))
}

/// `imm_type`, `imm_name`
pub(super) fn count(name: &str) -> Encoder {
    expression("objref", numbers(&[NFT_OBJECT_COUNTER]).text(2, name))
}

pub fn jump(chain: &str) -> Encoder {
    verdict(numbers(&[libc::NFT_JUMP as u32]).text(NFTA_VERDICT_CHAIN, chain))
}

/// dreg, data
pub(super) fn verdict(verdict: Encoder) -> Encoder {
    let data = Encoder::default().nested(NFTA_DATA_VERDICT, verdict);
    expression("immediate", numbers(&[VERDICT_REGISTER]).nested(2, data))
}
