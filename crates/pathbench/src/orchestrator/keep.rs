//! The orchestrator of a lab of `lab up`: builds the lab, then answers `exec` and `down` on the lab's socket.

use super::launcher;
use crate::command::lab::control::{self, MESSAGE_BYTES, Timed};
use crate::command::lab::keep::{LabAnswer, LabRequest};
use pathbench_host::namespace::NetNamespace;
use pathbench_lab::channel;
use pathbench_lab::environment::{Emulation, Environment};
use pathbench_lab::scenario::ScenarioPlan;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::signals;
use pathbench_record::file;
use pathbench_record::time::{SharedClock, WallClock};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

const CLIENT_TIME: Duration = Duration::from_secs(2);
/// Pause when no connection can be accepted.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// Host name of the fabric namespace.
const WIRES: &str = "wires";

pub(crate) fn keep(clock: &SharedClock) -> Result<Exit, Failure> {
    // Standard input is a connection to `lab up` for the plan, the lab's socket and the answer.
    let front = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(Failure::failed)?);
    let _no_other_holds_it = file::open_named("/dev/null").map(rustix::stdio::dup2_stdin);
    let plan: ScenarioPlan = channel::receive(&front).map_err(Failure::failed)?;
    let [listener] = control::receive_descriptors(&front).map_err(Failure::failed)?;
    let listener = UnixListener::from(listener);
    let environment = match build(&plan, clock) {
        Ok(environment) => environment,
        Err(failure) => {
            let answer = LabAnswer::Refused { message: failure.message.clone(), exit: failure.exit.code() };
            let _front_ended = channel::send(&front, &answer);
            return Ok(failure.exit);
        }
    };
    signals::on_signal(|| std::process::exit(0));
    let hosts = environment.nodes().iter().map(|node| node.name().to_owned()).collect();
    channel::send(&front, &LabAnswer::Standing { hosts }).map_err(Failure::failed)?;
    drop(front);
    let ended_by = serve(&listener, &environment, clock);
    drop(environment);
    // `lab down` waits for the close of its connection; the lab has ended then, and its name is available again.
    drop(listener);
    drop(ended_by);
    Ok(Exit::Done)
}

/// Answers requests, one client at a time, until a request to end the lab; returns the connection of that request.
fn serve(listener: &UnixListener, environment: &Environment, clock: &SharedClock) -> UnixStream {
    loop {
        match listener.accept() {
            Ok((connection, _)) if answer(&connection, environment, clock) => {}
            Ok((connection, _)) => return connection,
            // EMFILE is the most likely error.
            Err(_) => clock.sleep_until(clock.now() + EXHAUSTED_PAUSE),
        }
    }
}

fn build(plan: &ScenarioPlan, clock: &SharedClock) -> Result<Environment, Failure> {
    let variant = plan.variants.first().ok_or_else(|| Failure::failed("the scenario has no variant"))?;
    let emulation = Emulation {
        clock: Arc::<dyn WallClock>::clone(clock),
        seed: plan.seed,
        repetition: 1,
        wall_offset_ns: clock.wall_offset_ns(),
        captures: BTreeMap::new(),
    };
    Environment::build(&variant.topology, &variant.run.server, &launcher(), &emulation).map_err(|error| {
        if error.is_incapable() { Failure::host_cannot(error) } else { Failure::failed(error) }
    })
}

/// Answers one request; returns false to end the lab. Invalid requests and lost clients have no effect.
fn answer(connection: &UnixStream, environment: &Environment, clock: &SharedClock) -> bool {
    let timed = Timed::new(connection, clock.as_ref(), CLIENT_TIME);
    let refuse = |message| {
        let _client_lost =
            channel::send(&timed, &LabAnswer::Refused { message, exit: Exit::BadInput.code() });
        true
    };
    if let Err(user) = control::check_peer(connection) {
        return refuse(format!("the lab is another user's: it does not answer {}", user.0));
    }
    match channel::receive_at_most(MESSAGE_BYTES, &timed) {
        Ok(LabRequest::Enter { host }) => match admit(connection, environment, &host, clock) {
            Ok(()) => true,
            Err(message) => refuse(message),
        },
        Ok(LabRequest::Down) => false,
        Err(_) => true,
    }
}

/// Sends the host's namespaces: user, PID, network, in this order.
fn admit(
    connection: &UnixStream,
    environment: &Environment,
    host: &str,
    clock: &SharedClock,
) -> Result<(), String> {
    let own_network;
    let network: BorrowedFd<'_> = if host == WIRES {
        own_network = NetNamespace::current().map_err(|error| error.to_string())?;
        own_network.as_fd()
    } else {
        environment.node(host).map_err(|error| error.to_string())?.namespace().as_fd()
    };
    let user = file::open_named("/proc/self/ns/user").map_err(|error| error.to_string())?;
    let process = file::open_named("/proc/self/ns/pid").map_err(|error| error.to_string())?;
    channel::send(&Timed::new(connection, clock.as_ref(), CLIENT_TIME), &LabAnswer::Admitted)
        .map_err(|error| error.to_string())?;
    control::send_descriptors(connection, &[user.as_fd(), process.as_fd(), network])
        .map_err(|error| error.to_string())
}
