//! The sums of closed paths' counters, within a bound that no peer moves.

use pathbench_record::sample::PathFigures;
use std::net::{IpAddr, SocketAddr};

/// Closed paths of a connection whose last figures are kept one by one; those before them are summed up.
pub const KEPT_CLOSED_PATHS: usize = 32;

/// Sums, one per pair of addresses; what exceeds them is summed up under the unspecified address.
const MOST_SUMS: usize = 16;

/// What all closed paths carried that are no longer kept one by one. No byte is lost, however many there were.
#[derive(Debug, Clone, Default)]
pub struct ClosedPaths {
    sums: Vec<PathFigures>,
}

impl ClosedPaths {
    /// Adds a path that is not kept by itself any longer.
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
            // One family for all, so that there is one such sum.
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

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::sample::PathState;

    fn path(host: u16, port: u16, bytes_received: u64) -> PathFigures {
        let [high, low] = host.to_be_bytes();
        PathFigures {
            state: PathState::Closed,
            bytes_received,
            lost_bytes: Some(1),
            ..PathFigures::between(([10, 0, 0, 1], 443).into(), ([10, 1, high, low], port).into())
        }
    }

    #[test]
    fn the_sums_stay_few_and_lose_no_byte() {
        let mut closed = ClosedPaths::default();
        let mut expected = 0;
        for number in 0..5000_u16 {
            closed.add(path(number % 100, number, u64::from(number)));
            expected += u64::from(number);
        }
        let sums = closed.sums();
        assert_eq!(sums.len(), MOST_SUMS);
        assert_eq!(sums.iter().map(|sum| sum.bytes_received).sum::<u64>(), expected);
        assert_eq!(sums.iter().map(|sum| sum.lost_bytes.unwrap()).sum::<u64>(), 5000);
        assert_eq!(sums.iter().map(|sum| sum.closed_paths.unwrap()).sum::<u32>(), 5000);
        let rest = sums.last().unwrap();
        assert!(rest.remote.ip().is_unspecified() && !sums[0].remote.ip().is_unspecified());
    }

    #[test]
    fn paths_between_the_same_hosts_are_one_sum() {
        let mut closed = ClosedPaths::default();
        closed.add(path(1, 1000, 5));
        assert_eq!(closed.sums(), [path(1, 1000, 5)], "of one path there is nothing to sum up");
        closed.add(path(1, 1001, 7));
        let [sum] = closed.sums() else { panic!("{closed:?}") };
        assert_eq!((sum.bytes_received, sum.closed_paths), (12, Some(2)));
    }
}
