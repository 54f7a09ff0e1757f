//! Which packets crossed the links of a path: where they left the sending host, and behind its narrowest hop.

use crate::palette::is_part;
use crate::view::View;
use pathbench_record::direction::{Direction, LinkDirection};
use pathbench_record::document::{LinkRecord, RunLink, RunRecord};
use pathbench_record::sample::Side;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) link: &'a str,
    /// Length of the IP packet → packets.
    pub(crate) sizes: &'a BTreeMap<u32, u64>,
    pub(crate) mtu_bytes: Option<u32>,
}

impl Stage<'_> {
    pub(crate) fn packets(&self) -> u64 {
        self.sizes.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    pub(crate) fn bytes(&self) -> u64 {
        let of = |(size, count): (&u32, &u64)| u64::from(*size).saturating_mul(*count);
        self.sizes.iter().map(of).fold(0, u64::saturating_add)
    }

    pub(crate) fn by_bytes(&self) -> Vec<(u32, f64)> {
        let all = self.bytes().max(1) as f64;
        let of = |(size, count): (&u32, &u64)| (*size, f64::from(*size) * *count as f64 / all);
        let mut parts: Vec<(u32, f64)> = self.sizes.iter().map(of).collect();
        parts.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        parts
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Carriage<'a> {
    pub(crate) path: &'a str,
    pub(crate) direction: Direction,
    pub(crate) sent: Option<Stage<'a>>,
    /// Behind the path's narrowest hop, where it has one of its own.
    pub(crate) passed: Option<Stage<'a>>,
}

impl<'a> Carriage<'a> {
    pub(crate) fn stages(&self) -> impl Iterator<Item = Stage<'a>> {
        [self.sent, self.passed].into_iter().flatten()
    }
}

/// A direction with less than this part of what the other one delivered carries acknowledgements and little else.
const DATA: f64 = 0.1;

/// What each path of a run carried, in the directions in which it had data; empty where packets were not counted.
pub(crate) fn carriages<'a>(view: &View<'a>, run: &'a RunRecord) -> Vec<Carriage<'a>> {
    let is_counted = |link: &&RunLink| link.packet_sizes.is_some();
    // Neighbour discovery crosses every link, also those that no path of the run took.
    let is_path = |link: &&RunLink| run.paths.iter().any(|path| path.name == link.name);
    let mut hosts: Vec<&RunLink> = run.links.iter().filter(is_counted).filter(is_path).collect();
    hosts.sort_by_key(|link| view.paths.rank(&link.name));
    let directions = directions(run);
    let of_host = |host| directions.iter().filter_map(move |one| of_path(view, run, host, *one));
    hosts.into_iter().flat_map(of_host).collect()
}

fn directions(run: &RunRecord) -> Vec<Direction> {
    let most = run.directions.iter().map(|one| one.delivered_bytes).max().unwrap_or(0);
    let has_data = |delivered: u64| delivered as f64 >= DATA * most as f64;
    let found = run.directions.iter().filter(|one| has_data(one.delivered_bytes)).map(|one| one.direction);
    found.collect()
}

fn of_path<'a>(
    view: &View<'a>,
    run: &'a RunRecord,
    host: &'a RunLink,
    direction: Direction,
) -> Option<Carriage<'a>> {
    // The parts of a path have its orientation.
    let forward = (direction == Direction::Upload) == begins_at_client(view, run, host);
    let stage = |link: &'a RunLink| {
        let sizes = link.packet_sizes.as_ref()?;
        let sizes = if forward { &sizes.forward } else { &sizes.reverse };
        Some(Stage { link: &link.name, sizes, mtu_bytes: mtu_bytes(view, run, link) })
    };
    let parts = || run.links.iter().filter(|link| is_part(&link.name, &host.name));
    let hop = parts().min_by_key(|link| mtu_bytes(view, run, link).unwrap_or(u32::MAX));
    // Behind the hop there is the server's own link.
    let of_server = parts().rfind(|link| hop.is_none_or(|hop| hop.name != link.name));
    let first = match direction {
        Direction::Download if hop.is_some() => of_server,
        _ => Some(host),
    };
    let (sent, passed) = (first.and_then(stage), hop.and_then(stage));
    (sent.is_some() || passed.is_some()).then_some(Carriage { path: &host.name, direction, sent, passed })
}

/// What the links of a run's paths carry at most in a direction, or in all that had data, in Mbit/s; `None` where that is
/// not known.
pub(crate) fn capacity_mbps(view: &View, run: &RunRecord, direction: Option<Direction>) -> Option<f64> {
    let had_data = run.directions.iter().filter(|one| one.delivered_bytes > 0).map(|one| one.direction);
    let wanted = had_data.filter(|one| direction.is_none_or(|wanted| wanted == *one));
    let of_paths = |one| {
        let paths = run.paths.iter().map(move |path| path_capacity_mbps(view, run, &path.name, one));
        paths.sum::<Option<f64>>()
    };
    wanted.map(of_paths).sum::<Option<f64>>().filter(|most| *most > 0.0)
}

/// The same of one path: its slowest link, at the highest rate that link had.
fn path_capacity_mbps(view: &View, run: &RunRecord, path: &str, direction: Direction) -> Option<f64> {
    let of_run =
        |link: &&LinkRecord| link.variant.iter().all(|(key, value)| run.variant.get(key) == Some(value));
    let of_path = |link: &&LinkRecord| link.name == path || is_part(&link.name, path);
    let forward = direction == Direction::Upload;
    let wanted = if forward { LinkDirection::Forward } else { LinkDirection::Reverse };
    let rate_bps = |link: &LinkRecord| {
        let asked = &link.requested;
        let asked = if forward { asked.forward.rate_bps } else { asked.reverse.rate_bps }?;
        let data = view.data(run);
        let samples = || data.links.iter().filter(|one| one.link == link.name && one.direction == wanted);
        if samples().next().is_some() && samples().all(|one| one.rate_bps.is_none()) {
            // A trace drives it, and for a moment it can carry any rate.
            return Some(u64::MAX);
        }
        let set = data.scenario_events().filter(|one| one.path.as_deref() == Some(&link.name));
        let set = set.filter_map(|one| one.detail.get("rate_bps")?.as_u64());
        samples().filter_map(|one| one.rate_bps).chain(set).chain([asked]).max()
    };
    let links = view.set.document.links.iter().filter(of_run).filter(of_path);
    links.filter_map(rate_bps).min().map(|bps| bps as f64 / 1e6)
}

fn begins_at_client(view: &View, run: &RunRecord, link: &RunLink) -> bool {
    let of_client = view.data(run).samples.iter().find(|sample| sample.side == Side::Client);
    let client = of_client.map_or("client", |sample| sample.host.as_str());
    let record = view.set.document.links.iter().find(|one| one.name == link.name);
    record.is_none_or(|one| one.ends[1] != client)
}

fn mtu_bytes(view: &View, run: &RunRecord, link: &RunLink) -> Option<u32> {
    let of_link = |one: &&LinkRecord| {
        one.name == link.name && one.variant.iter().all(|(key, value)| run.variant.get(key) == Some(value))
    };
    view.set.document.links.iter().find(of_link).map(|one| one.requested.mtu_bytes).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_ranked_by_their_bytes() {
        let sizes = BTreeMap::from([(52, 1000), (1500, 100), (9000, 1)]);
        let stage = Stage { link: "wlan", sizes: &sizes, mtu_bytes: None };
        assert_eq!((stage.packets(), stage.bytes()), (1101, 211_000));
        let ranked: Vec<u32> = stage.by_bytes().into_iter().map(|(size, _)| size).collect();
        assert_eq!(ranked, [1500, 52, 9000]);
    }
}
