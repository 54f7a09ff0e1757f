//! The origin of a result: the command that repeats it, the scenario, and the hosts.

use super::blocks::table;
use crate::command;
use crate::list::distinct;
use crate::quantity::{bytes, counted};
use crate::section::{Cell, Items};
use crate::view::{View, override_text};
use maud::{Markup, html};
use pathbench_record::document::ResultDocument;

pub(super) fn repetition(view: &View) -> Markup {
    let document = &view.set.document;
    let is_lab = document.scenario.origin != "command line";
    html! {
        section {
            h2 { "The command that repeats it" }
            @match command::line(document) {
                Some(line) => {
                    pre.command tabindex="0" role="group" aria-label="Command" { code { (line) } }
                    @if !is_lab {
                        p.muted {
                            "Add " code { "--token" } ", and " code { "--fingerprint" } " or " code { "--ca" }
                            ", if the server needs them; a result never contains them."
                        }
                    } @else if document.scenario.origin != "builtin" {
                        p.muted { "The scenario file is below." }
                    }
                }
                None => p { "The result does not say which command made it." }
            }
        }
    }
}

pub(super) fn scenario(view: &View) -> Markup {
    let scenario = &view.set.document.scenario;
    html! {
        section {
            h2 { "Scenario" }
            p { "Scenario " b { (scenario.name) } " from " code { (scenario.origin) } "." }
            @if !scenario.overrides.is_empty() {
                p { "Changed on the command line:" }
                ul { @for (key, value) in &scenario.overrides {
                    li { code { (override_text(key, value)) } }
                } }
            }
            @if !scenario.text.is_empty() {
                details { summary { "The scenario file" } pre tabindex="0" role="group" aria-label="The scenario file" {
                    (scenario.text)
                } }
            }
        }
    }
}

/// The host that made the result. In a lab it is both ends; between hosts the other end is known by its address and by
/// what its sockets reported.
pub(super) fn hosts(view: &View) -> Markup {
    let document = &view.set.document;
    let is_lab = document.scenario.origin != "command line";
    let of_lab = "client and server are network namespaces of this host";
    let ends = if is_lab { of_lab } else { "this host is the client" };
    let mut rows = vec![("Ends of the connections", ends.to_owned())];
    rows.extend(client(document));
    if !is_lab {
        rows.extend(server(document));
    }
    let rows = Items::new(rows.into_iter().filter(|(_, value)| !value.is_empty()))
        .words("property", |(name, _)| Cell::text(*name))
        .words("value", |(_, value)| Cell::text(&**value));
    html! {
        section {
            h2 { "Hosts" }
            (table(&rows.table, "Hosts"))
        }
    }
}

fn client(document: &ResultDocument) -> Vec<(&'static str, String)> {
    let host = &document.host;
    let kernel = if host.kernel.is_empty() {
        String::new()
    } else {
        format!("Linux {} ({})", host.kernel, host.machine)
    };
    vec![
        ("Kernel", kernel),
        ("CPUs", host.cpus.to_string()),
        ("Memory", bytes(host.memory_bytes)),
        ("Pathbench", host.pathbench.clone()),
        ("Privilege", host.privilege.clone()),
        ("Congestion control by default", host.default_congestion.clone()),
        ("Processors kept awake", if host.processors_awake { "yes" } else { "no" }.to_owned()),
        ("Begun", host.started.clone()),
        ("Shards", shards(document)),
        ("Seed", document.seed.to_string()),
        ("Schema", document.schema.clone()),
    ]
}

/// The machines of the shards that were joined; the other rows are those of the first.
fn shards(document: &ResultDocument) -> String {
    let joined = document.study.iter().flat_map(|study| &study.joined);
    let each = joined.map(|one| {
        let host = &one.host;
        let runs = counted(one.runs, "run");
        format!("{}: {runs}, Linux {}, {} CPUs, begun {}", one.number, host.kernel, host.cpus, host.started)
    });
    each.collect::<Vec<_>>().join("; ")
}

fn server(document: &ResultDocument) -> Vec<(&'static str, String)> {
    let chosen = document.servers.iter().filter(|one| one.chosen).map(|one| one.address.clone());
    let of_runs = document.runs.iter().filter_map(|run| run.server.clone());
    let of_mtu = document.mtu.iter().map(|one| one.server.clone());
    let addresses = distinct(chosen.chain(of_runs).chain(of_mtu));
    let in_force = |key: &str| {
        let values = document.runs.iter().filter_map(|run| run.parameters.in_force.get(key));
        distinct(values.map(crate::view::value_text)).join(", ")
    };
    vec![
        ("Server", addresses.join(", ")),
        ("Congestion control of the server", in_force("server.congestion")),
        ("Receive buffer of the server, bytes", in_force("server.receive_buffer_bytes")),
    ]
}
