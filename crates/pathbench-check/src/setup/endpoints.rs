//! MPTCP endpoints and limits.

use super::host::Manager;
use super::options::Role;
use super::paths::{SetupPath, has_router};
use super::plan::Draft;
use crate::manager::{Connection, has_endpoints, mptcpd_steps};
use pathbench_host::change::Operation;
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint, MptcpLimits};
use pathbench_record::mptcp::MOST_ENDPOINTS as MOST;
use pathbench_record::mptcp::command::{change_endpoint, delete_endpoint};
use pathbench_record::mptcp::remedy::{NeededEndpoint, PathManagerState};
use std::net::IpAddr;

impl Draft<'_> {
    pub(super) fn raise_limits(&mut self, paths: &[SetupPath]) {
        let Some(before) = self.host.limits else { return };
        if self.host.has_mptcpd {
            return;
        }
        let addresses: usize = paths.iter().map(|path| path.addresses.len()).sum();
        let bounded = |number: usize| number.min(MOST) as u32;
        let (subflows, accepted) = match self.options.role {
            Role::Server => (MOST as u32, 0),
            Role::Client if self.fullmesh => (MOST as u32, bounded(addresses)),
            // Each address may open a subflow, and so may each announced address of the server.
            Role::Client => (bounded(2 * addresses), bounded(addresses)),
        };
        let after = before.raised_to(MptcpLimits { subflows, add_addr_accepted: accepted });
        if after != before {
            let reason = match self.options.role {
                Role::Client => {
                    "a connection may open a subflow from each address and to each announced address"
                }
                Role::Server => "the host accepts additional subflows of clients",
            };
            self.step(reason.to_owned(), Operation::SetLimits { before, after });
        }
    }

    /// Adds the endpoints that are missing.
    pub(super) fn announce(&mut self, paths: &[SetupPath]) {
        if self.host.limits.is_none() {
            return;
        }
        self.note_absent();
        if self.host.has_mptcpd {
            self.leave_to_mptcpd(paths);
            return;
        }
        // The kernel assigns ids to endpoints without one: they come last, so that they take no planned id.
        for replaces_implicit in [false, true] {
            for path in paths {
                for at in &path.addresses {
                    self.announce_address(at.address, path, replaces_implicit);
                }
            }
        }
    }

    fn announce_address(&mut self, address: IpAddr, path: &SetupPath, replaces_implicit: bool) {
        let flags = self.flags(path);
        let there =
            self.host.endpoints.iter().find(|one| one.address == address && one.port.is_none()).copied();
        if there.is_some_and(|there| there.flags.implicit) != replaces_implicit {
            return;
        }
        match there {
            Some(there) if !there.flags.implicit => self.adjust(there, flags, path),
            _ => self.add(address, flags, path, replaces_implicit),
        }
    }

    fn flags(&self, path: &SetupPath) -> EndpointFlags {
        match self.options.role {
            Role::Client => EndpointFlags {
                subflow: true,
                backup: path.backup,
                fullmesh: self.fullmesh,
                laminar: self.host.has_laminar && !self.fullmesh,
                ..EndpointFlags::default()
            },
            Role::Server => EndpointFlags { signal: true, backup: path.backup, ..EndpointFlags::default() },
        }
    }

    /// An endpoint of an earlier plan gets the flags; an endpoint of another program stays.
    fn adjust(&mut self, there: MptcpEndpoint, flags: EndpointFlags, path: &SetupPath) {
        let changeable = EndpointFlags { backup: flags.backup, fullmesh: flags.fullmesh, ..there.flags };
        let suits = match self.options.role {
            Role::Client => there.flags.subflow,
            Role::Server => there.flags.signal,
        };
        let is_own = self.host.standing.iter().any(|operation| {
            matches!(operation, Operation::AddEndpoint { endpoint }
                if endpoint.address == there.address && endpoint.port == there.port)
        });
        if is_own && suits && changeable != there.flags {
            let reason = format!("the flags of {} are as asked for", path.interface);
            // The kernel refuses `fullmesh` together with `signal`.
            let after = EndpointFlags { fullmesh: flags.fullmesh && !there.flags.signal, ..changeable };
            if after != there.flags {
                self.step(reason, Operation::ChangeEndpoint { before: there, after });
            }
        } else if !suits {
            let wanted = if self.options.role == Role::Client { "subflow" } else { "signal" };
            let lacks =
                format!("MPTCP endpoint {there} lacks the flag {wanted}, which the kernel cannot change");
            self.note(if is_own {
                format!("{lacks}, and belongs to an earlier plan: pathbench setup --undo removes it.")
            } else {
                format!(
                    "{lacks}, and belongs to another program{}",
                    self.replacement(there.address, flags, path)
                )
            });
        } else if flags.fullmesh && !there.flags.fullmesh && !there.flags.signal && !self.options.fullmesh {
            let after = EndpointFlags { fullmesh: true, ..there.flags };
            self.note(format!(
                "MPTCP endpoint {there} of another program has no flag fullmesh, which several interfaces in one subnet need: {}",
                self.change(&there, after, path)
            ));
        } else if path.backup && !there.flags.backup {
            let after = EndpointFlags { backup: true, ..there.flags };
            self.note(format!(
                "MPTCP endpoint {there} of another program is no backup, although {} is metered or named as backup; to \
                 change it: {}",
                path.interface,
                self.change(&there, after, path)
            ));
        }
    }

    /// The end of a sentence with the commands that give the endpoint of `address` these flags beside its own.
    fn replacement(&self, address: IpAddr, flags: EndpointFlags, path: &SetupPath) -> String {
        let state = PathManagerState {
            limits: self.host.limits,
            endpoints: self.host.endpoints.clone(),
            ip_knows_laminar: self.host.has_laminar,
        };
        let flags = EndpointFlags { laminar: false, ..flags };
        match state.endpoint_remedy(&NeededEndpoint { address, device: &path.interface, flags }) {
            Ok(commands) => format!("; to have it: {}", commands.join("; ")),
            Err(reason) => format!("; {reason}."),
        }
    }

    fn is_of_network_manager(&self, path: &SetupPath) -> bool {
        self.host.managers.get(&path.index) == Some(&Manager::NetworkManager)
            && has_endpoints(self.host.network_manager_version)
    }

    fn connection<'a>(&'a self, address: IpAddr, path: &'a SetupPath) -> Connection<'a> {
        Connection {
            interface: &path.interface,
            uuid: self.host.connections.get(&path.index).map(String::as_str),
            version: self.host.network_manager_version,
            has_default_route: has_router(self.host, path.index, address.is_ipv4()),
        }
    }

    /// The command that gives an endpoint of another program these flags.
    fn change(&self, there: &MptcpEndpoint, after: EndpointFlags, path: &SetupPath) -> String {
        if self.is_of_network_manager(path) {
            return self.connection(there.address, path).endpoint_step(after);
        }
        change_endpoint(there, there.flags, after)
    }

    /// mptcpd adds endpoints and raises limits. Endpoints that it has not added need its flags.
    fn leave_to_mptcpd(&mut self, paths: &[SetupPath]) {
        let wanted = match self.options.role {
            Role::Client => EndpointFlags { subflow: true, ..EndpointFlags::default() },
            Role::Server => EndpointFlags { signal: true, ..EndpointFlags::default() },
        };
        let suits = |flags: EndpointFlags| if wanted.subflow { flags.subflow } else { flags.signal };
        let addresses = || paths.iter().flat_map(|path| &path.addresses).map(|at| at.address);
        let of = |address: IpAddr| self.host.endpoints.iter().find(|there| there.address == address);
        let missing: Vec<String> = addresses()
            .filter(|address| !of(*address).is_some_and(|there| suits(there.flags)))
            .map(|address| address.to_string())
            .collect();
        // A client's connections begin on one of several paths, and a single path needs no endpoint.
        if missing.is_empty() || paths.len() < 2 {
            return self.note(
                "mptcpd runs: it adds endpoints and raises limits itself, so this plan contains neither. To manage them \
                 here instead: systemctl disable --now mptcp.service"
                    .to_owned(),
            );
        }
        let unusable = addresses().filter_map(of).filter(|there| !suits(there.flags));
        let mut steps: Vec<String> = unusable.map(delete_endpoint).collect();
        let in_force = self.host.mptcpd_flags.clone().unwrap_or_default();
        let of_mptcpd = mptcpd_steps(&in_force, wanted);
        let restart = of_mptcpd.is_empty().then(|| "systemctl restart mptcp.service".to_owned());
        steps.extend(of_mptcpd.into_iter().chain(restart));
        let (missing, steps) = (missing.join(", "), steps.join("; "));
        self.leave(format!(
            "mptcpd runs, so this plan contains neither endpoints nor limits, and mptcpd has added no endpoint with `{}` for \
             {missing}: {steps}. To manage them here instead: systemctl disable --now mptcp.service, then this command again",
            wanted.to_string().trim()
        ));
    }

    fn add(&mut self, address: IpAddr, flags: EndpointFlags, path: &SetupPath, replaces_implicit: bool) {
        let interface = &path.interface;
        if self.is_of_network_manager(path) {
            let step = self.connection(address, path).endpoint_step(flags);
            self.leave(format!(
                "NetworkManager manages {interface} and its MPTCP endpoints (1.40 and newer), so this plan adds none there. \
                 To have one: {step}"
            ));
            return;
        }
        let planned: Vec<MptcpEndpoint> = self.planned().collect();
        // The kernel counts its own endpoints, too.
        if self.host.endpoints.len() + planned.len() >= MOST {
            self.note(format!("{address} gets no MPTCP endpoint: the kernel keeps at most {MOST}."));
            return;
        }
        let taken = |id: u8| self.host.endpoints.iter().chain(&planned).any(|there| there.id == Some(id));
        // The kernel replaces an implicit endpoint only if the request has no id.
        let id = if replaces_implicit { None } else { (1..=u8::MAX).find(|id| !taken(*id)) };
        let endpoint = MptcpEndpoint { address, port: None, id, interface: Some(path.index), flags };
        let reason = match self.options.role {
            Role::Client if path.backup => {
                format!("{interface} is a backup path: its subflows carry data only when no other works")
            }
            Role::Client => format!("connections open a subflow from {address} on {interface}"),
            Role::Server => format!("clients learn the address {address} on {interface}"),
        };
        self.step(reason, Operation::AddEndpoint { endpoint });
    }

    fn planned(&self) -> impl Iterator<Item = MptcpEndpoint> {
        self.plan.steps.iter().filter_map(|step| match step.change.operation {
            Operation::AddEndpoint { endpoint } => Some(endpoint),
            _ => None,
        })
    }

    /// Endpoints whose address is not on this host, such as those of the other host.
    fn note_absent(&mut self) {
        let is_here = |address: IpAddr| self.host.addresses.iter().any(|own| own.network.addr() == address);
        let absent =
            self.host.endpoints.iter().filter(|there| !there.flags.implicit && !is_here(there.address));
        let notes: Vec<String> = absent
            .map(|there| {
                format!(
                    "MPTCP endpoint {there} names an address that this host does not have, and has no effect. It is not \
                     from this command; to remove it: {}",
                    delete_endpoint(there)
                )
            })
            .collect();
        for note in notes {
            self.note(note);
        }
    }
}
