//! The hop at which an MPTCP option is lost, from the answers to SYNs with growing numbers of hops.

use super::cause::HopEvidence;
use pathbench_host::hop_probe::{HopReply, HopReplyKind, QuotedOption, SynOption};
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

/// The probes of one path to one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopTrace {
    pub port: u16,
    pub option: SynOption,
    /// Answers to SYNs without an MPTCP option, by number of hops.
    pub plain: Vec<HopReply>,
    /// Answers to SYNs with the option.
    pub with_option: Vec<HopReply>,
}

/// A hop that answered: its distance and address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedHop {
    pub number: u8,
    pub address: IpAddr,
    pub is_server: bool,
}

impl Display for TracedHop {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let server = if self.is_server { ", the server" } else { "" };
        write!(f, "hop {} ({}{server})", self.number, self.address)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The option is absent or has other bytes at the second hop.
    Changed,
    /// The second hop receives SYNs without the option only.
    Dropped,
    /// A SYN/ACK or RST in the server's name arrives before the server's distance.
    Answered,
}

/// The result of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Located {
    /// Between two hops; the first is absent where no nearer hop has shown the option intact.
    Between {
        loss: Loss,
        before: Option<TracedHop>,
        after: TracedHop,
    },
    /// No hop beyond answers any SYN.
    AtOrAfter(TracedHop),
    /// Every router that quotes enough received the option intact, and the server answers.
    Intact(TracedHop),
    /// No hop quotes enough of the SYN.
    TooLittleQuoted,
    NoAnswer,
}

impl Located {
    pub const fn evidence(&self) -> HopEvidence {
        match self {
            Self::Between { loss: Loss::Dropped, after, .. } if after.is_server => {
                HopEvidence::IntactAtLastRouter
            }
            Self::Between { .. } => HopEvidence::LostBeforeServer,
            Self::Intact(_) => HopEvidence::IntactAtLastRouter,
            _ => HopEvidence::Unknown,
        }
    }
}

impl Display for Located {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Between { before: Some(before), after, .. } => write!(f, "between {before} and {after}"),
            Self::Between { before: None, after, .. } => {
                write!(f, "between this host (its own firewall included) and {after}")
            }
            Self::AtOrAfter(hop) => write!(f, "at or after {hop}, the last that answered"),
            Self::Intact(hop) => {
                write!(f, "at or after {hop}, the last router, which received the option intact")
            }
            Self::TooLittleQuoted => f.write_str("unknown: the hops do not quote enough of the SYN"),
            Self::NoAnswer => f.write_str("unknown: no hop answered"),
        }
    }
}

impl HopTrace {
    pub fn locate(&self) -> Located {
        let server_at = self.plain.iter().filter(|reply| is_server(reply)).map(|reply| reply.hops).min();
        let router =
            |reply: &HopReply| TracedHop { number: reply.hops, address: reply.from, is_server: false };
        let routers = || {
            let before = |reply: &&HopReply| server_at.is_none_or(|server| reply.hops < server);
            self.with_option.iter().filter(|reply| !is_server(reply)).filter(before)
        };
        let quote = |reply: &HopReply| match reply.kind {
            HopReplyKind::TimeExceeded(quote) | HopReplyKind::Unreachable(quote) => Some(quote),
            _ => None,
        };
        let is_changed =
            |reply: &&HopReply| matches!(quote(reply), Some(QuotedOption::Changed | QuotedOption::Removed));
        if let Some(first) = routers().filter(is_changed).min_by_key(|reply| reply.hops) {
            let intact =
                |reply: &&HopReply| reply.hops < first.hops && quote(reply) == Some(QuotedOption::Intact);
            let before = routers().filter(intact).max_by_key(|reply| reply.hops).map(router);
            return Located::Between { loss: Loss::Changed, before, after: router(first) };
        }
        let last = routers().max_by_key(|reply| reply.hops).map(router);
        let answered =
            self.with_option.iter().filter(|reply| is_server(reply)).min_by_key(|reply| reply.hops);
        match (answered, server_at) {
            (Some(answer), Some(server)) if answer.hops < server => {
                let next = self.plain.iter().find(|reply| reply.hops == answer.hops && !is_server(reply));
                let Some(next) = next.map(router) else {
                    return last.map_or(Located::NoAnswer, Located::AtOrAfter);
                };
                let before = last.filter(|last| last.number < next.number);
                Located::Between { loss: Loss::Answered, before, after: next }
            }
            (Some(_), _) => self.intact(last),
            (None, _) => self.dropped(last),
        }
    }

    /// The server answers, and no quote shows a change.
    fn intact(&self, last: Option<TracedHop>) -> Located {
        let quoted = |reply: &&HopReply| reply.kind == HopReplyKind::TimeExceeded(QuotedOption::Intact);
        let intact = self.with_option.iter().filter(quoted).map(|reply| reply.hops).max();
        match last {
            None => Located::NoAnswer,
            Some(last) if intact == Some(last.number) => Located::Intact(last),
            Some(_) => Located::TooLittleQuoted,
        }
    }

    /// No answer in the server's name: the SYN ends behind the last hop that answered.
    fn dropped(&self, last: Option<TracedHop>) -> Located {
        let beyond = |reply: &&HopReply| last.is_none_or(|last| reply.hops > last.number);
        let next = self.plain.iter().filter(beyond).min_by_key(|reply| reply.hops);
        match (next, last) {
            (Some(next), before) => {
                let after = TracedHop { number: next.hops, address: next.from, is_server: is_server(next) };
                Located::Between { loss: Loss::Dropped, before, after }
            }
            (None, Some(last)) => Located::AtOrAfter(last),
            (None, None) => Located::NoAnswer,
        }
    }
}

const fn is_server(reply: &HopReply) -> bool {
    matches!(reply.kind, HopReplyKind::SynAck { .. } | HopReplyKind::Reset)
}

/// The hops of a path, or the reason why they were not examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathHops {
    NotExamined(String),
    /// The examined port first.
    Examined(Vec<HopTrace>),
}

impl PathHops {
    /// Where the option is lost, and whether the other ports differ.
    pub fn describe(&self) -> String {
        let traces = match self {
            Self::NotExamined(reason) => return format!("The hop was not examined: {reason}."),
            Self::Examined(traces) => traces,
        };
        let Some((first, others)) = traces.split_first() else {
            return "The hop was not examined: no probe was sent.".to_owned();
        };
        let located = first.locate();
        let mut parts = vec![format!("SYNs to port {} show the location: {located}", first.port)];
        let (same, differ): (Vec<_>, Vec<_>) =
            others.iter().partition(|trace| trace.locate().is_loss() == located.is_loss());
        let list = |traces: &[&HopTrace]| {
            traces.iter().map(|trace| trace.port.to_string()).collect::<Vec<_>>().join(", ")
        };
        if !same.is_empty() {
            parts.push(format!("port {} likewise", list(&same)));
        }
        parts.extend(differ.iter().map(|trace| format!("port {} differs: {}", trace.port, trace.in_words())));
        parts.join("; ") + ". The download direction was not examined."
    }

    pub fn evidence(&self) -> HopEvidence {
        match self {
            Self::Examined(traces) => {
                traces.first().map_or(HopEvidence::Unknown, |trace| trace.locate().evidence())
            }
            Self::NotExamined(_) => HopEvidence::Unknown,
        }
    }
}

impl Located {
    const fn is_loss(&self) -> bool {
        matches!(self, Self::Between { .. })
    }
}

impl HopTrace {
    fn in_words(&self) -> String {
        match self.locate() {
            Located::Between { .. } => format!("the option is lost {}", self.locate()),
            Located::Intact(_) => "the option passes".to_owned(),
            located => located.to_string(),
        }
    }
}
