//! The calls of a supervised program.

use pathbench_supervisor::{LeftOnTcp, SocketActivity};

/// Programs that are named; further ones are one more.
const MOST_PROGRAMS: usize = 64;

#[test]
fn programs_with_many_names_take_bounded_memory() {
    let mut activity = SocketActivity::default();
    for number in 0..1000 {
        activity.left(LeftOnTcp::Landlock, &format!("program-{number}"));
        activity.used_io_uring(&format!("program-{number}"));
    }
    assert_eq!(activity.left_on_tcp.values().sum::<u64>(), 1000);
    assert_eq!(activity.left_on_tcp.len(), MOST_PROGRAMS + 1);
    assert_eq!(activity.io_uring.len(), MOST_PROGRAMS + 1);
}
