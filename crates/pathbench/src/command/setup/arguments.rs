//! The command line of `setup`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pathbench_check::setup::{Role, SetupOptions};
use pathbench_record::units::Span;
use std::path::PathBuf;

#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct SetupArgs {
    /// Role of this host: a client opens subflows from its addresses, a server announces its addresses
    #[arg(long, value_name = "ROLE", default_value = "client", value_parser = role_parser())]
    pub(crate) role: Role,
    /// An interface to use as a path (repeatable) [default: all that lead out of this host]
    #[arg(long = "path", value_name = "IFACE")]
    pub(crate) interfaces: Vec<String>,
    /// An interface whose subflows are backup (repeatable), besides cellular and metered ones
    #[arg(long, value_name = "IFACE")]
    pub(crate) backup: Vec<String>,
    /// Subflows from every address to every address of the server (endpoint flag fullmesh)
    #[arg(long)]
    pub(crate) fullmesh: bool,
    /// Add endpoints also where their subflows bypass a VPN that takes new connections
    #[arg(long)]
    pub(crate) bypass_vpn: bool,
    /// Make the changes by netlink; without it, print them (needs `CAP_NET_ADMIN`)
    #[arg(long, conflicts_with = "undo")]
    pub(crate) apply: bool,
    /// Undo all changes that `--apply` made since the last `--undo`, and remove the files that `--persist` wrote
    #[arg(long, conflicts_with_all = ["watch", "persist", "json", "interfaces", "backup", "fullmesh", "bypass_vpn"])]
    pub(crate) undo: bool,
    /// Undo also what another program has changed since
    #[arg(long, requires = "undo")]
    pub(crate) force: bool,
    /// Write files that repeat the set-up at every boot, for the program that manages the network here
    #[arg(long)]
    pub(crate) persist: bool,
    /// Follow interfaces as they come and go, and apply or undo their part of the set-up. Ends with Ctrl-C
    #[arg(long, requires = "apply", conflicts_with = "json")]
    pub(crate) watch: bool,
    /// End the watch after this time
    #[arg(long, value_name = "TIME", requires = "watch")]
    pub(crate) duration: Option<Span>,
    /// Undo the changes when the watch ends [default: they stay, until `pathbench setup --undo`]
    #[arg(long, requires = "watch")]
    pub(crate) undo_at_end: bool,
    /// File that records each change before it is made [default: setup-journal-NAMESPACE.jsonl in
    /// /run/pathbench for root, in the user's runtime directory for others]
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// Print the plan as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Directory used instead of / for the files of other programs and of `--persist`
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub(crate) root: PathBuf,
}

fn role_parser() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(["client", "server"])
        .map(|name| if name == "server" { Role::Server } else { Role::Client })
}

impl From<&SetupArgs> for SetupOptions {
    fn from(args: &SetupArgs) -> Self {
        Self {
            role: args.role,
            interfaces: args.interfaces.clone(),
            backup: args.backup.clone(),
            fullmesh: args.fullmesh,
            bypass_vpn: args.bypass_vpn,
            may_be_absent: args.watch,
        }
    }
}
