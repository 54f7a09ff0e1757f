//! The sums of closed paths' counters.

use pathbench_mpquic::ClosedPaths;
use pathbench_record::sample::{PathFigures, PathState};

fn path(host: u16, port: u16, bytes_received: u64) -> PathFigures {
    let [high, low] = host.to_be_bytes();
    PathFigures {
        state: PathState::Closed,
        bytes_received,
        lost_bytes: Some(1),
        ..PathFigures::new(([10, 0, 0, 1], 443).into(), ([10, 1, high, low], port).into())
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
    assert_eq!(sums.len(), 16);
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
