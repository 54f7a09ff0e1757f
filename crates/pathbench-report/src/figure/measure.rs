//! What a comparison has a column for.

use crate::chart;
use crate::pattern::{
    COMPLETION, DELAY_MAX, DELAY_P50, DELAY_P95, Figure, GOODPUT, Kind, PING, Pattern, RECOVERY, STALL,
};
use crate::view::GroupView;

#[derive(Debug, Clone)]
pub(super) struct Measure {
    pub(super) name: String,
    pub(super) better: &'static str,
    pub(super) meaning: &'static str,
    pub(super) figure: Figure,
    pub(super) unit: fn(f64) -> (&'static str, f64),
    /// Whether a bar goes from zero to the median, and its bounds are drawn.
    pub(super) bar: bool,
    /// Whether its scale may be logarithmic: a bar cannot.
    pub(super) may_be_logarithmic: bool,
    pub(super) is_overview: bool,
}

const LESS: &str = "less is better";
const MORE: &str = "more is better";

impl Measure {
    fn of(figure: Figure, name: &str, meaning: &'static str) -> Self {
        let of_rates = figure.name == GOODPUT.name;
        Self {
            name: name.to_owned(),
            better: if of_rates { MORE } else { LESS },
            meaning,
            figure,
            unit: if of_rates { chart::rate_unit } else { chart::time_unit },
            bar: false,
            may_be_logarithmic: false,
            is_overview: false,
        }
    }

    pub(super) fn all_of(pattern: Pattern) -> Vec<Self> {
        let goodput = || Self::of(GOODPUT, "Goodput", "");
        let stall = || {
            Self::of(
                STALL,
                "Longest stall",
                "Stall: the longest time the receiving application got no byte while data was outstanding.",
            )
        };
        match pattern.kind {
            Kind::Ping => vec![Self {
                bar: true,
                ..Self::of(
                    PING,
                    "Round trip of a small request",
                    "Round trip: the median of a run's requests that were answered.",
                )
            }],
            Kind::Bulk => vec![
                Self {
                    bar: true,
                    ..Self::of(
                        COMPLETION,
                        "Completion",
                        "Completion: from before the connection is opened to the last byte received and found right.",
                    )
                },
                goodput(),
                stall(),
            ],
            Kind::Iperf => vec![
                goodput(),
                stall(),
                Self::of(
                    RECOVERY,
                    "Recovery after the first event",
                    "Recovery: from the first event to the first 100 ms window from which goodput stays at 90 % of \
                     what the surviving paths give.",
                ),
            ],
            Kind::Interactive => {
                let of_messages = |figure, name, meaning| Self {
                    may_be_logarithmic: true,
                    ..Self::of(figure, name, meaning)
                };
                vec![
                    of_messages(
                        DELAY_P95,
                        "Delay, 95th percentile",
                        "Delay: from the moment a message is due to its acknowledgement; a message never acknowledged \
                         counts with the time to the end of the run, and ≥ marks what rests on such messages.",
                    ),
                    of_messages(DELAY_P50, "Delay, median", ""),
                    of_messages(DELAY_MAX, "Delay, slowest", ""),
                ]
            }
        }
    }

    /// The main measure of a pattern as a column of an overview over patterns.
    pub(super) fn overview(pattern: Pattern) -> Self {
        let main = Self::of(pattern.main(), "", "");
        let mut name = pattern.title();
        if let Some(first) = name.get(..1).map(str::to_uppercase) {
            name.replace_range(..1, &first);
        }
        Self { name, bar: true, is_overview: true, ..main }
    }

    pub(super) fn values(&self, group: &GroupView) -> Vec<f64> {
        let values = group.valid_runs().filter_map(|run| (self.figure.of_run)(run));
        values.filter(|value| value.is_finite() && (0.0..1e12).contains(value)).collect()
    }
}
