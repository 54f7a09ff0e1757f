//! One examination of a path: the kernel's path-MTU state before, the probes' results, and the stuck connections.

use pathbench_analysis::path_mtu;
use pathbench_host::path_mtu::{
    HostPath, LiveConnection, PathMtuState, PathObserver, PathStateError, is_stuck,
};
use pathbench_host::paths::ProbedPath;
use pathbench_record::document::{self, ConnectionMtu, DirectionMtu, PathMtu};
use pathbench_traffic::datagram::DatagramError;
use pathbench_traffic::path_mtu::{DirectionFound, NoMtu, PathMtuFound};

#[derive(Debug)]
pub(super) struct Examination {
    pub(super) path: ProbedPath,
    /// Whether no probe has had a result so far.
    pub(super) is_awaited: bool,
    /// The kernel's state before the probes; in a watch, the latest state.
    pub(super) state: Result<PathMtuState, PathStateError>,
    /// The result of the probes, once they have ended.
    pub(super) found: Option<Result<PathMtuFound, DatagramError>>,
    pub(super) connections: Vec<LiveConnection>,
    pub(super) stuck: Vec<LiveConnection>,
}

impl Examination {
    /// Reads the kernel's state, before the first probe.
    pub(super) fn begin(path: ProbedPath, observer: &mut PathObserver) -> Self {
        let state = observer.state(&host_path(&path));
        let connections = state.as_ref().map(|state| state.connections.clone()).unwrap_or_default();
        Self { path, is_awaited: true, state, found: None, connections, stuck: Vec::new() }
    }

    /// Reads the connections again, and finds those that became stuck since the previous call.
    pub(super) fn update_connections(&mut self, observer: &mut PathObserver) {
        // If connections cannot be listed any more, none is known to be stuck.
        let now = observer.connections(&host_path(&self.path)).unwrap_or_default();
        let [mtu_bytes, _] = self.mtu_bytes();
        let before = std::mem::replace(&mut self.connections, now);
        let is_stuck_now = |later: &&LiveConnection| {
            let Some(mtu_bytes) = mtu_bytes else { return false };
            before.iter().any(|earlier| is_stuck(earlier, later, mtu_bytes))
        };
        self.stuck = self.connections.iter().filter(is_stuck_now).cloned().collect();
    }

    /// MTU of both directions, upload and download, if known.
    pub(super) fn mtu_bytes(&self) -> [Option<u32>; 2] {
        let Some(Ok(found)) = &self.found else { return [None; 2] };
        [&found.upload, &found.download].map(|one| one.found.as_ref().ok().map(|found| found.mtu_bytes))
    }

    /// Whether a probe was answered in either direction.
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

    /// The path's record. `applying`: --apply makes the changes, so the record does not advise them.
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
        record.disagreements = path_mtu::disagreements(&record);
        if let Err(error) = &self.state {
            record.disagreements.push(error.to_string());
        }
        record.advice = path_mtu::advice(&record, server, applying);
        record
    }

    fn kernel(&self, state: &PathMtuState) -> document::KernelPathState {
        let route = &state.route;
        let destination = route.destination();
        document::KernelPathState {
            interface_mtu_bytes: state.interface_mtu_bytes,
            rule_priority: state.rule_priority,
            table: state.table(),
            destination: if destination.prefix_len() == 0 {
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

    /// The result of a path in one line.
    pub(super) fn line(&self) -> String {
        let name = &self.path.name;
        let size = |direction: &DirectionFound| match &direction.found {
            Ok(found) => format!("{} bytes", found.mtu_bytes),
            Err(why) => why.to_string(),
        };
        match &self.found {
            None => format!("{name}: not measured"),
            Some(Err(error)) => format!("{name}: {error}"),
            Some(Ok(found)) => {
                let (up, down) = (size(&found.upload), size(&found.download));
                if up == down { format!("{name}: {up}") } else { format!("{name}: up {up}, down {down}") }
            }
        }
    }
}

pub(super) fn host_path(path: &ProbedPath) -> HostPath {
    HostPath { local: path.local, interface: path.interface.clone(), server: path.server.ip() }
}

fn unknown(error: &str) -> (DirectionMtu, DirectionMtu) {
    let none = DirectionMtu { error: Some(error.to_owned()), ..DirectionMtu::default() };
    (none.clone(), none)
}
