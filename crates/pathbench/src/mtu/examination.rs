//! All paths at the same time: what the kernel believes, then probes.

use super::path::Path;
use pathbench_record::document::{DirectionMtu, PathMtu};
use pathbench_record::time::Clock;
use pathbench_traffic::path_mtu::{MtuBounds, MtuError, MtuPath, MtuPlan, PathMtuFound, find_mtu};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

/// Probes all paths, a thread each.
pub(super) fn examine(
    paths: &[Path],
    token: Option<&str>,
    clock: &Arc<dyn Clock>,
    stop: &AtomicBool,
) -> Vec<PathMtu> {
    let found: Vec<Result<PathMtuFound, MtuError>> = thread::scope(|scope| {
        let probing: Vec<_> =
            paths.iter().map(|path| scope.spawn(|| find_mtu(&plan(path, token), clock, stop))).collect();
        probing
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    paths.iter().zip(found).map(|(path, found)| record(path, &found)).collect()
}

/// What is asked of the prober.
pub(super) fn plan(path: &Path, token: Option<&str>) -> MtuPlan {
    MtuPlan {
        server: path.server,
        token: token.map(str::to_owned),
        path: MtuPath { interface: Some(path.interface.clone()), local: Some(path.local) },
        bounds: MtuBounds::default(),
    }
}

fn record(path: &Path, found: &Result<PathMtuFound, MtuError>) -> PathMtu {
    let (upload, download) = match found {
        Ok(found) => (found.upload.to_record(), found.download.to_record()),
        Err(error) => {
            let none = DirectionMtu { error: Some(error.to_string()), ..DirectionMtu::default() };
            (none.clone(), none)
        }
    };
    PathMtu {
        name: path.name.clone(),
        interface: path.interface.clone(),
        local: path.local.to_string(),
        remote: path.server.to_string(),
        upload,
        download,
        ..PathMtu::default()
    }
}
