//! The command line of the collector.

mod demo;
mod directory;
mod maintenance;
mod operator;
pub mod options;
mod secret;
mod serve;
mod stores;
mod tls;

use options::{Action, Cli};
use pathbench_program::exit::Failure;
use pathbench_program::signals;
use pathbench_record::time::SharedClock;

/// Runs a command line; standard output gets what `print` is called with.
pub fn run(cli: &Cli, clock: &SharedClock, print: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let storage = &cli.storage;
    match &cli.action {
        None => serve::serve(storage, &cli.serve, clock, print),
        Some(Action::Token(args)) => operator::token(storage, args, clock, print),
        Some(Action::RotateKey { keep }) => operator::rotate_key(storage, keep.0, clock.as_ref(), print),
        Some(Action::Server(action)) => operator::server(storage, action, clock, print),
        Some(Action::Experiment(action)) => operator::experiment(storage, action, clock, print),
        Some(Action::Agents) => operator::agents(storage, clock, print),
        Some(Action::Delete { id }) => operator::delete(storage, *id, clock, print),
        Some(Action::Backup { to }) => maintenance::backup(storage, to, clock, print),
        Some(Action::Restore { from }) => maintenance::restore(storage, from, print),
        Some(Action::Check { digests }) => maintenance::check(storage, *digests, clock, print),
        Some(Action::Export { to, all }) => maintenance::export(storage, to, *all, clock, print),
        Some(Action::Demo(args)) => demo::demo(storage, args, clock, &signals::stop_on_signal(|| {}), print),
        Some(Action::Openapi) => {
            let document = crate::http::openapi::document();
            print(&format!("{document:#}\n"));
            Ok(())
        }
    }
}
