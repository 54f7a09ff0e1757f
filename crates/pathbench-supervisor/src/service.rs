//! The systemd service of a program: the changes of its unit that make its sockets MPTCP, by the unit's settings.

use pathbench_host::systemd::{quote, texts, value, values};
use std::fs;
use std::path::Path;

/// Directories of system units (systemd.unit(5)).
const DIRECTORIES: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];
/// Directories of `libsystemd-shared-252.so`, which has the version in its name.
const LIBRARIES: [&str; 4] = [
    "usr/lib/systemd",
    "usr/lib/x86_64-linux-gnu/systemd",
    "usr/lib/aarch64-linux-gnu/systemd",
    "lib/systemd",
];
/// Processes beside those of the program while it starts: the one that answers its calls, and the one that starts that.
const OWN_PROCESSES: u32 = 2;
/// A larger limit of processes permits them.
const SMALL_LIMIT: u32 = 64;
/// The first version whose socket units can make MPTCP sockets (`SocketProtocol=mptcp`).
const MPTCP_SOCKETS_SINCE: u32 = 257;

/// The service that a program runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceUnit {
    pub unit: String,
    /// A unit of the service manager of a user (`systemctl --user`).
    pub is_of_user: bool,
}

/// The files of systemd that concern a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitFiles {
    /// The unit's file and its drop-ins, in the order in which they apply.
    pub texts: Vec<String>,
    /// Whether a socket unit of the same name exists.
    pub has_socket: bool,
    /// Version of systemd.
    pub version: Option<u32>,
}

impl ServiceUnit {
    /// From a control group (`/proc/PID/cgroup`, cgroup v2): `0::/system.slice/nginx.service`.
    pub fn parse(control_group: &str) -> Option<Self> {
        let path = control_group.lines().find_map(|line| line.strip_prefix("0::"))?;
        let parts: Vec<&str> = path.split('/').collect();
        let is_service = |part: &&&str| part.ends_with(".service");
        let is_user_manager = |part: &&str| part.starts_with("user@");
        let unit = parts.iter().rev().find(is_service).filter(|part| !is_user_manager(part))?;
        Some(Self { unit: (*unit).to_owned(), is_of_user: parts.iter().any(is_user_manager) })
    }

    fn systemctl(&self) -> &'static str {
        if self.is_of_user { "systemctl --user" } else { "systemctl" }
    }

    /// The changes of the unit, each with its commands. `program` is the path of pathbench.
    pub fn remedies(&self, files: &UnitFiles, program: &str) -> Vec<String> {
        let socket = files.has_socket.then(|| self.socket_remedy(files.version));
        socket.into_iter().chain([self.command_remedy(&files.texts, program)]).collect()
    }

    /// Where a socket unit passes the listening socket to the service, which `pathbench run` cannot change.
    fn socket_remedy(&self, version: Option<u32>) -> String {
        let socket = format!("{}.socket", self.unit.trim_end_matches(".service"));
        let systemctl = self.systemctl();
        let edit = format!(
            "{systemctl} edit {socket}, with the lines [Socket] and SocketProtocol=mptcp; {systemctl} restart {socket}"
        );
        match version {
            Some(version) if version >= MPTCP_SOCKETS_SINCE => edit,
            Some(version) => format!(
                "systemd {version} passes the listening sockets of {socket} as TCP (SocketProtocol=mptcp needs \
                 {MPTCP_SOCKETS_SINCE}): {systemctl} disable --now {socket}, and let the program listen by itself, under \
                 pathbench run"
            ),
            None => format!(
                "systemd {MPTCP_SOCKETS_SINCE} or newer, if {socket} passes the listening socket: {edit}"
            ),
        }
    }

    fn command_remedy(&self, settings: &[String], program: &str) -> String {
        let (unit, systemctl) = (&self.unit, self.systemctl());
        let run = format!("{} run --quiet --", quote(program));
        let in_force = |key: &str| {
            let values = values(settings, "Service", key);
            // An empty value discards those before it.
            let after = values.rsplit(String::is_empty).next().unwrap_or_default();
            after.to_vec()
        };
        let commands = in_force("ExecStart");
        let command = match commands.as_slice() {
            [command] => insert(command, &run),
            _ => None,
        };
        let Some(command) = command else {
            return format!(
                "{systemctl} edit {unit}: put `{run}` before the command of ExecStart=, without the prefix `@`"
            );
        };
        let mut lines = vec!["[Service]".to_owned(), "ExecStart=".to_owned(), format!("ExecStart={command}")];
        let filter = in_force("SystemCallFilter").join(" ");
        let is_allow_list = filter.split_whitespace().next().is_some_and(|first| !first.starts_with('~'));
        if is_allow_list && !filter.split_whitespace().any(|name| name == "seccomp") {
            // @system-service does not contain it.
            lines.push("SystemCallFilter=seccomp".to_owned());
        }
        let processes = value(settings, "Service", "LimitNPROC").and_then(|limit| limit.parse::<u32>().ok());
        if let Some(most) = processes.filter(|most| *most <= SMALL_LIMIT) {
            lines.push(format!("LimitNPROC={}", most + OWN_PROCESSES));
        }
        let setting = |key: &str| value(settings, "Service", key);
        let is_guessed = setting("Type").as_deref() == Some("forking") && setting("PIDFile").is_none();
        let hint = if is_guessed {
            "\n    Type=forking without PIDFile=: systemd does not recognise the main process beside the one of pathbench, so that \
             reload and Restart= do not work. Add PIDFile=, or use the program's option to stay in the foreground with Type=exec"
        } else {
            ""
        };
        format!(
            "{systemctl} edit {unit}, with these lines, then {systemctl} restart {unit}:\n    {}{hint}",
            lines.join("\n    ")
        )
    }
}

/// The command with `run` before its program and after its prefixes (systemd.service(5), table 1); `None` with the prefix
/// `@`, which names another `argv[0]`.
fn insert(command: &str, run: &str) -> Option<String> {
    let begin = command.find(|c| !"@-:+!".contains(c)).unwrap_or(command.len());
    let (prefixes, program) = command.split_at(begin);
    (!prefixes.contains('@')).then(|| format!("{prefixes}{run} {program}"))
}

impl UnitFiles {
    /// Reads them below `root`. Those of a user's units are not read.
    pub fn read(root: &Path, service: &ServiceUnit) -> Self {
        if service.is_of_user {
            return Self::default();
        }
        let unit = service.unit.as_str();
        let exists =
            |name: &str| DIRECTORIES.iter().any(|directory| root.join(directory).join(name).exists());
        // An instance has a file of its own, or its template.
        let template = unit.split_once('@').map(|(name, _)| format!("{name}@.service"));
        let names: Vec<&str> =
            [Some(unit), template.as_deref(), Some("service")].into_iter().flatten().collect();
        let file = template.as_deref().filter(|_| !exists(unit)).unwrap_or(unit);
        Self {
            texts: texts(root, &DIRECTORIES, file, &names),
            has_socket: exists(&format!("{}.socket", unit.trim_end_matches(".service"))),
            version: systemd_version(root),
        }
    }
}

fn systemd_version(root: &Path) -> Option<u32> {
    let entries =
        LIBRARIES.iter().flat_map(|directory| fs::read_dir(root.join(directory)).into_iter().flatten());
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let number = |name: String| {
        let digits = name.strip_prefix("libsystemd-shared-")?;
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    names.take(4096).find_map(number)
}
