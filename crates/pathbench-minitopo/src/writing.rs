//! The scenario's text.

use super::experiment::{Experiment, Pattern};
use super::netem::{Loss, Netem};
use super::topology::{NetemAt, Path, Side, Topology};
use pathbench_record::units::{Rate, Span};
use std::fmt::Write as _;
use std::time::Duration;

/// How long `iperf` runs where nothing says how long, and at least how long after the last change.
const DURATION: Duration = Duration::from_secs(10);
const AFTERMATH: Duration = Duration::from_secs(5);

pub(super) fn scenario(file: &str, network: &Topology, traffic: &Experiment) -> String {
    let mut text = String::new();
    let title = name(file);
    head(&mut text, file, network, traffic);
    let description = if network.description.is_empty() {
        format!("imported from minitopo's {title}")
    } else {
        network.description.chars().take(200).collect()
    };
    line(&mut text, format_args!("name = {}", quoted(&title)));
    line(&mut text, format_args!("description = {}\n", quoted(&description)));
    line(&mut text, format_args!("[[router]]\nname = \"router\""));
    for side in [Side::C2r, Side::R2s] {
        for (position, path) in network.side(side).enumerate() {
            link(&mut text, network, path, position, traffic);
        }
    }
    if network.side(Side::R2s).next().is_none() {
        wire(&mut text, network);
    }
    hosts(&mut text, network, traffic);
    let duration = duration(network, traffic);
    for path in &network.paths {
        changes(&mut text, network, path, duration);
    }
    run(&mut text, traffic, duration);
    text
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{arguments}");
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text.replace(char::is_control, " ")).to_string()
}

/// The file's name without its directory, in letters that a scenario's name may have.
fn name(file: &str) -> String {
    let stem = file.rsplit('/').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = stem.chars().map(|c| if plain(c) { c } else { '_' }).take(64).collect();
    if name.is_empty() { "minitopo".to_owned() } else { name }
}

fn head(text: &mut String, file: &str, network: &Topology, traffic: &Experiment) {
    let shown = file.replace(char::is_control, " ");
    line(text, format_args!("# Imported from minitopo's topology {shown}."));
    if network.other_clients {
        line(
            text,
            format_args!(
                "# Its further clients and servers, one for each path, are left out: a scenario has one client."
            ),
        );
    }
    if network.changing && network.paths.iter().any(|path| !path.changes.is_empty()) {
        line(
            text,
            format_args!(
                "# minitopo counts the times of changes from its own start, and its traffic begins 2 s later.\n\
                 # Here they count from the first byte of data, so they are 2 s earlier."
            ),
        );
    }
    for note in &traffic.notes {
        line(text, format_args!("# {note}"));
    }
    line(text, format_args!(""));
}

fn ends(network: &Topology, side: Side, position: usize) -> String {
    let [left, right] = network.subnets;
    let (near, far) = match side {
        Side::C2r => (("client", 'c', left, 1), ("router", 'c', left, 2)),
        Side::R2s => (("router", 's', right, 2), ("server", 's', right, 1)),
    };
    let end = |(node, letter, [first, second], host): (&str, char, [u8; 2], u8)| {
        let interface =
            if node == "router" { format!("{letter}{position}") } else { format!("eth{position}") };
        let address = format!("{first}.{second}.{position}.{host}/24");
        format!("{{ node = \"{node}\", interface = \"{interface}\", address = \"{address}\" }}")
    };
    format!("ends = [\n    {},\n    {},\n]", end(near), end(far))
}

fn link(text: &mut String, network: &Topology, path: &Path, position: usize, traffic: &Experiment) {
    line(text, format_args!("\n# Line {}, {}:{}", path.entry.line, path.entry.key, path.entry.value));
    line(text, format_args!("[[link]]\nname = \"{}\"", path.name()));
    line(text, format_args!("{}", ends(network, path.side, position)));
    line(text, format_args!("delay = \"{}\"", Span(path.delay)));
    line(text, format_args!("rate = \"{}\"", Rate(path.rate_bps)));
    let bucket = path.bucket_bytes();
    if path.queue_given {
        line(
            text,
            format_args!("# minitopo's own holds {bucket} bytes: the bandwidth-delay product as well"),
        );
    } else {
        line(
            text,
            format_args!("# The file gives no queue; the bandwidth-delay product, of which minitopo's own"),
        );
        line(text, format_args!("# holds twice as much ({bucket} bytes)"));
    }
    line(text, format_args!("queue = \"{}p\"", path.queue_packets));
    if path.loss > 0.0 {
        line(text, format_args!("loss = \"{}%\"", path.loss));
    }
    let client = path.side == Side::C2r;
    if client && (path.backup || traffic.backup.get(position).copied().unwrap_or_default()) {
        line(text, format_args!("backup = true"));
    } else if path.backup {
        line(text, format_args!("# Only paths of the client can be for backup, in minitopo, too."));
    }
}

/// The cable between router and server of a topology that has no path there.
fn wire(text: &mut String, network: &Topology) {
    line(text, format_args!("\n# There is no path_r2s_N: router and server are linked directly."));
    line(text, format_args!("[[link]]\nname = \"r2s\"\n{}", ends(network, Side::R2s, 0)));
}

/// With several addresses at the server, each is told to the client, which opens a path from each of its own to it.
fn hosts(text: &mut String, network: &Topology, traffic: &Experiment) {
    for host in ["client", "server"] {
        if !traffic.sysctls.is_empty() {
            line(text, format_args!("\n[host.{host}.sysctl]"));
        }
        for (name, value) in &traffic.sysctls {
            line(text, format_args!("\"{name}\" = {}", quoted(value)));
        }
    }
    if network.side(Side::R2s).count() < 2 {
        return;
    }
    line(
        text,
        format_args!(
            "\n# minitopo's path manager is a full mesh of both hosts' addresses.\n[host.client.mptcp]\n\
             endpoints = ["
        ),
    );
    for (position, path) in network.side(Side::C2r).enumerate() {
        let backup = path.backup || traffic.backup.get(position).copied().unwrap_or_default();
        let flag = if backup { ", \"backup\"" } else { "" };
        line(
            text,
            format_args!("    {{ link = \"{}\", flags = [\"subflow\", \"fullmesh\"{flag}] }},", path.name()),
        );
    }
    line(text, format_args!("]\n\n[host.server.mptcp]\nendpoints = ["));
    for path in network.side(Side::R2s).skip(1) {
        line(text, format_args!("    {{ link = \"{}\", flags = [\"signal\"] }},", path.name()));
    }
    line(text, format_args!("]"));
}

fn duration(network: &Topology, traffic: &Experiment) -> Option<Duration> {
    let Pattern::Iperf { duration, .. } = traffic.pattern else { return None };
    let in_force = network.paths.iter().filter(|_| network.changing);
    let last = in_force.flat_map(|path| &path.changes).filter_map(|change| change.at).max();
    let enough = last.map_or(DURATION, |last| Duration::from_secs((last + AFTERMATH).as_secs() + 1));
    Some(duration.unwrap_or(enough.max(DURATION)))
}

fn changes(text: &mut String, network: &Topology, path: &Path, duration: Option<Duration>) {
    let mut so_far: Vec<&Netem> = Vec::new();
    for change in &path.changes {
        line(
            text,
            format_args!("\n# Line {}, {}:{}", change.entry.line, change.entry.key, change.entry.value),
        );
        if !network.changing {
            line(text, format_args!("# is not in force, in minitopo, too: changeNetem is not yes."));
            continue;
        }
        let at = change.at.unwrap_or_default();
        if duration.is_some_and(|duration| at >= duration) {
            line(text, format_args!("# comes when the traffic is over."));
            continue;
        }
        event(text, path, change, &so_far);
        so_far.push(&change.netem);
    }
}

/// A change takes back what those before it have set and it does not.
fn event(text: &mut String, path: &Path, change: &NetemAt, so_far: &[&Netem]) {
    let netem = &change.netem;
    let ever = |sets: fn(&Netem) -> bool| sets(netem) || so_far.iter().any(|before| sets(before));
    if change.at.is_none() {
        line(text, format_args!("# comes before the traffic."));
    }
    if netem.delay.is_zero() && !so_far.last().map_or(path.delay, |before| before.delay).is_zero() {
        line(text, format_args!("# It replaces all that netem did, the delay included."));
    }
    line(text, format_args!("[[event]]\nat = \"{}\"", Span(change.at.unwrap_or_default())));
    line(text, format_args!("link = \"{}\"\naction = \"set\"", path.name()));
    line(text, format_args!("delay = \"{}\"", Span(netem.delay)));
    if ever(|netem| !netem.jitter.is_zero()) {
        line(text, format_args!("jitter = \"{}\"", Span(netem.jitter)));
        line(text, format_args!("jitter_distribution = \"{}\"", netem.distribution.unwrap_or("uniform")));
        let comment = if netem.jitter.is_zero() { "" } else { "          # as netem's jitter does" };
        line(text, format_args!("reorder = {}{comment}", !netem.jitter.is_zero()));
    }
    match netem.loss {
        Loss::Independent(percent) => line(text, format_args!("loss = \"{percent}%\"")),
        Loss::Chain { to_bad, to_good, loss_bad, loss_good } => line(
            text,
            format_args!(
                "burst_loss = {{ to_bad = \"{to_bad}%\", to_good = \"{to_good}%\", loss_bad = \"{loss_bad}%\", \
                 loss_good = \"{loss_good}%\" }}"
            ),
        ),
    }
    if ever(|netem| netem.duplicate > 0.0) {
        line(text, format_args!("duplicate = \"{}%\"", netem.duplicate));
    }
    if ever(|netem| netem.corrupt > 0.0) {
        line(text, format_args!("corrupt = \"{}%\"", netem.corrupt));
    }
    if ever(|netem| netem.rate_bps.is_some()) {
        let rate_bps = netem.rate_bps.map_or(path.rate_bps, |bps| bps.min(path.rate_bps));
        line(text, format_args!("rate = \"{}\"", Rate(rate_bps)));
    }
}

fn run(text: &mut String, traffic: &Experiment, duration: Option<Duration>) {
    let transports: Vec<_> = traffic.transports.iter().map(|transport| quoted(transport)).collect();
    line(text, format_args!("\n[run]\ntransports = [{}]", transports.join(", ")));
    let pattern = match traffic.pattern {
        Pattern::Iperf { .. } => "iperf",
        Pattern::Bulk { .. } => "bulk",
        Pattern::Ping { .. } => "ping",
    };
    line(text, format_args!("pattern = \"{pattern}\""));
    if let Some(duration) = duration {
        line(text, format_args!("duration = \"{}\"", Span(duration)));
    }
    if let Some(congestion) = traffic.congestion {
        line(text, format_args!("congestion = \"{congestion}\""));
    }
    if traffic.tls {
        line(text, format_args!("tls = true"));
    }
    match traffic.pattern {
        Pattern::Iperf { streams, .. } => {
            line(text, format_args!("\n[run.iperf]\ndirection = \"upload\"\nstreams = {streams}"));
        }
        Pattern::Bulk { bytes } => line(text, format_args!("\n[run.bulk]\nbytes = {bytes}")),
        Pattern::Ping { count, interval, bytes } => {
            line(
                text,
                format_args!("\n[run.ping]\ncount = {count}\nwarm_up = 0\ninterval = \"{}\"", Span(interval)),
            );
            line(text, format_args!("request = {bytes}\nresponse = {bytes}"));
        }
    }
    if traffic.round_robin {
        line(text, format_args!("\n[run.quic]\nscheduler = \"round-robin\""));
    }
}
