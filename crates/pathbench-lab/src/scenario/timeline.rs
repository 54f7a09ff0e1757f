//! `[[event]]`: events of links during a run.

use super::fade::{self, direction};
use super::hop;
use super::parameters;
use super::plan::{
    EventAction, EventPlan, EventTime, LinkEngine, LinkPlan, PathChange, RunPlan, TopologyPlan, icmp_in_words,
};
use super::section::ScenarioSection;
use super::traffic::LONGEST_RUN;
use pathbench_link::{LinkModel, PARAMETERS};
use pathbench_record::direction::LinkDirection;
use pathbench_record::event::PathEffect;
use pathbench_record::network::SMALLEST_IPV6_MTU_BYTES;
use pathbench_record::units::Span;
use serde_json::Value as Json;
use std::time::Duration;
use strum::VariantNames as _;

pub(super) fn read(root: &ScenarioSection<'_>, topology: &TopologyPlan, run: &RunPlan) -> Vec<EventPlan> {
    let sections = root.sections("event");
    let mut events: Vec<_> =
        sections.iter().filter_map(|section| Some((section, event(section, topology, run)?))).collect();
    events.sort_by_key(|(_, event)| event.at);
    for link in topology.links.iter().filter(|link| link.engine_is_given && link.engine == LinkEngine::Kernel)
    {
        check_kernel(link, &events);
    }
    check_before_connect(&events);
    events.into_iter().map(|(_, event)| event).collect()
}

/// Reports the events after which the kernel's engine could not implement `link`.
fn check_kernel(link: &LinkPlan, events: &[(&ScenarioSection<'_>, EventPlan)]) {
    let mut models = [link.forward.clone(), link.reverse.clone()];
    let beyond = |models: &[LinkModel; 2]| models.iter().find_map(parameters::beyond_kernel);
    for (section, event) in events.iter().filter(|(_, event)| event.link == link.name) {
        let (EventAction::Set(change), None) = (&event.action, beyond(&models)) else { continue };
        LinkDirection::select(change.direction, models.each_mut()).for_each(|model| change.link.apply(model));
        if let Some((problem, remedy)) = beyond(&models) {
            section.wrong("action", problem, remedy);
        }
    }
}

/// Keys of `set` whose values run with the time since the first byte.
const TIMED: [&str; 5] = ["rate_steps", "rate_trace", "delay_trace", "loss_trace", "loss_bursts"];

/// Reports the events before the connection that need the first byte, or have nothing to undo.
fn check_before_connect(events: &[(&ScenarioSection<'_>, EventPlan)]) {
    let before = |event: &EventPlan| event.at == EventTime::BeforeConnect;
    for (index, (section, event)) in events.iter().enumerate().filter(|(_, (_, event))| before(event)) {
        let name = event.action.name();
        let undone: &[&str] = match event.action {
            EventAction::Up => &["down"],
            EventAction::Restore => &["blackhole", "outage"],
            EventAction::AddAddress => &["remove-address"],
            _ => &[],
        };
        let earlier = |(_, earlier): &(&ScenarioSection<'_>, EventPlan)| {
            earlier.link == event.link && undone.contains(&earlier.action.name())
        };
        if matches!(event.action, EventAction::Fade(_)) {
            let problem = "a fade runs from the first byte on, so it cannot come before the connection";
            section.wrong("at", problem, "give a time, as in \"0s\", or make the action \"set\"");
        } else if !undone.is_empty() && !events[..index].iter().any(earlier) {
            let problem =
                format!("`{name}` before the connection has nothing to undo: the link carries packets");
            section.wrong("at", problem, "give a time, as in \"3s\", or remove the event");
        }
        let problem = "it runs with the time since the first byte, and the event comes before the connection";
        section.refuse(&TIMED, problem, "give it to the path itself, or give the event a time, as in \"0s\"");
    }
}

fn event(section: &ScenarioSection<'_>, topology: &TopologyPlan, run: &RunPlan) -> Option<EventPlan> {
    // These keys are valid even if other keys are invalid.
    for key in ["at", "path", "link", "host", "action", "direction"].iter().chain(&fade::KEYS) {
        section.has(key);
    }
    let at = event_time(section, run);
    let link = link(section, topology);
    let end = link.and_then(|link| end(section, topology, link, run));
    let action = action(section, topology, link);
    let ((link, node), action) = (end?, action?);
    // On a path with several links, only events of interfaces apply to one end.
    let link = if action.is_of_one_end() { link } else { topology.path_of(&link).to_owned() };
    // Follows from all events of the link.
    let effect = PathEffect::Neutral;
    Some(EventPlan { at: at?, link, node, action, effect })
}

fn event_time(section: &ScenarioSection<'_>, run: &RunPlan) -> Option<EventTime> {
    section.require("at", "\"3s\"");
    let word = section.get("at").and_then(|item| item.value.text());
    if word == Some(EventTime::BEFORE_CONNECT) {
        return Some(EventTime::BeforeConnect);
    }
    if let Some(word) = word.filter(|word| word.starts_with(char::is_alphabetic)) {
        let remedy =
            format!("give a time after the first byte, as in \"3s\", or \"{}\"", EventTime::BEFORE_CONNECT);
        section.wrong("at", format!("`{word}` is no time"), remedy);
        return None;
    }
    let at = section.duration("at", Duration::ZERO..=LONGEST_RUN)?;
    if let Some(duration) = run.duration().filter(|duration| at >= *duration) {
        let problem = format!("the event comes at {}, but the run ends at {}", Span(at), Span(duration));
        section.wrong("at", problem, "give an earlier time, or a longer run.duration");
    }
    Some(EventTime::AfterFirstByte(at))
}

fn link<'t>(section: &ScenarioSection<'_>, topology: &'t TopologyPlan) -> Option<&'t LinkPlan> {
    let names = topology.links.iter().map(|link| link.name.as_str());
    let names: Vec<_> = names.filter(|name| !name.is_empty() && !topology.is_inner(name)).collect();
    let key = match (section.has("path"), section.has("link")) {
        (true, true) => {
            let remedy = "remove one: both name the link that the event is about";
            section.wrong("link", "`path` and `link` are both given", remedy);
            "path"
        }
        (false, true) => "link",
        (true, false) => "path",
        (false, false) => {
            section.report_missing("path", &format!("\"{}\"", names.first().unwrap_or(&"wlan")));
            return None;
        }
    };
    let name = section.reference(key, "path or link", &names)?;
    topology.link(name)
}

/// Link and node of the affected end: the given node's end, else the client's, else the first.
fn end(
    section: &ScenarioSection<'_>,
    topology: &TopologyPlan,
    link: &LinkPlan,
    run: &RunPlan,
) -> Option<(String, String)> {
    let near = link.end_of(&run.client).unwrap_or(0);
    let near = (link, near);
    let far = topology.far_end_of(link, &link.ends[near.1].node).unwrap_or((link, 1 - near.1));
    let node = |(link, end): (&LinkPlan, usize)| link.ends[end].node.clone();
    let chosen = if section.has("host") {
        let ends = [node(near), node(far)];
        let noun = format!("end of `{}` at", link.name);
        let host = section.reference("host", &noun, &ends.each_ref().map(String::as_str))?;
        if host == ends[0] { near } else { far }
    } else {
        near
    };
    Some((chosen.0.name.clone(), node(chosen)))
}

fn action(
    section: &ScenarioSection<'_>,
    topology: &TopologyPlan,
    link: Option<&LinkPlan>,
) -> Option<EventAction> {
    section.require("action", "\"down\"");
    let change = change(section, topology, link);
    let names: Vec<_> = EventAction::VARIANTS.iter().map(|name| (*name, *name)).collect();
    let name = section.choice("action", &names)?;
    refuse_foreign(section, name);
    let action = match name {
        "down" => EventAction::Down,
        "up" => EventAction::Up,
        "blackhole" => EventAction::Blackhole,
        "outage" => EventAction::Outage,
        "restore" => EventAction::Restore,
        "remove-address" => EventAction::RemoveAddress,
        "add-address" => EventAction::AddAddress,
        "fade" => EventAction::Fade(fade::read(section, link)?),
        _ => EventAction::Set(Box::new(change)),
    };
    let of_kernel = link.is_some_and(|link| link.engine_is_given && link.engine == LinkEngine::Kernel);
    if of_kernel && matches!(action, EventAction::Outage | EventAction::Fade(_)) {
        let problem = format!("the kernel's engine, which the link asks for, cannot do this `{name}`");
        let remedy = "give the link engine = \"emulated\", or leave its engine out";
        section.wrong("action", problem, remedy);
    }
    Some(action)
}

fn refuse_foreign(section: &ScenarioSection<'_>, name: &str) {
    let given = |keys: &[&'static str]| -> Vec<&'static str> {
        keys.iter().copied().filter(|key| section.has(key)).collect()
    };
    let change: Vec<_> = PARAMETERS.iter().map(|parameter| parameter.key).chain(hop::KEYS).collect();
    let of_set = given(&change);
    if name != "set" {
        for key in of_set {
            let problem = format!("the action `{name}` changes no {key}");
            section.wrong(key, problem, "remove it, or make the action \"set\"");
        }
    } else if of_set.is_empty() {
        let remedy = format!("give what to set: {}", change.join(", "));
        section.wrong("action", "`set` without anything to set", remedy);
    }
    if name != "fade" {
        for key in given(&fade::KEYS) {
            let problem = format!("the action `{name}` takes no {key}");
            section.wrong(key, problem, "remove it, or make the action \"fade\"");
        }
    }
    if section.has("direction") && !["set", "fade"].contains(&name) {
        let problem = format!("the action `{name}` concerns both directions");
        section.wrong("direction", problem, "remove it");
    }
}

fn change(section: &ScenarioSection<'_>, topology: &TopologyPlan, link: Option<&LinkPlan>) -> PathChange {
    let mut given = parameters::read(section, |_| true);
    let mtu_bytes = given.change.mtu_bytes;
    let largest_bytes = mtu_bytes.or(link.map(LinkPlan::mtu_bytes)).unwrap_or(u32::MAX);
    let path_mtu_bytes = hop::path_mtu(section, largest_bytes);
    let rules = hop::rules(section);
    let of_hop = [
        ("path_mtu_bytes", path_mtu_bytes.map(Json::from)),
        ("icmp", rules.too_big.map(|too_big| icmp_in_words(too_big).into())),
        ("clamp_mss", rules.clamp_mss.map(Json::from)),
        ("middlebox", rules.middlebox.as_ref().map(|all| all.iter().map(|one| one.name()).collect())),
    ];
    given.json.extend(of_hop.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    let change = PathChange {
        direction: direction(section),
        link: given.change,
        path_mtu_bytes,
        rules,
        given: given.json,
    };
    let Some(link) = link else { return change };
    if topology.hop(&link.name).is_none() {
        let problem = format!("`{}` is a plain wire without routers", link.name);
        let remedy =
            format!("give the path itself path_mtu = {}, icmp, clamp_mss or middlebox", link.mtu_bytes());
        section.refuse(&hop::KEYS, &problem, &remedy);
    }
    for model in LinkDirection::select(change.direction, [&link.forward, &link.reverse]) {
        parameters::check(&[section], &model.with_change(&change.link));
    }
    if change.direction.is_some() {
        let remedy = "leave direction out";
        section.refuse(&["mtu", "path_mtu"], "a link has one MTU for both directions", remedy);
        section.refuse(&hop::RULES, "routers do the same in both directions", remedy);
    }
    let has_ipv6 = link.ends.iter().flat_map(|end| &end.addresses).any(|subnet| subnet.addr().is_ipv6());
    for (key, bytes) in [("mtu", mtu_bytes), ("path_mtu", change.path_mtu_bytes)] {
        if has_ipv6 && bytes.is_some_and(|bytes| bytes < SMALLEST_IPV6_MTU_BYTES) {
            let problem = format!(
                "`{}` has IPv6 addresses, which the kernel removes below {SMALLEST_IPV6_MTU_BYTES}",
                link.name
            );
            let remedy = format!("give at least {SMALLEST_IPV6_MTU_BYTES} (RFC 8200)");
            section.wrong(key, problem, remedy);
        }
    }
    change
}
