//! The command line of the collector.

mod demo;
mod directory;
mod failure;
mod maintenance;
mod operator;
pub mod options;
mod secret;
mod serve;
mod stores;
mod tls;

pub use failure::{Exit, Failure};

use crate::clock::Clock;
use options::{Action, Cli};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Set by the first SIGINT or SIGTERM; a second one ends the process.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .map_err(Failure::failed)?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::failed)?;
    }
    Ok(stop)
}

/// Runs a command line; standard output gets what `print` is called with.
pub fn run(cli: &Cli, clock: &Arc<dyn Clock>, print: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let storage = &cli.storage;
    match &cli.action {
        None => serve::serve(storage, &cli.serve, clock, print),
        Some(Action::Token(args)) => operator::token(storage, args, clock.as_ref(), print),
        Some(Action::Server(action)) => operator::server(storage, action, clock, print),
        Some(Action::Experiment(action)) => operator::experiment(storage, action, clock, print),
        Some(Action::Agents) => operator::agents(storage, clock, print),
        Some(Action::Delete { id }) => operator::delete(storage, *id, clock, print),
        Some(Action::Backup { to }) => maintenance::backup(storage, to, clock, print),
        Some(Action::Restore { from }) => maintenance::restore(storage, from, print),
        Some(Action::Check { digests }) => maintenance::check(storage, *digests, clock, print),
        Some(Action::Export { to, all }) => maintenance::export(storage, to, *all, clock, print),
        Some(Action::Demo(args)) => demo::demo(storage, args, clock, &stop_flag()?, print),
        Some(Action::Openapi) => {
            let document = crate::http::openapi::document();
            print(&format!("{document:#}\n"));
            Ok(())
        }
    }
}
