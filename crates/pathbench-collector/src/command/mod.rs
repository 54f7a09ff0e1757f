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
    let place = &cli.place;
    match &cli.action {
        None => serve::serve(place, &cli.serve, clock, print),
        Some(Action::Token(args)) => operator::token(place, args, clock.as_ref(), print),
        Some(Action::Server(action)) => operator::server(place, action, clock, print),
        Some(Action::Experiment(action)) => operator::experiment(place, action, clock, print),
        Some(Action::Agents) => operator::agents(place, clock, print),
        Some(Action::Delete { id }) => operator::delete(place, *id, clock, print),
        Some(Action::Backup { to }) => maintenance::backup(place, to, clock, print),
        Some(Action::Restore { from }) => maintenance::restore(place, from, print),
        Some(Action::Check { digests }) => maintenance::check(place, *digests, clock, print),
        Some(Action::Export { to, all }) => maintenance::export(place, to, *all, clock, print),
        Some(Action::Demo(args)) => demo::demo(place, args, clock, &stop_flag()?, print),
        Some(Action::Openapi) => {
            let document = crate::http::openapi::document();
            print(&format!("{document:#}\n"));
            Ok(())
        }
    }
}
