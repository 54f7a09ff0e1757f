//! The sums of closed paths' counters, in bounded memory: the peer cannot raise the bound.

use pathbench_record::sample::PathFigures;
use std::net::{IpAddr, SocketAddr};

/// Closed paths of a connection that keep figures of their own; the figures of earlier closed paths are summed up.
pub const KEPT_CLOSED_PATHS: usize = 32;

/// Sums, one per pair of addresses. Paths of further pairs are summed up under the unspecified address.
const MOST_SUMS: usize = 16;

/// The summed counters of the closed paths that no longer have figures of their own. Every byte is counted.
#[derive(Debug, Clone, Default)]
pub struct ClosedPaths {
    sums: Vec<PathFigures>,
}

impl ClosedPaths {
    /// Adds a path that no longer has figures of its own.
    pub fn add(&mut self, mut path: PathFigures) {
        let is_known =
            |sums: &[PathFigures], path: &PathFigures| sums.iter().any(|sum| hosts(sum) == hosts(path));
        if !is_known(&self.sums, &path) && self.sums.len() + 1 >= MOST_SUMS {
            let unspecified = |address: SocketAddr| {
                SocketAddr::from(match address.ip() {
                    IpAddr::V4(_) => (IpAddr::from([0; 4]), 0),
                    IpAddr::V6(_) => (IpAddr::from([0_u16; 8]), 0),
                })
            };
            // One address family for all, so that there is only one sum of this kind.
            let address = self.sums.first().map_or(path.local, |sum| sum.local);
            (path.local, path.remote) = (unspecified(address), unspecified(address));
        }
        match self.sums.iter_mut().find(|sum| hosts(sum) == hosts(&path)) {
            Some(sum) => sum.add_closed(&path),
            None => self.sums.push(path),
        }
    }

    /// The sums, in the order in which their first paths were added.
    pub fn sums(&self) -> &[PathFigures] {
        &self.sums
    }
}

fn hosts(figures: &PathFigures) -> (IpAddr, IpAddr) {
    (figures.local.ip(), figures.remote.ip())
}
