//! The effect of each event on the quality of its link: better, worse or neither.

use super::plan::{EventAction, EventPlan, FadePlan, LinkPlan, Middlebox, PathChange, TopologyPlan};
use pathbench_link::{BaseDelay, LinkChange, LinkModel, LossModel, RateModel};
use pathbench_record::direction::LinkDirection;
use pathbench_record::event::{EventKind, PathEffect};
use std::time::Duration;

/// Sets the effect of each event; `events` are in the order of their times.
pub(super) fn assign(events: &mut [EventPlan], topology: &TopologyPlan) {
    let links: Vec<String> = events.iter().map(|event| topology.path_of(&event.link).to_owned()).collect();
    for (index, link) in links.iter().enumerate() {
        if links[..index].contains(link) {
            continue;
        }
        let Some(mut state) = LinkState::new(topology, link) else { continue };
        let of_link = events.iter_mut().zip(&links).filter(|(_, other)| *other == link);
        for (event, _) in of_link {
            event.effect = state.take(&event.action);
        }
    }
}

/// The state of a link after some events.
#[derive(Debug, Clone)]
struct LinkState {
    models: [LinkModel; 2],
    path_mtu_bytes: Option<u32>,
    middlebox: Vec<Middlebox>,
}

impl LinkState {
    fn new(topology: &TopologyPlan, link: &str) -> Option<Self> {
        let plan = topology.link(link)?;
        let hop = topology.hop(link);
        let rules = hop.and_then(|hop| topology.node(&hop.routers[0])?.rules.as_ref());
        Some(Self {
            models: [plan.forward.clone(), plan.reverse.clone()],
            path_mtu_bytes: hop.and_then(|hop| topology.link(&hop.link)).map(LinkPlan::mtu_bytes),
            middlebox: rules.map(|rules| rules.middlebox.clone()).unwrap_or_default(),
        })
    }

    /// Applies the action and compares the state before with the state after it.
    fn take(&mut self, action: &EventAction) -> PathEffect {
        let before = self.clone();
        match action {
            EventAction::Set(change) => self.change(change),
            EventAction::Fade(FadePlan::Walk(walk)) if walk.to_m > walk.from_m => return PathEffect::Worse,
            EventAction::Fade(FadePlan::Walk(walk)) if walk.to_m < walk.from_m => return PathEffect::Better,
            EventAction::Fade(FadePlan::Walk(_)) => return PathEffect::Neutral,
            EventAction::Fade(FadePlan::Ramp { ramp, direction, .. }) => {
                let end = LinkChange {
                    rate: ramp.rate_bps.map(RateModel::Constant),
                    loss: ramp.loss.map(LossModel::Independent),
                    delay: ramp.delay.map(BaseDelay::Constant),
                    ..LinkChange::default()
                };
                self.apply(&end, *direction);
            }
            _ => return EventKind::from(action.name()).path_effect(),
        }
        self.compare(&before)
    }

    fn change(&mut self, change: &PathChange) {
        self.apply(&change.link, change.direction);
        self.path_mtu_bytes = change.path_mtu_bytes.or(self.path_mtu_bytes);
        if let Some(middlebox) = &change.rules.middlebox {
            self.middlebox.clone_from(middlebox);
        }
    }

    fn apply(&mut self, change: &LinkChange, direction: Option<LinkDirection>) {
        LinkDirection::select(direction, self.models.each_mut()).for_each(|model| change.apply(model));
    }

    /// `Better` if a property is better than `before` and none is worse; `Worse` if any is worse.
    fn compare(&self, before: &Self) -> PathEffect {
        let properties = |state: &Self| {
            let of_models = state.models.iter().flat_map(quality);
            let mtu = state.path_mtu_bytes.map_or(0.0, f64::from);
            of_models.chain([mtu, -(state.middlebox.len() as f64)]).collect::<Vec<f64>>()
        };
        let (now, then) = (properties(self), properties(before));
        if now.iter().zip(&then).any(|(now, then)| now < then) {
            PathEffect::Worse
        } else if now != then {
            PathEffect::Better
        } else {
            PathEffect::Neutral
        }
    }
}

/// Properties of one direction; larger is better.
fn quality(model: &LinkModel) -> [f64; 5] {
    let loss = match &model.loss {
        LossModel::Independent(loss) => *loss,
        LossModel::GilbertElliott(channel) => channel.mean_loss(),
        LossModel::Bursts { period, length, loss } => {
            loss * length.as_secs_f64() / period.as_secs_f64().max(f64::MIN_POSITIVE)
        }
        LossModel::Schedule(schedule) => schedule.mean_loss().unwrap_or_default(),
    };
    let delay = match &model.delay {
        BaseDelay::Constant(delay) => *delay,
        BaseDelay::Schedule(schedule) => schedule.mean_delay().unwrap_or(Duration::ZERO),
    };
    [
        model.mean_rate_bps().map_or(f64::INFINITY, |bps| bps as f64),
        -loss,
        -delay.as_secs_f64(),
        -model.jitter.as_secs_f64(),
        f64::from(model.mtu_bytes),
    ]
}
