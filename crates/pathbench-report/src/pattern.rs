//! The patterns as a report sees them: which figures each has, and which of them comes first.

use crate::quantity::Unit;
use pathbench_record::document::{DelayRecord, RunRecord};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern<'a> {
    /// As in the result: `iperf-upload`.
    pub(crate) name: &'a str,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ping,
    Bulk,
    Iperf,
    /// Small requests both ways at a fixed pace.
    Interactive,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: Unit,
    pub(crate) of_run: fn(&RunRecord) -> Option<f64>,
}

pub(crate) const GOODPUT: Figure =
    Figure { name: "goodput_mbps", title: "goodput", unit: Unit::Rate, of_run: |run| run.goodput_mbps };
pub(crate) const DIP: Figure =
    Figure { name: "dip", title: "dip", unit: Unit::Percent, of_run: |run| run.dip };
pub(crate) const STALL: Figure =
    Figure { name: "stall_ms", title: "longest stall", unit: Unit::Duration, of_run: |run| run.stall_ms };
pub(crate) const RECOVERY: Figure =
    Figure { name: "recovery_ms", title: "recovery", unit: Unit::Duration, of_run: |run| run.recovery_ms };
pub(crate) const PING: Figure = Figure {
    name: "ping_ms",
    title: "round trip",
    unit: Unit::Duration,
    of_run: |run| run.ping.as_ref()?.median_ms,
};
pub(crate) const COMPLETION: Figure = Figure {
    name: "completion_ms",
    title: "completion",
    unit: Unit::Duration,
    of_run: |run| run.completion_ms,
};
pub(crate) const HANDSHAKE: Figure =
    Figure { name: "handshake_ms", title: "handshake", unit: Unit::Duration, of_run: |run| run.handshake_ms };
pub(crate) const DELAY_P50: Figure = Figure {
    name: "delay_p50_ms",
    title: "median delay",
    unit: Unit::Duration,
    of_run: |run| Some(run.delay_ms.as_ref()?.p50),
};
pub(crate) const DELAY_P95: Figure = Figure {
    name: "delay_p95_ms",
    title: "p95 delay",
    unit: Unit::Duration,
    of_run: |run| Some(run.delay_ms.as_ref()?.p95),
};
pub(crate) const DELAY_MAX: Figure = Figure {
    name: "delay_max_ms",
    title: "max delay",
    unit: Unit::Duration,
    of_run: |run| Some(run.delay_ms.as_ref()?.max),
};

/// `≥ ` where a figure of `delay` is a lower bound: it falls on messages that were never acknowledged.
pub(crate) fn bound_mark(delay: &DelayRecord, figure: &str) -> &'static str {
    let (late, all) = (u64::from(delay.late), u64::from(delay.messages));
    let is_bound = late > 0
        && match figure {
            "delay_p50_ms" => late * 2 >= all,
            "delay_p95_ms" => late * 20 >= all,
            "delay_p99_ms" => late * 100 >= all,
            "delay_max_ms" => true,
            _ => false,
        };
    if is_bound { "≥ " } else { "" }
}

impl<'a> Pattern<'a> {
    pub(crate) fn named(name: &'a str) -> Self {
        let kind = match name.split('-').next().unwrap_or_default() {
            "ping" => Kind::Ping,
            "bulk" => Kind::Bulk,
            "interactive" => Kind::Interactive,
            _ => Kind::Iperf,
        };
        Self { name, kind }
    }

    pub(crate) const fn fills_paths(&self) -> bool {
        matches!(self.kind, Kind::Iperf | Kind::Bulk)
    }

    pub(crate) const fn figures(&self) -> &'static [Figure] {
        match self.kind {
            Kind::Ping => &[PING, HANDSHAKE],
            Kind::Bulk => &[COMPLETION, HANDSHAKE, GOODPUT, STALL],
            Kind::Iperf => &[GOODPUT, DIP, STALL, RECOVERY],
            Kind::Interactive => &[DELAY_P95, DELAY_P50, DELAY_MAX],
        }
    }

    pub(crate) const fn main(&self) -> Figure {
        self.figures()[0]
    }

    pub(crate) fn main_figure(&self, run: &RunRecord) -> Option<f64> {
        (self.main().of_run)(run).filter(|value| value.is_finite())
    }

    /// Where it stands among patterns: what is short comes first, downloads after uploads.
    pub(crate) fn rank(&self) -> u8 {
        match self.kind {
            Kind::Ping => 0,
            Kind::Bulk => 1,
            Kind::Iperf if self.name == "iperf-download" => 3,
            Kind::Iperf => 2,
            Kind::Interactive => 4,
        }
    }

    pub(crate) fn title(&self) -> String {
        match (self.name, self.kind) {
            ("iperf-upload", _) => "upload".to_owned(),
            ("iperf-download", _) => "download".to_owned(),
            (name, Kind::Interactive) => format!("{name}, p95"),
            (name, _) => name.to_owned(),
        }
    }

    pub(crate) const fn meaning(&self) -> &'static str {
        match self.kind {
            Kind::Ping => "round-trip time of a small request",
            Kind::Bulk => "time to open a connection and fetch all bytes",
            Kind::Iperf => "goodput",
            Kind::Interactive => "delay that 95 % of the messages do not exceed",
        }
    }

    /// Whether it is messages that count, not bytes: which of two paths carries them is then the scheduler's choice.
    pub(crate) const fn is_of_messages(&self) -> bool {
        matches!(self.kind, Kind::Ping | Kind::Interactive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_the_suite_are_known_by_the_begin_of_their_name() {
        for (name, kind, title) in [
            ("ping", Kind::Ping, "ping"),
            ("bulk", Kind::Bulk, "bulk"),
            ("iperf-upload", Kind::Iperf, "upload"),
            ("interactive", Kind::Interactive, "interactive, p95"),
            ("of-tomorrow", Kind::Iperf, "of-tomorrow"),
        ] {
            let pattern = Pattern::named(name);
            assert_eq!((pattern.kind, pattern.title().as_str()), (kind, title));
        }
    }
}
