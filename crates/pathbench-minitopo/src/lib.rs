//! Imports minitopo's files: writes a topology, and an experiment where there is one, as the text of a scenario whose
//! comments name the lines that each part comes from. It never validates a scenario: its text goes through the lab's
//! one validation like any other.
//!
//! Source: <https://github.com/qdeconinck/minitopo> (`core/topo.py`, `core/parameter.py`, `topos/`, `experiments/`), the
//! wrapper of Mininet that multipath experiments have been described in since 2013. Its files have a `key:value` a line:
//!
//! | key | value |
//! |---|---|
//! | `topoType` | `MultiIf`, or `MultiIfMultiClient` (whose further clients are left out) |
//! | `leftSubnet`, `rightSubnet` | first two octets of the addresses left and right of the router: `10.1.`, `10.2.` |
//! | `path_c2r_N`, `path_r2s_N` | `delay,bandwidth` or `delay,queue,bandwidth[,loss[,backup]]`: ms one way, packets, Mbit/s, %; a link from client to router or from router to server |
//! | `changeNetem` | `yes`: the next key is in force |
//! | `netemAt_c2r_N`, `netemAt_r2s_N` | `seconds,arguments of netem`: what the link's delay and loss are from then on |
//! | `desc` | a description |
//!
//! Where minitopo overlooks a mistake (a value it cannot read, changes out of order, a link that does not exist), this
//! import reports it.

mod entry;
mod experiment;
mod netem;
mod quantity;
mod topology;
mod writing;

use experiment::Experiment;
use pathbench_lab::scenario::{Ledger, Mistakes};
use topology::Topology;

/// minitopo begins to count at its own start: its experiments start the server, sleep this long, and start the client.
const HEAD_START_SECONDS: f64 = 2.0;

#[derive(Debug, Clone, Copy)]
pub struct MinitopoFile<'a> {
    pub name: &'a str,
    pub content: &'a [u8],
}

/// The text of the scenario that a topology, and an experiment in it, amount to.
pub fn import_minitopo(
    topology: MinitopoFile<'_>,
    experiment: Option<MinitopoFile<'_>>,
) -> Result<String, Mistakes> {
    let network = read(topology, Topology::read)?;
    let traffic = experiment.map(|file| read(file, Experiment::read)).transpose()?;
    Ok(writing::scenario(topology.name, &network, &traffic.unwrap_or_default()))
}

fn read<T>(file: MinitopoFile<'_>, reader: fn(&[entry::Entry], &Ledger) -> T) -> Result<T, Mistakes> {
    let ledger = Ledger::new(file.name);
    let entries = entry::entries(file.content, &ledger);
    let value = reader(&entries, &ledger);
    if ledger.is_empty() { Ok(value) } else { Err(ledger.into_mistakes()) }
}

#[cfg(test)]
pathbench_kerneltest::privilege_independent!();
