//! The orchestrator of a lab that stays: builds it, then answers `exec` and `down` on the lab's socket.

use super::launcher;
use crate::clock::{MonotonicClock, wall_offset_ns};
use crate::exit::{Exit, Failure};
use crate::lab::assignment::Assignment;
use crate::lab::keep::{Answer, Question};
use crate::signals;
use pathbench_host::namespace::NetNamespace;
use pathbench_lab::channel;
use pathbench_lab::environment::{Emulation, Environment};
use pathbench_lab::scenario;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

/// Host name under which the room of the links' middles can be entered.
const WIRES: &str = "wires";

pub(crate) fn keep() -> Result<Exit, Failure> {
    let listener =
        UnixListener::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(Failure::failed)?);
    // The first connection comes from `lab up` itself: the assignment comes in, the word that it stands goes out.
    let (front, _) = listener.accept().map_err(Failure::failed)?;
    let assignment: Assignment = channel::receive(&front).map_err(Failure::failed)?;
    let environment = match build(&assignment) {
        Ok(environment) => environment,
        Err(failure) => {
            let answer = Answer::Refused { message: failure.message.clone(), exit: failure.exit.code() };
            let _front_gone = channel::send(&front, &answer);
            return Ok(failure.exit);
        }
    };
    signals::on_signal(|| std::process::exit(0));
    channel::send(&front, &Answer::Standing { hosts: hosts(&environment) }).map_err(Failure::failed)?;
    drop(front);
    let told_to_end = listener.incoming().flatten().find(|connection| !answer(connection, &environment));
    drop(environment);
    // `lab down` waits for the end of its connection: by then nothing is left, and the name is free again. The
    // name's socket is open twice, for it came as standard input.
    drop(listener);
    let _unused_again = File::open("/dev/null").map(rustix::stdio::dup2_stdin);
    drop(told_to_end);
    Ok(Exit::Done)
}

fn build(assignment: &Assignment) -> Result<Environment, Failure> {
    let job = assignment.jobs.first().ok_or_else(|| Failure::failed("there is no lab to build"))?;
    let plan = scenario::plan(&job.source, &job.overrides).map_err(Failure::bad_input)?;
    let variant = plan.variants.first().ok_or_else(|| Failure::failed("the scenario has no variant"))?;
    let emulation = Emulation {
        clock: Arc::new(MonotonicClock),
        seed: plan.seed,
        repetition: 1,
        wall_offset_ns: wall_offset_ns(),
        captures: BTreeMap::new(),
    };
    Environment::build(&variant.topology, &variant.run.server, &launcher(), &emulation).map_err(|error| {
        if error.is_incapable() { Failure::host_cannot(error) } else { Failure::failed(error) }
    })
}

fn hosts(environment: &Environment) -> Vec<String> {
    environment.nodes().iter().map(|node| node.name().to_owned()).collect()
}

/// Answers one question; false when the lab is to end. A client that asks nonsense or vanishes is its own problem.
fn answer(connection: &UnixStream, environment: &Environment) -> bool {
    match channel::receive(connection) {
        Ok(Question::Enter { host }) => {
            if let Err(message) = admit(connection, environment, &host) {
                let _gone =
                    channel::send(connection, &Answer::Refused { message, exit: Exit::BadInput.code() });
            }
            true
        }
        Ok(Question::Hosts) => {
            let _gone = channel::send(connection, &Answer::Standing { hosts: hosts(environment) });
            true
        }
        Ok(Question::Down) => false,
        Err(_) => true,
    }
}

/// Hands over the host's namespaces: user, PID, network, in this order.
fn admit(connection: &UnixStream, environment: &Environment, host: &str) -> Result<(), String> {
    let own_network;
    let network: BorrowedFd<'_> = if host == WIRES {
        own_network = NetNamespace::current().map_err(|error| error.to_string())?;
        own_network.as_fd()
    } else {
        environment.node(host).map_err(|error| error.to_string())?.namespace().as_fd()
    };
    let user = File::open("/proc/self/ns/user").map_err(|error| error.to_string())?;
    let process = File::open("/proc/self/ns/pid").map_err(|error| error.to_string())?;
    channel::send(connection, &Answer::Admitted).map_err(|error| error.to_string())?;
    let descriptors = [user.as_fd(), process.as_fd(), network];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(connection, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)
        .map(drop)
        .map_err(|error| error.to_string())
}
