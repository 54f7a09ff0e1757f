//! Which packets crossed the links of a path: where they left the sending host, and behind its narrowest hop.

use crate::palette::is_part;
use crate::view::View;
use pathbench_record::document::{LinkRecord, RunLink, RunRecord};
use pathbench_record::event::Direction;
use pathbench_record::sample::Side;
use std::collections::BTreeMap;

/// The packets of one direction of one link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) link: &'a str,
    /// Length of the IP packet → packets.
    pub(crate) sizes: &'a BTreeMap<u32, u64>,
    /// The link's MTU, where it is known.
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

    /// Sizes with their part of the bytes, the largest part first.
    pub(crate) fn by_bytes(&self) -> Vec<(u32, f64)> {
        let all = self.bytes().max(1) as f64;
        let of = |(size, count): (&u32, &u64)| (*size, f64::from(*size) * *count as f64 / all);
        let mut parts: Vec<(u32, f64)> = self.sizes.iter().map(of).collect();
        parts.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        parts
    }
}

/// One direction of a path during a run.
#[derive(Debug, Clone)]
pub(crate) struct Carriage<'a> {
    pub(crate) path: &'a str,
    pub(crate) direction: Direction,
    /// At the sending host.
    pub(crate) sent: Stage<'a>,
    /// Behind the path's narrowest hop, where it has one of its own.
    pub(crate) passed: Option<Stage<'a>>,
}

/// Less of the bytes than this, and a direction carries acknowledgements and nothing else.
const DATA: f64 = 0.1;

/// What each path of a run carried, in the directions in which it carried data; empty where packets were not counted.
pub(crate) fn carriages<'a>(view: &View<'a>, run: &'a RunRecord) -> Vec<Carriage<'a>> {
    let mut counted: Vec<&RunLink> = run.links.iter().filter(|link| link.packet_sizes.is_some()).collect();
    let is_inner = |link: &RunLink| run.links.iter().any(|one| is_part(&link.name, &one.name));
    counted.sort_by_key(|link| view.paths.rank(&link.name));
    let hosts = counted.iter().copied().filter(|link| !is_inner(link));
    hosts.flat_map(|host| of_path(view, run, host, &counted)).collect()
}

fn of_path<'a>(
    view: &View<'a>,
    run: &'a RunRecord,
    host: &'a RunLink,
    counted: &[&'a RunLink],
) -> Vec<Carriage<'a>> {
    let parts: Vec<&'a RunLink> =
        counted.iter().copied().filter(|link| is_part(&link.name, &host.name)).collect();
    let narrowest = parts.iter().copied().min_by_key(|link| mtu_bytes(view, run, link).unwrap_or(u32::MAX));
    // The parts of a path have its orientation.
    let from_client = begins_at_client(view, run, host);
    let of_direction = |direction: Direction| {
        let stage = |link: &'a RunLink| {
            let sizes = link.packet_sizes.as_ref()?;
            let sizes = if (direction == Direction::Upload) == from_client {
                &sizes.forward
            } else {
                &sizes.backward
            };
            Some(Stage { link: &link.name, sizes, mtu_bytes: mtu_bytes(view, run, link) })
        };
        // The server's own link is the one behind the hop, where there is one.
        let first = match direction {
            Direction::Upload => host,
            Direction::Download => parts
                .iter()
                .copied()
                .rfind(|link| narrowest.is_none_or(|hop| hop.name != link.name))
                .unwrap_or(host),
        };
        let sent = stage(first)?;
        Some(Carriage { path: &host.name, direction, sent, passed: narrowest.and_then(stage) })
    };
    let both: Vec<Carriage> =
        [Direction::Upload, Direction::Download].into_iter().filter_map(of_direction).collect();
    let total: u64 = both.iter().map(|one| one.sent.bytes()).fold(0, u64::saturating_add);
    let carries = |one: &Carriage| one.sent.bytes() as f64 > DATA * total as f64;
    both.into_iter().filter(carries).collect()
}

/// Whether forward on a link is the way from the client.
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
