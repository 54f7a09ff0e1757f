//! Loads scenarios: shipped ones and files.

use super::mistake::{did_you_mean, similar};
use pathbench_record::file;
use std::io::{self, Read};
use std::path::Path;
use thiserror::Error;

/// A scenario that ships with Pathbench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    pub name: &'static str,
    pub text: &'static str,
}

impl Builtin {
    pub fn description(&self) -> String {
        let parsed = toml::de::DeTable::parse(self.text);
        let table = parsed.ok().map(toml::Spanned::into_inner);
        table
            .as_ref()
            .and_then(|table| table.get("description"))
            .and_then(|value| value.get_ref().as_str())
            .unwrap_or_default()
            .to_owned()
    }
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(Builtin { name: $name, text: include_str!(concat!("../../../../scenarios/", $name, ".toml")) }),*]
    };
}

/// The scenarios that ship with Pathbench.
pub fn builtin() -> &'static [Builtin] {
    shipped![
        "hello",
        "stable",
        "failover",
        "blackhole",
        "low-rate-return",
        "dead-first-path",
        "aggregate-2x10g",
        "walk-away",
        "walk-back",
        "elevator",
        "abrupt",
        "bufferbloat",
        "limits-receive-window",
        "limits-send-buffer",
        "limits-application",
        "limits-processor",
        "limits-shared-bottleneck",
        "limits-head-of-line",
        "ipv6-wifi-ipv4-cellular",
        "mtu-tcp",
        "mtu-mixed",
        "mtu-probing",
        "mtu-base-mss",
        "mtu-shrink",
        "simult-flows-10-10",
        "simult-flows-10-10-delay",
        "simult-flows-10-3",
        "simult-flows-10-3-delay",
        "simult-flows-10-3-swapped",
        "tutorial-aggregation",
        "tutorial-scheduler",
        "tutorial-bottleneck",
        "tutorial-quic",
        "broken-mptcp-off",
        "broken-server-tcp",
        "broken-limits",
        "broken-no-endpoint",
        "broken-no-source-rule",
        "broken-rp-filter",
        "broken-strip-mp-capable",
        "broken-strip-mp-join",
        "broken-strip-dss",
        "broken-rewrite-payload",
        "broken-udp",
        "broken-mtu",
        "broken-small-buffers",
        "broken-address-family",
        "broken-nat-announcement",
        "broken-foreign-endpoints",
        "broken-unconfigured",
        "datagrams",
    ]
}

/// The text of a scenario and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioSource {
    /// `builtin`, or the path of the file.
    pub origin: String,
    pub file: String,
    pub text: String,
}

impl ScenarioSource {
    /// A scenario with the given text, as if it were in `file`.
    pub fn from_text(file: impl Into<String>, text: impl Into<String>) -> Self {
        let file = file.into();
        Self { origin: file.clone(), file, text: text.into() }
    }
}

/// A scenario could not be read.
#[derive(Debug, Error)]
pub enum LoadError {
    #[error(
        "there is no scenario `{name}`;{} `pathbench lab list` lists the shipped ones; a file is given by its path, as in \
         ./{name}.toml",
        did_you_mean(suggestions).map(|question| format!(" {question}")).unwrap_or_default()
    )]
    Unknown { name: String, suggestions: Vec<&'static str> },
    #[error("cannot read the scenario {path}: {source}")]
    Unreadable { path: String, source: io::Error },
    #[error("the scenario {path} is not UTF-8 text; is it a TOML file?")]
    NotText { path: String },
    #[error("the scenario {path} has more than {LARGEST_BYTES} bytes; is it a TOML file?")]
    TooLarge { path: String },
}

/// Maximum size of a scenario; a larger file is not a scenario.
const LARGEST_BYTES: u64 = 1 << 20;

/// Loads a scenario: a shipped one by its name, else a file by its path. An argument is a path if it contains `/`, ends
/// in `.toml`, or names a file.
pub fn load(name_or_path: &str) -> Result<ScenarioSource, LoadError> {
    if let Some(shipped) = builtin().iter().find(|shipped| shipped.name == name_or_path) {
        let file = format!("scenarios/{}.toml", shipped.name);
        return Ok(ScenarioSource { origin: "builtin".to_owned(), file, text: shipped.text.to_owned() });
    }
    let is_path = name_or_path.contains('/')
        || Path::new(name_or_path).extension().is_some_and(|extension| extension == "toml")
        || Path::new(name_or_path).is_file();
    if is_path {
        return Ok(ScenarioSource::from_text(name_or_path, read(name_or_path)?));
    }
    let known: Vec<&'static str> = builtin().iter().map(|shipped| shipped.name).collect();
    Err(LoadError::Unknown { name: name_or_path.to_owned(), suggestions: similar(name_or_path, &known) })
}

fn read(path: &str) -> Result<String, LoadError> {
    let unreadable = |source| LoadError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    // Limit the read, because the size of a pipe or device is unknown.
    file::open_named(path)
        .and_then(|file| file.take(LARGEST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST_BYTES {
        return Err(LoadError::TooLarge { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|_| LoadError::NotText { path: path.to_owned() })
}
