//! Events of links during a run.

use super::link::LinkPlan;
use super::topology::RulesChange;
use pathbench_link::fading::{FadingError, Ramp, Walk};
use pathbench_link::{ChangeSchedule, Engines, LinkChange, LinkModel};
use pathbench_record::direction::LinkDirection;
use pathbench_record::event::PathEffect;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventPlan {
    pub at: EventTime,
    pub link: String,
    /// The affected end, if the action applies to one end.
    pub node: String,
    pub action: EventAction,
    /// Whether the link is better or worse afterwards.
    pub effect: PathEffect,
}

/// When an event occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EventTime {
    /// In effect before the client makes its first attempt to open the connection.
    BeforeConnect,
    /// Time since the first byte of data.
    AfterFirstByte(Duration),
}

impl EventTime {
    /// The value of `at` for an event before the connection is opened.
    pub const BEFORE_CONNECT: &str = "before-connect";

    /// Time since the first byte of data; `None` for an event before it.
    pub const fn since_first_byte(self) -> Option<Duration> {
        match self {
            Self::BeforeConnect => None,
            Self::AfterFirstByte(time) => Some(time),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum EventAction {
    /// The node's interface goes down.
    Down,
    /// The node's interface comes up again.
    Up,
    /// The link drops all packets silently in both directions; carrier stays up.
    Blackhole,
    /// The link sends nothing; packets wait in its queues.
    Outage,
    /// The link carries packets again.
    Restore,
    /// The node loses its addresses on the link.
    RemoveAddress,
    /// The node gets its addresses on the link back.
    AddAddress,
    /// The link changes; properties that are `None` stay.
    Set(Box<PathChange>),
    /// The link changes gradually.
    Fade(FadePlan),
}

impl EventAction {
    /// As in the scenario file and in `events.jsonl`.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    pub fn detail(&self) -> Map<String, Value> {
        let (direction, given) = match self {
            Self::Set(change) => (change.direction, &change.given),
            Self::Fade(FadePlan::Ramp { direction, given, .. }) => (*direction, given),
            _ => (None, &Map::new()),
        };
        let mut detail = Map::new();
        if let Self::Fade(fade) = self {
            detail.insert("duration_ms".to_owned(), (fade.duration().as_secs_f64() * 1e3).into());
        }
        if let Self::Fade(FadePlan::Walk(Walk { speed_mps, from_m, to_m, exponent, .. })) = self {
            for (key, value) in
                [("from_m", from_m), ("to_m", to_m), ("speed_mps", speed_mps), ("exponent", exponent)]
            {
                detail.insert(key.to_owned(), (*value).into());
            }
        }
        detail.extend(direction.map(|direction| ("direction".to_owned(), direction.name().into())));
        detail.extend(given.clone());
        detail
    }

    /// Whether the action applies to the interface or the addresses of one node.
    pub const fn is_of_one_end(&self) -> bool {
        matches!(self, Self::Down | Self::Up | Self::RemoveAddress | Self::AddAddress)
    }

    /// Whether the kernel's engine supports the action.
    pub fn is_plain(&self) -> bool {
        match self {
            Self::Outage | Self::Fade(_) => false,
            Self::Set(change) => LinkModel::default().with_change(&change.link).needs() == Engines::Kernel,
            _ => true,
        }
    }
}

/// New values of a link's properties; at least one is given.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PathChange {
    /// The direction that changes; `None` for both. MTUs and router rules apply to both directions.
    pub direction: Option<LinkDirection>,
    /// On a path with a hop, its MTU is the MTU of the hosts' interfaces.
    pub link: LinkChange,
    /// New MTU of the path's hop.
    pub path_mtu_bytes: Option<u32>,
    /// New rules of the path's routers.
    pub rules: RulesChange,
    /// All new values in the format of `events.jsonl`.
    pub given: Map<String, Value>,
}

/// A gradual change of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FadePlan {
    /// The distance to the base station changes at walking speed: both directions fade by radio path loss.
    Walk(Walk),
    /// Each given value changes linearly from its current value.
    Ramp {
        /// Final values and duration.
        ramp: Ramp,
        direction: Option<LinkDirection>,
        /// Final values in the format of `events.jsonl`.
        given: Map<String, Value>,
    },
}

impl FadePlan {
    pub fn duration(&self) -> Duration {
        match self {
            Self::Walk(walk) => walk.duration(),
            Self::Ramp { ramp, .. } => ramp.duration,
        }
    }

    /// The changes of both directions from the current state of `link`; empty for a direction that does not fade.
    pub fn schedules(&self, link: &LinkPlan) -> Result<[ChangeSchedule; 2], FadingError> {
        let of = |model: &LinkModel, chosen: bool| match self {
            Self::Walk(walk) => walk.changes(model),
            Self::Ramp { ramp, .. } if chosen => ramp.changes(model),
            Self::Ramp { .. } => Ok(ChangeSchedule::default()),
        };
        let chosen = match self {
            Self::Walk(_) => [true; 2],
            Self::Ramp { direction, .. } => LinkDirection::selected(*direction),
        };
        Ok([of(&link.forward, chosen[0])?, of(&link.reverse, chosen[1])?])
    }
}
