//! Into the lab's namespaces: rootless by default, as root where that is refused.

use crate::cli::PrivilegeArgs;
use crate::exit::Failure;
use pathbench_host::kernel::{self, MptcpSupport};
use pathbench_host::namespace::{Isolation, enter_lab};
use pathbench_host::scheduling;
use pathbench_lab::scenario::Plan;
use pathbench_record::transport::Transport;

/// Refuses what this kernel cannot do, before anything is built.
pub(crate) fn require(plan: &Plan) -> Result<(), Failure> {
    let labels = plan.variants.iter().flat_map(|variant| &variant.run.labels);
    if labels.into_iter().any(|label| label.transport == Transport::Mptcp) {
        let support = kernel::mptcp_support();
        if support != MptcpSupport::Available {
            return Err(Failure::host_cannot(format!("scenario `{}` runs mptcp, but {support}", plan.name)));
        }
    }
    Ok(())
}

/// Moves this single-threaded process into the lab's namespaces and says with which privilege.
pub(crate) fn enter(args: PrivilegeArgs) -> Result<String, Failure> {
    let root = rustix::process::geteuid().is_root();
    if args.as_root && !root {
        return Err(Failure::host_cannot(
            "--as-root needs root: run it with sudo, or leave --as-root out to build the lab in a user namespace",
        ));
    }
    let isolation = if args.as_root || (root && kernel::user_namespaces().is_err()) {
        Isolation::Root
    } else {
        Isolation::User
    };
    // Before the namespace, in which even root could not: the thread that carries emulated links is in a hurry.
    scheduling::permit_precedence();
    enter_lab(isolation).map_err(Failure::host_cannot)?;
    Ok(match isolation {
        Isolation::User => "user-namespace",
        Isolation::Root => "root",
    }
    .to_owned())
}
