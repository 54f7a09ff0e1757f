//! The scenario's text.

use super::experiment::{MinitopoExperiment, MinitopoPattern};
use super::netem::{LimitEffect, NetemArguments, NetemLoss, NetemReorder};
use super::topology::{MinitopoTopology, NetemAt, RouterSide, TopologyPath};
use pathbench_record::units::{Rate, Span};
use std::time::Duration;

/// Default duration of `throughput`, and minimum time after the last change.
const DURATION: Duration = Duration::from_secs(10);
const AFTERMATH: Duration = Duration::from_secs(5);

pub(super) fn scenario(file: &str, network: &MinitopoTopology, traffic: &MinitopoExperiment) -> String {
    let mut text = Vec::new();
    let title = name(file);
    head(&mut text, file, network, traffic);
    let description = if network.description.is_empty() {
        format!("imported from minitopo's {title}")
    } else {
        network.description.chars().take(200).collect()
    };
    text.push(format!("name = {}", quote(&title)));
    text.push(format!("description = {}\n", quote(&description)));
    text.push("[[router]]\nname = \"router\"".to_owned());
    for side in [RouterSide::C2r, RouterSide::R2s] {
        for (position, path) in network.side(side).enumerate() {
            link(&mut text, network, path, position, traffic);
        }
    }
    if network.side(RouterSide::R2s).next().is_none() {
        wire(&mut text, network);
    }
    hosts(&mut text, network, traffic);
    let duration = duration(network, traffic);
    for path in &network.paths {
        changes(&mut text, network, path, duration);
    }
    run(&mut text, traffic, duration);
    text.join("\n") + "\n"
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text.replace(char::is_control, " ")).to_string()
}

/// The file's name without its directory, reduced to characters that are allowed in a scenario's name.
fn name(file: &str) -> String {
    let stem = file.rsplit('/').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = stem.chars().map(|c| if plain(c) { c } else { '_' }).take(64).collect();
    if name.is_empty() { "minitopo".to_owned() } else { name }
}

fn head(text: &mut Vec<String>, file: &str, network: &MinitopoTopology, traffic: &MinitopoExperiment) {
    let shown = file.replace(char::is_control, " ");
    text.push(format!("# Imported from minitopo's topology {shown}."));
    if network.other_clients {
        text.push(
            "# Its further clients and servers, one for each path, are left out: a scenario has one client."
                .to_owned(),
        );
    }
    if network.changing && network.paths.iter().any(|path| !path.changes.is_empty()) {
        text.push(
            "# minitopo counts the times of changes from its own start, and its traffic begins 2 s later.\n\
                 # Here they count from the first byte of data, so they are 2 s earlier."
                .to_owned(),
        );
    }
    for note in &traffic.notes {
        text.push(format!("# {note}"));
    }
    text.push(String::new());
}

fn ends(network: &MinitopoTopology, side: RouterSide, position: usize) -> String {
    let [left, right] = network.subnets;
    let (near, far) = match side {
        RouterSide::C2r => (("client", 'c', left, 1), ("router", 'c', left, 2)),
        RouterSide::R2s => (("router", 's', right, 2), ("server", 's', right, 1)),
    };
    let end = |(node, letter, [first, second], host): (&str, char, [u8; 2], u8)| {
        let interface =
            if node == "router" { format!("{letter}{position}") } else { format!("eth{position}") };
        let address = format!("{first}.{second}.{position}.{host}/24");
        format!("{{ node = \"{node}\", interface = \"{interface}\", address = \"{address}\" }}")
    };
    format!("ends = [\n    {},\n    {},\n]", end(near), end(far))
}

fn link(
    text: &mut Vec<String>,
    network: &MinitopoTopology,
    path: &TopologyPath,
    position: usize,
    traffic: &MinitopoExperiment,
) {
    text.push(format!("\n# Line {}, {}:{}", path.entry.line, path.entry.key(), path.entry.value));
    text.push(format!("[[link]]\nname = \"{}\"", path.name()));
    text.push(ends(network, path.side, position));
    text.push(format!("delay = \"{}\"", Span(path.delay)));
    text.push(format!("rate = \"{}\"", Rate(path.rate_bps)));
    let bucket = path.bucket_bytes();
    if path.is_old {
        // TCIntf of Mininet puts netem, with the queue as its limit, below the rate.
        text.push(
            "# In Mininet, the packets in the delay take places of the queue; here they do not.".to_owned(),
        );
        let most = u128::from(path.queue_packets) * 1_500 * 8 * 1_000_000_000 / path.delay.as_nanos().max(1);
        if most < u128::from(path.rate_bps) {
            text.push(format!("# At most {:.3} Mbit/s pass there.", most as f64 / 1e6));
        }
    } else if path.queue_given {
        text.push(format!("# minitopo's own holds {bucket} bytes: the bandwidth-delay product as well"));
    } else {
        text.push(
            "# The file gives no queue; the bandwidth-delay product, of which minitopo's own".to_owned(),
        );
        text.push(format!("# holds twice as much ({bucket} bytes)"));
    }
    text.push(format!("queue = \"{}p\"", path.queue_packets));
    if path.loss > 0.0 {
        text.push(format!("loss = \"{}%\"", path.loss));
    }
    let client = path.side == RouterSide::C2r;
    if client && (path.backup || traffic.backup.get(position).copied().unwrap_or_default()) {
        text.push("backup = true".to_owned());
    } else if path.backup {
        text.push("# Only paths of the client can be for backup, in minitopo, too.".to_owned());
    }
}

/// The link between router and server in a topology without a path between them.
fn wire(text: &mut Vec<String>, network: &MinitopoTopology) {
    text.push("\n# There is no path_r2s_N: router and server are linked directly.".to_owned());
    text.push(format!("[[link]]\nname = \"r2s\"\n{}", ends(network, RouterSide::R2s, 0)));
}

/// If it has several addresses, the server announces each to the client, which opens a path from each of its addresses.
fn hosts(text: &mut Vec<String>, network: &MinitopoTopology, traffic: &MinitopoExperiment) {
    for host in ["client", "server"] {
        if !traffic.sysctls.is_empty() {
            text.push(format!("\n[host.{host}.sysctl]"));
        }
        for (name, value) in &traffic.sysctls {
            text.push(format!("\"{name}\" = {}", quote(value)));
        }
    }
    if let Some((manager, reason)) = &traffic.single_subflow {
        text.push(format!("\n# {manager}: {reason}"));
        text.push("[host.client.mptcp]\nsubflows = 0\nendpoints = []".to_owned());
        return;
    }
    if network.side(RouterSide::R2s).count() < 2 {
        return;
    }
    text.push(
        "\n# minitopo's path manager is a full mesh of both hosts' addresses.\n[host.client.mptcp]\n\
             endpoints = ["
            .to_owned(),
    );
    for (position, path) in network.side(RouterSide::C2r).enumerate() {
        let backup = path.backup || traffic.backup.get(position).copied().unwrap_or_default();
        let flag = if backup { ", \"backup\"" } else { "" };
        text.push(format!(
            "    {{ link = \"{}\", flags = [\"subflow\", \"fullmesh\"{flag}] }},",
            path.name()
        ));
    }
    text.push("]".to_owned());
    if !traffic.server_announces {
        text.push("# kpms:default: the server announces no further address.".to_owned());
        return;
    }
    text.push("\n[host.server.mptcp]\nendpoints = [".to_owned());
    for path in network.side(RouterSide::R2s).skip(1) {
        text.push(format!("    {{ link = \"{}\", flags = [\"signal\"] }},", path.name()));
    }
    text.push("]".to_owned());
}

fn duration(network: &MinitopoTopology, traffic: &MinitopoExperiment) -> Option<Duration> {
    let MinitopoPattern::Iperf { duration, .. } = traffic.pattern else { return None };
    let in_force = network.paths.iter().filter(|_| network.changing);
    let last = in_force.flat_map(|path| &path.changes).filter_map(NetemAt::time).max();
    let enough = last.map_or(DURATION, |last| Duration::from_secs((last + AFTERMATH).as_secs() + 1));
    Some(duration.unwrap_or(enough.max(DURATION)))
}

fn changes(
    text: &mut Vec<String>,
    network: &MinitopoTopology,
    path: &TopologyPath,
    duration: Option<Duration>,
) {
    let mut so_far: Vec<&NetemArguments> = Vec::new();
    for change in &path.changes {
        text.push(format!("\n# Line {}, {}:{}", change.entry.line, change.entry.key(), change.entry.value));
        if !network.changing {
            text.push("# is not in force, in minitopo, too: changeNetem is not yes.".to_owned());
            continue;
        }
        let at = change.time().unwrap_or_default();
        if duration.is_some_and(|duration| at >= duration) {
            text.push("# comes when the traffic is over.".to_owned());
            continue;
        }
        event(text, path, change, &so_far);
        so_far.push(&change.netem);
    }
}

/// A change resets the parameters of earlier changes that it does not set.
fn event(text: &mut Vec<String>, path: &TopologyPath, change: &NetemAt, so_far: &[&NetemArguments]) {
    let netem = &change.netem;
    let ever = |sets: fn(&NetemArguments) -> bool| sets(netem) || so_far.iter().any(|before| sets(before));
    if change.time().is_none() {
        text.push("# comes before the traffic.".to_owned());
    }
    if netem.delay.is_zero() && !so_far.last().map_or(path.delay, |before| before.delay).is_zero() {
        text.push("# It replaces all that netem did, the delay included.".to_owned());
    }
    text.push(format!("[[event]]\nat = \"{}\"", Span(change.time().unwrap_or_default())));
    text.push(format!("link = \"{}\"\naction = \"set\"", path.name()));
    text.push(format!("delay = \"{}\"", Span(netem.delay)));
    let correlated = ever(|netem| netem.effective_jitter_correlation() > 0.0);
    jitter(text, netem, ever(|netem| !netem.jitter.is_zero()), correlated);
    match netem.loss {
        NetemLoss::Independent(percent) => text.push(format!("loss = \"{percent}%\"")),
        NetemLoss::Chain { to_bad, to_good, loss_bad, loss_good } => text.push(format!(
            "burst_loss = {{ to_bad = \"{to_bad}%\", to_good = \"{to_good}%\", loss_bad = \"{loss_bad}%\", \
                 loss_good = \"{loss_good}%\" }}"
        )),
    }
    if ever(|netem| netem.loss_correlation > 0.0) {
        let comment =
            if netem.loss_correlation > 0.0 { " # as netem's: the mean is not the loss" } else { "" };
        text.push(format!("loss_correlation = \"{}%\"{comment}", netem.loss_correlation));
    }
    if ever(|netem| netem.reorder.is_some()) {
        let none = NetemReorder { share: 0.0, correlation: 0.0, gap: 1 };
        let NetemReorder { share, correlation, gap } = netem.reorder.unwrap_or(none);
        text.push(format!(
            "reorder_share = \"{share}%\"\nreorder_correlation = \"{correlation}%\"\nreorder_gap = {gap}"
        ));
    }
    let rate_bps =
        |netem: &NetemArguments| netem.rate_bps.map_or(path.rate_bps, |bps| bps.min(path.rate_bps));
    let caps =
        |netem: &&NetemArguments| matches!(netem.limit_effect(rate_bps(netem)), LimitEffect::Caps { .. });
    limit(text, netem.limit_effect(rate_bps(netem)), so_far.iter().any(caps));
    if ever(|netem| netem.duplicate > 0.0) {
        text.push(format!("duplicate = \"{}%\"", netem.duplicate));
    }
    if ever(|netem| netem.corrupt > 0.0) {
        text.push(format!("corrupt = \"{}%\"", netem.corrupt));
    }
    if ever(|netem| netem.rate_bps.is_some()) {
        text.push(format!("rate = \"{}\"", Rate(rate_bps(netem))));
        queue(text, netem.rate_bps.filter(|bps| *bps < path.rate_bps).map(|_| netem.limit_packets()), path);
    }
}

/// `packets`: the limit of a netem whose rate is the link's.
fn queue(text: &mut Vec<String>, packets: Option<u32>, path: &TopologyPath) {
    if let Some(packets) = packets {
        text.push(format!("# netem's limit, {packets} packets, includes those that wait for its rate."));
    }
    text.push(format!("queue = \"{}p\"", packets.map_or(path.queue_packets, u64::from)));
}

/// `ever`, `correlated`: this change or an earlier one has jitter, or jitter with a correlation.
fn jitter(text: &mut Vec<String>, netem: &NetemArguments, ever: bool, correlated: bool) {
    if !ever {
        return;
    }
    text.push(format!("jitter = \"{}\"", Span(netem.jitter)));
    text.push(format!("jitter_distribution = \"{}\"", netem.distribution.unwrap_or("uniform")));
    let comment = if netem.jitter.is_zero() { "" } else { "          # as netem's jitter does" };
    text.push(format!("reorder = {}{comment}", !netem.jitter.is_zero()));
    let correlation = netem.effective_jitter_correlation();
    if netem.jitter_correlation > 0.0 && correlation == 0.0 {
        text.push(format!(
            "# netem's correlation of the jitter, {}%, has no effect: the kernel takes remainders of its numbers.",
            netem.jitter_correlation
        ));
    }
    if correlated {
        text.push(format!("jitter_correlation = \"{correlation}%\""));
    }
}

/// `before`: an earlier change has set a limit.
fn limit(text: &mut Vec<String>, effect: LimitEffect, before: bool) {
    match effect {
        LimitEffect::Caps { packets, bps, given } => {
            let whose = if given { "netem's limit" } else { "netem's default limit" };
            text.push(format!(
                "# {whose} of {packets} packets in the delay caps the rate at {:.3} Mbit/s in frames of 1514 bytes.",
                bps as f64 / 1e6
            ));
            text.push(format!("in_flight_limit = {packets}"));
        }
        LimitEffect::NeverReached { packets } => {
            text.push(format!(
                "# netem's limit of {packets} packets is never reached at this rate and delay."
            ));
        }
        LimitEffect::None => {}
    }
    if before && !matches!(effect, LimitEffect::Caps { .. }) {
        text.push("in_flight_limit = 0".to_owned());
    }
}

fn run(text: &mut Vec<String>, traffic: &MinitopoExperiment, duration: Option<Duration>) {
    let transports: Vec<_> = traffic.transports.iter().map(|transport| quote(transport)).collect();
    text.push(format!("\n[run]\ntransports = [{}]", transports.join(", ")));
    let pattern = match traffic.pattern {
        MinitopoPattern::Iperf { .. } | MinitopoPattern::Limited { .. } => "throughput",
        MinitopoPattern::Bulk { .. } => "bulk",
        MinitopoPattern::Ping { .. } => "ping",
    };
    text.push(format!("pattern = \"{pattern}\""));
    if let Some(duration) = duration {
        text.push(format!("duration = \"{}\"", Span(duration)));
    }
    if let Some(congestion) = traffic.congestion {
        text.push(format!("congestion = \"{congestion}\""));
    }
    if traffic.tls {
        text.push("tls = true".to_owned());
    }
    match traffic.pattern {
        MinitopoPattern::Iperf { streams, .. } => {
            text.push(format!("\n[run.throughput]\ndirection = \"upload\"\nstreams = {streams}"));
        }
        MinitopoPattern::Limited { bytes, rate_bps } => text.push(format!(
            "\n[run.throughput]\ndirection = \"upload\"\nbytes = {bytes}\nrate = \"{}\"",
            Rate(rate_bps)
        )),
        MinitopoPattern::Bulk { bytes } => text.push(format!("\n[run.bulk]\nbytes = {bytes}")),
        MinitopoPattern::Ping { count, interval, bytes } => {
            text.push(format!(
                "\n[run.ping]\ncount = {count}\nwarm_up = 0\ninterval = \"{}\"",
                Span(interval)
            ));
            text.push(format!("request = {bytes}\nresponse = {bytes}"));
        }
    }
    if traffic.round_robin {
        text.push("\n[run.quic]\nscheduler = \"round-robin\"".to_owned());
    }
}
