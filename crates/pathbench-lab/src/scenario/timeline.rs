//! `[[event]]`: what happens to links during a run.

use super::keys;
use super::link::{LONGEST_DELAY, SMALLEST_IPV6_MTU_BYTES, check_queue};
use super::mistake::MistakeKind;
use super::plan::{Action, Change, EventPlan, Link, RunPlan, Topology};
use super::section::Section;
use super::traffic::LONGEST_RUN;
use pathbench_record::units::Span;
use std::time::Duration;

/// The events in the order of their times.
pub(super) fn read(root: &Section<'_>, topology: &Topology, run: &RunPlan) -> Vec<EventPlan> {
    let mut events: Vec<_> =
        root.sections("event").iter().filter_map(|section| event(section, topology, run)).collect();
    events.sort_by_key(|event| event.at);
    events
}

fn event(section: &Section<'_>, topology: &Topology, run: &RunPlan) -> Option<EventPlan> {
    section.only("an event", &keys::EVENT);
    let at = at(section, run);
    let link = link(section, topology);
    let node = link.and_then(|link| node(section, link, run));
    let action = action(section, link);
    Some(EventPlan { at: at?, link: link?.name.clone(), node: node?, action: action? })
}

fn at(section: &Section<'_>, run: &RunPlan) -> Option<Duration> {
    if !section.has("at") {
        section.missing("at", "\"3s\"");
    }
    let at = section.duration("at", Duration::ZERO..=LONGEST_RUN)?;
    if let Some(duration) = run.duration().filter(|duration| at >= *duration) {
        let problem = format!("the event comes at {}, but the run ends at {}", Span(at), Span(duration));
        section.wrong(MistakeKind::Conflict, "at", problem, "give an earlier time, or a longer run.duration");
    }
    Some(at)
}

fn link<'t>(section: &Section<'_>, topology: &'t Topology) -> Option<&'t Link> {
    let names: Vec<_> =
        topology.links.iter().map(|link| link.name.as_str()).filter(|name| !name.is_empty()).collect();
    let key = match (section.has("path"), section.has("link")) {
        (true, true) => {
            let remedy = "remove one: both name the link that the event is about";
            section.wrong(MistakeKind::Conflict, "link", "`path` and `link` are both given", remedy);
            "path"
        }
        (false, true) => "link",
        (true, false) => "path",
        (false, false) => {
            section.missing("path", &format!("\"{}\"", names.first().unwrap_or(&"wlan")));
            return None;
        }
    };
    let name = section.reference(key, "path or link", &names)?;
    topology.link(name)
}

/// The end to act on: given, else the client's, else the first.
fn node(section: &Section<'_>, link: &Link, run: &RunPlan) -> Option<String> {
    if section.has("host") {
        let ends = [link.ends[0].node.as_str(), link.ends[1].node.as_str()];
        let noun = format!("end of `{}` at", link.name);
        return section.reference("host", &noun, &ends).map(str::to_owned);
    }
    let end = link.end_of(&run.client).unwrap_or(0);
    Some(link.ends[end].node.clone())
}

fn action(section: &Section<'_>, link: Option<&Link>) -> Option<Action> {
    let known = ["down", "up", "blackhole", "restore", "remove-address", "add-address", "set"];
    if !section.has("action") {
        section.missing("action", "\"down\"");
    }
    let change = change(section, link);
    let name = section.choice("action", &known.map(|name| (name, name)))?;
    let given: Vec<_> = keys::CHANGE.into_iter().filter(|key| section.has(key)).collect();
    if name != "set" {
        for key in given {
            let problem = format!("the action `{name}` changes no {key}");
            section.wrong(MistakeKind::Conflict, key, problem, "remove it, or make the action \"set\"");
        }
    } else if given.is_empty() {
        let remedy = format!("give what to set: {}", keys::CHANGE.join(", "));
        section.wrong(MistakeKind::Missing, "action", "`set` without anything to set", remedy);
    }
    Some(match name {
        "down" => Action::Down,
        "up" => Action::Up,
        "blackhole" => Action::Blackhole,
        "restore" => Action::Restore,
        "remove-address" => Action::RemoveAddress,
        "add-address" => Action::AddAddress,
        _ => Action::Set(change),
    })
}

fn change(section: &Section<'_>, link: Option<&Link>) -> Change {
    let change = Change {
        rate_bps: section.rate_bps("rate"),
        delay: section.duration("delay", Duration::ZERO..=LONGEST_DELAY),
        loss: section.fraction("loss"),
        mtu_bytes: section.bytes("mtu", 68..=65_535).map(|bytes| bytes as u32),
        queue: section.queue("queue"),
    };
    let Some(link) = link else { return change };
    if let Some(queue) = change.queue {
        let rate_bps = change.rate_bps.or(link.forward.rate_bps);
        check_queue(section, "queue", queue, rate_bps, change.mtu_bytes.unwrap_or(link.mtu_bytes));
    }
    let has_ipv6 = link.ends.iter().flat_map(|end| &end.addresses).any(|(address, _)| address.is_ipv6());
    if has_ipv6 && change.mtu_bytes.is_some_and(|mtu_bytes| mtu_bytes < SMALLEST_IPV6_MTU_BYTES) {
        let problem = format!(
            "`{}` has IPv6 addresses, which the kernel removes below {SMALLEST_IPV6_MTU_BYTES}",
            link.name
        );
        let remedy = format!("give at least {SMALLEST_IPV6_MTU_BYTES} (RFC 8200)");
        section.wrong(MistakeKind::Conflict, "mtu", problem, remedy);
    }
    change
}
