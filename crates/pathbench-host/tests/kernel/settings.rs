//! Sysctls, counters and kernel features.

use crate::fixture::{Host, Lab, message_arrives, v4};
use pathbench_host::counters::KernelCounters;
use pathbench_host::kernel::{self, MptcpSupport};
use pathbench_host::qdisc::kernel_has_netem;
use pathbench_host::sysctl::{self, SysctlError};
use pathbench_testkit::{TrialOutcome, ensure, tests};

tests!(
    settings_belong_to_a_namespace,
    invalid_settings_are_rejected,
    counters_increase,
    disabled_mptcp_is_detected,
    netem_or_not
);

const KEY: &str = "net.ipv4.tcp_mtu_probing";

fn settings_belong_to_a_namespace() -> TrialOutcome {
    let (left, right) = (Host::new()?, Host::new()?);
    let here = sysctl::read(KEY)?;
    left.namespace.run_in(|| sysctl::write(KEY, "2"))??;
    right.namespace.run_in(|| sysctl::write("net/ipv4/tcp_mtu_probing", "1"))??;
    ensure!(left.namespace.run_in(|| sysctl::read(KEY))?? == "2", "the left one has another value");
    ensure!(right.namespace.run_in(|| sysctl::read(KEY))?? == "1", "the right one has another value");
    ensure!(sysctl::read(KEY)? == here, "the outer namespace was changed");
    Ok(())
}

fn invalid_settings_are_rejected() -> TrialOutcome {
    let host = Host::new()?;
    let write =
        |key: &'static str, value: &'static str| host.namespace.run_in(move || sysctl::write(key, value));
    let result = write(KEY, "many")?;
    ensure!(matches!(result, Err(SysctlError::InvalidValue { .. })), "{result:?}");
    let result = write("net.ipv4.tcp_congestion_control", "no-such-control")?;
    ensure!(matches!(result, Err(SysctlError::InvalidValue { .. })), "{result:?}");
    let result = write("net.mptcp.no_such_key", "1")?;
    ensure!(matches!(result, Err(SysctlError::NoSuchKey { .. })), "{result:?}");
    // Read-only for every user.
    let result = write("net.ipv4.tcp_available_congestion_control", "reno")?;
    ensure!(matches!(result, Err(SysctlError::NoPermission { .. })), "{result:?}");
    Ok(())
}

fn counters_increase() -> TrialOutcome {
    let lab = Lab::new(&[None])?;
    let read = || lab.server.namespace.run_in(KernelCounters::read);
    let before = read()??;
    ensure!(message_arrives(&lab.client, v4(0, 1), &lab.server, v4(0, 2))?, "nothing arrives");
    let change = KernelCounters::difference(&before, &read()??);
    ensure!(change.get("Udp.InDatagrams") == Some(&1), "{change:?}");
    ensure!(!change.contains_key("Tcp.InSegs"), "{change:?}");
    ensure!(before.get("MPTcpExt.MPJoinSynTx") == Some(0), "{before:?}");
    ensure!(before.get("Ip6InReceives").is_some(), "{before:?}");
    Ok(())
}

fn disabled_mptcp_is_detected() -> TrialOutcome {
    let host = Host::new()?;
    let support = || host.namespace.run_in(kernel::mptcp_support);
    ensure!(support()? == MptcpSupport::Available, "{}", support()?);
    host.namespace.run_in(|| sysctl::write("net.mptcp.enabled", "0"))??;
    ensure!(support()? == MptcpSupport::Disabled, "{}", support()?);
    ensure!(kernel::mptcp_support() == MptcpSupport::Available, "only that namespace was meant");
    let control = host.namespace.run_in(|| sysctl::read("net.ipv4.tcp_congestion_control"))??;
    ensure!(!control.is_empty(), "no default congestion control");
    Ok(())
}

fn netem_or_not() -> TrialOutcome {
    use pathbench_host::qdisc::{Netem, Shaper, ShaperError};
    use std::time::Duration;
    let netem =
        Netem { delay: Duration::from_millis(5), jitter: Duration::ZERO, loss: 0.0, limit_packets: 100 };
    let shaper = Shaper { netem: Some(netem), ..Shaper::new(1_000_000, 1500, 150_000) };
    let mut host = Host::new()?;
    let loopback = host.index("lo")?;
    match (kernel_has_netem()?, host.socket.install_shaper(loopback, &shaper)) {
        (true, Ok(())) | (false, Err(ShaperError::NoNetem)) => Ok(()),
        (has, result) => Err(format!("netem: {has}, but {result:?}").into()),
    }
}
