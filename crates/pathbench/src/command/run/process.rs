//! `pathbench run --pid` and `pathbench check -- CMD`: the sockets of running processes.

use pathbench_host::process::{executable, is_go_program, processes_of};
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_report::quantity::counted;
use pathbench_supervisor::listing::{
    ListedSocket, ListingError, ProcessSockets, SocketProtocol, list, ways, ways_to_tcp,
};
use pathbench_supervisor::options;
use rustix::fs::{Access, access};
use serde::Serialize;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const SCHEMA: &str = "pathbench.program-sockets/1";

/// Processes of a program and their TCP sockets; docs/check.md describes it.
#[derive(Debug, Serialize)]
struct ProgramDocument {
    schema: &'static str,
    program: String,
    file: PathBuf,
    processes: Vec<ProcessSockets>,
    /// Why the sockets of further processes are not listed.
    not_listed: Vec<String>,
    /// Ways to make the program's sockets MPTCP, the most specific first.
    ways: Vec<String>,
    /// Socket options that TCP accepts and MPTCP sockets of this kernel refuse; absent where that could not be tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused_options: Option<Vec<String>>,
    /// How its sockets become plain TCP again.
    ways_to_tcp: Vec<String>,
}

impl ProgramDocument {
    fn new(program: String, file: PathBuf, processes: Vec<ProcessSockets>, not_listed: Vec<String>) -> Self {
        let is_go = is_go_program(&file);
        // Those of a process name its systemd service, too.
        let ways = processes.first().map_or_else(|| ways(&program, is_go, None), |first| first.ways.clone());
        let ways_to_tcp = ways_to_tcp(&program, is_go);
        let refused = options::refused_here().ok();
        let refused_options = refused.map(|refused| refused.into_iter().map(options::name).collect());
        Self { schema: SCHEMA, program, file, processes, not_listed, ways, refused_options, ways_to_tcp }
    }
}

pub(super) fn show(process: u32, json: bool) -> Result<Exit, Failure> {
    let found = list(process).map_err(|error| match error {
        ListingError::NoProcess { .. } => Failure::bad_input(error),
        _ if error.is_host_unable() => Failure::host_cannot(error),
        _ => Failure::failed(error),
    })?;
    let file = executable(process).read_link().unwrap_or_default();
    print(&ProgramDocument::new(found.program.clone(), file, vec![found], Vec::new()), json)
}

/// Shows the running processes of a program, and the ways to make its sockets MPTCP.
pub(crate) fn show_program(program: &OsStr, json: bool) -> Result<Exit, Failure> {
    let file = find(program).ok_or_else(|| {
        let program = program.display();
        Failure::bad_input(format!("no program `{program}`: name one in PATH, or its file"))
    })?;
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (mut processes, mut not_listed) = (Vec::new(), Vec::new());
    for process in processes_of(&file) {
        match list(process) {
            Ok(found) => processes.push(found),
            // It has ended meanwhile.
            Err(ListingError::NoProcess { .. }) => {}
            Err(error) => not_listed.push(error.to_string()),
        }
    }
    print(&ProgramDocument::new(name, file, processes, not_listed), json)
}

fn print(found: &ProgramDocument, json: bool) -> Result<Exit, Failure> {
    if json {
        output::print_json(found)?;
    } else {
        output::print(&text(found))?;
    }
    Ok(Exit::Done)
}

/// The file of a program, as execvp(3) finds it.
fn find(program: &OsStr) -> Option<PathBuf> {
    let is_program = |file: &Path| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    let given = Path::new(program);
    if given.components().count() > 1 {
        return Some(given.to_owned()).filter(|file| is_program(file));
    }
    env::split_paths(&env::var_os("PATH")?)
        .map(|directory| directory.join(given))
        .find(|file| is_program(file))
}

fn text(found: &ProgramDocument) -> String {
    let mut lines: Vec<String> = found.processes.iter().flat_map(process_lines).collect();
    lines.extend(found.not_listed.iter().map(|reason| format!("not listed: {reason}")));
    if lines.is_empty() {
        lines.push(format!("no process runs {}", found.file.display()));
    }
    lines.push("Ways to make its sockets MPTCP:".to_owned());
    lines.extend(found.ways.iter().map(|way| format!("  {way}")));
    if let Some(refused) = &found.refused_options {
        lines.push(format!("MPTCP sockets refuse these options here: {}", refused.join(", ")));
    }
    lines.push("Ways to make its sockets plain TCP, if it depends on one of them:".to_owned());
    lines.extend(found.ways_to_tcp.iter().map(|way| format!("  {way}")));
    lines.join("\n") + "\n"
}

fn process_lines(found: &ProcessSockets) -> Vec<String> {
    let used = found.sockets.iter().filter(|socket| socket.protocol == SocketProtocol::Mptcp).count();
    let sockets = counted(found.sockets.len() as u32, "TCP socket");
    let mut lines = vec![format!("{} (process {}): {sockets}, {used} MPTCP", found.program, found.process)];
    lines.extend(found.sockets.iter().map(line));
    lines
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
