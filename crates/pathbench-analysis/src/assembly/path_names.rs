//! The names of paths: of each subflow, the path that its bytes took.

use super::evidence::Evidence;
use crate::attribution::{CarriedBytes, Stray, SubflowPath, SubflowSeen, attribute};
use pathbench_record::direction::Direction;
use pathbench_record::sample::{PathFigures, Side};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// The client's addresses and their links, and the paths of its subflows.
#[derive(Debug)]
pub(super) struct PathNames {
    by_client_address: BTreeMap<IpAddr, String>,
    /// By the client's and the server's end.
    subflows: BTreeMap<(SocketAddr, SocketAddr), SubflowPath>,
    /// By path, what its interface carried.
    pub(super) carried: BTreeMap<String, CarriedBytes>,
    pub(super) strays: Vec<Stray>,
    main: Direction,
}

impl PathNames {
    pub(super) fn new(evidence: &Evidence<'_>) -> Self {
        let setting = evidence.setting;
        let mut names = Self {
            by_client_address: setting
                .named()
                .flat_map(|path| path.addresses.iter().map(|at| (*at, path.name.clone())))
                .collect(),
            subflows: BTreeMap::new(),
            carried: BTreeMap::new(),
            strays: Vec::new(),
            main: evidence.directions().first().copied().unwrap_or(Direction::Upload),
        };
        let name = |interface: &String| {
            setting.path_of_interface(&setting.client, interface).unwrap_or_else(|| interface.clone())
        };
        names.carried = evidence.carried.iter().map(|(interface, bytes)| (name(interface), *bytes)).collect();
        let seen = subflows_of_client(evidence);
        let of = |(client, _): &(SocketAddr, SocketAddr), figures: &PathFigures| SubflowSeen {
            owner: names.name_address(client.ip()),
            left_by: figures.interface.as_ref().map(name),
            received_bytes: figures.bytes_received,
        };
        let subflows: Vec<SubflowSeen> = seen.iter().map(|(ends, figures)| of(ends, figures)).collect();
        let paths = attribute(&subflows, &names.carried);
        for ((client, server), subflow) in seen.keys().zip(&subflows) {
            names.strays.extend(stray(evidence, (client.ip(), server.ip()), subflow));
        }
        names.strays.dedup();
        names.subflows = seen.into_keys().zip(paths).collect();
        names
    }

    pub(super) fn name_address(&self, address: IpAddr) -> String {
        self.by_client_address.get(&address).cloned().unwrap_or_else(|| address.to_string())
    }

    /// The path of a subflow's figures in the run's first direction.
    pub(super) fn name_figures(&self, figures: &PathFigures, side: Side) -> String {
        self.name_in(self.main, figures, side)
    }

    /// The path that the bytes of this direction took; the client's address itself where nothing names it.
    pub(super) fn name_in(&self, direction: Direction, figures: &PathFigures, side: Side) -> String {
        let ends = match side {
            Side::Client => (figures.local, figures.remote),
            Side::Server => (figures.remote, figures.local),
        };
        match self.subflows.get(&ends) {
            Some(path) => of_direction(path, direction).to_owned(),
            None => self.known(ends.0.ip()).unwrap_or_else(|| ends.0.ip().to_string()),
        }
    }

    /// The path of an address, as far as subflows from it are known to have taken one.
    pub(super) fn known(&self, address: IpAddr) -> Option<String> {
        let of_address = self.subflows.iter().find(|((client, _), _)| client.ip() == address);
        let path = of_address.map(|(_, path)| of_direction(path, self.main).to_owned());
        path.or_else(|| self.by_client_address.get(&address).cloned())
    }

    /// Notes about subflows whose bytes no interface of the client received.
    pub(super) fn notes(&self) -> Vec<String> {
        let unknown = self.subflows.iter().filter(|(_, path)| path.is_download_unknown);
        let mut notes: Vec<String> = unknown
            .map(|((client, _), _)| {
                format!(
                    "cannot tell by which path the bytes of the subflow from {} arrived: no interface received so many \
                     bytes; they count for the path of the address",
                    client.ip()
                )
            })
            .collect();
        notes.dedup();
        notes
    }
}

fn of_direction(path: &SubflowPath, direction: Direction) -> &str {
    match direction {
        Direction::Upload => &path.upload,
        Direction::Download => &path.download,
    }
}

/// The client's last figures of each subflow.
fn subflows_of_client(evidence: &Evidence<'_>) -> BTreeMap<(SocketAddr, SocketAddr), PathFigures> {
    let mut seen: BTreeMap<(SocketAddr, SocketAddr), PathFigures> = BTreeMap::new();
    let Some(client) = &evidence.client else { return seen };
    let of_samples = client.samples.iter().map(|sample| &sample.figures);
    let at_the_end = client.streams.iter().flat_map(|stream| &stream.paths);
    for figures in of_samples.chain(at_the_end) {
        let ends = (figures.local, figures.remote);
        // The interface is found when the subflow is established, after its first sample.
        let interface = seen.remove(&ends).and_then(|known| known.interface);
        let interface = interface.or_else(|| figures.interface.clone());
        seen.insert(ends, PathFigures { interface, ..figures.clone() });
    }
    seen
}

/// Only an address of a path to the server belongs there: routers also have addresses on interfaces without one.
fn stray(evidence: &Evidence<'_>, ends: (IpAddr, IpAddr), seen: &SubflowSeen) -> Option<Stray> {
    evidence.setting.path(&seen.owner)?;
    Stray::from_subflow(seen, ends, evidence.setting.mptcp.as_ref())
}
