//! One examination of a path: what the kernel believed before, what the probes found, and which connections are stuck.

use super::diagnosis;
use super::path::Path;
use pathbench_host::path_mtu::{
    HostPath, KernelPathState, LiveConnection, PathObserver, PathStateError, is_stuck,
};
use pathbench_record::document::{ConnectionMtu, DirectionMtu, KernelBelief, PathMtu};
use pathbench_record::time::{Clock, Timestamp};
use pathbench_traffic::datagram::DatagramError;
use pathbench_traffic::path_mtu::{
    MtuBounds, MtuNews, MtuPath, MtuPlan, NoMtu, PathMtuFound, WatchPace, find_mtu, watch_mtu,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// What is known of one path.
#[derive(Debug)]
pub(super) struct Examination {
    pub(super) path: Path,
    /// Before the path was probed; in a watch, at the latest look.
    pub(super) state: Result<KernelPathState, PathStateError>,
    /// What the probes found; nothing yet while they are under way.
    pub(super) found: Option<Result<PathMtuFound, DatagramError>>,
    /// The connections at the latest look.
    pub(super) connections: Vec<LiveConnection>,
    /// Those of them that are stuck.
    pub(super) stuck: Vec<LiveConnection>,
}

impl Examination {
    /// Asks the kernel; nothing is probed yet.
    pub(super) fn begin(path: Path, observer: &mut PathObserver) -> Self {
        let state = observer.state(&host_path(&path));
        let connections = state.as_ref().map(|state| state.connections.clone()).unwrap_or_default();
        Self { path, state, found: None, connections, stuck: Vec::new() }
    }

    /// Looks at the connections once more, and finds those that are stuck since the last look.
    pub(super) fn look_again(&mut self, observer: &mut PathObserver) {
        // Connections that cannot be listed any more are not known to be stuck.
        let now = observer.connections(&host_path(&self.path)).unwrap_or_default();
        let mtu_bytes = self.passes_bytes();
        let before = std::mem::replace(&mut self.connections, now);
        let is_stuck_now = |later: &&LiveConnection| {
            let Some(mtu_bytes) = mtu_bytes else { return false };
            before.iter().any(|earlier| is_stuck(earlier, later, mtu_bytes))
        };
        self.stuck = self.connections.iter().filter(is_stuck_now).cloned().collect();
    }

    /// Asks the kernel once more, in the midst of a watch.
    pub(super) fn ask_again(&mut self, observer: &mut PathObserver) {
        self.state = observer.state(&host_path(&self.path));
    }

    /// What passes from here to the server.
    fn passes_bytes(&self) -> Option<u32> {
        let found = self.found.as_ref()?.as_ref().ok()?;
        found.upload.found.as_ref().ok().map(|found| found.mtu_bytes)
    }

    /// Whether anything passes any way.
    pub(super) fn is_answered(&self) -> bool {
        self.ways().any(|found| found.is_ok())
    }

    /// Whether the server said no.
    pub(super) fn is_refused(&self) -> bool {
        self.ways().any(|found| matches!(found, Err(NoMtu::Refused { .. })))
    }

    fn ways(&self) -> impl Iterator<Item = Result<(), &NoMtu>> {
        let found = self.found.iter().filter_map(|found| found.as_ref().ok());
        found.flat_map(|found| [&found.upload, &found.download].map(|way| way.found.as_ref().map(drop)))
    }

    /// As it stands in the result; `applying` where what is to be put right is put right.
    pub(super) fn record(&self, server: &str, applying: bool) -> PathMtu {
        let (upload, download) = match &self.found {
            Some(Ok(found)) => (found.upload.to_record(), found.download.to_record()),
            Some(Err(error)) => unknown(&error.to_string()),
            None => unknown("stopped before anything was found"),
        };
        let mut record = PathMtu {
            name: self.path.name.clone(),
            interface: self.path.interface.clone(),
            local: self.path.local.to_string(),
            remote: self.path.server.to_string(),
            upload,
            download,
            kernel: self.state.as_ref().ok().map(|state| self.kernel(state)),
            ..PathMtu::default()
        };
        record.disagreements = diagnosis::disagreements(&record);
        if let Err(error) = &self.state {
            record.disagreements.push(error.to_string());
        }
        record.advice = diagnosis::advice(&record, server, applying);
        record
    }

    fn kernel(&self, state: &KernelPathState) -> KernelBelief {
        let route = &state.route;
        let destination = route.destination();
        KernelBelief {
            interface_mtu_bytes: state.interface_mtu_bytes,
            rule_priority: state.rule_priority,
            table: state.table(),
            destination: if destination.is_default() {
                "default".to_owned()
            } else {
                destination.to_string()
            },
            gateway: state.gateway().map(|gateway| gateway.to_string()),
            route_mtu_bytes: route.mtu_bytes(),
            route_mtu_locked: route.is_mtu_locked(),
            cached_mtu_bytes: state.cached.map(|cached| cached.mtu_bytes),
            cached_expires_s: state.cached.map(|cached| cached.expires_in.as_secs_f64()),
            connections: self.connections.iter().map(|one| self.connection(one)).collect(),
        }
    }

    fn connection(&self, one: &LiveConnection) -> ConnectionMtu {
        ConnectionMtu {
            transport: if one.subflow.is_some() { "mptcp" } else { "tcp" }.to_owned(),
            local: one.local.to_string(),
            remote: one.remote.to_string(),
            pmtu_bytes: one.pmtu_bytes,
            mss_bytes: one.mss_bytes,
            backoff: one.backoff,
            stuck: self.stuck.iter().any(|stuck| stuck.is_same_as(one)),
        }
    }
}

/// The path as the kernel is asked of it.
pub(super) fn host_path(path: &Path) -> HostPath {
    HostPath { local: path.local, interface: path.interface.clone(), server: path.server.ip() }
}

/// The path as it is probed.
pub(super) fn probe_plan(path: &Path, token: Option<&str>) -> MtuPlan {
    MtuPlan {
        server: path.server,
        token: token.map(str::to_owned),
        path: MtuPath { interface: Some(path.interface.clone()), local: Some(path.local) },
        bounds: MtuBounds::default(),
    }
}

fn unknown(error: &str) -> (DirectionMtu, DirectionMtu) {
    let none = DirectionMtu { error: Some(error.to_owned()), ..DirectionMtu::default() };
    (none.clone(), none)
}

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
        let (sender, found) = channel::<(usize, Result<PathMtuFound, DatagramError>)>();
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
    Failed(DatagramError),
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
