//! `lab up`, `lab exec`, `lab list`, `lab down`: a lab that runs until `lab down`.
//!
//! The lab's orchestrator listens on an abstract socket, `pathbench-lab/UID/NAME`, created in the machine's network
//! namespace before the process enters the lab's namespaces. The kernel removes an abstract socket (unix(7)) when the
//! orchestrator ends, so no stale file remains.

use super::control::{self, MESSAGE_BYTES, OtherUser, Timed};
use super::{enter, load, require};
use crate::cli::{DownArgs, ExecArgs, UpArgs};
use crate::result::style;
use pathbench_host::namespace::{join, keep_one_user, mount_own_sysfs};
use pathbench_lab::channel;
use pathbench_lab::scenario::{self, Overrides};
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::{diagnostics, output};
use pathbench_record::file;
use pathbench_record::text::duration;
use pathbench_record::time::SharedClock;
use pathbench_report::terminal::definitions;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::time::Duration;

const ANSWER_TIME: Duration = Duration::from_secs(10);
const DOWN_TIME: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LabRequest {
    /// Requests the namespaces of a host.
    Enter {
        host: String,
    },
    Down,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LabAnswer {
    Standing {
        hosts: Vec<String>,
    },
    /// The namespaces follow as file descriptors.
    Admitted,
    Refused {
        message: String,
        exit: u8,
    },
}

pub(crate) fn up(args: &UpArgs) -> Result<Exit, Failure> {
    let overrides = Overrides::from(&args.overrides);
    let plan = load(&args.scenario, &overrides)?;
    require(&plan)?;
    let name = args.name.clone().unwrap_or_else(|| plan.name.clone());
    let listener = UnixListener::bind_addr(&address(&name)?).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => name_conflict(&name),
        _ => Failure::failed(error),
    })?;
    let (control, orchestrators_end) = UnixStream::pair().map_err(Failure::failed)?;
    enter(args.privilege)?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("__keep")
        .envs(diagnostics::environment())
        .stdin(Stdio::from(OwnedFd::from(orchestrators_end)))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut orchestrator = command
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::failed(format!("cannot start the lab's orchestrator: {error}")))?;
    // `command` still holds the orchestrator's end of the socket. While any process holds that end, this process
    // would wait for an answer even after the orchestrator's death.
    drop(command);
    let died = |error| Failure::failed(format!("the lab's orchestrator did not start: {error}"));
    channel::send(&control, &plan).map_err(died)?;
    control::send_descriptors(&control, &[listener.as_fd()]).map_err(|error| died(error.into()))?;
    // Releases the name when the orchestrator ends.
    drop(listener);
    match channel::receive(&control).map_err(died)? {
        LabAnswer::Standing { hosts } => {
            output::print(&announcement(&name, &hosts)).inspect_err(|_| {
                // A failed command leaves no lab behind; the lab ends with its first process.
                let _dead = orchestrator.kill();
                let _reaped = orchestrator.wait();
            })?;
            Ok(Exit::Done)
        }
        answer => Err(refusal(answer)),
    }
}

fn announcement(name: &str, hosts: &[String]) -> String {
    let programs = [("client", "ip address"), ("client", "bash"), ("wires", "tc -s qdisc")];
    let examples = programs
        .map(|(host, command)| format!("  pathbench lab exec --lab {name} {host} -- {command}\n"))
        .concat();
    format!("lab `{name}` is up; its hosts: {}\n{examples}  pathbench lab down {name}\n", hosts.join(", "))
}

pub(crate) fn exec(args: &ExecArgs, clock: &SharedClock) -> Result<Exit, Failure> {
    let lab = chosen_lab(args.lab.as_deref())?;
    let control = ask(&lab, &LabRequest::Enter { host: args.host.clone() }, clock)?;
    let timed = Timed::new(&control, clock.as_ref(), ANSWER_TIME);
    match channel::receive_at_most(MESSAGE_BYTES, &timed).map_err(Failure::failed)? {
        LabAnswer::Admitted => {}
        answer => return Err(refusal(answer)),
    }
    let [user, process, network] = control::receive_descriptors(&control).map_err(Failure::failed)?;
    // For root without a user namespace, lab and machine share the user namespace, and joining one's own is an error.
    let own = is_own_user_namespace(&user)?;
    join((!own).then_some(user.as_fd()), process.as_fd(), network.as_fd()).map_err(Failure::failed)?;
    if let Err(errno) = mount_own_sysfs() {
        output::note(format_args!(
            "pathbench: cannot mount sysfs ({errno}): /sys of the program shows the machine's interfaces"
        ));
    }
    if !own {
        // Without the filter, programs that give up root fail.
        let _unavailable = keep_one_user();
    }
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let (program, arguments) = match args.command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments),
        None => (shell, &[][..]),
    };
    let start = || Command::new(&program).args(arguments).env("PATHBENCH_LAB_HOST", &args.host).spawn();
    let status = pathbench_program::signals::wait_passing_on(start);
    let status = status.map_err(|error| {
        Failure::bad_input(format!(
            "cannot start `{}` in host `{}`: {error}",
            program.to_string_lossy(),
            args.host
        ))
    })?;
    // The program's exit code, unchanged; 128 + number after a signal, as in shells.
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    std::process::exit(code);
}

pub(crate) fn list() -> Result<Exit, Failure> {
    output::print(&listing(&running_labs(), style().width))?;
    Ok(Exit::Done)
}

fn listing(labs: &[String], width: usize) -> String {
    let shipped: Vec<(&str, String)> =
        scenario::builtin().iter().map(|builtin| (builtin.name, builtin.description())).collect();
    let mut text = "Scenarios (pathbench lab show NAME):\n".to_owned();
    text += &definitions(&shipped, width);
    if !labs.is_empty() {
        text += "Labs that are up (pathbench lab exec):\n";
        let labs: Vec<(&str, String)> = labs.iter().map(|lab| (lab.as_str(), String::new())).collect();
        text += &definitions(&labs, width);
    }
    text
}

pub(crate) fn down(args: &DownArgs, clock: &SharedClock) -> Result<Exit, Failure> {
    let labs = if args.all { running_labs() } else { vec![chosen_lab(args.lab.as_deref())?] };
    let mut lines = Vec::new();
    for lab in labs {
        let mut control = ask(&lab, &LabRequest::Down, clock)?;
        control.set_read_timeout(Some(DOWN_TIME)).map_err(Failure::failed)?;
        // The connection closes when the orchestrator ends, and the whole lab with it.
        let still_up = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        if control.read(&mut [0; 1]).is_err_and(|error| still_up(&error)) {
            let after = duration(DOWN_TIME);
            return Err(Failure::failed(format!("lab `{lab}` is still up after {after}")));
        }
        lines.push(format!("lab `{lab}` is down\n"));
    }
    // Printed last, so that a closed output does not keep a lab running.
    output::print(&lines.concat())?;
    Ok(Exit::Done)
}

pub(crate) fn running_labs() -> Vec<String> {
    let prefix = format!("@{}", socket_name(""));
    let Ok(table) = file::read_text("/proc/net/unix", file::SMALL_FILE_BYTES) else {
        return Vec::new();
    };
    // Columns of /proc/net/unix: …, path. There is one line per listening socket and per connection.
    let mut labs: Vec<String> = table
        .lines()
        .filter_map(|line| line.split_whitespace().nth(7)?.strip_prefix(&prefix).map(str::to_owned))
        .collect();
    labs.sort();
    labs.dedup();
    // Another user can bind the same name.
    labs.retain(|lab| connect(lab).is_ok());
    labs
}

fn connect(lab: &str) -> Result<UnixStream, Unconnected> {
    let control = address(lab)
        .map_err(Unconnected::Failure)
        .and_then(|address| UnixStream::connect_addr(&address).map_err(|_| Unconnected::NotUp))?;
    control::check_peer(&control).map_err(Unconnected::OtherUser)?;
    Ok(control)
}

enum Unconnected {
    NotUp,
    OtherUser(OtherUser),
    Failure(Failure),
}

/// Why the name of a lab is already in use.
fn name_conflict(name: &str) -> Failure {
    match connect(name) {
        Err(Unconnected::OtherUser(user)) => foreign_socket(name, &user),
        _ => Failure::bad_input(format!(
            "a lab named `{name}` is up already: take it down with `pathbench lab down {name}`, or give this one \
             another name with --name"
        )),
    }
}

fn foreign_socket(name: &str, user: &OtherUser) -> Failure {
    Failure::bad_input(format!(
        "the socket of lab `{name}` belongs to {}, not to a lab of this user; give the lab another name with --name",
        user.0
    ))
}

fn chosen_lab(wanted: Option<&str>) -> Result<String, Failure> {
    if let Some(name) = wanted {
        return Ok(name.to_owned());
    }
    let labs = running_labs();
    match labs.as_slice() {
        [lab] => Ok(lab.clone()),
        [] => Err(Failure::bad_input("no lab is up; start one with `pathbench lab up SCENARIO`")),
        _ => Err(Failure::bad_input(format!("several labs are up; name one of: {}", labs.join(", ")))),
    }
}

fn ask(lab: &str, question: &LabRequest, clock: &SharedClock) -> Result<UnixStream, Failure> {
    let control = connect(lab).map_err(|error| match error {
        Unconnected::NotUp => {
            let labs = running_labs();
            let known =
                if labs.is_empty() { "none is".to_owned() } else { format!("up: {}", labs.join(", ")) };
            Failure::bad_input(format!("no lab named `{lab}` is up ({known})"))
        }
        Unconnected::OtherUser(user) => foreign_socket(lab, &user),
        Unconnected::Failure(failure) => failure,
    })?;
    channel::send(&Timed::new(&control, clock.as_ref(), ANSWER_TIME), question).map_err(Failure::failed)?;
    Ok(control)
}

fn socket_name(lab: &str) -> String {
    format!("pathbench-lab/{}/{lab}", rustix::process::geteuid().as_raw())
}

fn address(lab: &str) -> Result<SocketAddr, Failure> {
    let legal = !lab.is_empty() && lab.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !legal || lab.len() > 60 {
        return Err(Failure::bad_input(format!(
            "`{lab}` cannot name a lab: use up to 60 letters, digits, hyphens, dots and underscores"
        )));
    }
    SocketAddr::from_abstract_name(socket_name(lab)).map_err(Failure::failed)
}

fn refusal(answer: LabAnswer) -> Failure {
    match answer {
        LabAnswer::Refused { message, exit } => Failure { exit: Exit::from_code(i32::from(exit)), message },
        _ => Failure::failed("the lab sent an unexpected answer"),
    }
}

fn is_own_user_namespace(user: &OwnedFd) -> Result<bool, Failure> {
    let inode = |file: File| file.metadata().map(|metadata| metadata.ino());
    let theirs = user.try_clone().map(File::from).and_then(inode).map_err(Failure::failed)?;
    let ours = file::open_named("/proc/self/ns/user").and_then(inode).map_err(Failure::failed)?;
    Ok(theirs == ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_fits_every_terminal() {
        for width in [40, 80, 200] {
            let text = listing(&["my-lab".to_owned()], width);
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            assert!(longest <= width, "{width}: {longest}\n{text}");
            assert!(text.contains("\n  failover") && text.ends_with("  my-lab\n"), "{text}");
        }
    }
}
