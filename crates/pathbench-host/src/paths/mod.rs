//! The paths of this host: interfaces with a carrier, an address that lasts and a route. [`HostPaths`] is the one model of
//! them; [`HostNetwork::paths_to`] selects those that lead to a server.

mod changes;
mod kernel_routes;
mod model;
mod network;
mod probed;
mod to_server;

pub use changes::{ChangeFilter, describe_reroute};
pub use kernel_routes::{Departure, KernelRoutes, RouteAnswer, leaves_by};
pub use model::{HostPaths, NetworkPath, PathEvidence};
pub use network::{HostNetwork, LOCAL_TABLE, PathAddress, is_only_exit, leads_beyond};
pub use probed::ProbedPath;
