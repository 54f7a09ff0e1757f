//! An experiment file, which describes the traffic in a topology.

use super::entry::KeyValue;
use super::quantity::{number, seconds};
use pathbench_lab::scenario::{At, MistakeLog};
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
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MinitopoPattern {
    Iperf { duration: Option<Duration>, streams: u64 },
    Bulk { bytes: u64 },
    Ping { count: u64, interval: Duration, bytes: u64 },
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
            notes: Vec::new(),
        }
    }
}

const TYPES: &str = "give iperf, ping, msg, http, https, pquic or none";

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
            experiment.setting(entry, ledger);
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

    fn setting(&mut self, entry: &KeyValue, ledger: &MistakeLog) {
        let value = entry.value.as_str();
        let left_out = |why: &str| {
            format!("{}:{value} (line {} of the experiment) is left out: {why}", entry.key(), entry.line)
        };
        match entry.key() {
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
            "kpm" | "kpmc" | "kpms" if value == "fullmesh" => {}
            "kpm" | "kpmc" | "kpms" => {
                self.notes.push(left_out("the scenario's endpoints determine the paths"));
            }
            "clientPcap" | "serverPcap" | "snaplenPcap" | "snaplen_pcap" => {
                if value != "no" && !entry.key().starts_with("snaplen") {
                    self.notes.push(left_out("capture = true at a link records its packets"));
                }
            }
            _ => self.notes.push(left_out("it has no counterpart")),
        }
    }
}
