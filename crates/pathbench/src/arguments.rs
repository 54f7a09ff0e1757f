//! The arguments that `test`, `roam` and `mtu` share (the server, the transports, the output), and those of `mtu`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pathbench_program::exit::Failure;
use pathbench_record::connection::Scheduler;
use pathbench_record::file;
use pathbench_record::network::{AddressFamily, ServerName};
use pathbench_record::transport::Transport;
use pathbench_record::units::Span;
use pathbench_transport::{CertificateFingerprint, mptcp_available};
use std::path::PathBuf;

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
    /// Name in the server's certificate [default: the name in SERVER]
    #[arg(long, value_name = "NAME", conflicts_with = "fingerprint")]
    pub(crate) certificate_name: Option<String>,
    /// Encrypt tcp and mptcp as well (quic and mpquic are always encrypted)
    #[arg(long)]
    pub(crate) tls: bool,
}

impl TestServerArguments {
    /// Validates all arguments before the command sends anything, and reports all mistakes in one failure.
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
        mistakes.extend(find_repeated("--path", &self.server.interfaces));
        if let Some(file) = &self.ca
            && let Err(error) = file::read_named(file, file::SMALL_FILE_BYTES)
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

    /// Whether the server must prove its identity before anything is sent to it in clear text. Only who names neither a
    /// certificate nor a token, and no transport that needs one, does without.
    pub(crate) fn authenticates(&self, choice: &TransportChoice) -> bool {
        self.fingerprint.is_some()
            || self.ca.is_some()
            || self.certificate_name.is_some()
            || self.server.token.is_some()
            || choice.transports.iter().any(|transport| transport.is_quic())
    }

    /// The options that a self-signed certificate requires, if the user gave none of them.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        (self.fingerprint.is_none() && self.ca.is_none()).then_some(
            "without --fingerprint or --ca, a public CA (Mozilla root store) must have signed the server's certificate",
        )
    }
}

/// A mistake for each value that is given twice.
pub(crate) fn find_repeated(option: &str, values: &[String]) -> Vec<String> {
    let again = values.iter().enumerate().filter(|(index, value)| values[..*index].contains(value));
    again.map(|(_, value)| format!("{option} {value} is given twice")).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransportChoice {
    pub(crate) transports: Vec<Transport>,
    /// Whether the user named the transports.
    pub(crate) named: bool,
}

impl TransportChoice {
    pub(crate) fn new(given: &[Transport], default: &[Transport]) -> Self {
        let named = !given.is_empty();
        let wanted = if named { given } else { default };
        let all = Transport::ALL.into_iter().chain([Transport::Udp]);
        let transports = all.filter(|transport| wanted.contains(transport)).collect();
        Self { transports, named }
    }

    pub(crate) fn names(&self, transport: Transport) -> bool {
        self.named && self.transports.contains(&transport)
    }
}

pub(crate) fn transport_parser() -> impl TypedValueParser<Value = Transport> {
    PossibleValuesParser::new(Transport::ALL.map(Transport::name)).try_map(|name| name.parse::<Transport>())
}

/// As [`transport_parser`], with udp.
pub(crate) fn all_transports_parser() -> impl TypedValueParser<Value = Transport> {
    let names = Transport::ALL.into_iter().chain([Transport::Udp]).map(Transport::name);
    PossibleValuesParser::new(names.collect::<Vec<_>>()).try_map(|name| name.parse::<Transport>())
}

pub(crate) fn scheduler_parser() -> impl TypedValueParser<Value = Scheduler> {
    let known = [
        Scheduler::LowestRtt,
        Scheduler::RoundRobin,
        Scheduler::Weighted,
        Scheduler::backup(),
        Scheduler::Redundant,
    ];
    let names: Vec<&'static str> = known.iter().map(Scheduler::name).collect();
    PossibleValuesParser::new(names)
        .map(move |name| known.iter().find(|one| one.name() == name).cloned().unwrap_or_default())
}

/// The result directory, and what stdout and stderr get.
#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct OutputArguments {
    /// Directory of the result, new or empty [default: COMMAND-DATE in `$PATHBENCH_OUT`, else in pathbench-results;
    /// `mtu` writes no result without --out or `$PATHBENCH_OUT`]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print the result document as JSON instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
    /// Print live records as NDJSON (one JSON object per line) instead of the summary: each second of each run, events,
    /// figures; with `mtu`, only together with --watch
    #[arg(long, conflicts_with = "json")]
    pub(crate) json_stream: bool,
    /// Print only the headline, whether multipath was used, and problems
    #[arg(long, conflicts_with_all = ["json", "json_stream"])]
    pub(crate) brief: bool,
    /// Write no report.html and no figures
    #[arg(long)]
    pub(crate) no_report: bool,
    /// No progress on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct MtuArgs {
    /// The server: NAME, ADDRESS or HOST:PORT (IPv6 before a port in brackets)
    #[arg(value_name = "SERVER", required_unless_present = "undo")]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) connection: ServerArguments,
    /// Correct the kernel's path MTU: set the MTU of the route, and let stuck connections recover (needs `CAP_NET_ADMIN`)
    #[arg(long, conflicts_with_all = ["print", "undo"])]
    pub(crate) apply: bool,
    /// Print only the commands that correct the kernel's path MTU, and the commands that undo them
    #[arg(long, conflicts_with_all = ["undo", "json", "json_stream", "watch"])]
    pub(crate) print: bool,
    /// Undo all changes that `--apply` made since the last `--undo`, from the journal; needs no server
    #[arg(long, conflicts_with_all = ["server", "json", "json_stream", "watch", "interfaces"])]
    pub(crate) undo: bool,
    /// Undo also changes that another program has modified since
    #[arg(long, requires = "undo", conflicts_with = "server")]
    pub(crate) force: bool,
    /// File that records each change before it is made [default: mtu-journal-NAMESPACE.jsonl in
    /// /run/pathbench for root, in the user's runtime directory for others]
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// Probe continuously and print every change of a path's MTU; with `--apply`, follow it. Ends with Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Time between two probes of a path
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "watch")]
    pub(crate) interval: Span,
    /// End the watch after this time
    #[arg(long, value_name = "TIME", requires = "watch")]
    pub(crate) duration: Option<Span>,
    /// Undo the changes when the watch ends [default: they stay, until `pathbench mtu --undo`]
    #[arg(long, requires_all = ["watch", "apply"])]
    pub(crate) undo_at_end: bool,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
