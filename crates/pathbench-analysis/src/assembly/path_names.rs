//! The names of paths, by the client's addresses.

use pathbench_record::network::ClientPath;
use pathbench_record::sample::{PathFigures, Side};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The client's addresses and their links. In a lab the client's address determines the path.
#[derive(Debug)]
pub(super) struct PathNames {
    by_client_address: BTreeMap<IpAddr, String>,
}

impl PathNames {
    pub(super) fn new<'a>(paths: impl Iterator<Item = &'a ClientPath>) -> Self {
        let addresses =
            |path: &ClientPath| path.addresses.iter().map(|&at| (at, path.name.clone())).collect::<Vec<_>>();
        Self { by_client_address: paths.flat_map(addresses).collect() }
    }

    /// The path of a subflow with this client address; the address itself where no link has it.
    pub(super) fn name_client_address(&self, address: IpAddr) -> String {
        self.by_client_address.get(&address).cloned().unwrap_or_else(|| address.to_string())
    }

    pub(super) fn name_figures(&self, figures: &PathFigures, side: Side) -> String {
        self.name_client_address(client_end(figures, side))
    }

    pub(super) fn known(&self, address: IpAddr) -> Option<&String> {
        self.by_client_address.get(&address)
    }
}

fn client_end(figures: &PathFigures, side: Side) -> IpAddr {
    match side {
        Side::Client => figures.local.ip(),
        Side::Server => figures.remote.ip(),
    }
}
