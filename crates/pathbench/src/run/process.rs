//! `pathbench run --pid`: the sockets of a running process.

use crate::exit::{Exit, Failure};
use crate::output;
use pathbench_report::quantity::counted;
use pathbench_supervisor::listing::{ListedSocket, ListingError, ProcessSockets, SocketProtocol, list};

pub(super) fn show(process: u32, json: bool) -> Result<Exit, Failure> {
    let found = list(process).map_err(|error| match error {
        ListingError::NoProcess { .. } => Failure::bad_input(error),
        _ if error.is_host_unable() => Failure::host_cannot(error),
        _ => Failure::failed(error),
    })?;
    if json {
        output::print_json(&found)?;
    } else {
        output::print(&text(&found))?;
    }
    Ok(Exit::Done)
}

fn text(found: &ProcessSockets) -> String {
    let used = found.sockets.iter().filter(|socket| socket.protocol == SocketProtocol::Mptcp).count();
    let sockets = counted(found.sockets.len() as u32, "TCP socket");
    let mut lines = vec![format!("{} (process {}): {sockets}, {used} MPTCP", found.program, found.process)];
    lines.extend(found.sockets.iter().map(line));
    lines.push("Ways to make its sockets MPTCP:".to_owned());
    lines.extend(found.ways.iter().map(|way| format!("  {way}")));
    lines.join("\n") + "\n"
}

fn line(socket: &ListedSocket) -> String {
    let subflows = match socket.subflows {
        0 => String::new(),
        count => format!(", {}", counted(count as u32, "subflow")),
    };
    let protocol = socket.protocol.words();
    match socket.remote {
        Some(remote) => format!("  {} to {remote}: {protocol}{subflows}", socket.local),
        None => format!("  listens on {}: {protocol}", socket.local),
    }
}
