//! Tests on the running kernel, in separate namespaces.
//!
//! An additional process stays outside of the namespaces and finally checks that no interface is left there.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests print")]
#![allow(clippy::disallowed_methods, reason = "these tests measure rates against the clock")]

mod addressing;
mod black_holes;
mod changes;
#[path = "../common/mod.rs"]
mod common;
mod connections;
mod egress;
mod events;
mod examination;
mod fixture;
mod guests;
mod isolation;
mod middleboxes;
mod packet_capture;
mod packet_sizes;
mod path_manager;
mod path_states;
mod raw_routes;
mod remedied_endpoints;
mod remedies;
mod routers;
mod settings;
mod shaping;
mod wifi;
mod wires;

use libtest_mimic::{Arguments, Trial};
use pathbench_host::namespace::{Isolation, enter_lab, set_parent_death_signal_kill};
use pathbench_host::netlink::RouteSocket;
use pathbench_testkit::{STAGE, TrialOrder, again, exit_code, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::var(STAGE).as_deref() {
        Err(_) if !Arguments::from_args().list => outside(),
        Err(_) | Ok("isolate" | "inside") => run(TrialOrder::OneByOne, isolate, trials()),
        Ok(stage) => guests::main(stage),
    }
}

/// In the host's network: starts the other stages and then checks that no interface is left.
fn outside() -> ExitCode {
    let code = again("isolate").status().map_or(ExitCode::FAILURE, exit_code);
    match RouteSocket::open().and_then(|mut socket| socket.links()) {
        Ok(links) if links.iter().all(|link| !fixture::is_ours(&link.name)) => code,
        Ok(links) => {
            eprintln!("interfaces were left in the host's namespace: {links:?}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Enters namespaces whose loopback is up.
fn isolate() -> Result<(), String> {
    enter_lab(Isolation::for_this_user()).map_err(|error| error.to_string())?;
    set_parent_death_signal_kill()
        .map_err(|errno| format!("cannot ask for the end with the parent: {errno}"))?;
    let loopback = RouteSocket::open().and_then(|mut socket| socket.set_loopback_up());
    loopback.map_err(|error| format!("cannot prepare the tests' namespace: {error}"))
}

fn trials() -> Vec<Trial> {
    [
        wires::trials(),
        addressing::trials(),
        settings::trials(),
        shaping::trials(),
        path_manager::trials(),
        events::trials(),
        examination::trials(),
        isolation::trials(),
        connections::trials(),
        egress::trials(),
        wifi::trials(),
        path_states::trials(),
        remedies::trials(),
        changes::trials(),
        remedied_endpoints::trials(),
        black_holes::trials(),
        routers::trials(),
        middleboxes::trials(),
        packet_sizes::trials(),
        packet_capture::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
