//! Plans of an MPTCP set-up: endpoints, limits, policy rules with their tables, and settings.
//!
//! [`plan()`] compares the state of a host with the state that multipath requires, and returns the missing operations
//! with their reasons. A plan only adds: it neither changes nor removes an object of another program, and a host that
//! already is as planned yields no operation. `pathbench-host` applies the operations and undoes them.

mod endpoints;
mod host;
mod options;
mod paths;
pub mod persistence;
mod plan;
mod routing;
mod settings;

pub use host::{Manager, Medium, SetupHost};
pub use options::{Role, SetupOptions};
pub use pathbench_host::paths::PathAddress;
pub use paths::{PathSelection, SetupPath, Withheld};
pub use plan::{SetupPlan, SetupStep};

use pathbench_host::change::Operation;
use plan::Draft;
use std::net::IpAddr;

/// The operations that `host` lacks for multipath.
/// Errors: each mistake in `options`, and the missing kernel feature.
pub fn plan(host: &SetupHost, options: &SetupOptions) -> Result<SetupPlan, Vec<String>> {
    let PathSelection { paths, notes, withheld } = paths::select(host, options)?;
    // In one subnet, the server's answers to each address leave by the interface that the server's address has, so that
    // each path needs a subflow between the addresses of its own link.
    let fullmesh = options.fullmesh || paths.iter().any(|path| paths::shared_subnet(path, &paths).is_some());
    let mut draft = Draft { host, options, fullmesh, names: host.names(), plan: SetupPlan::default() };
    draft.plan.notes = notes;
    draft.plan.withheld = withheld;
    draft.enable();
    draft.ignore_dead_routes();
    draft.route(&paths);
    draft.filter(&paths);
    draft.resolve_addresses(&paths);
    draft.raise_limits(&paths);
    draft.announce(&paths);
    draft.plan.paths = paths;
    Ok(draft.plan)
}

/// Whether `operation`, which an earlier plan made, belongs to an interface that is down or to an address that the host
/// no longer has.
pub fn is_outdated(operation: &Operation, host: &SetupHost) -> bool {
    let is_up = |index: u32| host.links.iter().any(|link| link.index == index && link.up);
    let has = |address: IpAddr| {
        let mut addresses = host.addresses.iter();
        addresses.any(|known| known.network.addr() == address && is_up(known.index))
    };
    match operation {
        Operation::AddEndpoint { endpoint } | Operation::ChangeEndpoint { before: endpoint, .. } => {
            !has(endpoint.address)
        }
        Operation::AddRule { rule } => !has(rule.from.addr()),
        Operation::AddRoute { route } => route.next_hops().iter().any(|hop| !is_up(hop.interface)),
        _ => false,
    }
}
