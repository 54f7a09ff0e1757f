//! The scaffold of `test`, `roam` and `mtu`: arguments for the server and the output, interrupts, progress, the result
//! directory and its end.

use crate::client::discovery::Reached;
use crate::client::server::ServerName;
use crate::clock::unix_seconds;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::{output, random, report, signals};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pathbench_host::kernel;
use pathbench_record::calendar::rfc3339_from_unix;
use pathbench_record::connection::Scheduler;
use pathbench_record::directory::{ResultWriter, default_directory_name};
use pathbench_record::document::{AddressFamily, HostRecord, ResultDocument, ScenarioRecord};
use pathbench_record::transport::Transport;
use pathbench_transport::{CertificateFingerprint, mptcp_available};
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Names the directory in which each result gets a directory of its own.
const PARENT_VARIABLE: &str = "PATHBENCH_OUT";
/// The same in the current directory, where the variable is not set.
const DEFAULT_PARENT: &str = "pathbench-results";

/// All transports, each single-path transport before the multipath transport of the same protocol.
pub(crate) const TRANSPORTS: [Transport; 4] =
    [Transport::Tcp, Transport::Mptcp, Transport::Quic, Transport::Mpquic];

/// The server's port, the token and the paths to the server.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArguments {
    /// Port of the server, TCP and UDP
    #[arg(long, value_name = "N", default_value_t = 4433, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Token from the server's operator, where the server requires one
    #[arg(long, value_name = "T", env = "PATHBENCH_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// An interface to use, the preferred one first (repeatable) [default: all that have a route to the server]
    #[arg(long = "path", value_name = "IFACE")]
    pub(crate) interfaces: Vec<String>,
    /// Use IPv4 only
    #[arg(short = '4', long = "ipv4", conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long = "ipv6")]
    pub(crate) ipv6: bool,
}

impl ServerArguments {
    /// The address family to use; both when absent.
    pub(crate) const fn family(&self) -> Option<AddressFamily> {
        match (self.ipv4, self.ipv6) {
            (true, _) => Some(AddressFamily::Ipv4),
            (_, true) => Some(AddressFamily::Ipv6),
            _ => None,
        }
    }
}

/// Ports, encryption and the server's certificate, for commands that run tests.
#[derive(Debug, Clone, Args)]
pub(crate) struct TestServerArguments {
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    /// A further UDP port to try QUIC on (repeatable)
    #[arg(long = "quic-port", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) quic_ports: Vec<u16>,
    /// SHA-256 of the server's certificate, as `pathbench serve` prints it [default: trust the public CAs]
    #[arg(long, value_name = "HEX", conflicts_with = "ca")]
    pub(crate) fingerprint: Option<CertificateFingerprint>,
    /// PEM file with the CA that signed the server's certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Encrypt tcp and mptcp as well (quic and mpquic are always encrypted)
    #[arg(long)]
    pub(crate) tls: bool,
}

impl TestServerArguments {
    /// Checks all that can be wrong before the command sends anything, and collects it into one failure.
    pub(crate) fn validate<P>(
        &self,
        servers: &[String],
        plan: Result<P, Vec<String>>,
        transports: impl FnOnce(&P) -> &TransportChoice,
    ) -> Result<(P, Vec<ServerName>), Failure> {
        let mut mistakes = Vec::new();
        let mut names = Vec::new();
        for given in servers {
            match ServerName::parse(given, self.server.port) {
                Ok(name) => names.push(name),
                Err(mistake) => mistakes.push(mistake),
            }
        }
        mistakes.extend(plan.as_ref().err().into_iter().flatten().cloned());
        mistakes.extend(repeated("--path", &self.server.interfaces));
        if let Some(file) = &self.ca
            && let Err(error) = fs::read(file)
        {
            mistakes.push(format!("--ca {}: {error}", file.display()));
        }
        let (Ok(plan), true) = (plan, mistakes.is_empty()) else {
            return Err(Failure::bad_input(mistakes.join("\n")));
        };
        if transports(&plan).names(Transport::Mptcp) {
            mptcp_available().map_err(Failure::host_cannot)?;
        }
        Ok((plan, names))
    }

    /// The flags that a self-signed certificate requires, where the user gave none of them.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        (self.fingerprint.is_none() && self.ca.is_none()).then_some(
            "without --fingerprint or --ca, a public CA (Mozilla root store) must have signed the server's certificate",
        )
    }
}

/// A mistake for each value that occurs twice.
pub(crate) fn repeated(option: &str, values: &[String]) -> Vec<String> {
    let again = values.iter().enumerate().filter(|(index, value)| values[..*index].contains(value));
    again.map(|(_, value)| format!("{option} {value} is given twice")).collect()
}

/// The transports to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransportChoice {
    pub(crate) transports: Vec<Transport>,
    /// The user named them.
    pub(crate) named: bool,
}

impl TransportChoice {
    pub(crate) fn new(given: &[Transport], default: &[Transport]) -> Self {
        let named = !given.is_empty();
        let wanted = if named { given } else { default };
        let transports = TRANSPORTS.into_iter().filter(|transport| wanted.contains(transport)).collect();
        Self { transports, named }
    }

    /// Whether the user named this transport.
    pub(crate) fn names(&self, transport: Transport) -> bool {
        self.named && self.transports.contains(&transport)
    }
}

pub(crate) fn transport_parser() -> impl TypedValueParser<Value = Transport> {
    PossibleValuesParser::new(TRANSPORTS.map(Transport::name)).try_map(|name| name.parse::<Transport>())
}

pub(crate) fn scheduler_parser() -> impl TypedValueParser<Value = Scheduler> {
    let known = [Scheduler::LowestRtt, Scheduler::RoundRobin, Scheduler::Weighted, Scheduler::backup()];
    let names: Vec<&'static str> = known.iter().map(Scheduler::name).collect();
    PossibleValuesParser::new(names)
        .map(move |name| known.iter().find(|one| one.name() == name).cloned().unwrap_or_default())
}

/// The result directory, and what stdout and stderr get.
#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct OutputArguments {
    /// Directory of the result, new or empty [default: COMMAND-DATE in `$PATHBENCH_OUT`, else in pathbench-results;
    /// `mtu` writes no result without --out or `$PATHBENCH_OUT`]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print the result document as JSON instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
    /// Write no report.html and no figures
    #[arg(long)]
    pub(crate) no_report: bool,
    /// No progress on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// One call of a command that measures.
pub(crate) struct Session {
    name: &'static str,
    /// Set by the first interrupt.
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) progress: Progress,
    pub(crate) document: ResultDocument,
    output: OutputArguments,
    directory: Option<PathBuf>,
}

impl Session {
    /// From here on an interrupt sets `stop`. `options` are the options that differ from their defaults.
    pub(crate) fn begin(
        name: &'static str,
        output: &OutputArguments,
        seed: Option<u64>,
        options: Map<String, Value>,
    ) -> Self {
        let mut document =
            ResultDocument { seed: seed.unwrap_or_else(random::seed), ..ResultDocument::default() };
        document.host = host_record("user", rfc3339_from_unix(unix_seconds() as i64));
        document.scenario = ScenarioRecord {
            name: name.to_owned(),
            origin: "command line".to_owned(),
            overrides: options,
            ..ScenarioRecord::default()
        };
        Self {
            name,
            stop: signals::stop_flag(),
            progress: Progress::new(output.quiet),
            document,
            output: output.clone(),
            directory: None,
        }
    }

    /// Creates the result directory, before anything is sent: a command that cannot write must not measure for minutes.
    pub(crate) fn create_result(&mut self) -> Result<ResultWriter, Failure> {
        let writer = create_result(self.output.out.as_deref(), self.name, &self.document.host.started)?;
        self.directory = Some(writer.path().to_owned());
        Ok(writer)
    }

    /// Whether the user or the environment names a directory for results.
    pub(crate) fn has_place_for_result(&self) -> bool {
        self.output.out.is_some() || parent_of_results().is_some()
    }

    /// Enters the server that discovery reached; `description` is the command's one-line title.
    pub(crate) fn record_server(&mut self, reached: &Reached, description: &str) {
        self.document.servers.clone_from(&reached.servers);
        self.document.reachability.clone_from(&reached.reachability);
        self.document.scenario.description = format!("{description} {}", reached.server);
    }

    /// Enters notes that a reader needs before the figures.
    pub(crate) fn record_notes(&mut self, notes: Vec<String>) {
        for note in &notes {
            self.progress.line(format_args!("note: {note}"));
        }
        self.document.summary.notes = notes;
    }

    /// Writes the report and prints the summary or the document. A command that failed before it measured anything
    /// leaves no directory.
    pub(crate) fn finish(mut self, measured: Result<Exit, Failure>) -> Result<Exit, Failure> {
        self.progress.end();
        let is_empty = self.document.runs.is_empty();
        let exit = measured.inspect_err(|_| {
            if let Some(directory) = self.directory.as_deref().filter(|_| is_empty) {
                let _never_written = fs::remove_file(directory.join("run.partial.json"));
                remove_empty(directory);
            }
        })?;
        let Some(directory) = self.directory.filter(|_| !is_empty) else {
            return output::check().map(|()| exit);
        };
        report::present(&directory, self.output.json, self.output.no_report)?;
        Ok(exit)
    }
}

/// The directory that `PATHBENCH_OUT` names.
fn parent_of_results() -> Option<PathBuf> {
    std::env::var_os(PARENT_VARIABLE).filter(|parent| !parent.is_empty()).map(PathBuf::from)
}

/// The directory of a result or comparison where `--out` names none.
pub(crate) fn default_directory(name: &str, started: &str) -> PathBuf {
    let parent = parent_of_results().unwrap_or_else(|| DEFAULT_PARENT.into());
    default_directory_name(&parent, name, started)
}

/// Creates the directory of the command or scenario `name` that started at `started` (RFC 3339): `out`, or a directory
/// of its own beside other results.
pub(crate) fn create_result(out: Option<&Path>, name: &str, started: &str) -> Result<ResultWriter, Failure> {
    match out {
        Some(out) => ResultWriter::create(out),
        None => ResultWriter::create_beside(&default_directory(name, started)),
    }
    .map_err(Failure::bad_input)
}

/// This machine; `privilege` is the command's.
pub(crate) fn host_record(privilege: &str, started: String) -> HostRecord {
    HostRecord {
        kernel: kernel::release().text,
        machine: rustix::system::uname().machine().to_string_lossy().into_owned(),
        cpus: kernel::cpu_count() as u32,
        memory_bytes: kernel::memory_bytes(),
        pathbench: env!("CARGO_PKG_VERSION").to_owned(),
        privilege: privilege.to_owned(),
        started,
        default_congestion: kernel::default_congestion_control().unwrap_or_default(),
        processors_awake: false,
    }
}

/// Removes a result directory whose files are all empty.
pub(crate) fn remove_empty(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0) {
            let _stays = fs::remove_file(entry.path());
        }
    }
    let _not_empty = fs::remove_dir(directory);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_given_twice_is_a_mistake() {
        let paths = ["eth0", "wlan0", "eth0"].map(str::to_owned);
        assert_eq!(repeated("--path", &paths), ["--path eth0 is given twice"]);
        assert!(repeated("--path", &paths[..2]).is_empty());
    }
}
