//! `lab up`, `lab exec`, `lab down`: a lab that stays until it is taken down.
//!
//! The lab's orchestrator listens on an abstract socket, `pathbench-lab/UID/NAME`, made in the machine's own
//! network namespace before the lab's are entered. An abstract socket is no file: it is gone when the
//! orchestrator is, whatever ended it, so there is nothing that could be stale.

use super::assignment::{Assignment, Job};
use super::{isolation, load};
use crate::cli::{DownArgs, ExecArgs, UpArgs};
use crate::exit::{Exit, Failure};
use pathbench_host::namespace::join;
use pathbench_lab::channel;
use pathbench_lab::scenario::Overrides;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};

/// What is asked of a standing lab.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Question {
    /// The namespaces of a host.
    Enter {
        /// The host.
        host: String,
    },
    /// The names of the hosts.
    Hosts,
    /// End.
    Down,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It stands, with these hosts.
    Standing {
        /// Their names.
        hosts: Vec<String>,
    },
    /// The namespaces follow as file descriptors.
    Admitted,
    /// No.
    Refused {
        /// Why.
        message: String,
        /// The exit code that says so.
        exit: u8,
    },
}

pub(crate) fn up(args: &UpArgs) -> Result<Exit, Failure> {
    let overrides = Overrides::from(&args.overrides);
    let (source, plan) = load(&args.scenario, &overrides)?;
    isolation::require(&plan)?;
    let name = args.name.clone().unwrap_or_else(|| plan.name.clone());
    let listener = UnixListener::bind_addr(&address(&name)?).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Failure::bad_input(format!(
            "a lab named `{name}` is up already: take it down with `pathbench lab down {name}`, or give this one \
             another name with --name"
        )),
        _ => Failure::failed(error),
    })?;
    // Connected while still in the machine's network namespace, where the name is.
    let control = UnixStream::connect_addr(&address(&name)?).map_err(Failure::failed)?;
    let privilege = isolation::enter(args.privilege)?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("__keep")
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _orchestrator = command
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::failed(format!("cannot start the lab's orchestrator: {error}")))?;
    // It still holds the listening socket: as long as one process does, waiting for an answer would go on for ever
    // after the orchestrator's death.
    drop(command);
    let job = Job { source, overrides, out: None };
    let assignment = Assignment {
        privilege,
        // The links see to it themselves while they carry packets: a lab that is up is idle most of the time.
        processors_awake: false,
        jobs: vec![job],
        json: false,
        quiet: true,
        calibrate: false,
        side_by_side: NonZeroUsize::MIN,
        capture: false,
    };
    let died = |error| Failure::failed(format!("the lab's orchestrator did not start: {error}"));
    channel::send(&control, &assignment).map_err(died)?;
    match channel::receive(&control).map_err(died)? {
        Answer::Standing { hosts } => {
            println!("lab `{name}` is up; its hosts: {}", hosts.join(", "));
            for (host, command) in [("client", "ip address"), ("client", "bash"), ("wires", "tc -s qdisc")] {
                println!("  pathbench lab exec --lab {name} {host} -- {command}");
            }
            println!("  pathbench lab down {name}");
            Ok(Exit::Done)
        }
        answer => Err(refusal(answer)),
    }
}

pub(crate) fn exec(args: &ExecArgs) -> Result<Exit, Failure> {
    let lab = chosen_lab(args.lab.as_deref())?;
    let control = ask(&lab, &Question::Enter { host: args.host.clone() })?;
    match channel::receive(&control).map_err(Failure::failed)? {
        Answer::Admitted => {}
        answer => return Err(refusal(answer)),
    }
    let [user, process, network] = receive_namespaces(&control)?;
    // As root outside a user namespace, lab and machine share theirs, and joining one's own is an error.
    let own = is_own_user_namespace(&user)?;
    join((!own).then_some(user.as_fd()), process.as_fd(), network.as_fd()).map_err(Failure::failed)?;
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let (program, arguments) = match args.command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments),
        None => (shell, &[][..]),
    };
    crate::signals::ignore_interrupts();
    let status = Command::new(&program).args(arguments).env("PATHBENCH_LAB_HOST", &args.host).status();
    let status = status.map_err(|error| {
        Failure::bad_input(format!(
            "cannot start `{}` in host `{}`: {error}",
            program.to_string_lossy(),
            args.host
        ))
    })?;
    // The program's own exit code, whatever it is; a signal's as shells show it.
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    std::process::exit(code);
}

pub(crate) fn down(args: &DownArgs) -> Result<Exit, Failure> {
    let labs = if args.all { running_labs() } else { vec![chosen_lab(args.lab.as_deref())?] };
    for lab in labs {
        let mut control = ask(&lab, &Question::Down)?;
        // The connection ends when the orchestrator does, and everything with it.
        let _end = control.read(&mut [0; 1]);
        println!("lab `{lab}` is down");
    }
    Ok(Exit::Done)
}

/// Names of this user's labs that are up.
pub(crate) fn running_labs() -> Vec<String> {
    let prefix = format!("@{}", socket_name(""));
    let Ok(table) = std::fs::read_to_string("/proc/net/unix") else { return Vec::new() };
    // Columns of /proc/net/unix: …, path. A listening socket and each of its connections have a line.
    let mut labs: Vec<String> = table
        .lines()
        .filter_map(|line| line.split_whitespace().nth(7)?.strip_prefix(&prefix).map(str::to_owned))
        .collect();
    labs.sort();
    labs.dedup();
    labs
}

fn chosen_lab(wanted: Option<&str>) -> Result<String, Failure> {
    if let Some(name) = wanted {
        return Ok(name.to_owned());
    }
    let labs = running_labs();
    match labs.as_slice() {
        [lab] => Ok(lab.clone()),
        [] => Err(Failure::bad_input("no lab is up; start one with `pathbench lab up SCENARIO`")),
        _ => Err(Failure::bad_input(format!("several labs are up: say which of {}", labs.join(", ")))),
    }
}

fn ask(lab: &str, question: &Question) -> Result<UnixStream, Failure> {
    let control = UnixStream::connect_addr(&address(lab)?).map_err(|_| {
        let labs = running_labs();
        let known = if labs.is_empty() { "none is".to_owned() } else { format!("up: {}", labs.join(", ")) };
        Failure::bad_input(format!("no lab named `{lab}` is up ({known})"))
    })?;
    channel::send(&control, question).map_err(Failure::failed)?;
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

fn refusal(answer: Answer) -> Failure {
    match answer {
        Answer::Refused { message, exit } => Failure { exit: Exit::of_code(i32::from(exit)), message },
        _ => Failure::failed("the lab answered out of turn"),
    }
}

fn receive_namespaces(control: &UnixStream) -> Result<[OwnedFd; 3], Failure> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    recvmsg(control, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        .map_err(Failure::failed)?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    descriptors.try_into().map_err(|_| Failure::failed("the lab handed over no namespaces"))
}

fn is_own_user_namespace(user: &OwnedFd) -> Result<bool, Failure> {
    let inode = |file: File| file.metadata().map(|metadata| metadata.ino());
    let theirs = user.try_clone().map(File::from).and_then(inode).map_err(Failure::failed)?;
    let ours = File::open("/proc/self/ns/user").and_then(inode).map_err(Failure::failed)?;
    Ok(theirs == ours)
}
