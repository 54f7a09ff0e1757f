//! What happens to links during a run.

use super::Link;
use super::hop::RulesChange;
use pathbench_emulator::fading::{FadingError, Ramp, Walk};
use pathbench_link::{ChangeSchedule, Engines, LinkChange, LinkModel};
use pathbench_record::direction::LinkDirection;
use serde_json::{Map, Value};
use std::time::Duration;

/// Something that happens to a link during a run.
#[derive(Debug, Clone, PartialEq)]
pub struct EventPlan {
    /// From the first byte of data.
    pub at: Duration,
    pub link: String,
    /// The end to act on, where the action concerns one end.
    pub node: String,
    pub action: Action,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// The node's interface goes down.
    Down,
    /// The node's interface comes up again.
    Up,
    /// The link swallows every packet, both ways; nobody is told.
    Blackhole,
    /// The link sends nothing; packets wait in its queues.
    Outage,
    /// The link carries packets again.
    Restore,
    /// The node loses its addresses on the link.
    RemoveAddress,
    /// The node gets its addresses on the link back.
    AddAddress,
    /// The link changes; what is `None` stays as it is.
    Set(Box<Change>),
    /// The link changes bit by bit, by itself.
    Fade(FadePlan),
}

impl Action {
    /// As in the scenario file and in `events.jsonl`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
            Self::Blackhole => "blackhole",
            Self::Outage => "outage",
            Self::Restore => "restore",
            Self::RemoveAddress => "remove-address",
            Self::AddAddress => "add-address",
            Self::Set(_) => "set",
            Self::Fade(_) => "fade",
        }
    }

    /// Whether it happens to the interface or the addresses of one node.
    pub const fn is_of_one_end(&self) -> bool {
        matches!(self, Self::Down | Self::Up | Self::RemoveAddress | Self::AddAddress)
    }

    /// Whether the kernel's engine can do it.
    pub fn is_plain(&self) -> bool {
        match self {
            Self::Outage | Self::Fade(_) => false,
            Self::Set(change) => LinkModel::default().with(&change.link).needs() == Engines::Kernel,
            _ => true,
        }
    }
}

/// New values of a link's properties; at least one is given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Change {
    /// The directions that change; MTUs and routers are those of both.
    pub direction: Option<LinkDirection>,
    /// Its MTU is that of the hosts' interfaces where the link is a path with a hop.
    pub link: LinkChange,
    /// New MTU of the path's hop.
    pub path_mtu_bytes: Option<u32>,
    /// What changes of the path's routers.
    pub rules: RulesChange,
    /// All of it as `events.jsonl` has it.
    pub given: Map<String, Value>,
}

/// A link that gets better or worse bit by bit.
#[derive(Debug, Clone, PartialEq)]
pub enum FadePlan {
    /// A walk away from the radio's base station, or towards it: both directions fade as radios do.
    Walk(Walk),
    /// Each given value changes evenly from what it is to another.
    Ramp {
        /// Where it leads, and how long it takes.
        ramp: Ramp,
        direction: Option<LinkDirection>,
        /// Where it leads, as `events.jsonl` has it.
        given: Map<String, Value>,
    },
}

impl FadePlan {
    /// How long it takes.
    pub fn duration(&self) -> Duration {
        match self {
            Self::Walk(walk) => walk.duration(),
            Self::Ramp { ramp, .. } => ramp.duration,
        }
    }

    /// What the two directions of `link`, as it is when the fade begins, follow from then on; empty for one that does
    /// not fade.
    pub fn schedules(&self, link: &Link) -> Result<[ChangeSchedule; 2], FadingError> {
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
