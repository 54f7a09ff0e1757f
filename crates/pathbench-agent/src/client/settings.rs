//! `collector.toml`: the consent of this host's owner, the host's identity towards collectors, and the limits of the
//! agent. People read and edit the file; the program changes single lines of it and keeps everything else.

use crate::durable;
use crate::limits::OwnerLimits;
use data_encoding::HEXLOWER;
use pathbench_api::Uuid;
use pathbench_api::consent::Consent;
use pathbench_api::digest::Digest;
use pathbench_api::name::Name;
use pathbench_api::summary::NetworkKind;
use pathbench_program::exit::Failure;
use pathbench_program::random;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const FILE: &str = "pathbench/collector.toml";

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) consent: Consent,
    /// Random, made once.
    pub(crate) agent: Uuid,
    pub(crate) name: Name,
    /// The token that deletes results: its digest is in every submission, the token itself stays here until then.
    pub(crate) deletion_token: String,
    #[serde(default)]
    pub(crate) limits: OwnerLimits,
    /// Interface → operator of its network, as the owner names it.
    #[serde(default)]
    pub(crate) operators: BTreeMap<String, Name>,
    /// Interface → kind of its network, which overrides the kernel's.
    #[serde(default)]
    pub(crate) kinds: BTreeMap<String, NetworkKind>,
}

impl Settings {
    pub(crate) fn deletion_digest(&self) -> Digest {
        Digest::compute(self.deletion_token.as_bytes())
    }
}

/// The file, and what it says.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingsFile {
    pub(crate) path: PathBuf,
    /// `None` before the owner was asked.
    pub(crate) settings: Option<Settings>,
    /// The version of the file that was read; `None` if there was none.
    version: Option<Version>,
}

/// Tells a changed file from one that was read: device, inode, size, time of the last change.
type Version = (u64, u64, u64, i64, i64);

fn version(metadata: &Metadata) -> Version {
    (metadata.dev(), metadata.ino(), metadata.len(), metadata.ctime(), metadata.ctime_nsec())
}

impl SettingsFile {
    pub(crate) fn open(given: Option<&Path>) -> Result<Self, Failure> {
        let path = match given {
            Some(given) => given.to_owned(),
            None => xdg_directory("XDG_CONFIG_HOME", ".config", "/etc")?.join(FILE),
        };
        let mut file = Self { path, settings: None, version: None };
        file.read()?;
        Ok(file)
    }

    /// Reads the file again if it has changed, or `unconditionally`, and returns whether it was read. After an error nothing
    /// is consented to.
    pub(crate) fn refresh(&mut self, unconditionally: bool) -> Result<bool, Failure> {
        let found = fs::metadata(&self.path).ok().as_ref().map(version);
        if found == self.version && !unconditionally {
            return Ok(false);
        }
        self.read().map(|()| true)
    }

    fn read(&mut self) -> Result<(), Failure> {
        self.settings = None;
        // First: a file that changes while it is read is read again.
        self.version = fs::metadata(&self.path).ok().as_ref().map(version);
        let wrong = |problem: String| Failure::bad_input(format!("{}: {problem}", self.path.display()));
        self.settings = match fs::read_to_string(&self.path) {
            Ok(text) => Some(parse(&text).map_err(wrong)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(Failure::bad_input(format!("cannot read {}: {error}", self.path.display())));
            }
        };
        Ok(())
    }

    /// Records the owner's decision, with a new identity if there is none.
    pub(crate) fn decide(&mut self, consent: Consent, name: Option<&Name>) -> Result<&Settings, Failure> {
        // Another process may have made the file since it was read, and may make it now.
        self.read()?;
        if self.settings.is_none() {
            match self.put(&new_text(consent, name), durable::write_new) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                written => written.map_err(|error| self.failure("write", &error))?,
            }
            self.read()?;
        }
        if self.settings.as_ref().is_none_or(|settings| settings.consent != consent) {
            let text = fs::read_to_string(&self.path).map_err(|error| self.failure("read", &error))?;
            let text = with_line(&text, "consent", &format!("consent = \"{consent}\""));
            // An editor's other form of a line must not end in a file that cannot be read.
            parse(&text).map_err(|problem| Failure::failed(format!("{}: {problem}", self.path.display())))?;
            self.put(&text, durable::write).map_err(|error| self.failure("write", &error))?;
            self.read()?;
        }
        self.settings.as_ref().ok_or_else(|| self.failure("read", &io::ErrorKind::NotFound.into()))
    }

    fn put(&self, text: &str, write: fn(&Path, &[&[u8]]) -> io::Result<()>) -> io::Result<()> {
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        directory.map_or(Ok(()), durable::create_directory)?;
        write(&self.path, &[text.as_bytes()])
    }

    fn failure(&self, what: &str, error: &io::Error) -> Failure {
        Failure::failed(format!(
            "cannot {what} {}: {error}; name another file with --config",
            self.path.display()
        ))
    }
}

/// The directory of an XDG variable, below the home directory by default; `root` is that of the superuser.
pub(crate) fn xdg_directory(variable: &str, below_home: &str, root: &str) -> Result<PathBuf, Failure> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(directory) = named(variable) {
        return Ok(directory);
    }
    if rustix::process::geteuid().is_root() {
        return Ok(root.into());
    }
    named("HOME").map(|home| home.join(below_home)).ok_or_else(|| {
        Failure::host_cannot(format!("neither HOME nor {variable} names a directory: set one of them"))
    })
}

fn parse(text: &str) -> Result<Settings, String> {
    let settings: Settings = toml::from_str(text).map_err(|error| error.to_string())?;
    if settings.deletion_token.len() < 32 {
        return Err("`deletion_token` has fewer than 32 characters; leave the one that was made".to_owned());
    }
    Ok(settings)
}

fn new_agent() -> Uuid {
    // Version 4 and variant of RFC 9562, section 5.4.
    let mut bytes: [u8; 16] = random::bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid::from_bytes(bytes)
}

/// Replaces the line of a key before the first table, or adds it as the first line.
fn with_line(text: &str, key: &str, line: &str) -> String {
    let is_it = |one: &str| {
        let rest = one.trim_start().strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    let mut in_table = false;
    let mut is_found = false;
    let mut lines: Vec<&str> = Vec::new();
    for one in text.lines() {
        in_table |= one.trim_start().starts_with('[');
        if !in_table && !is_found && is_it(one) {
            is_found = true;
            lines.push(line);
        } else {
            lines.push(one);
        }
    }
    if !is_found {
        lines.insert(0, line);
    }
    lines.join("\n") + "\n"
}

fn new_text(consent: Consent, name: Option<&Name>) -> String {
    let [none, private, public] = Consent::ALL.map(Consent::words);
    let agent = new_agent();
    let name = name.map_or_else(|| format!("agent-{}", &agent.to_string()[..8]), Name::to_string);
    // A name can hold a quotation mark; a JSON string without surrogates is a TOML basic string.
    let name = serde_json::to_string(&name).unwrap_or_else(|_| "\"agent\"".to_owned());
    let token = HEXLOWER.encode(&random::bytes::<32>());
    format!(
        r#"# Pathbench and collectors: what may leave this host, and its limits. You may edit this file.

# none: {none}
# private: {private}
# public: {public}
consent = "{consent}"

# This host towards collectors: a random number, and a name that everybody may see.
agent = "{agent}"
name = {name}

# Secret. Who has it can delete the results of this host from a collector; `pathbench submit --delete` does.
deletion_token = "{token}"

# OwnerLimits of `pathbench agent` for the experiments of every collector. Those without a # differ from the defaults.
[limits]
# month = "5GB"               # of one interface, both directions
# execution = "1GB"           # of one execution of an experiment
# day = "2GB"                 # of all executions of a day
# executions_per_day = 48
# shortest_interval = "10m"   # between two executions of an experiment
# longest = "30m"             # of one execution
# metered = false             # whether it measures over metered networks
# roaming = false             # whether it measures while a modem is roaming
# servers = ["*.example.net", "192.0.2.0/24"]   # the only test servers; default: all on public addresses
# outbox = "256MB"            # results that wait for a collector

# Other bytes in a month, by interface
[limits.interfaces]
# wwan0 = "500MB"

# Where the host's own knowledge of its networks is wrong or missing
[limits.networks]
# metered = ["usb0"]
# unmetered = ["wwan0"]

# Operators of your networks, for the figures
[operators]
# wlan0 = "Example Telecom"

# ethernet, wifi, cellular or other, where the kernel does not know: a phone that shares its connection over USB
[kinds]
# usb0 = "cellular"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::units::Size;

    #[test]
    fn the_file_is_made_once_and_keeps_what_its_owner_writes() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config/collector.toml");
        let mut file = SettingsFile::open(Some(&path)).unwrap();
        assert!(file.settings.is_none());
        let name = Name::new("lab \"7\"").unwrap();
        let first = file.decide(Consent::Public, Some(&name)).unwrap().clone();
        assert_eq!((first.consent, &first.name), (Consent::Public, &name));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let edited =
            fs::read_to_string(&path).unwrap().replace("# month = \"5GB\" ", "month = \"1GB\" # mine");
        fs::write(&path, edited).unwrap();
        let mut again = SettingsFile::open(Some(&path)).unwrap();
        let second = again.decide(Consent::None, None).unwrap().clone();
        assert_eq!((second.agent, &second.deletion_token), (first.agent, &first.deletion_token));
        assert_eq!((second.consent, second.limits.month), (Consent::None, Size(1_000_000_000)));
        assert!(fs::read_to_string(&path).unwrap().contains("# mine"));
        assert_eq!(second.agent.get_version_num(), 4);
        for level in Consent::ALL {
            assert!(new_text(level, None).contains(level.words()), "the file says what {level} means");
        }
    }

    #[test]
    fn processes_that_make_the_file_at_the_same_time_have_one_identity() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("collector.toml");
        let early = SettingsFile::open(Some(&path)).unwrap();
        let decide = |mut file: SettingsFile, consent| file.decide(consent, None).unwrap().clone();
        let made: Vec<Settings> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    let file = early.clone();
                    scope.spawn(move || decide(file, Consent::Private))
                })
                .collect();
            threads.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let later = decide(early, Consent::Public);
        assert_eq!(later.consent, Consent::Public);
        for one in &made {
            assert_eq!((one.agent, &one.deletion_token), (later.agent, &later.deletion_token));
        }
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_broken_one_is_no_consent() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("collector.toml");
        let mut file = SettingsFile::open(Some(&path)).unwrap();
        assert!(!file.refresh(false).unwrap());
        assert!(file.refresh(true).unwrap(), "SIGHUP reads the file again");
        SettingsFile::open(Some(&path)).unwrap().decide(Consent::Public, None).unwrap();
        assert!(file.refresh(false).unwrap() && !file.refresh(false).unwrap());
        assert_eq!(file.settings.as_ref().unwrap().consent, Consent::Public);
        SettingsFile::open(Some(&path)).unwrap().decide(Consent::None, None).unwrap();
        assert!(file.refresh(false).unwrap());
        assert_eq!(file.settings.as_ref().unwrap().consent, Consent::None);
        fs::write(&path, "consent = ").unwrap();
        assert!(file.refresh(false).is_err() && file.settings.is_none());
        assert!(!file.refresh(false).unwrap() && file.settings.is_none(), "the error is reported once");
        fs::remove_file(&path).unwrap();
        assert!(file.refresh(false).unwrap() && file.settings.is_none());
    }

    #[test]
    fn mistakes_in_the_file_are_named() {
        let wrong = |text: &str| parse(text).unwrap_err();
        let good = new_text(Consent::Private, None);
        assert!(parse(&good).is_ok());
        assert!(wrong(&good.replace("\"private\"", "\"pubic\"")).contains("pubic"));
        assert!(wrong(&good.replace("[operators]", "colour = 1\n[operators]")).contains("colour"));
        assert!(wrong(&good.replace("# day = \"2GB\"", "day = \"2 stones\"")).contains("day"));
        assert!(wrong("consent = \"none\"").contains("agent"));
    }
}
