//! The servers that were asked, and what gets through to the chosen one.

use super::page::{Ink, Line, Page, columns, fitted};
use crate::narrative;
use crate::quantity::duration;
use crate::view::View;
use pathbench_record::document::ServerRecord;

/// Servers beyond this are left to the report.
const MOST_SERVERS: usize = 12;

/// Who answered how fast, which was chosen, and which transport reaches it.
pub(super) fn write(page: &mut Page, view: &View) {
    let document = &view.set.document;
    if !document.servers.is_empty() {
        page.heading("Servers", "median ping");
        let servers = &document.servers;
        let widest = servers.iter().map(|one| columns(&fitted(&one.address, 40))).max().unwrap_or(0);
        for server in servers.iter().take(MOST_SERVERS) {
            write_server(page, server, widest);
        }
        if servers.len() > MOST_SERVERS {
            page.more(servers.len() - MOST_SERVERS);
        }
    }
    if !document.reachability.is_empty() {
        page.heading("What gets through", "");
        page.paragraph(
            Line::new().add(Ink::Plain, "  "),
            Ink::Plain,
            &narrative::reachability(&document.reachability),
        );
        let barriers = narrative::barriers(&document.reachability);
        for barrier in barriers.iter().take(MOST_SERVERS) {
            let start = Line::new().add(Ink::Plain, "  ").add(Ink::Bad, "✗").add(Ink::Plain, " ");
            page.paragraph(start, Ink::Plain, barrier);
        }
        if barriers.len() > MOST_SERVERS {
            page.more(barriers.len() - MOST_SERVERS);
        }
    }
}

fn write_server(page: &mut Page, server: &ServerRecord, widest: usize) {
    let (mark, ink) = match (server.chosen, &server.error) {
        (true, _) => ("✓", Ink::Good),
        (false, Some(_)) => ("✗", Ink::Bad),
        (false, None) => ("·", Ink::Dim),
    };
    let start = Line::new().add(Ink::Plain, "  ").add(ink, mark).add(Ink::Plain, " ");
    let start = start.add(Ink::Strong, &fitted(&server.address, 40)).padded_to(widest + 6);
    let mut parts = vec![server.ping_ms.map_or("no answer".to_owned(), duration)];
    if server.lost > 0 {
        parts.push(format!("{} lost", server.lost));
    }
    parts.extend(server.name.clone());
    if server.chosen {
        parts.push("chosen".to_owned());
    }
    parts.extend(server.error.clone());
    page.paragraph(start, Ink::Plain, &parts.join(", "));
}
