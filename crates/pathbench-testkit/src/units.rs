//! systemd units of packaging/.

use crate::processes::{checkout, output};
use std::fs;
use std::process::{Command, Stdio};

const SETTINGS: [&str; 6] = [
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "RestrictAddressFamilies=",
    "SystemCallFilter=@system-service",
    "MemoryMax=",
    "KillSignal=SIGTERM",
];

/// The words of the unit's `ExecStart` after the program. `${STATE_DIRECTORY}` and the like stay as they are written.
///
/// # Panics
/// One of `settings`, or of those of every unit, is not in the unit, or systemd does not know one that is.
pub fn command_of_unit(unit: &str, settings: &[&str]) -> Vec<String> {
    let path = checkout().join("packaging").join(unit);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for setting in SETTINGS.iter().chain(settings) {
        assert!(text.contains(setting), "{unit} lacks {setting}");
    }
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("systemd-analyze does not start ({error}): install systemd"));
    let messages = output(verified).stderr;
    let messages = String::from_utf8_lossy(&messages);
    let unknown: Vec<&str> = messages.lines().filter(|line| line.contains("Unknown")).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let command = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/"));
    let command = command.unwrap_or_else(|| panic!("{unit} starts no program in /usr/bin"));
    command.split_whitespace().skip(1).map(str::to_owned).collect()
}
