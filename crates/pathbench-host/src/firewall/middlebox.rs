//! Middleboxes on a path: what a router does to the MPTCP options, the payload and the UDP packets that it forwards.

use super::expression::{
    COUNTERS, NFT_EXTHDR_OP_TCPOPT, REGISTER, TCP_SYN, compare, count, expression, mask_register, meta,
    numbers, tcp_flags, value, verdict,
};
use crate::netlink::message::Encoder;

/// Option kind of MPTCP (RFC 8684, section 3).
pub(super) const TCPOPT_MPTCP: u8 = 30;
/// The subtype is the upper half of the option's third byte.
const SUBTYPE_OFFSET: u32 = 2;
const SUBTYPE_MASK: u8 = 0xF0;
const NFT_PAYLOAD_INNER_HEADER: u32 = 3;
const NFT_PAYLOAD_L4CSUM_PSEUDOHDR: u32 = 1;
const NFT_REJECT_TCP_RST: u32 = 1;
const TCP_ACK: u8 = 0x10;

/// Only packets longer than this have their payload rewritten, so that handshakes and small messages pass.
const REWRITTEN_FROM_BYTES: u32 = 1000;
const REWRITTEN_OFFSET_BYTES: u32 = 100;
const REWRITTEN: [u8; 4] = *b"XXXX";

/// One thing that a middlebox does to the packets that it forwards, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Middlebox {
    /// Treats TCP segments with an MPTCP option of this subtype.
    Mptcp {
        option: MptcpSubtype,
        on: Segments,
        treatment: Treatment,
    },
    /// Overwrites 4 bytes of the TCP payload of large packets and corrects the TCP checksum, as a proxy that changes
    /// content does.
    RewritePayload,
    DropUdp,
}

/// Subtypes of the MPTCP option (RFC 8684, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MptcpSubtype {
    MpCapable = 0,
    MpJoin = 1,
    Dss = 2,
    AddAddr = 3,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Segments {
    All,
    Syn,
    SynAck,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Treatment {
    /// Replaces the option by NOPs.
    Strip,
    Drop,
    /// Drops the segment and answers it with an RST.
    Reset,
}

use MptcpSubtype::{AddAddr, Dss, MpCapable, MpJoin};
use Segments::{All, Syn, SynAck};
use Treatment::{Drop, Reset, Strip};
use serde::{Deserialize, Serialize};

const fn mptcp(option: MptcpSubtype, on: Segments, treatment: Treatment) -> Middlebox {
    Middlebox::Mptcp { option, on, treatment }
}

impl Middlebox {
    /// Every middlebox with its name in scenarios and results.
    pub const ALL: [(&'static str, Self); 13] = [
        ("strip-mp-capable", mptcp(MpCapable, All, Strip)),
        ("strip-mp-capable-syn-ack", mptcp(MpCapable, SynAck, Strip)),
        ("drop-mp-capable", mptcp(MpCapable, Syn, Drop)),
        ("drop-mp-capable-syn-ack", mptcp(MpCapable, SynAck, Drop)),
        ("reset-mp-capable", mptcp(MpCapable, Syn, Reset)),
        ("strip-mp-join", mptcp(MpJoin, All, Strip)),
        ("strip-mp-join-syn-ack", mptcp(MpJoin, SynAck, Strip)),
        ("drop-mp-join", mptcp(MpJoin, Syn, Drop)),
        ("reset-mp-join", mptcp(MpJoin, Syn, Reset)),
        ("strip-dss", mptcp(Dss, All, Strip)),
        ("strip-add-addr", mptcp(AddAddr, All, Strip)),
        ("rewrite-payload", Self::RewritePayload),
        ("drop-udp", Self::DropUdp),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| *name)
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, middlebox)| *middlebox)
    }

    /// The expressions of its rule, and the kernel configuration or version that they require.
    pub(super) fn rule(self) -> (Vec<Encoder>, &'static str) {
        match self {
            Self::Mptcp { option, on, treatment } => self.mptcp_rule(option, on, treatment),
            Self::RewritePayload => {
                (self.rewrite(), "a payload expression that knows the inner header: Linux 6.2")
            }
            Self::DropUdp => {
                let udp =
                    [meta(libc::NFT_META_L4PROTO), compare(libc::NFT_CMP_EQ, &[libc::IPPROTO_UDP as u8])];
                (udp.into_iter().chain([count(self.name()), drop_verdict()]).collect(), COUNTERS)
            }
        }
    }

    fn mptcp_rule(
        self,
        option: MptcpSubtype,
        on: Segments,
        treatment: Treatment,
    ) -> (Vec<Encoder>, &'static str) {
        // dreg, type, offset, len, op: the rule does not match a packet without the option.
        let subtype = Encoder::default().be32(1, REGISTER).u8(2, TCPOPT_MPTCP).be32(3, SUBTYPE_OFFSET);
        let subtype = subtype.be32(4, 1).be32(6, NFT_EXTHDR_OP_TCPOPT);
        let mut rule = vec![
            expression("exthdr", subtype),
            mask_register(SUBTYPE_MASK),
            compare(libc::NFT_CMP_EQ, &[(option as u8) << 4]),
        ];
        let flags = match on {
            All => None,
            Syn => Some(TCP_SYN),
            SynAck => Some(TCP_SYN | TCP_ACK),
        };
        if let Some(flags) = flags {
            let of_handshake =
                [tcp_flags(), mask_register(TCP_SYN | TCP_ACK), compare(libc::NFT_CMP_EQ, &[flags])];
            rule.extend(of_handshake);
        }
        rule.push(count(self.name()));
        let needs = match treatment {
            Strip => {
                // type, op: without a register the expression removes the first option of this type.
                let strip = Encoder::default().u8(2, TCPOPT_MPTCP).be32(6, NFT_EXTHDR_OP_TCPOPT);
                rule.push(expression("exthdr", strip));
                "an exthdr expression that removes TCP options: Linux 5.18"
            }
            Drop => {
                rule.push(drop_verdict());
                "CONFIG_NFT_EXTHDR, in nf_tables itself since Linux 4.18"
            }
            Reset => {
                rule.push(expression("reject", numbers(&[NFT_REJECT_TCP_RST])));
                "CONFIG_NFT_REJECT and CONFIG_NFT_REJECT_INET"
            }
        };
        (rule, needs)
    }

    fn rewrite(self) -> Vec<Encoder> {
        let new = Encoder::default;
        vec![
            meta(libc::NFT_META_L4PROTO),
            compare(libc::NFT_CMP_EQ, &[libc::IPPROTO_TCP as u8]),
            meta(libc::NFT_META_LEN),
            // sreg, dreg, op, len, size: comparisons are those of network byte order.
            expression("byteorder", numbers(&[REGISTER, REGISTER, libc::NFT_BYTEORDER_HTON as u32, 4, 4])),
            compare(libc::NFT_CMP_GT, &REWRITTEN_FROM_BYTES.to_be_bytes()),
            // dreg, data
            expression("immediate", numbers(&[REGISTER]).nested(2, value(&REWRITTEN))),
            // base, offset, len, sreg, checksum type (none), checksum flags. The flag has the kernel correct the
            // checksum of the segment (nft_payload_l4csum_update in net/netfilter/nft_payload.c).
            expression(
                "payload",
                new()
                    .be32(2, NFT_PAYLOAD_INNER_HEADER)
                    .be32(3, REWRITTEN_OFFSET_BYTES)
                    .be32(4, REWRITTEN.len() as u32)
                    .be32(5, REGISTER)
                    .be32(6, 0)
                    .be32(8, NFT_PAYLOAD_L4CSUM_PSEUDOHDR),
            ),
            count(self.name()),
        ]
    }
}

fn drop_verdict() -> Encoder {
    verdict(numbers(&[libc::NF_DROP as u32]))
}
