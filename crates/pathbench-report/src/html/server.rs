//! The servers that were asked, and which transport reached the chosen one.

use super::mark;
use crate::narrative;
use crate::quantity::{NONE, duration};
use crate::view::View;
use maud::{Markup, html};

/// The servers: who answered how fast, and which was chosen.
pub(super) fn servers(view: &View) -> Markup {
    let servers = &view.set.document.servers;
    html! {
        @if !servers.is_empty() {
            section {
                h2 { @if servers.len() > 1 { "Servers" } @else { "Server" } }
                table.narrow {
                    thead { tr { th { "server" } th.n { "median ping" } th.n { "lost" } th {} } }
                    tbody { @for server in servers { tr {
                        th scope="row" { (server.address)
                            @if let Some(name) = &server.name { small { (name) } } }
                        td.n { (server.ping_ms.map_or(NONE.to_owned(), duration)) }
                        td.n { (server.lost) }
                        td {
                            @if server.chosen { (mark(true)) " chosen" }
                            @if let Some(error) = &server.error { span.bad { @if server.chosen { " " } (error) } }
                        }
                    } } }
                }
            }
        }
    }
}

/// Each transport on each address family and port.
pub(super) fn reachability(view: &View) -> Markup {
    let all = &view.set.document.reachability;
    html! {
        @if !all.is_empty() {
            section {
                h2 { "What gets through" }
                p { (narrative::reachability(all)) }
                div.scroll { table {
                    thead { tr {
                        th { "transport" } th { "IP" } th.n { "port" } th { "reached" } th.n { "first answer" } th { "why not" }
                    } }
                    tbody { @for one in all { tr {
                        th scope="row" { (one.transport) }
                        td { (one.family.name()) }
                        td.n { (one.port) }
                        td { (mark(one.reachable)) }
                        td.n { (one.rtt_ms.map_or(NONE.to_owned(), duration)) }
                        td { @if !one.reachable { (narrative::why_unreachable(one)) } }
                    } } }
                } }
            }
        }
    }
}
