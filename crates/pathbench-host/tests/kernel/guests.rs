//! The processes of the test that enters a running lab.

use pathbench_host::namespace::{Isolation, enter_lab, join, set_parent_death_signal_kill};
use pathbench_host::netlink::RouteSocket;
use pathbench_testkit::{STAGE, again};
use std::error::Error;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{ExitCode, Stdio};

/// Creates a lab and waits.
pub(crate) const HOST: &str = "lab-host";
/// PID 1 of that lab.
const INIT: &str = "lab-init";
/// Enters the lab.
pub(crate) const GUEST: &str = "lab-guest";
/// Reports its view from inside the lab.
const REPORT: &str = "lab-report";
/// Starts a child that must end when this process ends.
pub(crate) const PARENT: &str = "parent";
/// The child.
const CHILD: &str = "child";
/// Name of the interface that identifies the lab.
pub(crate) const SIGN: &str = "pbt-sign";

pub(crate) fn main(stage: &str) -> ExitCode {
    let result = match stage {
        HOST => host(),
        INIT => wait_for_end(),
        GUEST => guest(),
        REPORT => report(),
        PARENT => again(CHILD).status().map(drop).map_err(Into::into),
        CHILD => child(),
        _ => Err(format!("{STAGE} has the unknown value {stage}").into()),
    };
    if let Err(error) = result {
        eprintln!("{stage}: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn host() -> Result<(), Box<dyn Error>> {
    set_parent_death_signal_kill()?;
    enter_lab(Isolation::User)?;
    RouteSocket::open()?.create_bridge(SIGN)?;
    let mut init = again(INIT).stdin(Stdio::piped()).spawn()?;
    println!("{}", std::fs::read_link("/proc/self")?.display());
    wait_for_end()?;
    drop(init.stdin.take());
    let ended = init.wait()?;
    if ended.success() { Ok(()) } else { Err(format!("PID 1 ended with {ended}").into()) }
}

fn wait_for_end() -> Result<(), Box<dyn Error>> {
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn guest() -> Result<(), Box<dyn Error>> {
    let lab = std::env::var("PATHBENCH_KERNEL_TEST_LAB")?;
    let open = |kind: &str| std::fs::File::open(format!("/proc/{lab}/ns/{kind}"));
    let (user, pid, net) = (open("user")?, open("pid_for_children")?, open("net")?);
    join(Some(user.as_fd()), pid.as_fd(), net.as_fd())?;
    let ended = again(REPORT).status()?;
    if ended.success() { Ok(()) } else { Err(format!("the report ended with {ended}").into()) }
}

fn report() -> Result<(), Box<dyn Error>> {
    println!("pid {}\nuid {}", std::process::id(), rustix::process::geteuid().as_raw());
    for link in RouteSocket::open()?.links()? {
        println!("{}", link.name);
    }
    Ok(())
}

fn child() -> Result<(), Box<dyn Error>> {
    set_parent_death_signal_kill()?;
    println!("ready");
    std::thread::sleep(std::time::Duration::from_secs(60));
    Ok(())
}
