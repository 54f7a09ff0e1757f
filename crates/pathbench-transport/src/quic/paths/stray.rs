//! Whose way a path's packets really took.
//!
//! What a detour sends and receives by the way of another path counts with the library as the path's own. To whoever
//! reads the figures it is the other's: nothing gets through on the path itself.

use super::{KnownPath, Paths};
use noq_proto::{Connection, PathId, PathStats};

/// A path whose packets take another way until it is closed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stray {
    /// Its figures when that began.
    own: PathStats,
    /// The path whose way they take.
    by: PathId,
}

impl Paths {
    /// Remembers that packets of `path` take the way of `by` from now on.
    pub(super) fn stray(&mut self, path: PathId, by: PathId, inner: &mut Connection) {
        let Some(own) = inner.path_stats(path) else { return };
        if let Some(known) = self.known.get_mut(&path) {
            known.stray.get_or_insert(Stray { own, by });
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

/// Gives what strayed to the paths whose way it took.
pub(super) fn attribute(figures: &mut [(PathId, KnownPath, PathStats)]) {
    let mut moved: Vec<(PathId, PathStats, PathStats)> = Vec::new();
    for (_, known, stats) in figures.iter_mut() {
        let Some(Stray { own, by }) = known.stray else { continue };
        moved.push((by, *stats, own));
        (stats.udp_tx, stats.udp_rx) = (own.udp_tx, own.udp_rx);
        (stats.frame_tx, stats.frame_rx) = (own.frame_tx, own.frame_rx);
    }
    for (by, all, own) in moved {
        let Some((.., stats)) = figures.iter_mut().find(|(id, ..)| *id == by) else { continue };
        for (to, all, own) in [
            (&mut stats.udp_tx.datagrams, all.udp_tx.datagrams, own.udp_tx.datagrams),
            (&mut stats.udp_tx.bytes, all.udp_tx.bytes, own.udp_tx.bytes),
            (&mut stats.udp_rx.datagrams, all.udp_rx.datagrams, own.udp_rx.datagrams),
            (&mut stats.udp_rx.bytes, all.udp_rx.bytes, own.udp_rx.bytes),
            (&mut stats.frame_tx.stream, all.frame_tx.stream, own.frame_tx.stream),
            (&mut stats.frame_rx.stream, all.frame_rx.stream, own.frame_rx.stream),
        ] {
            *to += all.saturating_sub(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::sample::PathState;

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
    }
}
