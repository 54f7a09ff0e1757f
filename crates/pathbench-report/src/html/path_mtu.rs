//! What `pathbench mtu` found: the MTU of each path, what the kernel believes, and what was done about it.

use super::{mark, prose};
use crate::narrative::path_mtu as words;
use crate::quantity::{NONE, duration};
use crate::view::View;
use maud::{Markup, html};
use pathbench_record::document::{DirectionMtu, KernelBelief, MtuChange, MtuStep, PathMtu};

/// The section of an examination; nothing where there was none.
pub(super) fn paths(view: &View) -> Markup {
    html! {
        @if let Some(record) = &view.set.document.mtu {
            section {
                h2 { "The MTU of each path to " (record.server) }
                @if record.paths.is_empty() { p.bad { "No path was examined." } }
                div.scroll { table {
                    thead { tr {
                        th { "path" } th {} th.n { "MTU" } th { "how it is known" } th { "circumstances" }
                        th.n { "kernel sends" } th { "because" }
                    } }
                    tbody { @for path in &record.paths { (rows(path)) } }
                } }
                (connections(&record.paths))
                (remarks(&record.paths))
                (steps(&record.steps))
                (changes(&record.changes))
                @if !record.notes.is_empty() { ul { @for note in &record.notes { li { (prose(note)) } } } }
            }
        }
    }
}

/// Up and down of a path, and the kernel's belief over both.
fn rows(path: &PathMtu) -> Markup {
    html! {
        tr {
            th scope="row" rowspan="2" {
                (path.name)
                small { (path.local) " → " (path.remote) }
                @if path.interface != path.name { small { (path.interface) } }
            }
            td { "up" } (way(&path.upload))
            (belief(path.kernel.as_ref(), path))
        }
        tr { td { "down" } (way(&path.download)) }
    }
}

fn way(way: &DirectionMtu) -> Markup {
    html! {
        td.n { b { (words::size(way.mtu_bytes)) } }
        td { span.bad[way.mtu_bytes.is_none()] { (words::evidence(way)) } }
        td { (words::circumstances(way).join(", ")) }
    }
}

fn belief(kernel: Option<&KernelBelief>, path: &PathMtu) -> Markup {
    html! {
        @match kernel {
            Some(kernel) => {
                @let sends = words::in_force(kernel);
                @let wrong = path.upload.mtu_bytes.is_some_and(|found| found != sends);
                td.n rowspan="2" { span.bad[wrong] { (sends) } }
                td rowspan="2" { (words::belief(kernel, &path.interface)) }
            }
            None => { td.n rowspan="2" { (NONE) } td rowspan="2" { "not told" } }
        }
    }
}

fn connections(paths: &[PathMtu]) -> Markup {
    let live = || {
        let kernels = paths.iter().filter_map(|path| Some((path, path.kernel.as_ref()?)));
        kernels.flat_map(|(path, kernel)| kernel.connections.iter().map(move |one| (path, one)))
    };
    html! {
        @if live().next().is_some() {
            h3 { "Live connections" }
            table.narrow {
                thead { tr {
                    th { "path" } th { "transport" } th { "between" } th.n { "path MTU" } th.n { "MSS" } th.n { "back-off" } th {}
                } }
                tbody { @for (path, one) in live() { tr {
                    th scope="row" { (path.name) }
                    td { (one.transport) }
                    td { (one.local) " → " (one.remote) }
                    td.n { (one.pmtu_bytes) }
                    td.n { (one.mss_bytes) }
                    td.n { (one.backoff) }
                    td { @if one.stuck { span.bad { "stuck" } } }
                } } }
            }
        }
    }
}

fn remarks(paths: &[PathMtu]) -> Markup {
    let told = || paths.iter().filter(|path| !path.disagreements.is_empty() || !path.advice.is_empty());
    html! {
        @if told().next().is_some() {
            h3 { "Where kernel and probes disagree, and what to do" }
            ul { @for path in told() {
                @for text in &path.disagreements { li { b { (path.name) } ": " span.bad { (prose(text)) } } }
                @for text in &path.advice { li { b { (path.name) } ": " (prose(text)) } }
            } }
        }
    }
}

fn steps(steps: &[MtuStep]) -> Markup {
    html! {
        @if !steps.is_empty() {
            h3 { "Steps: " (words::of_steps(steps)) }
            div.scroll { table {
                thead { tr { th { "done" } th { "path" } th { "command" } th { "takes it back" } } }
                tbody { @for step in steps { tr {
                    td { (mark(step.done)) }
                    td { (step.path) }
                    td { code { (step.command) } }
                    td { code { (step.undo) } }
                } } }
            } }
        }
    }
}

fn changes(changes: &[MtuChange]) -> Markup {
    html! {
        @if !changes.is_empty() {
            h3 { "Changes while it was watched" }
            table.narrow { tbody { @for change in changes { tr {
                td.n { (duration(change.t_ms)) } td { (words::change(change)) }
            } } } }
        }
    }
}
