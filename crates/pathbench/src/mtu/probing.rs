//! All paths probed at the same time, a thread each.

use super::examination::{Examination, probe_plan};
use pathbench_record::time::Clock;
use pathbench_record::time::Timestamp;
use pathbench_traffic::path_mtu::MtuPlan;
use pathbench_traffic::path_mtu::{MtuError, MtuNews, PathMtuFound, WatchPace, find_mtu, watch_mtu};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// Probes all paths once; `tell` hears of each as soon as it is known.
pub(super) fn probe_all(
    examinations: &mut [Examination],
    token: Option<&str>,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
    tell: &dyn Fn(&Examination),
) {
    let plans: Vec<MtuPlan> = examinations.iter().map(|one| probe_plan(&one.path, token)).collect();
    thread::scope(|scope| {
        let (sender, found) = channel::<(usize, Result<PathMtuFound, MtuError>)>();
        for (index, plan) in plans.iter().enumerate() {
            let sender = sender.clone();
            // The receiver lives until all senders are gone.
            scope.spawn(move || drop(sender.send((index, find_mtu(plan, clock, stop)))));
        }
        drop(sender);
        for (index, found) in found {
            examinations[index].found = Some(found);
            tell(&examinations[index]);
        }
    });
}

/// What is heard of a path that is watched.
#[derive(Debug)]
pub(super) enum Heard {
    /// News of the path.
    News(Timestamp, MtuNews),
    /// It could not be watched at all.
    Failed(MtuError),
}

/// Watches all paths until `stop` is set, while `listen` hears of each by its index.
pub(super) fn watch_all<R>(
    plans: &[MtuPlan],
    pace: WatchPace,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
    listen: impl FnOnce(&Receiver<(usize, Heard)>) -> R,
) -> R {
    thread::scope(|scope| {
        let (sender, heard) = channel();
        for (index, plan) in plans.iter().enumerate() {
            let sender = sender.clone();
            scope.spawn(move || {
                // Listening ends before watching does.
                let mut sink = |at, news| drop(sender.send((index, Heard::News(at, news))));
                if let Err(error) = watch_mtu(plan, pace, clock, stop, &mut sink) {
                    drop(sender.send((index, Heard::Failed(error))));
                }
            });
        }
        drop(sender);
        listen(&heard)
    })
}
