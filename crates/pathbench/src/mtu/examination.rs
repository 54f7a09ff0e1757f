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
    MtuBounds, MtuEvent, MtuPath, MtuPlan, NoMtu, PathMtuFound, WatchPace, find_mtu, watch_mtu,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

#[derive(Debug)]
pub(super) struct Examination {
    pub(super) path: Path,
    /// The kernel's state before the probes; in a watch, the latest state.
    pub(super) state: Result<KernelPathState, PathStateError>,
    /// The result of the probes, once they have ended.
    pub(super) found: Option<Result<PathMtuFound, DatagramError>>,
    pub(super) connections: Vec<LiveConnection>,
    pub(super) stuck: Vec<LiveConnection>,
}

impl Examination {
    /// Reads the kernel's state, before the first probe.
    pub(super) fn begin(path: Path, observer: &mut PathObserver) -> Self {
        let state = observer.state(&host_path(&path));
        let connections = state.as_ref().map(|state| state.connections.clone()).unwrap_or_default();
        Self { path, state, found: None, connections, stuck: Vec::new() }
    }

    /// Reads the connections again, and finds those that are stuck since the last time.
    pub(super) fn update_connections(&mut self, observer: &mut PathObserver) {
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

    pub(super) fn update_state(&mut self, observer: &mut PathObserver) {
        self.state = observer.state(&host_path(&self.path));
    }

    /// MTU from this host to the server.
    fn passes_bytes(&self) -> Option<u32> {
        let found = self.found.as_ref()?.as_ref().ok()?;
        found.upload.found.as_ref().ok().map(|found| found.mtu_bytes)
    }

    /// Whether a probe was answered in any direction.
    pub(super) fn is_answered(&self) -> bool {
        self.directions().any(|found| found.is_ok())
    }

    pub(super) fn is_refused(&self) -> bool {
        self.directions().any(|found| matches!(found, Err(NoMtu::Refused { .. })))
    }

    fn directions(&self) -> impl Iterator<Item = Result<(), &NoMtu>> {
        let found = self.found.iter().filter_map(|found| found.as_ref().ok());
        found.flat_map(|found| [&found.upload, &found.download].map(|one| one.found.as_ref().map(drop)))
    }

    /// The path's record; `applying`: --apply makes the changes, so that the record does not advise them.
    pub(super) fn record(&self, server: &str, applying: bool) -> PathMtu {
        let (upload, download) = match &self.found {
            Some(Ok(found)) => (found.upload.to_record(), found.download.to_record()),
            Some(Err(error)) => unknown(&error.to_string()),
            None => unknown("stopped before anything was measured"),
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

pub(super) fn host_path(path: &Path) -> HostPath {
    HostPath { local: path.local, interface: path.interface.clone(), server: path.server.ip() }
}

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

/// Probes all paths once; `report` gets each as it ends.
pub(super) fn probe_all(
    examinations: &mut [Examination],
    token: Option<&str>,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
    report: &dyn Fn(&Examination),
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
            report(&examinations[index]);
        }
    });
}

#[derive(Debug)]
pub(super) enum WatchEvent {
    News(Timestamp, MtuEvent),
    Failed(DatagramError),
}

/// Watches all paths until `stop` is set, while `receive` gets their events by the index of the path.
pub(super) fn watch_all<R>(
    plans: &[MtuPlan],
    pace: WatchPace,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
    receive: impl FnOnce(&Receiver<(usize, WatchEvent)>) -> R,
) -> R {
    thread::scope(|scope| {
        let (sender, events) = channel();
        for (index, plan) in plans.iter().enumerate() {
            let sender = sender.clone();
            scope.spawn(move || {
                // The receiver may end before the watch does.
                let mut sink = |at, news| drop(sender.send((index, WatchEvent::News(at, news))));
                if let Err(error) = watch_mtu(plan, pace, clock, stop, &mut sink) {
                    drop(sender.send((index, WatchEvent::Failed(error))));
                }
            });
        }
        drop(sender);
        receive(&events)
    })
}
