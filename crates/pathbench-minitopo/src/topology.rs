//! A topology file.

use super::entry::KeyValue;
use super::netem::NetemArguments;
use super::quantity::{milliseconds, number, rounded_percent, seconds};
use pathbench_lab::scenario::{At, MistakeLog};
use std::time::Duration;

/// minitopo's times begin at its own start: its experiments start the server, sleep this long, and start the client.
const HEAD_START_SECONDS: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RouterSide {
    C2r,
    R2s,
}

impl RouterSide {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::C2r => "c2r",
            Self::R2s => "r2s",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::C2r, Self::R2s].into_iter().find(|side| side.name() == name)
    }
}

#[derive(Debug, Clone)]
pub(super) struct TopologyPath {
    pub(super) side: RouterSide,
    pub(super) number: u32,
    pub(super) entry: KeyValue,
    pub(super) delay: Duration,
    pub(super) rate_bps: u64,
    pub(super) queue_packets: u64,
    pub(super) queue_given: bool,
    pub(super) loss: f64,
    pub(super) backup: bool,
    /// Written as `path_N`.
    pub(super) is_old: bool,
    pub(super) changes: Vec<NetemAt>,
}

impl TopologyPath {
    pub(super) fn name(&self) -> String {
        format!("{}_{}", self.side.name(), self.number)
    }

    /// Size of minitopo's token bucket (`buffer_size`): the bandwidth-delay product of a round trip in packets of 1500
    /// bytes, plus the queue. The queue's delay is rounded to whole milliseconds, with a megabit of 2²⁰ bits.
    pub(super) fn bucket_bytes(&self) -> u64 {
        let mbps = self.rate_bps as f64 / 1e6;
        let queuing_ms =
            (self.queue_packets as f64 * 1_500.0 * 8.0 * 1_000.0 / (mbps * 1_048_576.0)).floor().max(1.0);
        let product = round_trip_packets(self.delay, self.rate_bps) as f64 * 1_500.0;
        (product + mbps * 1_000.0 * queuing_ms / 8.0).round() as u64
    }
}

#[derive(Debug, Clone)]
pub(super) struct NetemAt {
    pub(super) entry: KeyValue,
    /// Time since minitopo's start.
    seconds: f64,
    pub(super) netem: NetemArguments,
}

impl NetemAt {
    /// Time since the first byte of data; `None` if the change is earlier.
    pub(super) fn time(&self) -> Option<Duration> {
        seconds(self.seconds - HEAD_START_SECONDS)
    }
}

#[derive(Debug)]
pub(super) struct MinitopoTopology {
    pub(super) description: String,
    pub(super) subnets: [[u8; 2]; 2],
    pub(super) other_clients: bool,
    pub(super) paths: Vec<TopologyPath>,
    pub(super) changing: bool,
}

const TYPES: &str =
    "give MultiIf, the type that can be imported (or MultiIfMultiClient, of which only the first client is)";
const LONGEST: &str = "give delay,bandwidth or delay,queue,bandwidth[,loss][,backup]: ms one way, packets, Mbit/s, %, False or True (0 or 1 behind a loss)";
/// The kernel supports eight MPTCP endpoints, and one octet of the addresses is the number of the link.
const MOST_PATHS: usize = 8;

impl MinitopoTopology {
    pub(super) fn read(entries: &[KeyValue], ledger: &MistakeLog) -> Self {
        let mut topology = Self {
            description: String::new(),
            subnets: [[10, 1], [10, 2]],
            other_clients: false,
            paths: Vec::new(),
            changing: false,
        };
        no_key_twice(entries, ledger);
        let mut changes = Vec::new();
        for entry in entries {
            match entry.key() {
                "topoType" => topology.other_clients = is_multi_client(entry, ledger),
                "desc" => topology.description.clone_from(&entry.value),
                "leftSubnet" => topology.subnets[0] = subnet(entry, ledger).unwrap_or([10, 1]),
                "rightSubnet" => topology.subnets[1] = subnet(entry, ledger).unwrap_or([10, 2]),
                "changeNetem" => topology.changing = entry.value == "yes",
                key if key.starts_with("path") => topology.paths.extend(path(entry, ledger)),
                key if key.starts_with("netemAt") => changes.push(entry),
                _ => {
                    let remedy = "known are topoType, leftSubnet, rightSubnet, path_c2r_N, path_r2s_N, changeNetem, \
                                  netemAt_c2r_N, netemAt_r2s_N, desc";
                    ledger.wrong(&entry.at, "minitopo's topologies have no such key", remedy);
                }
            }
        }
        no_link_twice(&topology.paths, ledger);
        topology.paths.sort_by_key(|path| (path.side, path.number));
        for entry in changes {
            topology.change(entry, ledger);
        }
        topology.check(entries, ledger);
        topology
    }

    pub(super) fn side(&self, side: RouterSide) -> impl Iterator<Item = &TopologyPath> {
        self.paths.iter().filter(move |path| path.side == side)
    }

    fn change(&mut self, entry: &KeyValue, ledger: &MistakeLog) {
        let Some((side, number)) = identity(entry, "netemAt", ledger) else { return };
        let change = match change(entry) {
            Ok(change) => change,
            Err((problem, remedy)) => return ledger.wrong(&entry.at, problem, remedy),
        };
        let found = self.paths.iter_mut().find(|path| (path.side, path.number) == (side, number));
        let Some(path) = found else {
            // An invalid path has already been reported.
            if ledger.is_empty() {
                let problem = format!("there is no path_{}_{number}", side.name());
                ledger.wrong(&entry.at, problem, "name a path of this file");
            }
            return;
        };
        if path.changes.last().is_some_and(|before| change.seconds <= before.seconds) {
            let remedy = "write the changes of a path in the order of their times";
            ledger.wrong(&entry.at, "the change does not come after the one before it", remedy);
        }
        path.changes.push(change);
    }

    fn check(&self, entries: &[KeyValue], ledger: &MistakeLog) {
        if !ledger.is_empty() {
            return;
        }
        let top = |key: &str| At::new(ledger.line(1), key);
        if !entries.iter().any(|entry| entry.key() == "topoType") {
            ledger.wrong(&top("topoType"), "the type of the topology is missing", TYPES);
        }
        if self.side(RouterSide::C2r).next().is_none() {
            let remedy = "add one, as in path_c2r_0:20,80,20";
            ledger.wrong(&top("path_c2r_0"), "the file has no path of the client", remedy);
        }
        for side in [RouterSide::C2r, RouterSide::R2s] {
            if let Some(path) = self.side(side).nth(MOST_PATHS) {
                let problem = format!("there are more than {MOST_PATHS} paths on one side of the router");
                ledger.wrong(&path.entry.at, problem, "take some away");
            }
        }
        if self.subnets[0] == self.subnets[1] {
            let entry =
                entries.iter().find(|entry| entry.key() == "rightSubnet" || entry.key() == "leftSubnet");
            let location = entry.map_or(top("").location, |entry| entry.at.location);
            let problem = "both sides of the router have the same subnets";
            let remedy = "give leftSubnet and rightSubnet different ones";
            ledger.wrong(&At::new(location, "rightSubnet"), problem, remedy);
        }
    }
}

fn no_key_twice(entries: &[KeyValue], ledger: &MistakeLog) {
    for (index, entry) in entries.iter().enumerate() {
        let before = entries[..index].iter().find(|before| before.key() == entry.key());
        if let Some(before) = before.filter(|_| !entry.key().starts_with("netemAt")) {
            let problem = format!("the key stands in line {} as well", before.line);
            ledger.wrong(&entry.at, problem, "remove one of the two");
        }
    }
}

/// `path_0` and `path_c2r_0` are the same link.
fn no_link_twice(paths: &[TopologyPath], ledger: &MistakeLog) {
    for (index, path) in paths.iter().enumerate() {
        let same = |before: &&TopologyPath| (before.side, before.number) == (path.side, path.number);
        if let Some(before) = paths[..index].iter().find(same).filter(|before| before.is_old != path.is_old) {
            let problem = format!("line {} has the same link", before.entry.line);
            ledger.wrong(&path.entry.at, problem, "remove one of the two");
        }
    }
}

fn is_multi_client(entry: &KeyValue, ledger: &MistakeLog) -> bool {
    if !["MultiIf", "MultiIfMultiClient"].contains(&entry.value.as_str()) {
        ledger.wrong(&entry.at, format!("the type `{}` cannot be imported", entry.value), TYPES);
    }
    entry.value == "MultiIfMultiClient"
}

/// Parses the first two octets of addresses: `10.1.`.
fn subnet(entry: &KeyValue, ledger: &MistakeLog) -> Option<[u8; 2]> {
    let octets = entry.value.strip_suffix('.').and_then(|text| text.split_once('.'));
    let octet = |text: &str| text.parse::<u8>().ok().filter(|octet| octet.to_string() == text);
    let pair = octets.and_then(|(first, second)| Some([octet(first)?, octet(second)?]));
    let usable = pair.filter(|[first, _]| (1..=223).contains(first) && *first != 127);
    if usable.is_none() {
        let problem = format!("`{}` is not the begin of addresses that hosts can have", entry.value);
        ledger.wrong(&entry.at, problem, "give two octets with a dot after each, as in 10.1.");
    }
    usable
}

/// Side and number in `path_c2r_0` or `netemAt_c2r_0`.
fn identity(entry: &KeyValue, prefix: &str, ledger: &MistakeLog) -> Option<(RouterSide, u32)> {
    let rest = entry.key().strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_'));
    // `path_N` of old files is the link from the client to the router.
    let pair = rest.map(|rest| rest.split_once('_').unwrap_or(("c2r", rest)));
    let number =
        |text: &str| text.parse::<u32>().ok().filter(|number| *number < 1_000 && number.to_string() == text);
    let identity = pair.and_then(|(side, text)| Some((RouterSide::parse(side)?, number(text)?)));
    if identity.is_none() {
        let remedy = format!(
            "write {prefix}_c2r_N (or {prefix}_N, as old files do) for the link N from client to router, {prefix}_r2s_N for \
             that from router to server"
        );
        ledger.wrong(&entry.at, "the key names no link", remedy);
    }
    identity
}

fn round_trip_packets(delay: Duration, rate_bps: u64) -> u64 {
    (rate_bps as f64 / 8.0 * 2.0 * delay.as_secs_f64() / 1_500.0).ceil() as u64
}

fn path(entry: &KeyValue, ledger: &MistakeLog) -> Option<TopologyPath> {
    let (side, number) = identity(entry, "path", ledger)?;
    let path = values(entry, side, number).map_err(|problem| ledger.wrong(&entry.at, problem, LONGEST));
    path.ok()
}

fn values(entry: &KeyValue, side: RouterSide, number_of_path: u32) -> Result<TopologyPath, String> {
    let text = entry.value.as_str();
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    let (delay, queue, bandwidth, loss, backup) = match fields[..] {
        [delay, bandwidth] => (delay, None, bandwidth, "0", "0"),
        [delay, queue, bandwidth] => (delay, Some(queue), bandwidth, "0", "0"),
        // minitopo takes a fourth value that is no number as the flag.
        [delay, queue, bandwidth, flag @ ("True" | "False" | "true" | "false")] => {
            (delay, Some(queue), bandwidth, "0", flag)
        }
        [delay, queue, bandwidth, loss] => (delay, Some(queue), bandwidth, loss, "0"),
        [delay, queue, bandwidth, loss, backup] => (delay, Some(queue), bandwidth, loss, backup),
        _ => return Err(format!("`{text}` has {} values", fields.len())),
    };
    let limited = |what: &str, text: &str, least: f64, most: f64, unit: &str| {
        let value = number(text).ok_or_else(|| format!("the {what} `{text}` is not a number"))?;
        if (least..=most).contains(&value) {
            return Ok(value);
        }
        Err(format!("the {what} `{text}` is not between {least} and {most} {unit}"))
    };
    let delay = limited("delay", delay, 0.0, 60_000.0, "ms")?;
    let mbps = limited("bandwidth", bandwidth, 0.008, 100_000.0, "Mbit/s")?;
    let queue_packets = queue.map(|queue| {
        let packets =
            queue.parse::<u64>().map_err(|_| format!("the queue `{queue}` is not a number of packets"))?;
        limited("queue", queue, 1.0, 1_000_000.0, "packets").map(|_| packets)
    });
    let loss = limited("loss", loss, 0.0, 100.0, "%")?;
    let backup = match backup {
        "0" | "False" | "false" => false,
        "1" | "True" | "true" => true,
        _ => return Err(format!("the backup flag `{backup}` is neither 0 nor 1, neither False nor True")),
    };
    let delay = milliseconds(delay).unwrap_or_default();
    let rate_bps = (mbps * 1e6).round() as u64;
    let usual_packets = round_trip_packets(delay, rate_bps).max(1);
    Ok(TopologyPath {
        side,
        number: number_of_path,
        entry: entry.clone(),
        delay,
        rate_bps,
        queue_packets: queue_packets.transpose()?.unwrap_or(usual_packets),
        queue_given: queue.is_some(),
        loss: rounded_percent(loss),
        backup,
        is_old: entry.key().strip_prefix("path_").is_some_and(|rest| !rest.contains('_')),
        changes: Vec::new(),
    })
}

fn change(entry: &KeyValue) -> Result<NetemAt, (String, String)> {
    let example = "write seconds,arguments of netem, as in 5,delay 20ms loss 1%";
    let Some((at, arguments)) = entry.value.split_once(',') else {
        return Err((format!("`{}` has no comma", entry.value), example.to_owned()));
    };
    let seconds = number(at.trim()).filter(|seconds| *seconds <= 86_000.0);
    let seconds = seconds.ok_or_else(|| {
        (format!("`{}` is not a number of seconds of a day", at.trim()), example.to_owned())
    })?;
    if arguments.contains(',') {
        return Err(("there is more than one comma".to_owned(), example.to_owned()));
    }
    Ok(NetemAt { entry: entry.clone(), seconds, netem: NetemArguments::read(arguments)? })
}
