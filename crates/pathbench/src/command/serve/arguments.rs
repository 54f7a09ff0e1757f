//! The arguments of `serve`.

use clap::{Args, Subcommand};
use pathbench_agent::client::CollectorAddress;
use pathbench_api::name::Name;
use pathbench_record::units::{Rate, Size, Span, UnitError};
use pathbench_transport::CertificateFingerprint;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, Args)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    pub(super) command: Option<ServeCommand>,
    /// Address to listen on (repeatable) [default: all addresses, IPv4 and IPv6]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(super) listen: Vec<IpAddr>,
    /// Port, TCP and UDP; 0 for one that is free
    #[arg(long, value_name = "N", default_value_t = 4433)]
    pub(super) port: u16,
    /// A further UDP port for QUIC (repeatable)
    #[arg(long = "quic-port", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) quic_ports: Vec<u16>,
    /// PEM file with the server's certificate chain, read again when it changes [default: a fresh self-signed certificate]
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(super) cert: Option<PathBuf>,
    /// PEM file with the certificate's private key
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(super) key: Option<PathBuf>,
    /// Serve clients with a token signed with the key in this file (see `pathbench serve key` and `token`)
    #[arg(long, value_name = "FILE", conflicts_with = "open")]
    pub(super) token_key: Option<PathBuf>,
    /// Refuse the tokens in this file, by their text or serial number, one a line; read again when it changes
    #[arg(long, value_name = "FILE", requires = "token_key")]
    pub(super) revoked: Option<PathBuf>,
    /// Serve all clients, within the limits
    #[arg(long)]
    pub(super) open: bool,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
    /// Answer GET /health and GET /metrics (Prometheus) over HTTP here, for a load balancer or a monitor; a loopback address is best
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) health: Option<SocketAddr>,
    #[command(flatten)]
    pub(super) report: CollectorReportArgs,
    /// Log clients' addresses
    #[arg(long)]
    pub(super) log_clients: bool,
    /// Print the addresses on stdout, and log on stderr, as JSON documents, one per line
    #[arg(long)]
    pub(super) json: bool,
    /// Log nothing
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// The collector that offers the server to agents.
#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_field_names, reason = "the flags are called so")]
pub(crate) struct CollectorReportArgs {
    /// Report the server to the collector at this URL every 10 s, so that agents can test it; needs --token-key, and the
    /// collector needs the same key
    #[arg(long, value_name = "URL", requires = "collector_name")]
    pub(super) collector: Option<CollectorAddress>,
    /// Name of the server at the collector: letters, digits, hyphens, underscores
    #[arg(long, value_name = "NAME", requires = "collector", value_parser = collector_name)]
    pub(super) collector_name: Option<Name>,
    /// PEM file with the CA that signed the collector's certificate [default: the public CAs]
    #[arg(long, value_name = "FILE", requires = "collector")]
    pub(super) collector_ca: Option<PathBuf>,
    /// SHA-256 of the collector's certificate, which then needs no CA, no name and no valid dates
    #[arg(long, value_name = "SHA256", requires = "collector", conflicts_with = "collector_ca")]
    pub(super) collector_fingerprint: Option<CertificateFingerprint>,
}

/// The name is part of a URL and of a token.
fn collector_name(text: &str) -> Result<Name, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=64).contains(&text.len()) && text.chars().all(fits) {
        Name::new(text).map_err(|error| error.to_string())
    } else {
        Err("a name has 1 to 64 letters, digits, hyphens and underscores".to_owned())
    }
}

/// Limits of one client and of all. The server refuses a test beyond them, and names the limit.
#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_field_names, reason = "the flags are called so")]
pub(crate) struct LimitArgs {
    /// Tests at the same time; the server refuses further clients with a time to retry
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) max_tests: u16,
    /// Tests of one client (an IPv4 address, an IPv6 /64) at the same time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) max_tests_per_client: u16,
    /// Payload of one test in each direction
    #[arg(long, value_name = "SIZE", default_value = "50GB")]
    pub(super) max_bytes: Size,
    /// Payload of all tests of one client in both directions in 24 hours; running tests are finished
    /// [default: unlimited]
    #[arg(long, value_name = "SIZE")]
    pub(super) max_client_bytes_per_day: Option<Size>,
    /// Payload of all tests of all clients in both directions in 24 hours; running tests are finished
    /// [default: unlimited]
    #[arg(long, value_name = "SIZE")]
    pub(super) max_bytes_per_day: Option<Size>,
    /// Duration of one test, warm-up included; 1s to 24h
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = test_duration)]
    pub(super) max_duration: Span,
    /// Rate of all tests of one client in each direction, at least 1mbit: the server paces both directions
    /// [default: unlimited]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(super) max_rate: Option<Rate>,
    /// Connections at the same time, of one client a quarter of them; every stream of a test is one
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(8..))]
    pub(super) max_connections: u16,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ServeCommand {
    /// Make a key for tokens; keep the file secret
    Key {
        /// New file for the key
        file: PathBuf,
    },
    /// Make a token, for a client to give with --token; it is printed on stdout
    Token {
        /// The server's key for tokens
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// How long it is valid, e.g. 90s, 30m, 1h, 7d
        #[arg(long, value_name = "TIME", default_value = "1h")]
        valid: Span,
        /// A name in it, for your own records
        #[arg(long, value_name = "NAME", default_value = "client")]
        name: Name,
    },
    /// Make a self-signed certificate and its key, so that the fingerprint stays the same from start to start
    Certificate {
        /// New file for the certificate
        #[arg(long, value_name = "FILE")]
        cert: PathBuf,
        /// New file for the private key
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// DNS names and addresses of the server [default: this host's name]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
}

fn address(text: &str) -> Result<IpAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().map_err(|_| {
        format!("`{text}` is not an IP address; give one of this host's (`ip address` shows them), and the port with --port")
    })
}

fn rate(text: &str) -> Result<Rate, String> {
    match text.parse::<Rate>() {
        Ok(rate) if rate.0 < 1_000_000 => Err(format!("{text} is less than 1mbit, the lowest rate")),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.to_string()),
    }
}

fn test_duration(text: &str) -> Result<Span, String> {
    let duration: Span = text.parse().map_err(|error: UnitError| error.to_string())?;
    let possible = Duration::from_secs(1)..=Duration::from_secs(86_400);
    if possible.contains(&duration.0) {
        Ok(duration)
    } else {
        Err(format!("{text} is not between 1s and 24h"))
    }
}
