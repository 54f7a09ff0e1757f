//! The topology of a fork of minitopo in YAML, in the subset that its files use: mappings and lists in block style, plain
//! and quoted scalars, comments. Anything else is a mistake.

use super::entry::KeyValue;
use pathbench_lab::scenario::{At, MistakeLog};
use std::collections::BTreeMap;

#[derive(Debug)]
struct Scalar {
    /// Keys from the top, with `-` for an element of a list.
    path: String,
    /// Number of list elements up to here.
    element: usize,
    line: u32,
    value: String,
}

const STYLE: &str = "write keys with their values, and lists with -, one a line and indented with blanks";
const KEYS: &str = "known are version, topology.type, topology.desc, topology.subnets.left and right, and in the elements of \
                    topology.paths: link_type, id, delay_ms, queue_pkts, bw_mbit, loss_pct, backup";

/// Whether a topology file is in YAML: minitopo's own files have neither of these keys.
pub(super) fn is_yaml(text: &str) -> bool {
    let lines = text.lines().map(without_comment).map(str::trim_end);
    let first =
        lines.filter(|line| !line.is_empty() && *line != "---").map(|line| line.split(':').next()).next();
    first.flatten().is_some_and(|key| key == "version" || key == "topology")
}

/// The entries of minitopo's own format with the same content.
pub(super) fn entries(text: &str, ledger: &MistakeLog) -> Vec<KeyValue> {
    let mut entries = Vec::new();
    let mut paths: BTreeMap<usize, Vec<Scalar>> = BTreeMap::new();
    for scalar in scalars(text, ledger) {
        let key = match scalar.path.as_str() {
            "version" => {
                if scalar.value != "1" {
                    let problem =
                        format!("`{}` is not a version of the format that can be imported", scalar.value);
                    ledger.wrong(&key_location(ledger, scalar.line, "version"), problem, "give version: 1");
                }
                continue;
            }
            "topology.type" => "topoType",
            "topology.desc" => "desc",
            "topology.subnets.left" => "leftSubnet",
            "topology.subnets.right" => "rightSubnet",
            path if path.starts_with("topology.paths.-.") => {
                paths.entry(scalar.element).or_default().push(scalar);
                continue;
            }
            path => {
                ledger.wrong(&key_location(ledger, scalar.line, path), "topologies have no such key", KEYS);
                continue;
            }
        };
        let dot = if key.ends_with("Subnet") && !scalar.value.ends_with('.') { "." } else { "" };
        entries.push(entry(ledger, scalar.line, key, format!("{}{dot}", scalar.value)));
    }
    entries.extend(paths.values().filter_map(|scalars| path(scalars, ledger)));
    entries
}

fn key_location(ledger: &MistakeLog, line: u32, key: &str) -> At {
    At::new(ledger.line(line), key)
}

fn entry(ledger: &MistakeLog, line: u32, key: &str, value: String) -> KeyValue {
    KeyValue { line, at: key_location(ledger, line, key), value }
}

/// An element of `topology.paths` as `path_c2r_0:delay,queue,bandwidth,loss,backup`.
fn path(scalars: &[Scalar], ledger: &MistakeLog) -> Option<KeyValue> {
    const KNOWN: [&str; 7] = ["link_type", "id", "delay_ms", "queue_pkts", "bw_mbit", "loss_pct", "backup"];
    let line = scalars.first()?.line;
    let mut values: [Option<&str>; 7] = [None; 7];
    for scalar in scalars {
        let key = scalar.path.rsplit('.').next().unwrap_or_default();
        let known = KNOWN.iter().position(|known| scalar.path == format!("topology.paths.-.{known}"));
        match known.and_then(|index| values.get_mut(index)) {
            Some(value @ None) if !scalar.value.contains(',') => *value = Some(&scalar.value),
            Some(None) => {
                let problem = format!("`{}` is not one value", scalar.value);
                ledger.wrong(&key_location(ledger, scalar.line, key), problem, "give one without a comma");
            }
            Some(Some(_)) => {
                ledger.wrong(
                    &key_location(ledger, scalar.line, key),
                    "the key is given twice",
                    "remove one of the two",
                );
            }
            None => ledger.wrong(&key_location(ledger, scalar.line, key), "paths have no such key", KEYS),
        }
    }
    let [side, id, delay, queue, bandwidth, loss, backup] = values;
    let needed = [("link_type", side), ("id", id), ("delay_ms", delay), ("bw_mbit", bandwidth)];
    for (key, _) in needed.iter().filter(|(_, value)| value.is_none()) {
        ledger.wrong(
            &key_location(ledger, line, key),
            "the path lacks this key",
            format!("add {key}: VALUE"),
        );
    }
    let (side, id, delay, bandwidth) = (side?, id?, delay?, bandwidth?);
    let further = [loss.or(backup.map(|_| "0")), backup].into_iter().flatten();
    let value = match queue {
        Some(queue) => [delay, queue, bandwidth].into_iter().chain(further).collect::<Vec<_>>().join(","),
        None if loss.is_none() && backup.is_none() => format!("{delay},{bandwidth}"),
        None => {
            let remedy = "add queue_pkts: VALUE";
            ledger.wrong(
                &key_location(ledger, line, "queue_pkts"),
                "a path with a loss or a backup flag needs a queue",
                remedy,
            );
            return None;
        }
    };
    Some(entry(ledger, line, &format!("path_{side}_{id}"), value))
}

/// The scalars with their paths.
fn scalars(text: &str, ledger: &MistakeLog) -> Vec<Scalar> {
    let mut scalars = Vec::new();
    // Level and name; keys are at even levels, elements of lists behind them.
    let mut around: Vec<(usize, String)> = Vec::new();
    let mut elements = 0;
    for (index, line) in text.lines().enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let mut rest = without_comment(line).trim_end();
        if rest.trim().is_empty() || rest == "---" {
            continue;
        }
        let mut indent = rest.len() - rest.trim_start_matches(' ').len();
        rest = rest.trim_start_matches(' ');
        while let Some(inner) = rest.strip_prefix("- ") {
            around.retain(|(level, _)| *level < indent * 2 + 1);
            around.push((indent * 2 + 1, "-".to_owned()));
            elements += 1;
            let inner_trimmed = inner.trim_start_matches(' ');
            indent += rest.len() - inner_trimmed.len();
            rest = inner_trimmed;
        }
        around.retain(|(level, _)| *level < indent * 2);
        let pair = rest.split_once(':').filter(|(key, value)| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            !key.is_empty() && key.chars().all(plain) && (value.is_empty() || value.starts_with(' '))
        });
        let value = pair.and_then(|(key, value)| Some((key, scalar(value.trim())?)));
        let Some((key, value)) = value.filter(|_| around.len() < 16) else {
            let shown: String = rest.chars().filter(|c| !c.is_control()).take(40).collect();
            let problem = format!("`{shown}` is no part of YAML that can be imported");
            ledger.wrong(&key_location(ledger, number, ""), problem, STYLE);
            continue;
        };
        if value.is_empty() {
            around.push((indent * 2, key.to_owned()));
            continue;
        }
        let path = around.iter().map(|(_, name)| name.as_str()).chain([key]).collect::<Vec<_>>().join(".");
        scalars.push(Scalar { path, element: elements, line: number, value });
    }
    scalars
}

/// A plain or quoted scalar; `None` for other syntax.
fn scalar(text: &str) -> Option<String> {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            let inner = inner.strip_suffix(quote)?;
            return (!inner.contains([quote, '\\'])).then(|| inner.to_owned());
        }
    }
    let special = text.starts_with(['[', '{', '|', '>', '&', '*', '!', '%', '@', '`']) || text.contains(": ");
    (!special && !text.contains(char::is_control)).then(|| text.to_owned())
}

fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (index, c) in line.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '#' && before.is_ascii_whitespace() => return line.get(..index).unwrap_or(line),
            None if (c == '"' || c == '\'') && before.is_ascii_whitespace() => quote = Some(c),
            _ => {}
        }
        before = c;
    }
    line
}
