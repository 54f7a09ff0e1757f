//! Files that repeat a set-up at every boot, in the form of the program that manages the network.
//!
//! A unit of our own runs `pathbench setup --apply`, because neither systemd-networkd nor `NetworkManager` configures
//! limits, and networkd configures no endpoints. Interfaces that networkd manages also get their rules and routes as
//! drop-ins of their .network file, unless other interfaces use it, because networkd removes rules of other programs; interfaces of `NetworkManager` get
//! their endpoint flags in a file of defaults.

use super::host::{Manager, SetupHost};
use super::options::{Role, SetupOptions};
use super::plan::SetupPlan;
use pathbench_host::change::Operation;
use pathbench_host::systemd::quote;
use std::collections::{BTreeMap, BTreeSet};

/// Begins the first line of every file; the checksum of the rest follows.
pub const MARKER: &str = "# Written by pathbench setup --persist, checksum ";
pub const UNIT: &str = "etc/systemd/system/pathbench-setup.service";
/// The link that enables the unit.
pub const UNIT_LINK: &str = "etc/systemd/system/multi-user.target.wants/pathbench-setup.service";
pub const UNIT_TARGET: &str = "../pathbench-setup.service";
pub const NETWORK_MANAGER: &str = "etc/NetworkManager/conf.d/90-pathbench-setup.conf";
/// Directory of .network files, and the name of their drop-ins.
pub const NETWORKD: &str = "etc/systemd/network";
pub const DROP_IN: &str = "90-pathbench-setup.conf";

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistentFile {
    /// Without the leading slash.
    pub path: String,
    pub text: String,
}

/// The files for `plan`, which may be applied already. `program` is the path of pathbench, `networks` the name of the
/// .network file of each interface of networkd, by index.
pub fn files(
    host: &SetupHost,
    options: &SetupOptions,
    plan: &SetupPlan,
    program: &str,
    networks: &BTreeMap<u32, String>,
) -> Vec<PersistentFile> {
    let mut files = vec![marked(UNIT, &unit(options, program))];
    if plan.paths.iter().any(|path| is_of(host, path.index, Manager::NetworkManager)) {
        files.push(marked(NETWORK_MANAGER, &network_manager_defaults(options)));
    }
    for path in plan.paths.iter().filter(|path| is_of(host, path.index, Manager::Networkd)) {
        let Some(network) = networks.get(&path.index) else { continue };
        let sections = networkd_sections(host, plan, path.index);
        // A file that several interfaces use would give each of them the routes of all: there the unit's watch restores
        // rules and routes.
        if !sections.is_empty() && networks.values().filter(|other| *other == network).count() == 1 {
            files.push(marked(&format!("{NETWORKD}/{network}.d/{DROP_IN}"), &sections));
        }
    }
    files
}

fn is_of(host: &SetupHost, index: u32, manager: Manager) -> bool {
    host.managers.get(&index) == Some(&manager)
}

fn marked(path: &str, text: &str) -> PersistentFile {
    PersistentFile { path: path.to_owned(), text: format!("{MARKER}{:016x}\n{text}", checksum(text)) }
}

/// Whether `text` is a file of [`files()`] that no one has changed.
pub fn is_unchanged(text: &str) -> bool {
    let Some((first, rest)) = text.split_once('\n') else { return false };
    first.strip_prefix(MARKER).is_some_and(|sum| sum == format!("{:016x}", checksum(rest)))
}

/// FNV-1a, 64 bits (RFC 9923): detects changes by hand, and is no protection against an adversary.
fn checksum(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn unit(options: &SetupOptions, program: &str) -> String {
    let mut command = vec![quote(program), "setup".to_owned(), "--apply".to_owned()];
    if options.role == Role::Server {
        command.extend(["--role".to_owned(), "server".to_owned()]);
    }
    for (option, names) in [("--path", &options.interfaces), ("--backup", &options.backup)] {
        command.extend(names.iter().flat_map(|name| [option.to_owned(), quote(name)]));
    }
    if options.fullmesh {
        command.push("--fullmesh".to_owned());
    }
    if options.bypass_vpn {
        command.push("--bypass-vpn".to_owned());
    }
    let command = command.join(" ");
    format!(
        "[Unit]\nDescription=MPTCP endpoints, limits, rules and routes by pathbench setup\nAfter=network-online.target\n\
         Wants=network-online.target\n\n[Service]\nType=exec\nExecStart={command} --watch\nRestart=on-failure\nRestartSec=5\n\
         CapabilityBoundingSet=CAP_NET_ADMIN\n\n[Install]\nWantedBy=multi-user.target\n"
    )
}

fn network_manager_defaults(options: &SetupOptions) -> String {
    // NM_MPTCP_FLAGS_* of libnm-core-public/nm-dbus-interface.h: enabled 2, signal 16, subflow 32, fullmesh 128.
    let flags = 2 | match options.role {
        Role::Client => 32 | if options.fullmesh { 128 } else { 0 },
        Role::Server => 16,
    };
    format!("[connection-pathbench-setup]\nconnection.mptcp-flags={flags}\n")
}

/// Rules and routes of an interface (systemd.network(5)), from the plan and from earlier plans.
fn networkd_sections(host: &SetupHost, plan: &SetupPlan, index: u32) -> String {
    let planned = plan.steps.iter().map(|step| &step.change.operation);
    let operations: Vec<&Operation> = host.standing.iter().chain(planned).collect();
    let routes = operations.iter().filter_map(|operation| match operation {
        Operation::AddRoute { route } if route.leaves_only_by(index) => Some(route),
        _ => None,
    });
    let mut sections = BTreeSet::new();
    let mut tables = BTreeSet::new();
    for route in routes {
        tables.insert(route.table());
        let gateway = route.next_hops().first().and_then(|hop| hop.gateway);
        let next_hop = gateway.map_or("Scope=link".to_owned(), |gateway| format!("Gateway={gateway}"));
        let (destination, table) = (route.destination(), route.table());
        sections.insert(format!("[Route]\nDestination={destination}\n{next_hop}\nTable={table}\n"));
    }
    for operation in &operations {
        if let Operation::AddRule { rule } = operation
            && tables.contains(&rule.table)
        {
            sections.insert(format!(
                "[RoutingPolicyRule]\nFrom={}\nTable={}\nPriority={}\n",
                rule.from, rule.table, rule.priority
            ));
        }
    }
    sections.into_iter().collect::<Vec<_>>().join("\n")
}
