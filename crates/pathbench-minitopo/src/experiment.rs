//! An experiment file, which describes the traffic in a topology.

use super::entry::KeyValue;
use super::quantity::{number, seconds, size};
use pathbench_lab::scenario::{At, MistakeLog};
use std::ops::RangeInclusive;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct MinitopoExperiment {
    pub(super) transports: Vec<&'static str>,
    pub(super) pattern: MinitopoPattern,
    pub(super) congestion: Option<&'static str>,
    /// Name and value of sysctls of both hosts.
    pub(super) sysctls: Vec<(&'static str, String)>,
    pub(super) backup: [bool; 2],
    pub(super) round_robin: bool,
    pub(super) tls: bool,
    /// A path manager that uses one path, as the file names it, and how.
    pub(super) single_subflow: Option<(String, &'static str)>,
    /// Whether the server announces its further addresses.
    pub(super) server_announces: bool,
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MinitopoPattern {
    Iperf {
        duration: Option<Duration>,
        streams: u64,
    },
    /// A sender whose application has a rate.
    Limited {
        bytes: u64,
        rate_bps: u64,
    },
    Bulk {
        bytes: u64,
    },
    Ping {
        count: u64,
        interval: Duration,
        bytes: u64,
    },
}

impl Default for MinitopoExperiment {
    /// Without an experiment file, compares TCP with MPTCP.
    fn default() -> Self {
        Self {
            transports: vec!["tcp", "mptcp"],
            pattern: MinitopoPattern::Iperf { duration: None, streams: 1 },
            congestion: None,
            sysctls: Vec::new(),
            backup: [false; 2],
            round_robin: false,
            tls: false,
            single_subflow: None,
            server_announces: true,
            notes: Vec::new(),
        }
    }
}

const TYPES: &str = "give iperf, ping, msg, http, https, nc, ncpv, pquic or none";
/// Keys of the types `nc` and `ncpv`, read with their pattern.
const NETCAT_KEYS: [&str; 6] = ["ddIBS", "ddCount", "pvRateLimit", "changePv", "changePvAt", "ncServerPort"];
/// Least and most of `rate` and `bytes` of `throughput`.
const RATES: RangeInclusive<u64> = 8_000..=100_000_000_000;
const MOST_BYTES: u64 = 10_000_000_000;

struct Reader<'a> {
    entries: &'a [KeyValue],
    ledger: &'a MistakeLog,
}

impl<'a> Reader<'a> {
    fn get(&self, key: &str) -> Option<&'a KeyValue> {
        self.entries.iter().rev().find(|entry| entry.key() == key)
    }

    fn number(&self, key: &str, default: f64, least: f64, most: f64) -> f64 {
        let Some(entry) = self.get(key) else { return default };
        let value = number(&entry.value).filter(|value| (least..=most).contains(value));
        if value.is_none() {
            let problem = format!("`{}` is not a number from {least} to {most}", entry.value);
            self.ledger.wrong(&entry.at, problem, "correct it");
        }
        value.unwrap_or(default)
    }

    fn whole(&self, key: &str, default: u64, least: u64, most: u64) -> u64 {
        let value = self.number(key, default as f64, least as f64, most as f64);
        if let Some(entry) = self.get(key).filter(|_| value.fract() != 0.0) {
            let problem = format!("`{}` is not a whole number", entry.value);
            self.ledger.wrong(&entry.at, problem, "leave the fraction out");
        }
        value as u64
    }

    /// Bytes with a suffix, as dd(1) and pv(1) take them.
    fn size(&self, key: &str, default: u64, range: RangeInclusive<u64>) -> u64 {
        let Some(entry) = self.get(key) else { return default };
        let value = size(&entry.value).filter(|bytes| range.contains(bytes));
        if value.is_none() {
            let problem =
                format!("`{}` is not a size from {} to {} bytes", entry.value, range.start(), range.end());
            self.ledger.wrong(&entry.at, problem, "write a number with k, m or g for 1024, 1024², 1024³");
        }
        value.unwrap_or(default)
    }

    /// The data of dd: blocks of `ddIBS` bytes.
    fn data_bytes(&self) -> u64 {
        let block = self.size("ddIBS", 1_024, 1..=MOST_BYTES);
        let bytes = block.saturating_mul(self.whole("ddCount", 5_000, 1, 1_000_000_000));
        if bytes > MOST_BYTES {
            let at = self.get("ddCount").or(self.get("ddIBS")).map(|entry| &entry.at);
            let problem = format!("ddCount blocks of ddIBS bytes are {bytes} bytes");
            if let Some(at) = at {
                self.ledger.wrong(at, problem, format!("transfer at most {MOST_BYTES} bytes"));
            }
        }
        bytes.min(MOST_BYTES)
    }
}

impl MinitopoExperiment {
    pub(super) fn read(entries: &[KeyValue], ledger: &MistakeLog) -> Self {
        let reader = Reader { entries, ledger };
        let mut experiment = Self::default();
        let kind = reader.get("xpType").map_or("none", |entry| entry.value.as_str());
        experiment.pattern(kind, &reader);
        if kind != "none" && kind != "pquic" {
            let multipath = reader.whole("mptcpEnabled", 1, 0, 1) == 1;
            experiment.transports = vec![if multipath { "mptcp" } else { "tcp" }];
        }
        for (index, key) in ["backup_path_0", "backup_path_1"].into_iter().enumerate() {
            experiment.backup[index] = reader.whole(key, 0, 0, 1) == 1;
        }
        for entry in entries {
            let is_netcat_key = NETCAT_KEYS.contains(&entry.key()) || entry.key().starts_with("ncClientPort");
            if !(is_netcat_key && ["nc", "ncpv"].contains(&kind)) {
                experiment.setting(entry, ledger);
            }
        }
        experiment
    }

    fn pattern(&mut self, kind: &str, reader: &Reader<'_>) {
        let second = Duration::from_secs(1);
        self.pattern = match kind {
            "none" => MinitopoPattern::Iperf { duration: None, streams: 1 },
            "iperf" => MinitopoPattern::Iperf {
                duration: seconds(reader.number("iperfTime", 10.0, 1.0, 86_400.0)),
                streams: reader.whole("iperfParallel", 1, 1, 128),
            },
            "ping" => MinitopoPattern::Ping {
                count: reader.whole("pingCount", 5, 1, 10_000),
                interval: second,
                bytes: 56,
            },
            "msg" => MinitopoPattern::Ping {
                count: reader.whole("msgNbRequests", 5, 1, 10_000),
                interval: seconds(reader.number("msgClientSleep", 5.0, 0.001, 60.0)).unwrap_or(second),
                bytes: reader.whole("msgBytes", 1_200, 4, 65_536),
            },
            "http" | "https" => {
                self.tls = kind == "https";
                let kibibytes = reader.whole("file_size", 1_024, 1, 10_000_000);
                if reader.get("file").is_some_and(|entry| entry.value != "random") {
                    self.notes.push("file: that file is not at hand; one of file_size is sent".to_owned());
                }
                MinitopoPattern::Bulk { bytes: kibibytes * 1_024 }
            }
            "nc" => {
                self.notes.push(
                    "nc: dd reads random numbers, which may be slower than the paths; the data are sent as fast as possible here"
                        .to_owned(),
                );
                self.only_first_port(reader);
                MinitopoPattern::Bulk { bytes: reader.data_bytes() }
            }
            "ncpv" => self.pipe_viewer(reader),
            "pquic" => {
                let multipath =
                    |entry: &&KeyValue| entry.key().ends_with("lugins") && entry.value.contains("multipath");
                let plugin = reader.entries.iter().find(multipath);
                self.transports = vec![if plugin.is_some() { "mpquic" } else { "quic" }];
                self.round_robin = plugin.is_some_and(|entry| entry.value.contains("_rr"));
                MinitopoPattern::Bulk { bytes: reader.whole("pquicSize", 10_240_000, 1, 10_000_000_000) }
            }
            other => {
                let problem = format!("experiments of the type `{other}` cannot be imported");
                let top = At::new(reader.ledger.line(1), "xpType");
                reader.ledger.wrong(reader.get("xpType").map_or(&top, |entry| &entry.at), problem, TYPES);
                return;
            }
        };
    }

    /// Netcat behind pv(1), which limits the rate: the client sends.
    fn pipe_viewer(&mut self, reader: &Reader<'_>) -> MinitopoPattern {
        let least = RATES.start().div_ceil(8);
        let bytes_per_second = reader.size("pvRateLimit", 400 * 1_024, least..=RATES.end() / 8);
        self.notes.push(
            "ncpv becomes throughput: pv lets a second's data pass in lumps, an application with a rate writes evenly; the \
             pings before are left out"
                .to_owned(),
        );
        if reader.get("changePv").is_some_and(|entry| entry.value == "yes") {
            for entry in reader.entries.iter().filter(|entry| entry.key() == "changePvAt") {
                let why = "the application's rate stays the same during a run";
                self.notes.push(format!(
                    "changePvAt:{} (line {} of the experiment) is left out: {why}",
                    entry.value, entry.line
                ));
            }
        }
        self.only_first_port(reader);
        MinitopoPattern::Limited { bytes: reader.data_bytes(), rate_bps: bytes_per_second * 8 }
    }

    fn only_first_port(&mut self, reader: &Reader<'_>) {
        let ports = reader.entries.iter().filter(|entry| entry.key().starts_with("ncClientPort")).count();
        if ports > 1 {
            self.notes.push(format!(
                "ncClientPort: minitopo repeats the transfer for each of {ports} ports; repeat = {ports} in [run] does so"
            ));
        }
    }

    fn path_manager(&mut self, entry: &KeyValue) {
        let server_only = entry.key() == "kpms";
        let named = format!("{}:{} (line {} of the experiment)", entry.key(), entry.value, entry.line);
        match entry.value.as_str() {
            "fullmesh" => {}
            "default" if server_only => self.server_announces = false,
            "default" => {
                self.single_subflow = Some((named, "the client opens no further subflow, so MPTCP uses one path."));
            }
            "ndiffports" if server_only => {
                self.notes.push(format!("{named} is left out: only the client opens subflows"));
            }
            "ndiffports" => {
                let why = "MPTCP uses one path. The further subflows over the same pair of addresses are left out: the \
                           kernel's path manager opens one for a pair.";
                self.single_subflow = Some((named, why));
            }
            _ => self.notes.push(format!(
                "{named} is left out: the kernel's MPTCP has no such path manager; the paths are a full mesh here"
            )),
        }
    }

    fn setting(&mut self, entry: &KeyValue, ledger: &MistakeLog) {
        let value = entry.value.as_str();
        let left_out = |why: &str| {
            format!("{}:{value} (line {} of the experiment) is left out: {why}", entry.key(), entry.line)
        };
        match entry.key() {
            "" => self.notes.push(format!(
                "`{value}` (line {} of the experiment) is left out: minitopo ignores a line without a colon, too",
                entry.line
            )),
            "xpType" | "mptcpEnabled" | "iperfTime" | "iperfParallel" | "pingCount" | "msgClientSleep"
            | "msgNbRequests" | "msgBytes" | "file" | "file_size" | "pquicSize" | "pquicPlugins"
            | "pquicClientPlugins" | "pquicServerPlugins" | "backup_path_0" | "backup_path_1" => {}
            "congctrl" => match ["cubic", "reno", "bbr"].into_iter().find(|known| *known == value) {
                Some(known) => self.congestion = Some(known),
                None => self.notes.push(left_out("not a congestion control of the unpatched kernel")),
            },
            "rmem" | "wmem" => {
                let sizes: Vec<_> = value.split_ascii_whitespace().map(str::parse::<u32>).collect();
                let increasing =
                    sizes.iter().flatten().is_sorted() && sizes.iter().flatten().all(|size| *size > 0);
                if sizes.len() != 3 || sizes.iter().any(Result::is_err) || !increasing {
                    let remedy = "give least, default and most bytes, as in 4096 87380 16777216";
                    let problem = format!("`{value}` is not three sizes in their order");
                    return ledger.wrong(&entry.at, problem, remedy);
                }
                let name = if entry.key() == "rmem" { "net.ipv4.tcp_rmem" } else { "net.ipv4.tcp_wmem" };
                self.sysctls.retain(|(known, _)| *known != name);
                self.sysctls.push((name, value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")));
            }
            "sched" if value == "default" => {}
            "sched" => self.notes.push(left_out("the kernel's MPTCP has its own scheduler only")),
            "kpm" | "kpmc" | "kpms" => self.path_manager(entry),
            "pvG" | "pvZ" => self.notes.push(left_out("an option of minitopo's own pv")),
            "clientPcap" | "serverPcap" | "snaplenPcap" | "snaplen_pcap" => {
                if value != "no" && !entry.key().starts_with("snaplen") {
                    self.notes.push(left_out("capture = true at a link records its packets"));
                }
            }
            _ => self.notes.push(left_out("it has no counterpart")),
        }
    }
}
