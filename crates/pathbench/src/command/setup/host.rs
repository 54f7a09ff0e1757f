//! The state of this host, for a plan.

use super::managers::ManagerReader;
use pathbench_check::setup::{Medium, SetupHost};
use pathbench_host::mptcp::{MptcpError, PathManager};
use pathbench_host::netlink::{NetlinkError, NetworkInterface};
use pathbench_host::paths::{HostNetwork, KernelRoutes};
use pathbench_host::{device, kernel, sysctl};
use pathbench_program::exit::Failure;
use std::path::Path;

/// First kernel with the endpoint flag `laminar`.
pub(super) const LAMINAR_SINCE: (u32, u32) = (6, 18);

/// Reads the state; requires no privilege. `root` is the directory used instead of / for files of other programs.
pub(super) fn read(root: &Path, reader: &ManagerReader) -> Result<SetupHost, Failure> {
    let mut host = network().map_err(Failure::failed)?;
    path_manager(&mut host).map_err(Failure::failed)?;
    let keys = SetupHost::setting_keys(host.links.iter().map(|link| link.name.as_str()));
    for key in keys {
        if let Ok(value) = sysctl::read(&key) {
            host.settings.insert(key, value);
        }
    }
    host.media = host.links.iter().filter_map(|link| Some((link.index, medium(link)?))).collect();
    host.has_laminar = kernel::release().is_at_least(LAMINAR_SINCE.0, LAMINAR_SINCE.1);
    reader.read(root, &mut host);
    Ok(host)
}

fn network() -> Result<SetupHost, NetlinkError> {
    let network = HostNetwork::read()?;
    let primaries = KernelRoutes::read(&network, &[])?.primaries;
    let HostNetwork { links, addresses, routes, rules } = network;
    Ok(SetupHost { links, addresses, routes, rules, primaries, ..SetupHost::default() })
}

fn path_manager(host: &mut SetupHost) -> Result<(), MptcpError> {
    let Some(mut manager) = PathManager::open_if_known()? else { return Ok(()) };
    host.endpoints = manager.endpoints()?;
    host.limits = Some(manager.limits()?);
    Ok(())
}

/// The access network of a hardware interface.
fn medium(link: &NetworkInterface) -> Option<Medium> {
    if device::is_cellular(link) {
        return Some(Medium::Cellular);
    }
    let device = device::sysfs(link)?;
    if device.join("phy80211").exists() || device.join("wireless").exists() {
        return Some(Medium::Wifi);
    }
    device.join("device").exists().then_some(Medium::Wired)
}
