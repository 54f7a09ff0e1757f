//! Packets on the links of a path: at the sending host, and behind the hop with the smallest MTU.

use crate::result_set::is_part;
use crate::view::View;
use pathbench_record::direction::{Direction, LinkDirection};
use pathbench_record::document::{LinkRecord, RunLink, RunRecord};
use pathbench_record::sample::Side;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) link: &'a str,
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
    /// Behind the hop with the smallest MTU, if the path has hops.
    pub(crate) passed: Option<Stage<'a>>,
}

impl<'a> Carriage<'a> {
    pub(crate) fn stages(&self) -> impl Iterator<Item = Stage<'a>> {
        [self.sent, self.passed].into_iter().flatten()
    }
}

/// A direction that delivers less than this part of the other direction carries mostly acknowledgements.
const DATA: f64 = 0.1;

/// The packets on each path of a run in the directions with data; empty if packets were not counted.
pub(crate) fn carriages<'a>(view: &View<'a>, run: &'a RunRecord) -> Vec<Carriage<'a>> {
    let is_counted = |link: &&RunLink| link.packet_sizes.is_some();
    // Packets of neighbour discovery cross every link, including links without a path of the run.
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
    // The inner links of a path have its orientation.
    let forward = (direction == Direction::Upload) == begins_at_client(view, run, host);
    let stage = |link: &'a RunLink| {
        let sizes = link.packet_sizes.as_ref()?;
        let sizes = if forward { &sizes.forward } else { &sizes.reverse };
        Some(Stage { link: &link.name, sizes, mtu_bytes: mtu_bytes(view, run, link) })
    };
    let parts = || run.links.iter().filter(|link| is_part(&link.name, &host.name));
    let hop = parts().min_by_key(|link| mtu_bytes(view, run, link).unwrap_or(u32::MAX));
    // The server's own link follows the hop.
    let of_server = parts().rfind(|link| hop.is_none_or(|hop| hop.name != link.name));
    let first = match direction {
        Direction::Download if hop.is_some() => of_server,
        _ => Some(host),
    };
    let (sent, passed) = (first.and_then(stage), hop.and_then(stage));
    (sent.is_some() || passed.is_some()).then_some(Carriage { path: &host.name, direction, sent, passed })
}

/// The capacity of a run's paths in one direction, or in all directions with data, in Mbit/s; `None` if unknown.
pub(crate) fn capacity_mbps(view: &View, run: &RunRecord, direction: Option<Direction>) -> Option<f64> {
    let had_data = run.directions.iter().filter(|one| one.delivered_bytes > 0).map(|one| one.direction);
    let wanted = had_data.filter(|one| direction.is_none_or(|wanted| wanted == *one));
    let of_paths = |one| {
        let paths = run.paths.iter().map(move |path| path_capacity_mbps(view, run, &path.name, one));
        paths.sum::<Option<f64>>()
    };
    wanted.map(of_paths).sum::<Option<f64>>().filter(|most| *most > 0.0)
}

fn path_capacity_mbps(view: &View, run: &RunRecord, path: &str, direction: Direction) -> Option<f64> {
    let of_path = |link: &&LinkRecord| link.name == path || is_part(&link.name, path);
    let forward = direction == Direction::Upload;
    let wanted = if forward { LinkDirection::Forward } else { LinkDirection::Reverse };
    let rate_bps = |link: &LinkRecord| {
        let asked = &link.requested;
        let asked = if forward { asked.forward.rate_bps } else { asked.reverse.rate_bps }?;
        let data = view.data(run);
        let samples = || data.links.iter().filter(|one| one.link == link.name && one.direction == wanted);
        if samples().next().is_some() && samples().all(|one| one.rate_bps.is_none()) {
            // A trace controls the link, so the link may briefly carry any rate.
            return Some(u64::MAX);
        }
        let set = data.scenario_events().filter(|one| one.path.as_deref() == Some(&link.name));
        let set = set.filter_map(|one| one.detail.get("rate_bps")?.as_u64());
        samples().filter_map(|one| one.rate_bps).chain(set).chain([asked]).max()
    };
    view.links_of(run).filter(of_path).filter_map(rate_bps).min().map(|bps| bps as f64 / 1e6)
}

fn begins_at_client(view: &View, run: &RunRecord, link: &RunLink) -> bool {
    let data = view.data(run);
    let of_client = data.samples.iter().find(|sample| sample.side == Side::Client);
    let client = of_client.map_or("client", |sample| sample.host.as_str());
    let record = view.set.document.links.iter().find(|one| one.name == link.name);
    record.is_none_or(|one| one.ends[1] != client)
}

fn mtu_bytes(view: &View, run: &RunRecord, link: &RunLink) -> Option<u32> {
    let asked = view.links_of(run).find(|one| one.name == link.name)?.requested.mtu_bytes;
    (asked > 0).then_some(asked)
}
