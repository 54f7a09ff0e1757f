//! The summary of a supervised program for people.

use super::document::ProgramDocument;
use pathbench_record::stage::SubflowStage;
use pathbench_record::text::duration_s;
use pathbench_report::quantity::{bytes, counted, percent};
use pathbench_supervisor::{ConnectionGroup, ConnectionReport, ConnectionRole, ConnectionState, PathReport};

/// More connections than this are shown in groups.
const MOST_LINES: usize = 12;

pub(super) fn text(document: &ProgramDocument<'_>) -> String {
    let mut lines = vec![headline(document)];
    let has_all = document.connections.len() as u64 == document.connections_total;
    if document.connections.len() <= MOST_LINES && has_all {
        lines.extend(document.connections.iter().map(|one| format!("  {}", connection(one))));
    } else {
        lines.extend(document.groups.iter().take(MOST_LINES).map(|one| format!("  {}", group(one))));
        let further = document.groups.len().saturating_sub(MOST_LINES);
        if further > 0 {
            lines.push(format!("  and {further} further groups of connections; --json and --out have all"));
        }
    }
    lines.extend(notes(document).into_iter().map(|note| format!("  note: {note}")));
    lines.join("\n")
}

fn headline(document: &ProgramDocument<'_>) -> String {
    let program = document.command.first().map_or("", String::as_str);
    let end = match (document.exit_code, document.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    };
    let connections = counted(document.connections_total as u32, "connection");
    let used = match document.connections_total {
        0 => String::new(),
        _ => format!(", {} used multipath", document.connections_multipath),
    };
    format!("pathbench: {program}: {end} after {}; {connections}{used}", duration_s(document.duration_s))
}

/// A connection in one line.
pub(super) fn connection(report: &ConnectionReport) -> String {
    let peer = match report.role {
        ConnectionRole::Connected => format!("to {}", report.remote),
        ConnectionRole::Accepted => format!("from {} at port {}", report.remote, report.local.port()),
    };
    let total: u64 = report.paths.iter().map(PathReport::bytes).sum();
    let paths: Vec<String> = report.paths.iter().map(|path| path_of_connection(path, total)).collect();
    let segments: u64 = report.paths.iter().map(|path| path.retransmitted_segments).sum();
    let sent = amount(report.bytes_sent, report.bytes_sent_exact);
    let received = amount(report.bytes_received, report.bytes_received_exact);
    let repeated = match report.repeated_bytes() {
        Some(count) if count > 0 && report.paths.len() > 1 => {
            format!("; {} of them twice, again on another subflow (reinjection)", bytes(count))
        }
        _ => String::new(),
    };
    format!(
        "{peer}: {}; {sent} sent, {received} received: {}{repeated}{}",
        report.state().words(),
        on_paths(&paths, segments),
        reason(report.state(), &report.multipath.reason)
    )
}

fn path_of_connection(path: &PathReport, total: u64) -> String {
    if path.stage <= SubflowStage::Answered && path.bytes() == 0 {
        return format!("{} not opened", path.name);
    }
    on_path(&path.name, path.bytes(), total)
}

/// A number of bytes that the true one may exceed.
fn amount(count: u64, is_exact: bool) -> String {
    format!("{}{}", if is_exact { "" } else { "at least " }, bytes(count))
}

fn group(group: &ConnectionGroup) -> String {
    let role = match group.role {
        ConnectionRole::Connected => "to",
        ConnectionRole::Accepted => "from",
    };
    let total = group.bytes_by_path.values().sum();
    let paths: Vec<String> =
        group.bytes_by_path.iter().map(|(path, bytes)| on_path(path, *bytes, total)).collect();
    let (sent, received) = (amount(group.bytes_sent, !group.at_least), bytes(group.bytes_received));
    format!(
        "{} {role} {}: {}; {sent} sent, {received} received: {}{}",
        counted(group.connections as u32, "connection"),
        group.peer,
        group.state.words(),
        on_paths(&paths, group.retransmitted_segments),
        reason(group.state, &group.reason)
    )
}

fn on_path(name: &str, count: u64, total: u64) -> String {
    format!("{name} {} ({})", bytes(count), percent(count as f64 / total.max(1) as f64))
}

fn on_paths(paths: &[String], segments: u64) -> String {
    let retransmitted = match segments {
        0 => String::new(),
        _ => format!("; {} retransmitted", counted(segments as u32, "segment")),
    };
    let paths = if paths.is_empty() { "no path seen".to_owned() } else { paths.join(", ") };
    format!("{paths}{retransmitted}")
}

fn reason(state: ConnectionState, reason: &str) -> String {
    if state == ConnectionState::Multipath { String::new() } else { format!("\n    because {reason}") }
}

fn notes(document: &ProgramDocument<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if document.sockets_unseen > 0 {
        notes.push(format!(
            "{} never connected, or opened and closed between two snapshots",
            counted(document.sockets_unseen as u32, "socket")
        ));
    }
    let unseen = document.unseen_accepted;
    if unseen.subflows > 0 {
        notes.push(format!(
            "{} to this program opened and closed between two snapshots: at least {} sent, {} received",
            counted(unseen.subflows as u32, "subflow"),
            bytes(unseen.bytes_sent),
            bytes(unseen.bytes_received)
        ));
    }
    if document.connections_not_followed > 0 {
        notes.push(format!(
            "{} not followed, because too many were open",
            counted(document.connections_not_followed as u32, "connection")
        ));
    }
    notes.extend(document.left_on_tcp.iter().map(|left| {
        let sockets = counted(left.sockets as u32, "socket");
        format!("{}: {sockets} left on TCP: {}", left.program, left.reason.words())
    }));
    notes.extend(document.io_uring.iter().map(|one| {
        format!(
            "{}: uses io_uring; sockets that it creates through it stay on TCP (--no-io-uring refuses io_uring)",
            one.program
        )
    }));
    if !document.refused_options.is_empty() {
        let options = document.refused_options.iter();
        let options = options.map(|one| format!("{} ({})", one.option, counted(one.calls as u32, "call")));
        let options: Vec<String> = options.collect();
        notes.push(format!("MPTCP refuses socket options that the program set: {}", options.join(", ")));
    }
    if document.refused_for_descriptors > 0 {
        notes.push(format!(
            "{} failed at the program's limit of open files (EMFILE)",
            counted(document.refused_for_descriptors as u32, "call")
        ));
    }
    if document.incomplete {
        notes.push(
            "some snapshots of the kernel's sockets failed, so that connections may be missing".to_owned(),
        );
    }
    notes
}
