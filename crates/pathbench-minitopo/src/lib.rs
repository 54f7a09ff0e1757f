//! Imports minitopo's files: converts a topology and an optional experiment into the text of a scenario, with comments
//! that name the source lines of each part. It never validates the scenario; the lab validates its text like any other.
//!
//! Source: <https://github.com/qdeconinck/minitopo> (`core/topo.py`, `core/parameter.py`, `topos/`, `experiments/`),
//! the wrapper of Mininet for multipath experiments since 2013. Its files have one `key:value` per line:
//!
//! | key | value |
//! |---|---|
//! | `topoType` | `MultiIf`, or `MultiIfMultiClient` (the import omits its further clients) |
//! | `leftSubnet`, `rightSubnet` | first two octets of the addresses left and right of the router: `10.1.`, `10.2.` |
//! | `path_c2r_N`, `path_r2s_N` | `delay,bandwidth` or `delay,queue,bandwidth[,loss][,backup]`: ms one way, packets, Mbit/s, %, `True` or `False`; a link from client to router or from router to server |
//! | `path_N`, `netemAt_N` | of files before 2020: as `path_c2r_N`, `netemAt_c2r_N` |
//! | `changeNetem` | `yes`: the next key is in effect |
//! | `netemAt_c2r_N`, `netemAt_r2s_N` | `seconds,arguments of netem`: the link's delay and loss from that time on |
//! | `desc` | a description |
//!
//! A fork has the same topology in YAML (`yaml.rs`).
//!
//! This import reports mistakes that minitopo ignores: invalid values, changes out of order, links that do not exist.

mod entry;
mod experiment;
mod netem;
mod quantity;
mod topology;
mod writing;
mod yaml;

use entry::KeyValue;
use experiment::MinitopoExperiment;
use pathbench_lab::scenario::{MistakeLog, Mistakes};
use topology::MinitopoTopology;

#[derive(Debug, Clone, Copy)]
pub struct MinitopoFile<'a> {
    pub name: &'a str,
    pub content: &'a [u8],
}

/// Converts a topology, and optionally an experiment in it, into the text of a scenario.
pub fn import_minitopo(
    topology: MinitopoFile<'_>,
    experiment: Option<MinitopoFile<'_>>,
) -> Result<String, Mistakes> {
    let network = read(topology, topology_entries, MinitopoTopology::read)?;
    let lenient = |content: &[u8], ledger: &MistakeLog| entry::entries(content, ledger, false);
    let traffic = experiment.map(|file| read(file, lenient, MinitopoExperiment::read)).transpose()?;
    Ok(writing::scenario(topology.name, &network, &traffic.unwrap_or_default()))
}

fn topology_entries(content: &[u8], ledger: &MistakeLog) -> Vec<KeyValue> {
    match std::str::from_utf8(content).map(entry::normalise) {
        Ok(text) if content.len() <= entry::MOST_BYTES && yaml::is_yaml(&text) => {
            yaml::entries(&text, ledger)
        }
        _ => entry::entries(content, ledger, true),
    }
}

fn read<T>(
    file: MinitopoFile<'_>,
    entries: impl Fn(&[u8], &MistakeLog) -> Vec<KeyValue>,
    reader: fn(&[KeyValue], &MistakeLog) -> T,
) -> Result<T, Mistakes> {
    let ledger = MistakeLog::new(file.name, entry::normalise(&String::from_utf8_lossy(file.content)));
    let entries = entries(file.content, &ledger);
    let value = reader(&entries, &ledger);
    if ledger.is_empty() { Ok(value) } else { Err(ledger.into_mistakes()) }
}
