//! The patterns and their figures, the main figure first.

use crate::quantity::Unit;
use pathbench_record::document::{DelayRecord, RunRecord};
use pathbench_record::response::ProbeKind;
use pathbench_record::summary::figure;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ping,
    Bulk,
    Throughput,
    Interactive,
    Responsiveness,
    Datagrams,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: Unit,
    pub(crate) of_run: fn(&RunRecord) -> Option<f64>,
    /// The column title in a comparison; empty if the figure has none.
    pub(crate) heading: &'static str,
    pub(crate) meaning: &'static str,
}

impl Figure {
    const fn new(
        name: &'static str,
        title: &'static str,
        unit: Unit,
        of_run: fn(&RunRecord) -> Option<f64>,
    ) -> Self {
        Self { name, title, unit, of_run, heading: "", meaning: "" }
    }

    const fn compared(self, heading: &'static str, meaning: &'static str) -> Self {
        Self { heading, meaning, ..self }
    }
}

pub(crate) const GOODPUT: Figure =
    Figure::new("goodput_mbps", "goodput", Unit::Rate, |run| run.goodput_mbps).compared("Goodput", "");
pub(crate) const DIP: Figure = Figure::new("dip", "dip", Unit::Percent, |run| run.dip);
const STALL: Figure = Figure::new("stall_ms", "longest stall", Unit::Duration, |run| run.stall_ms).compared(
    "Longest stall",
    "Stall: the longest time the receiving application got no byte while data was outstanding.",
);
const RECOVERY: Figure = Figure::new("recovery_ms", "recovery", Unit::Duration, |run| run.recovery_ms).compared(
    "Recovery after the first event",
    "Recovery: from the first event to the first 100 ms window from which goodput stays at 90 % of what the surviving \
     paths give.",
);
/// Absent where no path came back, so its column is shown only where a run has it.
pub(crate) const FAILBACK: Figure =
    Figure::new("failback_ms", "failback", Unit::Duration, |run| run.failback_ms);
const PING: Figure = Figure::new("ping_ms", "round trip", Unit::Duration, |run| run.ping.as_ref()?.median_ms)
    .compared(
        "Round trip of a small request",
        "Round trip: the median of a run's requests that were answered.",
    );
const FCT: Figure = Figure::new("fct_ms", "FCT", Unit::Duration, |run| run.fct_ms).compared(
    "Flow completion time",
    "Flow completion time (FCT): from before the connection is opened to the last byte received and found right.",
);
const HANDSHAKE: Figure = Figure::new("handshake_ms", "handshake", Unit::Duration, |run| run.handshake_ms);
const DELAY_P50: Figure =
    Figure::new("delay_p50_ms", "median delay", Unit::Duration, |run| Some(run.delay_ms.as_ref()?.p50))
        .compared("Delay, median", "");
const DELAY_P95: Figure =
    Figure::new("delay_p95_ms", "p95 delay", Unit::Duration, |run| Some(run.delay_ms.as_ref()?.p95)).compared(
        "Delay, 95th percentile",
        "Delay: from the moment a message is due to its acknowledgement; a message never acknowledged counts with the \
         time to the end of the run, and ≥ marks what rests on such messages.",
    );
const DELAY_MAX: Figure =
    Figure::new("delay_max_ms", "max delay", Unit::Duration, |run| Some(run.delay_ms.as_ref()?.max))
        .compared("Delay, slowest", "");

const OWN_LOADED: Figure = Figure::new("self_loaded_p50_ms", "self, under load", Unit::Duration, |run| {
    run.responsiveness.as_ref()?.loaded(ProbeKind::Own, |delay| delay.p50_ms)
})
.compared(
    "Delay under load",
    "Delay under load: the median round trip of requests on the loaded connection, in the phase of load with the \
     largest one.",
);
const OWN_IDLE: Figure = Figure::new("self_idle_p50_ms", "self, idle", Unit::Duration, |run| {
    run.responsiveness.as_ref()?.idle(ProbeKind::Own, |delay| delay.p50_ms)
});
const FOREIGN_LOADED: Figure =
    Figure::new("foreign_loaded_p50_ms", "foreign, under load", Unit::Duration, |run| {
        run.responsiveness.as_ref()?.loaded(ProbeKind::Foreign, |delay| delay.p50_ms)
    });
const FOREIGN_IDLE: Figure = Figure::new("foreign_idle_p50_ms", "foreign, idle", Unit::Duration, |run| {
    run.responsiveness.as_ref()?.idle(ProbeKind::Foreign, |delay| delay.p50_ms)
});
const LOSS: Figure =
    Figure::new("datagram_loss", "loss", Unit::Percent, |run| figure(run, "datagram_loss")).compared(
        "Lost datagrams",
        "Loss: the share of the sent datagrams that did not arrive, of the direction that lost more; of copies on several \
         paths the first that arrives counts.",
    );
const JITTER: Figure =
    Figure::new("datagram_jitter_ms", "jitter", Unit::Duration, |run| figure(run, "datagram_jitter_ms"))
        .compared("Jitter", "");
const LATE: Figure = Figure::new("datagram_late_share", "later than the deadline", Unit::Percent, |run| {
    figure(run, "datagram_late_share")
});
const GAP: Figure =
    Figure::new("datagram_gap_ms", "longest gap", Unit::Duration, |run| figure(run, "datagram_gap_ms"));

/// `≥ ` if a figure of `delay` is a lower bound because it falls on unacknowledged messages.
pub(crate) fn bound_mark(delay: &DelayRecord, figure: &str) -> &'static str {
    let (unacknowledged, all) = (u64::from(delay.unacknowledged), u64::from(delay.messages));
    let is_bound = unacknowledged > 0
        && match figure {
            "delay_p50_ms" => unacknowledged * 2 >= all,
            "delay_p95_ms" => unacknowledged * 20 >= all,
            "delay_p99_ms" => unacknowledged * 100 >= all,
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
            "responsiveness" => Kind::Responsiveness,
            "datagrams" => Kind::Datagrams,
            _ => Kind::Throughput,
        };
        Self { name, kind }
    }

    pub(crate) const fn fills_paths(&self) -> bool {
        matches!(self.kind, Kind::Throughput | Kind::Bulk)
    }

    pub(crate) const fn figures(&self) -> &'static [Figure] {
        match self.kind {
            Kind::Ping => &[PING, HANDSHAKE],
            Kind::Bulk => &[FCT, HANDSHAKE, GOODPUT, STALL],
            Kind::Throughput => &[GOODPUT, DIP, STALL, RECOVERY, FAILBACK],
            Kind::Interactive => &[DELAY_P95, DELAY_P50, DELAY_MAX, FAILBACK],
            Kind::Responsiveness => &[OWN_LOADED, OWN_IDLE, FOREIGN_LOADED, FOREIGN_IDLE],
            Kind::Datagrams => &[LOSS, JITTER, LATE, GAP, FAILBACK],
        }
    }

    /// The figure of a name in the record.
    pub(crate) fn figure(&self, name: &str) -> Option<&'static Figure> {
        self.figures().iter().find(|figure| figure.name == name)
    }

    pub(crate) const fn main(&self) -> Figure {
        self.figures()[0]
    }

    pub(crate) fn main_figure(&self, run: &RunRecord) -> Option<f64> {
        (self.main().of_run)(run).filter(|value| value.is_finite())
    }

    /// The order of patterns: short ones first, downloads after uploads.
    pub(crate) fn rank(&self) -> u8 {
        match self.kind {
            Kind::Ping => 0,
            Kind::Bulk => 1,
            Kind::Throughput if self.name == "throughput-download" => 3,
            Kind::Throughput => 2,
            Kind::Interactive => 4,
            Kind::Responsiveness | Kind::Datagrams => 5,
        }
    }

    pub(crate) fn title(&self) -> String {
        match (self.name, self.kind) {
            ("throughput-upload", _) => "upload".to_owned(),
            ("throughput-download", _) => "download".to_owned(),
            (name, Kind::Interactive) => format!("{name}, p95"),
            (_, Kind::Responsiveness) => "delay under load".to_owned(),
            (name, Kind::Datagrams) => format!("{name}, loss"),
            (name, _) => name.to_owned(),
        }
    }

    pub(crate) const fn meaning(&self) -> &'static str {
        match self.kind {
            Kind::Ping => "round-trip time of a small request",
            Kind::Bulk => "time to open a connection and fetch all bytes",
            Kind::Throughput => "goodput",
            Kind::Interactive => "delay that 95 % of the messages do not exceed",
            Kind::Responsiveness => {
                "median delay of requests on the loaded connection, in the worst phase of load"
            }
            Kind::Datagrams => "share of the datagrams that did not arrive",
        }
    }

    /// Whether the pattern measures messages, not bytes; the scheduler may send messages over one path.
    pub(crate) const fn is_of_messages(&self) -> bool {
        matches!(self.kind, Kind::Ping | Kind::Interactive | Kind::Datagrams)
    }
}
