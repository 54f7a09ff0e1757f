//! Queueing disciplines that limit the rate of an interface, or delay and drop its packets: those that another program
//! set up. (Ingress policers, eBPF programs and shapers of an access point are not visible here.)

use crate::netlink::message::{Attributes, Encoder, u32_at, u64_at};
use crate::netlink::{NetlinkError, RouteSocket};

/// `struct tcmsg` of `linux/rtnetlink.h`: family and padding, interface, handle, parent, info.
const TC_HEADER: usize = 20;
const TC_H_ROOT: u32 = 0xFFFF_FFFF;
/// `struct tc_ratespec` of `linux/pkt_sched.h`; its last word is the rate in bytes per second.
const RATESPEC: usize = 12;
/// `struct tc_netem_qopt`.
const NETEM_HEADER: usize = 24;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_CEIL64: u16 = 7;
const TCA_CAKE_BASE_RATE64: u16 = 2;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
/// Interfaces whose classes are read: more is no host with paths to choose from.
const MOST_CLASSFUL: usize = 64;

/// A queueing discipline that limits an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shaping {
    /// Index of the interface.
    pub interface: u32,
    /// `tbf`, `htb`, `hfsc`, `cake` or `netem`.
    pub kind: String,
    /// The highest rate of its outgoing packets, in bits per second; `None` where its kind has no single rate.
    pub rate_bps: Option<u64>,
}

/// The discipline in an `RTM_NEWQDISC` message if it is the root of its interface and its kind limits; a rate of classes
/// is not part of the message.
pub fn parse_qdisc(payload: &[u8]) -> Option<Shaping> {
    let (header, attributes) = Attributes::parse_after_header(payload, TC_HEADER)?;
    let (interface, parent) = (u32_at(header, 4)?, u32_at(header, 12)?);
    let kind = attributes.text(libc::TCA_KIND).filter(|_| parent == TC_H_ROOT)?;
    let options = attributes.get(libc::TCA_OPTIONS);
    let nested = options.map(Attributes::new);
    let rate = match kind.as_str() {
        "tbf" => nested.and_then(|options| bytes_per_second(options, TCA_TBF_PARMS, 0, TCA_TBF_RATE64)),
        // 0: cake without a limit.
        "cake" => {
            let rate = nested.and_then(|options| options.get(TCA_CAKE_BASE_RATE64));
            // 0: no limit.
            Some(rate.and_then(|rate| u64_at(rate, 0)).filter(|rate| *rate > 0)?)
        }
        "netem" => {
            let after_header = options.and_then(|options| options.get(NETEM_HEADER..)).map(Attributes::new);
            after_header.and_then(|options| {
                let wide = options.get(TCA_NETEM_RATE64).and_then(|rate| u64_at(rate, 0));
                let narrow = || options.get(TCA_NETEM_RATE).and_then(|rate| u32_at(rate, 0)).map(u64::from);
                wide.or_else(narrow).filter(|rate| *rate > 0)
            })
        }
        "htb" | "hfsc" => None,
        _ => return None,
    };
    Some(Shaping { interface, kind, rate_bps: rate.map(|bytes| bytes.saturating_mul(8)) })
}

/// The ceiling of an HTB class directly below the root, in bits per second, from an `RTM_NEWTCLASS` message.
pub fn parse_htb_class(payload: &[u8]) -> Option<u64> {
    let (header, attributes) = Attributes::parse_after_header(payload, TC_HEADER)?;
    let parent = u32_at(header, 12)?;
    if parent != TC_H_ROOT {
        return None;
    }
    let options = attributes.nested(libc::TCA_OPTIONS)?;
    bytes_per_second(options, TCA_HTB_PARMS, RATESPEC, TCA_HTB_CEIL64).map(|bytes| bytes.saturating_mul(8))
}

/// A rate of 32 bits in a `struct tc_ratespec` at `offset`, unless there is one of 64 bits.
fn bytes_per_second(options: Attributes<'_>, parameters: u16, offset: usize, wide: u16) -> Option<u64> {
    let rate = options.get(wide).and_then(|rate| u64_at(rate, 0));
    rate.or_else(|| u32_at(options.get(parameters)?, offset + RATESPEC - 4).map(u64::from))
}

impl RouteSocket {
    /// The disciplines that limit an interface of this network namespace.
    pub fn shaping(&mut self) -> Result<Vec<Shaping>, NetlinkError> {
        let all = Encoder::with_header(&[0; TC_HEADER]).message(libc::RTM_GETQDISC);
        let mut found = self.channel.dump("list the queueing disciplines", &all, parse_qdisc)?;
        for shaping in found.iter_mut().filter(|one| one.kind == "htb").take(MOST_CLASSFUL) {
            let words = [0, shaping.interface, 0, 0, 0].map(u32::to_ne_bytes);
            let classes = Encoder::with_header(words.as_flattened()).message(libc::RTM_GETTCLASS);
            let ceilings = self.channel.dump("list the classes", &classes, parse_htb_class)?;
            shaping.rate_bps = ceilings.into_iter().max();
        }
        Ok(found)
    }
}
