//! The record of the measuring host.

use pathbench_host::{kernel, sysctl};
use pathbench_record::document::HostRecord;

/// The record of this machine; `privilege` is the command's.
pub(crate) fn host_record(privilege: &str, started: String) -> HostRecord {
    HostRecord {
        kernel: kernel::release().text,
        machine: rustix::system::uname().machine().to_string_lossy().into_owned(),
        cpus: kernel::cpu_count() as u32,
        memory_bytes: kernel::memory_bytes(),
        pathbench: env!("CARGO_PKG_VERSION").to_owned(),
        privilege: privilege.to_owned(),
        started,
        default_congestion: sysctl::read("net.ipv4.tcp_congestion_control").unwrap_or_default(),
        processors_awake: false,
    }
}
