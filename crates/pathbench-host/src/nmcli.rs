//! Queries to a running `NetworkManager` by its client nmcli(1): its version, and the metered interfaces, including those
//! that it guesses (a phone that shares its connection). mmcli(1) reports whether a modem is roaming. The queries need no
//! privilege.

use std::io::{self, Read as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// They answer within milliseconds, unless the daemon hangs.
const DEADLINE: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_millis(10);
/// The capacity of a pipe.
const LONGEST_ANSWER_BYTES: u64 = 65_536;

/// Major and minor number.
pub fn version() -> Option<(u32, u32)> {
    parse_version(&output("nmcli", &["--version"])?)
}

/// A running `NetworkManager`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkManagerState {
    /// Major and minor number.
    pub version: Option<(u32, u32)>,
    pub devices: Vec<ManagedDevice>,
}

/// An interface that `NetworkManager` manages or watches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManagedDevice {
    pub name: String,
    /// Another program has configured it, as a bridge of containers.
    pub is_external: bool,
    pub is_metered: bool,
}

/// The version and the devices; empty without an answer.
pub fn state() -> NetworkManagerState {
    let fields = ["-t", "-f", "GENERAL.DEVICE,GENERAL.STATE,GENERAL.METERED", "device", "show"];
    let devices = output("nmcli", &fields).map(|text| parse_devices(&text)).unwrap_or_default();
    NetworkManagerState { version: version(), devices }
}

/// The names of the metered interfaces; empty without an answer.
pub fn metered_interfaces() -> Vec<String> {
    let fields = ["-t", "-f", "GENERAL.DEVICE,GENERAL.METERED", "device", "show"];
    output("nmcli", &fields).map(|text| parse_metered(&text)).unwrap_or_default()
}

/// Whether a modem that `ModemManager` knows is roaming.
pub fn roaming() -> bool {
    output("mmcli", &["-m", "any", "-K"]).is_some_and(|text| parse_roaming(&text))
}

/// Standard output; `None` if the program is absent, fails, or does not end in time.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let (status, text) = answer(Command::new(program).args(arguments), |child| child.stdout.take())?;
    status.success().then_some(text)
}

/// The program's status and the text of one of its outputs; `None` if it is absent or does not end in time.
pub(crate) fn answer<R: io::Read>(
    command: &mut Command,
    text_of: impl FnOnce(&mut Child) -> Option<R>,
) -> Option<(ExitStatus, String)> {
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    for _ in 0..DEADLINE.as_millis() / INTERVAL.as_millis() {
        // The answer is smaller than the pipe, so the program never waits for a reader.
        if let Ok(Some(status)) = child.try_wait() {
            let mut text = String::new();
            text_of(&mut child)?.take(LONGEST_ANSWER_BYTES).read_to_string(&mut text).ok()?;
            return Some((status, text));
        }
        std::thread::sleep(INTERVAL);
    }
    let _killed = child.kill();
    let _reaped = child.wait();
    None
}

/// `nmcli tool, version 1.42.4`
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_whitespace().last()?.split('.').map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Lines `GENERAL.DEVICE:NAME`, `GENERAL.STATE:100 (connected (externally))` and `GENERAL.METERED:yes (guessed)` per device.
fn parse_devices(text: &str) -> Vec<ManagedDevice> {
    let mut devices: Vec<ManagedDevice> = Vec::new();
    for line in text.lines() {
        match (line.split_once(':'), devices.last_mut()) {
            (Some(("GENERAL.DEVICE", name)), _) => {
                devices.push(ManagedDevice { name: name.replace("\\:", ":"), ..ManagedDevice::default() });
            }
            (Some(("GENERAL.STATE", state)), Some(device)) => {
                device.is_external = state.contains("(externally)");
            }
            (Some(("GENERAL.METERED", state)), Some(device)) => {
                device.is_metered = state.starts_with("yes");
            }
            _ => {}
        }
    }
    devices
}

fn parse_metered(text: &str) -> Vec<String> {
    parse_devices(text).into_iter().filter(|device| device.is_metered).map(|device| device.name).collect()
}

/// The line `modem.3gpp.registration-state : roaming`.
fn parse_roaming(text: &str) -> bool {
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let mut states = fields.filter(|(name, _)| name.trim() == "modem.3gpp.registration-state");
    states.any(|(_, state)| state.trim() == "roaming")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roaming_modem_is_recognised() {
        let state = |state: &str| {
            format!("modem.generic.model : roaming\nmodem.3gpp.registration-state   : {state}\n")
        };
        assert!(parse_roaming(&state("roaming")));
        assert!(!parse_roaming(&state("home")) && !parse_roaming(""));
    }

    #[test]
    fn metered_interfaces_are_read() {
        let text = "GENERAL.DEVICE:eth0\nGENERAL.METERED:no (guessed)\n\nGENERAL.DEVICE:wlan0\nGENERAL.METERED:yes (guessed)\n\n\
                    GENERAL.DEVICE:wwan0\nGENERAL.METERED:yes\n\nGENERAL.DEVICE:lo\nGENERAL.METERED:unknown\n";
        assert_eq!(parse_metered(text), ["wlan0", "wwan0"]);
        assert!(parse_metered("GENERAL.METERED:yes\nError").is_empty());
    }

    /// The answer of `NetworkManager` 1.42.4.
    #[test]
    fn interfaces_that_another_program_configured_are_external() {
        let text = "GENERAL.DEVICE:eth0\nGENERAL.STATE:100 (connected)\nGENERAL.METERED:no (guessed)\n\n\
                    GENERAL.DEVICE:docker0\nGENERAL.STATE:100 (connected (externally))\nGENERAL.METERED:no (guessed)\n\n\
                    GENERAL.DEVICE:wwan0\nGENERAL.STATE:30 (disconnected)\nGENERAL.METERED:unknown\n";
        let found: Vec<_> = parse_devices(text).into_iter().map(|one| (one.name, one.is_external)).collect();
        let expected = [("eth0", false), ("docker0", true), ("wwan0", false)];
        assert_eq!(found, expected.map(|(name, is_external)| (name.to_owned(), is_external)));
    }

    #[test]
    fn the_version_is_read() {
        assert_eq!(parse_version("nmcli tool, version 1.42.4\n"), Some((1, 42)));
        assert_eq!(parse_version("nmcli tool, version 1.51.4-1.fc41\n"), Some((1, 51)));
        assert_eq!(parse_version(""), None);
    }
}
