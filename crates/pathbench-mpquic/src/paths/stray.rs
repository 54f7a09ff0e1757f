//! Whose way a path's packets really took.
//!
//! What a detour sends and receives by the way of another path counts with the library as the path's own. To whoever
//! reads the figures it is the other's: nothing gets through on the path itself.

use super::{KnownPath, Paths};
use noq_proto::{Connection, PathId, PathStats};
use std::collections::BTreeMap;

/// A path whose packets take another way until it is closed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stray {
    own: PathStats,
    by: PathId,
}

impl Paths {
    /// Remembers that packets of `path` take the way of `by` from now on.
    pub(super) fn stray(&mut self, path: PathId, by: PathId, inner: &mut Connection) {
        let Some(own) = inner.path_stats(path) else { return };
        if let Some(known) = self.known.get_mut(&path) {
            known.stray.get_or_insert(Stray { own, by });
            self.meter.divert(path, by);
        }
    }

    /// Sees whether packets of a path come from the far end of another: the peer sends them on a detour.
    pub(super) fn note_strays(&mut self, inner: &mut Connection) {
        for path in inner.paths() {
            let Ok(way) = inner.network_path(path) else { continue };
            let (now, known) = (way.remote().ip().to_canonical(), self.known.get(&path));
            let Some(named) = known.filter(|known| known.named && known.stray.is_none()) else { continue };
            if named.remote.ip().to_canonical() == now {
                continue;
            }
            // An address of no other path is a new one of the peer's, and the way still this path's.
            let other = self.known.iter().find(|(id, other)| {
                **id != path && other.remote.ip().to_canonical() == now && other.stray.is_none()
            });
            if let Some(by) = other.map(|(id, _)| *id) {
                self.stray(path, by, inner);
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Carried {
    sent_datagrams: u64,
    sent_bytes: u64,
    received_datagrams: u64,
    received_bytes: u64,
}

impl Carried {
    fn between(own: &PathStats, all: &PathStats) -> Self {
        Self {
            sent_datagrams: all.udp_tx.datagrams.saturating_sub(own.udp_tx.datagrams),
            sent_bytes: all.udp_tx.bytes.saturating_sub(own.udp_tx.bytes),
            received_datagrams: all.udp_rx.datagrams.saturating_sub(own.udp_rx.datagrams),
            received_bytes: all.udp_rx.bytes.saturating_sub(own.udp_rx.bytes),
        }
    }

    /// Takes the stray part out of the figures of `known` and returns it.
    fn take(known: &KnownPath, stats: &mut PathStats) -> Self {
        let Some(Stray { own, .. }) = known.stray else { return Self::default() };
        let stray = Self::between(&own, stats);
        (stats.udp_tx, stats.udp_rx) = (own.udp_tx, own.udp_rx);
        stray
    }

    fn add_to(self, stats: &mut PathStats) {
        stats.udp_tx.datagrams += self.sent_datagrams;
        stats.udp_tx.bytes += self.sent_bytes;
        stats.udp_rx.datagrams += self.received_datagrams;
        stats.udp_rx.bytes += self.received_bytes;
    }
}

/// Gives what strayed to the paths whose route it took, as long as those are known.
pub(super) fn attribute(figures: &mut [(PathId, KnownPath, PathStats)]) {
    let mut moved: Vec<(PathId, Carried)> = Vec::new();
    let known: Vec<PathId> = figures.iter().map(|(id, ..)| *id).collect();
    for (_, path, stats) in figures.iter_mut() {
        if let Some(by) = path.stray.map(|stray| stray.by).filter(|by| known.contains(by)) {
            moved.push((by, Carried::take(path, stats)));
        }
        path.carried.add_to(stats);
    }
    for (by, carried) in moved {
        if let Some((.., stats)) = figures.iter_mut().find(|(id, ..)| *id == by) {
            carried.add_to(stats);
        }
    }
}

/// The last figures of a path that is not kept any longer: what strayed from it stays with the path whose route it took.
pub(super) fn settle(paths: &mut BTreeMap<PathId, KnownPath>, gone: &KnownPath) -> PathStats {
    let mut stats = gone.last.unwrap_or_default();
    if let Some(by) = gone.stray.and_then(|stray| paths.get_mut(&stray.by)) {
        let mut carried = PathStats::default();
        by.carried.add_to(&mut carried);
        Carried::take(gone, &mut stats).add_to(&mut carried);
        by.carried = Carried::between(&PathStats::default(), &carried);
    }
    gone.carried.add_to(&mut stats);
    stats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Activity;
    use pathbench_record::sample::PathState;
    use pathbench_record::time::Timestamp;

    fn stats(sent: u64, received: u64) -> PathStats {
        let mut stats = PathStats::default();
        (stats.udp_tx.datagrams, stats.udp_rx.datagrams) = (sent, received);
        (stats.udp_tx.bytes, stats.udp_rx.bytes) = (sent * 1000, received * 1000);
        stats
    }

    #[test]
    fn what_took_another_way_is_the_other_paths() {
        let known = |stray| KnownPath {
            local: ([10, 0, 0, 1], 1).into(),
            remote: ([10, 0, 0, 2], 1).into(),
            state: PathState::Open,
            backup: false,
            named: true,
            last: None,
            black_holes: 0,
            stray,
            carried: Carried::default(),
            activity: Activity::at(Timestamp::default()),
        };
        let (dead, other) = (PathId::from(0_u32), PathId::from(1_u32));
        let stray = Stray { own: stats(260, 213), by: other };
        let mut figures =
            vec![(dead, known(Some(stray)), stats(265, 229)), (other, known(None), stats(145, 75))];
        attribute(&mut figures);
        let found: Vec<_> = figures
            .iter()
            .map(|(.., stats)| (stats.udp_tx.datagrams, stats.udp_rx.datagrams, stats.udp_rx.bytes))
            .collect();
        assert_eq!(found, [(260, 213, 213_000), (150, 91, 91_000)], "nothing is lost, nothing counted twice");

        // The same when the dead path is no longer kept, and when the other one is not.
        let gone = KnownPath { last: Some(stats(265, 229)), ..known(Some(stray)) };
        let mut kept = BTreeMap::from([(other, known(None))]);
        assert_eq!(settle(&mut kept, &gone).udp_tx.datagrams, 260);
        let mut figures = vec![(other, kept[&other], stats(145, 75))];
        attribute(&mut figures);
        assert_eq!((figures[0].2.udp_tx.datagrams, figures[0].2.udp_rx.datagrams), (150, 91));
        assert_eq!(settle(&mut BTreeMap::new(), &gone).udp_tx.datagrams, 265);
    }
}
